//! Size of a read around an object: as large as has been worthwhile in that region.
//!
//! Objects of one page view are missed together, and so lie together in a store that writes in
//! order of first miss (Maltzahn 1999, 2.4.3: locality of reference). A read may bring its
//! neighbourhood into RAM: a window around the object. The window pays where neighbours are
//! requested before RAM evicts it, and elsewhere costs transfer and RAM. So each region of the disk
//! counts the windows read and the reads that they spared, and its window grows or shrinks by the
//! ratio. Counts are halved after each decision, so that old ones fade.
//!
//! Where the borders of groups are known ([`GroupBorders`](crate::GroupBorders)), a window ends
//! with its group, and a group that is not too large is read whole. For a body in pieces, the
//! pieces after the wanted one are read with it.
//!
//! Cost: an array access for each read and each hit in a window; 6 bytes a region.

use std::ops::Range;

/// Regions of one disk.
#[derive(Debug)]
pub struct NeighbourhoodSizer {
    regions: Vec<Region>,
    /// Level of the largest window.
    level_max: u8,
    /// Largest size of a window that is a whole group.
    group_max: u64,
}

#[derive(Clone, Debug)]
struct Region {
    reads: u16,
    spared: u16,
    level: u8,
    /// Number of consecutive decisions to read the object alone.
    alone: u8,
}

impl NeighbourhoodSizer {
    /// Makes `regions` regions with windows of at most `bytes_max` bytes; 0 means that objects are
    /// read alone.
    pub fn new(regions: usize, bytes_max: u64) -> Self {
        let level_max = WINDOWS.iter().filter(|window| **window <= bytes_max).count() as u8;
        // Start with the largest window: a window that does not pay is soon found out; a missing
        // window that would pay is not.
        let region = Region { reads: 0, spared: 0, level: level_max, alone: 0 };
        let group_max = bytes_max.min(GROUP_MAX) / PAGE * PAGE;
        Self { regions: vec![region; regions.max(1)], level_max, group_max }
    }

    /// Returns the bytes to read for an object in this region, in whole pages. The window lies in
    /// the object's stripe, or in its group if that is known. All offsets count from the stripe's
    /// beginning.
    pub fn around(
        &self,
        region: usize,
        stripe_bytes: u64,
        wanted: &Range<u64>,
        group: Option<Range<u64>>,
    ) -> Range<u64> {
        let level = self.regions.get(region).map_or(0, |region| region.level);
        let Some(at) = usize::from(level).checked_sub(1) else { return pages(wanted, stripe_bytes) };
        let window = placed(WINDOWS[at], wanted, stripe_bytes);
        let Some(group) = group else { return window };
        let is_whole = level == self.level_max && group.end - group.start <= self.group_max;
        let within = if is_whole { group } else { common(&window, &group) };
        // A small group is read with its surroundings, which costs little.
        debug_assert!(within.start <= within.end);
        let read = cover(&within, &placed(WINDOWS[0], wanted, stripe_bytes));
        debug_assert!(read.start <= wanted.start, "a window that begins too late");
        read
    }

    /// Returns the bytes to read for a piece of a body, in whole pages. The pieces after it in the
    /// same body are included, if the body's extent is known.
    pub fn onward(&self, stripe_bytes: u64, wanted: &Range<u64>, group: Option<Range<u64>>) -> Range<u64> {
        let alone = pages(wanted, stripe_bytes);
        let follows = alone.start..alone.start + self.group_max;
        let read = group.map_or_else(|| alone.clone(), |group| cover(&common(&follows, &group), &alone));
        debug_assert!(read.end.is_multiple_of(PAGE), "a part of a page");
        read
    }

    /// Counts a read from the disk.
    pub fn read(&mut self, region: usize) {
        let level_max = self.level_max;
        let Some(region) = self.regions.get_mut(region) else { return };
        region.reads += 1;
        if region.reads >= DECIDE_AFTER {
            region.decide(level_max);
            debug_assert!(region.level <= level_max);
        }
    }

    /// Counts a read that a window spared.
    pub fn spared(&mut self, region: usize) {
        if let Some(region) = self.regions.get_mut(region) {
            region.spared = region.spared.saturating_add(1);
        }
    }
}

