//! State of prefetching: hints that wait, fetches on their way, answers that nobody used yet.
//!
//! Pure but for the caller's clock: time is an argument, in seconds. Everything is bounded: lists,
//! single hints, answers that are watched, and origins.

mod added;
mod told;

use super::hint::{AccountKey, Hint, HintRefusal};
use super::origins::Origins;
use super::watched::WatchedKeys;
use shoal_cooperation::prefetch::{
    HintSource, HintedList, RangeRuns, SourceAccount, SourceRules, Successors,
};
use shoal_settings::Prefetch;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::net::IpAddr;

/// State of prefetching.
pub(super) struct PrefetchState {
    accounts: HashMap<AccountKey, SourceAccount>,
    lists: Vec<RunningList>,
    last_list: u64,
    /// Single hints, the oldest first, with the time until which each is of use.
    singles: VecDeque<(Hint, f64)>,
    /// Numbers of single hints that wait, and of fetches on their way.
    pending: HashSet<u64>,
    /// Answers that no client has used yet, by the hash of their key.
    unused: HashMap<u64, UnusedAnswer>,
    /// Times at which they count as wasted, in milliseconds.
    expiries: BTreeSet<(u64, u64)>,
    unused_bytes: u64,
    in_flight: usize,
    pub origins: Origins,
    pub runs: RangeRuns,
    pub successors: HashMap<String, Successors>,
}

/// A list of hints in use.
struct RunningList {
    number: u64,
    source: HintSource,
    list: HintedList,
    hints: HashMap<u64, Hint>,
    /// Time at which the list ends if no client follows it.
    ends: f64,
}

/// An answer that no client has used yet.
struct UnusedAnswer {
    account: AccountKey,
    bytes: u64,
    /// Number of the hint.
    number: u64,
    expires_ms: u64,
    /// Hints that follow from the answer, once a client uses it.
    next: Vec<Hint>,
}

/// Next action of the driver.
pub(super) enum NextStep {
    /// Fetch this, up to a number of bytes.
    Fetch(Box<Hint>, u64),
    /// Look again after this time in seconds, or when woken.
    Wait(f64),
    /// Nothing is left.
    Idle,
}

/// End of a fetch.
#[derive(Debug)]
pub(super) enum FetchEnd {
    /// The cache had the answer.
    Held,
    /// The answer came and is kept under a key with this hash.
    Kept { key: u64, bytes: u64, is_wanted: bool, next: Vec<Hint> },
    /// Another node fetches the answer, as its home.
    Placed,
    /// The origin has as many prefetches as it may.
    Waits,
    /// The answer is of no use.
    Useless { bytes: u64 },
    /// The origin asks for less, or failed.
    Refused { retry_after_seconds: Option<f64> },
    /// Clients needed the connection.
    GaveWay { bytes: u64, was_asked: bool },
}

impl Default for PrefetchState {
    fn default() -> Self {
        Self {
            accounts: HashMap::new(),
            lists: Vec::new(),
            last_list: 0,
            singles: VecDeque::new(),
            pending: HashSet::new(),
            unused: HashMap::new(),
            expiries: BTreeSet::new(),
            unused_bytes: 0,
            in_flight: 0,
            origins: Origins::default(),
            runs: RangeRuns::new(RUNS_MAX),
            successors: HashMap::new(),
        }
    }
}

impl PrefetchState {
    /// Returns the account of this key.
    pub fn account(&mut self, key: AccountKey) -> &mut SourceAccount {
        self.accounts.entry(key).or_default()
    }

    /// Returns `true` if there is nothing to fetch and nothing to judge.
    pub fn is_idle(&self) -> bool {
        self.lists.is_empty()
            && self.singles.is_empty()
            && self.in_flight == 0
            && self.unused.is_empty()
            && self.origins.waiting() == 0
    }

    /// Records a client's request for the key with this hash. Returns `true` if a list hints it,
    /// and the source, if its answer was fetched ahead. Hints of that answer get the client as
    /// `reader`, if it is known.
    pub fn asked(&mut self, key: u64, reader: Option<IpAddr>, now: f64) -> (bool, Option<HintSource>) {
        let used = self.unused.remove(&key);
        let number = used.as_ref().map_or(key, |used| used.number);
        if self.pending.contains(&number)
            && let Some(hint) = self.origins.withdraw(number)
        {
            // The client fetches it now.
            self.pending.remove(&number);
            self.account(hint.account()).held();
        }
        let mut is_hinted = false;
        for running in &mut self.lists {
            if running.list.referenced(number, now) {
                is_hinted = true;
                running.ends = running.ends.max(now + LIST_SECONDS);
            }
        }
        let Some(used) = used else { return (is_hinted, None) };
        self.expiries.remove(&(used.expires_ms, key));
        self.unused_bytes = self.unused_bytes.saturating_sub(used.bytes);
        self.account(used.account).used(used.bytes);
        let next = used.next.into_iter().map(|it| Hint { reader: reader.or(it.reader), ..it });
        self.add(next.collect(), now);
        self.invariants();
        (is_hinted, Some(used.account.source))
    }

