//! Certificates by server name, read from PEM files that may change at any time.
//!
//! A file of a certificate that the node orders itself may not be there yet, or may be damaged: it
//! is then left out, and the order is made anew. Until the file is there, ordered certificates that
//! were in use serve those of its names that they have: names and folders may change by a reload.
//! Any other file must be sound.

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
use shoal_acme::CertificateFacts;
use shoal_settings::{Acme, Certificate, Listen};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
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
    /// The first certificate, for clients that name no server or an unknown one; `None` until one
    /// has come.
    default: Option<Arc<NamedCertificate>>,
    exact: HashMap<String, Arc<NamedCertificate>>,
    /// Wildcard certificates by the name after `*.`.
    wildcard: HashMap<String, Arc<NamedCertificate>>,
    /// States of all certificates, in the settings' order.
    states: Vec<CertificateState>,
    /// Certificates in use that the node has ordered.
    ordered: Vec<Arc<NamedCertificate>>,
}

/// State of a configured certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateState {
    /// File of the certificate.
    pub path: PathBuf,
    /// `true` if the node orders it itself.
    pub is_ordered: bool,
    /// Names: those in the certificate, or those that are ordered.
    pub names: Vec<String>,
    /// Last second of its validity, since 1970; `None` until the certificate has come.
    pub not_after: Option<u64>,
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
    files: Vec<Source>,
    stamps: Vec<Stamp>,
}

/// Files of a certificate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Source {
    pair: Certificate,
    /// Names that the node orders; empty for a certificate that an operator gives.
    ordered: Vec<String>,
}

impl Source {
    /// Returns the sources of these files.
    pub fn of(files: &[Certificate]) -> Vec<Self> {
        files.iter().map(|pair| Self { pair: pair.clone(), ordered: Vec::new() }).collect()
    }

    /// Returns the sources of a listener: the files of the operator, then the ordered ones. Key and
    /// chain of an ordered certificate are in one file, so that one rename replaces both.
    pub fn of_listener(listen: &Listen, acme: &Acme) -> Vec<Self> {
        let ordered = listen.acme.iter().map(|certificate| {
            let file = certificate.file(&acme.folder);
            let pair = Certificate { certificate: file.clone(), key: file };
            Self { pair, ordered: certificate.names.clone() }
        });
        Self::of(&listen.tls).into_iter().chain(ordered).collect()
    }
}

/// Modification time and length of the certificate and the key. They change when a file is
/// replaced.
type Stamp = [Option<(SystemTime, u64)>; 2];

impl Certificates {
    /// Reads all files.
    pub fn read(files: &[Source]) -> Result<Self, Error> {
        Self::read_after(files, &[])
    }

    /// Reads these files to replace those in use.
    pub fn read_anew(&self, files: &[Source]) -> Result<Self, Error> {
        Self::read_after(files, &self.table.load().ordered)
    }

