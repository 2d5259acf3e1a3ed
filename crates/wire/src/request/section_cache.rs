//! Cache of recent plain requests' field sections and their meaning, so that the same bytes are not
//! tokenized again.
//!
//! Most requests of a connection, and of one kind of client, repeat every byte of their head except
//! the request line. A section is found by the sum of its words and then compared byte by byte. It
//! must be all that follows the request line in the buffer. So equal bytes get the earlier result,
//! including the head's end, and different bytes never do. Facts that depend on the request line or
//! on limits are checked each time. Heads with more bytes behind them (pipelined ones) are
//! tokenized, as are all that differ.
//!
//! A section enters a slot when it has arrived there twice without the slot's own section in
//! between. Clients that never repeat themselves cost no copies, and do not evict clients that do.
//!
//! Memory: 64 slots of 1 KiB, at most 72 KiB for each thread that reads requests. They are
//! allocated and kept from the first section that could be remembered. Cookies stand in a slot as
//! they do in read buffers, until another section takes the slot and overwrites all of it. There is
//! one copy, since equal sections have one slot. Sections with Authorization are never kept.
//!
//! Cost: an addition for each eight bytes, and a comparison (`memcmp`).

use super::plain::SectionFacts;

/// Sections that one thread remembers.
#[derive(Debug)]
pub(super) struct SectionCache {
    /// Slots; empty before the first section that could be remembered.
    places: Vec<SectionSlot>,
}

impl SectionCache {
    /// Makes a cache without sections.
    pub const fn new() -> Self {
        Self { places: Vec::new() }
    }

    /// Returns the facts of `section`, which has this key, if it is remembered.
    #[inline]
    pub fn find(&mut self, key: SectionKey, section: &[u8]) -> Option<&SectionFacts> {
        let SectionSlot { held, awaited, bytes } = self.places.get_mut(key.place())?;
        let held = held.as_ref().filter(|held| held.key == key && bytes[..held.section_bytes] == *section)?;
        *awaited = None;
        Some(&held.said)
    }

    /// Records that a section that is not remembered has made a plain request.
    pub fn came(&mut self, key: SectionKey, section: &[u8], said: &SectionFacts) {
        if said.authorizes {
            return;
        }
        if self.places.is_empty() {
            self.places = vec![SectionSlot::EMPTY; PLACES];
        }
        let place = &mut self.places[key.place()];
        if place.awaited == Some(key) {
            place.take(key, section, said);
        } else {
            place.awaited = Some(key);
        }
    }
}

/// Key of a section: equal for equal sections, and seldom equal for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SectionKey(u64);

impl SectionKey {
    /// Returns the key of a section that may be remembered. `None` when the section is too large,
    /// or too small to be whole.
    #[inline]
    pub fn of(section: &[u8]) -> Option<Self> {
        if section.len() > SECTION_BYTES_MAX {
            return None;
        }
        let last = section.last_chunk()?;
        let (words, _) = section.as_chunks();
        let sum =
            words.iter().fold(section.len() as u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)));
        Some(Self(sum.wrapping_add(u64::from_le_bytes(*last))))
    }

    /// Returns the number of the section's slot.
    #[inline]
    fn place(self) -> usize {
        // Fibonacci hashing (Knuth, TAOCP 3, 6.4): each bit of the sum affects the highest bits of
        // the product.
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.ilog2())) as usize
    }
}

/// Slot for one section.
#[derive(Clone, Debug)]
struct SectionSlot {
    held: Option<CachedSection>,
    /// Key of another section that arrived since this slot's section last arrived.
    awaited: Option<SectionKey>,
    /// Bytes of the section, then zeros.
    bytes: [u8; SECTION_BYTES_MAX],
}

/// Section in a slot and its facts.
#[derive(Clone, Copy, Debug)]
struct CachedSection {
    key: SectionKey,
    section_bytes: usize,
    said: SectionFacts,
}

impl SectionSlot {
    const EMPTY: Self = Self { held: None, awaited: None, bytes: [0; SECTION_BYTES_MAX] };

    /// Stores a section, and leaves no byte of the one before.
    fn take(&mut self, key: SectionKey, section: &[u8], said: &SectionFacts) {
        let (bytes, rest) = self.bytes.split_at_mut(section.len());
        bytes.copy_from_slice(section);
        rest.fill(0);
        self.held = Some(CachedSection { key, section_bytes: section.len(), said: *said });
        self.awaited = None;
    }
}

/// Largest section that is remembered. A browser's section has some 600 bytes, more with cookies.
const SECTION_BYTES_MAX: usize = 1024;

/// Largest number of sections that a thread remembers.
const PLACES: usize = 64;

const _: () = assert!(PLACES.is_power_of_two() && PLACES * size_of::<SectionSlot>() <= 72 << 10);

#[cfg(test)]
mod tests;
