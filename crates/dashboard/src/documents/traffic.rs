//! The pages about requests: "Why not", "Origins", "Objects", "Log".

use serde::{Deserialize, Serialize};

/// Document of the page "Why not".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReasonsDocument {
    /// Time of the document.
    pub unix_ms: u64,
    /// Site that the numbers are of; `None` for all.
    pub site: Option<String>,
    /// Names of the sites.
    pub sites: Vec<String>,
    /// Requests answered, tunnels left out.
    pub requests: u64,
    /// Reasons for which origins were asked, other than those below.
    pub misses: Vec<ReasonRow>,
    /// Reasons for which responses of origins were not stored.
    pub not_stored: Vec<ReasonRow>,
}

/// Requests to origins for one reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReasonRow {
    /// Token of the reason: see docs/REASONS.md.
    pub reason: String,
    /// Meaning in a sentence.
    pub text: String,
    /// Requests to origins.
    pub requests: u64,
    /// Bytes of bodies from origins.
    pub bytes: u64,
    /// Share of all requests answered.
    pub share: f64,
    /// URLs with most such requests, at most five.
    pub samples: Vec<String>,
    /// Advice that would change the outcome, in a sentence; empty if there is none.
    pub rule: String,
    /// Settings that would change the outcome.
    pub settings: Vec<String>,
}

/// Document of the page "Origins".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OriginsDocument {
    /// Time of the document.
    pub unix_ms: u64,
    /// The origins with most requests.
    pub origins: Vec<OriginRow>,
    /// Origins without a row.
    pub others: usize,
}

/// One origin of a site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OriginRow {
    /// URL as the settings say.
    pub name: String,
    /// Name of the site.
    pub site: String,
    /// `up`, `down` while health checks fail, or `backoff` after failures.
    pub state: String,
    /// Requests sent.
    pub requests: u64,
    /// Requests sent a second.
    pub requests_per_s: f64,
    /// Requests without an answer.
    pub errors: u64,
    /// Time within which half of the heads of responses came, since the start.
    pub p50_us: Option<u64>,
    /// Time within which 99% of the heads came.
    pub p99_us: Option<u64>,
    /// Connections in use by requests.
    pub connections: u64,
    /// `upstream.connections_per_origin`.
    pub max_connections: u64,
    /// Stale responses that the site's clients got.
    pub stale_served: u64,
    /// Milliseconds since the state last changed, or since the start.
    pub since_ms: u64,
}

/// Document of the page "Objects".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectsDocument {
    /// Time of the document.
    pub unix_ms: u64,
    /// Hits in RAM for each one that is counted, with this weight. Other requests are all counted.
    pub sampled_one_in: u64,
    /// Measure of the order: `requests`, `bytes` or `cost`.
    pub by: String,
    /// Site of the objects; `None` for all.
    pub site: Option<String>,
    /// Requests that were not counted for want of room, as far as known.
    pub lost: u64,
    /// The objects, those with most first.
    pub objects: Vec<ObjectRow>,
}

/// One object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectRow {
    /// URL, made safe to show.
    pub url: String,
    /// URL as `POST /purge` and `POST /explain` take it; `None` if it was cut.
    pub key_url: Option<String>,
    /// Name of the site.
    pub site: String,
    /// Requests, estimated from the sample.
    pub requests: u64,
    /// Bytes of bodies sent, estimated from the sample.
    pub bytes: u64,
    /// Time until the heads of the origin's responses, in milliseconds; `None` if not among the
    /// costliest.
    pub origin_ms: Option<u64>,
    /// Largest body sent, in bytes.
    pub size: u64,
    /// `ram`, `disk` or `none`: where the object is now.
    #[serde(rename = "in")]
    pub place: String,
}

/// Document of the page "Log".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogDocument {
    /// Time of the document.
    pub unix_ms: u64,
    /// Lines since somebody looks, at most 200, the newest last.
    pub lines: Vec<LogLine>,
}

/// One request in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Time of arrival.
    pub unix_ms: u64,
    /// Address of the client.
    pub client: String,
    /// Method.
    pub method: String,
    /// URL, made safe to show.
    pub url: String,
    /// Final status.
    pub status: u16,
    /// Bytes of the body sent.
    pub bytes: u64,
    /// Result of the cache: `memory_hit`, `hit`, `miss` and so on.
    pub result: String,
    /// Reason of Cache-Status; empty for hits.
    pub reason: String,
    /// Time from the request's first byte to the response's last.
    pub duration_us: u64,
    /// Name of the site; empty if unknown.
    pub site: String,
}
