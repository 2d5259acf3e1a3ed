//! One shard of the RAM tier: a map, its replacement policy, and what lingers.

use shoal_core::Key;
use shoal_policy::{Handle, Replacement};
use std::collections::HashMap;
use std::sync::Arc;

/// Objects whose keys fall into one shard.
pub(super) struct Shard<V> {
    objects: HashMap<Key, Object<V>>,
    policy: Box<dyn Replacement>,
    /// Removed or replaced while someone held them.
    lingering: Vec<(Arc<V>, u64)>,
}

/// One object with what it is charged.
struct Object<V> {
    value: Arc<V>,
    bytes: u64,
    handle: Handle,
}

/// Values that nobody holds any more, to be dropped outside the lock, and the bytes they were charged.
pub(super) struct Released<V> {
    pub(super) bytes: u64,
    _values: Vec<Arc<V>>,
}

impl<V> Shard<V> {
    pub(super) fn new(policy: Box<dyn Replacement>) -> Self {
        Self { objects: HashMap::new(), policy, lingering: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn hit(&mut self, key: Key) -> Option<Arc<V>> {
        let object = self.objects.get(&key)?;
        self.policy.hit(object.handle);
        Some(Arc::clone(&object.value))
    }

    pub(super) fn insert(&mut self, key: Key, value: Arc<V>, bytes: u64) {
        self.remove(key);
        let handle = self.policy.insert(key, bytes);
        self.objects.insert(key, Object { value, bytes, handle });
    }

    /// Takes the object out of sight. Its bytes stay charged until `release_lingering` finds it let go.
    pub(super) fn remove(&mut self, key: Key) -> bool {
        let Some(object) = self.objects.remove(&key) else { return false };
        self.policy.remove(object.handle);
        self.lingering.push((object.value, object.bytes));
        true
    }

    /// Gives up the object worth least that nobody holds. `None` when a few tries find none.
    pub(super) fn evict(&mut self) -> Option<(Arc<V>, u64)> {
        for _ in 0..EVICT_TRIES {
            let key = self.policy.evict()?.key;
            let object = self.objects.get_mut(&key)?;
            // Under this lock nobody can begin to hold it.
            if Arc::strong_count(&object.value) == 1 {
                return self.objects.remove(&key).map(|object| (object.value, object.bytes));
            }
            object.handle = self.policy.insert(key, object.bytes);
        }
        None
    }

    /// Strikes off what lingered and has been let go.
    pub(super) fn release_lingering(&mut self) -> Released<V> {
        let let_go = |(value, _): &mut (Arc<V>, u64)| Arc::strong_count(value) == 1;
        let mut released = Released { bytes: 0, _values: Vec::new() };
        for (value, bytes) in self.lingering.extract_if(.., let_go) {
            released.bytes += bytes;
            released._values.push(value);
        }
        released
    }
}

/// Objects in use that a search for a victim passes over before it leaves the shard.
const EVICT_TRIES: usize = 16;
