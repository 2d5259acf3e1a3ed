//! What a disk has missed while it was out of service, bounded.

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
    /// Remembers an object. One that was removed must not come back, and counts as lost track of
    /// when there is no room for it; one that was replaced on another disk is only older, and takes
    /// half of the room at most.
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

    /// Something that was removed is not remembered.
    pub(super) fn is_too_much(&self) -> bool {
        self.is_too_much
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Everything that is remembered.
    pub(super) fn take(&mut self) -> Vec<ObjectKey> {
        self.invariants();
        self.bytes = 0;
        self.keys.drain().collect()
    }
}

/// RAM for keys that were missed, for each disk that is out of service.
const ROOM_BYTES: usize = 8 << 20;
/// What a key takes beside its bytes.
const KEY_BYTES: usize = 96;

const _: () = assert!(KEY_BYTES < ROOM_BYTES / 2);

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> ObjectKey {
        ObjectKey::new(format!("http://a.example/{number}").into_bytes())
    }

    #[test]
    fn what_was_replaced_leaves_room_for_what_was_removed_and_too_much_is_known() {
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
        assert!(missed.take().len() > 50_000 && missed.is_empty() && missed.is_too_much());
    }
}
