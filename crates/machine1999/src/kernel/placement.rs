//! Placement of paths on disks: folders are dealt out by share, files in the root go with the
//! mapped file.
//!
//! The unit is the second-level folder, as in section 4 of Maltzahn 1999: "These 4096 directories
//! were distributed over the three file systems, 820 directories on the 2G Byte disk and 1638
//! directories on each of the 4G Byte disks".
//!
//! The paper does not say how they were dealt out. Here each new folder goes to the disk that is
//! furthest below its share, so that neighbours are on different disks.
//!
//! Everything below a second-level folder stays with it. A first-level folder has a disk for the
//! files directly in it. Other disks get the folder once they hold one of its second-level folders.
//! A machine may have the unit on another level, for caches with trees that branch there.

use crate::cache::Mixed;
use crate::machine::Machine;
use std::collections::HashMap;

/// Disks of folders.
#[derive(Debug)]
pub(super) struct Placement {
    homes: HashMap<Box<str>, u8, Mixed>,
    shares: Vec<u32>,
    /// Folders on each disk: those above the level of the unit, and units.
    dealt: [Vec<u64>; 2],
    /// Level of the unit.
    level: usize,
    root: u8,
}

impl Placement {
    pub(super) fn new(machine: &Machine) -> Self {
        let shares: Vec<_> = machine.disks.iter().map(|disk| disk.folder_share).collect();
        let none = vec![0; shares.len()];
        Self {
            homes: HashMap::default(),
            dealt: [none.clone(), none],
            shares,
            level: machine.dealt_level.max(1),
            root: machine.mapped_disk as u8,
        }
    }

    /// Returns the number of disks.
    pub(super) fn disks(&self) -> u8 {
        self.shares.len() as u8
    }

    /// Returns the disk of a folder's contents; `None` if the folder was never made.
    pub(super) fn disk_of(&self, folder: &str) -> Option<u8> {
        if folder.is_empty() { Some(self.root) } else { self.homes.get(self.unit(folder)).copied() }
    }

    /// Returns the disk that exactly this folder was dealt to; `None` if the folder is no unit.
    pub(super) fn dealt_to(&self, folder: &str) -> Option<u8> {
        self.homes.get(folder).copied()
    }

    /// Returns the disk for a folder that is about to be made.
    pub(super) fn deal(&mut self, folder: &str) -> u8 {
        let unit = self.unit(folder);
        if let Some(disk) = self.homes.get(unit) {
            return *disk;
        }
        let dealt = &mut self.dealt[usize::from(level_of(unit) == self.level)];
        let with_share = (0..self.shares.len()).filter(|disk| self.shares[*disk] > 0);
        // The least (dealt + 1) / share, compared without division.
        let below = |one: &usize, other: &usize| {
            let weigh = |at: usize, other: usize| (dealt[at] + 1) * u64::from(self.shares[other]);
            weigh(*one, *other).cmp(&weigh(*other, *one)).then(one.cmp(other))
        };
        let disk = with_share.min_by(below).unwrap_or(usize::from(self.root));
        dealt[disk] += 1;
        self.homes.insert(unit.into(), disk as u8);
        disk as u8
    }

    /// Forgets a folder that was removed.
    pub(super) fn forget(&mut self, folder: &str) {
        if level_of(folder) <= self.level
            && let Some(disk) = self.homes.remove(folder)
        {
            self.dealt[usize::from(level_of(folder) == self.level)][usize::from(disk)] -= 1;
        }
    }

    /// Returns `true` if a folder of `names` names may be on several disks.
    pub(super) fn is_above_units(&self, names: usize) -> bool {
        names < self.level
    }

    /// Returns the part of a folder's path that decides: its first names.
    fn unit<'a>(&self, folder: &'a str) -> &'a str {
        let mut ends = folder.match_indices('/').map(|(at, _)| at);
        ends.nth(self.level - 1).map_or(folder, |end| &folder[..end])
    }
}

fn level_of(folder: &str) -> usize {
    folder.split('/').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_dealt_out_as_in_section_4() {
        let mut placement = Placement::new(&Machine::infinite());
        for x in 0..16 {
            for y in 0..256 {
                let disk = placement.deal(&format!("{x:02X}/{y:02X}"));
                assert_eq!(placement.disk_of(&format!("{x:02X}/{y:02X}/deeper")), Some(disk));
            }
        }
        assert_eq!(placement.dealt[1], [820, 1638, 1638]);
        assert_eq!((placement.disk_of(""), placement.disk_of("00")), (Some(0), None));
        let mut mapped = Placement::new(&Machine::infinite_mapped());
        assert_eq!(["00/00", "00/01", "00/02"].map(|folder| mapped.deal(folder)), [1, 2, 1]);
        mapped.forget("00/01");
        assert_eq!((mapped.disk_of("00/01"), mapped.deal("00/03")), (None, 2));
    }

    #[test]
    fn the_unit_may_be_on_another_level() {
        let mut placement = Placement::new(&Machine { dealt_level: 3, ..Machine::infinite_mapped() });
        let hosts = ["urls/http/a", "urls/http/b", "urls/http/a/deep"].map(|folder| placement.deal(folder));
        assert_eq!(hosts, [1, 2, 1]);
        assert_eq!(placement.disk_of("urls/http/b/x/y"), Some(2));
        assert!(placement.is_above_units(2) && !placement.is_above_units(3));
    }
}
