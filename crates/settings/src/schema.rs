//! Every setting, as the operator's file spells it.
//!
//! The reference page and the sample file are generated from these types and their comments.

use serde::{Deserialize, Serialize};
use shoal_core::ByteCount;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The whole configuration file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Threads that serve clients, each with its own listener; 0 means one a core.
    pub workers: usize,
    /// Client connections held at once, over all listeners; further ones wait in the kernel's backlog.
    pub max_connections: usize,
    /// Where to accept clients.
    pub listen: Vec<Listen>,
    /// Sites served in reverse mode; the first that matches host and path prefix answers.
    pub site: Vec<Site>,
    /// Rules of forward mode.
    pub forward: Forward,
    /// What is kept in RAM, and how responses are judged.
    pub cache: Cache,
    /// What is kept on disk.
    pub store: Store,
    /// Limits on what clients send.
    pub client: ClientLimits,
    /// How origins are reached.
    pub upstream: Upstream,
    /// Access and error logs.
    pub log: Log,
    /// Metrics, status and purge.
    pub admin: Admin,
}

/// One listening address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// Address and port.
    pub address: SocketAddr,
    /// `forward` takes absolute-form requests and CONNECT; `reverse` serves the sites.
    pub mode: Mode,
    /// Expect a PROXY protocol header (version 1 or 2) from these networks, and from nobody else.
    #[serde(default)]
    pub proxy_protocol_from: Vec<ipnet::IpNet>,
    /// Certificates, chosen by server name; the first is the default. Empty means plain HTTP.
    #[serde(default)]
    pub tls: Vec<Certificate>,
}

/// What a listener is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Clients name the origin in each request.
    Forward,
    /// The sites of this file name the origins.
    Reverse,
}

/// A certificate chain and its key, both PEM; read again when the files change or on reload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// Chain, leaf first.
    pub certificate: PathBuf,
    /// Private key.
    pub key: PathBuf,
}

/// One reverse site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Host names served; `*.example.org` matches subdomains, `*` any host.
    pub hosts: Vec<String>,
    /// Path prefix served; the longest that matches wins among sites of equal hosts.
    #[serde(default = "root_path")]
    pub path_prefix: String,
    /// Where to fetch.
    pub upstreams: Vec<UpstreamServer>,
    /// How one of several upstreams is chosen.
    #[serde(default)]
    pub balance: Balance,
    /// Active health checks; none when absent.
    #[serde(default)]
    pub health: Option<HealthCheck>,
    /// Send the client's Host to the upstream; otherwise the upstream's own.
    #[serde(default = "yes")]
    pub preserve_host: bool,
}

/// One upstream of a site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamServer {
    /// `http://host:port` or `https://host:port`.
    pub url: String,
    /// Share of the requests, relative to the other upstreams.
    #[serde(default = "one")]
    pub weight: u32,
    /// Speak HTTP/2 without TLS (prior knowledge).
    #[serde(default)]
    pub h2c: bool,
}

/// How one of several upstreams is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Balance {
    /// In turn, by weight.
    #[default]
    RoundRobin,
    /// The fewest requests in flight, by weight.
    LeastRequests,
    /// By weighted rendezvous hash of the cache key, so that a URL stays with one upstream.
    Hash,
}

/// An active health check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthCheck {
    /// Path asked with GET; a 2xx or 3xx answer is healthy.
    pub path: String,
    /// Time between checks.
    #[serde(default = "five_seconds", with = "duration")]
    pub interval: Duration,
    /// Consecutive failures that take an upstream out, and successes that bring it back.
    #[serde(default = "two")]
    pub threshold: u32,
}

/// Rules of forward mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Forward {
    /// Client networks served; others get 403.
    pub allow_clients: Vec<ipnet::IpNet>,
    /// Ports that CONNECT may reach.
    pub connect_ports: Vec<u16>,
    /// Destination hosts always refused: names, `*.suffix`, or networks.
    pub deny_destinations: Vec<String>,
    /// Destinations on loopback, link-local and private networks that are nevertheless served: names,
    /// `*.suffix`, or networks. Checked on the resolved address.
    pub allow_private_destinations: Vec<String>,
    /// File of `user:password` lines; when set, clients must authenticate with the Basic scheme.
    pub users_file: Option<PathBuf>,
    /// Realm named in the challenge.
    pub realm: String,
}

/// What is kept in RAM, and how responses are judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cache {
    /// RAM for stored responses and for bodies in flight: a hard limit.
    pub ram: ByteCount,
    /// Largest body kept in RAM.
    pub ram_object_max: ByteCount,
    /// Share of the time since Last-Modified that a response without explicit freshness stays fresh.
    pub heuristic_fraction: f64,
    /// Longest heuristic freshness lifetime.
    #[serde(with = "duration")]
    pub heuristic_max: Duration,
    /// Fields of a response that carry its tags, for purging by tag.
    pub tag_fields: Vec<String>,
    /// Serve stale when the origin cannot be reached and the response does not forbid it, for at most so long.
    #[serde(with = "duration")]
    pub stale_if_error: Duration,
    /// Share one fetch among concurrent requests for one key.
    pub collapse: bool,
    /// The name by which this node calls itself in Via, Cache-Status, Proxy-Status and CDN-Loop.
    pub name: String,
}

