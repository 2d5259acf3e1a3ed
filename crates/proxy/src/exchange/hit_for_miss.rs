//! A short memory of keys whose responses turned out not to be storable.
//!
//! Requests for such a key skip the collapsing of concurrent misses: waiting for a response that
//! will not be shared would make clients queue for nothing. The memory is a fixed table in which a
//! newer key displaces an older one of the same slot; forgetting costs one wait.

use http::header::{AUTHORIZATION, COOKIE};
use shoal_core::{Fields, Key, Timestamp};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Which requests it is remembered of.
#[derive(Clone, Copy, Debug)]
pub struct PassKey {
    /// The primary key's hash.
    pub url: Key,
    /// What tells requests for it apart whose responses may differ in that.
    pub kind: Kind,
}

/// Responses to clients with credentials are others than those to clients without.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Whether the request has Authorization.
    pub has_authorization: bool,
    /// Whether it has Cookie.
    pub has_cookie: bool,
}

impl Kind {
    /// Of a request with these fields.
    pub fn of(fields: &impl Fields) -> Self {
        Self { has_authorization: fields.has(&AUTHORIZATION), has_cookie: fields.has(&COOKIE) }
    }

    fn number(self) -> usize {
        let Self { has_authorization, has_cookie } = self;
        usize::from(has_authorization) << 1 | usize::from(has_cookie)
    }
}

/// The table: each word holds 32 bits of the key and the second at which the memory ends.
pub struct HitForMissTable {
    slots: Box<[AtomicU64]>,
}

impl Default for HitForMissTable {
    fn default() -> Self {
        Self { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl HitForMissTable {
    /// Remembers `key` from `now` on for [`MEMORY`].
    pub fn remember(&self, key: PassKey, now: Timestamp) {
        let until = now.plus(MEMORY).seconds() & u64::from(u32::MAX);
        self.slot(key).store(mark(key) | until, Ordering::Relaxed);
    }

    /// Forgets `key`: a response for it could be stored after all.
    pub fn forget(&self, key: PassKey) {
        let slot = self.slot(key);
        let word = slot.load(Ordering::Relaxed);
        if word & !u64::from(u32::MAX) == mark(key) {
            let _ = slot.compare_exchange(word, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether `key` is remembered at `now`.
    pub fn holds(&self, key: PassKey, now: Timestamp) -> bool {
        let word = self.slot(key).load(Ordering::Relaxed);
        word & !u64::from(u32::MAX) == mark(key) && word & u64::from(u32::MAX) > now.seconds()
    }

    fn slot(&self, key: PassKey) -> &AtomicU64 {
        // Each kind has a slot of its own.
        &self.slots[(key.url.low() as usize ^ key.kind.number()) % SLOTS]
    }
}

/// The half of the key that does not choose the slot, never zero.
fn mark(key: PassKey) -> u64 {
    (key.url.high() | 1 << 32) & !u64::from(u32::MAX)
}

const SLOTS: usize = 16_384;

/// How long a key is remembered.
const MEMORY: Duration = Duration::from_secs(120);

const _: () = assert!(SLOTS.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_for_a_while_and_forgets_on_demand() {
        let passes = HitForMissTable::default();
        let plain = Kind { has_authorization: false, has_cookie: false };
        let of = |url: &[u8]| PassKey { url: Key::of(url), kind: plain };
        let (key, now) = (of(b"a"), Timestamp::from_seconds(1_000));
        assert!(!passes.holds(key, now));
        passes.remember(key, now);
        assert!(passes.holds(key, now.plus(Duration::from_secs(119))));
        assert!(!passes.holds(key, now.plus(Duration::from_secs(120))));
        assert!(!passes.holds(of(b"b"), now));
        for kind in [Kind { has_authorization: true, ..plain }, Kind { has_cookie: true, ..plain }] {
            assert!(!passes.holds(PassKey { kind, ..key }, now), "requests of another kind are not meant");
        }
        passes.forget(key);
        assert!(!passes.holds(key, now));
    }
}
