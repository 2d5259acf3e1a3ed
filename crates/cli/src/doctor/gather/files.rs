//! Files and folders that the settings name.

use crate::admin_client::certificates;
use crate::doctor::facts::{CERTIFICATE_DAYS, CertificateState, FileFact, FileState, Need};
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, Error};
use shoal_proxy::admin::PinVerifier;
use shoal_settings::{AdminAddress, Certificate, Rule, Settings};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Looks at each file, that of the settings first.
pub(super) fn files(settings: &Settings, own: Option<&Path>) -> Vec<FileFact> {
    let mut list = FileList::default();
    list.add("settings".into(), own, Need::Read);
    of_clients(settings, &mut list);
    of_origins(settings, &mut list);
    of_operation(settings, &mut list);
    debug_assert!(list.0.iter().all(|(setting, ..)| !setting.is_empty()), "each file has a setting");
    list.0.into_iter().map(fact).collect()
}

/// Files by setting.
#[derive(Default)]
struct FileList(Vec<(String, PathBuf, Need)>);

impl FileList {
    fn add(&mut self, setting: String, path: Option<&Path>, need: Need) {
        if let Some(path) = path.filter(|path| !path.as_os_str().is_empty()) {
            self.0.push((setting, path.into(), need));
        }
    }

    fn add_pairs(&mut self, setting: &str, pairs: &[Certificate]) {
        for (at, pair) in pairs.iter().enumerate() {
            self.add(format!("{setting}[{at}].certificate"), Some(&pair.certificate), Need::Read);
            self.add(format!("{setting}[{at}].key"), Some(&pair.key), Need::Secret);
        }
    }

    fn add_rules(&mut self, setting: &str, rules: &[Rule]) {
        for (at, rule) in rules.iter().enumerate() {
            self.add(format!("{setting}[{at}].error_page"), rule.error_page.as_deref(), Need::Read);
            self.add(format!("{setting}[{at}].users_file"), rule.users_file.as_deref(), Need::Secret);
        }
    }

    /// Adds the folder in which a file is made.
    fn add_folder_of(&mut self, setting: &str, path: &Path) {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
        self.add(setting.into(), path.parent(), Need::WriteIn);
    }
}

fn of_clients(settings: &Settings, list: &mut FileList) {
    for (at, listen) in settings.listen.iter().enumerate() {
        list.add_pairs(&format!("listen[{at}].tls"), &listen.tls);
        for (number, certificate) in listen.acme.iter().enumerate() {
            let file = certificate.file(&settings.acme.folder);
            list.add(format!("listen[{at}].acme[{number}].certificate"), Some(&file), Need::Ordered);
        }
        list.add(format!("listen[{at}].client_ca"), listen.client_ca.as_deref(), Need::Read);
        list.add(format!("listen[{at}].users_file"), listen.users_file.as_deref(), Need::Secret);
    }
    if !settings.acme.directory.is_empty() {
        list.add("acme.ca_file".into(), settings.acme.ca_file.as_deref(), Need::Read);
        list.add("acme.binding_key_file".into(), settings.acme.binding_key_file.as_deref(), Need::Secret);
        let folder = std::path::absolute(&settings.acme.folder).unwrap_or_default();
        // The node makes a folder that is not there.
        let there = folder.ancestors().find(|path| path.exists());
        list.add("acme.folder".into(), there, Need::WriteIn);
    }
    list.add("forward.users_file".into(), settings.forward.users_file.as_deref(), Need::Secret);
    list.add_rules("rule", &settings.rule);
    for (at, site) in settings.site.iter().enumerate() {
        list.add_rules(&format!("site[{at}].rule"), &site.rule);
    }
}

fn of_origins(settings: &Settings, list: &mut FileList) {
    for (at, site) in settings.site.iter().enumerate() {
        for (number, upstream) in site.upstreams.iter().enumerate() {
            let setting = format!("site[{at}].upstreams[{number}].credentials");
            list.add(setting, upstream.credentials.as_deref(), Need::Secret);
        }
    }
    for (at, mirror) in settings.mirror.iter().enumerate() {
        list.add(format!("mirror[{at}].credentials"), mirror.credentials.as_deref(), Need::Secret);
        list.add(format!("mirror[{at}].ca_file"), mirror.ca_file.as_deref(), Need::Read);
    }
    for (at, neighbour) in settings.neighbour.iter().enumerate() {
        list.add(format!("neighbour[{at}].credentials"), neighbour.credentials.as_deref(), Need::Secret);
    }
    let upstream = &settings.upstream;
    list.add("upstream.ca_file".into(), upstream.ca_file.as_deref(), Need::Read);
    list.add("upstream.pinned_certificates".into(), upstream.pinned_certificates.as_deref(), Need::Read);
    let key = settings.neighbours.htcp_key_file.as_deref();
    list.add("neighbours.htcp_key_file".into(), key, Need::Secret);
    if settings.intercept.is_on() {
        let key = settings.intercept.authority.join(shoal_intercept::authority::KEY);
        list.add("intercept.authority".into(), Some(&key), Need::Secret);
    }
}

