//! Settings of connections to origins.

use super::TIMEOUT;
use std::path::PathBuf;
use std::time::Duration;

section! {
    /// Connections to origins.
    pub struct Upstream {
        /// Time to connect, name lookup and TLS included.
        #[limits(TIMEOUT)]
        pub connect_timeout: Duration = Duration::from_secs(10),
        /// Time from the request's end to the response's head.
        #[limits(TIMEOUT)]
        pub first_byte_timeout: Duration = Duration::from_secs(60),
        /// Longest pause within a response body.
        #[limits(TIMEOUT)]
        pub idle_timeout: Duration = Duration::from_secs(60),
        /// Longest time that an unused connection is kept.
        #[limits(Duration::ZERO..=Duration::from_secs(86_400))]
        pub keep_alive: Duration = Duration::from_secs(60),
        /// Unused connections kept per origin.
        #[limits(0..=100_000)]
        pub idle_per_origin: usize = 256,
        /// Most connections per origin; further requests wait for one. One client address may hold
        /// four for each free one (205 of 256), one of its connections two for each. Health checks
        /// have a connection of their own.
        #[limits(1..=100_000)]
        pub connections_per_origin: usize = 256,
        /// Most tunnels of Upgrade (WebSocket) per origin, beside those connections; shared out
        /// likewise.
        #[limits(1..=100_000)]
        pub tunnels_per_origin: usize = 1024,
        /// Most tunnels of CONNECT, to all destinations together, shared out likewise. Each takes
        /// an open file.
        #[limits(1..=1_000_000)]
        pub tunnels: usize = 4096,
        /// Further certificate authorities to trust, PEM.
        pub ca_file: Option<PathBuf> = None,
        /// Origins' own certificates that are accepted without an authority, PEM. For self-signed
        /// certificates, as openssl req -x509 makes them. Shoal checks their names and dates. They
        /// authorize no other certificates.
        pub pinned_certificates: Option<PathBuf> = None,
        /// Origins that get no offer of the key exchange x25519mlkem768: names, `*.suffix`,
        /// networks, or `*` for all. With it the first message of a handshake takes about 1.4 KB,
        /// two packets in place of one. Some old servers and firewalls drop such a message.
        pub classical_hosts: Vec<String> = Vec::new(),
    }
}
