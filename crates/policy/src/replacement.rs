//! What a replacement policy promises: to name what should be given up next.
//!
//! The caller keeps the objects and finds them by key; the policy keeps their order. They meet in the
//! [`Handle`], so that a hit costs the caller one hash lookup and the policy none.

use shoal_core::Key;

/// An order among objects that may be given up.
///
/// A handle is valid from the `insert` that returned it until `remove` or the `evict` that named it; afterwards
/// it may be handed out again. Calls with other handles are ignored.
pub trait Replacement: Send {
    /// The policy's name, as published.
    fn name(&self) -> &'static str;

    /// Takes in an object of so much weight (bytes, or 1 to count objects). Each key is in at most once.
    fn insert(&mut self, key: Key, weight: u64) -> Handle;

    /// The object was asked for.
    fn hit(&mut self, handle: Handle);

    /// The object is gone for a reason that says nothing about its worth.
    fn remove(&mut self, handle: Handle);

    /// Gives up the object that is worth least. `None` when there is none.
    fn evict(&mut self) -> Option<Victim>;

    /// Weight of all objects that are in.
    fn weight(&self) -> u64;

    /// Number of objects that are in.
    fn len(&self) -> usize;

    /// Whether no object is in.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A policy's handle of one object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handle(pub(crate) u32);

/// An object that has been given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Victim {
    /// Its key.
    pub key: Key,
    /// The weight it was inserted with.
    pub weight: u64,
}
