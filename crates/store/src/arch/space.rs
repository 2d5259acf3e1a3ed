//! Space: how much a file is charged, how room is made, how files leave.

use super::files::Core;
use crate::index::{Charge, Claim, Swept};
use crate::{Declined, Error};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use tracing::warn;

/// Blocks that a file of so many bytes is charged. Beside its data, a long file takes blocks that say where the data
/// is: one for each 1024 blocks of data at worst, beyond the first twelve, which the inode knows itself.
pub(super) fn blocks_of(file_bytes: u64, block_bytes: u64) -> u64 {
    let data = file_bytes.div_ceil(block_bytes).max(1);
    data + if data > 12 { 1 + data / 1024 } else { 0 }
}

impl Core {
    /// The path of the file that a number has now.
    pub(super) fn path(&self, number: u32) -> String {
        self.naming.path(number, self.index.side(number))
    }

    /// Blocks that a file of so many bytes is charged.
    pub(super) fn blocks(&self, file_bytes: u64) -> u64 {
        blocks_of(file_bytes, u64::from(self.index.geometry().block_bytes))
    }

    /// A number for a new object with this side word, giving up another when all are in use.
    pub(super) fn claim(&self, side: u64) -> Result<u32, Error> {
        let mut passed = 0;
        loop {
            match self.index.claim(side) {
                Claim::Number(number) => return Ok(number),
                Claim::Crowded => return Err(Error::Declined(Declined::NoSpace)),
                Claim::Exhausted => self.give_up_one(&mut passed)?,
            }
        }
    }

    /// Charges a busy number so many blocks in all, giving up other objects to make room.
    pub(super) fn charge(&self, number: u32, blocks: u64) -> Result<(), Error> {
        let blocks = u32::try_from(blocks).map_err(|_| Error::Declined(Declined::TooLarge))?;
        if u64::from(blocks) > self.index.limit_blocks() {
            return Err(Error::Declined(Declined::TooLarge));
        }
        let mut passed = 0;
        loop {
            match self.index.charge(number, blocks) {
                Charge::Done => return Ok(()),
                Charge::Full => self.give_up_one(&mut passed)?,
                Charge::AtCeiling => self
                    .index
                    .raise_ceiling(u64::from(blocks))
                    .map_err(|source| self.disk_failed("write the index", source))?,
            }
        }
    }

    /// Gives up one object. `passed` counts over several calls what the hand has passed in vain.
    pub(super) fn give_up_one(&self, passed: &mut u64) -> Result<(), Error> {
        let enough = self.index.round() * (self.index.rounds_max() + 1);
        while *passed <= enough {
            match self.index.sweep(|number| self.pins.in_use(number)) {
                Swept::Victim(number) => {
                    self.tally.evictions.fetch_add(1, Relaxed);
                    // Without the file's space nothing is gained; giving up more objects would not help.
                    return self.dispose(number).map_err(|_| Error::Declined(Declined::NoSpace));
                }
                Swept::Reclaimed => {
                    *passed += 1;
                    return Ok(());
                }
                Swept::Passed(0) => break,
                Swept::Passed(count) => *passed += u64::from(count),
            }
        }
        Err(Error::Declined(Declined::NoSpace))
    }

    /// Removes the file of a busy number and frees the number, or leaves that to who still reads it. When the file
    /// cannot be removed the number stays busy and charged; the next opening tries again.
    pub(super) fn dispose(&self, number: u32) -> io::Result<()> {
        let path = self.path(number);
        let measured = (!self.index.is_measured(number))
            .then(|| self.files.length(&path).map_or(0, |length| self.blocks(length)));
        match self.files.unlink(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                if self.said.unlink.first() {
                    warn!(%error, path, "could not remove an object file; its space stays taken");
                }
                return Err(error);
            }
        }
        if !self.pins.doom(number, measured) {
            self.index.free(number, measured);
        }
        Ok(())
    }
}
