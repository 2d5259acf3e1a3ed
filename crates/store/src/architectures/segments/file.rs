//! View of a segment as a file, so that the code for object files works on both.
//!
//! In the mapped file the check of the header is sealed: a body taken for a record by mistake never
//! has the right check for its place. Reads and writes through this view see the object file as it
//! is specified.

use super::super::seal::Seal;
use super::SegmentLocation;
use crate::fs::{File, Mapping};
use crate::object::HEADER_CHECK;
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

/// One segment of the mapped file, with a fixed length.
pub(super) struct SegmentFile {
    mapping: Arc<dyn Mapping>,
    place: SegmentLocation,
    /// `None` in a file of an earlier version.
    seal: Option<Seal>,
}

impl SegmentFile {
    pub(super) fn new(mapping: Arc<dyn Mapping>, place: SegmentLocation, seal: Option<Seal>) -> Self {
        Self { mapping, place, seal }
    }

    /// Returns the bytes from `offset` to the segment's end.
    fn left(&self, offset: u64) -> usize {
        self.place.bytes().saturating_sub(offset) as usize
    }

    /// Converts between the bytes in the mapped file and the bytes of the view. `bytes` begin at
    /// `offset`.
    fn turn(&self, bytes: &mut [u8], offset: u64) {
        let Some(seal) = self.seal.filter(|_| offset < HEADER_CHECK.end as u64) else { return };
        let mask = seal.check(self.place.offset()).to_le_bytes();
        for (at, mask) in HEADER_CHECK.zip(mask) {
            let byte = at.checked_sub(offset as usize).and_then(|at| bytes.get_mut(at));
            byte.into_iter().for_each(|byte| *byte ^= mask);
        }
    }
}

impl File for SegmentFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = buffer.len().min(self.left(offset));
        if count > 0 {
            self.mapping.read(&mut buffer[..count], self.place.offset() + offset)?;
            self.turn(&mut buffer[..count], offset);
        }
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if bytes.len() > self.left(offset) {
            return Err(Errno::FBIG.into());
        }
        let mut sealed = bytes.to_vec();
        self.turn(&mut sealed, offset);
        self.mapping.write(&sealed, self.place.offset() + offset)?;
        Ok(bytes.len())
    }

    fn set_length(&self, _bytes: u64) -> io::Result<()> {
        Err(Errno::INVAL.into())
    }

    /// Fails: syncing the file system writes the mapped file to disk.
    fn sync(&self) -> io::Result<()> {
        Err(Errno::INVAL.into())
    }
}
