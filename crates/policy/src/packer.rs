//! Layout of small objects in a memory-mapped file: segments of five sizes, one after the other or
//! packed into pages.
//!
//! Carlos Maltzahn, Kathy J. Richardson, Dirk Grunwald: "Reducing the Disk I/O of Web Proxy Server
//! Caches", USENIX 1999, sections 2.4.2 to 2.4.4. Objects are padded to the smallest of five
//! segment sizes and stored in the order of their first misses. Objects requested together
//! therefore lie together. The [`Appender`] places one after the other, across pages. The
//! [`Packer`] is the paper's packing algorithm (its Figure 3), by which no segment crosses a page:
//!
//! ```text
//!   place 2K:  │2K│ 2K │   4K    │   a new page leaves rests of the segment's size and larger ones
//!                  free   free
//!   place 4K:  │2K│ 2K │▓▓▓▓4K▓▓▓│   then the smallest rest that holds a segment is used up first
//! ```
//!
//! There is at most one free rest of each size: a page is begun, or a rest split, only where no
//! rest of the sizes that it leaves was free. So less than a page is free at any time. A segment
//! goes into a new page, or into one of at most four earlier ones that still have a rest. The order
//! of first misses is almost kept (the tests measure the deviation).
//!
//! Placing is O(1), at most five comparisons; the state is five offsets. Fits stores with segments
//! that never move. Does not fit objects larger than a page, which live elsewhere.

/// Size of a segment, one of five: 512, 1024, 2048, 4096 or 8192 bytes (2.4.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentClass(u8);

impl SegmentClass {
    /// All classes, the smallest first.
    pub const ALL: [Self; 5] = [Self(0), Self(1), Self(2), Self(3), Self(4)];

    /// Returns the class of this index in [`Self::ALL`].
    pub const fn new(index: u8) -> Option<Self> {
        if index < 5 { Some(Self(index)) } else { None }
    }

    /// Returns the smallest segment that holds `bytes` bytes; `None` when the largest does not.
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

    /// Returns the class's index in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the segment's length in bytes.
    pub const fn bytes(self) -> u64 {
        512 << self.0
    }
}

/// Page of the paper's machine in bytes, also the largest segment. Pages of today's machines are as
/// large, or smaller by a power of two. A segment that crosses no page of this size therefore
/// crosses as few smaller ones as its length allows.
pub const PAGE_BYTES: u64 = 8192;

/// Layout that places segments in a growing file.
///
/// Segments never overlap, and an offset is a multiple of 512. A placed segment stays. When its
/// place becomes free, a policy, not the layout, gives the place to another object of its class.
pub trait SegmentLayout: Send {
    /// Places a segment and returns its offset in bytes.
    fn place(&mut self, class: SegmentClass) -> u64;

    /// Places a segment within a file of `file_bytes` bytes. `None`, without a change, when it does
    /// not fit. Another class may still fit.
    fn place_within(&mut self, class: SegmentClass, file_bytes: u64) -> Option<u64>;

    /// Returns the offset after all placed segments in bytes: in whole pages where pages are begun
    /// as a whole.
    fn end(&self) -> u64;

    /// Returns the whole state as five offsets, for a store to keep. The first free byte comes
    /// last; before it stand the free rests by class, 0 for none.
    fn state(&self) -> [u64; 5];

    /// Restores a state that [`SegmentLayout::state`] returned. Returns `false`, without a change,
    /// for offsets that it cannot have returned.
    fn restore(&mut self, state: [u64; 5]) -> bool;

    /// Continues after `end`, the end of the last known segment, when the state is lost; free rests
    /// are lost too.
    fn resume(&mut self, end: u64);
}

/// Layout of one segment after the other, across pages: `squidm` and `squidml` (2.4.2, 2.4.3).
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

/// Packing algorithm of the paper's Figure 3, by which no segment crosses a page: `squidmla`
/// (2.4.4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packer {
    /// Offsets of free rests of pages, by class; 0 for none, which no rest can have, since a page
    /// begins with a segment.
    rests: [u64; 4],
    /// Offset of the next page.
    end: u64,
}

impl Packer {
    /// Returns the smallest free rest that holds the class.
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
    /// Returns `true` for a state that can occur: whole pages end at `end`, and the rests lie in
    /// them, each in its own place, after some segment.
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

/// Upper bound on a file's length, so that sums of offsets stay within 64 bits.
const END_MAX: u64 = 1 << 60;

#[cfg(test)]
mod tests;
