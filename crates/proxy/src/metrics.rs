//! Every counter and gauge, in one table.
//!
//! To count something new, add a row: the field, the exported name with its labels, and the help text. Each row is kept
//! per core ([`crate::per_core`]): counting touches memory that no other core writes, and a scrape adds up.

use crate::per_core::{Apart, OWNED, PLACES, place};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// One number that others add to.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn count(&self) {
        self.add(1);
    }

    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Takes `amount` back, for gauges.
    pub fn subtract(&self, amount: u64) {
        self.0.fetch_sub(amount, Ordering::Relaxed);
    }

    /// Its value now.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds `amount` to what is counted at `place`, the calling thread's: without a locked instruction where no other thread adds.
    #[inline]
    fn add_at(&self, place: usize, amount: u64) {
        match place < OWNED {
            true => self.0.store(self.value().wrapping_add(amount), Ordering::Relaxed),
            false => self.add(amount),
        }
    }
}

/// A [`Counter`] that is kept per core. Takes two kilobytes.
#[derive(Debug, Default)]
pub struct PerCore([Apart<Counter>; PLACES]);

impl PerCore {
    /// Adds one.
    #[inline]
    pub fn count(&self) {
        self.add(1);
    }

    /// Adds `amount`.
    #[inline]
    pub fn add(&self, amount: u64) {
        let place = place();
        self.0[place].0.add_at(place, amount);
    }

    /// Takes `amount` back, for gauges; by whatever thread, since places wrap around and only their sum means anything.
    pub fn subtract(&self, amount: u64) {
        self.add(amount.wrapping_neg());
    }

    /// Its value now: the sum over the cores.
    pub fn value(&self) -> u64 {
        sum(&self.0)
    }

    /// What of its value was counted by threads that own their place.
    #[cfg(test)]
    pub fn owned_value(&self) -> u64 {
        sum(&self.0[..OWNED])
    }
}

fn sum(places: &[Apart<Counter>]) -> u64 {
    places.iter().fold(0, |sum, place| sum.wrapping_add(place.0.value()))
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $field:ident = $kind:literal $name:literal $labels:literal $help:literal;)*) => {
        /// All of this process's metrics.
        #[derive(Debug, Default)]
        pub struct Metrics { $($(#[$doc])* #[doc = $help] pub $field: PerCore,)* }

        impl Metrics {
            /// (kind, name, labels, help, value) of every row, in table order.
            pub fn rows(&self) -> Vec<(&'static str, &'static str, &'static str, &'static str, u64)> {
                vec![$(($kind, $name, $labels, $help, self.$field.value()),)*]
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
    clients_slow = "counter" "shoal_clients_slow_total" "" "Clients given up since they sent their request body, or took their response, too slowly.";
    refused = "counter" "shoal_requests_refused_total" "" "Requests refused as malformed, oversized or ambiguous.";
    responses_cut = "counter" "shoal_responses_cut_total" "" "Responses that were begun and not sent to their end: the client left or was too slow, or the body failed.";
    h2_given_up = "counter" "shoal_http2_given_up_total" "" "HTTP/2 connections given up for what the client sent, or did not send to its end in time.";
    h2_streams_refused = "counter" "shoal_http2_streams_refused_total" "" "HTTP/2 requests refused since their connection had client.h2_streams open.";
    hits_memory = "counter" "shoal_responses_total" "result=\"memory_hit\"" "Responses by what the cache did.";
    hits_disk = "counter" "shoal_responses_total" "result=\"hit\"" "Responses by what the cache did.";
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
    disk_busy = "counter" "shoal_disk_refused_total" "" "Disk jobs refused because the queue was full or the disk did not answer; a read then counts as a miss.";
    disk_slow = "counter" "shoal_disk_slow_total" "" "Disk jobs that a client no longer waited for; a read then counts as a miss.";
    disk_declined = "counter" "shoal_disk_declined_total" "" "Objects that the disk store declined to take.";
    disk_on_probation = "counter" "shoal_disk_on_probation_total" "" "Objects that the disk store will take when they are asked for again.";
    disk_corrupt = "counter" "shoal_disk_corrupt_total" "" "Disk jobs that met damaged bytes; a read then counts as a miss.";
    disk_errors = "counter" "shoal_disk_errors_total" "" "Disk operations that failed.";
    panics = "counter" "shoal_panics_total" "" "Threads and tasks that panicked: faults of Shoal itself.";
    error_log_lines_dropped = "counter" "shoal_error_log_lines_dropped_total" "" "Error log lines dropped because stderr took nothing or could not be written.";
    log_lines_dropped = "counter" "shoal_log_lines_dropped_total" "" "Access log lines dropped because the log was too slow or could not be written.";
    upstream_opened = "counter" "shoal_upstream_connections_opened_total" "" "Connections opened to origins.";
    upstream_connections = "gauge" "shoal_upstream_connections" "" "Connections to origins open now.";
    upstream_reused = "counter" "shoal_upstream_connections_reused_total" "" "Requests to origins sent on a connection that carried others.";
    upstream_waits = "counter" "shoal_upstream_waits_total" "" "Requests that waited since their origin had all its connections in use.";
    upstream_retries = "counter" "shoal_upstream_retries_total" "" "Requests sent again after a kept connection turned out dead.";
    upstream_failovers = "counter" "shoal_upstream_failovers_total" "" "Upstreams of a site that could not be reached, so that another was tried.";
    upstream_checks = "counter" "shoal_upstream_checks_total" "" "Active health checks made.";
    upstream_checks_failed = "counter" "shoal_upstream_checks_failed_total" "" "Active health checks that found an upstream unhealthy.";
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
}

/// The Prometheus text format of `rows`; rows of one name must stand together.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::per_core::{ALL_PLACES, own_place};

    #[test]
    fn what_threads_count_adds_up() {
        let (counter, gauge) = (PerCore::default(), PerCore::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| counter.count()));
            }
            scope.spawn(|| gauge.add(5));
        });
        std::thread::scope(|scope| drop(scope.spawn(|| gauge.subtract(3))));
        assert_eq!((counter.value(), gauge.value()), (4000, 2));
    }

    /// More threads at once than there are places, which come and go, with and without a place of their own.
    #[test]
    fn no_count_is_lost_while_places_change_hands() {
        let _alone = ALL_PLACES.lock();
        let counter = PerCore::default();
        let count = |times: u64| (0..times).for_each(|_| counter.count());
        std::thread::scope(|scope| {
            for thread in 0..2 * PLACES as u64 {
                scope.spawn(move || {
                    for life in 0..LIVES {
                        let counts = move || {
                            count(COUNTS / 2);
                            if !(thread + life).is_multiple_of(4) {
                                own_place();
                            }
                            count(COUNTS / 2);
                        };
                        std::thread::scope(|scope| drop(scope.spawn(counts)));
                    }
                });
            }
        });
        assert_eq!(counter.value(), 2 * PLACES as u64 * LIVES * COUNTS);
    }

    const LIVES: u64 = 20;
    const COUNTS: u64 = 20_000;
}