fn of_operation(settings: &Settings, list: &mut FileList) {
    let admin = &settings.admin;
    for (at, user) in admin.users.iter().enumerate() {
        list.add(format!("admin.users[{at}].password_file"), user.password_file.as_deref(), Need::Secret);
    }
    list.add_pairs("admin.tls", &admin.tls);
    if let Some(AdminAddress::Unix(path)) = &admin.listen {
        list.add_folder_of("admin.listen", path);
    }
    list.add("cluster.key_file".into(), settings.cluster.key_file.as_deref(), Need::Secret);
    if !["", "none", "stdout"].contains(&settings.log.access.as_str()) {
        list.add_folder_of("log.access", Path::new(&settings.log.access));
    }
    for (at, disk) in settings.store.all_disks().iter().enumerate() {
        let setting = match settings.store.disks.is_empty() {
            true => "store.directory".to_owned(),
            false => format!("store.disks[{at}].path"),
        };
        let path = std::path::absolute(&disk.path).unwrap_or_else(|_| disk.path.clone());
        // The node makes a folder that is not there. A device is no folder.
        let there = path.ancestors().find(|path| path.exists());
        list.add(setting, there.filter(|path| path.is_dir()), Need::WriteIn);
    }
}

fn fact((setting, path, need): (String, PathBuf, Need)) -> FileFact {
    let state = match std::fs::metadata(&path) {
        Ok(data) => FileState::There {
            mode: data.mode() & 0o7777,
            uid: data.uid(),
            gid: data.gid(),
            is_folder: data.is_dir(),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => FileState::Absent,
        Err(error) => FileState::Hidden(error.to_string()),
    };
    let is_certificate = setting.ends_with(".certificate");
    let read = is_certificate.then(|| certificates(&path).ok()?.into_iter().next()).flatten();
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let certificate = read.map(|certificate| lifetime(&certificate, since)).unwrap_or_default();
    FileFact { setting, path, need, state, certificate }
}

/// Returns the state of a certificate at `now`, since 1970.
fn lifetime(certificate: &CertificateDer<'static>, now: Duration) -> CertificateState {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = PinVerifier::new(vec![certificate.clone()], None, provider);
    let name = ServerName::try_from("name.invalid").expect("a name");
    // The dates are judged before the name, which is another one.
    let at = |time: Duration| {
        let time = UnixTime::since_unix_epoch(time);
        verifier.verify_server_cert(certificate, &[], &name, &[], time).err()
    };
    let soon = now + Duration::from_secs(CERTIFICATE_DAYS * 86_400);
    let is_ended = |error: Option<Error>| {
        let ended = Error::InvalidCertificate(CertificateError::Expired);
        error == Some(ended)
    };
    match at(now) {
        Some(Error::InvalidCertificate(CertificateError::NotValidYet)) => CertificateState::NotYet,
        error if is_ended(error.clone()) => CertificateState::Ended,
        _ if is_ended(at(soon)) => CertificateState::EndsSoon,
        _ => CertificateState::Sound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_of_certificates_are_judged() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut params = rcgen::CertificateParams::new(vec!["a.test".into()]).expect("parameters");
        (params.not_before, params.not_after) =
            (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(2020, 3, 1));
        let certificate = params.self_signed(&key).expect("a certificate").der().clone();
        let at = |days: u64| lifetime(&certificate, Duration::from_secs((18_262 + days) * 86_400));
        assert_eq!(
            (at(10), at(50), at(70)),
            (CertificateState::Sound, CertificateState::EndsSoon, CertificateState::Ended)
        );
        assert_eq!(lifetime(&certificate, Duration::from_secs(1)), CertificateState::NotYet);
    }

    #[test]
    fn every_file_of_the_settings_is_listed() {
        let text = "[[listen]]\naddress = '127.0.0.1:1'\nmode = 'forward'\ntls = [{ certificate = '/c', key = '/k' }]\nusers_file = '/u'\nacme = [{ names = ['a.test'] }]\n\
                    [acme]\ndirectory = 'https://ca.test/'\nterms_agreed = true\nfolder = '/orders'\nchallenge = 'tls-alpn-01'\n\
                    binding_id = 'x'\nbinding_key_file = '/orders-key'\n\
                    [admin]\nlisten = 'unix:/run/x/a.sock'\nusers = [{ name = 'a', password_file = '/p' }]\n\
                    [cluster]\nkey_file = '/ck'\n[upstream]\nca_file = '/ca'\n[log]\naccess = '/var/log/x/a.log'\n[store]\ndirectory = '/'\n";
        let settings = Settings::parse(text, "f").expect("sound");
        let found: Vec<_> = files(&settings, Some(Path::new("/etc/x.toml")))
            .into_iter()
            .map(|file| (file.path.display().to_string(), file.need))
            .collect();
        let ordered = settings.listen[0].acme[0].file(Path::new("/orders"));
        for (path, need) in [
            (ordered.to_str().expect("ASCII"), Need::Ordered),
            ("/orders-key", Need::Secret),
            ("/etc/x.toml", Need::Read),
            ("/c", Need::Read),
            ("/k", Need::Secret),
            ("/u", Need::Secret),
            ("/p", Need::Secret),
            ("/run/x", Need::WriteIn),
            ("/ck", Need::Secret),
            ("/ca", Need::Read),
            ("/var/log/x", Need::WriteIn),
            ("/", Need::WriteIn),
        ] {
            assert!(found.contains(&(path.to_owned(), need)), "{path}: {found:?}");
        }
    }
}
