//! What parsers and recovery must withstand: any bytes at all.
//!
//! Each target is a function of bytes that panics when a promise is broken, which is more than not
//! crashing: how bytes were cut into reads must not change what they mean, what is taken must stand
//! up to a second look, what is written must read back. `cargo xtask fuzz` drives them with
//! libFuzzer; `tests/replay.rs` runs them over the committed seeds and small changes of these on
//! any toolchain.
//!
//! To add a target: a function here, a row in [`TARGETS`], a file in `fuzz_targets/` with its
//! `[[bin]]`, and a seed or more in `seeds/`.

#![forbid(unsafe_code)]

pub mod cluster;
pub mod dashboard;
pub mod gossip;
pub mod hints;
mod hit_ways;
pub mod http3;
pub mod lists;
pub mod mirrors;
pub mod neighbours;
pub mod peers;
pub mod rules;
pub mod semantics;
pub mod settings;
pub mod store;
pub mod trace;
pub mod wire;

pub use hit_ways::hit_ways;
pub use shoal_server::fuzzing::{http1_connection, http2_connection};

/// One fuzz target.
pub struct Target {
    /// Its name: that of its file in `fuzz_targets/` and of its folder in `seeds/`.
    pub name: &'static str,
    /// Panics when a promise is broken.
    pub run: fn(&[u8]),
    /// How many beginnings and how many changes of each seed the replay tries: fewer for targets
    /// that take longer.
    pub replays: usize,
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "request_head", run: wire::request_head, replays: QUICK },
    Target { name: "response_head", run: wire::response_head, replays: QUICK },
    Target { name: "http2", run: wire::http2, replays: QUICK },
    Target { name: "http1_connection", run: http1_connection, replays: MIDDLING },
    Target { name: "http3", run: http3::http3, replays: QUICK },
    Target { name: "http2_connection", run: http2_connection, replays: MIDDLING },
    Target { name: "hit_ways", run: hit_ways, replays: MIDDLING },
    Target { name: "chunked", run: wire::chunked, replays: QUICK },
    Target { name: "proxy_protocol", run: wire::proxy_protocol, replays: QUICK },
    Target { name: "settings", run: settings::file, replays: QUICK },
    Target { name: "rules", run: rules::any, replays: MIDDLING },
    Target { name: "dates", run: semantics::dates, replays: QUICK },
    Target { name: "cache_control", run: semantics::cache_control, replays: QUICK },
    Target { name: "range", run: semantics::range, replays: QUICK },
    Target { name: "vary", run: semantics::vary, replays: QUICK },
    Target { name: "hint_lists", run: hints::lists, replays: QUICK },
    Target { name: "links", run: hints::links, replays: QUICK },
    Target { name: "prefetch_messages", run: hints::messages, replays: QUICK },
    Target { name: "accept_encoding", run: semantics::accept_encoding, replays: QUICK },
    Target { name: "storing", run: semantics::storing, replays: QUICK },
    Target { name: "store_object", run: store::store_object, replays: SLOW },
    Target { name: "store_index", run: store::store_index, replays: SLOW },
    Target { name: "store_volume", run: store::store_volume, replays: SLOW },
    Target { name: "dashboard_history", run: dashboard::history, replays: SLOW },
    Target { name: "trace", run: trace::any, replays: MIDDLING },
    Target { name: "trace_written", run: trace::written, replays: MIDDLING },
    Target { name: "cluster_datagrams", run: gossip::datagrams, replays: MIDDLING },
    Target { name: "trace_columns", run: trace::columns, replays: QUICK },
    Target { name: "purge_messages", run: cluster::purge_messages, replays: QUICK },
    Target { name: "digest_messages", run: cluster::digest_messages, replays: QUICK },
    Target { name: "memory_messages", run: cluster::memory_messages, replays: QUICK },
    Target { name: "hit_messages", run: cluster::hit_messages, replays: QUICK },
    Target { name: "peer_ask", run: peers::peer_ask, replays: QUICK },
    Target { name: "icp", run: neighbours::icp, replays: QUICK },
    Target { name: "htcp", run: neighbours::htcp, replays: QUICK },
    Target { name: "npm_documents", run: mirrors::npm_documents, replays: MIDDLING },
    Target { name: "registries", run: mirrors::registries, replays: MIDDLING },
    Target { name: "warm_lists", run: lists::any, replays: MIDDLING },
    Target { name: "cache_digest", run: neighbours::cache_digest, replays: QUICK },
];

const QUICK: usize = 2000;
const MIDDLING: usize = 200;
const SLOW: usize = 15;
