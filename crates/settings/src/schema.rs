//! Every setting, as the operator's file spells it.
//!
//! The reference page and the sample file are printed from these definitions: see [`crate::Settings::sample`].

mod choices;
mod made;
mod rule;

use crate::{AdminAddress, Ports};
pub use choices::{Admission, HeuristicQuery, SegmentPolicy, SetCookie};
use ipnet::IpNet;
pub use rule::{OriginDirective, Rule};
use shoal_core::ByteCount;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

section! {
    /// The whole configuration file.
    pub struct Settings {
        /// Threads that serve clients, each with its own listener; 0 means one a core.
        #[takes_effect(restart)]
        #[limits(0..=1024)]
        pub workers: usize = 0,
        /// Client connections held at once, over all listeners; further ones wait in the kernel's backlog.
        #[takes_effect(restart)]
        #[limits(1..=10_000_000)]
        pub max_connections: usize = 10_000,
        /// Time for what is in flight to finish when the node is asked to stop; then it is cut.
        #[limits(Duration::ZERO..=Duration::from_secs(86_400))]
        pub drain_timeout: Duration = Duration::from_secs(30),
        /// Where to accept clients.
        pub listen: Vec<Listen> = vec![Listen::forward(([127, 0, 0, 1], 3128).into())],
        /// Sites served in reverse mode; the most specific host answers, and of its sites the longest path prefix.
        pub site: Vec<Site> = Vec::new(),
        /// Rules for requests and responses of every site and of forward mode.
        pub rule: Vec<Rule> = Vec::new(),
        /// Rules of forward mode.
        pub forward: Forward = Forward::default(),
        /// What is kept in RAM, and how responses are judged.
        pub cache: Cache = Cache::default(),
        /// What is kept on disk.
        #[takes_effect(restart)]
        pub store: Store = Store::default(),
        /// Limits on what clients send.
        pub client: ClientLimits = ClientLimits::default(),
        /// How origins are reached.
        #[takes_effect(restart)]
        pub upstream: Upstream = Upstream::default(),
        /// Access and error logs.
        pub log: Log = Log::default(),
        /// Metrics, status and purge.
        pub admin: Admin = Admin::default(),
    }
}

entry! {
    /// One listening address.
    pub struct Listen {
        /// Address and port. `0.0.0.0` is every IPv4 address, `[::]` every IPv6 address and no IPv4 address.
        #[takes_effect(restart)]
        pub address: SocketAddr,
        /// What the listener is for.
        pub mode: Mode,
        /// Client networks served here; others get 403, whatever they ask for. With `none`, a listener in forward mode serves those of
        /// `forward.allow_clients`, and one in reverse mode serves everybody.
        pub allow_clients: Option<Vec<IpNet>> = None,
        /// Expect a PROXY protocol header (version 1 or 2) from these networks, and from nobody else.
        #[takes_effect(restart)]
        pub proxy_protocol_from: Vec<IpNet> = Vec::new(),
        /// Proxies in front of this node, by network. What they say of a client in `X-Forwarded-For`, `X-Forwarded-Proto` or `Forwarded`
        /// is believed: for access lists, logs, the URL's scheme, and towards upstreams. From anybody else such fields are dropped.
        pub trusted_proxies: Vec<IpNet> = Vec::new(),
        /// Certificates, chosen by server name; the first is the default. Empty means plain HTTP.
        pub tls: Vec<Certificate> = Vec::new(),
    }
    example { Self { mode: Mode::Reverse, ..Self::forward(([0, 0, 0, 0], 8080).into()) } }
}

choice! {
    /// What a listener is for.
    pub enum Mode {
        /// Clients name the origin in each request: absolute-form targets and CONNECT.
        Forward = "forward",
        /// The sites of this file name the origins.
        Reverse = "reverse",
    }
}

