//! How objects kept as files are named: which number a new one gets, in which folder it stands,
//! what its path is.
//!
//! | naming | path of object n | number of a new object |
//! |---|---|---|
//! | [`Squid`] | n mod l1 / (n/l1 mod l2) / n | the one freed last |
//! | [`Clustered`] | n/(k·l2) / (n/k mod l2) / n mod k | the next counting up, or the lowest |
//! | [`ByHost`] | h(host) ∧ m_l1 / h(host) ∧ m_l2 / n | the lowest |

mod by_host;
mod clustered;
mod squid;
#[cfg(test)]
mod tests;
mod url;

pub use by_host::ByHost;
pub use clustered::Clustered;
pub use squid::Squid;

use crate::fs::FileSystem;
use crate::index::Numbers;
use std::io;

/// The part of a cache architecture that names its files.
pub trait Naming: Send + Sync {
    /// What the index keeps, so that a store is opened again with the naming that made it.
    fn parameters(&self) -> [u32; 4];

    /// Which free number a new object gets.
    fn numbers(&self) -> Numbers;

    /// Whether a path needs more than the number.
    fn needs_sides(&self) -> bool {
        false
    }

    /// What the path of an object with this full key needs beside the number: its side word in the
    /// index.
    fn side(&self, _full_key: &[u8]) -> u64 {
        0
    }

    /// The path of a file. Any side word leads to one of the folders.
    fn path(&self, number: u32, side: u64) -> String;

    /// Number of folders that may hold files.
    fn folders(&self) -> u32;

    /// The path of one of them.
    fn folder(&self, folder: u32) -> String;

    /// The number and the side word that a file of this name in this folder has; `None` for files
    /// that are not ours. It may be out of place: then [`Naming::path`] of these is another.
    fn file_at(&self, folder: u32, name: &str) -> Option<(u32, u64)>;

    /// Most objects for which there are folders.
    fn objects_max(&self) -> u64 {
        u64::MAX
    }

    /// Blocks that the folders take at most, when they hold so many files.
    fn folder_blocks(&self, max_objects: u64, block_bytes: u64) -> u64;

    /// Makes the folders that are there from the beginning; others are made when the first file
    /// comes into them.
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

/// The number that a name of so many hexadecimal digits stands for; `None` for other names.
fn number_of(name: &str, digits: usize) -> Option<u32> {
    let is_ours = name.len() == digits && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'));
    is_ours.then(|| u32::from_str_radix(name, 16).ok())?
}

/// Blocks of a folder with so many entries of 24 bytes (8 of name, the rest bookkeeping and slack).
fn blocks_of_folder(entries: u64, block_bytes: u64) -> u64 {
    (entries * 24).div_ceil(block_bytes).max(1)
}

/// Two hexadecimal digits.
const LEVEL_MAX: u32 = 256;
/// Mean number of files in a folder, where the naming does not say.
const FILES_PER_FOLDER: u32 = 256;
