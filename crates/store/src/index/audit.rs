//! Bookkeeping of an audit: what the index says is compared with the files that are there, while
//! the store serves.
//!
//! The architecture looks at the files and tells the index what it saw; this part keeps the sums.
//! First the folders are surveyed, one by one: files of which the index knows nothing good are
//! taken in or removed. Then the numbers are gone through in order: objects without a file are
//! dropped, charges corrected. Numbers already gone through count with what is known of them,
//! changes since included; after the last the sums replace the totals and the index is no longer
//! suspect. An object's number need not tell its folder.

use super::change::weigh;
use super::layout::{
    CEILING_AT, CHARGED_AT, CONDITION_AT, DUE, IndexEntry, OBJECTS_AT, SUSPECT, State, UNSURVEYED,
};
use super::{Index, IndexedObject};
use shoal_core::Key;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// How far an audit is.
pub(super) struct Audit {
    next_folder: u32,
    folders: u32,
    next_number: u32,
    /// Nothing is known of the files that are there.
    is_unknown: bool,
    pub(super) blocks: u64,
    pub(super) objects: u64,
}

impl Audit {
    /// Whether a number counts with what is known of it.
    pub(super) fn is_past(&self, number: u32) -> bool {
        number < self.next_number
    }

    /// Whether there may be files under any number.
    pub(super) fn is_surveying_unknown(&self) -> bool {
        self.is_unknown && self.next_folder < self.folders
    }
}

/// What an audit looks at next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The files in a folder.
    Folder(u32),
    /// What the index says of some numbers.
    Numbers(Range<u32>),
}

/// What the index holds under a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberState {
    /// Words that do not go together.
    Damaged,
    /// Nothing.
    Free,
    /// A file in transition, of this session.
    Busy,
    /// A file that was in transition in an earlier session.
    Abandoned,
    /// An object.
    Stored(IndexedObject, Key),
}

impl Index {
    /// Starts an audit from the first of so many folders.
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

    /// Starts an audit knowing nothing of the files that are there: until it ends, all space counts
    /// as charged, and no number is given out before the folders have been surveyed.
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

    /// What the audit looks at next. `None` when no audit is under way.
    pub(crate) fn audit_step(&self) -> Option<Step> {
        let live = self.live.read();
        let audit = live.audit.as_ref()?;
        if audit.next_folder < audit.folders {
            return Some(Step::Folder(audit.next_folder));
        }
        let first = audit.next_number;
        Some(Step::Numbers(first..first.saturating_add(NUMBERS_MAX).min(self.geometry.max_objects)))
    }

    /// Whether an audit is due, because something was found that must not be.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damage.load(Relaxed)
    }

    /// Whether the entry's word for its space can be relied on. Otherwise space is given back only
    /// as measured.
    pub(crate) fn is_measured(&self, number: u32) -> bool {
        let live = self.live.read();
        live.audit.as_ref().is_none_or(|audit| audit.is_past(number))
    }

    /// What the index holds under a number.
    pub(crate) fn examine(&self, number: u32) -> NumberState {
        let live = self.live.read();
        let Some(entry) = self.entry(number) else { return NumberState::Damaged };
        match entry.state {
            State::Free => NumberState::Free,
            State::Busy if live.busy.contains_key(&number) => NumberState::Busy,
            State::Busy => NumberState::Abandoned,
            State::Stored => NumberState::Stored(self.found(number, &entry), entry.key),
        }
    }

    /// Takes exactly this number, to adopt or remove its file, with this side word: one that is
    /// damaged, abandoned, or free and not in the middle of a list. False when it is none of these
    /// any more.
    pub(crate) fn claim_number(&self, number: u32, side: u64) -> bool {
        let mut live = self.live.write();
        let is_live = live.busy.contains_key(&number);
        let mut change = self.change(&mut live);
        let is_ours = match change.entry(number) {
            None => true,
            Some(entry) => match entry.state {
                State::Free => change.is_free_to_take(number, &entry),
                State::Busy => !is_live,
                State::Stored => false,
            },
        };
        if is_ours {
            change.make_busy(number);
            change.set_side(number, side);
        }
        change.commit();
        is_ours
    }

    /// Leaves a free number to later claims if it is lost to them and has been used.
    pub(crate) fn list_if_lost(&self, number: u32) {
        let mut live = self.live.write();
        if self.free_map.is_none() && u64::from(number) >= self.round() {
            return;
        }
        if let Some(entry) = self.entry(number).filter(|entry| entry.state == State::Free) {
            let mut change = self.change(&mut live);
            if !change.is_listed(number, &entry) {
                change.list(number, &entry);
            }
            change.commit();
        }
    }

    /// Corrects the charge of an object that is as stated otherwise, and links it where it can be
    /// found. Returns the object that its key leads to when that is another one: one of the two
    /// must go.
    pub(crate) fn confirm(&self, found: IndexedObject, blocks: u32) -> Option<IndexedObject> {
        let mut live = self.live.write();
        let same = |entry: &IndexEntry| entry.state == State::Stored && entry.generation == found.generation;
        let entry = self.entry(found.number).filter(same)?;
        let mut change = self.change(&mut live);
        // The total is a bound that holds whatever the entries say; only the audit's end may lower
        // it.
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

    /// Counts what an audit has looked at. True when it was the last.
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

/// Numbers looked at in one step.
const NUMBERS_MAX: u32 = 256;
