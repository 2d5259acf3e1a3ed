//! A segment seen as a file, so that whoever reads and writes object files need not know where they are.

use super::Place;
use crate::door::{File, Mapping};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

/// One segment of the mapped file. Its length is fixed.
pub(super) struct SegmentFile {
    mapping: Arc<dyn Mapping>,
    place: Place,
}

impl SegmentFile {
    pub(super) fn new(mapping: Arc<dyn Mapping>, place: Place) -> Self {
        Self { mapping, place }
    }

    /// Bytes from `offset` to the segment's end.
    fn left(&self, offset: u64) -> usize {
        self.place.bytes().saturating_sub(offset) as usize
    }
}

impl File for SegmentFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = buffer.len().min(self.left(offset));
        if count > 0 {
            self.mapping.read(&mut buffer[..count], self.place.offset() + offset)?;
        }
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if bytes.len() > self.left(offset) {
            return Err(Errno::FBIG.into());
        }
        self.mapping.write(bytes, self.place.offset() + offset)?;
        Ok(bytes.len())
    }

    fn set_length(&self, _bytes: u64) -> io::Result<()> {
        Err(Errno::INVAL.into())
    }

    /// The mapped file is brought to disk with the file system.
    fn sync(&self) -> io::Result<()> {
        Err(Errno::INVAL.into())
    }
}
