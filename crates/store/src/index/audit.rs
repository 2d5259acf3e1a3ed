//! Audit: compares the index with the files on disk while the store serves, and keeps the sums.
//!
//! The architecture looks at the files and reports them to the index; this module keeps the sums.
//! First the folders are surveyed, one by one: files that the index does not confirm are adopted or
//! removed. Then the numbers are checked in order: objects without a file are dropped, charges
//! corrected.
//!
//! Numbers already checked count as the index has them, later changes included. After the last
//! number the sums replace the totals, and the index is no longer suspect. An object's number need
//! not tell its folder.

use super::change::weigh;
use super::layout::{
    CEILING_AT, CHARGED_AT, CONDITION_AT, DUE, EntryState, IndexEntry, OBJECTS_AT, SUSPECT, UNSURVEYED,
};
use super::{Index, IndexedObject};
use shoal_core::Key;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Progress of an audit.
pub(super) struct Audit {
    next_folder: u32,
    folders: u32,
    next_number: u32,
    /// `true` if nothing is known of the files on disk.
    is_unknown: bool,
    pub(super) blocks: u64,
    pub(super) objects: u64,
}

impl Audit {
    /// Returns `true` if the number has been checked, so that its entry counts.
    pub(super) fn is_past(&self, number: u32) -> bool {
        number < self.next_number
    }

    /// Returns `true` if there may be files under any number.
    pub(super) fn is_surveying_unknown(&self) -> bool {
        self.is_unknown && self.next_folder < self.folders
    }
}

/// Next step of an audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Look at the files in a folder.
    Folder(u32),
    /// Look at the index's entries of some numbers.
    Numbers(Range<u32>),
}

/// State of a number in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberState {
    /// Words that fail their checks.
    Damaged,
    /// No file.
    Free,
    /// A file in transition, of this session.
    Busy,
    /// A file that was in transition in an earlier session.
    Abandoned,
    /// An object.
    Stored(IndexedObject, Key),
}

impl Index {
    /// Starts an audit from the first of `folders` folders.
    pub(crate) fn begin_audit(&self, folders: u32) {
        let mut live = self.live.write();
        let mut change = self.change(&mut live);
        let flags = change.get(CONDITION_AT);
        change.set(CONDITION_AT, flags | SUSPECT);
        change.commit();
        self.damage.store(false, Relaxed);
        let is_unknown = flags & UNSURVEYED != 0;
        live.audit =
            Some(Audit { next_folder: 0, folders, next_number: 0, is_unknown, blocks: 0, objects: 0 });
    }

    /// Starts an audit without knowing the files on disk. Until it ends, all space counts as
    /// charged, and no number is given out before all folders are surveyed.
    pub(crate) fn begin_audit_of_unknown(&self, folders: u32) {
        let limit = self.limit_blocks();
        let mut live = self.live.write();
        let mut change = self.change(&mut live);
        change.set(CEILING_AT, limit);
        change.set(CHARGED_AT, limit);
        let flags = change.get(CONDITION_AT);
        change.set(CONDITION_AT, flags | UNSURVEYED);
        change.commit();
        drop(live);
        self.begin_audit(folders);
    }

    /// Returns the audit's next step; `None` if no audit is under way.
    pub(crate) fn audit_step(&self) -> Option<Step> {
        let live = self.live.read();
        let audit = live.audit.as_ref()?;
        if audit.next_folder < audit.folders {
            return Some(Step::Folder(audit.next_folder));
        }
        let first = audit.next_number;
        Some(Step::Numbers(first..first.saturating_add(NUMBERS_MAX).min(self.geometry.max_objects)))
    }

