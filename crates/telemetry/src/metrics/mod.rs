//! Every counter and gauge, in one table, and the values kept per result of a response.
//!
//! A new metric is a new row: the field, the exported name with its labels, and the help text. A
//! row is kept per core ([`crate::per_core`]): counting touches memory that no other core writes,
//! and a scrape adds the cores up. Rows of seldom events say `shared`: one number of 8 bytes.

mod counter;
mod histogram;
mod results;

pub use counter::{Counter, PerCoreCounter};
pub use histogram::Histogram;
pub use results::ByResult;
pub use results::{RESULTS, number as result_number};

use crate::record::CacheResult;
use crate::samples::Samples;
use std::fmt::Write;

/// Type of a row: per core, or one number that all cores share.
macro_rules! metric_type {
    () => {
        PerCoreCounter
    };
    (shared) => {
        Counter
    };
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $field:ident $(: $place:ident)? = $kind:literal $name:literal $labels:literal $help:literal;)*) => {
        /// All of this process's metrics.
        #[derive(Debug, Default)]
        pub struct Metrics {
            $($(#[$doc])* #[doc = $help] pub $field: metric_type!($($place)?),)*
            /// Bytes of bodies sent.
            pub body_bytes: ByResult<PerCoreCounter>,
            /// Durations of responses that were sent whole, except answers from RAM.
            pub durations: ByResult<Histogram>,
            /// Samples of the requests, for the dashboard.
            pub samples: Samples,
        }

        impl Metrics {
            /// Returns (kind, name, labels, help, value) of every row, in table order.
            pub fn rows(&self) -> Vec<(&'static str, &'static str, &'static str, &'static str, u64)> {
                let mut rows = vec![$(($kind, $name, $labels, $help, self.$field.value()),)*];
                let (kind, name, help) = BODY_BYTES;
                let bytes = self.body_bytes.all();
                rows.extend(bytes.map(|(labels, _, bytes)| (kind, name, labels, help, bytes.value())));
                rows
            }
        }
    };
}

metrics! {
    requests = "counter" "shoal_requests_total" "" "Requests received.";
    connections = "counter" "shoal_connections_total" "" "Client connections accepted.";
    connections_open = "gauge" "shoal_connections" "" "Client connections open now.";
    connections_full = "counter" "shoal_connections_full_total" "" "Times that a listener stopped accepting since max_connections was reached.";
    accept_errors = "counter" "shoal_accept_errors_total" "" "Connections that could not be accepted.";
    proxy_protocol_refused = "counter" "shoal_proxy_protocol_refused_total" "" "Connections closed for want of a valid PROXY protocol header.";
    tls_failures = "counter" "shoal_tls_failures_total" "" "TLS handshakes with clients that failed.";
    acme_made: shared = "counter" "shoal_acme_orders_total" "result=\"made\"" "Orders of certificates that have ended.";
    acme_failed: shared = "counter" "shoal_acme_orders_total" "result=\"failed\"" "Orders of certificates that have ended.";
    tls_connections = "counter" "shoal_tls_connections_total" "" "TLS connections with clients, after the handshake.";
    clients_slow = "counter" "shoal_clients_slow_total" "" "Clients given up since they sent their request body, or took their response, too slowly.";
    refused = "counter" "shoal_requests_refused_total" "" "Requests refused as malformed, oversized or ambiguous.";
    responses_cut = "counter" "shoal_responses_cut_total" "" "Responses that were begun and not sent to their end: the client left or was too slow, or the body failed.";
    h2_given_up = "counter" "shoal_http2_given_up_total" "" "HTTP/2 connections given up for what the client sent, or did not send to its end in time.";
    h2_streams_refused = "counter" "shoal_http2_streams_refused_total" "" "HTTP/2 requests refused since their connection had client.h2_streams open.";
    h3_connections: shared = "counter" "shoal_http3_connections_total" "" "HTTP/3 connections with clients, after the handshake.";
    h3_requests = "counter" "shoal_http3_requests_total" "" "Requests received over HTTP/3.";
    h3_retries: shared = "counter" "shoal_http3_retries_total" "" "Clients that had to prove their address first, since many handshakes were under way.";
    h3_handshakes_refused: shared = "counter" "shoal_http3_handshakes_refused_total" "" "Packets for new HTTP/3 connections that were dropped, since too many handshakes were under way.";
    h3_given_up: shared = "counter" "shoal_http3_given_up_total" "" "HTTP/3 connections given up for what the client sent.";
    h3_streams_refused: shared = "counter" "shoal_http3_streams_refused_total" "" "HTTP/3 requests refused since their connection was ending; clients send them again.";
    hits_memory = "counter" "shoal_responses_total" "result=\"memory_hit\"" "Responses by what the cache did.";
    hits_disk = "counter" "shoal_responses_total" "result=\"hit\"" "Responses by what the cache did.";
    hits_peer = "counter" "shoal_responses_total" "result=\"peer_hit\"" "Responses by what the cache did.";
    misses = "counter" "shoal_responses_total" "result=\"miss\"" "Responses by what the cache did.";
    collapsed = "counter" "shoal_responses_total" "result=\"collapsed\"" "Responses by what the cache did.";
    refresh_unmodified = "counter" "shoal_responses_total" "result=\"refresh_unmodified\"" "Responses by what the cache did.";
    refresh_modified = "counter" "shoal_responses_total" "result=\"refresh_modified\"" "Responses by what the cache did.";
    stale = "counter" "shoal_responses_total" "result=\"stale\"" "Responses by what the cache did.";
    passes = "counter" "shoal_responses_total" "result=\"pass\"" "Responses by what the cache did.";
    tunnels = "counter" "shoal_responses_total" "result=\"tunnel\"" "Responses by what the cache did.";
    denied = "counter" "shoal_responses_total" "result=\"denied\"" "Responses by what the cache did.";
    abandoned = "counter" "shoal_responses_total" "result=\"abandoned\"" "Responses by what the cache did.";
    other = "counter" "shoal_responses_total" "result=\"none\"" "Responses by what the cache did.";
    tunnels_open = "gauge" "shoal_tunnels" "" "Tunnels open now, through which bytes pass unseen and uncached.";
    compress_made: shared = "counter" "shoal_compress_made_total" "" "Coded forms of text made for clients.";
    compress_in: shared = "counter" "shoal_compress_bytes_total" "side=\"stored\"" "Bytes of bodies that were coded, as stored and as coded.";
    compress_out: shared = "counter" "shoal_compress_bytes_total" "side=\"coded\"" "Bytes of bodies that were coded, as stored and as coded.";
    compress_declined: shared = "counter" "shoal_compress_declined_total" "" "Bodies that became no smaller by a coding.";
    compress_refused: shared = "counter" "shoal_compress_refused_total" "" "Codings put off, since too many waited or the body was not at hand.";
    intercepted: shared = "counter" "shoal_intercepted_connections_total" "" "CONNECTs to listed hosts that this node answers itself.";
    intercepted_open: shared = "gauge" "shoal_intercepted_connections" "" "Such connections open now.";
    intercept_leaves: shared = "counter" "shoal_intercept_leaves_total" "" "Certificates signed for intercepted hosts.";
    intercept_refused_name: shared = "counter" "shoal_intercept_refused_total" "reason=\"server_name\"" "Intercepted connections and requests inside that were refused.";
    intercept_refused_handshake: shared = "counter" "shoal_intercept_refused_total" "reason=\"handshake\"" "Intercepted connections and requests inside that were refused.";
    intercept_refused_host: shared = "counter" "shoal_intercept_refused_total" "reason=\"host\"" "Intercepted connections and requests inside that were refused.";
    intercept_refused_full: shared = "counter" "shoal_intercept_refused_total" "reason=\"full\"" "Intercepted connections and requests inside that were refused.";
    tunnel_received = "counter" "shoal_tunnel_received_bytes_total" "" "Bytes that clients sent through tunnels that have ended.";
    disk_object_reads = "counter" "shoal_disk_object_reads_total" "" "Objects that were read from a disk for requests; those that memory of the store still had are none.";
    disk_busy = "counter" "shoal_disk_refused_total" "" "Disk jobs refused because the queue was full or the disk did not answer; a read then counts as a miss.";
    disk_slow = "counter" "shoal_disk_slow_total" "" "Disk jobs that a client no longer waited for; a read then counts as a miss.";
    disk_declined = "counter" "shoal_disk_declined_total" "" "Objects that the disk store declined to take.";
    disk_on_probation = "counter" "shoal_disk_on_probation_total" "" "Objects that the disk store will take when they are asked for again.";
    disk_corrupt = "counter" "shoal_disk_corrupt_total" "" "Disk jobs that met damaged bytes; a read then counts as a miss.";
    disk_open_retries = "counter" "shoal_store_open_retries_total" "" "Times that a disk that could not be opened at the start was tried again, and could still not be opened.";
    disk_errors = "counter" "shoal_disk_errors_total" "" "Disk operations that failed.";
    panics = "counter" "shoal_panics_total" "" "Threads and tasks that panicked: faults of Shoal itself.";
    error_log_lines_dropped = "counter" "shoal_error_log_lines_dropped_total" "" "Error log lines dropped because stderr took nothing or could not be written.";
    log_lines_dropped = "counter" "shoal_log_lines_dropped_total" "" "Access log lines dropped because the log was too slow or could not be written.";
    spans_sent: shared = "counter" "shoal_otlp_spans_sent_total" "" "Spans that the collector of traces took.";
    spans_dropped: shared = "counter" "shoal_otlp_spans_dropped_total" "" "Spans dropped since too many waited, or the collector did not take them.";
    upstream_opened = "counter" "shoal_upstream_connections_opened_total" "" "Connections opened to origins.";
    upstream_connections = "gauge" "shoal_upstream_connections" "" "Connections to origins open now.";
    upstream_reused = "counter" "shoal_upstream_connections_reused_total" "" "Requests to origins sent on a connection that carried others.";
    upstream_waits = "counter" "shoal_upstream_waits_total" "" "Requests that waited since their origin had all its connections in use.";
    upstream_waiting = "gauge" "shoal_upstream_waiting" "" "Requests that wait for a connection now.";
    upstream_pinned = "gauge" "shoal_upstream_pinned_connections" "" "Connections to origins kept for one client each, since NTLM or Negotiate authenticated them.";
    upstream_pinned_shed = "counter" "shoal_upstream_pinned_shed_total" "" "Connections kept for one client that were closed before their time: others waited, or too many were kept.";
    fetches_abandoned = "counter" "shoal_fetches_abandoned_total" "" "Fetches ended since every client that waited for them had left, and enough of their origin went on for nobody.";
    upstream_stalled_shed = "counter" "shoal_upstream_stalled_shed_total" "" "Responses cut since nobody took them while others waited for a connection to their origin.";
    upstream_tunnels_refused = "counter" "shoal_upstream_tunnels_refused_total" "" "Upgrades refused since their origin, or their client, had as many tunnels as are allowed.";
    lookups_refused = "counter" "shoal_lookups_refused_total" "" "Requests that got no name lookup in time, since all, or their client's share, were under way.";
    lookups_stale = "counter" "shoal_lookups_stale_total" "" "Requests for which an older answer stood in, since a name's servers were silent.";
    upstream_surplus = "counter" "shoal_upstream_surplus_total" "" "Connections to origins ended for bytes that answer no request; the origin's connections then carry one request each for 60 s.";
    upstream_retries = "counter" "shoal_upstream_retries_total" "" "Requests sent again after a kept connection turned out dead.";
    upstream_failovers = "counter" "shoal_upstream_failovers_total" "" "Upstreams of a site that could not be reached or did not answer, so that another was tried.";
    upstream_checks = "counter" "shoal_upstream_checks_total" "" "Active health checks made.";
    upstream_checks_failed = "counter" "shoal_upstream_checks_failed_total" "" "Active health checks that found an upstream unhealthy.";
    upstream_body_bytes = "counter" "shoal_upstream_body_bytes_total" "" "Bytes of response bodies received from origins, health checks apart.";
    upstream_errors_refused = "counter" "shoal_upstream_errors_total" "error=\"refused\"" "Requests that got no usable response head from an origin.";
    upstream_errors_request = "counter" "shoal_upstream_errors_total" "error=\"request\"" "Requests that got no usable response head from an origin.";
    upstream_errors_dns = "counter" "shoal_upstream_errors_total" "error=\"dns\"" "Requests that got no usable response head from an origin.";
    upstream_errors_connect = "counter" "shoal_upstream_errors_total" "error=\"connect\"" "Requests that got no usable response head from an origin.";
    upstream_errors_limit = "counter" "shoal_upstream_errors_total" "error=\"limit\"" "Requests that got no usable response head from an origin.";
    upstream_errors_tls = "counter" "shoal_upstream_errors_total" "error=\"tls\"" "Requests that got no usable response head from an origin.";
    upstream_errors_internal = "counter" "shoal_upstream_errors_total" "error=\"internal\"" "Requests that got no usable response head from an origin.";
    upstream_errors_cut = "counter" "shoal_upstream_errors_total" "error=\"cut\"" "Requests that got no usable response head from an origin.";
    upstream_errors_timeout = "counter" "shoal_upstream_errors_total" "error=\"timeout\"" "Requests that got no usable response head from an origin.";
    upstream_errors_protocol = "counter" "shoal_upstream_errors_total" "error=\"protocol\"" "Requests that got no usable response head from an origin.";
    limited_rate = "counter" "shoal_limited_total" "limit=\"client_rate\"" "Requests and connections of clients refused by a limit.";
    limited_guesses = "counter" "shoal_limited_total" "limit=\"wrong_passwords\"" "Requests and connections of clients refused by a limit.";
    limited_connections = "counter" "shoal_limited_total" "limit=\"client_connections\"" "Requests and connections of clients refused by a limit.";
    limited_queue = "counter" "shoal_limited_total" "limit=\"queue\"" "Requests and connections of clients refused by a limit.";
    site_queue_waits = "counter" "shoal_site_queue_waits_total" "" "Requests that waited for their turn at a site with all of its concurrency in use.";
    credentials_refused = "counter" "shoal_credentials_refused_total" "" "Requests answered 401 or 407 since a user or password was missing or wrong.";
    cluster_connections: shared = "counter" "shoal_cluster_connections_total" "" "Connections accepted at the listener for peers.";
    cluster_strangers: shared = "counter" "shoal_cluster_refused_total" "reason=\"address\"" "Connections and requests at the listener for peers that were refused.";
    cluster_over_share: shared = "counter" "shoal_cluster_refused_total" "reason=\"share\"" "Connections and requests at the listener for peers that were refused.";
    cluster_no_member: shared = "counter" "shoal_cluster_refused_total" "reason=\"no_member\"" "Connections and requests at the listener for peers that were refused.";
    cluster_handshakes_failed: shared = "counter" "shoal_cluster_refused_total" "reason=\"handshake\"" "Connections and requests at the listener for peers that were refused.";
    cluster_malformed: shared = "counter" "shoal_cluster_refused_total" "reason=\"malformed\"" "Connections and requests at the listener for peers that were refused.";
    cluster_calls: shared = "counter" "shoal_cluster_calls_total" "" "Calls of peers that were answered.";
    cluster_asks_served: shared = "counter" "shoal_cluster_asks_total" "result=\"served\"" "Asks sent to other nodes, by result.";
    cluster_asks_failed: shared = "counter" "shoal_cluster_asks_total" "result=\"failed\"" "Asks sent to other nodes, by result.";
    cluster_asks_declined: shared = "counter" "shoal_cluster_asks_total" "result=\"declined\"" "Asks sent to other nodes, by result.";
    cluster_asks_refused: shared = "counter" "shoal_cluster_asks_total" "result=\"refused\"" "Asks sent to other nodes, by result.";
    cluster_asks_late: shared = "counter" "shoal_cluster_asks_total" "result=\"late\"" "Asks sent to other nodes, by result.";
    cluster_asks_wrong: shared = "counter" "shoal_cluster_asks_total" "result=\"wrong\"" "Asks sent to other nodes, by result.";
    cluster_ask_us: shared = "counter" "shoal_cluster_ask_microseconds_total" "" "Time until the first sign of life of the nodes that were asked.";
    cluster_asks_given_up: shared = "counter" "shoal_cluster_asks_given_up_total" "" "Requests for which no home answered, so that this node asked the origin.";
    cluster_origin_again: shared = "counter" "shoal_cluster_origin_again_total" "" "Asks that failed after the home had said that it was at work: the origin may have been asked twice.";
    cluster_offered: shared = "counter" "shoal_cluster_offered_total" "" "Objects in RAM that this node offered to their new homes when it was drained.";
    cluster_moved: shared = "counter" "shoal_cluster_moved_total" "" "Objects that this node, as their new home, got from the previous one.";
    cluster_received_bytes: shared = "counter" "shoal_cluster_received_bytes_total" "" "Bytes of bodies received from other nodes.";
    cluster_answers_served: shared = "counter" "shoal_cluster_answers_total" "result=\"served\"" "Asks of other nodes, by the answer.";
    cluster_answers_failed: shared = "counter" "shoal_cluster_answers_total" "result=\"failed\"" "Asks of other nodes, by the answer.";
    cluster_answers_missing: shared = "counter" "shoal_cluster_answers_total" "result=\"missing\"" "Asks of other nodes, by the answer.";
    cluster_answers_busy: shared = "counter" "shoal_cluster_answers_total" "result=\"busy\"" "Asks of other nodes, by the answer.";
    cluster_answers_behind: shared = "counter" "shoal_cluster_answers_total" "result=\"behind\"" "Asks of other nodes, by the answer.";
    cluster_answers_unknown: shared = "counter" "shoal_cluster_answers_total" "result=\"unknown\"" "Asks of other nodes, by the answer.";
    cluster_answers_at_once: shared = "counter" "shoal_cluster_answers_at_once_total" "" "Asks of other nodes answered at once with a fresh response in RAM.";
    cluster_hit_messages: shared = "counter" "shoal_cluster_hit_messages_total" "" "Messages of other nodes with asks for hits in RAM, each of many requests.";
    cluster_served_bytes: shared = "counter" "shoal_cluster_served_bytes_total" "" "Bytes of bodies sent to peers.";
    cluster_digest_hits: shared = "counter" "shoal_cluster_digest_asks_total" "result=\"hit\"" "Asks of probable holders, by what they had.";
    cluster_digest_false_hits: shared = "counter" "shoal_cluster_digest_asks_total" "result=\"false_hit\"" "Asks of probable holders, by what they had.";
    cluster_digest_false_misses: shared = "counter" "shoal_cluster_digest_false_misses_total" "" "Misses for which no digest named a holder, and the next version of one did: the most that staleness cost.";
    cluster_digest_bytes: shared = "counter" "shoal_cluster_digest_bytes_total" "" "Bytes of this node's pulls, and of digests and deltas sent to peers.";
    cluster_digest_versions: shared = "counter" "shoal_cluster_digest_versions_total" "" "Versions of peers' digests taken.";
    cluster_digest_gaps: shared = "counter" "shoal_cluster_digest_gaps_total" "" "Deltas of peers that did not fit: the whole digest is pulled next.";
    cluster_digest_refused: shared = "counter" "shoal_cluster_digest_refused_total" "" "Digests refused: malformed, or of nearly every key.";
    cluster_digest_distrusted: shared = "counter" "shoal_cluster_digest_distrusted_total" "" "Times that a peer's digest was left out for a minute since more than half of the asks were in vain.";
    cluster_digest_left_out: shared = "counter" "shoal_cluster_digest_left_out_total" "" "Objects left out of this node's digest for want of room.";
    cluster_digest_keys: shared = "gauge" "shoal_cluster_digest_keys" "" "Objects in this node's digest.";
    cluster_digest_age: shared = "gauge" "shoal_cluster_digest_age_seconds" "" "Longest time since a peer confirmed that its digest is the newest.";
    memory_puts_kept: shared = "counter" "shoal_memory_puts_total" "result=\"kept\"" "Objects that left RAM for another node's memory, by result.";
    memory_puts_left: shared = "counter" "shoal_memory_puts_total" "result=\"left\"" "Objects that left RAM for another node's memory, by result.";
    memory_puts_late: shared = "counter" "shoal_memory_puts_total" "result=\"late\"" "Objects that left RAM for another node's memory, by result.";
    memory_puts_refused: shared = "counter" "shoal_memory_puts_total" "result=\"refused\"" "Objects that left RAM for another node's memory, by result.";
    memory_puts_failed: shared = "counter" "shoal_memory_puts_total" "result=\"failed\"" "Objects that left RAM for another node's memory, by result.";
    memory_puts_dropped: shared = "counter" "shoal_memory_puts_total" "result=\"dropped\"" "Objects that left RAM for another node's memory, by result.";
    memory_gets_hit: shared = "counter" "shoal_memory_gets_total" "result=\"hit\"" "Objects asked for in another node's memory, by result.";
    memory_gets_gone: shared = "counter" "shoal_memory_gets_total" "result=\"gone\"" "Objects asked for in another node's memory, by result.";
    memory_gets_wrong: shared = "counter" "shoal_memory_gets_total" "result=\"wrong\"" "Objects asked for in another node's memory, by result.";
    memory_gets_failed: shared = "counter" "shoal_memory_gets_total" "result=\"failed\"" "Objects asked for in another node's memory, by result.";
    memory_got_bytes: shared = "counter" "shoal_memory_got_bytes_total" "" "Bytes of objects that came back from another node's memory.";
    memory_gets_under_way: shared = "gauge" "shoal_memory_gets" "" "Objects asked for in another node's memory now.";
    memory_switched_off: shared = "counter" "shoal_memory_switched_off_total" "" "Times that a node's memory was left out for a while since the own disk was faster.";
    memory_kept: shared = "counter" "shoal_memory_kept_total" "result=\"kept\"" "Objects that other nodes offered to this node's memory, by result.";
    memory_kept_declined: shared = "counter" "shoal_memory_kept_total" "result=\"declined\"" "Objects that other nodes offered to this node's memory, by result.";
    memory_refused_busy: shared = "counter" "shoal_memory_refused_total" "reason=\"busy\"" "Messages with objects for this node's memory that were refused whole.";
    memory_refused_behind: shared = "counter" "shoal_memory_refused_total" "reason=\"behind\"" "Messages with objects for this node's memory that were refused whole.";
    memory_served_hit: shared = "counter" "shoal_memory_served_total" "result=\"hit\"" "Objects that other nodes asked back from this node's memory, by result.";
    memory_served_gone: shared = "counter" "shoal_memory_served_total" "result=\"gone\"" "Objects that other nodes asked back from this node's memory, by result.";
    memory_messages_at_once: shared = "counter" "shoal_memory_messages_total" "way=\"at_once\"" "Messages of other nodes about their objects in this node's memory, by the way to the answer: in the loop of their connection, or by a task.";
    memory_messages_task: shared = "counter" "shoal_memory_messages_total" "way=\"task\"" "Messages of other nodes about their objects in this node's memory, by the way to the answer: in the loop of their connection, or by a task.";
    memory_get_messages: shared = "counter" "shoal_memory_get_messages_total" "" "Messages by which this node asked others for its objects, one or more in each.";
    memory_yielded: shared = "counter" "shoal_memory_yielded_total" "" "Objects of other nodes given up since this node needed the memory.";
    memory_guest_pages: shared = "gauge" "shoal_memory_guests" "" "Objects that this node's memory holds for others.";
    memory_guest_bytes: shared = "gauge" "shoal_memory_guest_bytes" "" "Bytes of RAM charged for objects of other nodes.";
    memory_placed_pages: shared = "gauge" "shoal_memory_placed" "" "Objects of this node in the memory of others.";
    memory_placed_bytes: shared = "gauge" "shoal_memory_placed_bytes" "" "Bytes of this node's objects in the memory of others.";
    memory_on_way_bytes: shared = "gauge" "shoal_memory_on_way_bytes" "" "Bytes of RAM charged for this node's objects on their way to others.";
    cluster_purges_sent: shared = "counter" "shoal_cluster_purges_sent_total" "" "Purges of this node sent to peers, once for each peer and try.";
    cluster_purges_confirmed: shared = "counter" "shoal_cluster_purges_confirmed_total" "" "Purges of this node that all other members confirmed in time.";
    cluster_purges_late: shared = "counter" "shoal_cluster_purges_late_total" "" "Purges of this node that some member did not confirm in time.";
    cluster_purges_applied: shared = "counter" "shoal_cluster_purges_applied_total" "" "Purges of peers that this node applied.";
    cluster_purges_repaired: shared = "counter" "shoal_cluster_purges_repaired_total" "" "Purges that this node had missed and pulled from a peer.";
    cluster_purges_wholes: shared = "counter" "shoal_cluster_purges_unknown_total" "" "Times that purges were missed which no peer could name: all responses stored before are validated.";
    cluster_purges_leases: shared = "counter" "shoal_cluster_purges_leases_total" "" "Times that most nodes were silent for cluster.validate_after: all responses stored before are validated.";
    cluster_purges_limited: shared = "counter" "shoal_cluster_purges_limited_total" "" "Purges left to a later try since a peer used up its share.";
    cluster_purges_unsent: shared = "counter" "shoal_cluster_purges_unsent_total" "" "Purges that only this node applied: too many waited, or their URL is too long.";
    cluster_members: shared = "gauge" "shoal_cluster_members" "" "Members of the cluster as this node sees them, itself among them.";
    cluster_purges_lag: shared = "gauge" "shoal_cluster_purges_lag" "" "Purges of this node that the member furthest behind has not confirmed.";
    mirror_digest: shared = "counter" "shoal_mirror_refused_total" "reason=\"digest\"" "Bodies of registries that were cut or replaced, and are kept nowhere.";
    mirror_length: shared = "counter" "shoal_mirror_refused_total" "reason=\"length\"" "Bodies of registries that were cut or replaced, and are kept nowhere.";
    mirror_document: shared = "counter" "shoal_mirror_refused_total" "reason=\"document\"" "Bodies of registries that were cut or replaced, and are kept nowhere.";
    mirror_status: shared = "counter" "shoal_mirror_refused_total" "reason=\"status\"" "Bodies of registries that were cut or replaced, and are kept nowhere.";
    mirror_html: shared = "counter" "shoal_mirror_refused_total" "reason=\"html\"" "Bodies of registries that were cut or replaced, and are kept nowhere.";
    mirror_other_place: shared = "counter" "shoal_mirror_shared_bodies_total" "" "Files that were stored under another URL with the same digest.";
    mirror_replaced: shared = "counter" "shoal_mirror_replaced_total" "" "Stored files that were dropped: a newer index promises others under their names.";
    mirror_release_read: shared = "counter" "shoal_mirror_releases_read_total" "" "Release documents of archives that were read and compared.";
    mirror_older_release: shared = "counter" "shoal_mirror_older_releases_total" "" "Answers with the published release of an archive while its origin had another.";
    warm_fetched: shared = "counter" "shoal_warm_files_total" "result=\"fetched\"" "Files that warming fetched, by result.";
    warm_failed: shared = "counter" "shoal_warm_files_total" "result=\"failed\"" "Files that warming fetched, by result.";
    warm_bytes: shared = "counter" "shoal_warm_bytes_total" "" "Bytes of the files that warming fetched and kept.";
    dashboard_viewers: shared = "gauge" "shoal_dashboard_viewers" "" "Viewers of the dashboard's live events.";
    dashboard_refused: shared = "counter" "shoal_dashboard_viewers_refused_total" "" "Viewers that got no live events, since there were as many as are allowed.";
    dashboard_dropped: shared = "counter" "shoal_dashboard_viewers_dropped_total" "" "Viewers dropped since they took no events.";
    dashboard_lost: shared = "counter" "shoal_dashboard_samples_lost_total" "" "Samples for the live curve that were lost, since a core had too many; fewer objects are watched then.";
    neighbour_icp: shared = "counter" "shoal_neighbour_questions_total" "protocol=\"icp\"" "Questions of neighbours that were answered.";
    neighbour_htcp: shared = "counter" "shoal_neighbour_questions_total" "protocol=\"htcp\"" "Questions of neighbours that were answered.";
    neighbour_hits_told: shared = "counter" "shoal_neighbour_hits_told_total" "" "Questions of neighbours answered with a hit.";
    neighbour_clears: shared = "counter" "shoal_neighbour_clears_total" "" "URLs removed since a neighbour asked for it by HTCP.";
    neighbour_clears_refused: shared = "counter" "shoal_neighbour_dropped_total" "reason=\"clear\"" "Messages by ICP and HTCP that had no effect.";
    neighbour_strangers: shared = "counter" "shoal_neighbour_dropped_total" "reason=\"address\"" "Messages by ICP and HTCP that had no effect.";
    neighbour_floods: shared = "counter" "shoal_neighbour_dropped_total" "reason=\"rate\"" "Messages by ICP and HTCP that had no effect.";
    neighbour_malformed: shared = "counter" "shoal_neighbour_dropped_total" "reason=\"malformed\"" "Messages by ICP and HTCP that had no effect.";
    neighbour_unsigned: shared = "counter" "shoal_neighbour_dropped_total" "reason=\"signature\"" "Messages by ICP and HTCP that had no effect.";
    neighbour_unasked: shared = "counter" "shoal_neighbour_dropped_total" "reason=\"unasked\"" "Messages by ICP and HTCP that had no effect.";
    neighbour_busy: shared = "counter" "shoal_neighbour_dropped_total" "reason=\"busy\"" "Messages by ICP and HTCP that had no effect.";
    neighbour_asked: shared = "counter" "shoal_neighbour_asked_total" "" "Questions sent to neighbours by ICP and HTCP.";
    neighbour_answers: shared = "counter" "shoal_neighbour_answers_total" "" "Answers of neighbours by ICP and HTCP that came in time.";
    neighbour_silent: shared = "counter" "shoal_neighbour_silent_total" "" "Questions to neighbours without an answer in time.";
    neighbour_fetches_sibling: shared = "counter" "shoal_neighbour_fetches_total" "kind=\"sibling\"" "Responses fetched from neighbours.";
    neighbour_fetches_parent: shared = "counter" "shoal_neighbour_fetches_total" "kind=\"parent\"" "Responses fetched from neighbours.";
    neighbour_false_hits: shared = "counter" "shoal_neighbour_false_hits_total" "" "Siblings that lacked a URL which they, or their digests, said they hold.";
    neighbour_failures: shared = "counter" "shoal_neighbour_failures_total" "" "Requests to neighbours without a useful response.";
    neighbour_digests: shared = "counter" "shoal_neighbour_digests_fetched_total" "" "Digests of neighbours fetched.";
    neighbour_digests_failed: shared = "counter" "shoal_neighbour_digests_failed_total" "" "Digests of neighbours that could not be fetched or used.";
    neighbour_digests_served: shared = "counter" "shoal_neighbour_digests_served_total" "" "Digests of this node sent to neighbours.";
}

impl Metrics {
    /// Counts a response of which `body_bytes` bytes of body were sent. `duration_us` exists if it
    /// was sent whole.
    pub fn responded(&self, outcome: CacheResult, body_bytes: u64, duration_us: Option<u64>) {
        self.responses(outcome).increment();
        self.body_bytes.of(outcome).add(body_bytes);
        if let Some(duration_us) = duration_us.filter(|_| is_timed(outcome)) {
            self.durations.of(outcome).observe(duration_us);
        }
    }

    /// Returns the counter of responses with this outcome.
    fn responses(&self, outcome: CacheResult) -> &PerCoreCounter {
        match outcome {
            CacheResult::None => &self.other,
            CacheResult::MemoryHit => &self.hits_memory,
            CacheResult::Hit => &self.hits_disk,
            CacheResult::PeerHit => &self.hits_peer,
            CacheResult::Miss => &self.misses,
            CacheResult::Collapsed => &self.collapsed,
            CacheResult::RefreshUnmodified => &self.refresh_unmodified,
            CacheResult::RefreshModified => &self.refresh_modified,
            CacheResult::StaleWhileRevalidate | CacheResult::StaleIfError => &self.stale,
            CacheResult::Pass => &self.passes,
            CacheResult::Tunnel => &self.tunnels,
            CacheResult::Denied => &self.denied,
            CacheResult::Abandoned => &self.abandoned,
        }
    }

    /// Appends the histograms to a page.
    pub fn write_histograms(&self, page: &mut String) {
        let (name, help) = DURATIONS;
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} histogram");
        for (labels, outcome, durations) in self.durations.all() {
            if is_timed(outcome) {
                durations.write(page, name, labels);
            }
        }
    }
}

