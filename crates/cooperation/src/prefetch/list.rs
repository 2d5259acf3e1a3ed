//! One list of hints on its way: the next request to fetch ahead, and the time for it.
//!
//! The list joins the parts of section 4.2.2 for one consumer. [`Hints`] matches the consumer's
//! requests with the list. [`Stride`] is its pace, as told or as measured. The prefetch predicate
//! says if the first missing request must be fetched now:
//!
//! ```text
//!   t_b[j] = hints before j · pace, or what is left until its own deadline
//!   F_i    = time of a fetch / fetches that go at a time
//! ```
//!
//! The paper serializes a node's fetches. An origin takes several at a time, so that each counts
//! for its part of the time. A list without a pace is a list of things needed now: its requests are
//! fetched as early as the budgets allow. O(examined hints) a decision, at most [`LOOK_AHEAD`].

use super::predicate::is_due;
use super::{HintMatch, Hints, MissingPage, Stride};
use std::collections::{HashMap, HashSet};

/// List of hints in use. Requests are numbered by the caller.
#[derive(Clone, Debug)]
pub struct HintedList {
    hints: Hints,
    stride: Option<Stride>,
    /// Time of the consumer's last matching request.
    matched_seconds: Option<f64>,
    /// Requests that are being fetched or were, with hints of theirs to come.
    settled: HashSet<u64>,
    /// Times at which requests are needed at the latest, in seconds.
    deadlines: HashMap<u64, f64>,
    began_seconds: f64,
    passed: Vec<u64>,
}

impl HintedList {
    /// Makes an empty list for at most `most` hints that begins at `now`. `pace_seconds` is the
    /// time between two requests, if it was told.
    pub fn new(most: usize, pace_seconds: Option<f64>, now: f64) -> Self {
        Self {
            hints: Hints::new(most),
            stride: pace_seconds.filter(|pace| pace.is_finite() && *pace > 0.0).map(Stride::new),
            matched_seconds: None,
            settled: HashSet::new(),
            deadlines: HashMap::new(),
            began_seconds: now,
            passed: Vec::new(),
        }
    }

    /// Adds a request at the end. Returns `false` if there is no room.
    pub fn add(&mut self, request: u64, deadline_seconds: Option<f64>) -> bool {
        let is_added = self.hints.add([request]) == 1;
        if let Some(deadline) = deadline_seconds.filter(|deadline| is_added && deadline.is_finite()) {
            self.deadlines.insert(request, self.began_seconds + deadline);
        }
        is_added
    }

    /// Records a request of the consumer. Returns `true` if it was hinted.
    pub fn referenced(&mut self, request: u64, now: f64) -> bool {
        let mut passed = std::mem::take(&mut self.passed);
        let found = self.hints.referenced(request, &mut passed);
        for page in &passed {
            if self.hints.next(*page).is_none() {
                self.settled.remove(page);
                self.deadlines.remove(page);
            }
        }
        self.passed = passed;
        let HintMatch::Yes { wrong } = found else { return false };
        if let (Some(stride), Some(before)) = (&mut self.stride, self.matched_seconds) {
            stride.computed((now - before).max(0.0) / (wrong + 1) as f64);
        }
        self.matched_seconds = Some(now);
        true
    }

    /// Returns the first missing request, if it must be fetched now. `fetch_seconds` is the time of
    /// one fetch, `at_once` the number of fetches that go at a time.
    pub fn due(&self, now: f64, fetch_seconds: f64, at_once: usize) -> Option<u64> {
        let each_seconds = fetch_seconds / at_once.max(1) as f64;
        let at = self.hints.at();
        let since = self.matched_seconds.unwrap_or(self.began_seconds);
        let missing = || {
            let upcoming = self.hints.upcoming_from(at).take(LOOK_AHEAD);
            upcoming.filter(|(_, request)| !self.settled.contains(request))
        };
        let (_, first) = missing().next()?;
        let until = |(place, request): (u64, u64)| {
            let by_pace = self
                .stride
                .map_or(0.0, |stride| (place - at) as f64 * stride.seconds() - (now - since).max(0.0));
            let by_deadline = self.deadlines.get(&request).map_or(f64::INFINITY, |deadline| deadline - now);
            MissingPage { until_seconds: by_pace.min(by_deadline), fetch_seconds: each_seconds }
        };
        is_due(missing().map(until)).then_some(first)
    }

    /// Records that a request needs no fetch: it has begun, is held, or was refused.
    pub fn settle(&mut self, request: u64) {
        if self.hints.next(request).is_some() {
            self.settled.insert(request);
        }
    }

    /// Records that a request must be fetched after all.
    pub fn unsettle(&mut self, request: u64) {
        self.settled.remove(&request);
    }

