//! The authority of interception: a root without a key, and one intermediate for listed names.
//!
//! ```text
//!   root.pem          trusted by clients; its key was thrown away when it had signed once
//!     └─ intermediate.pem + intermediate.key    names: only the listed hosts and hosts below them;
//!          │                                    no addresses
//!          └─ leaves, signed while the node runs
//! ```
//!
//! RFC 5280 section 6.2 lets verifiers ignore constraints of a trust anchor, so that they stand in
//! the intermediate, where section 6.1 has them checked. A thief of the key can therefore sign for
//! the listed hosts alone. New hosts need a new root.

use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints, SerialNumber,
};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Authority that was read from its folder.
pub struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    intermediate: CertificateDer<'static>,
    verifier: Arc<WebPkiServerVerifier>,
    /// Key of all leaves of this process.
    leaf_key: KeyPair,
}

/// Reason for which an authority cannot be made or used.
#[derive(Debug)]
#[non_exhaustive]
pub enum AuthorityError {
    /// A file of the folder, and the reason.
    File(PathBuf, String),
    /// The key file, which other users of this machine may read or write.
    Exposed(PathBuf),
    /// A host that the authority may not sign for, and the reason.
    Constraint(String, String),
    /// A host that is no name.
    Host(String),
    /// An authority that may sign for other hosts, such as this one.
    Unbound(PathBuf, String),
    /// A failure to sign.
    Sign(String),
    /// A failure to prepare handshakes.
    Tls(String),
}

/// Makes an authority for `hosts` in a new folder: names, or `*.suffix`.
///
/// # Errors
/// If the folder holds an authority already, or cannot be written.
pub fn create(folder: &Path, hosts: &[String]) -> Result<(), AuthorityError> {
    // An empty name in the constraints would permit every name.
    if hosts.is_empty() || hosts.iter().any(|host| host.trim_start_matches("*.").is_empty()) {
        return Err(AuthorityError::Host("an authority needs at least one host, and no empty one".into()));
    }
    let key = KeyPair::generate().map_err(fault)?;
    let number = number_of(&key);
    let root = {
        // This key signs twice, the root and the intermediate, and is then gone.
        let root_key = KeyPair::generate().map_err(fault)?;
        let mut params = authority_params(&format!("Shoal interception root {number}"), 1)?;
        let root = params.self_signed(&root_key).map_err(fault)?;
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = Issuer::new(params, root_key);
        let mut params = authority_params(&intermediate_name(&number), 0)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.name_constraints = Some(constraints(hosts));
        (root.pem(), params.signed_by(&key, &issuer).map_err(fault)?.pem())
    };
    std::fs::create_dir_all(folder)
        .map_err(|error| AuthorityError::File(folder.into(), error.to_string()))?;
    // The key comes first: its file, once there, keeps a second authority away.
    write_new(&folder.join(KEY), key.serialize_pem().as_bytes(), 0o600)?;
    write_new(&folder.join(INTERMEDIATE), root.1.as_bytes(), 0o644)?;
    write_new(&folder.join(ROOT), root.0.as_bytes(), 0o644)?;
    write_bundle(folder)?;
    Authority::load(folder)?;
    Ok(())
}

