//! Objects that should be gone from a disk that does not answer: hidden until they are.
//!
//! A removal is never refused, or what was purged would come back. But who asks for one need not wait for a disk that hangs: the key is
//! hidden from lookups, and taken from the disk as soon as that answers. A process that ends before takes the removal with it,
//! as it does with those of its last second anyhow.

use parking_lot::Mutex;
use shoal_core::{Key, ObjectKey};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Keys that are hidden.
#[derive(Default)]
pub(super) struct Removals {
    state: Mutex<State>,
    /// As many as there are, so that lookups take no lock while there are none.
    count: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// Each with the number of the latest wish to have it removed.
    keys: HashMap<Key, (ObjectKey, u64)>,
    wishes: u64,
}

/// What hiding a key has come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hidden {
    /// It is hidden, as the first: somebody has to see to the removals from now on.
    First,
    /// It is hidden, and somebody sees to it.
    Another,
    /// There are too many already.
    Refused,
}

impl Removals {
    /// Hides a key.
    pub(super) fn hide(&self, key: &ObjectKey) -> Hidden {
        let mut state = self.state.lock();
        if state.keys.len() >= HIDDEN_MAX {
            return Hidden::Refused;
        }
        let was_empty = state.keys.is_empty();
        state.wishes += 1;
        let wish = state.wishes;
        state.keys.insert(key.hash(), (key.clone(), wish));
        self.count.store(state.keys.len(), SeqCst);
        if was_empty { Hidden::First } else { Hidden::Another }
    }

    /// Whether the key is hidden.
    pub(super) fn hides(&self, key: Key) -> bool {
        self.count.load(SeqCst) > 0 && self.state.lock().keys.contains_key(&key)
    }

    /// One that has to be removed, and for which wish. `None` when nothing is hidden any more.
    pub(super) fn next(&self) -> Option<(ObjectKey, u64)> {
        self.state.lock().keys.values().next().cloned()
    }

    /// It has been removed, and is shown unless that was wished for again meanwhile. True when some are hidden still.
    pub(super) fn show(&self, key: &ObjectKey, wish: u64) -> bool {
        let mut state = self.state.lock();
        if state.keys.get(&key.hash()).is_some_and(|(_, latest)| *latest == wish) {
            state.keys.remove(&key.hash());
        }
        self.count.store(state.keys.len(), SeqCst);
        !state.keys.is_empty()
    }
}

/// Keys hidden at most: some megabytes. Whoever wants another one removed waits for the disk.
const HIDDEN_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_told_until_it_is_removed() {
        let removals = Removals::default();
        let (one, other) = (ObjectKey::new(*b"one"), ObjectKey::new(*b"other"));
        assert_eq!((removals.hide(&one), removals.hide(&other)), (Hidden::First, Hidden::Another));
        assert!(removals.hides(one.hash()) && removals.hides(other.hash()));
        let (next, wish) = removals.next().expect("two are hidden");
        assert!(removals.show(&next, wish) && !removals.hides(next.hash()));
        let (next, wish) = removals.next().expect("one is left");
        assert!(!removals.show(&next, wish) && removals.next().is_none());
        assert_eq!(removals.hide(&one), Hidden::First, "somebody has to begin anew");
    }

    #[test]
    fn what_was_wished_for_again_meanwhile_stays_hidden() {
        let removals = Removals::default();
        let key = ObjectKey::new(*b"key");
        removals.hide(&key);
        let (next, wish) = removals.next().expect("it is hidden");
        removals.hide(&key);
        assert!(removals.show(&next, wish) && removals.hides(key.hash()));
    }

    #[test]
    fn there_is_a_limit() {
        let removals = Removals::default();
        for number in 0..HIDDEN_MAX {
            removals.hide(&ObjectKey::new(number.to_le_bytes()));
        }
        assert_eq!(removals.hide(&ObjectKey::new(*b"one more")), Hidden::Refused);
    }
}