entry! {
    /// A certificate chain and its key, both PEM; read again when the files change or on reload.
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

entry! {
    /// One reverse site.
    pub struct Site {
        /// Host names served; `*.example.org` matches subdomains, `*` any host.
        pub hosts: Vec<String>,
        /// Path prefix served; the longest that matches wins among sites of equal hosts.
        pub path_prefix: String = "/".into(),
        /// Where to fetch.
        pub upstreams: Vec<UpstreamServer>,
        /// How one of several upstreams is chosen.
        pub balance: Balance = Balance::RoundRobin,
        /// Active health checks.
        pub health: Option<HealthCheck> = None,
        /// Send the client's Host to the upstream; otherwise the upstream's own.
        pub preserve_host: bool = true,
        /// What becomes of this site's responses that set a cookie; `none` leaves it to `cache.set_cookie`.
        pub set_cookie: Option<SetCookie> = None,
        /// This site's share of the time since Last-Modified that a response without explicit freshness stays fresh; 0 guesses
        /// nothing, `none` leaves it to `cache.heuristic_fraction`.
        #[limits(Some(0.0)..=Some(1.0))]
        pub heuristic_fraction: Option<f64> = None,
        /// Which URLs of this site with a query get heuristic freshness; `none` leaves it to `cache.heuristic_query`.
        pub heuristic_query: Option<HeuristicQuery> = None,
        /// Name this node, by `cache.name`, in the Via field of requests to the upstreams, and tell them of proxies before it. nginx sends
        /// nothing compressed to whoever has a Via, unless its `gzip_proxied` allows that. Without, loops are found by CDN-Loop alone.
        pub via: bool = true,
        /// Rules for requests and responses of this site; they come after the general ones.
        pub rule: Vec<Rule> = Vec::new(),
    }
    example {
        Self {
            hosts: vec!["www.example.org".into()],
            health: Some(HealthCheck::example()),
            preserve_host: true,
            ..Self::to("http://10.0.0.2:8000")
        }
    }
}

entry! {
    /// One upstream of a site.
    pub struct UpstreamServer {
        /// `http://host:port` or `https://host:port`.
        pub url: String,
        /// Share of the requests, relative to the other upstreams.
        #[limits(1..=1_000_000)]
        pub weight: u32 = 1,
        /// Speak HTTP/2 without TLS (prior knowledge).
        pub h2c: bool = false,
    }
    example { Self { url: "http://10.0.0.2:8000".into(), weight: 1, h2c: false } }
}

choice! {
    /// How one of several upstreams is chosen.
    pub enum Balance {
        /// In turn, by weight.
        RoundRobin = "round_robin",
        /// The fewest requests in flight, by weight.
        LeastRequests = "least_requests",
        /// By weighted rendezvous hash of the cache key, so that a URL stays with one upstream.
        Hash = "hash",
    }
}

entry! {
    /// An active health check.
    pub struct HealthCheck {
        /// Path asked with GET; a 2xx or 3xx answer is healthy.
        pub path: String,
        /// Time between checks.
        #[limits(Duration::from_millis(100)..=Duration::from_secs(86_400))]
        pub interval: Duration = Duration::from_secs(5),
        /// Consecutive failures that take an upstream out, and successes that bring it back.
        #[limits(1..=100)]
        pub threshold: u32 = 2,
    }
    example { Self { path: "/health".into(), interval: Duration::from_secs(5), threshold: 2 } }
}

section! {
    /// Rules of forward mode.
    pub struct Forward {
        /// Client networks served by listeners in forward mode that have no `allow_clients` of their own; others get 403.
        pub allow_clients: Vec<IpNet> = vec![network("127.0.0.0/8"), network("::1/128")],
        /// Ports that CONNECT may reach.
        pub connect_ports: Vec<u16> = vec![443],
        /// Ports that other requests may reach, each a number or a range; others get 403. Below 1024 most belong to services that are
        /// not HTTP, such as mail, which a request can be made to speak to.
        pub request_ports: Vec<Ports> = vec![Ports::new(80, 80), Ports::new(443, 443), Ports::new(1024, u16::MAX)],
        /// Destination hosts always refused: names, `*.suffix`, or networks.
        pub deny_destinations: Vec<String> = Vec::new(),
        /// Destinations on loopback, link-local and private networks that are nevertheless served: names,
        /// `*.suffix`, or networks. Checked on the resolved address.
        pub allow_private_destinations: Vec<String> = Vec::new(),
        /// File of `user:password` lines; when set, clients must authenticate with the Basic scheme. A password may stand as
        /// `$sha256$SALT$HEX`, where HEX is what `printf %s "$SALT$PASSWORD" | sha256sum` prints. Lines that begin with `#` are
        /// skipped. Read again on reload.
        pub users_file: Option<PathBuf> = None,
        /// Realm named in the challenge.
        pub realm: String = "shoal".into(),
    }
}

section! {
    /// What is kept in RAM, and how responses are judged.
    pub struct Cache {
        /// RAM for stored responses and for bodies in flight: a hard limit. The process takes about a twelfth more for gaps and
        /// lists, and 30 MiB for itself, one volume and its buffers; of an index beyond 5 MB (ten bytes for each 8 KB of disk) the
        /// rest, too. Where a process's memory is limited, leave 10 MiB more for the pages of its program.
        #[takes_effect(restart)]
        #[limits(ByteCount::mib(4)..=ByteCount::mib(1 << 24))]
        pub ram: ByteCount = ByteCount::mib(256),
        /// Largest body kept in RAM.
        #[takes_effect(restart)]
        pub ram_object_max: ByteCount = ByteCount::mib(1),
        /// How objects in RAM are replaced: `s3_fifo`, `fifo`, `clock`, `lru`, `slru`, `lfu_da`, `gdsf`, `sieve` or
        /// `w_tinylfu`. `gdsf` saves most requests where sizes differ much, at the cost of bytes.
        #[takes_effect(restart)]
        pub ram_policy: String = "s3_fifo".into(),
        /// Share of the time since Last-Modified that a response without explicit freshness stays fresh. A site may have its own.
        #[limits(0.0..=1.0)]
        pub heuristic_fraction: f64 = 0.1,
        /// Longest heuristic freshness lifetime.
        pub heuristic_max: Duration = Duration::from_secs(86_400),
        /// Which URLs with a query get heuristic freshness; those of a site may be others. Of what the origin says itself it changes
        /// nothing.
        pub heuristic_query: HeuristicQuery = HeuristicQuery::Never,
        /// Fields of a response that carry its tags, for purging by tag.
        pub tag_fields: Vec<String> = vec!["cache-tag".into(), "surrogate-key".into()],
        /// Serve stale when the origin cannot be reached and the response does not forbid it, for at most so long.
        pub stale_if_error: Duration = Duration::from_secs(3600),
        /// Share errors without explicit freshness (404, 405, 410, 414 and 501) for so long, whole seconds, among clients that send neither
        /// Cookie nor Authorization; in RAM alone. 0 asks the origin each time. URLs with a query by `heuristic_query`.
        #[limits(Duration::ZERO..=Duration::from_secs(3600))]
        pub negative_ttl: Duration = Duration::from_secs(1),
        /// An origin that answers 429 or an error with Retry-After is not asked again for that URL as long as it says, and for so long at
        /// most, where a stale response may be served in its place. 0 asks it with each request.
        #[limits(Duration::ZERO..=Duration::from_secs(3600))]
        pub retry_after_max: Duration = Duration::from_secs(10),
        /// A client's reload (`no-cache`, `max-age`, `min-fresh`) of what another reload has fetched or validated within so long is a hit, if it is
        /// fresh; reloads at once share a fetch. 0 asks the origin each time.
        #[limits(Duration::ZERO..=Duration::from_secs(60))]
        pub reload_interval: Duration = Duration::from_secs(1),
        /// What becomes of responses that set a cookie. Whatever they say of themselves, nobody gets the cookie but the client
        /// who asked. A site may have its own.
        pub set_cookie: SetCookie = SetCookie::Pass,
        /// Share one fetch among concurrent requests for one key.
        pub collapse: bool = true,
        /// The name by which this node calls itself in Via, Cache-Status, Proxy-Status and CDN-Loop. Nodes in a row need
        /// different names, or they take each other for a loop; the default is made unique in Via and CDN-Loop.
        pub name: String = "shoal".into(),
    }
}

section! {
    /// What is kept on disk.
    pub struct Store {
        /// Folder of the store; empty or `none` means no disk store. With `disks` it holds no objects, only the table of purges.
        pub directory: PathBuf = "shoal-cache".into(),
        /// Disk space used at most, file system blocks of object files and the index included: a hard limit. Not with `disks`.
        /// A `volume` takes 4 TiB of it at most: divide a larger disk.
        #[limits(DISK_BYTES)]
        pub disk: ByteCount = ByteCount(10_000_000_000),
        /// Several disks in place of one folder. Each has a store of its own, with a share of the objects as its bytes; what
        /// this section says of a store is meant for each. One that fails is taken out of service with its objects,
        /// and the others go on.
        pub disks: Vec<Disk> = Vec::new(),
        /// When true, the node starts only with a disk that can be used, one of several at least. When false, it starts without and serves from RAM;
        /// `/healthz` and `shoal status` say `degraded: no store`. Either way a disk that could not be opened at the start is tried again, every minute at the latest.
        /// `none` means true where `directory`, `disk` or `disks` is not at its default, or is set by an option or a variable.
        pub required: Option<bool> = None,
        /// The cache architecture: how objects are named and placed on disk. `volume`: one file of fixed size, written in large
        /// pieces in the order of misses, the least disk I/O of all. `squid`: files spread evenly over folders.
        /// `squid_monotonic`: folders filled one after the other. `squid_lowest`: the same, always the lowest free place,
        /// and files overwritten instead of removed. `squidl`: a folder for the objects of a host. `squidm`, `squidml`: as
        /// `squid` and `squidl`, objects of at most 8 KB in a memory-mapped file. `squidmla`: the same, and none of them
        /// crosses a page. `cern`: a folder for each URL, lock files, and no index, so that every miss asks the disk. A store
        /// keeps the architecture that made it.
        pub architecture: String = "volume".into(),
        /// With `volume`: when an object may be written. `probation`: while there is unused space at once, later when it is
        /// asked for a second time before long; until then it is in RAM only. `always`: at once.
        pub admission: Admission = Admission::Probation,
        /// With `volume`: bytes written at once. Fixed when the store is created.
        #[limits(ByteCount(262_144)..=ByteCount::mib(64))]
        pub stripe: ByteCount = ByteCount::mib(1),
        /// With `volume`: the share of `cache.ram`, in percent, for what stands around objects that were read from disk. 0 reads
        /// objects alone.
        #[limits(0..=90)]
        pub neighbourhood_percent: u64 = 10,
        /// What goes when room is needed. `clock` and `fifo` keep what they know in the index, and know it again after a restart.
        /// `lru`, `slru`, `lfu_da`, `gdsf`, `s3_fifo`, `sieve` and `w_tinylfu` keep it in RAM and begin anew. Not with `volume` and
        /// `cern`, which have ways of their own: leave it at `clock` there.
        pub replacement: String = "clock".into(),
        /// Length of the memory-mapped file for small objects, with `squidm`, `squidml` and `squidmla`; part of `disk`. 0 makes
        /// it a quarter of that. Fixed when the store is created.
        pub segments: ByteCount = ByteCount(0),
        /// Which small object gives up its place when the mapped file is full.
        pub segment_policy: SegmentPolicy = SegmentPolicy::Fbc,
        /// With `fbc` and `fbc_resident`: an object with at least so many references is passed over.
        #[limits(1..=1_000_000)]
        pub fbc_c_max: u32 = 3,
        /// With `fbc` and `fbc_resident`: counts of references are halved when their mean exceeds this.
        #[limits(1..=1_000_000)]
        pub fbc_a_max: u32 = 100,
        /// Files in a folder at most, with `squid_monotonic`. Fixed when the store is created.
        #[limits(1..=4096)]
        pub files_per_folder: u32 = 384,
        /// Objects held at most; 0 derives it from `disk` at 13 KB an object, with `volume` at 8 KB. Fixed when the store is created.
        #[limits(0..=1_000_000_000_000)]
        pub max_objects: u64 = 0,
        /// Largest body stored; a default above `disk`, or the smallest of `disks`, is lowered to it.
        pub object_max: ByteCount = ByteCount(4_000_000_000),
        /// Threads for disk I/O; each of several disks has as many, so that one that hangs does not keep others waiting.
        #[limits(1..=1024)]
        pub io_threads: usize = 8,
        /// Disk operations that may wait, for each disk; when the queue is full a read waits for a place in it, as long as for the disk, and an insert is declined.
        #[limits(1..=1_000_000)]
        pub io_queue: usize = 1024,
    }
}

entry! {
    /// One of several disks.
    pub struct Disk {
        /// Folder of its store, made when absent; with `volume` also a block device, which is used as it is if it is blank or
        /// `shoal store format` has made it so. Objects are shared out by these names: a disk that gets another one has to
        /// be filled anew, the order does not matter.
        pub path: PathBuf,
        /// Disk space used of it at most, and its share of the objects, relative to the other disks.
        #[limits(DISK_BYTES)]
        pub bytes: ByteCount,
    }
    example { Self { path: "/srv/disk1/shoal".into(), bytes: ByteCount(1_000_000_000_000) } }
}

section! {
    /// Limits on what clients send.
    pub struct ClientLimits {
        /// Largest request head.
        #[limits(ByteCount(1024)..=ByteCount::mib(1))]
        pub head_max: ByteCount = ByteCount(65_536),
        /// Most fields in a request.
        #[limits(8..=10_000)]
        pub fields_max: usize = 128,
        /// Longest request target.
        #[limits(ByteCount(256)..=ByteCount::mib(1))]
        pub target_max: ByteCount = ByteCount(16_384),
        /// Time for a whole request head to arrive.
        #[limits(TIMEOUT)]
        pub head_timeout: Duration = Duration::from_secs(15),
        /// Longest pause within a request body, or while sending a response.
        #[limits(TIMEOUT)]
        pub idle_timeout: Duration = Duration::from_secs(60),
        /// Bytes a second that a client must send of its request body, or take of its response, at least: of the time in which
        /// it is waited for, averaged over `idle_timeout`. One that is slower is given up. 0 for no such rule.
        pub rate_min: ByteCount = ByteCount(256),
        /// How long an idle connection is kept.
        #[limits(Duration::ZERO..=Duration::from_secs(86_400))]
        pub keep_alive: Duration = Duration::from_secs(75),
        /// Concurrent HTTP/2 streams per connection.
        #[limits(1..=10_000)]
        pub h2_streams: u32 = 128,
        /// How long a tunnel (CONNECT, or an upgraded connection) may carry nothing.
        #[limits(TIMEOUT)]
        pub tunnel_timeout: Duration = Duration::from_secs(600),
    }
}

section! {
    /// How origins are reached.
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
        /// How long an unused connection is kept.
        #[limits(Duration::ZERO..=Duration::from_secs(86_400))]
        pub keep_alive: Duration = Duration::from_secs(60),
        /// Unused connections kept per origin.
        #[limits(0..=100_000)]
        pub idle_per_origin: usize = 256,
        /// Connections per origin at most; further requests wait for one. One client address may hold four for each that is
        /// free (205 of 256), one of its connections two for each. Health checks have one of their own.
        #[limits(1..=100_000)]
        pub connections_per_origin: usize = 256,
        /// Tunnels of Upgrade (WebSocket) per origin at most, beside those connections; shared out likewise.
        #[limits(1..=100_000)]
        pub tunnels_per_origin: usize = 1024,
        /// Tunnels of CONNECT at most, to all destinations together, shared out likewise. Each takes an open file.
        #[limits(1..=1_000_000)]
        pub tunnels: usize = 4096,
        /// Further certificate authorities to trust, PEM.
        pub ca_file: Option<PathBuf> = None,
        /// Origins' own certificates that are accepted as they stand, PEM: for self-signed ones, as openssl req -x509 makes
        /// them. Their names and dates are checked, and they sign no others.
        pub pinned_certificates: Option<PathBuf> = None,
    }
}

