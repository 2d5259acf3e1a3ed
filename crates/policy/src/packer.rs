//! Where small objects go in a memory-mapped file: segments of five sizes, one after the other or
//! packed into pages.
//!
//! Carlos Maltzahn, Kathy J. Richardson, Dirk Grunwald: "Reducing the Disk I/O of Web Proxy Server
//! Caches", USENIX 1999, sections 2.4.2 to 2.4.4. Objects are padded to the smallest of five
//! segment sizes and laid down in the order in which they are first missed, so that what is asked
//! for together lies together. The [`Appender`] lays one after the other, across pages. The
//! [`Packer`] is the paper's packing algorithm (its Figure 3), by which no segment crosses a page:
//!
//! ```text
//!   place 2K:  │2K│ 2K │   4K    │   a new page leaves a rest of each size from the segment's own up
//!                  free   free
//!   place 4K:  │2K│ 2K │▓▓▓▓4K▓▓▓│   then the smallest rest that holds a segment is used up first
//! ```
//!
//! There is at most one free rest of each size, since a page is begun, or a rest split, only where
//! none of the sizes that it leaves was free. So less than a page is free at any time, and a
//! segment goes into a new page or into one of at most four earlier ones that still have a rest:
//! the order of first misses is almost kept (the tests measure how nearly).
//!
//! Placing is O(1), at most five comparisons; the state is five offsets. Fits stores whose segments
//! never move. Does not fit objects larger than a page, which live elsewhere.

/// One of the five sizes of a segment: 512, 1024, 2048, 4096 or 8192 bytes (2.4.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentClass(u8);

impl SegmentClass {
    /// All of them, the smallest first.
    pub const ALL: [Self; 5] = [Self(0), Self(1), Self(2), Self(3), Self(4)];

    /// The class of this index in [`Self::ALL`].
    pub const fn new(index: u8) -> Option<Self> {
        if index < 5 { Some(Self(index)) } else { None }
    }

    /// The smallest segment that holds so many bytes; `None` when the largest does not.
    pub const fn for_bytes(bytes: u64) -> Option<Self> {
        let mut index = 0;
        while index < 5 {
            if bytes <= Self(index).bytes() {
                return Some(Self(index));
            }
            index += 1;
        }
        None
    }

    /// Its place in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Its length, in bytes.
    pub const fn bytes(self) -> u64 {
        512 << self.0
    }
}

/// The page of the paper's machine, in bytes, which is the largest segment. Pages of the machine at
/// hand are smaller by a power of two or as large, so that what crosses none of these crosses as
/// few of those as its length allows.
pub const PAGE_BYTES: u64 = 8192;

/// Lays segments down in a file that grows.
///
/// Segments never overlap, and an offset is a multiple of 512. What is laid down stays: a place
/// that becomes free is given to another object of its class by a policy, not by this.
pub trait SegmentLayout: Send {
    /// The offset of the next segment, in bytes.
    fn place(&mut self, class: SegmentClass) -> u64;

    /// The same within a file of so many bytes; `None`, and nothing changed, when it does not fit.
    /// Another class may still fit.
    fn place_within(&mut self, class: SegmentClass, file_bytes: u64) -> Option<u64>;

    /// The first byte behind all that was laid down, in bytes: whole pages where pages are begun as
    /// a whole.
    fn end(&self) -> u64;

    /// Five offsets that hold everything, for a store to keep: the first free byte comes last, and
    /// before it the free rests by class, 0 for none.
    fn state(&self) -> [u64; 5];

    /// Takes on what [`SegmentLayout::state`] gave once. False, and nothing changed, for offsets
    /// that it cannot have given.
    fn restore(&mut self, state: [u64; 5]) -> bool;

    /// Goes on behind `end`, the end of the last segment that is known of, when the state is lost:
    /// rests are given up.
    fn resume(&mut self, end: u64);
}

/// One segment after the other, across pages: `squidm` and `squidml` (2.4.2, 2.4.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Appender {
    end: u64,
}

