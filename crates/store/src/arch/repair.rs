//! Repair, one folder at a time: what the index says is compared with the files that are there.
//!
//! The same walk serves three needs: after a power loss (entries and files of different age), after damage to
//! some entries, and after the loss of the whole index, when it fills an empty one from the headers of the
//! files. Lookups and inserts go on meanwhile; what has not been seen yet is a miss. Contents are not
//! verified here: that happens whenever a body is read.

use super::files::Core;
use crate::door::Access;
use crate::index::{Found, Seen};
use crate::object::{Header, read_head};
use std::collections::HashSet;
use std::io::ErrorKind::NotFound;
use std::sync::atomic::Ordering::Relaxed;

impl Core {
    /// Settles all numbers of a folder. Returns how many files it dealt with.
    pub(super) fn repair_folder(&self, folder: u32) -> usize {
        let numbers = self.naming.numbers_in(folder, self.index.geometry().max_objects);
        let present = self.files_in(folder, 2 * numbers.len() + STRANGERS_MAX);
        for number in numbers {
            match self.index.examine(number) {
                Seen::Busy => {}
                Seen::Stored(found, _) => self.settle_stored(found),
                Seen::Free if !present.contains(&number) => self.index.list_if_lost(number),
                Seen::Free | Seen::Damaged | Seen::Abandoned => self.settle_unknown(number),
            }
        }
        present.len()
    }

    /// The numbers of the files in a folder. Files of ours that cannot be in this place are removed; others are
    /// somebody else's.
    fn files_in(&self, folder: u32, limit: usize) -> HashSet<u32> {
        let path = self.naming.folder(folder);
        let names = match self.files.list(&path, limit) {
            Ok(names) => names,
            Err(error) => {
                self.disk_failed("list a folder of the store", error);
                return HashSet::new();
            }
        };
        let objects_max = self.index.geometry().max_objects;
        let mut present = HashSet::new();
        for name in names {
            let Some(number) = self.naming.number_of(&name) else { continue };
            if number < objects_max && self.naming.folder_of(number) == folder {
                present.insert(number);
            } else if let Err(error) = self.files.unlink(&format!("{path}/{name}")) {
                self.disk_failed("remove a file that is out of place", error);
            }
        }
        present
    }

    /// An entry that looks whole: its file must be there, its charge right, and its key must lead to it.
    fn settle_stored(&self, found: Found) {
        match self.files.length(&self.naming.path(found.number)) {
            Ok(length) => {
                let blocks = u32::try_from(self.blocks(length)).unwrap_or(u32::MAX);
                if let Some(rival) = self.index.confirm(found, blocks) {
                    self.settle_rivals(found, rival, blocks);
                }
            }
            Err(error) if error.kind() == NotFound => self.drop_entry(found),
            Err(error) => drop(self.disk_failed("look at an object file", error)),
        }
    }

    /// Of two objects of one key the later stays.
    fn settle_rivals(&self, found: Found, rival: Found, blocks: u32) {
        let sequence = |found: Found| self.header(found.number).map(|header| header.sequence);
        if sequence(found) > sequence(rival) {
            self.drop_entry(rival);
            self.index.confirm(found, blocks);
        } else {
            self.drop_entry(found);
        }
    }

    /// A number that the index knows nothing good of: if its file is a whole object that is not superseded, it is
    /// taken in; otherwise it goes.
    fn settle_unknown(&self, number: u32) {
        if !self.index.claim_number(number) {
            return;
        }
        if !self.adopt(number) {
            // Trouble with the file has been logged.
            let _ = self.dispose(number);
        }
    }

    fn adopt(&self, number: u32) -> bool {
        let Some(header) = self.header(number) else { return false };
        if self.files.length(&self.naming.path(number)).ok() != Some(header.file_bytes()) {
            return false;
        }
        let known = self.index.peek(header.key, |number| self.pins.pin(number));
        if let Some(known) = known {
            let sequence = self.header(known.number).map(|header| header.sequence);
            if let Some(measured) = self.pins.unpin(known.number) {
                self.index.free(known.number, measured);
            }
            if sequence >= Some(header.sequence) {
                return false;
            }
        }
        let Ok(blocks) = u32::try_from(self.blocks(header.file_bytes())) else { return false };
        let Ok(older) = self.index.adopt(number, header.key, blocks) else { return false };
        for number in older {
            // Trouble with the file has been logged.
            let _ = self.dispose(number);
        }
        true
    }

    /// The header of a file, if it is a complete object.
    fn header(&self, number: u32) -> Option<Header> {
        let file = self.files.open(&self.naming.path(number), Access::Read).ok()?;
        read_head(&*file, number, u64::MAX, None).ok().map(|head| head.header)
    }

    fn drop_entry(&self, found: Found) {
        if self.index.retire(found.number, found.generation) {
            self.tally.corrupt.fetch_add(1, Relaxed);
            // Trouble with the file has been logged.
            let _ = self.dispose(found.number);
        }
    }

    /// A number above which there are no files, going by those of one folder: numbers are used evenly.
    pub(super) fn guess_fresh(&self) -> u32 {
        let numbers = self.naming.numbers_in(0, self.index.geometry().max_objects);
        let highest = self.files_in(0, 2 * numbers.len() + STRANGERS_MAX).into_iter().max();
        highest.map_or(0, |number| number.saturating_add(self.naming.folders()))
    }
}

/// Names that are looked at in a folder beyond those which may be ours.
const STRANGERS_MAX: usize = 4096;