section! {
    /// Access and error logs.
    pub struct Log {
        /// Access log file, `stdout`, or empty or `none` for none. USR1 has the node open it again by its name.
        pub access: String = String::new(),
        /// Its format.
        pub format: LogFormat = LogFormat::Squid,
        /// Least level of the error log.
        pub level: LogLevel = LogLevel::Info,
        /// Write the error log as JSON lines.
        #[takes_effect(restart)]
        pub json: bool = false,
    }
}

choice! {
    /// Formats of the access log.
    pub enum LogFormat {
        /// Squid's native format.
        Squid = "squid",
        /// NCSA combined, with Cache-Status appended.
        Combined = "combined",
        /// One JSON object a line.
        Json = "json",
    }
}

choice! {
    /// Levels of the error log.
    pub enum LogLevel {
        /// What needs an operator.
        Error = "error",
        /// What may need one.
        Warn = "warn",
        /// What happens seldom and is good to know.
        Info = "info",
        /// What helps to find a fault.
        Debug = "debug",
    }
}

section! {
    /// Metrics, status and purge.
    pub struct Admin {
        /// Where the admin listener listens: an address and port, or `unix:/path` of a socket. Keep it on loopback.
        #[takes_effect(restart)]
        pub listen: Option<AdminAddress> = Some(AdminAddress::Tcp(([127, 0, 0, 1], 3129).into())),
        /// Names by which the admin listener is asked besides an address, `localhost` and this machine's own name, such as that
        /// in a scraper's settings. A request that calls it otherwise is refused: a web page may have sent it.
        #[takes_effect(restart)]
        pub hosts: Vec<String> = Vec::new(),
        /// Client networks that may send `PURGE` requests to the ordinary listeners.
        pub purge_from: Vec<IpNet> = Vec::new(),
    }
}

/// A pause longer than a day is no timeout.
const TIMEOUT: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(86_400);
/// What a disk may be given.
const DISK_BYTES: std::ops::RangeInclusive<ByteCount> = ByteCount(1_000_000)..=ByteCount::mib(1 << 34);

fn network(text: &str) -> IpNet {
    text.parse().expect("a network written in this file")
}
