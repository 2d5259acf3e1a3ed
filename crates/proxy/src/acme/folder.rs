//! Files of the orders: `lock`, `account-NUMBER.json`, `NAME-NUMBER.pem` and `NAME-NUMBER.json`.
//!
//! Each file is for the node's user alone, and is replaced by one rename after its bytes are on
//! disk. A process that is killed leaves the old file or the new one.

use rustix::fs::{FlockOperation, flock};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};
use shoal_acme::{Attempts, CertificateFacts};
use shoal_core::Key;
use shoal_settings::AcmeCertificate;
use shoal_store::fs::private;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Folder of the orders, held by one process at a time.
pub(super) struct Folder {
    path: PathBuf,
    /// Keeps other processes away until it is closed.
    _lock: File,
}

/// Times of attempts, as kept.
#[derive(Default, Serialize, Deserialize)]
struct KeptAttempts {
    failures: u32,
    wait_until: u64,
    /// Directory of the authority that was asked; empty in files of earlier versions.
    #[serde(default)]
    directory: String,
}

impl Folder {
    /// Makes an absent folder, and takes it.
    ///
    /// # Errors
    /// If another process holds it, or it cannot be written to.
    pub fn take(path: &Path) -> io::Result<Self> {
        private::folder(path)?;
        only_ours(path)?;
        let lock = private::file(&path.join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { path: path.into(), _lock: lock })
    }

    /// Returns the dates and numbers of the certificate in the folder; `None` if there is none that
    /// can be read.
    pub fn certificate(&self, certificate: &AcmeCertificate) -> Option<CertificateFacts> {
        let text = self.read(&certificate.file(&self.path)).ok()?;
        let leaf = CertificateDer::pem_slice_iter(&text).next()?.ok()?;
        CertificateFacts::read(&leaf)
    }

    /// Puts key and chain in the place of the earlier ones.
    ///
    /// # Errors
    /// If the disk does not take them.
    pub fn put_certificate(&self, certificate: &AcmeCertificate, pem: &str) -> io::Result<()> {
        self.put(&certificate.file(&self.path), pem.as_bytes())
    }

    /// Returns the times of earlier attempts at this directory; `None` if the last one was at
    /// another. Without a file that can be read there was none.
    pub fn attempts(&self, certificate: &AcmeCertificate, directory: &str) -> Option<Attempts> {
        let read = self.read(&self.path.join(format!("{}.json", certificate.stem())));
        let kept = read.ok().and_then(|text| serde_json::from_slice::<KeptAttempts>(&text).ok());
        let kept = kept.unwrap_or_default();
        let is_here = kept.directory.is_empty() || kept.directory == directory;
        is_here.then_some(Attempts { failures: kept.failures, wait_until: kept.wait_until })
    }

    /// Keeps the times of attempts at this directory.
    ///
    /// # Errors
    /// If the disk does not take them.
    pub fn put_attempts(
        &self,
        certificate: &AcmeCertificate,
        directory: &str,
        attempts: Attempts,
    ) -> io::Result<()> {
        let Attempts { failures, wait_until } = attempts;
        let kept = KeptAttempts { failures, wait_until, directory: directory.into() };
        let text = serde_json::to_vec(&kept).map_err(io::Error::other)?;
        self.put(&self.path.join(format!("{}.json", certificate.stem())), &text)
    }

    /// Returns the kept account at this directory, as the library writes it.
    pub fn account(&self, directory: &str) -> Option<Vec<u8>> {
        self.read(&self.account_file(directory)).ok()
    }

    /// Keeps the account at this directory.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub fn put_account(&self, directory: &str, text: &[u8]) -> io::Result<()> {
        self.put(&self.account_file(directory), text)
    }

    /// Puts the account aside, which the authority does not know any more.
    pub fn drop_account(&self, directory: &str) {
        let file = self.account_file(directory);
        if let Err(error) = fs::rename(&file, file.with_extension("old")) {
            tracing::error!(%error, "the account of a certificate authority stays");
        }
    }

    fn account_file(&self, directory: &str) -> PathBuf {
        self.path.join(format!("account-{:016x}.json", Key::unkeyed(directory.as_bytes()).low()))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        private::existing(path)?.take(FILE_MAX).read_to_end(&mut text)?;
        Ok(text)
    }

    fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(bytes.len() as u64 <= FILE_MAX, "a file is read as a whole");
        debug_assert_eq!(path.parent(), Some(&*self.path), "files stay in the folder");
        let next = path.with_extension("next");
        let mut file = private::emptied(&next)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&next, path)?;
        File::open(&self.path)?.sync_all()
    }
}

