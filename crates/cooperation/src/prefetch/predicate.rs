//! The prefetch predicate: whether a page must be fetched into local memory now, so that nobody
//! waits later.
//!
//! Forestall (Kimbrel, Tomkins, Patterson, Bershad, Cao, Felten, Gibson, Karlin, Li, *A
//! trace-driven comparison of algorithms for parallel prefetching and caching*, OSDI 1996) as
//! Voelker 2000, section 4.2.2, adapts it to two distances. Fetches into a node come one after the
//! other; b\[j\] is the j-th missing page among the hinted references to come, t_b\[j\] the time
//! until it is asked for if nothing stalls, F_i what it takes to fetch the i-th: F_G from global
//! memory, F_D from disk. The predicate is true when for some j
//!
//! ```text
//!   F_1 + F_2 + … + F_j  ≥  t_b[j]
//! ```
//!
//! and then the node fetches its *first* missing page, if it can give up one that is asked for
//! later. The least t_b\[j\] − ΣF over all j is the [`slack`]: for so long nothing need be fetched.
//! A node need not look at each reference: [`Forestall`] keeps the slack and tells when it may have
//! run out.
//!
//! O(pages looked at). A caller looks no further ahead than its local memory has room for: what
//! comes after that could not be kept if it were fetched.

/// A missing page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MissingPage {
    /// t_b: computing until it is asked for, in seconds.
    pub until_seconds: f64,
    /// F: what it takes to fetch, in seconds.
    pub fetch_seconds: f64,
}

/// Whether prefetching must begin now. It reads no further than it must.
pub fn is_due(missing: impl IntoIterator<Item = MissingPage>) -> bool {
    let mut fetching = 0.0;
    missing.into_iter().any(|page| {
        fetching += page.fetch_seconds;
        fetching >= page.until_seconds
    })
}

/// How many seconds of computing there are until prefetching must begin; zero or less when it must
/// now, `None` when nothing is missing. It reads no further than to the first page that makes it
/// zero or less.
pub fn slack(missing: impl IntoIterator<Item = MissingPage>) -> Option<f64> {
    let (mut fetching, mut least) = (0.0, None);
    for page in missing {
        fetching += page.fetch_seconds;
        let slack = page.until_seconds - fetching;
        least = Some(least.map_or(slack, |least: f64| least.min(slack)));
        if slack <= 0.0 {
            break;
        }
    }
    least
}

/// The slack of a node, kept between looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forestall {
    slack_seconds: f64,
}

impl Forestall {
    /// Whether it is time to look at the missing pages again. Until then the predicate is false, as
    /// long as all that makes it truer was told.
    pub fn must_look(&self) -> bool {
        self.slack_seconds <= 0.0
    }

    /// The program has computed for so long.
    pub fn computed(&mut self, seconds: f64) {
        self.slack_seconds -= seconds;
    }

    /// A hinted page, asked for after so much computing, takes so much longer to fetch than before:
    /// it left local memory, or global memory.
    ///
    /// Of a page that was missing, or has missing pages before it, at least the kept slack was
    /// left, since they were looked at; of one that is missing now as the first, all the time until
    /// it is asked for.
    pub fn moved_away(&mut self, until_seconds: f64, longer_seconds: f64) {
        self.slack_seconds = self.slack_seconds.min(until_seconds) - longer_seconds;
    }

    /// Hints changed: nothing is known.
    pub fn reset(&mut self) {
        self.slack_seconds = 0.0;
    }

    /// Looked, and found this slack (see [`slack`]).
    pub fn looked(&mut self, slack: Option<f64>) {
        self.slack_seconds = slack.unwrap_or(f64::INFINITY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pages(list: &[(f64, f64)]) -> Vec<MissingPage> {
        list.iter()
            .map(|(until, fetch)| MissingPage { until_seconds: *until, fetch_seconds: *fetch })
            .collect()
    }

    #[test]
    fn it_is_due_when_some_page_would_come_too_late() {
        // F_D = 13 ms, F_G = 0.37 ms; the third page decides: 13 + 0.37 + 13 = 26.37 ms
        let early = pages(&[(0.020, 0.013), (0.021, 0.000_37), (0.026, 0.013)]);
        let late = pages(&[(0.020, 0.013), (0.021, 0.000_37), (0.027, 0.013)]);
        assert!(is_due(early.clone()) && !is_due(late.clone()));
        assert!((slack(early).expect("pages") + 0.000_37).abs() < 1e-12);
        assert!((slack(late).expect("pages") - 0.000_63).abs() < 1e-12);
        assert!(is_due(pages(&[(0.013, 0.013)])), "in the nick of time is now");
        assert!(!is_due(Vec::new()) && slack(Vec::new()).is_none());
    }

    #[test]
    fn a_page_that_leaves_local_memory_is_looked_for_in_time() {
        for found in [None, Some(9.0)] {
            let mut forestall = Forestall::default();
            forestall.looked(found);
            forestall.moved_away(0.005, 0.013);
            assert!(forestall.must_look(), "13 ms to fetch what is asked for in 5 ms, {found:?}");
        }
    }

    #[test]
    fn a_page_in_global_memory_can_wait_where_one_on_disk_cannot() {
        assert!(is_due(pages(&[(0.005, 0.013)])) && !is_due(pages(&[(0.005, 0.000_37)])));
    }

    proptest! {
        #[test]
        fn the_predicate_is_that_there_is_no_slack(list in proptest::collection::vec((0.0..1.0f64, 0.0..0.1f64), 0..20)) {
            prop_assert_eq!(is_due(pages(&list)), slack(pages(&list)).is_some_and(|slack| slack <= 0.0));
        }

        /// What the kept slack promises: while it lasts, computing and pages moving away, those
        /// that were local among them, cannot have made the predicate true.
        #[test]
        fn while_slack_is_kept_nothing_is_due(
            list in proptest::collection::vec((0.0..1.0f64, prop_oneof![Just(0.0), 0.0..0.1f64]), 1..20),
            computed in 0.0..0.5f64,
            away in (0usize..20, 0.0..0.1f64),
        ) {
            let mut list = list;
            list.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut forestall = Forestall::default();
            let missing = |list: &[(f64, f64)]| pages(list).into_iter().filter(|page| page.fetch_seconds > 0.0);
            forestall.looked(slack(missing(&list)));
            list.iter_mut().for_each(|page| page.0 -= computed);
            forestall.computed(computed);
            let at = away.0 % list.len();
            list[at].1 += away.1;
            forestall.moved_away(list[at].0, away.1);
            let is_late = slack(missing(&list)).is_some_and(|slack| slack < -1e-9);
            prop_assert!(forestall.must_look() || !is_late);
        }
    }
}
