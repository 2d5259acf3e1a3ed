//! Disk space: charges of files, eviction to make room, and removal of files.

use super::files::Core;
use super::pins::AfterUnpin;
use super::released::ReleasedFilePool;
use super::segments;
use crate::fs::Access;
use crate::index::{Charge, Claim, HandStep, Index};
use crate::{Error, InsertRefusal};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use tracing::warn;

/// Returns the blocks that a file of `file_bytes` bytes is charged. A long file takes blocks for
/// the addresses of its data: at worst one for each 1024 data blocks beyond the first twelve, which
/// the inode itself addresses.
pub(super) fn blocks_of(file_bytes: u64, block_bytes: u64) -> u64 {
    let data = file_bytes.div_ceil(block_bytes).max(1);
    data + if data > 12 { 1 + data / 1024 } else { 0 }
}

impl Core {
    /// Returns the path of the file that a number has now. For a number with a segment the text is
    /// for people only.
    pub(super) fn path(&self, number: u32) -> String {
        match self.place(number) {
            Some((_, place)) => format!("{}, byte {}", segments::PATH, place.offset()),
            None => self.naming.path(number, self.index.side(number)),
        }
    }

    /// Returns the blocks that a file of `file_bytes` bytes is charged.
    pub(super) fn blocks(&self, file_bytes: u64) -> u64 {
        blocks_of(file_bytes, u64::from(self.index.geometry().block_bytes))
    }

    /// Claims a number for a new object with this side word and `blocks` blocks. Evicts another
    /// object when all numbers are in use.
    pub(super) fn claim(&self, side: u64, blocks: u64) -> Result<ClaimedNumber, Error> {
        let mut passed = 0;
        if self.released.as_ref().is_some_and(|released| released.len() == 0) && !self.index.has_room(blocks)
        {
            // An object has to be evicted in any case, so it is evicted now: its file is the one to
            // overwrite. If no object can be evicted, the charge fails and reports it.
            let _ = self.give_up_one(&mut passed, EvictionReason::Space);
        }
        loop {
            if let Some(claimed) = self.claim_released(side) {
                return Ok(claimed);
            }
            match self.index.claim(side) {
                Claim::Number(number) => return Ok(ClaimedNumber { number, overwritten: None }),
                Claim::Crowded => return Err(Error::Declined(InsertRefusal::NoSpace)),
                Claim::Exhausted => self.give_up_one(&mut passed, EvictionReason::Number)?,
            }
        }
    }

    /// Claims the number of a file to overwrite. While the store has room, a lower number that is
    /// free goes first, so that no folder is used without need. In a full store a number without a
    /// file would cost a file made, and later one removed.
    fn claim_released(&self, side: u64) -> Option<ClaimedNumber> {
        let released = self.released.as_ref()?;
        let lower =
            if is_nearly_full(&self.index, released.len() as u64) { None } else { self.index.lowest_free() };
        let (number, file) = released.take_lowest(lower)?;
        let blocks = self.index.reuse(number, side)?;
        Some(ClaimedNumber { number, overwritten: Some(OverwrittenFile { blocks, is_empty: file.is_empty }) })
    }

    /// Charges a busy number `blocks` blocks in total, and evicts other objects to make room.
    pub(super) fn charge(&self, number: u32, blocks: u64) -> Result<(), Error> {
        let blocks = u32::try_from(blocks).map_err(|_| Error::Declined(InsertRefusal::TooLarge))?;
        if u64::from(blocks) > self.index.limit_blocks() {
            return Err(Error::Declined(InsertRefusal::TooLarge));
        }
        let mut passed = 0;
        loop {
            match self.index.charge(number, blocks) {
                Charge::Done => return Ok(()),
                Charge::Full => self.give_up_one(&mut passed, EvictionReason::Space)?,
                Charge::AtCeiling => self
                    .index
                    .raise_ceiling(u64::from(blocks))
                    .map_err(|source| self.disk_failed("write the index", source))?,
            }
        }
    }

    /// Evicts one object, or takes the space of a file that waits to be overwritten. `passed`
    /// counts the entries that the hand passed in vain, over several calls.
    pub(super) fn give_up_one(&self, passed: &mut u64, need: EvictionReason) -> Result<(), Error> {
        if let Some(number) = self.released.as_ref().and_then(ReleasedFilePool::take_full) {
            return self.empty(number).map_err(|_| Error::Declined(InsertRefusal::NoSpace));
        }
        if let Some(number) = self.worth_least() {
            self.tally.evictions.fetch_add(1, Relaxed);
            return self.dispose(number).map_err(|_| Error::Declined(InsertRefusal::NoSpace));
        }
        let enough = self.index.round() * (self.index.rounds_max() + 1);
        while *passed <= enough {
            // An object in a segment takes no blocks: its eviction frees no space.
            let is_of_no_use = |number| need == EvictionReason::Space && self.place(number).is_some();
            match self.index.sweep(|number| self.pins.in_use(number) || is_of_no_use(number)) {
                HandStep::Victim(number) => {
                    self.note_gone(number);
                    self.tally.evictions.fetch_add(1, Relaxed);
                    // Without the file's space nothing is gained, and evicting more objects would
                    // not help.
                    return self.dispose(number).map_err(|_| Error::Declined(InsertRefusal::NoSpace));
                }
                HandStep::Reclaimed => {
                    *passed += 1;
                    return Ok(());
                }
                HandStep::Passed(0) => break,
                HandStep::Passed(count) => *passed += u64::from(count),
            }
        }
        match self.released.as_ref().and_then(ReleasedFilePool::take_highest) {
            Some(number) => self.discard(number).map_err(|_| Error::Declined(InsertRefusal::NoSpace)),
            None => Err(Error::Declined(InsertRefusal::NoSpace)),
        }
    }

