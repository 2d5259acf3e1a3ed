//! What is asked in a training, as data: how, how often, and what must come back.

use super::requests::{browser, kept, large, object, on_disk, post, scattered, stranger, varied};
use super::site::{ETAG, HOST, HOST_HTTP2, LAST_MODIFIED};
use crate::Request;

/// Requests of one kind.
pub struct Kind {
    /// What they are, in the plural.
    pub what: &'static str,
    /// How many there are.
    pub requests: usize,
    /// The request of this number.
    pub request: fn(usize) -> Request,
    /// The status of every answer.
    pub status: u16,
    /// Whether each must be answered from the cache; it is filled beforehand.
    pub hits: bool,
    /// The connection.
    pub over: Over,
    /// The host that is asked for.
    pub host: &'static str,
    /// Requests sent together: in a row over HTTP/1.1, on streams over HTTP/2.
    pub at_once: usize,
    /// Requests on one connection, before the next is opened.
    pub on_one: usize,
}

/// How a node is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// HTTP/1.1 to the reverse listener.
    Plain,
    /// HTTP/1.1 to the forward listener.
    Forward,
    /// HTTP/1.1 to the origin through a tunnel.
    Tunnel,
    /// HTTP/1.1 over TLS.
    Tls,
    /// HTTP/2 without TLS.
    Http2,
    /// HTTP/2 over TLS.
    Http2Tls,
}

/// Nodes that hold everything in memory: the format of the access log of each, and what it is
/// asked.
pub const FROM_MEMORY: &[(&str, &[&[Kind]])] = &[
    ("squid", &[HITS, OTHER_HITS, HITS_IN_TLS_AND_HTTP2, MISSES]),
    ("combined", &[LOGGED]),
    ("json", &[LOGGED]),
    ("none", &[LOGGED]),
];

const HITS: &[Kind] = &[
    hits("hits of 1 KB", 40_000, |n| kept(n, 1024)),
    hits("hits of 1 KB by browsers", 60_000, |n| browser(n, kept(n, 1024))),
    hits("hits of 8 KB", 30_000, |n| kept(n, 8192)),
    hits("hits of 8 KB by browsers", 40_000, |n| browser(n, kept(n, 8192))),
    hits("hits of 64 KB", 5_000, |n| kept(n, 65_536)),
    hits("hits of 64 KB by browsers", 5_000, |n| browser(n, kept(n, 65_536))),
    hits("hits of 1 MB", 400, |n| browser(n, kept(n, 1_000_000))),
];

const OTHER_HITS: &[Kind] = &[
    hits("hits, each by another browser", 5_000, |n| stranger(n, kept(n, 1024))),
    Kind { at_once: 4, ..hits("hits in a row", 4_000, |n| kept(n, 1024)) },
    Kind { on_one: 1, ..hits("hits on connections of their own", 2_000, |n| kept(n, 1024)) },
    hits("hits of one of two variants", 5_000, varied),
    hits("hits for HEAD", 2_000, |n| Request { method: "HEAD".into(), ..kept(n, 8192) }),
    Kind { over: Over::Forward, ..hits("hits of the forward proxy", 10_000, |n| browser(n, kept(n, 8192))) },
    Kind { status: 304, ..hits("hits that the client has, by entity tag", 10_000, has_tag) },
    Kind { status: 304, ..hits("hits that the client has, by date", 5_000, has_date) },
    Kind { status: 206, ..hits("hits of a range", 5_000, |n| range("bytes=1000-8999", kept(n, 65_536))) },
    Kind { status: 206, ..hits("hits of ranges", 1_000, |n| range("bytes=0-99,5000-5999", kept(n, 65_536))) },
];

