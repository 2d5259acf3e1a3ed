//! Interception: CONNECT to a listed host is answered by this node itself.
//!
//! ```text
//!   CONNECT host:443 ─► access rules ─┬─ not listed ─► tunnel, untouched
//!                                     └─ listed ─► 200, TLS with a leaf for the host
//!                                                    └─► requests ─► exchange, as https://host/…
//! ```
//!
//! The exchange returns the near end of a pipe as the tunnel's far side. The server's connection
//! loop speaks TLS at the other end (`InnerServer`), over HTTP/1.1 and HTTP/2 alike. The requests
//! inside are a forward client's: the same rules, keys, purges and logs. The origin is fetched from
//! over a connection of this node's own, with its certificate verified. A host that cannot be
//! verified is a 502, never a tunnel.
//!
//! The authority's intermediate certificate is constrained to the listed hosts ([`authority`]).

#![forbid(unsafe_code)]

pub mod authority;
mod leaves;

use shoal_access as access;
use shoal_access::settings_file;

use crate::access::{HostPattern, HostPatterns};
use authority::{Authority, AuthorityError};
use leaves::Leaves;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use shoal_settings::Settings;
use std::sync::Arc;

/// Listed hosts, and the authority that signs for them.
pub struct Interception {
    /// Hosts as the settings list them.
    listed: String,
    patterns: HostPatterns,
    ports: Vec<u16>,
    registries: Vec<(String, u16)>,
    connections: usize,
    leaves: Arc<Leaves>,
    /// Settings of handshakes, without a certificate.
    tls: Arc<ServerConfig>,
}

impl Interception {
    /// Reads the authority of these settings; `None` if no host is listed.
    ///
    /// # Errors
    /// If the authority cannot be used, or may not sign for a listed host.
    pub fn new(settings: &Settings) -> Result<Option<Self>, AuthorityError> {
        let intercept = &settings.intercept;
        if !intercept.is_on() {
            return Ok(None);
        }
        let authority = Authority::load(&intercept.authority)?;
        let registries = settings.intercepted_registries();
        let patterns = intercept.patterns().map(HostPattern::parse).collect::<Result<Vec<_>, _>>();
        let patterns = patterns.map_err(|error| AuthorityError::Host(error.to_string()))?;
        for host in intercept.patterns().chain(registries.iter().map(|(host, _)| host.as_str())) {
            authority.check_host(host)?;
        }
        Ok(Some(Self {
            listed: intercept.hosts.join(", "),
            patterns: patterns.into_iter().collect(),
            ports: intercept.ports.clone(),
            registries,
            connections: intercept.connections,
            leaves: Arc::new(Leaves::new(authority)),
            tls: Arc::new(handshake_settings().map_err(|error| AuthorityError::Tls(error.to_string()))?),
        }))
    }

    /// Returns `true` if a CONNECT to this host, in lower case, and port is answered by this node.
    pub fn covers(&self, host: &str, port: u16) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        let is_registry = || self.registries.iter().any(|(name, own)| name == host && *own == port);
        self.ports.contains(&port) && self.patterns.match_name(host) || is_registry()
    }

    /// Logs that interception is on.
    pub fn tell(&self) {
        let hosts = &self.listed;
        tracing::warn!(
            hosts,
            "interception is on: this node reads the https of forward clients to these hosts"
        );
    }

    /// Returns the most intercepted connections at a time.
    pub fn connections_max(&self) -> usize {
        self.connections
    }

    /// Returns the settings of the handshake for a CONNECT to `host`. A client that asks for
    /// another name gets an alert.
    pub fn handshake(&self, host: &str, signed: Arc<dyn Fn() + Send + Sync>) -> Arc<ServerConfig> {
        let resolver = OneHost { host: host.into(), leaves: Arc::clone(&self.leaves), signed };
        let mut config = (*self.tls).clone();
        config.cert_resolver = Arc::new(resolver);
        Arc::new(config)
    }
}

/// Returns the settings of handshakes with HTTP/2 and HTTP/1.1.
fn handshake_settings() -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(NoHost));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ticketer = ring::Ticketer::new()?;
    Ok(config)
}

/// Chooser of certificates for one connection: the leaf of its CONNECT's host, or none.
struct OneHost {
    host: Box<str>,
    leaves: Arc<Leaves>,
    /// Called for each leaf that is signed.
    signed: Arc<dyn Fn() + Send + Sync>,
}

impl ResolvesServerCert for OneHost {
    /// Returns no certificate for another server name or for none: the handshake then ends with an
    /// alert.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name()?;
        if !name.eq_ignore_ascii_case(&self.host) {
            return None;
        }
        self.leaves.leaf_for(&self.host, &*self.signed)
    }
}

impl std::fmt::Debug for OneHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OneHost({:?})", self.host)
    }
}

/// Chooser that knows no certificate.
#[derive(Debug)]
struct NoHost;

impl ResolvesServerCert for NoHost {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}
