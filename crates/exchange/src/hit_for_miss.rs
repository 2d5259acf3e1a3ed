//! A short memory of keys with responses that could not be stored.
//!
//! Requests for such a key skip the collapsing of concurrent misses: waiting for a response that
//! cannot be shared would delay clients in vain. The memory is a fixed table, in which a newer key
//! displaces an older one of the same slot. Forgetting a key costs one wait.

use http::header::{AUTHORIZATION, COOKIE};
use shoal_core::{Fields, Key, LazyWords, Timestamp};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Key of the remembered requests.
#[derive(Clone, Copy, Debug)]
pub struct PassKey {
    /// Hash of the primary key.
    pub url: Key,
    /// Properties of the request on which the response may depend.
    pub kind: Kind,
}

/// Kind of credentials. Clients with credentials get other responses than clients without.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// `true` if the request has Authorization.
    pub has_authorization: bool,
    /// `true` if the request has Cookie.
    pub has_cookie: bool,
}

impl Kind {
    /// Returns the kind of a request with these fields.
    pub fn of(fields: &impl Fields) -> Self {
        Self { has_authorization: fields.has(&AUTHORIZATION), has_cookie: fields.has(&COOKIE) }
    }

    fn number(self) -> usize {
        let Self { has_authorization, has_cookie } = self;
        usize::from(has_authorization) << 1 | usize::from(has_cookie)
    }
}

/// The table: each word holds 32 bits of the key and the second at which the entry expires.
pub struct HitForMissTable {
    slots: LazyWords,
}

impl Default for HitForMissTable {
    fn default() -> Self {
        Self { slots: LazyWords::new(SLOTS) }
    }
}

impl HitForMissTable {
    /// Remembers `key` from `now` on for [`MEMORY`].
    pub fn remember(&self, key: PassKey, now: Timestamp) {
        let until = now.plus(MEMORY).seconds() & u64::from(u32::MAX);
        self.slots.word(slot(key)).store(mark(key) | until, Ordering::Relaxed);
    }

    /// Forgets `key`: a response for it could be stored after all.
    pub fn forget(&self, key: PassKey) {
        let Some(slot) = self.slots.written(slot(key)) else { return };
        let word = slot.load(Ordering::Relaxed);
        if word & !u64::from(u32::MAX) == mark(key) {
            let _ = slot.compare_exchange(word, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Returns `true` if `key` is remembered at `now`.
    pub fn holds(&self, key: PassKey, now: Timestamp) -> bool {
        let word = self.slots.load(slot(key), Ordering::Relaxed);
        word & !u64::from(u32::MAX) == mark(key) && word & u64::from(u32::MAX) > now.seconds()
    }

    /// Returns `true` if requests of any kind for a URL are remembered at `now`.
    pub fn holds_any(&self, url: Key, now: Timestamp) -> bool {
        let kinds = [(false, false), (true, false), (false, true), (true, true)];
        kinds.into_iter().any(|(has_authorization, has_cookie)| {
            self.holds(PassKey { url, kind: Kind { has_authorization, has_cookie } }, now)
        })
    }
}

/// Returns the number of a key's slot. Each kind has its own.
fn slot(key: PassKey) -> usize {
    (key.url.low() as usize ^ key.kind.number()) % SLOTS
}

/// Returns the half of the key that does not choose the slot, never zero.
fn mark(key: PassKey) -> u64 {
    (key.url.high() | 1 << 32) & !u64::from(u32::MAX)
}

const SLOTS: usize = 16_384;

/// Lifetime of an entry.
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
