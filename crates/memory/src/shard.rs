//! One shard of the RAM tier: a map, its replacement policy, and lingering values.

use super::{MemoryBody, TierValue};
use crate::sys::span::Span;
use shoal_core::Key;
use shoal_policy::{Handle, Replacement};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Objects with keys that fall into one shard.
pub(super) struct Shard<V> {
    objects: HashMap<Key, Object<V>, BuildHasherDefault<KeyHasher>>,
    policy: Box<dyn Replacement>,
    /// Values removed or replaced while a caller held them, and their charged bytes.
    lingering: Vec<(Arc<V>, u64)>,
}

/// Hasher that takes half of a key as the hash. A key is a keyed hash already, and the other half
/// chooses the shard.
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

/// One object with its charged bytes.
struct Object<V> {
    value: Arc<V>,
    bytes: u64,
    handle: Handle,
}

/// Values without holders, to be dropped outside the lock, and the bytes they were charged.
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

    /// Returns all values, in no order.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.objects.values().map(|object| &*object.value)
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

    /// Returns the object's charged bytes, if `wanted` accepts the object.
    pub(super) fn charged(&self, key: Key, wanted: impl Fn(&V) -> bool) -> Option<u64> {
        self.objects.get(&key).filter(|object| wanted(&object.value)).map(|object| object.bytes)
    }

    /// Replaces the object with `value`, charged `after`, if `wanted` accepts the object and it is
    /// charged `before`. Returns the former value.
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

    /// Replaces the object with `value` if `wanted` accepts the object. The former value stays
    /// charged until `release_lingering` finds it without holders.
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

    /// Returns the object's body, if it is in `span` and no caller holds it.
    pub(super) fn movable(&mut self, key: Key, span: &Arc<Span>) -> Option<MemoryBody> {
        let value = Arc::get_mut(&mut self.objects.get_mut(&key)?.value)?;
        value.body().filter(|body| body.is_in(span) && !body.is_shared()).cloned()
    }

    /// Replaces the object's body with `copy`, if the body is still `body` and only the caller and
    /// the object hold it.
    pub(super) fn move_body(&mut self, key: Key, body: &MemoryBody, copy: MemoryBody) -> bool {
        let object = self.objects.get_mut(&key);
        let Some(value) = object.and_then(|object| Arc::get_mut(&mut object.value)) else { return false };
        let Some(place) = value.body_mut().filter(|place| place.is_same(body) && body.holders() == 2) else {
            return false;
        };
        *place = copy;
        true
    }

    /// Removes the object from the map. Its bytes stay charged until `release_lingering` finds it
    /// without holders.
    pub(super) fn remove(&mut self, key: Key) -> bool {
        let Some(object) = self.objects.remove(&key) else { return false };
        debug_assert_eq!(self.policy.key(object.handle), Some(key));
        self.policy.remove(object.handle);
        self.check_counts();
        self.lingering.push((object.value, object.bytes));
        true
    }

    /// Evicts the object worth least that no caller holds. Returns `None` if a few tries find none.
    pub(super) fn evict(&mut self) -> Option<(Arc<V>, u64)> {
        for _ in 0..EVICT_TRIES {
            let victim = self.policy.evict()?;
            let key = victim.key;
            debug_assert!(self.objects.contains_key(&key), "a victim that was not there");
            let object = self.objects.get_mut(&key)?;
            debug_assert_eq!(self.policy.key(object.handle), None, "a victim that stays");
            // Under this lock no caller can begin to hold the object.
            if is_let_go(&mut object.value) {
                let evicted = self.objects.remove(&key).map(|object| (object.value, object.bytes));
                self.check_counts();
                return evicted;
            }
            object.handle = self.policy.insert(key, object.bytes);
        }
        None
    }

    /// Uncharges lingering values that have no holders any more.
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

/// Returns `true` if no other caller holds the value or a part of it. The value is checked before
/// the body, since a caller takes the body from a value that it holds.
fn is_let_go<V: TierValue>(value: &mut Arc<V>) -> bool {
    Arc::get_mut(value).is_some_and(|value| !value.body().is_some_and(MemoryBody::is_shared))
}

/// Objects in use that a search for a victim passes over before it leaves the shard.
const EVICT_TRIES: usize = 16;

/// Objects of a shard of which a debug build checks each after each change.
const CHECKED_WHOLE: usize = 32;

const _: () = assert!(EVICT_TRIES > 0);
