//! Settings of neighbours: Squid and other caches that are asked, and that ask, by Squid's
//! protocols.

use ipnet::IpNet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

section! {
    /// This node as a neighbour of Squid and other caches: answers by ICP and HTCP, a cache digest,
    /// and general rules for asking.
    pub struct Neighbours {
        /// Address and UDP port that answers ICP, and from which Shoal asks by ICP. Squid drops
        /// answers from another address than the one in its `cache_peer` line. `none` answers
        /// nobody.
        #[takes_effect(restart)]
        pub icp_listen: Option<SocketAddr> = None,
        /// Address and UDP port that answers HTCP, and from which Shoal asks by HTCP.
        #[takes_effect(restart)]
        pub htcp_listen: Option<SocketAddr> = None,
        /// Networks of the caches that may ask by ICP and HTCP and get the digest. All others get
        /// no answer at all. `forward.allow_clients` decides about requests by HTTP; a listed cache
        /// gets 504 where it is refused and asked with `only-if-cached`.
        #[takes_effect(restart)]
        pub allow: Vec<IpNet> = Vec::new(),
        /// Networks that may remove URLs by HTCP (CLR). With `htcp_key_file` they must also sign.
        #[takes_effect(restart)]
        pub allow_clear: Vec<IpNet> = Vec::new(),
        /// Most questions answered for one address in a second; further ones are dropped and
        /// counted.
        #[takes_effect(restart)]
        #[limits(1..=1_000_000)]
        pub queries_per_second: u32 = 5000,
        /// File of the key for signed HTCP messages, one line: a name, a blank, and a secret of at
        /// least 16 characters. Squid knows no signatures.
        #[takes_effect(restart)]
        pub htcp_key_file: Option<PathBuf> = None,
        /// Serve a digest of the cache to `allow`, at `/squid-internal-periodic/store_digest`.
        #[takes_effect(restart)]
        pub serve_digest: bool = true,
        /// Time between two digests of this node.
        #[takes_effect(restart)]
        #[limits(Duration::from_secs(1)..=Duration::from_secs(86_400))]
        pub digest_rebuild: Duration = Duration::from_secs(3600),
        /// Most objects in this node's digest. Each takes about 200 bytes of RAM meanwhile.
        #[takes_effect(restart)]
        #[limits(100..=10_000_000)]
        pub digest_objects: usize = 100_000,
        /// Least time between two fetches of one neighbour's digest.
        #[takes_effect(restart)]
        #[limits(Duration::from_secs(1)..=Duration::from_secs(86_400))]
        pub digest_refresh: Duration = Duration::from_secs(300),
        /// Longest wait for answers by ICP and HTCP. Shoal waits less for neighbours that usually
        /// answer sooner.
        #[takes_effect(restart)]
        #[limits(Duration::from_millis(5)..=Duration::from_secs(10))]
        pub query_timeout: Duration = Duration::from_secs(2),
        /// Longest wait for the head of a sibling's response after it said that it holds the URL.
        #[takes_effect(restart)]
        #[limits(Duration::from_millis(50)..=Duration::from_secs(60))]
        pub sibling_timeout: Duration = Duration::from_secs(2),
        /// Ask siblings for responses of sites too, and answer about them. Otherwise neighbours
        /// serve forward mode alone.
        #[takes_effect(restart)]
        pub sites: bool = false,
        /// Rule by which CARP chooses a parent.
        #[takes_effect(restart)]
        pub carp_rule: CarpMode = CarpMode::Draft,
    }
}

choice! {
    /// Rule by which CARP chooses a parent.
    pub enum CarpMode {
        /// The Internet draft, which most proxies follow.
        Draft = "draft",
        /// The rule of Squid, for an array in which Squids choose too.
        Squid = "squid",
    }
}