    /// Lets go of the file of a busy number. The file waits to be overwritten, in architectures
    /// that overwrite files, or is removed.
    pub(super) fn dispose(&self, number: u32) -> io::Result<()> {
        if self.released.is_none() || !self.index.is_measured(number) {
            return self.discard(number);
        }
        self.leave(number, AfterUnpin::Release);
        Ok(())
    }

    /// Carries out the fate that was left to the last user of a number.
    pub(super) fn finish_unpin(&self, number: u32, fate: AfterUnpin) {
        match fate {
            AfterUnpin::Free(measured) => self.index.free(number, measured),
            AfterUnpin::Release => self.release(number),
        }
    }

    fn release(&self, number: u32) {
        if !self.released.as_ref().is_some_and(|released| released.put(number, false)) {
            // A failure of the file has been logged.
            let _ = self.discard(number);
        }
    }

    /// Takes the space of a file that waits to be overwritten.
    fn empty(&self, number: u32) -> io::Result<()> {
        let opened = self.files.open(&self.path(number), Access::Write);
        let emptied = opened.and_then(|file| file.set_length(0));
        let is_done = emptied.is_ok()
            && self.index.charge(number, self.blocks(0) as u32) == Charge::Done
            && self.released.as_ref().is_some_and(|released| released.put(number, true));
        if is_done { Ok(()) } else { self.discard(number) }
    }

    /// Removes all files that wait to be overwritten.
    pub(super) fn discard_released(&self) {
        while let Some(number) = self.released.as_ref().and_then(ReleasedFilePool::take_highest) {
            // A failure of the file has been logged.
            let _ = self.discard(number);
        }
    }

    /// Lets go of files that have waited for a while. A full store empties them, since its next
    /// objects need files; a store with room removes them. Returns their number.
    pub(super) fn discard_lingering(&self, most: usize) -> usize {
        let Some(released) = &self.released else { return 0 };
        let is_full = is_nearly_full(&self.index, released.len() as u64);
        let numbers = released.take_lingering(most, is_full);
        for number in &numbers {
            // A failure of the file has been logged.
            let _ = if is_full { self.empty(*number) } else { self.discard(*number) };
        }
        numbers.len()
    }

    /// Removes the file of a busy number and frees the number, or leaves the freeing to the
    /// number's last reader. If the removal fails, the number stays busy and charged, and the next
    /// opening tries again.
    pub(super) fn discard(&self, number: u32) -> io::Result<()> {
        if let Some((segments, place)) = self.place(number) {
            segments.release(number, place);
            self.leave_segment(segments, number);
            return Ok(());
        }
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
        self.leave(number, AfterUnpin::Free(measured));
        Ok(())
    }

    /// Leaves a fate to the last user of a number, or carries it out when the number has no user.
    pub(super) fn leave(&self, number: u32, fate: AfterUnpin) {
        if !self.pins.leave_to_last_user(number, fate) {
            self.finish_unpin(number, fate);
        }
    }
}

/// Returns `true` if less than an eighth of the space, or of the numbers, is free: an object of
/// unknown length reserves more than it takes. `waiting` numbers have files that wait.
fn is_nearly_full(index: &Index, waiting: u64) -> bool {
    let totals = index.totals();
    let is_reached = |used: u64, limit: u64| used >= limit - limit / 8;
    debug_assert!(waiting <= u64::from(index.geometry().berths), "a number that waits has a berth");
    is_reached(totals.blocks, index.limit_blocks())
        || is_reached(totals.objects + waiting, u64::from(index.geometry().max_objects))
}

/// Resource that an eviction must provide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EvictionReason {
    Space,
    Number,
}

/// Number claimed for a new object.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimedNumber {
    pub(super) number: u32,
    /// File to be overwritten, if any.
    pub(super) overwritten: Option<OverwrittenFile>,
}

/// File of an earlier object that a new one overwrites.
#[derive(Clone, Copy, Debug)]
pub(super) struct OverwrittenFile {
    /// Blocks charged already.
    pub(super) blocks: u32,
    /// `true` for a file of length zero.
    pub(super) is_empty: bool,
}
