//! Place of an object in the mapped file, as a side word of the index.
//!
//! ```text
//!  63   62 … 36   35   34 … 32   31 … 0
//!  1    note      0    class     offset in units of 512 bytes
//! ```
//! The namings' own side words leave the highest bit 0, so this bit tells the two kinds apart. The
//! note is the replacement policy's state of the object at the last orderly close (see
//! [`super::replacement`]). All other code ignores the note.

use shoal_policy::SegmentClass;

/// Segment: a stretch of the mapped file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentLocation {
    /// Offset, in units of the smallest segment.
    pub(crate) unit: u32,
    /// Size class, one of five.
    pub(crate) class: SegmentClass,
}

impl SegmentLocation {
    /// Returns the place at an offset of the mapped file, in bytes; `None` if no side word can
    /// express it.
    pub(crate) fn at(offset: u64, class: SegmentClass) -> Option<Self> {
        let unit = u32::try_from(offset / UNIT_BYTES).ok().filter(|_| offset.is_multiple_of(UNIT_BYTES))?;
        Some(Self { unit, class })
    }

    /// Returns the place in a side word; `None` for an object in its own file.
    pub(crate) fn of_side(side: u64) -> Option<Self> {
        let class = SegmentClass::new((side >> CLASS_SHIFT) as u8 & 15)?;
        (side >> FLAG_SHIFT == 1).then_some(Self { unit: side as u32, class })
    }

    /// Returns the note in a side word.
    pub(crate) fn note_of_side(side: u64) -> u32 {
        (side >> NOTE_SHIFT) as u32 & NOTE_MAX
    }

    /// Returns the side word, without a note.
    pub(crate) fn side(self) -> u64 {
        1 << FLAG_SHIFT | (self.class.index() as u64) << CLASS_SHIFT | u64::from(self.unit)
    }

    /// Returns the side word with a note.
    pub(crate) fn side_noting(self, note: u32) -> u64 {
        self.side() | u64::from(note & NOTE_MAX) << NOTE_SHIFT
    }

    /// Returns the offset of the first byte in the mapped file.
    pub(crate) fn offset(self) -> u64 {
        u64::from(self.unit) * UNIT_BYTES
    }

    /// Returns the length in bytes.
    pub(crate) fn bytes(self) -> u64 {
        self.class.bytes()
    }

    /// Returns the offset after the last byte.
    pub(crate) fn end(self) -> u64 {
        self.offset() + self.bytes()
    }
}

/// Length of the smallest segment in bytes.
pub(crate) const UNIT_BYTES: u64 = 512;
/// Shift of the four bits of the class; the highest bit is 0 in every class.
const CLASS_SHIFT: u32 = 32;
const NOTE_SHIFT: u32 = 36;
const NOTE_MAX: u32 = (1 << 27) - 1;
const FLAG_SHIFT: u32 = 63;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_round_trip_and_namings_words_are_none() {
        for class in SegmentClass::ALL {
            for offset in [0, 512, 7 * 8192, u64::from(u32::MAX) * 512] {
                let place = SegmentLocation::at(offset, class).expect("an offset in range");
                assert_eq!(SegmentLocation::of_side(place.side()), Some(place));
                assert_eq!((place.offset(), place.end()), (offset, offset + class.bytes()));
                assert_eq!(SegmentLocation::note_of_side(place.side()), 0);
                for note in [0, 1, NOTE_MAX] {
                    let side = place.side_noting(note);
                    assert_eq!(
                        (SegmentLocation::of_side(side), SegmentLocation::note_of_side(side)),
                        (Some(place), note)
                    );
                }
            }
        }
        for side in [0, 1, 65_535, 1 << 35, u64::MAX, 1 << 63 | 5 << 32, 1 << 63 | 1 << 35] {
            assert_eq!(SegmentLocation::of_side(side), None, "{side:#x}");
        }
        assert_eq!(SegmentLocation::at(513, SegmentClass::ALL[0]), None);
        assert_eq!(SegmentLocation::at(1 << 41, SegmentClass::ALL[0]), None);
    }
}
