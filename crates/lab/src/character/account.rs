//! Account of the cache that wrote a log: its hits, and the loss behind each other request.
//!
//! Each request has one place, the first that fits:
//!
//! ```text
//! hit ─► made by the cache itself ─► method ─► first request ─► not stored, for a reason
//!     ─► status ─► lifetime, variant, reload, part ─► room
//! ```
//!
//! Only the last is a matter of room: the object was requested before, and the log names no reason
//! for the miss. Such an object was evicted, or it was never stored.

use shoal_core::Key;
use shoal_trace::{Outcome, Record, RefusalReason};
use std::collections::{BTreeMap, HashSet};

/// Hits and losses of a logged cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheAccount {
    /// Requests of the log.
    pub requests: u64,
    /// Requests with an outcome in the log.
    pub told: u64,
    /// Requests that the cache answered from its store.
    pub hits: u64,
    /// Hits that the origin had to confirm.
    pub validated: u64,
    /// Told requests without a hit, by loss.
    losses: BTreeMap<MissCause, u64>,
    /// Objects requested so far.
    seen: HashSet<Key>,
}

/// Reason why a request was no hit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MissCause {
    /// The object was requested before, and the log names no reason.
    Room,
    /// The object was requested for the first time.
    First,
    /// The answer was not stored, for one of [`Outcome::REASONS`].
    NotStored(&'static str),
    /// The cache had no part in the request.
    Bypass,
    /// The stored response was stale, and the origin sent another.
    Lifetime,
    /// Only other variants were stored.
    Variant,
    /// The client asked for a reload.
    Reload,
    /// Only other parts were stored.
    Partial,
    /// The answer has a status that no cache stores.
    Status,
    /// The method is neither GET nor HEAD.
    Method,
    /// The cache made the answer itself.
    Own,
}

impl CacheAccount {
    /// Counts a request of the log, which the filter accepts or refuses.
    pub(super) fn count(&mut self, record: &Record<'_>, refused: Option<RefusalReason>) {
        self.requests += 1;
        let is_first = self.seen.insert(Key::unkeyed(record.url.as_bytes()));
        let Some(outcome) = record.outcome else { return };
        self.told += 1;
        if outcome.is_hit() {
            self.hits += 1;
            self.validated += u64::from(outcome == Outcome::Validated);
        } else {
            let has_method = matches!(record.method.as_deref(), None | Some("GET" | "HEAD"));
            *self.losses.entry(loss(outcome, has_method, is_first, refused)).or_default() += 1;
        }
        debug_assert_eq!(self.told, self.hits + self.losses.values().sum::<u64>(), "each has one place");
    }

    /// Returns `true` if the log tells hits and misses. Reasons alone, as in the fields of an
    /// origin's responses, do not tell hits.
    pub fn tells_hits(&self) -> bool {
        self.told > 0 && (self.hits > 0 || self.told * 10 >= self.requests * 9)
    }

    /// Returns the share of the told requests that hit; `None` if the log does not tell hits.
    pub fn hit_ratio(&self) -> Option<f64> {
        self.tells_hits().then(|| self.share(self.hits))
    }

    /// Returns the share of the told requests that could hit with room for everything, as origin
    /// and rules are.
    pub fn possible_hit_ratio(&self) -> Option<f64> {
        self.tells_hits().then(|| self.share(self.hits + self.lost(MissCause::Room)))
    }

    /// Returns the number of requests lost to one reason.
    pub fn lost(&self, loss: MissCause) -> u64 {
        self.losses.get(&loss).copied().unwrap_or(0)
    }

    /// Returns each loss with its share of the told requests, the largest first.
    pub fn losses(&self) -> Vec<(MissCause, f64)> {
        assert!(self.validated <= self.hits, "a validated answer is a hit");
        let mut losses: Vec<(MissCause, u64)> =
            self.losses.iter().map(|(loss, count)| (*loss, *count)).collect();
        losses.sort_by_key(|(loss, count)| (std::cmp::Reverse(*count), *loss));
        losses.into_iter().map(|(loss, count)| (loss, self.share(count))).collect()
    }

    fn share(&self, part: u64) -> f64 {
        debug_assert!(part <= self.told && self.told <= self.requests, "{part} of {}", self.told);
        crate::workload::share(part, self.told)
    }
}

