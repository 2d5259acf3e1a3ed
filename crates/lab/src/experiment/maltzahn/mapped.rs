//! The memory-mapped file of small objects, driven as the paper's generators did it (2.4.2 to 2.4.4, 3).
//!
//! Objects are padded to one of five segment sizes and laid down in the order of their first misses, across pages or packed into
//! them. When the file is full, an object takes the place of another of its size, which the [`SlotPolicy`] names. Where objects
//! lie is known in memory; the file is reached through the door's mapping, so that its pages are the machine's.
//!
//! A hit costs O(1) with FBC and O(log slots) with LRU; FBC's victim costs what the hand passes over.

use super::packing::Packer;
use super::paper::PAGE_BYTES;
use crate::experiment::Error;
use shoal_store::door::Mapping;
use std::collections::BTreeMap;

/// A mapped file and what lies in it.
pub struct MappedFile {
    mapping: Box<dyn Mapping>,
    file_bytes: u64,
    packing: Packing,
    policy: SlotPolicy,
    /// By object: the rank of its size and its slot among those.
    places: Vec<Option<(usize, usize)>>,
    ranks: [Slots; RANKS],
    /// References of all objects together, as FBC counts them.
    references: u64,
    objects: u64,
    now: u64,
}

/// How objects follow each other.
pub enum Packing {
    /// One after the other; the next begins here.
    Contiguous(u64),
    /// None across a page (the paper's Figure 3).
    Aligned(Packer),
}

/// Who makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotPolicy {
    /// The least recently used of the size (3.5).
    Lru,
    /// Frequency-based cyclic replacement (3.6).
    Fbc {
        /// An object with so many references is passed over.
        c_max: u32,
        /// Counts are halved when their mean exceeds this.
        a_max: u32,
    },
    /// Of the [`LOOKED_AT`] least recently used, the first whose page is in memory; the least recently used when none is.
    LruResident,
    /// FBC, with the first victim within [`LOOKED_AT`] slots of the hand whose page is in memory.
    FbcResident {
        /// As for FBC.
        c_max: u32,
        /// As for FBC.
        a_max: u32,
    },
}

/// The slots of one size.
#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    /// By time of last use; kept for LRU alone.
    order: BTreeMap<u64, usize>,
    hand: usize,
}

struct Slot {
    offset: u64,
    object: u32,
    references: u32,
    used: u64,
}

impl MappedFile {
    /// An empty file, of whole pages, for objects numbered below `objects`.
    pub fn new(
        mapping: Box<dyn Mapping>,
        file_bytes: u64,
        packing: Packing,
        policy: SlotPolicy,
        objects: usize,
    ) -> Self {
        let places = vec![None; objects];
        Self {
            mapping,
            file_bytes,
            packing,
            policy,
            places,
            ranks: Default::default(),
            references: 0,
            objects: 0,
            now: 0,
        }
    }

    /// Whether the object is in the file.
    pub fn holds(&self, object: u32) -> bool {
        self.places[object as usize].is_some()
    }

    /// Reads an object that is in the file; it was asked for.
    pub fn hit(&mut self, object: u32, bytes: u64) -> Result<(), Error> {
        let Some((rank, slot)) = self.places[object as usize] else { return Ok(()) };
        let mut buffer = [0; PAGE_BYTES as usize];
        let offset = self.ranks[rank].slots[slot].offset;
        self.mapping.read(&mut buffer[..bytes.min(segment_bytes(rank)) as usize], offset).map_err(failed)?;
        self.used(rank, slot, true);
        Ok(())
    }

    /// Writes an object, in its own place if it has one. False when there is no room for its size.
    pub fn write(&mut self, object: u32, bytes: u64) -> Result<bool, Error> {
        let found = match self.places[object as usize] {
            Some(place) => Some(place),
            None => self.room(rank_of(bytes)),
        };
        let Some((rank, slot)) = found else { return Ok(false) };
        self.take(object, rank, slot);
        // padded, so that an object of a page need not read in what it replaces
        let segment = &[0; PAGE_BYTES as usize][..segment_bytes(rank) as usize];
        self.mapping.write(segment, self.ranks[rank].slots[slot].offset).map_err(failed)?;
        Ok(true)
    }