/// What is kept on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// Folder of the store; empty means no disk store.
    pub directory: PathBuf,
    /// Disk space used at most, file system blocks of object files and the index included: a hard limit.
    pub disk: ByteCount,
    /// The cache architecture: `squid` for now.
    pub architecture: String,
    /// Objects held at most; 0 derives it from `disk` at 13 KB an object. Fixed when the store is created.
    pub max_objects: u64,
    /// Largest body stored.
    pub object_max: ByteCount,
    /// Threads for disk I/O.
    pub io_threads: usize,
    /// Disk operations that may wait; when the queue is full a read counts as a miss and an insert is declined.
    pub io_queue: usize,
}

/// Limits on what clients send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientLimits {
    /// Largest request head.
    pub head_max: ByteCount,
    /// Most fields in a request.
    pub fields_max: usize,
    /// Longest request target.
    pub target_max: ByteCount,
    /// Time for a whole request head to arrive.
    #[serde(with = "duration")]
    pub head_timeout: Duration,
    /// Longest pause within a request body, or while sending a response.
    #[serde(with = "duration")]
    pub idle_timeout: Duration,
    /// How long an idle connection is kept.
    #[serde(with = "duration")]
    pub keep_alive: Duration,
    /// Concurrent HTTP/2 streams per connection.
    pub h2_streams: u32,
}

/// How origins are reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Upstream {
    /// Time to connect, name lookup and TLS included.
    #[serde(with = "duration")]
    pub connect_timeout: Duration,
    /// Time from the request's end to the response's head.
    #[serde(with = "duration")]
    pub first_byte_timeout: Duration,
    /// Longest pause within a response body.
    #[serde(with = "duration")]
    pub idle_timeout: Duration,
    /// How long an unused connection is kept.
    #[serde(with = "duration")]
    pub keep_alive: Duration,
    /// Unused connections kept per origin.
    pub idle_per_origin: usize,
    /// Connections per origin at most; further requests wait for one.
    pub connections_per_origin: usize,
    /// Further certificate authorities to trust, PEM.
    pub ca_file: Option<PathBuf>,
}

/// Access and error logs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// Access log file, `stdout`, or empty for none.
    pub access: String,
    /// Its format.
    pub format: LogFormat,
    /// Least level of the error log: `error`, `warn`, `info` or `debug`.
    pub level: String,
    /// Write the error log as JSON lines.
    pub json: bool,
}

/// Formats of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Squid's native format.
    Squid,
    /// NCSA combined, with Cache-Status appended.
    Combined,
    /// One JSON object a line.
    Json,
}

/// Metrics, status and purge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// Address of the admin listener; absent means none. Keep it on loopback.
    pub listen: Option<SocketAddr>,
    /// Client networks that may send `PURGE` requests to the ordinary listeners.
    pub purge_from: Vec<ipnet::IpNet>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: 0,
            max_connections: 10_000,
            listen: vec![Listen {
                address: ([127, 0, 0, 1], 3128).into(),
                mode: Mode::Forward,
                proxy_protocol_from: Vec::new(),
                tls: Vec::new(),
            }],
            site: Vec::new(),
            forward: Forward::default(),
            cache: Cache::default(),
            store: Store::default(),
            client: ClientLimits::default(),
            upstream: Upstream::default(),
            log: Log::default(),
            admin: Admin::default(),
        }
    }
}

impl Default for Forward {
    fn default() -> Self {
        Self {
            allow_clients: vec![network("127.0.0.0/8"), network("::1/128")],
            connect_ports: vec![443],
            deny_destinations: Vec::new(),
            allow_private_destinations: Vec::new(),
            users_file: None,
            realm: "shoal".into(),
        }
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            ram: ByteCount::mib(256),
            ram_object_max: ByteCount::mib(1),
            heuristic_fraction: 0.1,
            heuristic_max: Duration::from_secs(86_400),
            tag_fields: vec!["cache-tag".into(), "surrogate-key".into()],
            stale_if_error: Duration::from_secs(3600),
            collapse: true,
            name: "shoal".into(),
        }
    }
}

impl Default for Store {
    fn default() -> Self {
        Self {
            directory: "shoal-cache".into(),
            disk: ByteCount(10_000_000_000),
            architecture: "squid".into(),
            max_objects: 0,
            object_max: ByteCount(4_000_000_000),
            io_threads: 8,
            io_queue: 1024,
        }
    }
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            head_max: ByteCount(65_536),
            fields_max: 128,
            target_max: ByteCount(16_384),
            head_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(60),
            keep_alive: Duration::from_secs(75),
            h2_streams: 128,
        }
    }
}

impl Default for Upstream {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            keep_alive: Duration::from_secs(60),
            idle_per_origin: 32,
            connections_per_origin: 256,
            ca_file: None,
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { access: String::new(), format: LogFormat::Squid, level: "info".into(), json: false }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self { listen: Some(([127, 0, 0, 1], 3129).into()), purge_from: Vec::new() }
    }
}

fn network(text: &str) -> ipnet::IpNet {
    text.parse().expect("a network written in this file")
}

fn root_path() -> String {
    "/".into()
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

fn two() -> u32 {
    2
}

fn five_seconds() -> Duration {
    Duration::from_secs(5)
}

/// Durations in the file carry their unit: `"30s"`.
mod duration {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        match (value.as_secs(), value.subsec_millis()) {
            (seconds, 0) => serializer.collect_str(&format_args!("{seconds}s")),
            _ => serializer.collect_str(&format_args!("{}ms", value.as_millis())),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        shoal_core::parse_duration(&text).map_err(serde::de::Error::custom)
    }
}
