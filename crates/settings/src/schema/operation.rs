//! Settings of logs, metrics and purges.

use crate::{AdminAddress, Certificate};
use ipnet::IpNet;
use shoal_core::ByteCount;
use std::path::PathBuf;
use std::time::Duration;

section! {
    /// Access and error logs.
    pub struct Log {
        /// Access log file, `stdout`, or empty or `none` for none. On USR1 the node opens the file
        /// again by its name. `syslog` sends each line to the syslog of this machine (RFC 5424),
        /// `syslog+unix:///PATH` to another socket, `syslog+udp://HOST:514` and
        /// `syslog+tcp://HOST:601` to a server. `journald` sends them to the systemd journal. Lines
        /// that a receiver does not take are dropped and counted.
        pub access: String = String::new(),
        /// Format of the access log.
        pub format: LogFormat = LogFormat::Squid,
        /// Format of the access log by fields, in place of `format`. `{name}` stands for a field,
        /// `{name:quoted}` and `{name:json}` write it in quotes. Fields of time: `time`,
        /// `time_ncsa`, `time_unix`, `duration_us`, `duration_ms`. Fields of the request: `client`,
        /// `client_port`, `user`, `method`, `url`, `version`, `request`, `referer`, `user_agent`.
        /// Fields of the reply: `status`, `bytes`, `body_bytes`, `head_bytes`, `aborted`,
        /// `content_type`, `cache_status`, `coding` (of a body that this node compressed). Others:
        /// `outcome`, `result_code`, `upstream`, `site`. `{{` and `}}` are braces.
        pub template: String = String::new(),
        /// Size from which the access log's file is renamed to `NAME.TIME`, and a new one begun. 0
        /// means no limit.
        pub rotate_size: ByteCount = ByteCount(0),
        /// Age from which the access log's file is renamed. It is noted when a line is written. 0
        /// means no limit.
        #[limits(Duration::ZERO..=Duration::from_secs(366 * 86_400))]
        pub rotate_age: Duration = Duration::ZERO,
        /// Renamed files that are kept.
        #[limits(0..=10_000)]
        pub rotate_keep: usize = 7,
        /// Compress renamed files with gzip.
        pub rotate_gzip: bool = false,
        /// Lowest level of the error log.
        pub level: LogLevel = LogLevel::Info,
        /// Write the error log as JSON lines.
        #[takes_effect(restart)]
        pub json: bool = false,
    }
}

section! {
    /// Traces and metrics for an OpenTelemetry collector, by OTLP over HTTP. Off by default.
    pub struct Otlp {
        /// Collector, such as `http://127.0.0.1:4318`; empty for none. Traces go to `/v1/traces`
        /// below it, metrics to `/v1/metrics`. The node speaks http: have a collector on its
        /// machine or in its network. With a collector, `traceparent` and `tracestate` of a client
        /// are checked and passed on to origins with the node's own span.
        pub endpoint: String = String::new(),
        /// Share of requests that are traced. The `traceparent` of one of `trusted_proxies` decides
        /// for its request. That of another client can only leave its request untraced.
        #[limits(0.0..=1.0)]
        pub sample: f64 = 0.01,
        /// Interval at which metrics are sent; 0 sends none.
        #[limits(Duration::ZERO..=Duration::from_secs(86_400))]
        pub metrics_interval: Duration = Duration::ZERO,
        /// Name of the service in traces and metrics.
        pub service: String = "shoal".into(),
    }
}

section! {
    /// Steps of a stop.
    pub struct Drain {
        /// Time in which a node that is told to stop still accepts clients, while `/healthz`
        /// already answers 503: load balancers send their clients elsewhere before a connection is
        /// refused. A second signal ends this time.
        #[limits(Duration::ZERO..=Duration::from_secs(3600))]
        pub lame_duck: Duration = Duration::ZERO,
    }
}

section! {
    /// Warming: packages of a lockfile are fetched before clients ask for them (`shoal warm`).
    pub struct Warm {
        /// Most requests to registries at a time.
        #[limits(1..=64)]
        pub connections: usize = 4,
        /// Most bytes of files fetched in a second; 0 means no limit.
        pub rate: ByteCount = ByteCount(32 << 20),
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
        /// Events that need an operator.
        Error = "error",
        /// Events that may need an operator.
        Warn = "warn",
        /// Rare events that are good to know.
        Info = "info",
        /// Details that help to find a fault.
        Debug = "debug",
    }
}

entry! {
    /// A user of the admin listener.
    pub struct AdminUser {
        /// Name.
        pub name: String,
        /// Hash of the password, `$sha256$SALT$HEX` as in `forward.users_file`.
        pub password: Option<String> = None,
        /// File with the password, or its hash, in one line; in place of `password`.
        pub password_file: Option<PathBuf> = None,
        /// Requests that the user may make.
        pub role: AdminRole = AdminRole::Look,
    }
    example {
        Self {
            name: "ann".into(),
            password: None,
            password_file: Some("/etc/shoal/ann.password".into()),
            role: AdminRole::Look,
        }
    }
}

choice! {
    /// Requests that a user of the admin listener may make.
    pub enum AdminRole {
        /// Looks: the dashboard, metrics, status and explanations.
        Look = "look",
        /// Everything: purges, reloads and disks too.
        Change = "change",
    }
}

section! {
    /// Metrics, status and purge.
    pub struct Admin {
        /// Address of the admin listener: an address and port, or `unix:/path` of a socket. Keep it
        /// on loopback.
        #[takes_effect(restart)]
        pub listen: Option<AdminAddress> = Some(AdminAddress::Tcp(([127, 0, 0, 1], 3129).into())),
        /// Address of a second listener for scrapers: an address and port, or `unix:/path`. It has
        /// `GET /metrics` and `GET /healthz` and nothing else, over plain HTTP, without users.
        /// Metrics name sites, upstreams and disks: keep it in a network that may know them.
        #[takes_effect(restart)]
        pub metrics: Option<AdminAddress> = None,
        /// Further host names of the admin listener and of that for metrics, such as the name in a
        /// scraper's settings. Addresses, `localhost` and this machine's own name need no entry. A
        /// request with another name is refused, since a web page may have sent it.
        #[takes_effect(restart)]
        pub hosts: Vec<String> = Vec::new(),
        /// Users of the admin listener. With them, each request but `/healthz` needs a user's name
        /// and password (Basic, RFC 7617). Without them, any client that reaches the listener may
        /// do everything, and the dashboard is shown on loopback and Unix sockets alone.
        #[takes_effect(restart)]
        pub users: Vec<AdminUser> = Vec::new(),
        /// Certificates of the admin listener. Empty means plain HTTP. Shoal reads the files again
        /// when they change.
        #[takes_effect(restart)]
        pub tls: Vec<Certificate> = Vec::new(),
        /// Client networks that may send `PURGE` requests to the ordinary listeners.
        pub purge_from: Vec<IpNet> = Vec::new(),
    }
}