    /// Returns `true` if damage was found, so that an audit is due.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damage.load(Relaxed)
    }

    /// Returns `true` if the entry's charge can be relied on. Otherwise space is given back only as
    /// measured.
    pub(crate) fn is_measured(&self, number: u32) -> bool {
        let live = self.live.read();
        live.audit.as_ref().is_none_or(|audit| audit.is_past(number))
    }

    /// Returns the state of a number.
    pub(crate) fn examine(&self, number: u32) -> NumberState {
        let live = self.live.read();
        let Some(entry) = self.entry(number) else { return NumberState::Damaged };
        match entry.state {
            EntryState::Free => NumberState::Free,
            EntryState::Busy if live.busy.contains_key(&number) => NumberState::Busy,
            EntryState::Busy => NumberState::Abandoned,
            EntryState::Stored => NumberState::Stored(self.found(number, &entry), entry.key),
        }
    }

    /// Claims exactly this number, with this side word, to adopt or remove its file. The number
    /// must be damaged, abandoned, or free and not in the middle of a list. Returns `false`
    /// otherwise.
    pub(crate) fn claim_number(&self, number: u32, side: u64) -> bool {
        let mut live = self.live.write();
        let is_live = live.busy.contains_key(&number);
        let mut change = self.change(&mut live);
        let is_ours = match change.entry(number) {
            None => true,
            Some(entry) => match entry.state {
                EntryState::Free => change.is_free_to_take(number, &entry),
                EntryState::Busy => !is_live,
                EntryState::Stored => false,
            },
        };
        if is_ours {
            change.make_busy(number);
            change.set_side(number, side);
        }
        change.commit();
        is_ours
    }

    /// Lists a used free number for later claims, if it is on no list.
    pub(crate) fn list_if_lost(&self, number: u32) {
        let mut live = self.live.write();
        if self.free_map.is_none() && u64::from(number) >= self.round() {
            return;
        }
        if let Some(entry) = self.entry(number).filter(|entry| entry.state == EntryState::Free) {
            let mut change = self.change(&mut live);
            if !change.is_listed(number, &entry) {
                change.list(number, &entry);
            }
            change.commit();
        }
    }

    /// Corrects the charge of an object with an otherwise true entry, and links the entry into its
    /// chain. Returns another object found under the key, if any: one of the two must go.
    pub(crate) fn confirm(&self, found: IndexedObject, blocks: u32) -> Option<IndexedObject> {
        let mut live = self.live.write();
        let same =
            |entry: &IndexEntry| entry.state == EntryState::Stored && entry.generation == found.generation;
        let entry = self.entry(found.number).filter(same)?;
        let mut change = self.change(&mut live);
        // The total is a bound that holds for any entries; only the audit's end may lower it.
        let charged = change.get(CHARGED_AT);
        change.put(found.number, IndexEntry { blocks, ..entry });
        change.set(CHARGED_AT, charged);
        let bucket = self.geometry.bucket_of(entry.key);
        let first = change.find_link(bucket, |link| link.entry.key == entry.key);
        let is_linked = change.find_link(bucket, |link| link.number == found.number).is_some();
        let rival = first.filter(|link| link.number != found.number);
        if !is_linked && rival.is_none() {
            change.relink(found.number);
        }
        change.commit();
        rival.map(|link| self.found(link.number, &link.entry))
    }

    /// Counts an audit's finished step. Returns `true` if it was the last.
    pub(crate) fn finish_step(&self, step: &Step) -> bool {
        match step {
            Step::Folder(folder) => self.finish_folder(*folder),
            Step::Numbers(numbers) => return self.finish_numbers(numbers),
        }
        false
    }

    fn finish_folder(&self, folder: u32) {
        let mut live = self.live.write();
        let Some(audit) = live.audit.as_mut().filter(|audit| audit.next_folder == folder) else { return };
        audit.next_folder += 1;
        debug_assert!(audit.next_folder <= audit.folders);
        if audit.next_folder == audit.folders {
            let mut change = self.change(&mut live);
            let flags = change.get(CONDITION_AT);
            change.set(CONDITION_AT, flags & !UNSURVEYED);
            change.commit();
        }
    }

    fn finish_numbers(&self, numbers: &Range<u32>) -> bool {
        let mut live = self.live.write();
        let entries = numbers.clone().filter_map(|number| self.entry(number));
        let (blocks, objects) =
            entries.map(|entry| weigh(&entry)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        let Some(audit) = live.audit.as_mut().filter(|audit| audit.next_number == numbers.start) else {
            return false;
        };
        debug_assert!(numbers.end <= self.geometry.max_objects);
        debug_assert!(numbers.end - numbers.start <= NUMBERS_MAX);
        audit.next_number = numbers.end;
        audit.blocks += blocks;
        audit.objects += objects;
        let (blocks, objects) = (audit.blocks, audit.objects);
        let is_last = audit.next_number >= self.geometry.max_objects;
        if is_last {
            live.audit = None;
            let mut change = self.change(&mut live);
            change.set(CHARGED_AT, blocks);
            change.set(OBJECTS_AT, objects);
            let flags = change.get(CONDITION_AT);
            change.set(CONDITION_AT, flags & !DUE);
            change.commit();
        }
        is_last
    }
}

/// Numbers checked in one step.
const NUMBERS_MAX: u32 = 256;