const HITS_IN_TLS_AND_HTTP2: &[Kind] = &[
    over(Over::Tls, 1, hits("hits over TLS", 8_000, |n| browser(n, kept(n, 1024)))),
    over(Over::Tls, 1, hits("hits of 64 KB over TLS", 1_500, |n| browser(n, kept(n, 65_536)))),
    over(Over::Http2, 8, hits("hits over HTTP/2", 10_000, |n| browser(n, kept(n, 1024)))),
    over(Over::Http2Tls, 8, hits("hits over HTTP/2 and TLS", 10_000, |n| browser(n, kept(n, 8192)))),
    over(Over::Http2Tls, 4, hits("hits of 64 KB over both", 1_500, |n| browser(n, kept(n, 65_536)))),
    Kind { on_one: 1, ..over(Over::Tls, 1, hits("handshakes of TLS", 200, |n| kept(n, 1024))) },
    Kind { on_one: 1, ..over(Over::Http2Tls, 1, hits("handshakes for HTTP/2", 200, |n| kept(n, 1024))) },
];

const MISSES: &[Kind] = &[
    others("misses that are not stored", 5_000, |n| object("unstored", n % 16, 8192)),
    others("misses that are not stored, by browsers", 5_000, |n| browser(n, object("unstored", n, 8192))),
    others("misses that are stored", 3_000, |n| browser(n, object("kept/new", n, 8192))),
    others("misses in chunks", 1_000, |n| browser(n, object("pieces", n, 16_384))),
    over(Over::Http2, 4, others("misses over HTTP/2", 1_500, |n| browser(n, object("kept/h2", n, 8192)))),
    Kind { host: HOST_HTTP2, ..others("misses at an origin of HTTP/2", 1_500, |n| object("kept", n, 8192)) },
    others("validations", 5_000, |n| browser(n, object("checked", n % 16, 8192))),
    others("bodies of clients", 1_000, |n| post(object("unstored", n, 1024))),
    Kind { on_one: 20, ..over(Over::Tunnel, 1, others("requests in tunnels", 1_000, |n| kept(n, 8192))) },
];

/// What is asked for the sake of each log's format.
const LOGGED: &[Kind] = &[
    hits("hits of 1 KB", 10_000, |n| kept(n, 1024)),
    hits("hits of 8 KB by browsers", 20_000, |n| browser(n, kept(n, 8192))),
    others("misses", 500, |n| browser(n, object("unstored", n, 8192))),
];

/// What a node with little memory is to store: 70 MB.
pub const TO_DISK: &[Kind] =
    &[others("misses that go to disk", 3_000, on_disk), others("large misses that go to disk", 8, large)];

/// What the same node, started again, reads.
pub const FROM_DISK: &[Kind] = &[
    others("hits from disk", 10_000, |n| browser(n, on_disk(scattered(n)))),
    others("hits from disk, each next to the last", 4_000, on_disk),
    others("large hits from disk", 64, large),
    Kind { status: 206, ..others("ranges from disk", 64, |n| range("bytes=1000000-1999999", large(n))) },
];

/// What each node of a cluster is asked: first requests for objects, then repeats, most of which
/// are in another node's memory or on its disk.
pub const IN_CLUSTER: &[Kind] = &[
    others("requests of a cluster", 2_000, on_disk),
    others("repeats", 5_000, |n| browser(n, on_disk(scattered(n)))),
    others("repeats of few objects", 2_000, |n| browser(n, kept(n, 8192))),
    others("larger requests of a cluster", 200, |n| object("kept/larger", n % 64, 300_000)),
];

/// Hits in memory.
const fn hits(what: &'static str, requests: usize, request: fn(usize) -> Request) -> Kind {
    Kind { hits: true, ..others(what, requests, request) }
}

/// What need not be a hit.
const fn others(what: &'static str, requests: usize, request: fn(usize) -> Request) -> Kind {
    let (status, over, host) = (200, Over::Plain, HOST);
    Kind { what, requests, request, status, hits: false, over, host, at_once: 1, on_one: usize::MAX }
}

/// The same over other connections, so many at once.
const fn over(over: Over, at_once: usize, kind: Kind) -> Kind {
    Kind { over, at_once, ..kind }
}

fn has_tag(number: usize) -> Request {
    browser(number, kept(number, 8192)).field("If-None-Match", ETAG)
}

fn has_date(number: usize) -> Request {
    browser(number, kept(number, 8192)).field("If-Modified-Since", LAST_MODIFIED)
}

fn range(range: &str, request: Request) -> Request {
    request.field("Range", range)
}