    /// A new slot while there is room in the file, afterwards another object's.
    fn room(&mut self, rank: usize) -> Option<(usize, usize)> {
        let bytes = segment_bytes(rank);
        if let Some(offset) = self.packing.place_within(rank, bytes, self.file_bytes) {
            let slots = &mut self.ranks[rank].slots;
            slots.push(Slot { offset, object: NOBODY, references: 0, used: 0 });
            return Some((rank, slots.len() - 1));
        }
        if self.ranks[rank].slots.is_empty() {
            return None;
        }
        let victim = match self.policy {
            SlotPolicy::Lru => self.ranks[rank].oldest(|_| true),
            SlotPolicy::LruResident => {
                let mapping = &self.mapping;
                let resident = self.ranks[rank].oldest(|offset| mapping.is_resident(offset));
                resident.or_else(|| self.ranks[rank].oldest(|_| true))
            }
            SlotPolicy::Fbc { c_max, .. } => Some(self.ranks[rank].next(c_max)),
            SlotPolicy::FbcResident { c_max, .. } => {
                let mapping = &self.mapping;
                let near = self.ranks[rank].near(c_max, |offset| mapping.is_resident(offset));
                Some(near.unwrap_or_else(|| self.ranks[rank].next(c_max)))
            }
        };
        victim.map(|slot| (rank, slot))
    }

    /// The slot is the object's from now on.
    fn take(&mut self, object: u32, rank: usize, slot: usize) {
        let before = self.ranks[rank].slots[slot].object;
        if before != object {
            self.references -= u64::from(self.ranks[rank].slots[slot].references);
            self.ranks[rank].slots[slot].references = 0;
            match before {
                NOBODY => self.objects += 1,
                other => self.places[other as usize] = None,
            }
            self.ranks[rank].slots[slot].object = object;
            self.places[object as usize] = Some((rank, slot));
        }
        self.used(rank, slot, before != object);
    }

    fn used(&mut self, rank: usize, slot: usize, counts: bool) {
        self.now += 1;
        let slots = &mut self.ranks[rank];
        let used = std::mem::replace(&mut slots.slots[slot].used, self.now);
        if matches!(self.policy, SlotPolicy::Lru | SlotPolicy::LruResident) {
            slots.order.remove(&used);
            slots.order.insert(self.now, slot);
        }
        if counts {
            slots.slots[slot].references += 1;
            self.references += 1;
            self.age();
        }
    }

    /// "Frequency counts are aged whenever the average reference count of all objects becomes greater than A_max": each is halved, rounded up.
    fn age(&mut self) {
        let (SlotPolicy::Fbc { a_max, .. } | SlotPolicy::FbcResident { a_max, .. }) = self.policy else {
            return;
        };
        if self.references > u64::from(a_max) * self.objects {
            self.references = 0;
            for slot in self.ranks.iter_mut().flat_map(|slots| &mut slots.slots) {
                slot.references = slot.references.div_ceil(2);
                self.references += u64::from(slot.references);
            }
        }
    }
}

impl Slots {
    /// The least recently used slot, among the first few, whose place will do.
    fn oldest(&self, will_do: impl Fn(u64) -> bool) -> Option<usize> {
        self.order.values().take(LOOKED_AT).copied().find(|slot| will_do(self.slots[*slot].offset))
    }

    /// The first slot from the hand on with fewer references than `c_max`; where a whole round finds none, the one at the hand.
    fn next(&mut self, c_max: u32) -> usize {
        let count = self.slots.len();
        let from = self.hand;
        let passed = (0..count).find(|step| self.slots[(from + step) % count].references < c_max);
        let victim = (from + passed.unwrap_or(0)) % count;
        self.hand = (victim + 1) % count;
        victim
    }

