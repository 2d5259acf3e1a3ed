//! Repair in small steps: compares the index with the files on disk.
//!
//! One walk serves three needs:
//!
//! - after a power loss, when entries and files differ in age;
//! - after damage to some entries;
//! - after the loss of the whole index: the walk fills an empty index from the headers of the
//!   files.
//!
//! The walk goes through the folders first, to find files that the index does not know. The walk
//! then goes through the numbers, to find objects without a file. Lookups and inserts go on
//! meanwhile; an object not yet visited is a miss. The walk verifies no contents: each read of a
//! body does that.

use super::files::Core;
use crate::fs::Access;
use crate::index::{IndexedObject, NumberState, Step};
use crate::object::{ObjectHeader, read_head};
use shoal_core::Key;
use std::io::ErrorKind::NotFound;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

impl Core {
    /// Does one step of an audit. Returns the number of files and objects visited.
    pub(super) fn repair(&self, step: &Step) -> usize {
        match step {
            Step::Folder(folder) => self.survey_folder(*folder),
            Step::Numbers(numbers) => self.repair_numbers(numbers.clone()),
        }
    }

    /// Repairs the files in a folder that have no good entry in the index.
    fn survey_folder(&self, folder: u32) -> usize {
        let path = self.naming.folder(folder);
        let objects_max = self.index.geometry().max_objects;
        let names = match self.files.list(&path, objects_max as usize + STRANGERS_MAX) {
            Ok(names) => names,
            // The store makes folders on demand.
            Err(error) if error.kind() == NotFound => return 0,
            Err(error) => {
                self.disk_failed("list a folder of the store", error);
                return 0;
            }
        };
        for name in &names {
            // A file with any other name is not the store's.
            let Some((number, side)) = self.naming.file_at(folder, name) else { continue };
            let file = format!("{path}/{name}");
            if number < objects_max && self.naming.path(number, side) == file {
                self.repair_file(number, side, &file);
            } else {
                self.remove_stray(&file);
            }
        }
        names.len()
    }

    /// Repairs a file in a place where an object may be.
    fn repair_file(&self, number: u32, side: u64, path: &str) {
        // While the number is pinned, a number in use stays with its object, and a file elsewhere
        // cannot become its file.
        self.pins.pin(number);
        match self.index.examine(number) {
            // The number's own file. Two side words may stand for one folder.
            NumberState::Busy | NumberState::Stored(..) if self.path(number) == path => {}
            NumberState::Busy => self.remove_stray(path),
            NumberState::Stored(found, key) => self.repair_misplaced(found, key, side, path),
            NumberState::Free | NumberState::Damaged | NumberState::Abandoned => {
                self.repair_unknown(number, side)
            }
        }
        self.unpin(number);
    }

    /// Repairs a file in another folder than the entry of its number says.
    fn repair_misplaced(&self, found: IndexedObject, key: Key, side: u64, path: &str) {
        let is_at_home = match self.place_of_side(found.side) {
            Some(_) => self.header(found.number).is_some_and(|header| header.key == key),
            None => self.files.length(&self.naming.path(found.number, found.side)).is_ok(),
        };
        let is_its_file = self.header_of(path, found.number).is_some_and(|header| header.key == key);
        if is_at_home || !is_its_file || !self.index.update_side(found, side) {
            self.remove_stray(path);
        }
    }

    fn remove_stray(&self, path: &str) {
        if let Err(error) = self.files.unlink(path) {
            self.disk_failed("remove a file that is out of place", error);
        }
    }

    /// Repairs the index's entries of some numbers. The files of these numbers have been surveyed.
    fn repair_numbers(&self, numbers: Range<u32>) -> usize {
        let mut objects = 0;
        for number in numbers {
            match self.index.examine(number) {
                NumberState::Busy => {}
                NumberState::Stored(found, key) => {
                    objects += 1;
                    self.repair_stored(found, key);
                }
                NumberState::Free => self.index.list_if_lost(number),
                NumberState::Damaged | NumberState::Abandoned => {
                    self.repair_unknown(number, self.index.side(number))
                }
            }
        }
        objects
    }

