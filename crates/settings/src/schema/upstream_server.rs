//! One upstream of a site.

use std::path::PathBuf;

entry! {
    /// One upstream of a site.
    pub struct UpstreamServer {
        /// `http://host:port` or `https://host:port`, perhaps with a path: the path is put before
        /// the path of each request. `upstream_strip` in a rule takes a prefix off first. The
        /// request's path is brought into normal form, so that dot segments do not lead out of the
        /// upstream's path. Upstreams of one site may have different paths.
        pub url: String,
        /// Share of the requests, relative to the other upstreams.
        #[limits(1..=1_000_000)]
        pub weight: u32 = 1,
        /// Speak HTTP/2 without TLS (prior knowledge).
        pub h2c: bool = false,
        /// Host sent to this upstream, perhaps with a port. It goes before `preserve_host`.
        pub host: Option<String> = None,
        /// Name asked for in the TLS handshake (SNI) and checked in the certificate. `none` means
        /// the host of `url`.
        pub server_name: Option<String> = None,
        /// File with the credentials of this node at this upstream, in one line: `user:password`
        /// for the Basic scheme, or a whole value such as `Bearer abc`. They are sent in
        /// Authorization, to this upstream alone. The Authorization of clients then reaches no
        /// upstream of the site, and responses are stored and shared as if clients had sent none.
        /// Shoal reads the file again on reload.
        pub credentials: Option<PathBuf> = None,
        /// Paths at this upstream below which `credentials` are sent. Empty means all paths.
        pub credentials_below: Vec<String> = Vec::new(),
    }
    example { Self::at("http://10.0.0.2:8000") }
}

impl UpstreamServer {
    /// Makes a plain upstream.
    pub fn at(url: &str) -> Self {
        Self {
            url: url.into(),
            weight: 1,
            h2c: false,
            host: None,
            server_name: None,
            credentials: None,
            credentials_below: Vec::new(),
        }
    }
}