/// Returns `true` if the durations of such responses are recorded. Hits in RAM are not timed, to
/// keep them cheap, nor are responses without a lookup or fetch.
fn is_timed(outcome: CacheResult) -> bool {
    !matches!(
        outcome,
        CacheResult::MemoryHit
            | CacheResult::Tunnel
            | CacheResult::Denied
            | CacheResult::Abandoned
            | CacheResult::None
    )
}

/// Formats `rows` in Prometheus' text format; rows of one name must stand together.
pub fn exposition(rows: &[(&str, &str, &str, &str, u64)]) -> String {
    let mut text = String::new();
    let mut previous = "";
    for (kind, name, labels, help, value) in rows {
        if *name != previous {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            previous = name;
        }
        let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(text, "{name}{braces} {value}");
    }
    text
}

/// Kind, name and help of [`Metrics::body_bytes`].
const BODY_BYTES: (&str, &str, &str) =
    ("counter", "shoal_response_body_bytes_total", "Bytes of response bodies sent, by what the cache did.");

/// Name and help of [`Metrics::durations`].
const DURATIONS: (&str, &str) = (
    "shoal_response_duration_seconds",
    "From the first byte of a request to the last of its response, of those sent whole and not out of RAM.",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_counted_under_one_result_everywhere() {
        let metrics = Metrics::default();
        for (labels, outcome, bytes) in metrics.body_bytes.all() {
            metrics.responded(outcome, 7, Some(1));
            let rows = metrics.rows();
            let row = rows.iter().find(|row| row.1 == "shoal_responses_total" && row.2 == labels);
            assert_eq!((row.map(|row| row.4), bytes.value()), (Some(1), 7), "{labels}");
            assert_eq!(metrics.durations.of(outcome).count(), u64::from(is_timed(outcome)), "{labels}");
        }
        metrics.responded(CacheResult::StaleIfError, 5, None);
        let (bytes, durations) = (&metrics.body_bytes, &metrics.durations);
        assert_eq!(bytes.of(CacheResult::StaleWhileRevalidate).value(), 12);
        assert_eq!(
            durations.of(CacheResult::StaleIfError).count(),
            1,
            "a response that was cut took no time"
        );
    }
}
