//! Changes that a disk missed while it was out of service, bounded.

use shoal_core::ObjectKey;
use std::collections::HashSet;

/// Objects that must not be found on the disk any more when it comes back.
#[derive(Default)]
pub(super) struct MissedChanges {
    keys: HashSet<ObjectKey>,
    bytes: usize,
    is_too_much: bool,
}

impl MissedChanges {
    /// Makes the changes of a disk for which none is remembered.
    pub(super) fn too_many() -> Self {
        Self { is_too_much: true, ..Self::default() }
    }

    /// Records a change for a disk that is out of service. Removals may use all 8 MiB
    /// (`ROOM_BYTES`). Replacements may use half, since an object replaced on another disk is only
    /// older. A removal that does not fit sets `is_too_much`: the removed object must not come
    /// back.
    pub(super) fn record(&mut self, key: &ObjectKey, is_removed: bool) {
        let bytes = key.full().len() + KEY_BYTES;
        let room = if is_removed { ROOM_BYTES } else { ROOM_BYTES / 2 };
        if self.keys.contains(key) {
            return;
        }
        if self.bytes + bytes > room {
            self.is_too_much |= is_removed;
            return;
        }
        self.bytes += bytes;
        let is_new = self.keys.insert(key.clone());
        assert!(is_new, "a key that is remembered twice");
        self.invariants();
    }

    /// Checks all that is said of the fields.
    fn invariants(&self) {
        debug_assert!(self.bytes <= ROOM_BYTES);
        debug_assert!(self.bytes >= self.keys.len() * KEY_BYTES);
        debug_assert_eq!(self.keys.is_empty(), self.bytes == 0);
    }

    /// Returns `true` if a change of this object is remembered, or too many removals were made to
    /// remember them.
    pub(super) fn has(&self, key: &ObjectKey) -> bool {
        self.is_too_much || self.keys.contains(key)
    }

    /// Returns `true` if a removal was not remembered.
    pub(super) fn is_too_much(&self) -> bool {
        self.is_too_much
    }

    /// Forgets the remembered keys: their objects are removed. Removals that were not remembered
    /// stay noted.
    pub(super) fn forget_keys(&mut self) {
        *self = Self { is_too_much: self.is_too_much, ..Self::default() };
        self.invariants();
    }

    /// Returns the number of remembered keys.
    pub(super) fn count(&self) -> usize {
        self.keys.len()
    }

    /// Returns the remembered keys that are not among `done`. They stay remembered, so that lookups
    /// go on to miss them.
    pub(super) fn keys_beside(&self, done: &HashSet<ObjectKey>) -> Vec<ObjectKey> {
        self.invariants();
        self.keys.iter().filter(|key| !done.contains(key)).cloned().collect()
    }
}

/// RAM in bytes for missed keys, for each disk that is out of service.
const ROOM_BYTES: usize = 8 << 20;
/// Bytes of RAM that a key takes beside its own.
const KEY_BYTES: usize = 96;

const _: () = assert!(KEY_BYTES < ROOM_BYTES / 2);

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> ObjectKey {
        ObjectKey::new(format!("http://a.example/{number}").into_bytes())
    }

    #[test]
    fn replaced_keys_leave_room_for_removed_keys() {
        let mut missed = MissedChanges::default();
        for number in 0..100_000 {
            missed.record(&key(number), false);
        }
        assert!(missed.bytes <= ROOM_BYTES / 2 && !missed.is_too_much());
        for number in 100_000..200_000 {
            missed.record(&key(number), true);
            assert!(missed.bytes <= ROOM_BYTES);
            assert!(missed.is_too_much() || missed.keys.contains(&key(number)));
        }
        assert!(missed.is_too_much());
        let all: HashSet<_> = missed.keys_beside(&HashSet::new()).into_iter().collect();
        assert!(all.len() > 50_000 && all.len() == missed.count());
        assert!(missed.keys_beside(&all).is_empty());
    }
}
