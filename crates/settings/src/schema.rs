//! All settings, as spelled in the operator's file.
//!
//! The reference page and the sample file are printed from these definitions: see
//! [`crate::Settings::sample`].

mod acme;
mod choices;
mod cluster;
mod compress;
mod intercept;
mod listen;
mod made;
mod mirror;
mod neighbour;
mod operation;
mod prefetch;
mod rule;
mod upstream;
mod upstream_server;

use crate::Ports;
pub use acme::{ACME_NAMES_MAX, Acme, AcmeCertificate, AcmeChallenge};
pub use choices::{Admission, HeuristicQuery, SegmentAccess, SegmentPolicy, SetCookie};
pub use cluster::{Cluster, ParentNodes, Placement, SharedMemory};
pub use compress::{Compress, TextCoding};
pub use intercept::Intercept;
pub(crate) use intercept::{MIRRORS, is_name};
use ipnet::IpNet;
pub use listen::{Certificate, ClientCertificate, Listen, Mode, TLS_CIPHERS, TLS_GROUPS, TlsVersion};
pub use mirror::{Mirror, MirrorKind, MirrorRights};
pub use neighbour::{CARP_KEY_PARTS, CarpMode, Neighbour, NeighbourKind, Neighbours};
pub use operation::{Admin, AdminRole, AdminUser, Drain, Log, LogFormat, LogLevel, Otlp, Warm};
pub use prefetch::{EarlyHints, Prefetch};
pub use rule::{OriginDirective, Rule, Satisfy};
use shoal_core::ByteCount;
use std::path::PathBuf;
use std::time::Duration;
pub use upstream::Upstream;
pub use upstream_server::UpstreamServer;

section! {
    /// The whole configuration file.
    pub struct Settings {
        /// Threads that serve clients, each with its own listener; 0 means one a core.
        #[takes_effect(restart)]
        #[limits(0..=1024)]
        pub workers: usize = 0,
        /// Most concurrent client connections, over all listeners. Further connections wait in the
        /// kernel's backlog.
        #[takes_effect(restart)]
        #[limits(1..=10_000_000)]
        pub max_connections: usize = 10_000,
        /// Time for requests in flight to finish when the node is told to stop. After this time the
        /// node cuts them.
        #[limits(Duration::ZERO..=Duration::from_secs(86_400))]
        pub drain_timeout: Duration = Duration::from_secs(30),
        /// Longest wait, in an upgrade, for each of two steps of the new process: to read its
        /// settings, and to open the store and accept clients. After this time the running process
        /// goes on.
        #[limits(Duration::from_millis(100)..=Duration::from_secs(3600))]
        pub upgrade_timeout: Duration = Duration::from_secs(30),
        /// Steps of a stop.
        pub drain: Drain = Drain::default(),
        /// Addresses that accept clients.
        pub listen: Vec<Listen> = vec![Listen::forward(([127, 0, 0, 1], 3128).into())],
        /// Sites served in reverse mode. The site with the most specific host answers, and among
        /// its sites the one with the longest path prefix.
        pub site: Vec<Site> = Vec::new(),
        /// Mirrors of package registries, each under a path of its own on reverse listeners.
        pub mirror: Vec<Mirror> = Vec::new(),
        /// Rules for requests and responses of every site and of forward mode.
        pub rule: Vec<Rule> = Vec::new(),
        /// Rules of forward mode.
        pub forward: Forward = Forward::default(),
        /// Certificates that the node orders itself.
        pub acme: Acme = Acme::default(),
        /// https of forward clients that this node answers itself; nothing by default.
        pub intercept: Intercept = Intercept::default(),
        /// The RAM cache, and rules for the reuse of responses.
        pub cache: Cache = Cache::default(),
        /// Compression of text for clients; none by default.
        pub compress: Compress = Compress::default(),
        /// The disk store.
        pub store: Store = Store::default(),
        /// Limits on clients' requests and connections.
        pub client: ClientLimits = ClientLimits::default(),
        /// Connections to origins.
        #[takes_effect(restart)]
        pub upstream: Upstream = Upstream::default(),
        /// Several nodes that act as one cache.
        pub cluster: Cluster = Cluster::default(),
        /// Caches beside and above this node that are asked by Squid's protocols.
        pub neighbour: Vec<Neighbour> = Vec::new(),
        /// This node as a neighbour of Squid and other caches.
        pub neighbours: Neighbours = Neighbours::default(),
        /// Access and error logs.
        pub log: Log = Log::default(),
        /// Traces and metrics for an OpenTelemetry collector.
        #[takes_effect(restart)]
        pub otlp: Otlp = Otlp::default(),
        /// Metrics, status and purge.
        pub admin: Admin = Admin::default(),
        /// Warming from lockfiles.
        pub warm: Warm = Warm::default(),
        /// Fetching before clients ask.
        pub prefetch: Prefetch = Prefetch::default(),
    }
}

