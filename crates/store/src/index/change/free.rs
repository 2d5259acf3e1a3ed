//! Free numbers: the choice for a claim, and the way back of a freed number.
//!
//! Either a list through the free entries, last in first out, followed by the numbers never used.
//! Or a map (see `free_map`), which gives the lowest number or the next one.

use super::edit::{Change, blank};
use crate::index::free_map::{FreeMap, Numbers};
use crate::index::layout::{CURSOR_AT, EntryState, FREE_AT, FREE_LIST_AT, FRESH_AT, IndexEntry, SEALED_MAX};
use shoal_core::Key;

impl Change<'_> {
    /// Picks a free number, which is the caller's once it is busy.
    pub(super) fn pick(&mut self) -> Option<u32> {
        match self.index.free_map {
            None => self.pop_free().or_else(|| self.pop_fresh()),
            Some(map) => self.pick_from(&map),
        }
    }

    /// Makes the number free for a later claim.
    pub(in crate::index) fn list(&mut self, number: u32, entry: &IndexEntry) {
        let free = IndexEntry { generation: entry.generation, ..blank(EntryState::Free) };
        if let Some(map) = self.index.free_map {
            self.put(number, free);
            return self.mark(&map, number, true);
        }
        let mut low = [0; 16];
        low[..8].copy_from_slice(&self.list_mark().to_le_bytes());
        let next = u32::try_from(self.get(FREE_AT)).ok().and_then(|head| head.checked_sub(1));
        self.put(number, IndexEntry { key: Key::from_bytes(low), next, ..free });
        self.set(FREE_AT, u64::from(number) + 1);
    }

    /// Returns `true` if a claim may meet a free entry: the entry is in the valid list, or marked
    /// in the map.
    pub(in crate::index) fn is_listed(&self, number: u32, entry: &IndexEntry) -> bool {
        match self.index.free_map {
            Some(map) => map.is_free(&|at| self.transaction.load(at), number),
            None => entry.key.low() == self.list_mark(),
        }
    }

    /// Returns `true` if exactly this free number may be taken: one in the middle of a list may
    /// not.
    pub(in crate::index) fn is_free_to_take(&self, number: u32, entry: &IndexEntry) -> bool {
        self.index.free_map.is_some() || !self.is_listed(number, entry)
    }

    /// Notes that the number is or was in use.
    pub(in crate::index) fn note_used(&mut self, number: u32) {
        if u64::from(number) >= self.get(FRESH_AT) {
            self.set(FRESH_AT, u64::from(number) + 1);
        }
        if let Some(map) = self.index.free_map {
            self.mark(&map, number, false);
        }
    }

    fn mark(&mut self, map: &FreeMap, number: u32, is_free: bool) {
        let mut changed = [(0, 0); 8];
        let mut count = 0;
        map.mark(&|at| self.transaction.load(at), number, is_free, |at, word| {
            assert!(count < changed.len(), "a word for each level");
            changed[count] = (at, word);
            count += 1;
        });
        changed[..count].iter().for_each(|(at, word)| self.transaction.store(*at, *word));
    }

    fn pick_from(&mut self, map: &FreeMap) -> Option<u32> {
        let words = &*self.index.words;
        let load = |at| words.load(at);
        let is_counting = self.index.numbers == Numbers::Next;
        let from = if is_counting { self.get(CURSOR_AT) as u32 } else { 0 };
        for _ in 0..PICKS_MAX {
            let number = map.find(&load, from).or_else(|| map.find(&load, 0))?;
            if self.entry(number).is_some_and(|entry| entry.state == EntryState::Free) {
                if is_counting {
                    self.set(CURSOR_AT, u64::from(number) + 1);
                }
                self.note_used(number);
                return Some(number);
            }
            // The map is older than the entry. It is only a guide, so this needs no transaction.
            self.index.report_damage();
            map.mark(&load, number, false, |at, word| words.store(at, word));
        }
        None
    }

    /// Returns the mark of entries in the valid list: never zero, the mark of unused entries.
    fn list_mark(&self) -> u64 {
        self.get(FREE_LIST_AT) + 1
    }

    fn pop_free(&mut self) -> Option<u32> {
        let number = u32::try_from(self.get(FREE_AT).checked_sub(1)?).ok()?;
        match self
            .entry(number)
            .filter(|entry| entry.state == EntryState::Free && self.is_listed(number, entry))
        {
            Some(entry) => {
                self.set(FREE_AT, entry.next.map_or(0, |next| u64::from(next) + 1));
                Some(number)
            }
            None => {
                // Numbers on the list are lost until the hand meets them.
                self.index.report_damage();
                self.set(FREE_LIST_AT, (self.get(FREE_LIST_AT) + 1) & SEALED_MAX);
                self.set(FREE_AT, 0);
                None
            }
        }
    }

    fn pop_fresh(&mut self) -> Option<u32> {
        let fresh = self.get(FRESH_AT) as u32;
        let end = fresh.saturating_add(FRESH_TRIES).min(self.index.geometry.max_objects);
        // After a power loss the header may be older than the entries.
        let is_free = |number: &u32| self.entry(*number).is_some_and(|entry| entry.state == EntryState::Free);
        let number = (fresh..end).find(is_free);
        let next = number.map_or(end, |number| number + 1);
        debug_assert!(next <= self.index.geometry.max_objects || next == fresh);
        if next > fresh {
            self.set(FRESH_AT, u64::from(next));
        }
        number
    }
}

/// Used numbers that a claim finds marked free before it gives up; each is marked for good.
const PICKS_MAX: u32 = 1024;
/// Entries beyond the mark of fresh numbers that a claim looks at.
const FRESH_TRIES: u32 = 64;
