//! Naming of objects kept as files: the number of a new object, its folder, and its path.
//!
//! | naming | path of object n | number of a new object |
//! |---|---|---|
//! | [`Squid`] | n mod l1 / (n/l1 mod l2) / n | the one freed last |
//! | [`ClusteredNaming`] | n/(k·l2) / (n/k mod l2) / n mod k | the next one up, or the lowest |
//! | [`ByHost`] | h(host) ∧ m_l1 / h(host) ∧ m_l2 / n | the lowest |

mod by_host;
mod clustered;
mod squid;
#[cfg(test)]
mod tests;
mod url;

pub use by_host::ByHost;
pub use clustered::ClusteredNaming;
pub use squid::Squid;

use crate::fs::FileSystem;
use crate::index::Numbers;
use std::io;

/// Part of a cache architecture that names its files.
pub trait Naming: Send + Sync {
    /// Returns the parameters that the index keeps, so that a reopened store gets the naming that
    /// made it.
    fn parameters(&self) -> [u32; 4];

    /// Returns the order in which new objects take free numbers.
    fn numbers(&self) -> Numbers;

    /// Returns `true` if a path needs more than the number.
    fn needs_sides(&self) -> bool {
        false
    }

    /// Returns the side word that the index keeps for an object with this full key. The path needs
    /// it beside the number.
    fn side(&self, _full_key: &[u8]) -> u64 {
        0
    }

    /// Returns the path of a file. Any side word leads to one of the folders.
    fn path(&self, number: u32, side: u64) -> String;

    /// Returns the number of folders that may hold files.
    fn folders(&self) -> u32;

    /// Returns the path of one folder.
    fn folder(&self, folder: u32) -> String;

    /// Returns the number and the side word of a file with this name in this folder; `None` for
    /// foreign files. For a file out of place, [`Naming::path`] of the result is another path.
    fn file_at(&self, folder: u32, name: &str) -> Option<(u32, u64)>;

    /// Returns the limit of objects for which there are folders.
    fn objects_max(&self) -> u64 {
        u64::MAX
    }

    /// Returns the most blocks that the folders take with `max_objects` files.
    fn folder_blocks(&self, max_objects: u64, block_bytes: u64) -> u64;

    /// Makes the folders that exist from the beginning. Other folders are made with their first
    /// file.
    fn make_folders(&self, _files: &dyn FileSystem) -> io::Result<()> {
        Ok(())
    }
}

/// Makes the folders above a file.
pub(super) fn make_folders_above(files: &dyn FileSystem, path: &str) -> io::Result<()> {
    for (end, _) in path.match_indices('/') {
        files.make_folder(&path[..end])?;
    }
    Ok(())
}

/// Returns the number for a name of `digits` hexadecimal digits; `None` for other names.
fn number_of(name: &str, digits: usize) -> Option<u32> {
    let is_ours = name.len() == digits && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'));
    is_ours.then(|| u32::from_str_radix(name, 16).ok())?
}

/// Returns the blocks of a folder with `entries` entries of 24 bytes (8 of name, the rest
/// bookkeeping and slack).
fn blocks_of_folder(entries: u64, block_bytes: u64) -> u64 {
    (entries * 24).div_ceil(block_bytes).max(1)
}

/// Two hexadecimal digits.
const LEVEL_MAX: u32 = 256;
/// Mean number of files in a folder, for namings without a setting.
const FILES_PER_FOLDER: u32 = 256;
