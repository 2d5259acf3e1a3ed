//! How file numbers become paths.

use crate::door::FileSystem;
use std::io;

/// The part of a cache architecture that names its files.
pub trait Naming: Send + Sync {
    /// What the index keeps, so that a store is opened again with the naming that made it.
    fn parameters(&self) -> [u32; 4];

    /// The path of a file.
    fn path(&self, number: u32) -> String;

    /// Number of folders that hold files.
    fn folders(&self) -> u32;

    /// The path of one of them.
    fn folder(&self, folder: u32) -> String;

    /// The folder that holds a number.
    fn folder_of(&self, number: u32) -> u32;

    /// The numbers below `limit` that a folder may hold.
    fn numbers_in(&self, folder: u32, limit: u32) -> Vec<u32>;

    /// The number that a file's name (without its folder) stands for; `None` for files that are not ours.
    fn number_of(&self, name: &str) -> Option<u32>;

    /// Makes all folders.
    fn make_folders(&self, files: &dyn FileSystem) -> io::Result<()>;
}

/// Squid's naming (Maltzahn 1999, 2.3.2): "A unique file number n maps to a two-level file path that contains the
/// cached object. The file path follows from the unique file number using the formula (x, y, z) =
/// (n mod l1, n/l1 mod l2, n)." All three in hexadecimal, as Squid writes them.
///
/// Neighbouring numbers lie in different first-level folders, so the tree is balanced at every fill; the price is
/// that the objects of one page are strewn over folders, which the paper's later architectures mend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Squid {
    l1: u32,
    l2: u32,
}

impl Squid {
    /// Folders for so many objects: about 256 in each, so that a folder fills one or two blocks.
    pub fn for_objects(max_objects: u32) -> Self {
        let folders = max_objects.div_ceil(FILES_PER_FOLDER).clamp(1, LEVEL_MAX * LEVEL_MAX);
        let l2 = folders.min(LEVEL_MAX);
        Self { l1: folders.div_ceil(l2), l2 }
    }

    /// With so many folders at each level; `None` when that cannot be.
    pub fn with([l1, l2]: [u32; 2]) -> Option<Self> {
        let levels = 1..=LEVEL_MAX;
        (levels.contains(&l1) && levels.contains(&l2)).then_some(Self { l1, l2 })
    }

    /// As the folders that are there have it; `None` when there are none.
    pub fn of_folders(files: &dyn FileSystem) -> Option<Self> {
        let count = |folder: &str| {
            let names = files.list(folder, 2 * LEVEL_MAX as usize).unwrap_or_default();
            let is_ours = |name: &&String| name.len() == 2 && u8::from_str_radix(name, 16).is_ok();
            names.iter().filter(is_ours).count() as u32
        };
        match count("") {
            0 => None,
            l1 => Self::with([l1, count("00").max(1)]),
        }
    }
}

impl Naming for Squid {
    fn parameters(&self) -> [u32; 4] {
        [self.l1, self.l2, 0, 0]
    }

    fn path(&self, number: u32) -> String {
        format!("{:02X}/{:02X}/{number:08X}", number % self.l1, number / self.l1 % self.l2)
    }

    fn folders(&self) -> u32 {
        self.l1 * self.l2
    }

    fn folder(&self, folder: u32) -> String {
        format!("{:02X}/{:02X}", folder / self.l2, folder % self.l2)
    }

    fn folder_of(&self, number: u32) -> u32 {
        number % self.l1 * self.l2 + number / self.l1 % self.l2
    }

    fn numbers_in(&self, folder: u32, limit: u32) -> Vec<u32> {
        let first = folder % self.l2 * self.l1 + folder / self.l2;
        (first..limit).step_by(self.folders() as usize).collect()
    }

    fn number_of(&self, name: &str) -> Option<u32> {
        let number = u32::from_str_radix(name, 16).ok()?;
        (name.len() == 8 && name == format!("{number:08X}")).then_some(number)
    }

    fn make_folders(&self, files: &dyn FileSystem) -> io::Result<()> {
        for x in 0..self.l1 {
            files.make_folder(&format!("{x:02X}"))?;
            for y in 0..self.l2 {
                files.make_folder(&format!("{x:02X}/{y:02X}"))?;
            }
        }
        Ok(())
    }
}

/// Two hexadecimal digits.
const LEVEL_MAX: u32 = 256;
const FILES_PER_FOLDER: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::Memory;

    #[test]
    fn paths_follow_the_papers_formula() {
        let naming = Squid::with([16, 256]).unwrap();
        for (number, path) in [
            (0, "00/00/00000000"),
            (1, "01/00/00000001"),
            (16, "00/01/00000010"),
            (0x12345, "05/34/00012345"),
        ] {
            assert_eq!(naming.path(number), path);
            assert_eq!(
                naming.path(number),
                format!("{}/{number:08X}", naming.folder(naming.folder_of(number)))
            );
        }
    }

    #[test]
    fn every_number_is_in_exactly_one_folder() {
        for naming in [Squid::with([3, 5]).unwrap(), Squid::for_objects(1), Squid::for_objects(100_000)] {
            let mut seen = vec![0; 2000];
            for folder in 0..naming.folders() {
                for number in naming.numbers_in(folder, 2000) {
                    assert_eq!(naming.folder_of(number), folder);
                    seen[number as usize] += 1;
                }
            }
            assert!(seen.iter().all(|count| *count == 1), "{naming:?}");
        }
    }

    #[test]
    fn only_our_own_names_have_numbers() {
        let naming = Squid::for_objects(9);
        assert_eq!(naming.number_of("0000001F"), Some(31));
        for name in ["", "1F", "0000001f", "+000001F", "00000000000000001F", "readme.txt"] {
            assert_eq!(naming.number_of(name), None, "{name}");
        }
    }

    #[test]
    fn the_folders_on_disk_tell_the_naming() {
        let files = Memory::new(1 << 20);
        assert_eq!(Squid::of_folders(&files), None);
        let naming = Squid::for_objects(100_000);
        naming.make_folders(&files).unwrap();
        assert_eq!(Squid::of_folders(&files), Some(naming));
    }
}
