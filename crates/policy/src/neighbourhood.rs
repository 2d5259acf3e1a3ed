//! How much to read around an object: as much as has been paying there.
//!
//! Objects of one page view are missed together and so lie together in a store that writes in order of first miss
//! (Maltzahn 1999, 2.4.3: locality of reference). A read may bring its neighbourhood into RAM: a window around
//! the object. That pays where neighbours are asked for before RAM gives the window up, and elsewhere costs
//! transfer and RAM. So each region of the disk keeps count of the windows read and of the reads that they spared, and
//! its window grows or shrinks by the ratio. Counts are halved when they have said enough, so that old ones fade.
//!
//! Cost: an array access for each read and each hit in a window; 6 bytes a region.

/// The regions of one disk.
#[derive(Debug)]
pub struct Neighbourhoods {
    regions: Vec<Region>,
    /// The largest window's level.
    level_max: u8,
}

#[derive(Clone, Debug)]
struct Region {
    reads: u16,
    spared: u16,
    level: u8,
    /// Decisions in a row to read the object alone.
    alone: u8,
}

impl Neighbourhoods {
    /// For so many regions, with windows of at most `bytes_max` bytes; 0 means that objects are read alone.
    pub fn new(regions: usize, bytes_max: u64) -> Self {
        let level_max = WINDOWS.iter().filter(|window| **window <= bytes_max).count() as u8;
        let region = Region { reads: 0, spared: 0, level: level_max.min(LEVEL_FIRST), alone: 0 };
        Self { regions: vec![region; regions.max(1)], level_max }
    }

    /// Bytes of the window to read around an object in this region, whole pages; 0 for the object alone.
    pub fn window_bytes(&self, region: usize) -> u64 {
        let level = self.regions.get(region).map_or(0, |region| region.level);
        usize::from(level).checked_sub(1).map_or(0, |at| WINDOWS[at])
    }

    /// A read went to the disk.
    pub fn read(&mut self, region: usize) {
        let level_max = self.level_max;
        let Some(region) = self.regions.get_mut(region) else { return };
        region.reads += 1;
        if region.reads >= DECIDE_AFTER {
            region.decide(level_max);
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

/// The largest window that is worth its transfer on a web trace; see docs/experiments/volume.md.
pub const WINDOW_MAX: u64 = WINDOWS[2];
/// Windows, from the smallest, in bytes.
const WINDOWS: [u64; 5] = [16 << 10, 32 << 10, 56 << 10, 112 << 10, 224 << 10];
/// A new region reads 56 KiB: what does not pay is found out soon, what would have paid is not.
const LEVEL_FIRST: u8 = 3;
/// Reads between two decisions: of fewer the ratio says little.
const DECIDE_AFTER: u16 = 64;
/// A window that spares so many reads for a hundred is worth the next size...
const DOUBLE_FROM: u32 = 30;
/// ...and one that spares fewer is not worth its RAM.
const HALVE_BELOW: u32 = 10;
/// Decisions after which a region without windows tries one: one read in a thousand is an experiment.
const TRY_AGAIN_AFTER: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads in a region where each window spares so many reads of a hundred.
    fn settle(windows: &mut Neighbourhoods, percent: u32) -> u64 {
        for turn in 0..100 * u32::from(DECIDE_AFTER) {
            windows.read(0);
            if (turn * 37) % 100 < percent {
                windows.spared(0);
            }
        }
        windows.window_bytes(0)
    }

    #[test]
    fn windows_grow_where_they_pay_and_shrink_where_they_do_not() {
        let mut windows = Neighbourhoods::new(4, 64 << 10);
        assert_eq!(windows.window_bytes(0), WINDOW_MAX);
        assert_eq!(settle(&mut windows, 60), WINDOW_MAX);
        assert_eq!(settle(&mut windows, 20), WINDOW_MAX, "neither pays for more nor too little");
        assert!(settle(&mut windows, 2) <= 16 << 10);
        assert_eq!(settle(&mut windows, 60), WINDOW_MAX, "an experiment finds out that it pays again");
        assert_eq!(windows.window_bytes(1), WINDOW_MAX, "of other regions nothing is known");
    }

    #[test]
    fn without_windows_objects_are_read_alone() {
        let mut windows = Neighbourhoods::new(1, 0);
        assert_eq!(settle(&mut windows, 90), 0);
    }
}
