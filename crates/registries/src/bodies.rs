//! Places of bodies by digest: one body on disk for one digest, under any URL.
//!
//! A file that is missing under its own place may be stored under another of the same registry, as
//! a layer of two images. The table says where to look. It is a hint: a place without the body
//! costs one look at the cache.

use parking_lot::Mutex;
use shoal_mirrors::{Digest, Place};
use std::collections::HashMap;

/// Places of one mirror's bodies.
#[derive(Default)]
pub struct BodyPlaces(Mutex<HashMap<Digest, Place>>);

impl BodyPlaces {
    /// Returns the place, other than `own`, under which the body was last fetched.
    pub fn other(&self, digest: &Digest, own: &Place) -> Option<Place> {
        self.0.lock().get(digest).filter(|place| *place != own).cloned()
    }

    /// Remembers the place under which a body is fetched.
    pub fn keep(&self, digest: &Digest, place: &Place) {
        let mut places = self.0.lock();
        if places.len() >= PLACES_MAX {
            places.clear();
        }
        places.insert(digest.clone(), place.clone());
        debug_assert!(places.len() <= PLACES_MAX);
    }
}

/// Most bodies with a place, about 200 bytes each.
const PLACES_MAX: usize = 32_768;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_places_are_told_and_bounded() {
        let places = BodyPlaces::default();
        let digest =
            |number: usize| Digest::from_named_hex(&format!("sha256:{number:064x}")).expect("64 digits");
        let (a, b) = (Place::Below("/a".into()), Place::Below("/b".into()));
        assert_eq!(places.other(&digest(1), &b), None);
        places.keep(&digest(1), &a);
        assert_eq!(places.other(&digest(1), &b), Some(a.clone()));
        assert_eq!(places.other(&digest(1), &a), None);
        for number in 0..PLACES_MAX + 2 {
            places.keep(&digest(number), &b);
        }
        assert!(places.0.lock().len() <= PLACES_MAX);
    }
}
