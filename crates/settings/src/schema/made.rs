//! Listeners and sites that the process makes itself, as from the command line, and values derived
//! from their settings.

use super::{Balance, ClientCertificate, Forward, Listen, Mode, Site, TlsVersion, UpstreamServer};
use ipnet::IpNet;
use std::net::SocketAddr;
use std::time::Duration;

impl Listen {
    /// Makes a plain listener in forward mode.
    pub fn forward(address: SocketAddr) -> Self {
        Self {
            address,
            mode: Mode::Forward,
            allow_clients: None,
            proxy_protocol_from: Vec::new(),
            trusted_proxies: Vec::new(),
            tls: Vec::new(),
            acme: Vec::new(),
            tls_min_version: TlsVersion::V12,
            tls_ciphers: Vec::new(),
            tls_groups: Vec::new(),
            http3: false,
            http3_max_age: Duration::from_secs(86_400),
            http3_port: None,
            redirect_https: None,
            client_connections: None,
            users_file: None,
            realm: "shoal".into(),
            client_ca: None,
            client_certificate: ClientCertificate::Required,
        }
    }

    /// Makes a plain listener in reverse mode.
    pub fn reverse(address: SocketAddr) -> Self {
        Self { mode: Mode::Reverse, ..Self::forward(address) }
    }

    /// Returns `true` if the listener speaks TLS.
    pub fn is_tls(&self) -> bool {
        !self.tls.is_empty() || !self.acme.is_empty()
    }

    /// Returns the client networks that the listener serves, or `None` for all clients.
    pub fn clients<'a>(&'a self, forward: &'a Forward) -> Option<&'a [IpNet]> {
        match (&self.allow_clients, self.mode) {
            (Some(own), _) => Some(own),
            (None, Mode::Forward) => Some(&forward.allow_clients),
            (None, Mode::Reverse) => None,
        }
    }
}

impl Site {
    /// Makes a site for any host and path, fetched from one upstream. The upstream's own name is
    /// sent, since the upstream may serve others too.
    pub fn to(url: &str) -> Self {
        Self {
            hosts: vec!["*".into()],
            path_prefix: "/".into(),
            upstreams: vec![UpstreamServer::at(url)],
            balance: Balance::RoundRobin,
            health: None,
            preserve_host: false,
            set_cookie: None,
            heuristic_fraction: None,
            heuristic_query: None,
            via: true,
            rule: Vec::new(),
            rewrite_location: None,
            concurrency: None,
            queue: 256,
            queue_timeout: Duration::from_secs(10),
        }
    }
}