    /// Repairs an entry that looks whole: its file must exist, its charge must be right, and its
    /// key must lead to it.
    fn repair_stored(&self, found: IndexedObject, key: Key) {
        if self.place_of_side(found.side).is_some() {
            return self.repair_in_segment(found, key);
        }
        match self.files.length(&self.naming.path(found.number, found.side)) {
            Ok(length) => {
                let blocks = u32::try_from(self.blocks(length)).unwrap_or(u32::MAX);
                if let Some(rival) = self.index.confirm(found, blocks) {
                    self.resolve_duplicates(found, rival, blocks);
                }
            }
            Err(error) if error.kind() == NotFound => self.drop_entry(found),
            Err(error) => drop(self.disk_failed("look at an object file", error)),
        }
    }

    /// Repairs an object in the mapped file: its record must be there.
    fn repair_in_segment(&self, found: IndexedObject, key: Key) {
        match self.header(found.number) {
            Some(header) if header.key == key => {
                if let Some(rival) = self.index.confirm(found, 0) {
                    self.resolve_duplicates(found, rival, 0);
                }
            }
            _ => self.drop_entry(found),
        }
    }

    /// Keeps the later of two objects with one key.
    fn resolve_duplicates(&self, found: IndexedObject, rival: IndexedObject, blocks: u32) {
        let sequence = |found: IndexedObject| self.header(found.number).map(|header| header.sequence);
        if sequence(found) > sequence(rival) {
            self.drop_entry(rival);
            self.index.confirm(found, blocks);
        } else {
            self.drop_entry(found);
        }
    }

    /// Repairs a number without a good entry. A whole object that is not superseded is adopted; any
    /// other file is removed.
    fn repair_unknown(&self, number: u32, side: u64) {
        if !self.index.claim_number(number, side) {
            return;
        }
        // Only the index tells which object owns a segment; an object that it does not know is a
        // miss.
        if self.place_of_side(side).is_some() || !self.adopt(number) {
            // A failure of the file has been logged.
            let _ = self.discard(number);
        }
    }

    fn adopt(&self, number: u32) -> bool {
        let Some(header) = self.header(number) else { return false };
        if self.files.length(&self.path(number)).ok() != Some(header.file_bytes()) {
            return false;
        }
        let known = self.index.peek(header.key, |number| self.pins.pin(number));
        if let Some(known) = known {
            let sequence = self.header(known.number).map(|header| header.sequence);
            self.unpin(known.number);
            if sequence >= Some(header.sequence) {
                return false;
            }
        }
        let Ok(blocks) = u32::try_from(self.blocks(header.file_bytes())) else { return false };
        let Ok(older) = self.index.adopt(number, header.key, blocks) else { return false };
        self.note_stored(number, &older);
        for number in older {
            // A failure of the file has been logged.
            let _ = self.discard(number);
        }
        true
    }

    /// Returns the header of a file, if the file is a complete object.
    fn header(&self, number: u32) -> Option<ObjectHeader> {
        let file = self.open_bytes(number, self.index.side(number), Access::Read).ok()?;
        read_head(&*file, number, u64::MAX, None).ok().map(|head| head.header)
    }

    fn header_of(&self, path: &str, number: u32) -> Option<ObjectHeader> {
        let file = self.files.open(path, Access::Read).ok()?;
        read_head(&*file, number, u64::MAX, None).ok().map(|head| head.header)
    }

    pub(super) fn drop_entry(&self, found: IndexedObject) {
        if self.index.retire(found.number, found.generation) {
            self.note_gone(found.number);
            self.tally.corrupt.fetch_add(1, Relaxed);
            // A failure of the file has been logged.
            let _ = self.discard(found.number);
        }
    }
}

/// Limit of foreign names read from a folder, beyond those that may be the store's.
const STRANGERS_MAX: usize = 4096;
