//! Table of the objects that this node holds, from which its digest is built.

use shoal_core::Key;
use std::collections::HashMap;

/// Objects by the hash of their keys here, with their keys in digests.
#[derive(Default)]
pub struct HeldObjects {
    objects: HashMap<[u8; 16], HeldObject>,
}

/// One object.
#[derive(Clone, Copy)]
struct HeldObject {
    digest_key: [u8; 16],
    /// End of its freshness, in seconds since the epoch.
    fresh_until: u32,
}

impl HeldObjects {
    /// Notes an object. Returns `false` if there is no room.
    pub fn note(&mut self, hash: Key, digest_key: Key, fresh_until: u32) -> bool {
        let hash = hash.to_bytes();
        let has_room = self.objects.len() < OBJECTS_MAX || self.objects.contains_key(&hash);
        if has_room {
            self.objects.insert(hash, HeldObject { digest_key: digest_key.to_bytes(), fresh_until });
        }
        debug_assert!(self.objects.len() <= OBJECTS_MAX, "the table is bounded");
        has_room
    }

    /// Drops objects that expire before `until`, in seconds, or are not held any more.
    pub fn keep(&mut self, until: u32, is_held: impl Fn(Key) -> bool) {
        self.objects.retain(|hash, object| object.fresh_until > until && is_held(Key::from_bytes(*hash)));
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.objects = HashMap::new();
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns the keys for the digest.
    pub fn digest_keys(&self) -> impl ExactSizeIterator<Item = Key> {
        self.objects.values().map(|object| Key::from_bytes(object.digest_key))
    }
}

/// Most objects: their table takes 40 MB.
pub const OBJECTS_MAX: usize = 900_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_bounded_and_forgets() {
        let key = |number: u32| Key::unkeyed(&number.to_le_bytes());
        let mut held = HeldObjects::default();
        for number in 0..1000 {
            assert!(held.note(key(number), key(number + 5000), number));
        }
        assert!(held.note(key(7), key(5007), 2000), "an object that is known is renewed");
        held.keep(500, |hash| hash != key(800));
        assert_eq!(held.len(), 499);
        assert!(held.digest_keys().any(|digest_key| digest_key == key(5007)));
        assert!(held.digest_keys().all(|digest_key| digest_key != key(5800)));
        held.clear();
        assert_eq!(held.digest_keys().len(), 0);
    }
}
