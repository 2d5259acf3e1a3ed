//! Remembered sections: what the field sections of recent plain requests say, so that the same
//! bytes are not tokenized again.
//!
//! Most requests of a connection, and of one kind of client, repeat every byte of their head but
//! the request line. A section is found by the sum of its words and then compared byte by byte; it
//! must be all that is in the buffer behind the request line. So the same bytes are taken for what
//! they were read as, the head's end among it, and nothing else ever is. What depends on the
//! request line or on limits is looked at each time. Heads with more bytes behind them (pipelined
//! ones) are tokenized, as are all that differ.
//!
//! A section enters a place when it has come there twice without that of the place in between:
//! clients that never repeat themselves cost no copies, and do not drive out those that do.
//!
//! Memory: 64 places of 1 KiB, 72 KiB at most for a thread that reads requests, allotted when the
//! first could be remembered and kept. Cookies stand in it as they do in read buffers, until
//! another section takes the place and overwrites all of it; there is one copy, since equal
//! sections have one place. Sections with Authorization are never kept.
//!
//! Cost: an addition for each eight bytes, and a comparison (`memcmp`).

use super::plain::SectionFacts;

/// The sections that one thread remembers.
#[derive(Debug)]
pub(super) struct SectionCache {
    /// None before the first could be remembered.
    places: Vec<SectionSlot>,
}

impl SectionCache {
    /// Remembers nothing.
    pub const fn new() -> Self {
        Self { places: Vec::new() }
    }

    /// What `section`, whose key this is, says, if it is remembered.
    #[inline]
    pub fn find(&mut self, key: SectionKey, section: &[u8]) -> Option<&SectionFacts> {
        let SectionSlot { held, awaited, bytes } = self.places.get_mut(key.place())?;
        let held = held.as_ref().filter(|held| held.key == key && bytes[..held.section_bytes] == *section)?;
        *awaited = None;
        Some(&held.said)
    }

    /// A section that is not remembered has made a plain request.
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

/// What a section is found by: equal for equal sections, and seldom for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SectionKey(u64);

impl SectionKey {
    /// The key of a section that may be remembered: `None` when it is too large, or too small for
    /// one that is whole.
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

    /// The place that the section may have.
    #[inline]
    fn place(self) -> usize {
        // Fibonacci hashing (Knuth, TAOCP 3, 6.4): each bit of the sum has a part in the highest
        // ones of the product.
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.ilog2())) as usize
    }
}

/// Room for one section.
#[derive(Clone, Debug)]
struct SectionSlot {
    held: Option<CachedSection>,
    /// The key of another section that has come since the one here came last.
    awaited: Option<SectionKey>,
    /// The section that is here, and zeros.
    bytes: [u8; SECTION_BYTES_MAX],
}

/// What is known of the section in a place.
#[derive(Clone, Copy, Debug)]
struct CachedSection {
    key: SectionKey,
    section_bytes: usize,
    said: SectionFacts,
}

impl SectionSlot {
    const EMPTY: Self = Self { held: None, awaited: None, bytes: [0; SECTION_BYTES_MAX] };

    /// Takes a section in, and leaves no byte of the one before.
    fn take(&mut self, key: SectionKey, section: &[u8], said: &SectionFacts) {
        let (bytes, rest) = self.bytes.split_at_mut(section.len());
        bytes.copy_from_slice(section);
        rest.fill(0);
        self.held = Some(CachedSection { key, section_bytes: section.len(), said: *said });
        self.awaited = None;
    }
}

/// A browser's section has some 600 bytes, with cookies more.
const SECTION_BYTES_MAX: usize = 1024;

/// Sections that a thread remembers at most.
const PLACES: usize = 64;

const _: () = assert!(PLACES.is_power_of_two() && PLACES * size_of::<SectionSlot>() <= 72 << 10);

#[cfg(test)]
mod tests;