impl SegmentLayout for Appender {
    fn place(&mut self, class: SegmentClass) -> u64 {
        let offset = self.end;
        self.end += class.bytes();
        offset
    }

    fn place_within(&mut self, class: SegmentClass, file_bytes: u64) -> Option<u64> {
        let end = self.end.checked_add(class.bytes())?;
        (end <= file_bytes).then(|| self.place(class))
    }

    fn end(&self) -> u64 {
        self.end
    }

    fn state(&self) -> [u64; 5] {
        [0, 0, 0, 0, self.end]
    }

    fn restore(&mut self, state: [u64; 5]) -> bool {
        let [0, 0, 0, 0, end] = state else { return false };
        let valid = end % SegmentClass::ALL[0].bytes() == 0 && end <= END_MAX;
        if valid {
            self.end = end;
        }
        valid
    }

    fn resume(&mut self, end: u64) {
        self.end = end.min(END_MAX).next_multiple_of(SegmentClass::ALL[0].bytes());
    }
}

/// The packing algorithm of the paper's Figure 3, by which no segment crosses a page: `squidmla`
/// (2.4.4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packer {
    /// Offsets of free rests of pages, by class; 0 for none, which no rest can have, since a page
    /// begins with a segment.
    rests: [u64; 4],
    /// Where the next page begins.
    end: u64,
}

impl Packer {
    /// The smallest free rest that holds the class.
    fn rest_for(&self, class: SegmentClass) -> Option<usize> {
        (class.index()..self.rests.len()).find(|rest| self.rests[*rest] > 0)
    }
}

impl SegmentLayout for Packer {
    fn place(&mut self, class: SegmentClass) -> u64 {
        let (offset, taken) = match self.rest_for(class) {
            Some(rest) => (std::mem::take(&mut self.rests[rest]), rest),
            None => {
                self.end += PAGE_BYTES;
                (self.end - PAGE_BYTES, self.rests.len())
            }
        };
        for (index, rest) in self.rests.iter_mut().enumerate().take(taken).skip(class.index()) {
            *rest = offset + SegmentClass::ALL[index].bytes();
        }
        offset
    }

    fn place_within(&mut self, class: SegmentClass, file_bytes: u64) -> Option<u64> {
        let a_page_fits = self.end.checked_add(PAGE_BYTES).is_some_and(|end| end <= file_bytes);
        (self.rest_for(class).is_some() || a_page_fits).then(|| self.place(class))
    }

    fn end(&self) -> u64 {
        self.end
    }

    fn state(&self) -> [u64; 5] {
        let [half_k, one_k, two_k, four_k] = self.rests;
        [half_k, one_k, two_k, four_k, self.end]
    }

    fn restore(&mut self, state: [u64; 5]) -> bool {
        let [half_k, one_k, two_k, four_k, end] = state;
        let restored = Self { rests: [half_k, one_k, two_k, four_k], end };
        let valid = restored.is_possible();
        if valid {
            *self = restored;
        }
        valid
    }

    fn resume(&mut self, end: u64) {
        *self = Self { rests: [0; 4], end: end.min(END_MAX).next_multiple_of(PAGE_BYTES) };
    }
}

impl Packer {
    /// Whether whole pages end here and the rests lie in them, each in its own place, behind some
    /// segment.
    fn is_possible(&self) -> bool {
        let rests = || (0..).zip(self.rests).filter(|(_, rest)| *rest > 0);
        let length = |index: usize| SegmentClass::ALL[index].bytes();
        let lies_well = |(index, rest): (usize, u64)| {
            rest % length(index) == 0 && rest % PAGE_BYTES > 0 && rest < self.end
        };
        let apart = |(index, rest): (usize, u64)| {
            rests()
                .all(|(other, at)| other == index || at + length(other) <= rest || rest + length(index) <= at)
        };
        self.end.is_multiple_of(PAGE_BYTES)
            && self.end <= END_MAX
            && rests().all(lies_well)
            && rests().all(apart)
    }
}

/// No file is longer, so that sums of offsets stay within 64 bits.
const END_MAX: u64 = 1 << 60;

#[cfg(test)]
mod tests;
