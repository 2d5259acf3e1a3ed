//! Choice of the victim slot of a size when the mapped file is full: the policies of `shoal_policy`
//! over slots.
//!
//! A policy's state of an object survives an orderly close as a *note*: 27 bits beside the object's
//! place in the index's side word.
//!
//! ```text
//!  26     25     24 … 0
//!  next   LRU    FBC: references · LRU: rank in its size, least recently used first, plus 1
//! ```
//! A note of 0 carries no state, and neither does a note made by the other kind of policy. Notes
//! are hints: a wrong one costs a hit, never a wrong answer.

use shoal_policy::{Fbc, Handle, Lru, Replacement, SegmentClass};

/// Replacement policy of the slots.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SegmentPolicy {
    /// Frequency-based cyclic replacement (Maltzahn 1999, 3.6).
    Fbc {
        /// References from which an object is passed over.
        c_max: u32,
        /// Mean count above which all counts are halved.
        a_max: u32,
    },
    /// FBC with one hand for all sizes, the other reading of "a target pointer"; for experiments.
    FbcOnePointer {
        /// References from which an object is passed over.
        c_max: u32,
        /// Mean count above which all counts are halved.
        a_max: u32,
    },
    /// Least recently used object of the size (3.5).
    Lru,
    /// FBC that picks, among its next few victims, the first with its page in memory (7: "a tighter
    /// synchronization with the operating system's memory management").
    FbcResident {
        /// References from which an object is passed over.
        c_max: u32,
        /// Mean count above which all counts are halved.
        a_max: u32,
    },
    /// LRU that picks, among the few least recently used of the size, the first with its page in
    /// memory.
    LruResident,
}

/// Parameters of Maltzahn 1999, section 4.
impl Default for SegmentPolicy {
    fn default() -> Self {
        Self::Fbc { c_max: 3, a_max: 100 }
    }
}

impl SegmentPolicy {
    /// Limit of slots that a policy preferring pages in memory asks about for one victim.
    pub const RESIDENT_WINDOW: usize = 64;

    pub(super) fn build(self) -> Box<dyn SegmentReplacement> {
        let cyclic = |c_max, a_max, window| Box::new(Cyclic { fbc: Fbc::new(c_max, a_max), window });
        let one_pointer =
            |c_max, a_max| Box::new(Cyclic { fbc: Fbc::with_one_pointer(c_max, a_max), window: None });
        let recency = |window| Box::new(Recency { classes: Default::default(), window });
        match self {
            Self::Fbc { c_max, a_max } => cyclic(c_max, a_max, None),
            Self::FbcResident { c_max, a_max } => cyclic(c_max, a_max, Some(Self::RESIDENT_WINDOW)),
            Self::FbcOnePointer { c_max, a_max } => one_pointer(c_max, a_max),
            Self::Lru => recency(None),
            Self::LruResident => recency(Some(Self::RESIDENT_WINDOW)),
        }
    }
}

/// Policy over the slots of each size, which are numbered in the order in which they were cut.
pub(super) trait SegmentReplacement: Send {
    /// Records a new slot of the size at an offset of the file.
    fn cut(&mut self, _class: SegmentClass, _slot: u32, _offset: u64) {}

    /// Records a new object in the slot.
    fn filled(&mut self, class: SegmentClass, slot: u32);

    /// Records a hit on the object in the slot.
    fn hit(&mut self, class: SegmentClass, slot: u32);

    /// Records that the object in the slot is gone.
    fn emptied(&mut self, class: SegmentClass, slot: u32);

    /// Returns the victim slot, among those for which `may_go` holds. The slot is emptied only if
    /// the caller uses it. `is_resident` tells whether a slot's page is in memory. The policy calls
    /// `is_resident` at most [`SegmentPolicy::RESIDENT_WINDOW`] times.
    fn victim(
        &mut self,
        class: SegmentClass,
        may_go: &mut dyn FnMut(u32) -> bool,
        is_resident: &mut dyn FnMut(u32) -> bool,
    ) -> Option<u32>;

    /// Passes the note of each slot with an object to `keep`.
    fn notes(&self, keep: &mut dyn FnMut(SegmentClass, u32, u32));

    /// Takes up the objects of earlier sessions, with their slots and notes, before any other
    /// object.
    fn restore(&mut self, objects: &[(SegmentClass, u32, u32)]);
}

/// FBC without change.
struct Cyclic {
    fbc: Fbc,
    /// Slots asked about for residency; `None` does not ask.
    window: Option<usize>,
}

