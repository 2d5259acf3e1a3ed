//! Bookkeeping of an audit: folder by folder, what the index says is compared with the files that are there.
//!
//! The architecture looks at the files and tells the index what it saw; this part keeps the sums. Numbers in
//! folders already seen count with what is known of them, changes since included; when the last folder has been
//! seen, the sums replace the totals and the index is no longer suspect.

use super::change::weigh;
use super::layout::{CEILING_AT, CHARGED_AT, CONDITION_AT, Entry, FRESH_AT, OBJECTS_AT, SUSPECT, State};
use super::{Found, Index};
use shoal_core::Key;
use std::sync::atomic::Ordering::Relaxed;

/// How far an audit is.
pub(super) struct Audit {
    next_folder: u32,
    pub(super) blocks: u64,
    pub(super) objects: u64,
}

impl Audit {
    pub(super) fn is_past(&self, folder: u32) -> bool {
        folder < self.next_folder
    }
}

/// What the index holds under a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Words that do not go together.
    Damaged,
    /// Nothing.
    Free,
    /// A file in transition, of this session.
    Busy,
    /// A file that was in transition in an earlier session.
    Abandoned,
    /// An object.
    Stored(Found, Key),
}

impl Index {
    /// Starts an audit from the first folder.
    pub(crate) fn begin_audit(&self) {
        let mut live = self.live.write();
        let mut change = self.change(&mut live);
        let flags = change.get(CONDITION_AT);
        change.set(CONDITION_AT, flags | SUSPECT);
        change.commit();
        self.damage.store(false, Relaxed);
        live.audit = Some(Audit { next_folder: 0, blocks: 0, objects: 0 });
    }

    /// Starts an audit knowing nothing of the files that are there: until it ends, all space counts as charged.
    /// Numbers from `fresh` on are taken to be unused.
    pub(crate) fn begin_audit_of_unknown(&self, fresh: u32) {
        let limit = self.limit_blocks();
        let mut live = self.live.write();
        let mut change = self.change(&mut live);
        change.set(CEILING_AT, limit);
        change.set(CHARGED_AT, limit);
        change.set(FRESH_AT, u64::from(fresh.min(self.geometry.max_objects)));
        change.commit();
        drop(live);
        self.begin_audit();
    }

    /// The folder to be audited next. `None` when no audit is under way.
    pub(crate) fn audit_folder(&self) -> Option<u32> {
        self.live.read().audit.as_ref().map(|audit| audit.next_folder)
    }

    /// Whether an audit is due, because something was found that must not be.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damage.load(Relaxed)
    }

    /// Whether the entry's word for its space can be relied on. Otherwise space is given back only as measured.
    pub(crate) fn is_measured(&self, number: u32) -> bool {
        let live = self.live.read();
        live.audit.as_ref().is_none_or(|audit| audit.is_past(self.naming.folder_of(number)))
    }

    /// What the index holds under a number.
    pub(crate) fn examine(&self, number: u32) -> Seen {
        let live = self.live.read();
        let Some(entry) = self.entry(number) else { return Seen::Damaged };
        match entry.state {
            State::Free => Seen::Free,
            State::Busy if live.busy.contains_key(&number) => Seen::Busy,
            State::Busy => Seen::Abandoned,
            State::Stored => Seen::Stored(self.found(number, &entry), entry.key),
        }
    }

    /// Takes exactly this number, to adopt or remove its file: one that is damaged, abandoned, or free and on no
    /// list. False when it is none of these any more.
    pub(crate) fn claim_number(&self, number: u32) -> bool {
        let mut live = self.live.write();
        let is_live = live.busy.contains_key(&number);
        let mut change = self.change(&mut live);
        let is_ours = match change.entry(number) {
            None => true,
            Some(entry) => match entry.state {
                State::Free => !change.is_listed(&entry),
                State::Busy => !is_live,
                State::Stored => false,
            },
        };
        if is_ours {
            change.make_busy(number);
        }
        change.commit();
        is_ours
    }

    /// Puts a free number on the list if it is on none and has been used.
    pub(crate) fn list_if_lost(&self, number: u32) {
        let mut live = self.live.write();
        if u64::from(number) >= self.round() {
            return;
        }
        if let Some(entry) = self.entry(number).filter(|entry| entry.state == State::Free) {
            let mut change = self.change(&mut live);
            if !change.is_listed(&entry) {
                change.list(number, &entry);
            }
            change.commit();
        }
    }

    /// Corrects the charge of an object that is as stated otherwise, and links it where it can be found. Returns
    /// the object that its key leads to when that is another one: one of the two must go.
    pub(crate) fn confirm(&self, found: Found, blocks: u32) -> Option<Found> {
        let mut live = self.live.write();
        let same = |entry: &Entry| entry.state == State::Stored && entry.generation == found.generation;
        let entry = self.entry(found.number).filter(same)?;
        let mut change = self.change(&mut live);
        // The total is a bound that holds whatever the entries say; only the audit's end may lower it.
        let charged = change.get(CHARGED_AT);
        change.put(found.number, Entry { blocks, ..entry });
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

    /// Counts a folder whose files have been looked at. True when it was the last one.
    pub(crate) fn finish_folder(&self, folder: u32) -> bool {
        let mut live = self.live.write();
        let numbers = self.naming.numbers_in(folder, self.geometry.max_objects);
        let entries = numbers.into_iter().filter_map(|number| self.entry(number));
        let (blocks, objects) =
            entries.map(|entry| weigh(&entry)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        let Some(audit) = live.audit.as_mut().filter(|audit| audit.next_folder == folder) else {
            return false;
        };
        audit.next_folder += 1;
        audit.blocks += blocks;
        audit.objects += objects;
        let (blocks, objects) = (audit.blocks, audit.objects);
        let is_last = audit.next_folder >= self.naming.folders();
        if is_last {
            live.audit = None;
            let mut change = self.change(&mut live);
            change.set(CHARGED_AT, blocks);
            change.set(OBJECTS_AT, objects);
            let flags = change.get(CONDITION_AT);
            change.set(CONDITION_AT, flags & !SUSPECT);
            change.commit();
        }
        is_last
    }
}
