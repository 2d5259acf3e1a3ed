//! Hints that come: single ones, lists, and those of other nodes.

use super::{
    Hint, HintRefusal, HintSource, HintedList, LISTS_MAX, PLACED_SECONDS, PrefetchState, RunningList,
    SINGLE_SECONDS, SINGLES_MAX,
};
use std::collections::HashMap;

impl PrefetchState {
    /// Adds single hints, of use for a moment.
    pub fn add(&mut self, hints: Vec<Hint>, now: f64) {
        for hint in hints {
            self.account(hint.account()).received(1);
            if self.is_known(hint.number) || self.singles.len() >= SINGLES_MAX {
                self.account(hint.account()).refused(1);
                continue;
            }
            self.pending.insert(hint.number);
            self.singles.push_back((hint, now + SINGLE_SECONDS));
        }
    }

    /// Adds a hint of another node, which counts on this one. Returns `false` if there is no room.
    pub fn add_placed(&mut self, hint: Hint, now: f64) -> bool {
        debug_assert!(hint.source == HintSource::Peer, "placed by another node");
        let (account, number) = (hint.account(), hint.number);
        self.account(account).received(1);
        if self.is_known(number) {
            self.account(account).refused(1);
            return true;
        }
        let has_room = self.origins.wait_placed(Hint { useful_until: Some(now + PLACED_SECONDS), ..hint });
        match has_room {
            true => drop(self.pending.insert(number)),
            false => self.account(account).refused(1),
        }
        has_room
    }

    fn is_known(&self, number: u64) -> bool {
        self.pending.contains(&number) || self.unused.contains_key(&number)
    }

    /// Adds a list. Returns its number.
    ///
    /// # Errors
    /// If there are too many lists.
    pub fn add_list(
        &mut self,
        source: HintSource,
        hints: Vec<(Hint, Option<f64>)>,
        (pace_seconds, ends): (Option<f64>, f64),
        now: f64,
    ) -> Result<u64, HintRefusal> {
        let is_full = self.lists.len() >= LISTS_MAX;
        for (hint, _) in &hints {
            let account = self.account(hint.account());
            account.received(1);
            account.refused(u64::from(is_full));
        }
        if is_full {
            return Err(HintRefusal::Full);
        }
        self.last_list += 1;
        let mut list = HintedList::new(hints.len(), pace_seconds, now);
        let mut by_number = HashMap::with_capacity(hints.len());
        for (hint, deadline) in hints {
            list.add(hint.number, deadline);
            by_number.insert(hint.number, hint);
        }
        debug_assert!(by_number.len() >= usize::from(!list.is_empty()), "each hint has its request");
        self.lists.push(RunningList { number: self.last_list, source, list, hints: by_number, ends });
        Ok(self.last_list)
    }
}
