//! One shard of the RAM tier: a map, its replacement policy, and what lingers.

use super::{MemoryBody, TierValue};
use crate::sys::span::Span;
use shoal_core::Key;
use shoal_policy::{Handle, Replacement};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Objects whose keys fall into one shard.
pub(super) struct Shard<V> {
    objects: HashMap<Key, Object<V>, BuildHasherDefault<KeyHasher>>,
    policy: Box<dyn Replacement>,
    /// Removed or replaced while someone held them.
    lingering: Vec<(Arc<V>, u64)>,
}

/// Takes half of a key as its hash: a key is a keyed hash already, and shards are chosen by the
/// other half.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write_u128(&mut self, key: u128) {
        self.0 = (key >> 64) as u64;
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a key is hashed as one number");
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// One object with what it is charged.
struct Object<V> {
    value: Arc<V>,
    bytes: u64,
    handle: Handle,
}

/// Values that nobody holds any more, to be dropped outside the lock, and the bytes they were
/// charged.
pub(super) struct ReleasedValues<V> {
    pub(super) bytes: u64,
    _values: Vec<Arc<V>>,
}

impl<V> Shard<V> {
    /// Bytes charged for all objects and for those that linger.
    pub(super) fn charged_bytes(&self) -> u64 {
        let objects = self.objects.values().map(|object| object.bytes);
        objects.chain(self.lingering.iter().map(|(_, bytes)| *bytes)).sum()
    }

    /// Checks that map and policy hold the same keys.
    pub(super) fn invariants(&self) {
        assert_eq!(self.policy.len(), self.objects.len(), "objects that the policy does not know");
        for (key, object) in &self.objects {
            assert_eq!(self.policy.key(object.handle), Some(*key), "a handle of another object");
        }
    }

    /// Checks as much of this as takes no time, in debug builds.
    fn check_counts(&self) {
        debug_assert_eq!(self.policy.len(), self.objects.len());
        if cfg!(debug_assertions) && self.objects.len() < CHECKED_WHOLE {
            self.invariants();
        }
    }
}

