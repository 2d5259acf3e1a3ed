//! One proxy's content: all objects, or a limited room with LRU replacement.

use shoal_policy::{Handle, Lru, Replacement};
use std::collections::HashMap;

/// Objects with the versions in which they are held.
pub(super) struct ProxyCache {
    held: HashMap<u32, CachedVersion>,
    order: Option<Lru<u64>>,
    room: u64,
    bytes: u64,
}

#[derive(Clone, Copy)]
struct CachedVersion {
    version: u32,
    bytes: u64,
    /// Handle in the order of use, when there is one.
    handle: Option<Handle>,
}

/// State of an object in a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// The cache holds this version.
    Valid,
    /// The cache holds an older version.
    Old,
    /// The cache does not hold the object.
    Absent,
}

impl ProxyCache {
    /// Creates an empty cache of `room` bytes, or without a limit.
    pub fn new(room: Option<u64>) -> Self {
        Self {
            held: HashMap::new(),
            order: room.map(|_| Lru::default()),
            room: room.unwrap_or(u64::MAX),
            bytes: 0,
        }
    }

    /// Looks for a version, which counts as a use when the cache holds it.
    pub fn look(&mut self, object: u32, version: u32) -> Look {
        let look = self.peek(object, version);
        if let (Look::Valid, Some(order), Some(held)) = (look, &mut self.order, self.held.get(&object))
            && let Some(handle) = held.handle
        {
            order.hit(handle);
        }
        look
    }

    /// Looks for a version without a use.
    pub fn peek(&self, object: u32, version: u32) -> Look {
        match self.held.get(&object) {
            Some(held) if held.version == version => Look::Valid,
            Some(_) => Look::Old,
            None => Look::Absent,
        }
    }

    /// Takes in a version in place of any other. `gone` is called for each victim, and for the
    /// object itself when it was held. Returns `false` when the version does not fit.
    pub fn keep(&mut self, object: u32, version: u32, bytes: u64, gone: &mut dyn FnMut(u32)) -> bool {
        if self.drop_object(object) {
            gone(object);
        }
        if bytes > self.room {
            return false;
        }
        let mut handle = None;
        if let Some(order) = &mut self.order {
            while self.bytes + bytes > self.room {
                let Some(victim) = order.evict() else { break };
                let object = victim.key as u32;
                let held = self.held.remove(&object).expect("the order has what is held");
                self.bytes -= held.bytes;
                gone(object);
            }
            handle = Some(order.insert(u64::from(object), bytes));
        }
        self.bytes += bytes;
        let before = self.held.insert(object, CachedVersion { version, bytes, handle });
        debug_assert!(before.is_none(), "the old version of object {object} was dropped");
        debug_assert!(self.bytes <= self.room, "{} bytes in a room of {}", self.bytes, self.room);
        true
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        *self = Self::new(self.order.is_some().then_some(self.room));
    }

    /// Returns the bytes of all held objects.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn drop_object(&mut self, object: u32) -> bool {
        let Some(held) = self.held.remove(&object) else { return false };
        self.bytes -= held.bytes;
        if let (Some(order), Some(handle)) = (&mut self.order, held.handle) {
            order.remove(handle);
        }
        true
    }
}
