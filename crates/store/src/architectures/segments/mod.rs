//! Small objects in a memory-mapped file, cut into segments of five sizes (Maltzahn 1999, 2.4.2 to
//! 2.4.4 and 3).
//!
//! ```text
//!  page 0                    page 1
//! ┌────────┬────┬──┬─┬──┬───┬────────────────┬─ …
//! │ 4096   │2048│1K│½│½ │   │ 8192           │
//! └────────┴────┴──┴─┴──┴───┴────────────────┴─ …
//! ```
//! The record in a segment is a complete object file (`crate::object`). The record's room for
//! metadata is stretched so that the record fills the segment. The record's length chooses the
//! segment, and the rest of the segment is room for later metadata. The index's side word says
//! where the record is ([`SegmentLocation`]). An object is a file under its number if its record
//! exceeds the largest segment, or if there is no slot. One index for both makes the replacement of
//! a small object by a large one a single transaction.
//!
//! A record is written by one write, before the index gets its entry. A slot is rewritten only
//! after two conditions hold: the index has let go of the slot's object, and no reader is between
//! lookup and read. A record is read whole, and checked, on opening.

mod file;
mod place;
mod replacement;
mod slots;
mod taking_over;

pub(crate) use place::SegmentLocation;
pub(super) use slots::ClaimedSlot;

use super::files::Core;
use super::pins::AfterUnpin;
use super::seal::Seal;
use crate::Error;
use crate::fs::{File, FileSystem, MappedAccess, Mapping};
use crate::index::{Index, NumberState};
use file::SegmentFile;
use parking_lot::Mutex;
use shoal_policy::{Appender, PAGE_BYTES, Packer, SegmentClass, SegmentLayout};
use slots::{SlotOffer, Slots, SurveyedSlot};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use taking_over::{UNSEALED, take_over};
use tracing::warn;

pub use replacement::SegmentPolicy;

/// Operator's settings of the mapped file, for architectures that have one.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentSettings {
    /// Length in bytes; 0 means a quarter of the disk space. Fixed when the store is made.
    pub bytes: u64,
    /// Choice of the victim when the file is full.
    pub policy: SegmentPolicy,
    /// Way in which the file is accessed.
    pub access: MappedAccess,
}

/// Arrangement of segments in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentAlignment {
    /// Segments follow each other, across pages (`squidm`, `squidml`).
    Appended,
    /// No segment crosses a page (`squidmla`).
    Aligned,
}

/// Mapped file and the owners of its slots.
pub(super) struct Segments {
    mapping: Arc<dyn Mapping>,
    seal: Seal,
    bytes: u64,
    slots: Mutex<Slots>,
    /// Numbers without an object that may still have a file, since no audit has visited them.
    held_back: Mutex<Vec<u32>>,
}

impl Segments {
    /// Opens or makes the mapped file of `bytes` bytes. A file of another length is made again: its
    /// objects become misses.
    pub(super) fn open(
        files: &dyn FileSystem,
        bytes: u64,
        (packing, settings): (SegmentAlignment, SegmentSettings),
        (index, is_sound): (&Index, bool),
        seal: Seal,
    ) -> io::Result<Self> {
        let is_empty = index.totals().objects == 0;
        take_over(files, index, is_sound, seal)?;
        let map = || files.map_for(PATH, bytes, settings.access);
        let mapping = match map() {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                warn!("the file of small objects has been cut short; it is made anew");
                files.unlink(PATH)?;
                map()?
            }
            mapped => mapped?,
        };
        let placement: Box<dyn SegmentLayout> = match packing {
            SegmentAlignment::Appended => Box::new(Appender::default()),
            SegmentAlignment::Aligned => Box::new(Packer::default()),
        };
        let slots = Slots::new(bytes, placement, settings.policy.build(), is_empty);
        Ok(Self {
            mapping: mapping.into(),
            seal,
            bytes,
            slots: Mutex::new(slots),
            held_back: Mutex::default(),
        })
    }

    /// Returns the length of the store's mapped file: of the existing one, or as set.
    pub(super) fn length(files: &dyn FileSystem, settings: &SegmentSettings, disk_bytes: u64) -> u64 {
        let wanted = if settings.bytes == 0 { disk_bytes / DEFAULT_SHARE } else { settings.bytes };
        let wanted = wanted.next_multiple_of(PAGE_BYTES);
        match files.length(PATH).or_else(|_| files.length(UNSEALED)) {
            Ok(length) if length > 0 && length.is_multiple_of(PAGE_BYTES) => {
                if settings.bytes != 0 && length != wanted {
                    warn!(
                        "the file of small objects has {length} bytes and keeps them; {wanted} need a new store"
                    );
                }
                length
            }
            _ => wanted,
        }
    }

    /// Returns a segment as a file.
    fn file(&self, place: SegmentLocation) -> Box<dyn File> {
        Box::new(SegmentFile::new(Arc::clone(&self.mapping), place, Some(self.seal)))
    }

    pub(super) fn hit(&self, number: u32, place: SegmentLocation) {
        self.slots.lock().hit(number, place);
    }

    /// Records that the object of this number has left its place.
    pub(super) fn release(&self, number: u32, place: SegmentLocation) {
        self.slots.lock().release(number, place);
    }

    /// Keeps a busy number from being freed before the audit has ended.
    pub(super) fn hold_back(&self, number: u32) {
        self.held_back.lock().push(number);
    }

    pub(super) fn own(&self, taken: ClaimedSlot, number: u32) {
        self.slots.lock().own(taken, number);
    }

    pub(super) fn give_back(&self, taken: ClaimedSlot, number: u32) {
        self.slots.lock().give_back(taken, number);
    }
}