impl<V: TierValue> Shard<V> {
    pub(super) fn new(policy: Box<dyn Replacement>) -> Self {
        Self { objects: HashMap::default(), policy, lingering: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    #[inline]
    pub(super) fn hit(&mut self, key: Key) -> Option<Arc<V>> {
        let object = self.objects.get(&key)?;
        debug_assert_eq!(self.policy.key(object.handle), Some(key));
        self.policy.hit(object.handle);
        Some(Arc::clone(&object.value))
    }

    pub(super) fn peek(&self, key: Key) -> Option<Arc<V>> {
        self.objects.get(&key).map(|object| Arc::clone(&object.value))
    }

    pub(super) fn insert(&mut self, key: Key, value: Arc<V>, bytes: u64) {
        self.remove(key);
        let handle = self.policy.insert(key, bytes);
        let before = self.objects.insert(key, Object { value, bytes, handle });
        assert!(before.is_none(), "an object that was overwritten");
        self.check_counts();
    }

    /// What the object is charged, if `wanted` accepts it.
    pub(super) fn charged(&self, key: Key, wanted: impl Fn(&V) -> bool) -> Option<u64> {
        self.objects.get(&key).filter(|object| wanted(&object.value)).map(|object| object.bytes)
    }

    /// Puts `value`, charged `after`, in the place of what `wanted` accepts and is charged
    /// `before`. Returns what was there.
    pub(super) fn replace_if(
        &mut self,
        key: Key,
        value: Arc<V>,
        (before, after): (u64, u64),
        wanted: impl Fn(&V) -> bool,
    ) -> Option<Arc<V>> {
        let object = self.objects.get_mut(&key)?;
        if object.bytes != before || !wanted(&object.value) {
            return None;
        }
        debug_assert_ne!(after, 0, "each object costs bytes");
        object.bytes = after;
        Some(std::mem::replace(&mut object.value, value))
    }

    /// Puts `value` in the place of what `wanted` accepts, which stays charged until
    /// `release_lingering` finds it let go.
    pub(super) fn exchange_if(
        &mut self,
        key: Key,
        value: Arc<V>,
        bytes: u64,
        wanted: impl Fn(&V) -> bool,
    ) -> bool {
        let object = self.objects.get_mut(&key).filter(|object| wanted(&object.value));
        let Some(object) = object else { return false };
        let before = std::mem::replace(&mut object.value, value);
        self.lingering.push((before, std::mem::replace(&mut object.bytes, bytes)));
        true
    }

    /// The object's body, if it stands in `span` and nobody holds it.
    pub(super) fn movable(&mut self, key: Key, span: &Arc<Span>) -> Option<MemoryBody> {
        let value = Arc::get_mut(&mut self.objects.get_mut(&key)?.value)?;
        value.body().filter(|body| body.is_in(span) && !body.is_shared()).cloned()
    }

    /// Puts `copy` in the place of the object's body, if that is still `body`, which the caller
    /// alone holds beside the object.
    pub(super) fn move_body(&mut self, key: Key, body: &MemoryBody, copy: MemoryBody) -> bool {
        let object = self.objects.get_mut(&key);
        let Some(value) = object.and_then(|object| Arc::get_mut(&mut object.value)) else { return false };
        let Some(place) = value.body_mut().filter(|place| place.is_same(body) && body.holders() == 2) else {
            return false;
        };
        *place = copy;
        true
    }

    /// Takes the object out of sight. Its bytes stay charged until `release_lingering` finds it let
    /// go.
    pub(super) fn remove(&mut self, key: Key) -> bool {
        let Some(object) = self.objects.remove(&key) else { return false };
        debug_assert_eq!(self.policy.key(object.handle), Some(key));
        self.policy.remove(object.handle);
        self.check_counts();
        self.lingering.push((object.value, object.bytes));
        true
    }

    /// Gives up the object worth least that nobody holds. `None` when a few tries find none.
    pub(super) fn evict(&mut self) -> Option<(Arc<V>, u64)> {
        for _ in 0..EVICT_TRIES {
            let victim = self.policy.evict()?;
            let key = victim.key;
            debug_assert!(self.objects.contains_key(&key), "a victim that was not there");
            let object = self.objects.get_mut(&key)?;
            debug_assert_eq!(self.policy.key(object.handle), None, "a victim that stays");
            // Under this lock nobody can begin to hold it.
            if is_let_go(&mut object.value) {
                let evicted = self.objects.remove(&key).map(|object| (object.value, object.bytes));
                self.check_counts();
                return evicted;
            }
            object.handle = self.policy.insert(key, object.bytes);
        }
        None
    }

    /// Strikes off what lingered and has been let go.
    pub(super) fn release_lingering(&mut self) -> ReleasedValues<V> {
        let let_go = |(value, _): &mut (Arc<V>, u64)| is_let_go(value);
        let mut released = ReleasedValues { bytes: 0, _values: Vec::new() };
        for (value, bytes) in self.lingering.extract_if(.., let_go) {
            debug_assert_eq!(Arc::strong_count(&value), 1);
            released.bytes += bytes;
            released._values.push(value);
        }
        released
    }
}

/// Whether nobody else holds the value or a part of it. Asked in this order: a part is taken from a
/// whole that is held.
fn is_let_go<V: TierValue>(value: &mut Arc<V>) -> bool {
    Arc::get_mut(value).is_some_and(|value| !value.body().is_some_and(MemoryBody::is_shared))
}

/// Objects in use that a search for a victim passes over before it leaves the shard.
const EVICT_TRIES: usize = 16;

/// Objects of a shard of which a debug build checks each after each change.
const CHECKED_WHOLE: usize = 32;

const _: () = assert!(EVICT_TRIES > 0);
