//! Origins as prefetching sees them: their pace, prefetches on their way there, and hints that wait
//! for them.
//!
//! A hint that no other node takes asks its origin, if fewer prefetches are on their way there than
//! the limit of its pace. Else it waits here, so that hints for other origins and other nodes go
//! on. Pure: time is an argument, in seconds.
//!
//! Everything is bounded. A node's own hints wait in no larger number than its fetches find an
//! origin taken, and a few for each origin. Those of other nodes have shares by node.

use super::hint::Hint;
use shoal_cooperation::prefetch::OriginPace;
use std::collections::{HashMap, HashSet, VecDeque};

/// Origins by name.
#[derive(Default)]
pub(super) struct Origins {
    origins: HashMap<String, OriginState>,
    /// Hints that wait, the oldest first.
    waiting: VecDeque<Hint>,
}

#[derive(Default)]
struct OriginState {
    pace: OriginPace,
    in_flight: usize,
    busy_until: f64,
    used_at: f64,
}

impl OriginState {
    fn may_ask(&self, now: f64) -> bool {
        let is_load_known = now <= self.used_at + FORGET_SECONDS;
        now >= self.busy_until && !self.pace.is_paused(now) && !(is_load_known && self.pace.is_loaded())
    }
}

impl Origins {
    /// Returns `true` if hints for an origin are of use now: it is not loaded and asks for no less.
    pub fn may_ask(&self, name: &str, now: f64) -> bool {
        self.origins.get(name).is_none_or(|origin| origin.may_ask(now))
    }

    /// Returns the mean time of a fetch, and the number of fetches that may go at a time.
    pub fn pace(&self, name: &str) -> (f64, usize) {
        let unknown = OriginPace::default();
        let pace = self.origins.get(name).map_or(&unknown, |origin| &origin.pace);
        (pace.fetch_seconds(), pace.limit())
    }

    /// Takes a place at the origin of a hint. Returns `false` if all are taken, or the origin is
    /// left alone.
    pub fn begin(&mut self, hint: &mut Hint, now: f64) -> bool {
        debug_assert!(!hint.asks_origin, "a hint has one place");
        hint.asks_origin = self.has_place(hint.origin(), now);
        self.origin(hint.origin(), now).in_flight += usize::from(hint.asks_origin);
        hint.asks_origin
    }

    /// Gives a place back.
    pub fn end(&mut self, name: &str) {
        let Some(origin) = self.origins.get_mut(name) else { return };
        debug_assert!(origin.in_flight > 0, "a place is given back once");
        origin.in_flight = origin.in_flight.saturating_sub(1);
    }

    /// Records the time to the head of an answer to a client.
    pub fn answered(&mut self, name: &str, seconds: f64, now: f64) {
        let origin = self.used(name, now);
        origin.pace.answered(seconds, origin.in_flight == 0);
    }

    /// Records the time to the head of a prefetch that has its place.
    pub fn prefetched(&mut self, name: &str, seconds: f64, now: f64) {
        let origin = self.used(name, now);
        origin.pace.prefetched(seconds, origin.in_flight.max(1));
    }

    fn used(&mut self, name: &str, now: f64) -> &mut OriginState {
        let origin = self.origin(name, now);
        if now > origin.used_at + FORGET_SECONDS {
            origin.pace.forget_load();
        }
        origin.used_at = now;
        origin
    }

    /// Records that an origin asks for less.
    pub fn refused(&mut self, name: &str, retry_after_seconds: Option<f64>, now: f64) {
        self.origin(name, now).pace.refused(now, retry_after_seconds);
    }

    /// Records that a prefetch gave way to a client.
    pub fn gave_way(&mut self, name: &str, now: f64) {
        self.origin(name, now).busy_until = now + BUSY_SECONDS;
    }

    /// Returns the number of hints of other nodes that may come to wait.
    pub fn room(&self) -> usize {
        PLACED_MAX.saturating_sub(self.waiting.iter().filter(|hint| hint.asker.is_some()).count())
    }