impl Core {
    /// Returns the place of a number's object in the mapped file, if it is there.
    pub(super) fn place(&self, number: u32) -> Option<(&Segments, SegmentLocation)> {
        self.place_of_side(self.index.side(number))
    }

    pub(super) fn place_of_side(&self, side: u64) -> Option<(&Segments, SegmentLocation)> {
        let segments = self.segments.as_ref()?;
        // A damaged side word may hold any value.
        SegmentLocation::of_side(side)
            .filter(|place| place.end() <= segments.bytes)
            .map(|place| (segments, place))
    }

    /// Opens the bytes of an object, in the mapped file or in its own file.
    pub(super) fn open_bytes(
        &self,
        number: u32,
        side: u64,
        access: crate::fs::Access,
    ) -> io::Result<Box<dyn File>> {
        match self.place_of_side(side) {
            Some((segments, place)) => Ok(segments.file(place)),
            None => self.files.open(&self.naming.path(number, side), access),
        }
    }

    /// Returns the file of a segment that an insert has taken.
    pub(super) fn open_taken(&self, taken: ClaimedSlot) -> Option<Box<dyn File>> {
        self.segments.as_ref().map(|segments| segments.file(taken.place))
    }

    /// Takes a slot for a record of `record_bytes` bytes, and evicts another object where needed.
    /// Returns `None` when the record belongs into a file.
    pub(super) fn take_segment(&self, record_bytes: u64) -> Option<ClaimedSlot> {
        let segments = self.segments.as_ref()?;
        let class = SegmentClass::for_bytes(record_bytes)?;
        for _ in 0..VICTIMS_TRIED {
            let is_resident = |offset| segments.mapping.is_resident(offset);
            let offer = segments.slots.lock().offer(class, |number| !self.pins.in_use(number), is_resident);
            match offer {
                SlotOffer::Taken(taken) => return Some(taken),
                SlotOffer::Nothing => return None,
                SlotOffer::Victim(number, taken) => {
                    let gone = self.give_up_for(segments, number, taken.place);
                    if gone && segments.slots.lock().take(number, taken) {
                        return Some(taken);
                    }
                }
            }
        }
        None
    }

    /// Evicts the object of a number from its place, unless the number has come into use.
    fn give_up_for(&self, segments: &Segments, number: u32, place: SegmentLocation) -> bool {
        match self.index.examine(number) {
            NumberState::Stored(found, _) if SegmentLocation::of_side(found.side) == Some(place) => {
                let retired = self.index.retire_unless(found, || self.pins.in_use(number));
                if retired {
                    self.tally.evictions.fetch_add(1, Relaxed);
                    self.leave_segment(segments, number);
                }
                retired
            }
            // The object is about to become visible, or about to be released.
            NumberState::Busy => false,
            // The number stands for another object now, and the slot has no owner.
            _ => true,
        }
    }

    /// Frees a busy number that had a segment. Before an audit has visited the number, a power loss
    /// may have left a file under it. The number must not be parted from such a file, so it waits.
    pub(super) fn leave_segment(&self, segments: &Segments, number: u32) {
        if self.index.is_measured(number) {
            self.leave(number, AfterUnpin::Free(None));
        } else {
            segments.hold_back(number);
        }
    }

    /// Frees the numbers that waited for an audit.
    pub(super) fn leave_held_back(&self) {
        let Some(segments) = &self.segments else { return };
        for number in std::mem::take(&mut *segments.held_back.lock()) {
            self.leave(number, AfterUnpin::Free(None));
        }
    }

    /// Writes the replacement policy's notes on each object into the index, for the next session.
    /// Before the survey has ended, the notes of an earlier close stay.
    pub(super) fn note_segments(&self) {
        let Some(segments) = &self.segments else { return };
        segments.slots.lock().notes(|number, place, note| {
            if let NumberState::Stored(found, _) = self.index.examine(number)
                && SegmentLocation::of_side(found.side) == Some(place)
            {
                // An object replaced at this moment gets its note at the next close.
                self.index.update_side(found, place.side_noting(note));
            }
        });
    }

    /// Reads the owners of slots from the index, a piece at a time. Returns the number of entries
    /// read; 0 when the survey is complete.
    pub(super) fn survey_segments(&self) -> usize {
        let Some(segments) = &self.segments else { return 0 };
        let Some(start) = segments.slots.lock().survey_from() else { return 0 };
        let numbers_max = self.index.geometry().max_objects;
        let end = start.saturating_add(SURVEY_NUMBERS).min(numbers_max);
        // Under the lock, so that a concurrent release is not lost.
        let mut slots = segments.slots.lock();
        let found = (start..end).filter_map(|number| match self.index.examine(number) {
            NumberState::Stored(found, _) => {
                let (place, note) =
                    (SegmentLocation::of_side(found.side)?, SegmentLocation::note_of_side(found.side));
                Some(SurveyedSlot { place, number, note })
            }
            _ => None,
        });
        let found: Vec<_> = found.collect();
        let misfits = slots.survey(&found, end, end == numbers_max);
        drop(slots);
        for number in misfits {
            if let NumberState::Stored(found, _) = self.index.examine(number) {
                self.drop_entry(found);
            }
        }
        (end - start) as usize
    }
}

/// Returns the error of a store that fails to open its mapped file.
pub(super) fn failed_to_map(error: io::Error) -> Error {
    Error::Unusable(format!("could not make or open the file of small objects: {error}"))
}

/// Name of the mapped file in the store's folder.
pub(super) const PATH: &str = "segments.sealed";
/// Default length of the mapped file: this part of the disk space.
const DEFAULT_SHARE: u64 = 4;
/// Limit of victims found in use before a small object becomes a file.
const VICTIMS_TRIED: usize = 16;
/// Index entries read in one step of the survey.
const SURVEY_NUMBERS: u32 = 4096;