/// Writes the file of the system's roots and ours, for clients that replace their roots. Returns
/// the number of the system's.
///
/// # Errors
/// If a file cannot be read or written.
pub fn write_bundle(folder: &Path) -> Result<usize, AuthorityError> {
    use base64::Engine as _;
    let own = read(&folder.join(ROOT))?;
    let system = rustls_native_certs::load_native_certs().certs;
    let mut text = String::from_utf8_lossy(&own).into_owned();
    for certificate in &system {
        let coded = base64::engine::general_purpose::STANDARD.encode(certificate);
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in coded.as_bytes().chunks(64) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    let path = folder.join(BUNDLE);
    std::fs::write(&path, text).map_err(|error| AuthorityError::File(path, error.to_string()))?;
    Ok(system.len())
}

impl Authority {
    /// Reads the authority of a folder.
    ///
    /// # Errors
    /// If a file is missing or broken, other users may read the key, or the chain does not hold.
    pub fn load(folder: &Path) -> Result<Self, AuthorityError> {
        let path = folder.join(KEY);
        let text = read(&path)?;
        let mode = std::fs::metadata(&path)
            .map_err(|error| AuthorityError::File(path.clone(), error.to_string()))?;
        if mode.mode() & 0o077 != 0 {
            return Err(AuthorityError::Exposed(path));
        }
        let broken = |error: &dyn fmt::Display| AuthorityError::File(path.clone(), error.to_string());
        let text = std::str::from_utf8(&text).map_err(|error| broken(&error))?;
        let key = KeyPair::from_pem(text).map_err(|error| broken(&error))?;
        let (root, intermediate) =
            (certificate(&folder.join(ROOT))?, certificate(&folder.join(INTERMEDIATE))?);
        let mut roots = RootCertStore::empty();
        roots.add(root).map_err(|error| AuthorityError::File(folder.join(ROOT), error.to_string()))?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()))
                .build();
        let verifier =
            verifier.map_err(|error| AuthorityError::File(folder.join(ROOT), error.to_string()))?;
        let params = authority_params(&intermediate_name(&number_of(&key)), 0)?;
        let read = Self {
            folder: folder.into(),
            issuer: Issuer::new(params, key),
            intermediate,
            verifier,
            leaf_key: KeyPair::generate().map_err(fault)?,
        };
        read.check_bounds()?;
        Ok(read)
    }

    /// Checks that clients accept no leaf for a host that nobody listed, nor for an address.
    fn check_bounds(&self) -> Result<(), AuthorityError> {
        let label: String = serial_number()?.iter().map(|byte| format!("{byte:02x}")).collect();
        let others = [format!("{label}.invalid"), label, "192.0.2.1".into(), "2001:db8::1".into()];
        for other in others {
            if self.verify(&other, SystemTime::now()).is_ok() {
                return Err(AuthorityError::Unbound(self.folder.join(INTERMEDIATE), other));
            }
        }
        Ok(())
    }

    /// Signs a leaf for `host`.
    ///
    /// # Errors
    /// If the host cannot stand in a certificate.
    pub fn sign(&self, host: &str, now: SystemTime) -> Result<CertifiedKey, AuthorityError> {
        let mut params = CertificateParams::new(vec![host.to_owned()]).map_err(fault)?;
        // The name stands in the extension alone: as a common name it might be too long.
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "made by Shoal");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        // All leaves have one key, from which the number would be made otherwise.
        params.serial_number = Some(SerialNumber::from(serial_number()?));
        (params.not_before, params.not_after) = ((now - CLOCK_SKEW).into(), (now + LEAF_LIFETIME).into());
        let leaf = params.signed_by(&self.leaf_key, &self.issuer).map_err(fault)?;
        let chain = vec![leaf.der().clone(), self.intermediate.clone()];
        let key = PrivatePkcs8KeyDer::from(self.leaf_key.serialize_der());
        CertifiedKey::from_der(chain, key.into(), &default_provider())
            .map_err(|error| AuthorityError::Sign(error.to_string()))
    }

    /// Checks that clients accept leaves for a listed host: a name, or `*.suffix`.
    ///
    /// # Errors
    /// [`AuthorityError::Constraint`].
    pub fn check_host(&self, host: &str) -> Result<(), AuthorityError> {
        self.verify(host, SystemTime::now()).map_err(|why| AuthorityError::Constraint(host.to_owned(), why))
    }

    /// Returns `true` if the authority still holds after `time`.
    pub fn lasts(&self, host: &str, time: Duration) -> bool {
        self.verify(host, SystemTime::now() + time).is_ok()
    }

    /// Signs a leaf and verifies it as a client does at `now`.
    fn verify(&self, host: &str, now: SystemTime) -> Result<(), String> {
        let name = match host.strip_prefix("*.") {
            Some(suffix) => format!("any.{suffix}"),
            None => host.to_owned(),
        };
        let leaf = self.sign(&name, now).map_err(|error| error.to_string())?;
        let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (leaf, now) = (&leaf.cert[0], UnixTime::since_unix_epoch(since));
        let intermediates = [self.intermediate.clone()];
        let verified = self.verifier.verify_server_cert(leaf, &intermediates, &name, &[], now);
        verified.map(drop).map_err(|error| format!("{error} ({})", self.folder.display()))
    }
}