entry! {
    /// One neighbour, as a `cache_peer` line of Squid.
    pub struct Neighbour {
        /// Host name or address.
        #[takes_effect(restart)]
        pub host: String,
        /// Place of the neighbour: beside this node, or between it and the origins.
        #[takes_effect(restart)]
        pub kind: NeighbourKind,
        /// TCP port of its HTTP proxy.
        #[takes_effect(restart)]
        #[limits(1..=65_535)]
        pub http_port: u16 = 3128,
        /// UDP port at which it answers ICP. `none` asks nothing by ICP (Squid's `no-query`).
        #[takes_effect(restart)]
        #[limits(Some(1)..=Some(65_535))]
        pub icp_port: Option<u16> = None,
        /// UDP port at which it answers HTCP, in place of ICP.
        #[takes_effect(restart)]
        #[limits(Some(1)..=Some(65_535))]
        pub htcp_port: Option<u16> = None,
        /// Sign messages to it with `neighbours.htcp_key_file`, and take only signed answers.
        #[takes_effect(restart)]
        pub htcp_signed: bool = false,
        /// Tell it by HTCP (CLR) which URLs were purged here.
        #[takes_effect(restart)]
        pub htcp_clear: bool = false,
        /// Fetch its cache digest and ask it for URLs in the digest alone.
        #[takes_effect(restart)]
        pub digest: bool = false,
        /// URL of its digest. `none` means `/squid-internal-periodic/store_digest` at its HTTP
        /// port.
        #[takes_effect(restart)]
        pub digest_url: Option<String> = None,
        /// Name in the log and in CARP's hash. `none` means `host`.
        #[takes_effect(restart)]
        pub name: Option<String> = None,
        /// Share of the requests among parents, and preference among siblings.
        #[takes_effect(restart)]
        #[limits(1..=1_000_000)]
        pub weight: u32 = 1,
        /// A parent of an array, chosen by the hash of the URL (CARP).
        #[takes_effect(restart)]
        pub carp: bool = false,
        /// Parts of the URL that CARP hashes for this parent: `scheme`, `host`, `port`, `path`,
        /// `params`. Empty means the whole URL.
        #[takes_effect(restart)]
        pub carp_key: Vec<String> = Vec::new(),
        /// A parent asked in turn with the others that say so.
        #[takes_effect(restart)]
        pub round_robin: bool = false,
        /// A parent asked only if no other one can be.
        #[takes_effect(restart)]
        pub default: bool = false,
        /// Let a sibling fetch URLs that it does not hold.
        #[takes_effect(restart)]
        pub allow_miss: bool = false,
        /// Store nothing of its responses here.
        #[takes_effect(restart)]
        pub proxy_only: bool = false,
        /// Time to connect to it.
        #[takes_effect(restart)]
        #[limits(Duration::from_millis(1)..=Duration::from_secs(3600))]
        pub connect_timeout: Duration = Duration::from_secs(5),
        /// Failures in a row after which it is left alone for a time.
        #[takes_effect(restart)]
        #[limits(1..=1000)]
        pub connect_fail_limit: u32 = 10,
        /// Most requests in flight to it; further ones go elsewhere. `none` means no limit.
        #[takes_effect(restart)]
        #[limits(Some(1)..=Some(1_000_000))]
        pub max_conn: Option<usize> = None,
        /// File with the credentials of this node at the neighbour, in one line: `user:password`,
        /// or a whole value such as `Bearer abc`. They are sent in Proxy-Authorization.
        #[takes_effect(restart)]
        pub credentials: Option<PathBuf> = None,
    }
    example { Self { icp_port: Some(3130), ..Self::at("10.0.0.3", NeighbourKind::Sibling) } }
}

choice! {
    /// Place of a neighbour.
    pub enum NeighbourKind {
        /// Asked for responses that it holds.
        Sibling = "sibling",
        /// Asked for responses that it holds or fetches.
        Parent = "parent",
    }
}

impl Neighbour {
    /// Makes a plain neighbour.
    pub fn at(host: &str, kind: NeighbourKind) -> Self {
        Self {
            host: host.into(),
            kind,
            http_port: 3128,
            icp_port: None,
            htcp_port: None,
            htcp_signed: false,
            htcp_clear: false,
            digest: false,
            digest_url: None,
            name: None,
            weight: 1,
            carp: false,
            carp_key: Vec::new(),
            round_robin: false,
            default: false,
            allow_miss: false,
            proxy_only: false,
            connect_timeout: Duration::from_secs(5),
            connect_fail_limit: 10,
            max_conn: None,
            credentials: None,
        }
    }

    /// Returns the name in the log and in CARP's hash.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.host)
    }
}

/// Parts of a URL that CARP may hash.
pub const CARP_KEY_PARTS: &[&str] = &["scheme", "host", "port", "path", "params"];