    /// Records uses by hits on the fast path. Returns the keys with their sources.
    pub fn settle_seen(&mut self, watched: &WatchedKeys, now: f64) -> Vec<(u64, HintSource)> {
        let seen = watched.take_seen();
        seen.into_iter().filter_map(|key| Some((key, self.asked(key, None, now).1?))).collect()
    }

    /// Returns the next action. The tuple has the time, the bytes that clients' misses brought, and
    /// the share of the processors in use, in percent.
    pub fn next(
        &mut self,
        settings: &Prefetch,
        (now, demand_bytes, cpu): (f64, u64, u32),
        watched: &WatchedKeys,
    ) -> NextStep {
        let rules = rules(settings);
        self.expire(now, &rules, watched);
        self.lists.retain(|running| now < running.ends && !running.list.is_empty());
        if self.is_idle() {
            return NextStep::Idle;
        }
        if self.in_flight >= settings.requests || cpu > settings.cpu || self.unused.len() >= UNUSED_MAX {
            return NextStep::Wait(PAUSE_SECONDS);
        }
        let room = settings.bytes.0.saturating_sub(self.unused_bytes);
        if room == 0 {
            return NextStep::Wait(PAUSE_SECONDS);
        }
        if let Some((hint, allowance)) = self.next_waiting((now, demand_bytes), &rules) {
            return self.begin(hint, allowance.min(room));
        }
        if let Some((hint, allowance)) = self.next_single((now, demand_bytes), &rules) {
            return self.begin(hint, allowance.min(room));
        }
        match self.next_listed((now, demand_bytes), settings.requests, &rules) {
            Some((hint, allowance)) => self.begin(hint, allowance.min(room)),
            // A list with a pace is looked at again soon.
            None if self.lists.iter().any(|running| !running.list.is_settled()) => {
                NextStep::Wait(TICK_SECONDS)
            }
            None => NextStep::Wait(PAUSE_SECONDS),
        }
    }

    fn begin(&mut self, hint: Hint, allowance: u64) -> NextStep {
        debug_assert!(allowance > 0, "a fetch may bring something");
        debug_assert!(!self.unused.contains_key(&hint.number), "nothing is fetched twice");
        self.account(hint.account()).begun();
        self.pending.insert(hint.number);
        self.in_flight += 1;
        NextStep::Fetch(Box::new(hint), allowance)
    }

    /// Takes the next hint that waits for its origin.
    fn next_waiting(&mut self, at: (f64, u64), rules: &SourceRules) -> Option<(Hint, u64)> {
        loop {
            let accounts = &mut self.accounts;
            let (hint, allowance) = self.origins.next(at.0, |hint| {
                let account = accounts.entry(hint.account()).or_default();
                account.allowance(at.0, at.1, rules).ok()
            })?;
            if !self.unused.contains_key(&hint.number) {
                return Some((hint, allowance));
            }
            // Another hint has brought the same meanwhile.
            self.origins.end(hint.origin());
            self.pending.remove(&hint.number);
            self.account(hint.account()).held();
        }
    }

    /// Takes the next single hint that may be fetched. Those that may not are dropped: they are of
    /// use for a moment only.
    fn next_single(&mut self, at: (f64, u64), rules: &SourceRules) -> Option<(Hint, u64)> {
        while let Some((hint, useful_until)) = self.singles.pop_front() {
            self.pending.remove(&hint.number);
            // Another source may have hinted the same meanwhile.
            if self.unused.contains_key(&hint.number) {
                self.account(hint.account()).held();
                continue;
            }
            let allowance = self.account(hint.account()).allowance(at.0, at.1, rules);
            match allowance {
                Ok(bytes) if at.0 < useful_until && self.is_due_at(hint.origin(), at.0) => {
                    return Some((hint, bytes));
                }
                _ => self.account(hint.account()).refused(1),
            }
        }
        None
    }