    /// Returns the first request that needs a fetch.
    pub fn first_missing(&self) -> Option<u64> {
        let upcoming = self.hints.upcoming_from(self.hints.at()).take(LOOK_AHEAD);
        upcoming.map(|(_, request)| request).find(|request| !self.settled.contains(request))
    }

    /// Returns the seconds until the consumer needs a request, at its pace; `None` without a hint
    /// for it.
    pub fn needed_in(&self, request: u64) -> Option<f64> {
        let distance = self.hints.distance(request)? as f64;
        Some(self.stride.map_or(0.0, |stride| distance * stride.seconds()))
    }

    /// Returns the number of hints to come.
    pub fn len(&self) -> usize {
        self.hints.len()
    }

    /// Returns `true` if no hint is left.
    pub fn is_empty(&self) -> bool {
        self.hints.is_empty()
    }

    /// Returns `true` if no hint to come, within the look-ahead, needs a fetch.
    pub fn is_settled(&self) -> bool {
        let at = self.hints.at();
        self.hints.upcoming_from(at).take(LOOK_AHEAD).all(|(_, request)| self.settled.contains(&request))
    }
}

/// Most hints ahead of the consumer that a decision looks at.
pub const LOOK_AHEAD: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(pace: Option<f64>, requests: u64) -> HintedList {
        let mut list = HintedList::new(1000, pace, 0.0);
        (0..requests).for_each(|request| assert!(list.add(request, None)));
        list
    }

    #[test]
    fn list_without_pace_is_due_at_once() {
        let mut list = list(None, 3);
        for expected in [Some(0), Some(1), Some(2), None] {
            let due = list.due(0.0, 0.05, 4);
            assert_eq!(due, expected);
            due.into_iter().for_each(|request| list.settle(request));
        }
        assert!(list.is_settled() && !list.is_empty());
    }

    #[test]
    fn slow_consumer_lets_fetches_wait() {
        // A request each second, a fetch in 0.1 s: the first is due 0.1 s before its time.
        let mut list = list(Some(1.0), 10);
        list.settle(0);
        assert_eq!(list.due(0.0, 0.1, 1), None);
        assert_eq!(list.due(0.89, 0.1, 1), None);
        assert_eq!(list.due(0.91, 0.1, 1), Some(1));
        assert_eq!(list.due(0.0, 1.2, 1), Some(1), "fetches slower than the consumer begin at once");
        assert_eq!(list.due(0.0, 1.2, 4), None, "four at a time are faster than the consumer");
    }

    #[test]
    fn deadline_is_sooner_than_pace() {
        let mut list = HintedList::new(10, Some(100.0), 5.0);
        assert!(list.add(1, None) && list.add(2, Some(3.0)));
        list.settle(1);
        assert_eq!(list.due(5.0, 0.5, 1), None);
        assert_eq!(list.due(7.6, 0.5, 1), Some(2));
    }

    #[test]
    fn consumer_that_asks_moves_the_list_on() {
        let mut list = list(Some(1.0), 10);
        assert!(list.referenced(0, 10.0) && list.referenced(3, 11.0) && !list.referenced(77, 11.0));
        assert_eq!((list.len(), list.due(11.0, 5.0, 1)), (6, Some(4)));
        assert!(!list.referenced(1, 12.0), "its hint was passed");
        for request in 4..10 {
            list.settle(request);
            assert!(list.referenced(request, 12.0));
        }
        assert!(list.is_empty() && list.due(13.0, 1.0, 1).is_none());
        assert!(list.settled.is_empty(), "nothing stays of passed hints");
    }

    #[test]
    fn full_list_refuses_hints() {
        let mut list = HintedList::new(2, Some(f64::NAN), 0.0);
        assert_eq!([list.add(1, None), list.add(1, None), list.add(2, None)], [true, true, false]);
        assert_eq!(list.due(0.0, 0.0, 0), Some(1), "a pace that is no number is none");
    }

    proptest! {
        #[test]
        fn each_request_is_due_once(requests in proptest::collection::vec(0u64..20, 0..60), used in 0usize..30) {
            let mut list = HintedList::new(100, None, 0.0);
            requests.iter().for_each(|request| assert!(list.add(*request, None)));
            let mut begun = Vec::new();
            while let Some(request) = list.due(0.0, 0.1, 2) {
                prop_assert!(!begun.contains(&request));
                list.settle(request);
                begun.push(request);
            }
            for request in requests.iter().take(used) {
                list.referenced(*request, 1.0);
                prop_assert!(list.due(1.0, 0.1, 2).is_none());
            }
        }
    }
}
