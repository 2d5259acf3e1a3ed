//! How much to read around an object: as much as has been paying there.
//!
//! Objects of one page view are missed together and so lie together in a store that writes in order
//! of first miss (Maltzahn 1999, 2.4.3: locality of reference). A read may bring its neighbourhood
//! into RAM: a window around the object. That pays where neighbours are asked for before RAM gives
//! the window up, and elsewhere costs transfer and RAM. So each region of the disk keeps count of
//! the windows read and of the reads that they spared, and its window grows or shrinks by the
//! ratio. Counts are halved when they have said enough, so that old ones fade.
//!
//! Where it is known which records belong together ([`GroupBorders`](crate::GroupBorders)), a
//! window ends where its group does, and a group that is not too large is read whole. Of a body in
//! pieces what follows the wanted one is read with it.
//!
//! Cost: an array access for each read and each hit in a window; 6 bytes a region.

use std::ops::Range;

/// The regions of one disk.
#[derive(Debug)]
pub struct NeighbourhoodSizer {
    regions: Vec<Region>,
    /// The largest window's level.
    level_max: u8,
    /// Of windows that are whole groups.
    group_max: u64,
}

#[derive(Clone, Debug)]
struct Region {
    reads: u16,
    spared: u16,
    level: u8,
    /// Decisions in a row to read the object alone.
    alone: u8,
}

impl NeighbourhoodSizer {
    /// For so many regions, with windows of at most `bytes_max` bytes; 0 means that objects are
    /// read alone.
    pub fn new(regions: usize, bytes_max: u64) -> Self {
        let level_max = WINDOWS.iter().filter(|window| **window <= bytes_max).count() as u8;
        // What does not pay is found out soon, what would have paid is not.
        let region = Region { reads: 0, spared: 0, level: level_max, alone: 0 };
        let group_max = bytes_max.min(GROUP_MAX) / PAGE * PAGE;
        Self { regions: vec![region; regions.max(1)], level_max, group_max }
    }

    /// What to read for an object in this region, in whole pages: of its stripe, from whose
    /// beginning all offsets count, or of its group where that is known.
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
        // A small group is read with what lies around it: that costs little.
        debug_assert!(within.start <= within.end);
        let read = cover(&within, &placed(WINDOWS[0], wanted, stripe_bytes));
        debug_assert!(read.start <= wanted.start, "a window that begins too late");
        read
    }

    /// What to read for a piece of a body, in whole pages: what follows of the same body as well,
    /// if it is known how far that goes.
    pub fn onward(&self, stripe_bytes: u64, wanted: &Range<u64>, group: Option<Range<u64>>) -> Range<u64> {
        let alone = pages(wanted, stripe_bytes);
        let follows = alone.start..alone.start + self.group_max;
        let read = group.map_or_else(|| alone.clone(), |group| cover(&common(&follows, &group), &alone));
        debug_assert!(read.end.is_multiple_of(PAGE), "a part of a page");
        read
    }

    /// A read went to the disk.
    pub fn read(&mut self, region: usize) {
        let level_max = self.level_max;
        let Some(region) = self.regions.get_mut(region) else { return };
        region.reads += 1;
        if region.reads >= DECIDE_AFTER {
            region.decide(level_max);
            debug_assert!(region.level <= level_max);
        }
    }

    /// A window spared a read.
    pub fn spared(&mut self, region: usize) {
        if let Some(region) = self.regions.get_mut(region) {
            region.spared = region.spared.saturating_add(1);
        }
    }
}