    /// Takes the next due hint of a list. The list goes to the end of the row, so that all have
    /// their turn.
    fn next_listed(&mut self, at: (f64, u64), at_once: usize, rules: &SourceRules) -> Option<(Hint, u64)> {
        for turn in 0..self.lists.len() {
            while let Some(number) = self.due(turn, at.0, at_once) {
                let account = self.lists[turn].hints.get(&number).map(Hint::account);
                let allowance = account.map(|account| self.account(account).allowance(at.0, at.1, rules));
                // A list waits for the account of its first missing hint.
                let Some(allowance) = allowance.transpose().ok() else { break };
                let running = &mut self.lists[turn];
                running.list.settle(number);
                let needed_in_seconds = running.list.needed_in(number).unwrap_or(0.0);
                let Some((hint, allowance)) = running.hints.get(&number).cloned().zip(allowance) else {
                    continue;
                };
                let hint = Hint { needed_in_seconds, ..hint };
                if self.pending.contains(&number) || self.unused.contains_key(&number) {
                    continue;
                }
                let running = self.lists.remove(turn);
                self.lists.push(running);
                return Some((hint, allowance));
            }
        }
        None
    }

    fn due(&self, turn: usize, now: f64, at_once: usize) -> Option<u64> {
        let running = &self.lists[turn];
        // The pace of the first missing hint's origin stands for all.
        let first = running.list.first_missing()?;
        let origin = running.hints.get(&first).map(Hint::origin)?;
        if !self.is_due_at(origin, now) {
            return None;
        }
        let (seconds, limit) = self.origins.pace(origin);
        running.list.due(now, seconds, at_once.min(limit))
    }

    /// Returns `true` if a further hint for an origin may go on.
    fn is_due_at(&self, origin: &str, now: f64) -> bool {
        self.origins.may_ask(origin, now) && !self.origins.has_enough(origin)
    }

    /// Takes a place at the origin of a fetch on its way. Returns `false` if it has to wait.
    pub fn begin_at_origin(&mut self, hint: &mut Hint, now: f64) -> bool {
        hint.asks_origin || self.origins.begin(hint, now)
    }

    /// Records bytes of a fetch that arrived.
    pub fn arrived(&mut self, account: AccountKey, bytes: u64) {
        self.account(account).arrived(bytes);
        self.unused_bytes += bytes;
    }

    /// Records the end of a fetch.
    pub fn ended(
        &mut self,
        hint: &Hint,
        end: FetchEnd,
        settings: &Prefetch,
        now: f64,
        watched: &WatchedKeys,
    ) {
        debug_assert!(self.in_flight > 0, "a fetch ends once");
        self.in_flight = self.in_flight.saturating_sub(1);
        self.pending.remove(&hint.number);
        let origin = hint.origin();
        if hint.asks_origin {
            self.origins.end(origin);
        }
        match end {
            FetchEnd::Held => {
                let account = self.account(hint.account());
                account.held();
                account.withdrawn();
            }
            FetchEnd::Placed => {
                let account = self.account(hint.account());
                account.placed();
                account.withdrawn();
            }
            FetchEnd::Waits => {
                self.account(hint.account()).withdrawn();
                self.wait(hint.clone(), now);
            }
            FetchEnd::Kept { key, bytes, is_wanted, next } => {
                self.account(hint.account()).landed(bytes);
                let expires_ms = ((now + settings.use_within.as_secs_f64()) * 1000.0) as u64;
                let answer =
                    UnusedAnswer { account: hint.account(), bytes, number: hint.number, expires_ms, next };
                if let Some(before) = self.unused.insert(key, answer) {
                    // Two hints for one answer: the earlier one counts as used by the later.
                    self.expiries.remove(&(before.expires_ms, key));
                    self.unused_bytes = self.unused_bytes.saturating_sub(before.bytes);
                    self.account(before.account).used(before.bytes);
                }
                self.expiries.insert((expires_ms, key));
                if is_wanted {
                    watched.remove(key);
                    self.asked(key, None, now);
                }
            }
            FetchEnd::Useless { bytes } => {
                self.unused_bytes = self.unused_bytes.saturating_sub(bytes);
                let is_muted = self.account(hint.account()).useless(bytes, now, &rules(settings));
                self.tell_mute(hint.account(), is_muted, now);
            }
            FetchEnd::Refused { retry_after_seconds } => {
                self.origins.refused(origin, retry_after_seconds, now);
                self.lost(hint.account(), 0);
            }
            FetchEnd::GaveWay { bytes, was_asked } => {
                self.origins.gave_way(origin, now);
                self.lost(hint.account(), bytes);
                self.try_again(hint, was_asked, now);
            }
        }
        self.invariants();
    }

