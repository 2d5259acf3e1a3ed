//! Certificates by server name, read from PEM files that may change at any time.

use crate::Error;
use crate::message::Shown;
use crate::settings_file;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use shoal_settings::Certificate;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use webpki::EndEntityCert;

/// Certificates of one listener.
#[derive(Debug)]
pub(crate) struct Certificates {
    table: ArcSwap<CertificateTable>,
    sources: Mutex<Sources>,
}

/// Certificates by their DNS names.
#[derive(Debug)]
struct CertificateTable {
    /// The first certificate, for clients that name no server or an unknown one.
    default: Arc<NamedCertificate>,
    exact: HashMap<String, Arc<NamedCertificate>>,
    /// Wildcard certificates by the name after `*.`.
    wildcard: HashMap<String, Arc<NamedCertificate>>,
}

/// Certificate with its key and its DNS names in lower case.
#[derive(Debug)]
struct NamedCertificate {
    key: Arc<CertifiedKey>,
    names: Vec<String>,
}

/// Certificate files and their last known state.
#[derive(Debug)]
struct Sources {
    files: Vec<Certificate>,
    stamps: Vec<Stamp>,
}

/// Modification time and length of the certificate and the key. They change when a file is
/// replaced.
type Stamp = [Option<(SystemTime, u64)>; 2];

impl Certificates {
    /// Reads all files.
    pub fn read(files: &[Certificate]) -> Result<Self, Error> {
        // Take the stamps first: a change during the read is then noticed later.
        let sources = Sources { files: files.to_vec(), stamps: stamps(files) };
        Ok(Self {
            table: ArcSwap::from_pointee(CertificateTable::read(files)?),
            sources: Mutex::new(sources),
        })
    }

    /// Replaces the certificates in use.
    pub fn replace(&self, read: Self) {
        *self.sources.lock() = read.sources.into_inner();
        self.table.store(read.table.into_inner());
    }

    /// Reads the files again if one has changed since the last read. A certificate that cannot be
    /// used is reported once, not at every check.
    pub fn replace_if_changed(&self) {
        let files = {
            let mut sources = self.sources.lock();
            let found = stamps(&sources.files);
            if found == sources.stamps {
                return;
            }
            sources.stamps = found;
            sources.files.clone()
        };
        match Self::read(&files) {
            Ok(read) => {
                // Skip if a reload has configured other files meanwhile.
                if self.sources.lock().files == files {
                    self.replace(read);
                }
                tracing::info!(certificate = %files[0].certificate.display(), "certificates read again");
            }
            Err(error) => tracing::error!(%error, "the certificates in use stay"),
        }
    }
}

impl Certificates {
    /// Returns the current certificate for `name`.
    pub fn shown_for(&self, name: &str) -> Arc<dyn Shown> {
        let table = self.table.load_full();
        let named = Arc::clone(table.choose(name));
        Arc::new(ListenerCertificate { table, named })
    }
}

/// Certificate together with its listener's table.
struct ListenerCertificate {
    table: Arc<CertificateTable>,
    named: Arc<NamedCertificate>,
}

impl Shown for ListenerCertificate {
    fn is_for(&self, host: &str) -> bool {
        self.named.is_for(host) || Arc::ptr_eq(self.table.choose(host), &self.named)
    }
}

impl NamedCertificate {
    fn is_for(&self, host: &str) -> bool {
        let parent = host.split_once('.').map(|(_, parent)| parent);
        self.names.iter().any(|name| match name.strip_prefix("*.") {
            Some(suffix) => parent == Some(suffix),
            None => name == host,
        })
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let table = self.table.load();
        Some(Arc::clone(&hello.server_name().map_or(&table.default, |name| table.choose(name)).key))
    }
}

impl CertificateTable {
    fn read(files: &[Certificate]) -> Result<Self, Error> {
        let (mut exact, mut wildcard, mut default) = (HashMap::new(), HashMap::new(), None);
        for source in files {
            let named = Arc::new(read_one(source)?);
            for name in &named.names {
                match name.strip_prefix("*.") {
                    Some(parent) => wildcard.entry(parent.to_owned()).or_insert_with(|| Arc::clone(&named)),
                    None => exact.entry(name.clone()).or_insert_with(|| Arc::clone(&named)),
                };
            }
            default.get_or_insert(named);
        }
        let none = || Error::Certificate { path: Default::default(), problem: "no certificate given".into() };
        Ok(Self { default: default.ok_or_else(none)?, exact, wildcard })
    }

    /// Returns the certificate for `name`: an exact match, else a wildcard, else the default. A
    /// wildcard stands for one label (RFC 6125 section 6.4.3).
    fn choose(&self, name: &str) -> &Arc<NamedCertificate> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let parent = name.split_once('.').map(|(_, parent)| parent);
        let by_wildcard = || parent.and_then(|parent| self.wildcard.get(parent));
        self.exact.get(&name).or_else(by_wildcard).unwrap_or(&self.default)
    }
}

/// Reads one certificate with its key and its DNS names.
fn read_one(source: &Certificate) -> Result<NamedCertificate, Error> {
    let fail = |path: &Path, problem: String| Error::Certificate { path: path.to_owned(), problem };
    let unreadable = |error: &dyn std::fmt::Display| fail(&source.certificate, error.to_string());
    let text = settings_file::read(&source.certificate).map_err(|error| unreadable(&error))?;
    let chain = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| unreadable(&error))?;
    let leaf = chain.first().ok_or_else(|| unreadable(&"holds no certificate"))?;
    let names = EndEntityCert::try_from(leaf).map_err(|error| unreadable(&error))?;
    let names = names.valid_dns_names().map(str::to_ascii_lowercase).collect();
    let text = settings_file::read(&source.key).map_err(|error| fail(&source.key, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| fail(&source.key, error.to_string()))?;
    let certified =
        CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                let problem =
                    format!("is not the key of the certificate in {}", source.certificate.display());
                fail(&source.key, problem)
            }
            error => fail(&source.key, error.to_string()),
        })?;
    Ok(NamedCertificate { key: Arc::new(certified), names })
}

fn stamps(files: &[Certificate]) -> Vec<Stamp> {
    let stamp = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    files.iter().map(|source| [stamp(&source.certificate), stamp(&source.key)]).collect()
}
