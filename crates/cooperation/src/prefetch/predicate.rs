//! Prefetch predicate: decides if a page must be fetched into local memory now, so that no program
//! waits later.
//!
//! Forestall is by Kimbrel, Tomkins, Patterson, Bershad, Cao, Felten, Gibson, Karlin, Li: *A
//! trace-driven comparison of algorithms for parallel prefetching and caching*, OSDI 1996. Voelker
//! 2000, section 4.2.2, adapts it to two distances. Fetches into a node come one after the other.
//! b\[j\] is the j-th missing page among the hinted references to come. t_b\[j\] is the time until
//! its use if nothing stalls. F_i is the time to fetch the i-th: F_G from global memory, F_D from
//! disk. The predicate is true when for some j
//!
//! ```text
//!   F_1 + F_2 + … + F_j  ≥  t_b[j]
//! ```
//!
//! Then the node fetches its *first* missing page, if it can evict a page that it needs later. The
//! least t_b\[j\] − ΣF over all j is the [`slack`]: for that time nothing need be fetched. A node
//! need not check each reference: [`Forestall`] keeps the slack and reports when it may have run
//! out.
//!
//! O(pages examined). A caller looks no further ahead than its local memory has room for: later
//! pages could not be kept.

/// Missing page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MissingPage {
    /// t_b: computing time until the page is needed, in seconds.
    pub until_seconds: f64,
    /// F: time to fetch the page, in seconds.
    pub fetch_seconds: f64,
}

/// Returns `true` if prefetching must begin now. Reads no further than necessary.
pub fn is_due(missing: impl IntoIterator<Item = MissingPage>) -> bool {
    let mut fetching = 0.0;
    missing.into_iter().any(|page| {
        fetching += page.fetch_seconds;
        fetching >= page.until_seconds
    })
}

/// Returns the seconds of computing until prefetching must begin. Zero or less when it must begin
/// now; `None` when nothing is missing. Reads no further than the first page that makes the slack
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

/// Slack of a node, kept between checks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forestall {
    slack_seconds: f64,
}

impl Forestall {
    /// Returns `true` if the missing pages must be checked again. Until then the predicate is
    /// false, as long as all changes towards `true` were reported.
    pub fn must_look(&self) -> bool {
        self.slack_seconds <= 0.0
    }

    /// Records computing time of the program.
    pub fn computed(&mut self, seconds: f64) {
        self.slack_seconds -= seconds;
    }

    /// Records that a hinted page, needed after `until_seconds` of computing, takes
    /// `longer_seconds` more to fetch. It has left local memory, or global memory.
    ///
    /// If the page was missing, or has missing pages before it, at least the kept slack was left at
    /// the last check. If it is now the first missing page, all the time until its use is left.
    pub fn moved_away(&mut self, until_seconds: f64, longer_seconds: f64) {
        self.slack_seconds = self.slack_seconds.min(until_seconds) - longer_seconds;
    }

    /// Forgets the slack, since hints changed.
    pub fn reset(&mut self) {
        self.slack_seconds = 0.0;
    }

    /// Records the slack of a check (see [`slack`]).
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
        // F_D = 13 ms, F_G = 0.37 ms; the third page decides: 13 + 0.37 + 13 = 26.37 ms.
        let early = pages(&[(0.020, 0.013), (0.021, 0.000_37), (0.026, 0.013)]);
        let late = pages(&[(0.020, 0.013), (0.021, 0.000_37), (0.027, 0.013)]);
        assert!(is_due(early.clone()) && !is_due(late.clone()));
        assert!((slack(early).expect("pages") + 0.000_37).abs() < 1e-12);
        assert!((slack(late).expect("pages") - 0.000_63).abs() < 1e-12);
        assert!(is_due(pages(&[(0.013, 0.013)])), "in the nick of time is now");
        assert!(!is_due(Vec::new()) && slack(Vec::new()).is_none());
    }

    #[test]
    fn page_moved_away_triggers_look_in_time() {
        for found in [None, Some(9.0)] {
            let mut forestall = Forestall::default();
            forestall.looked(found);
            forestall.moved_away(0.005, 0.013);
            assert!(forestall.must_look(), "13 ms to fetch what is asked for in 5 ms, {found:?}");
        }
    }

    #[test]
    fn global_page_waits_longer_than_disk_page() {
        assert!(is_due(pages(&[(0.005, 0.013)])) && !is_due(pages(&[(0.005, 0.000_37)])));
    }

    proptest! {
        #[test]
        fn the_predicate_is_that_there_is_no_slack(list in proptest::collection::vec((0.0..1.0f64, 0.0..0.1f64), 0..20)) {
            prop_assert_eq!(is_due(pages(&list)), slack(pages(&list)).is_some_and(|slack| slack <= 0.0));
        }

        /// Promise of the kept slack: while it lasts, neither computing nor pages moving away,
        /// local ones included, can make the predicate true.
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
