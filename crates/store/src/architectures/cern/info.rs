//! Metadata file of an object: its full key, the object file's name and length, the caller's
//! metadata.
//!
//! ```text
//! 0          48        48+k       48+k+m
//! ┌──────────┬─────────┬──────────┐
//! │ fixed    │ full    │ metadata │
//! │ 48 bytes │ key     │          │
//! └──────────┴─────────┴──────────┘
//! ```
//! `docs/FORMATS.md` gives the layout byte by byte. The store writes the file under another name
//! and renames it, so that it is always whole.

use crate::fs::{Access, FileSystem, read_full, write_full};
use crate::object::{KEY_MAX, METADATA_MAX};
use bytes::Bytes;
use std::io;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Contents of a metadata file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MetadataFile {
    /// Sequence number, which names the object file.
    pub(super) sequence: u64,
    /// Length of the object file.
    pub(super) file_bytes: u64,
    pub(super) full_key: Bytes,
    pub(super) metadata: Bytes,
}

/// Result of reading a metadata file.
pub(super) enum MetadataLookup {
    /// No file.
    Absent,
    /// Damaged file, or a file of another kind.
    Damaged,
    /// Whole metadata file.
    Info(MetadataFile),
}

impl MetadataFile {
    /// Reads the metadata file of a folder.
    pub(super) fn read(files: &dyn FileSystem, folder: &str) -> io::Result<MetadataLookup> {
        let file = match files.open(&format!("{folder}/{NAME}"), Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(MetadataLookup::Absent),
            Err(error) => return Err(error),
        };
        let mut bytes = vec![0; FIRST_READ];
        let mut length = read_full(&*file, &mut bytes, 0)?;
        if length == FIRST_READ {
            bytes.resize(BYTES_MAX + 1, 0);
            length += read_full(&*file, &mut bytes[FIRST_READ..], FIRST_READ as u64)?;
        }
        bytes.truncate(length);
        Ok(Self::decode(&bytes.into()).map_or(MetadataLookup::Damaged, MetadataLookup::Info))
    }

    /// Replaces the folder's metadata file, whole or not at all.
    pub(super) fn write(&self, files: &dyn FileSystem, folder: &str) -> io::Result<()> {
        let unfinished = format!("{folder}/{UNFINISHED}");
        let mut created = files.create(&unfinished);
        if matches!(&created, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            created = files.unlink(&unfinished).and_then(|()| files.create(&unfinished));
        }
        let written = created
            .and_then(|file| write_full(&*file, &self.encode(), 0))
            .and_then(|()| files.rename(&unfinished, &format!("{folder}/{NAME}")));
        if written.is_err() {
            // The totals do not charge this file. If it stays, the next write removes it.
            let _ = files.unlink(&unfinished);
        }
        written
    }

    /// Returns the length of the metadata file.
    pub(super) fn bytes(&self) -> u64 {
        (FIXED_BYTES + self.full_key.len() + self.metadata.len()) as u64
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes() as usize);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.full_key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.file_bytes.to_le_bytes());
        bytes.extend_from_slice(&(self.metadata.len() as u64).to_le_bytes());
        let check = check_of(&bytes, &self.full_key, &self.metadata);
        bytes.extend_from_slice(&check.to_le_bytes());
        bytes.extend_from_slice(&self.full_key);
        bytes.extend_from_slice(&self.metadata);
        bytes
    }

    fn decode(bytes: &Bytes) -> Option<Self> {
        let fixed = bytes.get(..FIXED_BYTES)?;
        let u64_at = |at: usize| u64::from_le_bytes(fixed[at..at + 8].try_into().expect("eight bytes"));
        let key_bytes = u32::from_le_bytes(fixed[12..16].try_into().expect("four bytes")) as usize;
        let metadata_bytes = usize::try_from(u64_at(32)).ok()?;
        let is_ours = &fixed[..8] == MAGIC && fixed[8..12] == VERSION.to_le_bytes();
        if !is_ours || key_bytes > KEY_MAX as usize || metadata_bytes > METADATA_MAX as usize {
            return None;
        }
        if bytes.len() != FIXED_BYTES + key_bytes + metadata_bytes {
            return None;
        }
        let full_key = bytes.slice(FIXED_BYTES..FIXED_BYTES + key_bytes);
        let metadata = bytes.slice(FIXED_BYTES + key_bytes..);
        let check = check_of(&fixed[..CHECKED_BYTES], &full_key, &metadata);
        (check == u64_at(CHECKED_BYTES)).then_some(Self {
            sequence: u64_at(16),
            file_bytes: u64_at(24),
            full_key,
            metadata,
        })
    }
}

fn check_of(fixed: &[u8], full_key: &[u8], metadata: &[u8]) -> u64 {
    xxh3_64_with_seed(metadata, xxh3_64_with_seed(full_key, xxh3_64(fixed)))
}

/// Name of the metadata file in the URL folder.
pub(super) const NAME: &str = "#meta";
/// Name of the metadata file while it is written.
pub(super) const UNFINISHED: &str = "#meta.new";
const MAGIC: &[u8; 8] = b"SHOALURL";
const VERSION: u32 = 1;
const CHECKED_BYTES: usize = 40;
const FIXED_BYTES: usize = 48;
const FIRST_READ: usize = 4096;
const BYTES_MAX: usize = FIXED_BYTES + KEY_MAX as usize + METADATA_MAX as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_and_every_flipped_bit_is_noticed() {
        let info = MetadataFile {
            sequence: 77,
            file_bytes: 4711,
            full_key: Bytes::from_static(b"http://h/"),
            metadata: Bytes::from_static(b"metadata"),
        };
        let bytes = info.encode();
        assert_eq!(bytes.len() as u64, info.bytes());
        assert_eq!(MetadataFile::decode(&bytes.clone().into()), Some(info));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(MetadataFile::decode(&damaged.into()), None, "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert_eq!(MetadataFile::decode(&bytes[..length].to_vec().into()), None);
        }
    }
}