/// Returns the constraints of the intermediate: these names and those below them, and no address.
fn constraints(hosts: &[String]) -> NameConstraints {
    let name =
        |host: &String| GeneralSubtree::DnsName(host.strip_prefix("*.").unwrap_or(host).to_ascii_lowercase());
    NameConstraints {
        permitted_subtrees: hosts.iter().map(name).collect(),
        excluded_subtrees: vec![
            GeneralSubtree::IpAddress(CidrSubnet::V4([0; 4], [0; 4])),
            GeneralSubtree::IpAddress(CidrSubnet::V6([0; 16], [0; 16])),
        ],
    }
}

/// Returns the parameters of an authority with this many authorities below it.
fn authority_params(name: &str, below: u8) -> Result<CertificateParams, AuthorityError> {
    let mut params = CertificateParams::new(Vec::new()).map_err(fault)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(below));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let now = SystemTime::now();
    (params.not_before, params.not_after) = ((now - CLOCK_SKEW).into(), (now + AUTHORITY_LIFETIME).into());
    Ok(params)
}

/// Returns the name of the intermediate with this number.
fn intermediate_name(number: &str) -> String {
    format!("Shoal interception {number}")
}

/// Returns the number in an authority's names, made from the intermediate's key.
fn number_of(key: &KeyPair) -> String {
    digest(&SHA256, key.public_key_raw()).as_ref()[..6].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a random positive serial number of 16 bytes (RFC 5280 section 4.1.2.2).
fn serial_number() -> Result<Vec<u8>, AuthorityError> {
    let mut bytes = vec![0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| AuthorityError::Sign("no randomness".into()))?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(bytes)
}

fn read(path: &Path) -> Result<Vec<u8>, AuthorityError> {
    let fault = |error: std::io::Error| {
        let advice = match error.kind() {
            std::io::ErrorKind::NotFound => "; `shoal ca init` makes it",
            _ => "",
        };
        AuthorityError::File(path.into(), format!("{error}{advice}"))
    };
    crate::settings_file::read(path).map_err(fault)
}

fn certificate(path: &Path) -> Result<CertificateDer<'static>, AuthorityError> {
    CertificateDer::from_pem_slice(&read(path)?)
        .map_err(|error| AuthorityError::File(path.into(), error.to_string()))
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<(), AuthorityError> {
    let fault = |error: std::io::Error| {
        let why = match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                "exists and is not overwritten; name another folder, or remove this one if no client trusts it".into()
            }
            _ => error.to_string(),
        };
        AuthorityError::File(path.into(), why)
    };
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(fault)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(fault)
}

fn fault(error: rcgen::Error) -> AuthorityError {
    AuthorityError::Sign(error.to_string())
}

impl fmt::Display for AuthorityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, why) => write!(f, "intercept.authority: {}: {why}", path.display()),
            Self::Exposed(path) => {
                let path = path.display();
                write!(f, "intercept.authority: other users may read {path}: chmod 600 {path}")
            }
            Self::Constraint(host, why) => write!(
                f,
                "intercept.hosts: the authority may not sign for {host:?}: {why}; `shoal ca init` makes one for other hosts"
            ),
            Self::Unbound(path, other) => write!(
                f,
                "intercept.authority: {} may sign for any host, such as {other}; remove the folder, and root.pem from all clients",
                path.display()
            ),
            Self::Host(why) => write!(f, "intercept.hosts: {why}"),
            Self::Sign(why) => write!(f, "intercept.authority: cannot sign: {why}"),
            Self::Tls(why) => write!(f, "intercept: no TLS: {why}"),
        }
    }
}

impl std::error::Error for AuthorityError {}

/// Certificate that clients trust.
pub const ROOT: &str = "root.pem";

/// The system's roots and ours.
pub const BUNDLE: &str = "bundle.pem";

/// Certificate that signs leaves, and its key.
const INTERMEDIATE: &str = "intermediate.pem";
/// File of the intermediate's key.
pub const KEY: &str = "intermediate.key";

/// Lifetime of an authority: two years.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(730 * 86_400);

/// Lifetime of a leaf.
pub(super) const LEAF_LIFETIME: Duration = Duration::from_secs(7 * 86_400);