impl SegmentReplacement for Cyclic {
    fn cut(&mut self, class: SegmentClass, slot: u32, offset: u64) {
        self.fbc.cut(class, slot, offset);
    }

    fn filled(&mut self, class: SegmentClass, slot: u32) {
        self.fbc.filled(class, slot);
    }

    fn hit(&mut self, class: SegmentClass, slot: u32) {
        self.fbc.hit(class, slot);
    }

    fn emptied(&mut self, class: SegmentClass, slot: u32) {
        self.fbc.emptied(class, slot);
    }

    fn victim(
        &mut self,
        class: SegmentClass,
        may_go: &mut dyn FnMut(u32) -> bool,
        is_resident: &mut dyn FnMut(u32) -> bool,
    ) -> Option<u32> {
        match self.window {
            None => self.fbc.victim(class, may_go),
            Some(window) => self.fbc.victim_resident(class, window, may_go, is_resident),
        }
    }

    fn notes(&self, keep: &mut dyn FnMut(SegmentClass, u32, u32)) {
        for class in SegmentClass::ALL {
            let next = self.fbc.next_slot(class);
            for (slot, count) in self.fbc.counts(class) {
                let is_next = if next == Some(slot) { NEXT } else { 0 };
                keep(class, slot, count.min(VALUE_MAX) | is_next);
            }
        }
    }

    fn restore(&mut self, objects: &[(SegmentClass, u32, u32)]) {
        let mut pointers = self.fbc.pointers();
        for (class, slot, note) in objects {
            let is_ours = note & OF_LRU == 0;
            let count = if is_ours { (note & VALUE_MAX).max(1) } else { 1 };
            self.fbc.restored(*class, *slot, count);
            if is_ours && note & NEXT != 0 {
                pointers[class.index()] = *slot;
            }
        }
        self.fbc.set_pointers(pointers);
    }
}

/// LRU list for each size.
struct Recency {
    classes: [Recent; SegmentClass::ALL.len()],
    /// Slots asked about for residency; `None` does not ask.
    window: Option<usize>,
}

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

    /// Returns the least recently used slot that may go. A slot that may not go is in use, and thus
    /// becomes recent.
    fn victim(&mut self, may_go: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        for _ in 0..VICTIMS_TRIED {
            let slot = self.lru.evict()?.key as u32;
            self.handles[slot as usize] = None;
            self.put(slot);
            if may_go(slot) {
                return Some(slot);
            }
        }
        None
    }

    fn victim_resident(
        &mut self,
        window: usize,
        may_go: &mut dyn FnMut(u32) -> bool,
        is_resident: &mut dyn FnMut(u32) -> bool,
    ) -> Option<u32> {
        let found =
            self.lru.victim_resident(window, |slot| may_go(slot as u32), |slot| is_resident(slot as u32))?;
        let slot = self.lru.key(found)? as u32;
        // If the slot turns out to be in use, the next search finds another.
        self.lru.hit(found);
        Some(slot)
    }
}

impl SegmentReplacement for Recency {
    fn filled(&mut self, class: SegmentClass, slot: u32) {
        self.classes[class.index()].put(slot);
    }

    fn hit(&mut self, class: SegmentClass, slot: u32) {
        let recent = &mut self.classes[class.index()];
        if let Some(handle) = recent.handle(slot) {
            recent.lru.hit(handle);
        }
    }

    fn emptied(&mut self, class: SegmentClass, slot: u32) {
        let recent = &mut self.classes[class.index()];
        if let Some(handle) = recent.handles.get_mut(slot as usize).and_then(Option::take) {
            recent.lru.remove(handle);
        }
    }

    fn victim(
        &mut self,
        class: SegmentClass,
        may_go: &mut dyn FnMut(u32) -> bool,
        is_resident: &mut dyn FnMut(u32) -> bool,
    ) -> Option<u32> {
        let recent = &mut self.classes[class.index()];
        match self.window {
            None => recent.victim(may_go),
            Some(window) => recent.victim_resident(window, may_go, is_resident),
        }
    }

    fn notes(&self, keep: &mut dyn FnMut(SegmentClass, u32, u32)) {
        for (class, recent) in SegmentClass::ALL.into_iter().zip(&self.classes) {
            let count = recent.lru.len() as u64;
            // With more objects than values, neighbours share a value.
            let rank = |age: u64| if count < u64::from(VALUE_MAX) { age } else { age * RANKS / count };
            for (age, (_, slot)) in (0..).zip(recent.lru.oldest_first()) {
                keep(class, slot as u32, OF_LRU | (rank(age) as u32 + 1));
            }
        }
    }