    /// Returns the number of hints that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns `true` if enough of this node's own hints wait for the origin: further ones stay
    /// where they are.
    pub fn has_enough(&self, name: &str) -> bool {
        let own = self.waiting.iter().filter(|hint| hint.asker.is_none() && hint.origin() == name);
        own.take(OWN_WAITING_MAX).count() >= OWN_WAITING_MAX
    }

    /// Lets a hint of this node wait for its origin. A fetch found the origin taken, so that the
    /// number of fetches at a time bounds those beyond [`Self::has_enough`].
    pub fn wait(&mut self, hint: Hint) {
        debug_assert!(hint.useful_until.is_some() && !hint.asks_origin, "it waits for some time");
        self.waiting.push_back(hint);
    }

    /// Lets a hint of another node wait for its origin. Returns `false` if that node's hints take
    /// as much as is left: some room stays for every other node.
    pub fn wait_placed(&mut self, hint: Hint) -> bool {
        debug_assert!(hint.asker.is_some(), "placed by another node");
        let of_asker = self.waiting.iter().filter(|other| other.asker == hint.asker).count();
        let has_room = of_asker < self.room();
        if has_room {
            self.wait(hint);
        }
        has_room
    }

    /// Removes the hint of this number, for which nobody need wait any more.
    pub fn withdraw(&mut self, number: u64) -> Option<Hint> {
        let at = self.waiting.iter().position(|hint| hint.number == number)?;
        self.waiting.remove(at)
    }

    /// Removes waiting hints that are of no use any more.
    pub fn expire(&mut self, now: f64) -> Vec<Hint> {
        let is_of_use = |hint: &Hint| hint.useful_until.is_some_and(|until| now < until);
        if self.waiting.iter().all(is_of_use) {
            return Vec::new();
        }
        let (kept, old): (VecDeque<Hint>, VecDeque<Hint>) = self.waiting.drain(..).partition(is_of_use);
        self.waiting = kept;
        old.into()
    }

    /// Takes the oldest waiting hint with a place at its origin, and the place. `allowance` returns
    /// the bytes that a hint may bring, if any.
    pub fn next(&mut self, now: f64, mut allowance: impl FnMut(&Hint) -> Option<u64>) -> Option<(Hint, u64)> {
        let (mut without_place, mut bytes) = (HashSet::new(), 0);
        let at = self.waiting.iter().position(|hint| {
            let name = hint.origin();
            if without_place.contains(name) || !self.has_place(name, now) {
                without_place.insert(name);
                return false;
            }
            bytes = allowance(hint).unwrap_or(0);
            bytes > 0
        })?;
        let mut hint = self.waiting.remove(at)?;
        let has_begun = self.begin(&mut hint, now);
        debug_assert!(has_begun, "the place was free");
        Some((hint, bytes))
    }

    fn has_place(&self, name: &str, now: f64) -> bool {
        self.origins
            .get(name)
            .is_none_or(|origin| origin.in_flight < origin.pace.limit() && origin.may_ask(now))
    }

    fn origin(&mut self, name: &str, now: f64) -> &mut OriginState {
        if !self.origins.contains_key(name) && self.origins.len() >= ORIGINS_MAX {
            let is_recent = |origin: &OriginState| origin.used_at + FORGET_SECONDS > now;
            self.origins.retain(|_, origin| origin.in_flight > 0 || is_recent(origin));
            if self.origins.len() >= ORIGINS_MAX {
                self.origins.retain(|_, origin| origin.in_flight > 0);
            }
        }
        self.origins.entry(name.to_owned()).or_default()
    }
}

/// Most origins with a pace, beside those with prefetches on their way.
const ORIGINS_MAX: usize = 1024;
/// Own hints for one origin that wait before further ones stay where they are.
const OWN_WAITING_MAX: usize = 64;
/// Most hints of other nodes that wait.
const PLACED_MAX: usize = 768;
/// Seconds after which an origin's load is not known any more.
const FORGET_SECONDS: f64 = 30.0;
/// Seconds for which an origin is left alone after a prefetch gave way there.
const BUSY_SECONDS: f64 = 0.1;