impl Region {
    fn decide(&mut self, level_max: u8) {
        if self.level == 0 {
            // Without a window nothing can be learnt: try the smallest again from time to time.
            self.alone += 1;
            if self.alone >= TRY_AGAIN_AFTER && level_max > 0 {
                (self.level, self.alone) = (1, 0);
            }
            (self.reads, self.spared) = (0, 0);
            return;
        }
        let percent = u32::from(self.spared) * 100 / u32::from(self.reads);
        if percent >= DOUBLE_FROM && self.level < level_max {
            self.level += 1;
            (self.reads, self.spared) = (0, 0);
        } else if percent < HALVE_BELOW {
            self.level -= 1;
            (self.reads, self.spared) = (0, 0);
        } else {
            self.reads /= 2;
            self.spared /= 2;
        }
    }
}

/// Returns a window of `bytes` bytes, in whole pages, longer if the wanted bytes do not fit. Most
/// of it follows the object: objects of a page are requested in about the order in which they were
/// missed. Windows are not aligned to multiples of their size: objects across such a border would
/// need two windows.
fn placed(bytes: u64, wanted: &Range<u64>, stripe_bytes: u64) -> Range<u64> {
    let from = wanted.start.saturating_sub(bytes / BEFORE_SHARE) / PAGE * PAGE;
    pages(&(from..wanted.end.max(from + bytes)), stripe_bytes)
}

fn pages(range: &Range<u64>, stripe_bytes: u64) -> Range<u64> {
    range.start / PAGE * PAGE..range.end.next_multiple_of(PAGE).min(stripe_bytes)
}

/// Returns the common part of two ranges; empty when there is none.
fn common(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    let from = one.start.max(other.start);
    from..one.end.min(other.end).max(from)
}

/// Returns the range from the beginning of the first to the end of the last.
fn cover(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    one.start.min(other.start)..one.end.max(other.end)
}

/// Longest group that is read at once: beyond it a group is not worth its transfer on a web trace.
/// See docs/experiments/volume-notebook.md.
pub const GROUP_MAX: u64 = 224 << 10;
/// Sizes of windows in bytes, from the smallest. Larger ones are not worth their transfer where
/// groups are not known, or are larger than that.
const WINDOWS: [u64; 3] = [16 << 10, 32 << 10, 56 << 10];
/// Part of a window that lies before the object, as a divisor.
const BEFORE_SHARE: u64 = 4;
const PAGE: u64 = 4096;
/// Reads between two decisions: with fewer the ratio says little.
const DECIDE_AFTER: u16 = 64;
/// Spared reads, in percent, from which the next larger window is worthwhile.
const DOUBLE_FROM: u32 = 30;
/// Spared reads, in percent, below which a window is not worth its RAM.
const HALVE_BELOW: u32 = 10;
/// Decisions after which a region without windows tries one: one read in a thousand is an
/// experiment.
const TRY_AGAIN_AFTER: u8 = 16;

const _: () = {
    assert!(WINDOWS[0] < WINDOWS[1] && WINDOWS[1] < WINDOWS[2]);
    assert!(WINDOWS[2] <= GROUP_MAX && GROUP_MAX.is_multiple_of(PAGE));
    assert!(HALVE_BELOW < DOUBLE_FROM);
};

#[cfg(test)]
mod tests {
    use super::*;

    const STRIPE: u64 = 1 << 20;

    /// Reads in a region in which each window spares `percent` reads of a hundred. Returns the size
    /// of the last read.
    fn request_until_stable(windows: &mut NeighbourhoodSizer, percent: u32) -> u64 {
        for turn in 0..100 * u32::from(DECIDE_AFTER) {
            windows.read(0);
            if (turn * 37) % 100 < percent {
                windows.spared(0);
            }
        }
        length(&windows.around(0, STRIPE, &OBJECT, None))
    }

    fn length(range: &Range<u64>) -> u64 {
        range.end - range.start
    }

    /// An object.
    const OBJECT: Range<u64> = 500_000..503_000;

