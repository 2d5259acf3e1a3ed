//! One proxy's content: everything it was given, or what fits, the least recently used given up.

use shoal_policy::{Handle, Lru, Replacement};
use std::collections::HashMap;

/// Objects with the versions in which they are held.
pub(super) struct Cache {
    held: HashMap<u32, Held>,
    order: Option<Lru<u64>>,
    room: u64,
    bytes: u64,
}

#[derive(Clone, Copy)]
struct Held {
    version: u32,
    bytes: u64,
    /// Where it stands in the order, when there is one.
    handle: Option<Handle>,
}

/// What a cache says of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// It holds this version.
    Valid,
    /// It holds an older one.
    Old,
    /// It holds none.
    Absent,
}

impl Cache {
    /// An empty cache of so many bytes, or without end.
    pub fn new(room: Option<u64>) -> Self {
        Self {
            held: HashMap::new(),
            order: room.map(|_| Lru::default()),
            room: room.unwrap_or(u64::MAX),
            bytes: 0,
        }
    }

    /// Looks for a version, which counts as a use when it is there.
    pub fn look(&mut self, object: u32, version: u32) -> Look {
        let look = self.peek(object, version);
        if let (Look::Valid, Some(order), Some(held)) = (look, &mut self.order, self.held.get(&object))
            && let Some(handle) = held.handle
        {
            order.hit(handle);
        }
        look
    }

    /// The same without a use.
    pub fn peek(&self, object: u32, version: u32) -> Look {
        match self.held.get(&object) {
            Some(held) if held.version == version => Look::Valid,
            Some(_) => Look::Old,
            None => Look::Absent,
        }
    }

    /// Takes in a version in place of any other; what is given up for it is told to `gone`, and so
    /// is the object itself when it was held. False when it does not fit.
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
                self.bytes -= self.held.remove(&object).map_or(0, |held| held.bytes);
                gone(object);
            }
            handle = Some(order.insert(u64::from(object), bytes));
        }
        self.bytes += bytes;
        self.held.insert(object, Held { version, bytes, handle });
        true
    }

    /// Loses everything.
    pub fn clear(&mut self) {
        *self = Self::new(self.order.is_some().then_some(self.room));
    }

    /// Bytes that are held.
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