const _: () = assert!(OWN_WAITING_MAX < PLACED_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefetch::hint::HintPlace;
    use shoal_cooperation::prefetch::HintSource;

    fn hint(host: &str, key: u64, asker: Option<u8>) -> Hint {
        let url = format!("http://{host}/{key}");
        let source = if asker.is_some() { HintSource::Peer } else { HintSource::List };
        let hint = Hint::new(source, HintPlace::Url { url, listener: 0, key, is_site: true });
        let asker = asker.map(|last| [192, 0, 2, last].into());
        Hint { asker, useful_until: Some(9.0), ..hint }
    }

    #[test]
    fn hints_wait_for_a_place_at_their_origin() {
        let mut origins = Origins::default();
        let mut begun = 0;
        while origins.begin(&mut hint("a.test", begun, None), 0.0) {
            begun += 1;
        }
        assert_eq!(begun as usize, OriginPace::default().limit());
        for (host, key) in [("a.test", 10), ("a.test", 11), ("a.test", 13), ("b.test", 12)] {
            origins.wait(hint(host, key, None));
        }
        let next = |origins: &mut Origins, now| origins.next(now, |_| Some(5)).map(|(hint, _)| hint.number);
        assert_eq!(next(&mut origins, 0.0), Some(12), "another origin's goes on");
        assert_eq!(next(&mut origins, 0.0), None);
        origins.end("a.test");
        assert_eq!(next(&mut origins, 0.0), Some(10), "the oldest first");
        origins.end("a.test");
        origins.gave_way("a.test", 1.0);
        assert_eq!(next(&mut origins, 1.05), None, "clients need the origin");
        assert!(origins.next(2.0, |_| None).is_none(), "its source is held back");
        assert!(origins.withdraw(11).is_some() && origins.withdraw(11).is_none());
        assert_eq!(next(&mut origins, 2.0), Some(13));
        assert_eq!(origins.waiting(), 0);
    }

    #[test]
    fn waiting_hints_have_shares() {
        let mut origins = Origins::default();
        for key in 0..OWN_WAITING_MAX as u64 {
            assert!(!origins.has_enough("a.test"));
            origins.wait(hint("a.test", key, None));
        }
        assert!(origins.has_enough("a.test") && !origins.has_enough("b.test"));
        let taken = |origins: &mut Origins, asker| {
            (0..2000).filter(|key| origins.wait_placed(hint("a.test", 1000 + key, Some(asker)))).count()
        };
        assert_eq!(taken(&mut origins, 1), PLACED_MAX / 2, "one node's share");
        assert_eq!([2, 3, 4, 1].map(|asker| taken(&mut origins, asker)), [192, 96, 48, 0]);
        assert!((5..=200).all(|asker| origins.room() == 0 || taken(&mut origins, asker) > 0));
        assert!(origins.waiting() <= OWN_WAITING_MAX + PLACED_MAX, "bounded");
        assert!(!origins.has_enough("b.test"), "own hints go on");
    }

    #[test]
    fn waiting_hints_expire() {
        let mut origins = Origins::default();
        (0..20).for_each(|key| {
            origins.wait(Hint { useful_until: Some(key as f64), ..hint("a.test", key, None) });
        });
        assert_eq!(origins.expire(10.0).len(), 11);
        assert_eq!((origins.waiting(), origins.expire(10.0).len()), (9, 0));
    }

    #[test]
    fn origins_in_use_keep_their_count() {
        let mut origins = Origins::default();
        let mut used = hint("a.test", 1, None);
        assert!(origins.begin(&mut used, 0.0));
        (0..3 * ORIGINS_MAX).for_each(|at| origins.answered(&format!("{at}.test"), 0.1, 1.0));
        assert!(origins.origins.len() <= ORIGINS_MAX + 1 && origins.origins["a.test"].in_flight == 1);
        origins.end("a.test");
    }
}