/// Refuses a folder in which another user may put files: the keys would be written into them.
fn only_ours(path: &Path) -> io::Result<()> {
    let folder = fs::metadata(path)?;
    let is_ours = [rustix::process::geteuid().as_raw(), 0].contains(&folder.uid());
    match is_ours && folder.mode() & OTHERS_WRITE == 0 {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "others may write to this folder, and keys are kept in it; set its owner and mode, or \
             acme.folder",
        )),
    }
}

/// Rights of group and others to write.
const OTHERS_WRITE: u32 = 0o022;

/// Longest file, in bytes.
const FILE_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn certificate(names: &[&str]) -> AcmeCertificate {
        AcmeCertificate { names: names.iter().map(ToString::to_string).collect() }
    }

    #[test]
    fn folder_that_others_may_write_to_is_refused() {
        let home = tempfile::tempdir().expect("a folder");
        for (mode, is_taken) in [(0o700, true), (0o755, true), (0o775, false), (0o777, false)] {
            fs::set_permissions(home.path(), fs::Permissions::from_mode(mode)).expect("ours");
            assert_eq!(Folder::take(home.path()).is_ok(), is_taken, "{mode:o}");
        }
    }

    #[test]
    fn files_are_kept_for_one_user() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("acme");
        let one = certificate(&["a.test"]);
        let folder = Folder::take(&path).expect("free");
        assert!(Folder::take(&path).is_err(), "it is held");
        let ca = "https://ca.test/";
        assert_eq!(folder.attempts(&one, ca), Some(Attempts::default()));
        let attempts = Attempts { failures: 3, wait_until: 77 };
        folder.put_attempts(&one, ca, attempts).expect("room");
        folder.put_account("https://ca.test/", b"{}").expect("room");
        folder.put_certificate(&one, "no certificate").expect("room");
        assert_eq!(folder.certificate(&one), None);
        assert_eq!(folder.account("https://ca.test/").as_deref(), Some(&b"{}"[..]));
        assert_eq!(folder.account("https://other.test/"), None);
        for entry in fs::read_dir(&path).expect("made") {
            let entry = entry.expect("made");
            let mode = entry.metadata().expect("made").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{:?}", entry.path());
        }
        drop(folder);
        let folder = Folder::take(&path).expect("free again");
        assert_eq!(folder.attempts(&one, ca), Some(attempts));
        assert_eq!(folder.attempts(&one, "https://other.test/"), None, "its waits do not count there");
        assert_eq!(folder.attempts(&certificate(&["b.test"]), ca), Some(Attempts::default()));
        let before = path.join(format!("{}.json", one.stem()));
        fs::write(before, br#"{"failures":2,"wait_until":9}"#).expect("room");
        let of_before = Attempts { failures: 2, wait_until: 9 };
        assert_eq!(folder.attempts(&one, ca), Some(of_before), "as an earlier version wrote it");
        folder.drop_account("https://ca.test/");
        assert_eq!(folder.account("https://ca.test/"), None);
    }

    #[test]
    fn certificates_are_read_back() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = Folder::take(home.path()).expect("free");
        let one = certificate(&["a.test"]);
        let key = rcgen::KeyPair::generate().expect("a key");
        let made = rcgen::CertificateParams::new(one.names.clone()).expect("names").self_signed(&key);
        let pem = key.serialize_pem() + &made.expect("a certificate").pem();
        folder.put_certificate(&one, &pem).expect("room");
        assert!(folder.certificate(&one).expect("it is there").not_after > 4_000_000_000);
    }
}
