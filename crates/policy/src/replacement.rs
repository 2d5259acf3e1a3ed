//! What a replacement policy promises: to name what should be given up next.
//!
//! The caller keeps the objects and finds them by key; the policy keeps their order. They meet in
//! the [`Handle`], so that a hit costs the caller one hash lookup and the policy none. A handle is
//! a small number, so that a caller may keep what it knows of an object in an array beside the
//! policy's own.
//!
//! Policies are generic in what names an object ([`Fingerprint`]): the cache's [`Key`], or the
//! plain numbers of a simulated trace. They never look at more of it than a fingerprint, and that
//! only for what has to outlive the object: ghosts and sketches.

use shoal_core::Key;

/// An order among objects that may be given up.
///
/// A handle is valid from the `insert` that returned it until `remove` or the `evict` that named
/// it; afterwards it may be handed out again. Calls with other handles are ignored.
///
/// The caller makes room before it fills it: `evict` until the newcomer fits, then `insert`. No
/// capacity is told; a policy that divides the room by shares divides the weight that is in.
pub trait Replacement<K = Key>: Send {
    /// The policy's name, as published.
    fn name(&self) -> &'static str;

    /// Takes in an object of so much weight (bytes, or 1 to count objects; more than [`WEIGHT_MAX`]
    /// counts as that). Each key is in at most once.
    fn insert(&mut self, key: K, weight: u64) -> Handle;

    /// The object was asked for.
    fn hit(&mut self, handle: Handle);

    /// An object was asked for that is not in and is not taken in. Only what counts requests cares.
    fn declined(&mut self, _key: K) {}

    /// The object is gone for a reason that says nothing about its worth.
    fn remove(&mut self, handle: Handle);

    /// Gives up the object that is worth least. `None` when there is none.
    fn evict(&mut self) -> Option<Victim<K>>;

    /// The key of an object that is in.
    fn key(&self, handle: Handle) -> Option<K>;

    /// Weight of all objects that are in.
    fn weight(&self) -> u64;

    /// Number of objects that are in.
    fn len(&self) -> usize;

    /// Whether no object is in.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that the policy has taken from the allocator: keys, links, ghosts and
    /// sketches, with the slack of what has just grown.
    fn memory_bytes(&self) -> usize;
}

/// What tells objects apart.
pub trait Fingerprint: Copy + Eq + Send + 'static {
    /// 64 uniform bits; the same for the same object, and rarely for two.
    fn fingerprint(self) -> u64;
}

impl Fingerprint for Key {
    fn fingerprint(self) -> u64 {
        self.high()
    }
}

/// A number in a trace. The fingerprint is a bijection (the finalizer of splitmix64), so no two
/// numbers share one.
impl Fingerprint for u64 {
    fn fingerprint(self) -> u64 {
        let z = (self ^ (self >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A policy's handle of one object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handle(pub(crate) u32);

impl Handle {
    /// The handle as a number: below the most objects that were ever in at once.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The handle of a [`number`](Handle::number).
    pub fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// An object that has been given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Victim<K = Key> {
    /// Its key.
    pub key: K,
    /// The weight it was inserted with.
    pub weight: u64,
    /// The handle it had, free from now on.
    pub handle: Handle,
}

/// The most that one object can weigh: 256 TiB less a byte.
pub const WEIGHT_MAX: u64 = (1 << 48) - 1;

impl<K> Replacement<K> for Box<dyn Replacement<K>> {
    fn name(&self) -> &'static str {
        (**self).name()
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