    /// A slot near the hand with fewer references whose place will do. The hand stays: what it skips is nearer to it next time.
    fn near(&self, c_max: u32, will_do: impl Fn(u64) -> bool) -> Option<usize> {
        let count = self.slots.len();
        let near = (0..count.min(LOOKED_AT)).map(|step| (self.hand + step) % count);
        near.into_iter()
            .find(|slot| self.slots[*slot].references < c_max && will_do(self.slots[*slot].offset))
    }
}

impl Packing {
    fn place_within(&mut self, rank: usize, bytes: u64, file_bytes: u64) -> Option<u64> {
        match self {
            Self::Contiguous(end) if *end + bytes <= file_bytes => {
                *end += bytes;
                Some(*end - bytes)
            }
            Self::Contiguous(_) => None,
            Self::Aligned(packer) => packer.place_within(rank, file_bytes),
        }
    }
}

/// The rank of the smallest segment that holds so many bytes; the largest's when none does.
pub fn rank_of(bytes: u64) -> usize {
    (0..RANKS - 1).find(|rank| bytes <= segment_bytes(*rank)).unwrap_or(RANKS - 1)
}

/// The bytes of a segment: 512, 1024, 2048, 4096 or 8192.
pub fn segment_bytes(rank: usize) -> u64 {
    512 << rank
}

fn failed(error: std::io::Error) -> Error {
    Error::Store { run: "memory-mapped file".into(), reason: error.to_string() }
}

/// Segment sizes.
const RANKS: usize = 5;
/// The object of a slot that nobody has had yet.
const NOBODY: u32 = u32::MAX;
/// Slots that a policy which asks for pages in memory looks at, at most.
pub const LOOKED_AT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_store::door::{FileSystem, Memory};

    fn file(pages: u64, policy: SlotPolicy) -> MappedFile {
        let bytes = pages * PAGE_BYTES;
        let mapping = Memory::new(1 << 20).map("small", bytes).expect("it fits");
        MappedFile::new(mapping, bytes, Packing::Contiguous(0), policy, 100)
    }

    fn held(file: &MappedFile) -> Vec<u32> {
        (0..100).filter(|object| file.holds(*object)).collect()
    }

    #[test]
    fn lru_gives_up_what_was_not_used_for_longest_among_its_size() {
        let mut file = file(2, SlotPolicy::Lru);
        for object in [1, 2, 3] {
            assert!(file.write(object, 4000).unwrap());
        }
        assert!(file.write(9, 100).unwrap());
        file.hit(1, 4000).unwrap();
        assert!(file.write(4, 4000).unwrap());
        assert_eq!(held(&file), [1, 3, 4, 9]);
        // there is no slot of this size, and no room for one
        assert!(!file.write(5, 8000).unwrap());
    }

    #[test]
    fn fbc_goes_round_and_passes_over_the_popular() {
        let mut file = file(1, SlotPolicy::Fbc { c_max: 3, a_max: 100 });
        for object in 0..16 {
            assert!(file.write(object, 512).unwrap());
        }
        for _ in 0..2 {
            file.hit(1, 512).unwrap();
            file.hit(0, 512).unwrap();
        }
        file.hit(2, 512).unwrap();
        for object in 20..23 {
            assert!(file.write(object, 512).unwrap());
        }
        assert_eq!(held(&file), [0, 1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 20, 21, 22]);
    }

    #[test]
    fn fbc_ages_when_the_mean_is_exceeded_and_never_below_one() {
        let mut file = file(1, SlotPolicy::Fbc { c_max: 3, a_max: 2 });
        for object in [0, 1] {
            assert!(file.write(object, 4096).unwrap());
        }
        file.hit(0, 1).unwrap();
        file.hit(0, 1).unwrap();
        let counts =
            |file: &MappedFile| file.ranks[3].slots.iter().map(|slot| slot.references).collect::<Vec<_>>();
        assert_eq!(counts(&file), [3, 1]);
        file.hit(0, 1).unwrap();
        // five references of two objects are more than 2 on average: 4 and 1 become 2 and 1
        assert_eq!((counts(&file), file.references), (vec![2, 1], 3));
    }
}
