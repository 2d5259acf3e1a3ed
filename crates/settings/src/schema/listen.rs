//! Settings of listeners.

use super::AcmeCertificate;
use ipnet::IpNet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

entry! {
    /// One listening address.
    pub struct Listen {
        /// Address and port. `0.0.0.0` is every IPv4 address, `[::]` every IPv6 address and no IPv4
        /// address. Its sockets are bound at the start, when the process may still use any port.
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
        /// Certificates, chosen by server name; the first is the default. Without
        /// certificates here and in `acme` the listener speaks plain HTTP.
        pub tls: Vec<Certificate> = Vec::new(),
        /// Certificates that the node orders itself, by the settings of `[acme]`. They stand behind
        /// those of `tls`. Until the first one is there, handshakes for its names fail.
        pub acme: Vec<AcmeCertificate> = Vec::new(),
        /// Oldest version of TLS that clients may use.
        pub tls_min_version: TlsVersion = TlsVersion::V12,
        /// Cipher suites by their IANA names, best first. An empty list takes the default ones.
        /// Suites of TLS 1.3 (`TLS_AES_…`, `TLS_CHACHA20_…`) and 1.2 (`TLS_ECDHE_…`) stand in one
        /// list.
        pub tls_ciphers: Vec<String> = Vec::new(),
        /// Groups for the key exchange, best first: `x25519mlkem768`, `x25519`, `secp256r1`,
        /// `secp384r1`. The first is safe from quantum computers too, and is of TLS 1.3 alone. An
        /// empty list takes all.
        pub tls_groups: Vec<String> = Vec::new(),
        /// Serve HTTP/3 as well, over UDP on the same port, with the listener's certificates. For
        /// listeners in reverse mode. Clients learn of it from the field Alt-Svc in responses over
        /// TLS, and use HTTP/2 where UDP does not pass. A reload binds the port, or closes it once
        /// its connections have ended their requests.
        pub http3: bool = false,
        /// Time for which clients may remember that the listener serves HTTP/3 (Alt-Svc). Zero
        /// withdraws: clients are told to forget it. Keep zero for as long as the time was before
        /// `http3` is switched off.
        #[limits(Duration::ZERO..=Duration::from_secs(31_536_000))]
        pub http3_max_age: Duration = Duration::from_secs(86_400),
        /// Port of HTTP/3 that clients are told, if packets to another port are forwarded here.
        /// With `none`, the port of `address`.
        #[limits(Some(1)..=Some(65_535))]
        pub http3_port: Option<u16> = None,
        /// Port of https to which a plain listener in reverse mode sends clients, with 308. A host
        /// without a site, the method PURGE, and challenges of certificate authorities below
        /// `/.well-known/acme-challenge/` are answered as without this setting. `none` redirects
        /// nothing.
        #[limits(Some(1)..=Some(65_535))]
        pub redirect_https: Option<u16> = None,
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
    /// Version of TLS.
    pub enum TlsVersion {
        /// TLS 1.2 and 1.3.
        V12 = "1.2",
        /// TLS 1.3 alone.
        V13 = "1.3",
    }
}

/// Cipher suites that listeners can use, by their IANA names.
pub const TLS_CIPHERS: [&str; 9] = [
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];

/// Groups for the key exchange that listeners can use, by their IANA names in lower case.
pub const TLS_GROUPS: [&str; 4] = ["x25519mlkem768", "x25519", "secp256r1", "secp384r1"];

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
