//! Settings of listeners.

use ipnet::IpNet;
use std::net::SocketAddr;
use std::path::PathBuf;

entry! {
    /// One listening address.
    pub struct Listen {
        /// Address and port. `0.0.0.0` is every IPv4 address, `[::]` every IPv6 address and no IPv4
        /// address.
        #[takes_effect(restart)]
        pub address: SocketAddr,
        /// Purpose of the listener.
        pub mode: Mode,
        /// Client networks served here; other clients get 403 for every request. With `none`, a
        /// listener in forward mode serves the networks of `forward.allow_clients`, and one in
        /// reverse mode serves all clients.
        pub allow_clients: Option<Vec<IpNet>> = None,
        /// Expect a PROXY protocol header (version 1 or 2) from these networks, and from no others.
        #[takes_effect(restart)]
        pub proxy_protocol_from: Vec<IpNet> = Vec::new(),
        /// Networks of the proxies in front of this node. Shoal believes their `X-Forwarded-For`,
        /// `X-Forwarded-Proto` and `Forwarded` fields: for access lists, logs, the URL's scheme,
        /// and towards upstreams. Shoal drops such fields from all other clients.
        pub trusted_proxies: Vec<IpNet> = Vec::new(),
        /// Certificates, chosen by server name; the first is the default. Empty means plain HTTP.
        pub tls: Vec<Certificate> = Vec::new(),
        /// Most connections of one client network at once: an IPv4 address, or a /64 of IPv6.
        /// Further ones are closed at once. Connections of `trusted_proxies` have no limit, since
        /// they carry many clients. `none` means no limit.
        #[limits(Some(1)..=Some(10_000_000))]
        pub client_connections: Option<usize> = None,
        /// File of users, as `forward.users_file`; when set, every request must authenticate with
        /// the Basic scheme. In forward mode it takes the place of `forward.users_file`. In reverse
        /// mode the origin does not get the Authorization field.
        pub users_file: Option<PathBuf> = None,
        /// Realm named in the challenge of `users_file`.
        pub realm: String = "shoal".into(),
        /// Certificate authorities of clients, PEM: with TLS, clients present a certificate that
        /// one of them has signed. Shoal reads the file again on reload.
        pub client_ca: Option<PathBuf> = None,
        /// Treatment of clients without a certificate, where `client_ca` is set.
        pub client_certificate: ClientCertificate = ClientCertificate::Required,
    }
    example { Self { mode: Mode::Reverse, ..Self::forward(([0, 0, 0, 0], 8080).into()) } }
}

choice! {
    /// Purpose of a listener.
    pub enum Mode {
        /// Clients name the origin in each request: absolute-form targets and CONNECT.
        Forward = "forward",
        /// The sites of this file name the origins.
        Reverse = "reverse",
    }
}

choice! {
    /// Treatment of clients without a certificate.
    pub enum ClientCertificate {
        /// Clients without a certificate get no connection.
        Required = "required",
        /// Clients without a certificate are served, except where a rule has `allow_certificates`.
        Optional = "optional",
    }
}

entry! {
    /// A certificate chain and its key, both PEM. Shoal reads them again on reload and when the
    /// files change.
    pub struct Certificate {
        /// Chain, leaf first.
        pub certificate: PathBuf,
        /// Private key.
        pub key: PathBuf,
    }
    example {
        Self {
            certificate: "/etc/shoal/example.org.pem".into(),
            key: "/etc/shoal/example.org.key".into(),
        }
    }
}