    #[test]
    fn windows_grow_and_shrink_with_spared_reads() {
        let mut windows = NeighbourhoodSizer::new(4, GROUP_MAX);
        let largest = WINDOWS[WINDOWS.len() - 1];
        assert_eq!(length(&windows.around(0, STRIPE, &OBJECT, None)), largest);
        assert_eq!(request_until_stable(&mut windows, 60), largest);
        assert_eq!(request_until_stable(&mut windows, 20), largest, "neither pays for more nor too little");
        assert!(request_until_stable(&mut windows, 2) <= WINDOWS[0]);
        assert_eq!(
            request_until_stable(&mut windows, 60),
            largest,
            "an experiment finds out that it pays again"
        );
        assert_eq!(
            length(&windows.around(1, STRIPE, &OBJECT, None)),
            largest,
            "of other regions nothing is known"
        );
    }

    #[test]
    fn without_windows_objects_are_read_alone() {
        let mut windows = NeighbourhoodSizer::new(1, 0);
        assert_eq!(request_until_stable(&mut windows, 90), 4096);
        let group = Some(400_000 / PAGE * PAGE..600_000 / PAGE * PAGE);
        assert_eq!(windows.around(0, STRIPE, &OBJECT, group.clone()), 499_712..503_808);
        assert_eq!(windows.onward(STRIPE, &OBJECT, group), 499_712..503_808);
    }

    /// Bytes read for objects, with their groups, in pages.
    #[test]
    fn a_window_ends_where_its_group_does() {
        let windows = NeighbourhoodSizer::new(1, GROUP_MAX);
        let cases = [
            // Read whole, up to the largest.
            (123..124, 120..140, 120..140),
            (123..124, 90..146, 90..146),
            (130..170, 120..170, 120..170),
            // Of a larger group only a window, a quarter of it before the object.
            (123..124, 90..147, 119..133),
            (123..124, 121..250, 121..133),
            (123..124, 60..126, 119..126),
            // A small group with its surroundings.
            (123..124, 123..124, 122..126),
            (123..124, 122..124, 122..126),
            (123..130, 123..130, 122..130),
        ];
        let bytes = |pages: Range<u64>| pages.start * PAGE..pages.end * PAGE;
        for (wanted, group, read) in cases {
            let (wanted, group) = (bytes(wanted), bytes(group));
            assert_eq!(
                windows.around(0, STRIPE, &wanted, Some(group.clone())),
                bytes(read),
                "{wanted:?} of {group:?}"
            );
        }
    }

    #[test]
    fn nothing_is_read_beyond_the_stripe() {
        let windows = NeighbourhoodSizer::new(1, GROUP_MAX);
        assert_eq!(windows.around(0, STRIPE, &(0..100), None), 0..WINDOWS[2]);
        assert_eq!(windows.around(0, STRIPE, &(STRIPE - 100..STRIPE), None), STRIPE - 16_384..STRIPE);
    }

    #[test]
    fn whole_pages_are_read_with_any_limit() {
        for bytes_max in [1, 4097, 70_001, 123_457, GROUP_MAX - 1] {
            let windows = NeighbourhoodSizer::new(1, bytes_max);
            let group = Some(0..400 * PAGE);
            for read in [
                windows.onward(STRIPE, &OBJECT, group.clone()),
                windows.around(0, STRIPE, &OBJECT, group.clone()),
            ] {
                assert_eq!((read.start % PAGE, read.end % PAGE), (0, 0), "{bytes_max}: {read:?}");
                assert!(read.start <= OBJECT.start && read.end >= OBJECT.end);
            }
        }
    }

    #[test]
    fn onward_reads_following_pieces_of_body() {
        let windows = NeighbourhoodSizer::new(1, GROUP_MAX);
        let wanted = 100_000..165_536;
        assert_eq!(windows.onward(STRIPE, &wanted, Some(0..401_408)), 98_304..98_304 + GROUP_MAX);
        assert_eq!(windows.onward(STRIPE, &wanted, Some(0..204_800)), 98_304..204_800);
        assert_eq!(windows.onward(STRIPE, &wanted, None), 98_304..167_936, "how far it goes is not known");
    }
}