impl Region {
    fn decide(&mut self, level_max: u8) {
        if self.level == 0 {
            // Nothing can be learnt without a window: try the smallest again now and then.
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

/// A window of so many bytes, in whole pages; longer if the wanted does not fit. Mostly what
/// follows: objects of a page are asked for in about the order in which they were missed. It does
/// not begin where multiples of its size are: objects across those would need two.
fn placed(bytes: u64, wanted: &Range<u64>, stripe_bytes: u64) -> Range<u64> {
    let from = wanted.start.saturating_sub(bytes / BEFORE_SHARE) / PAGE * PAGE;
    pages(&(from..wanted.end.max(from + bytes)), stripe_bytes)
}

fn pages(range: &Range<u64>, stripe_bytes: u64) -> Range<u64> {
    range.start / PAGE * PAGE..range.end.next_multiple_of(PAGE).min(stripe_bytes)
}

/// What both have; of two that have nothing in common an empty range.
fn common(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    let from = one.start.max(other.start);
    from..one.end.min(other.end).max(from)
}

/// From where the first begins to where the last ends.
fn cover(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    one.start.min(other.start)..one.end.max(other.end)
}

/// The longest that is read at once: a group, as far as it is worth its transfer on a web trace;
/// see docs/experiments/volume-notebook.md.
pub const GROUP_MAX: u64 = 224 << 10;
/// Windows, from the smallest, in bytes. Larger ones are not worth their transfer where groups are
/// not known, or larger than that.
const WINDOWS: [u64; 3] = [16 << 10, 32 << 10, 56 << 10];
/// A window begins so large a part of itself before the object.
const BEFORE_SHARE: u64 = 4;
const PAGE: u64 = 4096;
/// Reads between two decisions: of fewer the ratio says little.
const DECIDE_AFTER: u16 = 64;
/// A window that spares so many reads for a hundred is worth the next size...
const DOUBLE_FROM: u32 = 30;
/// ...and one that spares fewer is not worth its RAM.
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

    /// Reads in a region where each window spares so many reads of a hundred. What is read in the
    /// end.
    fn settle(windows: &mut NeighbourhoodSizer, percent: u32) -> u64 {
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
    fn windows_grow_where_they_pay_and_shrink_where_they_do_not() {
        let mut windows = NeighbourhoodSizer::new(4, GROUP_MAX);
        let largest = WINDOWS[WINDOWS.len() - 1];
        assert_eq!(length(&windows.around(0, STRIPE, &OBJECT, None)), largest);
        assert_eq!(settle(&mut windows, 60), largest);
        assert_eq!(settle(&mut windows, 20), largest, "neither pays for more nor too little");
        assert!(settle(&mut windows, 2) <= WINDOWS[0]);
        assert_eq!(settle(&mut windows, 60), largest, "an experiment finds out that it pays again");
        assert_eq!(
            length(&windows.around(1, STRIPE, &OBJECT, None)),
            largest,
            "of other regions nothing is known"
        );
    }

    #[test]
    fn without_windows_objects_are_read_alone() {
        let mut windows = NeighbourhoodSizer::new(1, 0);
        assert_eq!(settle(&mut windows, 90), 4096);
        let group = Some(400_000 / PAGE * PAGE..600_000 / PAGE * PAGE);
        assert_eq!(windows.around(0, STRIPE, &OBJECT, group.clone()), 499_712..503_808);
        assert_eq!(windows.onward(STRIPE, &OBJECT, group), 499_712..503_808);
    }

    /// What is read for objects with the groups that they lie in, in pages.
    #[test]
    fn a_window_ends_where_its_group_does() {
        let windows = NeighbourhoodSizer::new(1, GROUP_MAX);
        let cases = [
            // Read whole, up to the largest.
            (123..124, 120..140, 120..140),
            (123..124, 90..146, 90..146),
            (130..170, 120..170, 120..170),
            // Of a larger one a window, with a quarter of it before.
            (123..124, 90..147, 119..133),
            (123..124, 121..250, 121..133),
            (123..124, 60..126, 119..126),
            // A small one with what lies around.
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
    fn of_a_body_what_follows_is_read() {
        let windows = NeighbourhoodSizer::new(1, GROUP_MAX);
        let wanted = 100_000..165_536;
        assert_eq!(windows.onward(STRIPE, &wanted, Some(0..401_408)), 98_304..98_304 + GROUP_MAX);
        assert_eq!(windows.onward(STRIPE, &wanted, Some(0..204_800)), 98_304..204_800);
        assert_eq!(windows.onward(STRIPE, &wanted, None), 98_304..167_936, "how far it goes is not known");
    }
}
