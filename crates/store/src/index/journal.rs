//! Changes of several words that happen whole or not at all.
//!
//! A transaction gathers its stores. The commit has four steps:
//!
//! 1. Write the pairs of position and value to the journal in the header.
//! 2. Write one word that makes the journal valid.
//! 3. Make the stores.
//! 4. Make the journal void again.
//!
//! A process killed before step 2 has changed nothing. After one killed later, the next opening
//! repeats the stores. The values are absolute, so that repeating them any number of times does no
//! harm.

use super::layout::{JOURNAL_AT, JOURNAL_PAIRS, SEALED_MAX, hash};
use super::words::Words;

/// Stores that belong together. Dropping the transaction uncommitted changes nothing.
pub(super) struct Transaction<'a> {
    words: &'a dyn Words,
    pairs: [(usize, u64); JOURNAL_PAIRS],
    count: usize,
}

impl<'a> Transaction<'a> {
    /// Begins a transaction. The caller holds the lock that keeps other writers out until the
    /// commit.
    pub(super) fn new(words: &'a dyn Words) -> Self {
        Self { words, pairs: [(0, 0); JOURNAL_PAIRS], count: 0 }
    }

    /// Returns the word as the commit will leave it.
    pub(super) fn load(&self, at: usize) -> u64 {
        let pending = self.pairs[..self.count].iter().find(|(position, _)| *position == at);
        pending.map_or_else(|| self.words.load(at), |(_, value)| *value)
    }

    /// Adds a store of `value`.
    pub(super) fn store(&mut self, at: usize, value: u64) {
        if let Some(pair) = self.pairs[..self.count].iter_mut().find(|(position, _)| *position == at) {
            pair.1 = value;
            return;
        }
        assert!(self.count < JOURNAL_PAIRS, "a change of too many words");
        debug_assert!(at < self.words.count());
        debug_assert!(!(JOURNAL_AT..=JOURNAL_AT + 2 * JOURNAL_PAIRS).contains(&at), "the journal itself");
        self.pairs[self.count] = (at, value);
        self.count += 1;
    }

    /// Makes all stores, or none if the process ends before the journal is valid.
    pub(super) fn commit(self) {
        let pairs = &self.pairs[..self.count];
        debug_assert!((1..pairs.len()).all(|at| pairs[..at].iter().all(|(other, _)| *other != pairs[at].0)));
        if let [(at, value)] = pairs {
            return self.words.store(*at, *value);
        }
        for (n, (at, value)) in pairs.iter().enumerate() {
            self.words.store(JOURNAL_AT + 1 + 2 * n, *at as u64);
            self.words.store(JOURNAL_AT + 2 + 2 * n, *value);
        }
        self.words.store(JOURNAL_AT, validity(self.words, self.count));
        for (at, value) in pairs {
            self.words.store(*at, *value);
        }
        self.words.store(JOURNAL_AT, 0);
    }
}

/// Finishes the commit of a killed process. Only for words last written since the machine started.
pub(super) fn redo(words: &dyn Words) {
    let valid = words.load(JOURNAL_AT);
    let count = (valid >> 40) as usize;
    if (1..=JOURNAL_PAIRS).contains(&count) && valid == validity(words, count) {
        for n in 0..count {
            let at = words.load(JOURNAL_AT + 1 + 2 * n) as usize;
            if at < words.count() {
                words.store(at, words.load(JOURNAL_AT + 2 + 2 * n));
            }
        }
    }
    words.store(JOURNAL_AT, 0);
}

/// Returns the word that makes a journal of `count` pairs valid: their number, and a check over
/// them.
fn validity(words: &dyn Words, count: usize) -> u64 {
    debug_assert!((1..=JOURNAL_PAIRS).contains(&count) || count == 0);
    let mut gathered = [0; 2 * JOURNAL_PAIRS];
    for (n, word) in gathered[..2 * count].iter_mut().enumerate() {
        *word = words.load(JOURNAL_AT + 1 + n);
    }
    (count as u64) << 40 | hash(&gathered[..2 * count]) & SEALED_MAX
}

// A count of pairs stands above the check.
const _: () = assert!(JOURNAL_PAIRS < 1 << 24);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::CrashPoint;
    use crate::index::words::RamWords;

    #[test]
    fn only_the_transaction_sees_uncommitted_stores() {
        let words = RamWords::new(1024);
        let mut change = Transaction::new(&words);
        change.store(600, 1);
        change.store(600, 2);
        change.store(601, 3);
        assert_eq!((change.load(600), words.load(600)), (2, 0));
        change.commit();
        assert_eq!((words.load(600), words.load(601), words.load(JOURNAL_AT)), (2, 3, 0));
    }

    #[test]
    fn commit_stopped_at_any_store_is_whole_or_nothing() {
        let mut outcomes = [0, 0];
        for stores in 0..20 {
            let words = RamWords::new(1024);
            let crashing = words.crashing_at(CrashPoint::after(stores));
            let mut change = Transaction::new(&crashing);
            (0..5).for_each(|n| change.store(600 + n, 7));
            change.commit();
            let left = words.after_kill();
            redo(&left);
            let now: Vec<u64> = (600..605).map(|at| left.load(at)).collect();
            assert!(now == [7; 5] || now == [0; 5], "after {stores} stores: {now:?}");
            outcomes[usize::from(now == [7; 5])] += 1;
        }
        assert_eq!(outcomes, [11, 9], "ten pairs' words and the one that counts");
    }
}