    /// Objects without a note come first: no orderly close has recorded a rank for them.
    fn restore(&mut self, objects: &[(SegmentClass, u32, u32)]) {
        let rank = |note: u32| if note & OF_LRU != 0 { note & VALUE_MAX } else { 0 };
        let mut by_age: Vec<_> =
            objects.iter().map(|(class, slot, note)| (rank(*note), *class, *slot)).collect();
        by_age.sort_by_key(|(rank, ..)| *rank);
        for (_, class, slot) in by_age {
            self.classes[class.index()].put(slot);
        }
    }
}

/// Limit of slots in use that are passed over before the search is given up.
const VICTIMS_TRIED: usize = 16;
/// Mask of the value in a note.
const VALUE_MAX: u32 = (1 << 25) - 1;
const RANKS: u64 = VALUE_MAX as u64;
/// Flag: the note is LRU's.
const OF_LRU: u32 = 1 << 25;
/// Flag: FBC's hand points at this slot.
const NEXT: u32 = 1 << 26;

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: SegmentClass = SegmentClass::ALL[1];

    /// Returns a policy with objects in slots 0 to 9 and hits on some of them.
    fn used(policy: SegmentPolicy) -> Box<dyn SegmentReplacement> {
        let mut policy = policy.build();
        (0..10).for_each(|slot| policy.filled(CLASS, slot));
        for slot in [4, 4, 4, 0, 7, 7] {
            policy.hit(CLASS, slot);
        }
        let victim = policy.victim(CLASS, &mut |_| true, &mut |_| false).expect("there are ten");
        policy.emptied(CLASS, victim);
        policy.filled(CLASS, victim);
        policy
    }

    fn notes(policy: &dyn SegmentReplacement) -> Vec<(SegmentClass, u32, u32)> {
        let mut notes = Vec::new();
        policy.notes(&mut |class, slot, note| notes.push((class, slot, note)));
        notes
    }

    /// Returns the next ten victims; each is emptied before the next search.
    fn victims(policy: &mut dyn SegmentReplacement) -> Vec<u32> {
        let mut next = || {
            let slot = policy.victim(CLASS, &mut |_| true, &mut |_| false)?;
            policy.emptied(CLASS, slot);
            Some(slot)
        };
        (0..10).map_while(|_| next()).collect()
    }

    #[test]
    fn eviction_order_survives_notes() {
        let expected = [
            // 0 returned as the newest with the hand behind it; 7 and 4 have at least three
            // references
            (SegmentPolicy::default(), [1, 2, 3, 5, 6, 8, 9, 0, 7, 4]),
            (SegmentPolicy::Lru, [2, 3, 5, 6, 8, 9, 4, 0, 7, 1]),
        ];
        for (policy, order) in expected {
            let mut first = used(policy);
            let mut kept = notes(&*first);
            assert_eq!(kept.len(), 10);
            kept.reverse();
            let mut second = policy.build();
            second.restore(&kept);
            assert_eq!(victims(&mut *first), order, "{policy:?}");
            assert_eq!(victims(&mut *second), order, "{policy:?} after its notes");
        }
    }

    #[test]
    fn notes_of_another_policy_say_nothing() {
        let (fbc, lru) = (SegmentPolicy::default(), SegmentPolicy::Lru);
        for (from, to) in [(fbc, lru), (lru, fbc)] {
            let mut taken_up = to.build();
            taken_up.restore(&notes(&*used(from)));
            let mut anew = to.build();
            let unknown: Vec<_> =
                notes(&*used(from)).iter().map(|(class, slot, _)| (*class, *slot, 0)).collect();
            anew.restore(&unknown);
            assert_eq!(victims(&mut *taken_up), victims(&mut *anew), "{from:?} to {to:?}");
        }
    }

    #[test]
    fn slot_with_resident_page_is_evicted_first() {
        for policy in [SegmentPolicy::FbcResident { c_max: 3, a_max: 100 }, SegmentPolicy::LruResident] {
            let mut policy = policy.build();
            (0..10).for_each(|slot| policy.filled(CLASS, slot));
            let mut asked = 0;
            let victim = policy.victim(CLASS, &mut |slot| slot != 3, &mut |slot| {
                asked += 1;
                slot >= 3
            });
            assert_eq!((victim, asked), (Some(4), 4));
            assert_eq!(policy.victim(CLASS, &mut |_| false, &mut |_| true), None);
        }
    }
}