fn loss(outcome: Outcome, has_method: bool, is_first: bool, refused: Option<RefusalReason>) -> MissCause {
    match outcome {
        Outcome::Own | Outcome::NotStored("denied" | "tunnel") => MissCause::Own,
        _ if !has_method => MissCause::Method,
        _ if is_first => MissCause::First,
        Outcome::NotStored(reason) => MissCause::NotStored(reason),
        Outcome::Bypass => MissCause::Bypass,
        _ if refused == Some(RefusalReason::Status) => MissCause::Status,
        Outcome::Replaced => MissCause::Lifetime,
        Outcome::Variant => MissCause::Variant,
        Outcome::Reload => MissCause::Reload,
        Outcome::Partial => MissCause::Partial,
        Outcome::Miss | Outcome::Hit | Outcome::Validated | Outcome::Stale | Outcome::Collapsed => {
            MissCause::Room
        }
    }
}

impl MissCause {
    /// Returns the loss's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Room => "room",
            Self::First => "first request",
            Self::NotStored(reason) => reason,
            Self::Bypass => "bypass",
            Self::Lifetime => "lifetime",
            Self::Variant => "variant",
            Self::Reload => "reload",
            Self::Partial => "part",
            Self::Status => "status",
            Self::Method => "method",
            Self::Own => "own answer",
        }
    }

    /// Returns the meaning, with the remedy where there is one.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Room => "requested before; the log names no reason: evicted, or never stored",
            Self::First => "requested for the first time: no cache hits it",
            Self::NotStored(reason) => match Outcome::REASONS.iter().find(|(name, _)| *name == reason) {
                Some((_, false)) => "the answer was not stored (docs/REASONS.md has the remedy)",
                _ => "no cache may store the answer: room does not help (docs/REASONS.md has the remedy)",
            },
            Self::Bypass => "the cache had no part in it, by a rule or a field of the request",
            Self::Lifetime => "the stored response was stale and had changed: a longer lifetime helps",
            Self::Variant => "stored for other fields of Vary: fewer variants help",
            Self::Reload => "the client asked for a reload",
            Self::Partial => "other parts were stored",
            Self::Status => "answers of this status are not stored",
            Self::Method => "neither GET nor HEAD",
            Self::Own => "refused, tunnelled or answered by the cache itself",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(requests: &[(&'static str, &'static str, Option<Outcome>)]) -> CacheAccount {
        let mut account = CacheAccount::default();
        for (method, url, outcome) in requests {
            let record = Record {
                method: Some((*method).into()),
                url: (*url).into(),
                outcome: *outcome,
                ..Record::default()
            };
            account.count(&record, None);
        }
        account
    }

    #[test]
    fn each_request_has_one_place() {
        let never = Some(Outcome::NotStored("never-reusable"));
        let account = counted(&[
            ("GET", "/a", Some(Outcome::Miss)),
            ("GET", "/a", Some(Outcome::Hit)),
            ("GET", "/a", Some(Outcome::Validated)),
            ("GET", "/a", Some(Outcome::Miss)),
            ("GET", "/b", never),
            ("GET", "/b", never),
            ("POST", "/a", Some(Outcome::NotStored("method"))),
            ("GET", "/a", Some(Outcome::Replaced)),
            ("CONNECT", "h:443", Some(Outcome::NotStored("tunnel"))),
            ("GET", "/a", None),
        ]);
        assert_eq!((account.requests, account.told, account.hits, account.validated), (10, 9, 2, 1));
        let lost = [
            (MissCause::First, 2),
            (MissCause::Room, 1),
            (MissCause::NotStored("never-reusable"), 1),
            (MissCause::Lifetime, 1),
            (MissCause::Method, 1),
            (MissCause::Own, 1),
        ];
        assert!(lost.iter().all(|(loss, count)| account.lost(*loss) == *count), "{account:?}");
        assert_eq!(account.losses()[0], (MissCause::First, 2.0 / 9.0));
        assert_eq!((account.hit_ratio(), account.possible_hit_ratio()), (Some(2.0 / 9.0), Some(3.0 / 9.0)));
        let sum: f64 = account.losses().iter().map(|(_, share)| share).sum();
        assert!((sum + 2.0 / 9.0 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn log_without_outcomes_tells_nothing() {
        let account = counted(&[("GET", "/a", None), ("GET", "/a", None)]);
        assert_eq!((account.hit_ratio(), account.possible_hit_ratio()), (None, None));
        let some = counted(&[("GET", "/a", None), ("GET", "/a", Some(Outcome::NotStored("private")))]);
        assert_eq!(some.hit_ratio(), None, "a private answer does not tell that there is a cache");
    }
}