entry! {
    /// One reverse site.
    pub struct Site {
        /// Host names served; `*.example.org` matches subdomains, `*` any host.
        pub hosts: Vec<String>,
        /// Path prefix served. Among sites of equal hosts the longest matching prefix wins.
        pub path_prefix: String = "/".into(),
        /// Servers to fetch from.
        pub upstreams: Vec<UpstreamServer>,
        /// Choice among several upstreams.
        pub balance: Balance = Balance::RoundRobin,
        /// Active health checks.
        pub health: Option<HealthCheck> = None,
        /// Send the client's Host to the upstream; otherwise the upstream's own, or its `host`.
        pub preserve_host: bool = true,
        /// Treatment of this site's responses that set a cookie. `none` means `cache.set_cookie`.
        pub set_cookie: Option<SetCookie> = None,
        /// This site's share of the time since Last-Modified for which a response without explicit
        /// freshness stays fresh. 0 gives no heuristic freshness. `none` means
        /// `cache.heuristic_fraction`.
        #[limits(Some(0.0)..=Some(1.0))]
        pub heuristic_fraction: Option<f64> = None,
        /// URLs of this site with a query that get heuristic freshness. `none` means
        /// `cache.heuristic_query`.
        pub heuristic_query: Option<HeuristicQuery> = None,
        /// Name this node, by `cache.name`, in the Via field of requests to the upstreams, and
        /// report earlier proxies. nginx sends no compressed response to a client with a Via field,
        /// unless its `gzip_proxied` allows this. Without Via, only CDN-Loop detects loops.
        pub via: bool = true,
        /// Rules for requests and responses of this site; they come after the general ones.
        pub rule: Vec<Rule> = Vec::new(),
        /// Rewrite `Location`, `Content-Location` and `Refresh` of responses when they name the
        /// upstream or a path below the upstream's, so that clients get the site's URL. `none`
        /// rewrites if the upstream's own Host is sent or the path that it gets is another one.
        pub rewrite_location: Option<bool> = None,
        /// Most requests in flight to the upstreams together; `none` means no limit beside
        /// `upstream.connections_per_origin`. Answers from the cache do not count, nor do requests
        /// that share another's fetch.
        #[limits(Some(1)..=Some(1_000_000))]
        pub concurrency: Option<usize> = None,
        /// Most requests that wait for their turn under `concurrency`. Clients have fair shares of
        /// the queue. Further requests get a stale response or 503.
        #[limits(0..=1_000_000)]
        pub queue: usize = 256,
        /// Longest time in the queue; then the request gets a stale response or 503.
        #[limits(Duration::from_millis(1)..=Duration::from_secs(3600))]
        pub queue_timeout: Duration = Duration::from_secs(10),
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

choice! {
    /// Choice among several upstreams.
    pub enum Balance {
        /// In turn, by weight.
        RoundRobin = "round_robin",
        /// The upstream with the fewest requests in flight, by weight.
        LeastRequests = "least_requests",
        /// By weighted rendezvous hash of the cache key, so that a URL stays with one upstream.
        Hash = "hash",
    }
}

entry! {
    /// An active health check.
    pub struct HealthCheck {
        /// Path requested with GET; a 2xx or 3xx response is healthy. It is the whole path, not one
        /// below the path of the upstream's URL.
        pub path: String,
        /// Time between checks.
        #[limits(Duration::from_millis(100)..=Duration::from_secs(86_400))]
        pub interval: Duration = Duration::from_secs(5),
        /// Consecutive failures that take an upstream out of service, and consecutive successes
        /// that bring it back.
        #[limits(1..=100)]
        pub threshold: u32 = 2,
    }
    example { Self { path: "/health".into(), interval: Duration::from_secs(5), threshold: 2 } }
}

section! {
    /// Rules of forward mode.
    pub struct Forward {
        /// Client networks served by listeners in forward mode without `allow_clients` of their
        /// own. Other clients get 403.
        pub allow_clients: Vec<IpNet> = vec![network("127.0.0.0/8"), network("::1/128")],
        /// Ports that CONNECT may reach.
        pub connect_ports: Vec<u16> = vec![443],
        /// Ports that other requests may reach, each a number or a range; others get 403. Below
        /// 1024 most ports belong to services other than HTTP, such as mail. A forged request could
        /// speak to such a service.
        pub request_ports: Vec<Ports> = vec![Ports::new(80, 80), Ports::new(443, 443), Ports::new(1024, u16::MAX)],
        /// Destination hosts that are always refused: names, `*.suffix`, or networks.
        pub deny_destinations: Vec<String> = Vec::new(),
        /// Destinations on loopback, link-local and private networks that are served nevertheless.
        /// Names, `*.suffix`, or networks. Shoal checks the resolved address.
        pub allow_private_destinations: Vec<String> = Vec::new(),
        /// File of `user:password` lines; when set, clients must authenticate with the Basic
        /// scheme. A password may be written as `$sha256$SALT$HEX`. HEX is then the output of
        /// `printf %s "$SALT$PASSWORD" | sha256sum`. Lines that begin with `#` are skipped. Shoal
        /// reads the file again on reload.
        pub users_file: Option<PathBuf> = None,
        /// Realm named in the challenge.
        pub realm: String = "shoal".into(),
    }
}

section! {
    /// The RAM cache, and rules for the reuse of responses.
    pub struct Cache {
        /// RAM for stored responses and for bodies in flight: a hard limit. The process takes about
        /// a twelfth more for gaps and lists, and 30 MiB for itself, one volume and its buffers. An
        /// index takes ten bytes for each 8 KB of disk; its part above 5 MB also comes on top. If
        /// the process's memory is limited, leave 10 MiB more for the pages of its program. A
        /// reload with less evicts at once; the number of shards, and the share of
        /// `store.neighbourhood_percent`, stay those of the start.
        #[limits(ByteCount::mib(4)..=ByteCount::mib(1 << 24))]
        pub ram: ByteCount = ByteCount::mib(256),
        /// Largest body kept in RAM.
        #[takes_effect(restart)]
        pub ram_object_max: ByteCount = ByteCount::mib(1),
        /// Replacement policy of the RAM tier. One of `s3_fifo`, `fifo`, `clock`, `lru`, `slru`,
        /// `lfu_da`, `gdsf`, `sieve` or `w_tinylfu`. `gdsf` saves most requests when sizes differ
        /// much, at the cost of bytes.
        #[takes_effect(restart)]
        pub ram_policy: String = "s3_fifo".into(),
        /// Share of the time since Last-Modified for which a response without explicit freshness
        /// stays fresh. A site may have its own.
        #[limits(0.0..=1.0)]
        pub heuristic_fraction: f64 = 0.1,
        /// Longest heuristic freshness lifetime.
        pub heuristic_max: Duration = Duration::from_secs(86_400),
        /// URLs with a query that get heuristic freshness. A site may have its own setting.
        /// Explicit freshness from the origin is not affected.
        pub heuristic_query: HeuristicQuery = HeuristicQuery::Never,
        /// Fields of a response that carry its tags, for purging by tag.
        pub tag_fields: Vec<String> = vec!["cache-tag".into(), "surrogate-key".into()],
        /// Longest time for serving stale when the origin cannot be reached and the response does
        /// not forbid it.
        pub stale_if_error: Duration = Duration::from_secs(3600),
        /// Time for sharing errors without explicit freshness (404, 405, 410, 414 and 501), in
        /// whole seconds. Only clients that send neither Cookie nor Authorization share them, and
        /// only RAM holds them. 0 asks the origin each time. `heuristic_query` decides about URLs
        /// with a query.
        #[limits(Duration::ZERO..=Duration::from_secs(3600))]
        pub negative_ttl: Duration = Duration::from_secs(1),
        /// Longest pause between requests to an origin that answers 429 or an error with
        /// Retry-After. Within the origin's own time, at most this long, Shoal serves a stale
        /// response for that URL if it may. 0 asks the origin with each request.
        #[limits(Duration::ZERO..=Duration::from_secs(3600))]
        pub retry_after_max: Duration = Duration::from_secs(10),
        /// Time for which a client's reload shares the result of another client's reload. A reload
        /// (`no-cache`, `max-age`, `min-fresh`) within this time is a hit if the response is fresh.
        /// Concurrent reloads share a fetch. 0 asks the origin each time.
        #[limits(Duration::ZERO..=Duration::from_secs(60))]
        pub reload_interval: Duration = Duration::from_secs(1),
        /// Treatment of responses that set a cookie. In every case only the client of the request
        /// gets the cookie. A site may have its own setting.
        pub set_cookie: SetCookie = SetCookie::Pass,
        /// Share one fetch among concurrent requests for one key.
        pub collapse: bool = true,
        /// Name of this node in Via, Cache-Status, Proxy-Status and CDN-Loop. Nodes in a row need
        /// different names, or each takes the other for a loop. The default is made unique in Via
        /// and CDN-Loop.
        pub name: String = "shoal".into(),
    }
}

section! {
    /// The disk store.
    pub struct Store {
        /// Folder of the store; empty or `none` means no disk store. With `disks` the folder holds
        /// only the table of purges, no objects. A reload with another folder moves the objects
        /// there while the node serves.
        pub directory: PathBuf = "shoal-cache".into(),
        /// Most disk space used, including file system blocks of object files and the index: a hard
        /// limit. Not with `disks`. A `volume` uses at most 4 TiB: divide a larger disk. A reload
        /// with another size makes the store larger or smaller while it serves. At the default, a
        /// new store takes half of the free space, in whole gigabytes up to 100. A volume that is
        /// there keeps its size. `shoal run` and `shoal check` tell the size.
        #[limits(DISK_BYTES)]
        pub disk: ByteCount = ByteCount(10_000_000_000),
        /// Bytes that the disk's maker allows to be written in its life (TBW, terabytes written).
        /// The dashboard then tells the years for which that lasts. Not with `disks`. `none` means
        /// unknown.
        #[takes_effect(restart)]
        pub endurance: Option<ByteCount> = None,
        /// Several disks in place of one folder. Each disk has a store of its own, with a share of
        /// the objects in proportion to its bytes. The other settings of this section apply to each
        /// store. A failed disk is taken out of service with its objects, and the others continue.
        /// A reload adds disks, changes their size, and copies the objects of removed disks to the
        /// others.
        pub disks: Vec<Disk> = Vec::new(),
        /// Start only with a usable disk. When true, the node starts only if at least one disk is
        /// usable. When false, the node starts without a disk and serves from RAM; `/healthz` and
        /// `shoal status` then say `degraded: no store`. In both cases the node retries a disk that
        /// it could not open at the start, at least every minute. `none` means true if an option or
        /// a variable sets `directory`, `disk` or `disks`, or if one of these is not at its
        /// default.
        #[takes_effect(restart)]
        pub required: Option<bool> = None,
        /// The cache architecture: naming and placement of objects on disk. `volume`: one file of
        /// fixed size, written in large pieces in the order of misses, the least disk I/O of all.
        /// `squid`: files spread evenly over folders. `squid_monotonic`: folders filled one after
        /// the other. `squid_lowest`: like `squid_monotonic`, but always the lowest free place, and
        /// files overwritten instead of removed. `squidl`: a folder for the objects of a host.
        /// `squidm`, `squidml`: like `squid` and `squidl`, but objects of at most 8 KB in a
        /// memory-mapped file. `squidmla`: like `squidml`, but no object of that file crosses a
        /// page. `cern`: a folder for each URL, lock files, and no index, so that every miss asks
        /// the disk. A store keeps the architecture that made it.
        #[takes_effect(restart)]
        pub architecture: String = "volume".into(),
        /// With `volume`: the time at which an object may be written. `probation`: at once while
        /// there is unused space; later only on a second request before long, and until then in RAM
        /// only. `always`: at once.
        #[takes_effect(restart)]
        pub admission: Admission = Admission::Probation,
        /// With `volume`: bytes written at once. Fixed when the store is created.
        #[takes_effect(restart)]
        #[limits(ByteCount(262_144)..=ByteCount::mib(64))]
        pub stripe: ByteCount = ByteCount::mib(1),
        /// With `volume`: the share of `cache.ram`, in percent, for the neighbours of objects read
        /// from disk. 0 reads objects alone.
        #[takes_effect(restart)]
        #[limits(0..=90)]
        pub neighbourhood_percent: u64 = 10,
        /// Replacement policy of the store. `clock` and `fifo` keep their state in the index, also
        /// over a restart. `lru`, `slru`, `lfu_da`, `gdsf`, `s3_fifo`, `sieve` and `w_tinylfu` keep
        /// their state in RAM and start empty. `volume` and `cern` have policies of their own:
        /// leave `clock` there.
        #[takes_effect(restart)]
        pub replacement: String = "clock".into(),
        /// Length of the memory-mapped file for small objects, with `squidm`, `squidml` and
        /// `squidmla`; part of `disk`. 0 means a quarter of `disk`. Fixed when the store is
        /// created.
        #[takes_effect(restart)]
        pub segments: ByteCount = ByteCount(0),
        /// Way in which the mapped file is accessed. All ways share one page cache.
        #[takes_effect(restart)]
        pub segment_access: SegmentAccess = SegmentAccess::Pread,
        /// Policy that chooses the small object to evict when the mapped file is full.
        #[takes_effect(restart)]
        pub segment_policy: SegmentPolicy = SegmentPolicy::Fbc,
        /// With `fbc` and `fbc_resident`: number of references from which an object is passed over.
        #[takes_effect(restart)]
        #[limits(1..=1_000_000)]
        pub fbc_c_max: u32 = 3,
        /// With `fbc` and `fbc_resident`: counts of references are halved when their mean exceeds
        /// this.
        #[takes_effect(restart)]
        #[limits(1..=1_000_000)]
        pub fbc_a_max: u32 = 100,
        /// Most files in a folder, with `squid_monotonic`. Fixed when the store is created.
        #[takes_effect(restart)]
        #[limits(1..=4096)]
        pub files_per_folder: u32 = 384,
        /// Most objects held; 0 derives the number from `disk` at 13 KB an object, with `volume` at
        /// 8 KB. Fixed when the store is created.
        #[takes_effect(restart)]
        #[limits(0..=1_000_000_000_000)]
        pub max_objects: u64 = 0,
        /// Largest body stored. A default above `disk`, or above the smallest of `disks`, is
        /// lowered to that size. A volume stores no body above a quarter of its size.
        #[takes_effect(restart)]
        pub object_max: ByteCount = ByteCount(4_000_000_000),
        /// With `volume`: most bytes, over all disks, for responses that rules pin. 0 means a tenth
        /// of the disks; more than half of them is refused.
        #[takes_effect(restart)]
        pub pin_max: ByteCount = ByteCount(0),
        /// Most bytes read and written in a second to copy objects when disks change. 0 means no
        /// limit.
        pub move_rate: ByteCount = ByteCount::mib(64),
        /// Threads for disk I/O. Each of several disks has this number, so that one that hangs does
        /// not block the others.
        #[takes_effect(restart)]
        #[limits(1..=1024)]
        pub io_threads: usize = 8,
        /// Most disk operations that wait, for each disk. When the queue is full, a read waits for
        /// a place in the queue, as long as for the disk, and an insert is declined.
        #[takes_effect(restart)]
        #[limits(1..=1_000_000)]
        pub io_queue: usize = 1024,
    }
}

entry! {
    /// One of several disks.
    pub struct Disk {
        /// Folder of the disk's store, created if missing; with `volume` also a block device. A
        /// block device is used if it is blank or prepared by `shoal store format`. These names
        /// determine each disk's objects: a disk with a changed name must be filled again. The
        /// order of the disks does not matter.
        pub path: PathBuf,
        /// Most disk space used, and the disk's share of the objects, relative to the other disks.
        #[limits(DISK_BYTES)]
        pub bytes: ByteCount,
        /// As `endurance` of the store, for this disk.
        pub endurance: Option<ByteCount> = None,
    }
    example {
        Self { path: "/srv/disk1/shoal".into(), bytes: ByteCount(1_000_000_000_000), endurance: None }
    }
}

section! {
    /// Limits on clients' requests and connections.
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
        /// Least rate of a client, in bytes a second, for sending its request body or taking its
        /// response. Only the time in which Shoal waits for the client counts, averaged over
        /// `idle_timeout`. A slower client is disconnected. 0 for no such rule.
        pub rate_min: ByteCount = ByteCount(256),
        /// Longest time that an idle connection is kept.
        #[limits(Duration::ZERO..=Duration::from_secs(86_400))]
        pub keep_alive: Duration = Duration::from_secs(75),
        /// Concurrent streams of an HTTP/2 or HTTP/3 connection.
        #[limits(1..=10_000)]
        pub h2_streams: u32 = 128,
        /// Longest time without data in a tunnel (CONNECT, or an upgraded connection).
        #[limits(TIMEOUT)]
        pub tunnel_timeout: Duration = Duration::from_secs(600),
    }
}

/// Limits of a timeout. A pause longer than a day is no timeout.
const TIMEOUT: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(86_400);
/// Limits of a disk's size.
const DISK_BYTES: std::ops::RangeInclusive<ByteCount> = ByteCount(1_000_000)..=ByteCount::mib(1 << 34);

fn network(text: &str) -> IpNet {
    text.parse().expect("a network written in this file")
}