    /// Reads all files. `before` has the ordered certificates that were in use.
    fn read_after(files: &[Source], before: &[Arc<NamedCertificate>]) -> Result<Self, Error> {
        // Take the stamps first: a change during the read is then noticed later.
        let sources = Sources { files: files.to_vec(), stamps: stamps(files) };
        Ok(Self {
            table: ArcSwap::from_pointee(CertificateTable::read(files, before)?),
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
        match self.read_anew(&files) {
            Ok(read) => {
                // Skip if a reload has configured other files meanwhile.
                if self.sources.lock().files == files {
                    self.replace(read);
                }
                tracing::info!(certificate = %files[0].pair.certificate.display(), "certificates read again");
            }
            Err(error) => tracing::error!(%error, "the certificates in use stay"),
        }
    }
}

impl Certificates {
    /// Returns the current certificate for `name`.
    pub fn shown_for(&self, name: &str) -> Arc<dyn Shown> {
        let table = self.table.load_full();
        let named = table.choose(name).cloned();
        Arc::new(ListenerCertificate { table, named })
    }

    /// Returns the states of all certificates, in the settings' order.
    pub fn states(&self) -> Vec<CertificateState> {
        self.table.load().states.clone()
    }

    /// Returns the certificate for a server name.
    pub fn key_for(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let table = self.table.load();
        let named = name.map_or(table.default.as_ref(), |name| table.choose(name));
        named.map(|named| Arc::clone(&named.key))
    }
}

/// Returns the states of these certificates as the files are now; none if one cannot be used.
pub fn certificate_states(files: &[Certificate]) -> Vec<CertificateState> {
    let read = CertificateTable::read(&Source::of(files), &[]).ok();
    read.map(|table| table.states).unwrap_or_default()
}

/// Certificate together with its listener's table.
struct ListenerCertificate {
    table: Arc<CertificateTable>,
    /// `None` if the last certificate was taken away since the handshake.
    named: Option<Arc<NamedCertificate>>,
}

impl Shown for ListenerCertificate {
    fn is_for(&self, host: &str) -> bool {
        let (Some(named), Some(best)) = (&self.named, self.table.choose(host)) else { return false };
        named.is_for(host) || Arc::ptr_eq(best, named)
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
        self.key_for(hello.server_name())
    }
}

impl CertificateTable {
    fn read(files: &[Source], before: &[Arc<NamedCertificate>]) -> Result<Self, Error> {
        if files.is_empty() {
            let problem = "no certificate given".into();
            return Err(Error::Certificate { path: Default::default(), problem });
        }
        let mut table = Self {
            default: None,
            exact: HashMap::new(),
            wildcard: HashMap::new(),
            states: Vec::with_capacity(files.len()),
            ordered: Vec::new(),
        };
        let mut missing = Vec::new();
        for source in files {
            match read_one(&source.pair) {
                Ok(named) => table.add(source, Arc::new(named)),
                Err(error) if source.ordered.is_empty() => return Err(error),
                Err(error) => {
                    if source.pair.certificate.exists() {
                        tracing::error!(%error, "a certificate that the node has ordered cannot be used");
                    }
                    missing.push((table.states.len(), source));
                    table.states.push(source.state(source.ordered.clone(), None));
                }
            }
        }
        // Last, so that a certificate that is there goes first for its names.
        for (index, source) in missing {
            before.iter().for_each(|named| table.keep(index, source, named));
        }
        debug_assert_eq!(table.states.len(), files.len());
        Ok(table)
    }

    fn add(&mut self, source: &Source, named: Arc<NamedCertificate>) {
        for name in &named.names {
            match name.strip_prefix("*.") {
                Some(parent) => self.wildcard.entry(parent.to_owned()).or_insert_with(|| Arc::clone(&named)),
                None => self.exact.entry(name.clone()).or_insert_with(|| Arc::clone(&named)),
            };
        }
        debug_assert!(!named.key.cert.is_empty(), "a chain has a leaf");
        let facts = named.key.cert.first().and_then(|leaf| CertificateFacts::read(leaf));
        self.states.push(source.state(named.names.clone(), facts.map(|facts| facts.not_after)));
        if !source.ordered.is_empty() {
            self.ordered.push(Arc::clone(&named));
        }
        self.default.get_or_insert(named);
    }

    /// Keeps a certificate in use for those names of a missing one that it has.
    fn keep(&mut self, index: usize, source: &Source, named: &Arc<NamedCertificate>) {
        let is_shared = |name: &&String| named.names.contains(*name);
        let shared: Vec<&String> = source.ordered.iter().filter(is_shared).collect();
        if shared.is_empty() {
            return;
        }
        for name in &shared {
            self.exact.entry((*name).clone()).or_insert_with(|| Arc::clone(named));
        }
        if shared.len() == source.ordered.len() {
            let facts = named.key.cert.first().and_then(|leaf| CertificateFacts::read(leaf));
            self.states[index].not_after = facts.map(|facts| facts.not_after);
        }
        if !self.ordered.iter().any(|other| Arc::ptr_eq(other, named)) {
            self.ordered.push(Arc::clone(named));
        }
        self.default.get_or_insert_with(|| Arc::clone(named));
    }

    /// Returns the certificate for `name`: an exact match, else a wildcard, else the default. A
    /// wildcard stands for one label (RFC 6125 section 6.4.3).
    fn choose(&self, name: &str) -> Option<&Arc<NamedCertificate>> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let parent = name.split_once('.').map(|(_, parent)| parent);
        let by_wildcard = || parent.and_then(|parent| self.wildcard.get(parent));
        self.exact.get(&name).or_else(by_wildcard).or(self.default.as_ref())
    }
}

impl Source {
    fn state(&self, names: Vec<String>, not_after: Option<u64>) -> CertificateState {
        let (path, is_ordered) = (self.pair.certificate.clone(), !self.ordered.is_empty());
        CertificateState { path, is_ordered, names, not_after }
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

fn stamps(files: &[Source]) -> Vec<Stamp> {
    let stamp = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    files.iter().map(|source| [stamp(&source.pair.certificate), stamp(&source.pair.key)]).collect()
}
