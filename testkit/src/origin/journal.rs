//! What an origin has received and sent, for tests to count.

use crate::fields::Fields;
use crate::wait::LIMIT;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A request as the origin received it.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// The method.
    pub method: String,
    /// The target as it stood in the request line; of HTTP/2, `:path`.
    pub target: String,
    /// The version, such as `HTTP/1.1`.
    pub version: String,
    /// The fields.
    pub fields: Fields,
    /// The body, transfer coding removed.
    pub body: Vec<u8>,
    /// Its trailer fields.
    pub trailers: Fields,
    /// The head's bytes; empty of HTTP/2.
    pub head: String,
    /// Which connection it came on, counted from 1.
    pub connection: usize,
}

impl Received {
    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

/// All requests in order of arrival, and what was sent.
#[derive(Default)]
pub struct Journal {
    entries: Mutex<Entries>,
    changed: Condvar,
}

#[derive(Default)]
struct Entries {
    received: Vec<Received>,
    /// How many requests came, by path.
    counts: HashMap<String, usize>,
    connections: usize,
    ended: usize,
    aborted: usize,
    bytes_sent: u64,
}

impl Entries {
    fn count(&self, path: &str) -> usize {
        self.counts.get(path).copied().unwrap_or(0)
    }
}

impl Journal {
    /// Every request, in order.
    pub fn received(&self) -> Vec<Received> {
        self.entries().received.clone()
    }

    /// How many requests came.
    pub fn total(&self) -> usize {
        self.entries().received.len()
    }

    /// How many requests came for `path`, whatever their query.
    pub fn count(&self, path: &str) -> usize {
        self.entries().count(path)
    }

    /// How many requests with `method` came for `path`.
    pub fn count_of(&self, method: &str, path: &str) -> usize {
        let matches = |request: &&Received| request.method == method && request.path() == path;
        self.entries().received.iter().filter(matches).count()
    }

    /// The last request for `path`; panics when there is none.
    pub fn last(&self, path: &str) -> Received {
        let entries = self.entries();
        let last = entries.received.iter().rev().find(|request| request.path() == path).cloned();
        last.unwrap_or_else(|| panic!("the origin received no request for {path}"))
    }

    /// How many connections were accepted.
    pub fn connections(&self) -> usize {
        self.entries().connections
    }

    /// How many answers could not be sent to their end because the peer had gone.
    pub fn aborted(&self) -> usize {
        self.entries().aborted
    }

    /// Bytes of answers sent, heads included.
    pub fn bytes_sent(&self) -> u64 {
        self.entries().bytes_sent
    }

    /// Waits until `count` requests came for `path`; panics when they do not in time.
    pub fn wait_for(&self, path: &str, count: usize) {
        assert!(
            self.wait(LIMIT, |entries| entries.count(path) >= count),
            "the origin did not receive {count} requests for {path}"
        );
    }

    /// Waits until `count` answers were aborted; panics when they are not in time.
    pub fn wait_for_aborts(&self, count: usize) {
        assert!(self.wait(LIMIT, |entries| entries.aborted >= count), "{count} fetches were not given up");
    }

    /// Waits until the origin has ended `count` connections of its own accord; panics when it does
    /// not in time. Whoever is at the other end of one can know it by then.
    pub fn wait_for_ends(&self, count: usize) {
        assert!(self.wait(LIMIT, |entries| entries.ended >= count), "{count} connections were not ended");
    }

    pub(super) fn connected(&self) -> usize {
        self.change(|entries| {
            entries.connections += 1;
            entries.connections
        })
    }

    /// Takes note of a request; gives how many came before it for the same path.
    pub(super) fn note(&self, request: &Received) -> usize {
        self.change(|entries| {
            let count = entries.counts.entry(request.path().into()).or_default();
            let earlier = *count;
            *count += 1;
            entries.received.push(request.clone());
            earlier
        })
    }

    pub(super) fn sent(&self, bytes: u64) {
        self.change(|entries| entries.bytes_sent += bytes);
    }

    pub(super) fn ended(&self) {
        self.change(|entries| entries.ended += 1);
    }

    pub(super) fn abort(&self) {
        self.change(|entries| entries.aborted += 1);
    }

    fn wait(&self, limit: Duration, condition: impl Fn(&Entries) -> bool) -> bool {
        let waited = self.changed.wait_timeout_while(self.entries(), limit, |entries| !condition(entries));
        condition(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Entries) -> T) -> T {
        let result = change(&mut self.entries());
        self.changed.notify_all();
        result
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
