//! Held bytes of a representation, as disjoint, sorted ranges.

use super::ByteRange;

/// Set of bytes as sorted ranges that neither overlap nor touch.
///
/// Cost: an insert moves the ranges behind it once. Other operations cost one binary search and the
/// length of the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    ranges: Vec<ByteRange>,
}

impl Extents {
    /// Makes a set without bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a range and joins it with the ranges that it overlaps or touches.
    pub fn insert(&mut self, added: ByteRange) {
        let from = self.ranges.partition_point(|held| held.end < added.start);
        let to = self.ranges.partition_point(|held| held.start <= added.end);
        let joined = self.ranges[from..to].iter().fold(added, |joined, held| ByteRange {
            start: joined.start.min(held.start),
            end: joined.end.max(held.end),
        });
        debug_assert!(from <= to);
        self.ranges.splice(from..to, [joined]);
        debug_assert!(self.ranges.is_sorted_by(|one, next| one.end < next.start), "ranges that touch");
        debug_assert!(self.contains(added));
    }

    /// Returns `true` if all bytes of `wanted` are held.
    pub fn contains(&self, wanted: ByteRange) -> bool {
        let at = self.ranges.partition_point(|held| held.end < wanted.end);
        self.ranges.get(at).is_some_and(|held| held.start <= wanted.start)
    }

    /// Returns the parts of `wanted` that are not held, in order.
    pub fn missing(&self, wanted: ByteRange) -> Vec<ByteRange> {
        let mut missing = Vec::new();
        let mut from = wanted.start;
        let first = self.ranges.partition_point(|held| held.end <= wanted.start);
        for held in self.ranges[first..].iter().take_while(|held| held.start < wanted.end) {
            missing.extend(ByteRange::new(from, held.start));
            from = held.end;
        }
        missing.extend(ByteRange::new(from, wanted.end));
        debug_assert!(missing.iter().all(|range| wanted.start <= range.start && range.end <= wanted.end));
        debug_assert!(missing.is_sorted_by(|one, next| one.end < next.start));
        missing
    }

    /// Returns `true` if all bytes of a representation of this length are held.
    pub fn is_complete(&self, length: u64) -> bool {
        ByteRange::new(0, length).is_none_or(|whole| self.contains(whole))
    }

    /// Returns the ranges, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ByteRange> {
        self.ranges.iter().copied()
    }

    /// Returns the number of bytes held.
    pub fn covered(&self) -> u64 {
        self.ranges.iter().map(|range| range.len()).sum()
    }
}

impl FromIterator<ByteRange> for Extents {
    fn from_iter<T: IntoIterator<Item = ByteRange>>(ranges: T) -> Self {
        ranges.into_iter().fold(Self::new(), |mut extents, range| {
            extents.insert(range);
            extents
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end).expect("not empty")
    }

    #[test]
    fn touching_ranges_become_one() {
        let extents: Extents = [range(0, 5), range(7, 9), range(5, 7)].into_iter().collect();
        assert_eq!(extents.iter().collect::<Vec<_>>(), [range(0, 9)]);
        assert!(extents.is_complete(9) && !extents.is_complete(10) && Extents::new().is_complete(0));
    }

    #[test]
    fn missing_ranges_lie_between_held_ones() {
        let extents: Extents = [range(2, 4), range(6, 8)].into_iter().collect();
        assert_eq!(extents.missing(range(0, 10)), [range(0, 2), range(4, 6), range(8, 10)]);
        assert_eq!(extents.missing(range(3, 7)), [range(4, 6)]);
        assert_eq!(extents.missing(range(2, 4)), []);
        assert_eq!(extents.missing(range(8, 9)), [range(8, 9)]);
    }

    fn some_range() -> impl Strategy<Value = ByteRange> {
        (0_u64..60, 1_u64..12).prop_map(|(start, len)| range(start, start + len))
    }

    proptest! {
        /// Compares the set with a plain list of bytes.
        #[test]
        fn agrees_with_a_bitmap(ranges in proptest::collection::vec(some_range(), 0..12), wanted in some_range()) {
            let mut bitmap = [false; 80];
            for range in &ranges {
                bitmap[range.start as usize..range.end as usize].fill(true);
            }
            let extents: Extents = ranges.into_iter().collect();
            let held: Vec<ByteRange> = extents.iter().collect();
            prop_assert!(held.windows(2).all(|pair| pair[0].end < pair[1].start), "{:?}", held);
            prop_assert_eq!(extents.covered(), bitmap.iter().filter(|held| **held).count() as u64);
            let bytes = |range: ByteRange| range.start as usize..range.end as usize;
            prop_assert!(held.iter().all(|range| bitmap[bytes(*range)].iter().all(|held| *held)));
            prop_assert_eq!(extents.contains(wanted), bitmap[bytes(wanted)].iter().all(|held| *held));
            let missing = extents.missing(wanted);
            prop_assert!(missing.iter().all(|range| bitmap[bytes(*range)].iter().all(|held| !*held)));
            let absent = bitmap[bytes(wanted)].iter().filter(|held| !**held).count() as u64;
            prop_assert_eq!(missing.iter().map(|range| range.len()).sum::<u64>(), absent);
        }
    }
}
