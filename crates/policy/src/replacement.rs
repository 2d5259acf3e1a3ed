//! Contract of a replacement policy: it names the object to evict next.
//!
//! The caller keeps the objects and finds them by key; the policy keeps their order. Both use the
//! [`Handle`], so that a hit costs the caller one hash lookup and the policy none. A handle is a
//! small number, so that a caller may keep its own data about an object in an array beside the
//! policy's.
//!
//! Policies are generic in the name of an object ([`Fingerprint`]): the cache's [`Key`], or the
//! plain numbers of a simulated trace. They use only the name's fingerprint, and only for data that
//! outlives the object: ghosts and sketches.

use shoal_core::Key;

/// Order among objects that may be evicted.
///
/// A handle is valid from the `insert` that returned it until `remove`, or until the `evict` that
/// named it; afterwards it may be reused. Calls with other handles are ignored.
///
/// The caller makes room before it inserts: `evict` until the newcomer fits, then `insert`. A
/// policy need not know the capacity; one that divides the room by shares divides the present
/// weight, unless it is told.
pub trait Replacement<K = Key>: Send {
    /// Returns the policy's name, as published.
    fn name(&self) -> &'static str;

    /// Tells the most weight that the objects may have together. A caller that knows it calls this
    /// before the first insert. Only policies use it for which it matters how an empty cache fills.
    fn set_capacity(&mut self, _weight: u64) {}

    /// Inserts an object of this weight: bytes, or 1 to count objects. A weight above
    /// [`WEIGHT_MAX`] counts as [`WEIGHT_MAX`]. Each key is present at most once.
    fn insert(&mut self, key: K, weight: u64) -> Handle;

    /// Records a request for the object.
    fn hit(&mut self, handle: Handle);

    /// Records a request for an object that is not present and not inserted. Only policies that
    /// count requests use it.
    fn declined(&mut self, _key: K) {}

    /// Removes an object for a reason that says nothing about its worth.
    fn remove(&mut self, handle: Handle);

    /// Evicts the object of least worth. `None` when there is none.
    fn evict(&mut self) -> Option<Victim<K>>;

    /// Returns the key of a present object.
    fn key(&self, handle: Handle) -> Option<K>;

    /// Returns the weight of all present objects.
    fn weight(&self) -> u64;

    /// Returns the number of present objects.
    fn len(&self) -> usize;

    /// Returns `true` if no object is present.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of memory that the policy has taken from the allocator: keys, links,
    /// ghosts and sketches, with the slack after growth.
    fn memory_bytes(&self) -> usize;
}

/// Name of an object.
pub trait Fingerprint: Copy + Eq + Send + 'static {
    /// Returns 64 uniform bits; the same for the same object, and rarely the same for two.
    fn fingerprint(self) -> u64;
}

impl Fingerprint for Key {
    fn fingerprint(self) -> u64 {
        self.high()
    }
}

/// Number in a trace. The fingerprint is a bijection (the finalizer of splitmix64), so no two
/// numbers share one.
impl Fingerprint for u64 {
    fn fingerprint(self) -> u64 {
        let z = (self ^ (self >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Handle that a policy gives to one object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handle(pub(crate) u32);

impl Handle {
    /// Returns the handle as a number, which is below the largest number of objects ever present at
    /// once.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Returns the handle of a [`number`](Handle::number).
    pub fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// Object that has been evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Victim<K = Key> {
    /// Key of the object.
    pub key: K,
    /// Weight with which it was inserted.
    pub weight: u64,
    /// Handle that it had, free from now on.
    pub handle: Handle,
}

/// Largest weight of one object: 256 TiB less a byte.
pub const WEIGHT_MAX: u64 = (1 << 48) - 1;

impl<K> Replacement<K> for Box<dyn Replacement<K>> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn set_capacity(&mut self, weight: u64) {
        (**self).set_capacity(weight);
    }

    fn insert(&mut self, key: K, weight: u64) -> Handle {
        (**self).insert(key, weight)
    }

    fn hit(&mut self, handle: Handle) {
        (**self).hit(handle);
    }

    fn declined(&mut self, key: K) {
        (**self).declined(key);
    }

    fn remove(&mut self, handle: Handle) {
        (**self).remove(handle);
    }

    fn evict(&mut self) -> Option<Victim<K>> {
        (**self).evict()
    }

    fn key(&self, handle: Handle) -> Option<K> {
        (**self).key(handle)
    }

    fn weight(&self) -> u64 {
        (**self).weight()
    }

    fn len(&self) -> usize {
        (**self).len()
    }

    fn memory_bytes(&self) -> usize {
        (**self).memory_bytes()
    }
}
