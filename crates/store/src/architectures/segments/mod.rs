//! Small objects in a memory-mapped file, cut into segments of five sizes (Maltzahn 1999, 2.4.2 to
//! 2.4.4 and 3).
//!
//! ```text
//!  page 0                    page 1
//! ┌────────┬────┬──┬─┬──┬───┬────────────────┬─ …
//! │ 4096   │2048│1K│½│½ │   │ 8192           │
//! └────────┴────┴──┴─┴──┴───┴────────────────┴─ …
//! ```
//! The record in a segment is an object file as it stands (`crate::object`), its room for metadata
//! stretched so that it fills the segment: so the record's length chooses the segment, and what the
//! segment leaves over is room for later metadata. The index's side word says where the record is
//! ([`SegmentLocation`]); objects whose record does not fit into the largest segment, or for which
//! there is no slot, are files under the same numbers. One index for both makes it one transaction
//! to replace a small object by a large one.
//!
//! A record is written by one write, before the index learns of it. A slot is written anew only
//! after the index has let go of the object that had it, and no reader is between lookup and read:
//! a record is read whole, and checked, on opening.

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
use crate::fs::{File, FileSystem, Mapping};
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

/// How an operator wants the mapped file, where the architecture has one.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentSettings {
    /// Its length in bytes; 0 means a quarter of the disk space. Fixed when the store is made.
    pub bytes: u64,
    /// Who gives up its slot when the file is full.
    pub policy: SegmentPolicy,
}

/// How segments follow each other in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// One after the other, across pages (`squidm`, `squidml`).
    Appended,
    /// None crosses a page (`squidmla`).
    Aligned,
}

/// The mapped file and who has what of it.
pub(super) struct Segments {
    mapping: Arc<dyn Mapping>,
    seal: Seal,
    bytes: u64,
    slots: Mutex<Slots>,
    /// Numbers whose objects are gone, and under which a file may be that an audit has not seen
    /// yet.
    held_back: Mutex<Vec<u32>>,
}

impl Segments {
    /// Opens the mapped file of so many bytes, or makes it. One of another length is of no use, and
    /// made anew: its objects become misses.
    pub(super) fn open(
        files: &dyn FileSystem,
        bytes: u64,
        (packing, policy): (Packing, SegmentPolicy),
        (index, is_sound): (&Index, bool),
        seal: Seal,
    ) -> io::Result<Self> {
        let is_empty = index.totals().objects == 0;
        take_over(files, index, is_sound, seal)?;
        let mapping = match files.map(PATH, bytes) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                warn!("the file of small objects has been cut short; it is made anew");
                files.unlink(PATH)?;
                files.map(PATH, bytes)?
            }
            mapped => mapped?,
        };
        let placement: Box<dyn SegmentLayout> = match packing {
            Packing::Appended => Box::new(Appender::default()),
            Packing::Aligned => Box::new(Packer::default()),
        };
        let slots = Slots::new(bytes, placement, policy.build(), is_empty);
        Ok(Self {
            mapping: mapping.into(),
            seal,
            bytes,
            slots: Mutex::new(slots),
            held_back: Mutex::default(),
        })
    }

    /// The length of the mapped file of a store: of the one that is there, or as wanted.
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

    /// A segment as a file.
    fn file(&self, place: SegmentLocation) -> Box<dyn File> {
        Box::new(SegmentFile::new(Arc::clone(&self.mapping), place, Some(self.seal)))
    }

    pub(super) fn hit(&self, number: u32, place: SegmentLocation) {
        self.slots.lock().hit(number, place);
    }

    /// The object of this number has left its place.
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
    /// Where in the mapped file the object of a number is, if it is there.
    pub(super) fn place(&self, number: u32) -> Option<(&Segments, SegmentLocation)> {
        self.place_of_side(self.index.side(number))
    }

    pub(super) fn place_of_side(&self, side: u64) -> Option<(&Segments, SegmentLocation)> {
        let segments = self.segments.as_ref()?;
        // A damaged side word may say anything.
        SegmentLocation::of_side(side)
            .filter(|place| place.end() <= segments.bytes)
            .map(|place| (segments, place))
    }

    /// Opens the bytes of an object, wherever they are.
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

    /// The file of a segment that an insert has taken.
    pub(super) fn open_taken(&self, taken: ClaimedSlot) -> Option<Box<dyn File>> {
        self.segments.as_ref().map(|segments| segments.file(taken.place))
    }

    /// A slot for a record of so many bytes, given up by another object where needed. `None` when
    /// the record belongs into a file.
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

    /// Takes the object of a number out of its place, unless somebody has begun to use it.
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
            // About to be found, or about to be let go.
            NumberState::Busy => false,
            // The number has come to mean something else; the slot is nobody's.
            _ => true,
        }
    }

    /// Frees a busy number that had a segment. Before an audit has seen it there may be a file
    /// under it, left by a power loss, which the number must not be parted from: then it waits.
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

    /// Notes in the index what replacement knows of each object, for the next session. Notes of an
    /// earlier close stay where nothing better is known: before the survey has ended.
    pub(super) fn note_segments(&self) {
        let Some(segments) = &self.segments else { return };
        segments.slots.lock().notes(|number, place, note| {
            if let NumberState::Stored(found, _) = self.index.examine(number)
                && SegmentLocation::of_side(found.side) == Some(place)
            {
                // One that is replaced at this very moment is noted at the next close.
                self.index.update_side(found, place.side_noting(note));
            }
        });
    }

    /// Learns from the index who has which slot, a piece at a time. Returns how many entries it
    /// looked at; 0 when nothing is left to learn.
    pub(super) fn survey_segments(&self) -> usize {
        let Some(segments) = &self.segments else { return 0 };
        let Some(start) = segments.slots.lock().survey_from() else { return 0 };
        let numbers_max = self.index.geometry().max_objects;
        let end = start.saturating_add(SURVEY_NUMBERS).min(numbers_max);
        // Under the lock, so that what is let go meanwhile is not forgotten.
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

/// Why there is no store without the mapped file.
pub(super) fn failed_to_map(error: io::Error) -> Error {
    Error::Unusable(format!("could not make or open the file of small objects: {error}"))
}

/// The mapped file's name in the store's folder.
pub(super) const PATH: &str = "segments.sealed";
/// The mapped file takes this part of the disk space, unless set otherwise.
const DEFAULT_SHARE: u64 = 4;
/// Victims that turn out to be in use before a small object becomes a file.
const VICTIMS_TRIED: usize = 16;
/// Index entries looked at in one step of the survey.
const SURVEY_NUMBERS: u32 = 4096;