    /// Lets a hint wait for its origin: one that a list or another node counts on, or one for a
    /// moment. It has that time once.
    fn wait(&mut self, hint: Hint, now: f64) {
        let is_listed = self.lists.iter().any(|running| running.hints.contains_key(&hint.number));
        let seconds = if is_listed || hint.asker.is_some() { PLACED_SECONDS } else { SINGLE_SECONDS };
        let useful_until = hint.useful_until.or(Some(now + seconds));
        self.pending.insert(hint.number);
        self.origins.wait(Hint { asks_origin: false, useful_until, ..hint });
    }

    /// Lets a hint that a list or another node counts on be fetched once more. The origin works for
    /// it in vain a few times at most.
    fn try_again(&mut self, hint: &Hint, was_asked: bool, now: f64) {
        if !self.unsettle(hint, was_asked) && hint.asker.is_some() {
            let tries = hint.tries + u8::from(was_asked);
            if tries < TRIES_MAX {
                self.wait(Hint { tries, ..hint.clone() }, now);
            }
        }
    }

    /// Lets the lists that have a hint fetch it once more. Returns `false` if none does.
    fn unsettle(&mut self, hint: &Hint, was_asked: bool) -> bool {
        let mut is_unsettled = false;
        for running in &mut self.lists {
            let Some(own) = running.hints.get_mut(&hint.number) else { continue };
            own.tries += u8::from(was_asked);
            if own.tries < TRIES_MAX {
                running.list.unsettle(hint.number);
                is_unsettled = true;
            }
        }
        is_unsettled
    }

    fn lost(&mut self, account: AccountKey, bytes: u64) {
        self.unused_bytes = self.unused_bytes.saturating_sub(bytes);
        self.account(account).failed(bytes);
    }

    /// Counts answers that nobody used in time as wasted, and drops hints that waited too long.
    fn expire(&mut self, now: f64, rules: &SourceRules, watched: &WatchedKeys) {
        for hint in self.origins.expire(now) {
            self.pending.remove(&hint.number);
            if !self.unsettle(&hint, false) {
                self.account(hint.account()).refused(1);
            }
        }
        let now_ms = (now * 1000.0) as u64;
        while let Some(&(expires_ms, key)) = self.expiries.first().filter(|(expires, _)| *expires <= now_ms) {
            self.expiries.remove(&(expires_ms, key));
            watched.remove(key);
            let Some(wasted) = self.unused.remove(&key) else { continue };
            debug_assert_eq!(wasted.expires_ms, expires_ms, "an answer has one end");
            self.unused_bytes = self.unused_bytes.saturating_sub(wasted.bytes);
            let is_muted = self.account(wasted.account).wasted(wasted.bytes, now, rules);
            self.tell_mute(wasted.account, is_muted, now);
        }
    }

    /// Tells the operator that a source is muted.
    fn tell_mute(&mut self, account: AccountKey, is_muted: bool, now: f64) {
        let until = self.account(account).muted_until(now).filter(|_| is_muted);
        if let Some(until) = until {
            tracing::warn!(
                source = account.source.name(),
                forward_mode = !account.is_own,
                seconds = (until - now) as u64,
                "a source of hints is muted, since clients use too little of what it hints"
            );
        }
    }

    fn invariants(&self) {
        if cfg!(debug_assertions) {
            assert_eq!(self.unused.len(), self.expiries.len(), "each unused answer expires");
            assert!(self.singles.len() <= SINGLES_MAX && self.lists.len() <= LISTS_MAX);
        }
    }
}

fn rules(settings: &Prefetch) -> SourceRules {
    SourceRules {
        floor: f64::from(settings.precision) / 100.0,
        waste_share: f64::from(settings.waste) / 100.0,
        trial_bytes: settings.trial.0,
        mute_seconds: settings.mute.as_secs_f64(),
    }
}

/// Most lists in use.
const LISTS_MAX: usize = 64;
/// Most single hints that wait.
const SINGLES_MAX: usize = 1024;
/// Most answers that are watched.
const UNUSED_MAX: usize = 4096;
/// Most runs of ranges.
const RUNS_MAX: usize = 1024;
/// Times that an origin is asked for a hint, while its fetch gives way.
const TRIES_MAX: u8 = 3;
/// Seconds for which a single hint is of use.
const SINGLE_SECONDS: f64 = 5.0;
/// Seconds for which a list stays after a client followed it.
pub(super) const LIST_SECONDS: f64 = 600.0;
/// Seconds for which a hint waits for its origin, if a list or another node counts on it.
const PLACED_SECONDS: f64 = 60.0;
const PAUSE_SECONDS: f64 = 0.5;
const TICK_SECONDS: f64 = 0.02;

#[cfg(test)]
mod tests;
