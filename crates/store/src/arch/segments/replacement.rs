//! Which slot of a size is given up when the mapped file is full: the policies of `shoal_policy` over slots.

use shoal_policy::{Fbc, Handle, Lru, Replacement, SegmentClass};

/// Who gives up its slot.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SegmentPolicy {
    /// Frequency-based cyclic replacement (Maltzahn 1999, 3.6).
    Fbc {
        /// An object with at least so many references is passed over.
        c_max: u32,
        /// Counts are halved when their mean exceeds this.
        a_max: u32,
    },
    /// The least recently used of the size (3.5).
    Lru,
}

/// The parameters of Maltzahn 1999, section 4.
impl Default for SegmentPolicy {
    fn default() -> Self {
        Self::Fbc { c_max: 3, a_max: 100 }
    }
}

impl SegmentPolicy {
    pub(super) fn build(self) -> Box<dyn SegmentReplacement> {
        match self {
            Self::Fbc { c_max, a_max } => Box::new(Cyclic(Fbc::new(c_max, a_max))),
            Self::Lru => Box::new(Recency::default()),
        }
    }
}

/// A policy over the slots of each size, which are numbered in the order in which they were cut.
pub(super) trait SegmentReplacement: Send {
    /// A new object is in the slot.
    fn filled(&mut self, class: SegmentClass, slot: u32);

    /// The object in the slot was asked for.
    fn hit(&mut self, class: SegmentClass, slot: u32);

    /// The object in the slot is gone.
    fn emptied(&mut self, class: SegmentClass, slot: u32);

    /// The slot to be given up, of those that `may_go`. It is emptied only if it is used.
    fn victim(&mut self, class: SegmentClass, may_go: &mut dyn FnMut(u32) -> bool) -> Option<u32>;
}

/// FBC, as it is.
struct Cyclic(Fbc);

impl SegmentReplacement for Cyclic {
    fn filled(&mut self, class: SegmentClass, slot: u32) {
        self.0.filled(class, slot);
    }

    fn hit(&mut self, class: SegmentClass, slot: u32) {
        self.0.hit(class, slot);
    }

    fn emptied(&mut self, class: SegmentClass, slot: u32) {
        self.0.emptied(class, slot);
    }

    fn victim(&mut self, class: SegmentClass, may_go: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        self.0.victim(class, may_go)
    }
}

/// An LRU list for each size.
#[derive(Default)]
struct Recency([Recent; SegmentClass::ALL.len()]);

struct Recent {
    lru: Lru<u64>,
    handles: Vec<Option<Handle>>,
}

impl Default for Recent {
    fn default() -> Self {
        Self { lru: Lru::new(), handles: Vec::new() }
    }
}

impl Recent {
    fn put(&mut self, slot: u32) {
        let handle = self.lru.insert(u64::from(slot), 1);
        let at = slot as usize;
        if self.handles.len() <= at {
            self.handles.resize(at + 1, None);
        }
        if let Some(before) = self.handles[at].replace(handle) {
            self.lru.remove(before);
        }
    }

    fn handle(&self, slot: u32) -> Option<Handle> {
        self.handles.get(slot as usize).copied().flatten()
    }
}

impl SegmentReplacement for Recency {
    fn filled(&mut self, class: SegmentClass, slot: u32) {
        self.0[class.index()].put(slot);
    }

    fn hit(&mut self, class: SegmentClass, slot: u32) {
        let recent = &mut self.0[class.index()];
        if let Some(handle) = recent.handle(slot) {
            recent.lru.hit(handle);
        }
    }

    fn emptied(&mut self, class: SegmentClass, slot: u32) {
        let recent = &mut self.0[class.index()];
        if let Some(handle) = recent.handles.get_mut(slot as usize).and_then(Option::take) {
            recent.lru.remove(handle);
        }
    }

    /// What may not go now is in use, and thus recent.
    fn victim(&mut self, class: SegmentClass, may_go: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let recent = &mut self.0[class.index()];
        for _ in 0..VICTIMS_TRIED {
            let slot = recent.lru.evict()?.key as u32;
            recent.handles[slot as usize] = None;
            recent.put(slot);
            if may_go(slot) {
                return Some(slot);
            }
        }
        None
    }
}

/// Slots in use that are passed over before the search is given up.
const VICTIMS_TRIED: usize = 16;