/// Time by which clocks of clients may be late.
const CLOCK_SKEW: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn authority(hosts: &[&str]) -> (tempfile::TempDir, Authority) {
        let folder = tempfile::tempdir().expect("a folder");
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        create(folder.path(), &hosts).expect("an authority");
        let read = Authority::load(folder.path()).expect("the authority");
        (folder, read)
    }

    #[test]
    fn verifier_holds_leaves_to_the_constraints() {
        let (_folder, authority) = authority(&["a.test", "*.b.test", "localhost"]);
        for host in ["a.test", "x.b.test", "*.b.test", "localhost", "A.TEST"] {
            authority.check_host(host).unwrap_or_else(|error| panic!("{host}: {error}"));
        }
        for host in ["c.test", "ab.test", "xb.test", "test", "*.c.test", "127.0.0.1", "::1"] {
            let error = authority.check_host(host).expect_err(host);
            assert!(matches!(error, AuthorityError::Constraint(..)), "{error}");
        }
    }

    #[test]
    fn authority_for_every_host_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        for hosts in
            [vec![], vec![String::new()], vec!["a.test".to_owned(), String::new()], vec!["*.".into()]]
        {
            let error = create(folder.path(), &hosts).expect_err("an empty name binds nothing");
            assert!(matches!(error, AuthorityError::Host(_)), "{error}");
        }
        let (bound, _) = authority(&["a.test"]);
        let key = KeyPair::from_pem(&std::fs::read_to_string(bound.path().join(KEY)).expect("a key"));
        let key = key.expect("a key");
        let name = intermediate_name(&number_of(&key));
        for excluded in [true, false] {
            let mut params = authority_params(&name, 0).expect("parameters");
            params.name_constraints = excluded.then(|| constraints(&[String::new()]));
            let own = params.self_signed(&key).expect("a certificate").pem();
            for file in [ROOT, INTERMEDIATE] {
                std::fs::write(bound.path().join(file), &own).expect("writable");
            }
            let error = Authority::load(bound.path()).err().expect("refused");
            assert!(matches!(error, AuthorityError::Unbound(..)), "{error}");
        }
    }

    #[test]
    fn serial_numbers_of_leaves_differ() {
        let (_folder, authority) = authority(&["a.test"]);
        let leaf = || authority.sign("a.test", SystemTime::now()).expect("a leaf").cert[0].clone();
        assert_ne!(leaf(), leaf());
    }

    #[test]
    fn key_that_others_can_read_is_refused() {
        let (folder, _) = authority(&["a.test"]);
        let key = folder.path().join(KEY);
        let mode = |mode| std::fs::set_permissions(&key, PermissionsExt::from_mode(mode)).expect("ours");
        for exposed in [0o640, 0o604, 0o660] {
            mode(exposed);
            let error = Authority::load(folder.path()).err().expect("refused").to_string();
            assert!(error.ends_with(&format!("chmod 600 {}", key.display())), "{error}");
        }
        mode(0o600);
        assert!(Authority::load(folder.path()).is_ok());
    }

    #[test]
    fn folder_keeps_its_authority_and_no_root_key() {
        let (folder, _) = authority(&["a.test"]);
        let before = std::fs::read(folder.path().join(ROOT)).expect("the root");
        let error = create(folder.path(), &["b.test".into()]).expect_err("there is one");
        assert!(error.to_string().contains("is not overwritten"), "{error}");
        assert_eq!(std::fs::read(folder.path().join(ROOT)).expect("the root"), before);
        let names = std::fs::read_dir(folder.path()).expect("a folder");
        let keys = names.flatten().filter(|entry| {
            std::fs::read_to_string(entry.path()).is_ok_and(|text| text.contains("PRIVATE KEY"))
        });
        assert_eq!(keys.count(), 1);
    }

    #[test]
    fn another_key_does_not_fit_the_chain() {
        let ((folder, _), (other, _)) = (authority(&["a.test"]), authority(&["a.test"]));
        std::fs::copy(other.path().join(KEY), folder.path().join(KEY)).expect("copied");
        let mixed = Authority::load(folder.path()).expect("files are sound");
        assert!(mixed.check_host("a.test").is_err());
    }

    #[test]
    fn end_of_the_authority_is_foreseen() {
        let (_folder, authority) = authority(&["a.test"]);
        assert!(authority.lasts("a.test", Duration::from_secs(700 * 86_400)));
        assert!(!authority.lasts("a.test", AUTHORITY_LIFETIME + CLOCK_SKEW));
    }
}
