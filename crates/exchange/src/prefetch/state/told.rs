//! The state as reports tell it.

use super::{AccountKey, PrefetchState, rules};
use shoal_cooperation::prefetch::{HintSource, SourceAccount, SourceHold};
use shoal_settings::Prefetch;

impl PrefetchState {
    /// Returns the accounts of a source: of sites and mirrors, and of forward mode.
    pub fn accounts_of(&self, source: HintSource) -> impl Iterator<Item = &SourceAccount> {
        let keys = [true, false].map(|is_own| AccountKey { source, is_own });
        keys.into_iter().filter_map(|key| self.accounts.get(&key))
    }

    /// Returns hints that wait, fetches on their way, answers that nobody used yet, and their
    /// bytes.
    pub fn sizes(&self) -> [u64; 4] {
        let listed: usize = self.lists.iter().map(|running| running.list.len()).sum();
        [
            (listed + self.singles.len() + self.origins.waiting()) as u64,
            self.in_flight as u64,
            self.unused.len() as u64,
            self.unused_bytes,
        ]
    }

    /// Returns numbers, sources and lengths of the lists in use.
    pub fn lists(&self) -> Vec<(u64, HintSource, usize)> {
        self.lists.iter().map(|running| (running.number, running.source, running.list.len())).collect()
    }

    /// Returns the reason for which an account is held back now.
    pub fn hold_of(
        &mut self,
        account: AccountKey,
        settings: &Prefetch,
        (now, demand_bytes): (f64, u64),
    ) -> Option<SourceHold> {
        self.account(account).allowance(now, demand_bytes, &rules(settings)).err()
    }
}
