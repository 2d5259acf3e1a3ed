//! Hints: the references that a program has announced, and its progress in them.
//!
//! A program announces pages in the order in which it will need them (Voelker 2000, section 4.2.2).
//! The idea is that of Patterson, Gibson, Ginting, Stodolsky, Zelenka, *Informed prefetching and
//! caching*, SOSP 1995. Hints may be complete, partial, or wrong, so each reference is matched with
//! them:
//!
//! - The reference is the next hinted one: the program advances in the hints.
//! - The reference is hinted a little further on: the hints in between were wrong, or came in
//!   another order, and are dropped.
//! - Otherwise the program made an unannounced reference, and the hints stay. *A little* grows with
//!   each such reference. Any number of wrong hints is therefore overcome in the end, while a
//!   single stray reference does not drop many good ones.
//!
//! The share of recent references that were hinted is the [coverage](Hints::coverage); pages
//! without a hint are judged by it. The number of hints is bounded. Hints beyond the bound are
//! refused, and the program may announce them again later. O(1) a hint and, amortized, a reference.
//! A hint takes some 100 to 160 bytes where each names another page, less where pages repeat.

use std::collections::{HashMap, VecDeque};

/// Hints of one program.
#[derive(Clone, Debug)]
pub struct Hints {
    /// Hints to come; the first has the place `at`.
    upcoming: VecDeque<u64>,
    /// Places of each page to come among all hints ever announced, ascending.
    places: HashMap<u64, VecDeque<u64>>,
    at: u64,
    most: usize,
    /// References since the last hinted one.
    unmatched: u64,
    coverage: f64,
}

/// Match of a reference with the hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintMatch {
    /// The reference was hinted; the hints before it were dropped as wrong.
    Yes {
        /// Number of dropped hints.
        wrong: u64,
    },
    /// The reference was not hinted, or so far on that it may be another one.
    No,
}

impl Hints {
    /// Makes an empty list of at most `most` hints.
    pub fn new(most: usize) -> Self {
        Self { upcoming: VecDeque::new(), places: HashMap::new(), at: 0, most, unmatched: 0, coverage: 0.0 }
    }

    /// Adds the pages that the program will need after all earlier hints. Returns the number of
    /// accepted hints, from the first on.
    pub fn add(&mut self, pages: impl IntoIterator<Item = u64>) -> usize {
        let before = self.upcoming.len();
        for page in pages.into_iter().take(self.most.saturating_sub(before)) {
            let place = self.at + self.upcoming.len() as u64;
            self.places.entry(page).or_default().push_back(place);
            self.upcoming.push_back(page);
        }
        self.upcoming.len() - before
    }

    /// Matches a reference of the program. Pages of the hints that it uses up, dropped ones
    /// included, are put into `passed`, which is emptied first.
    pub fn referenced(&mut self, page: u64, passed: &mut Vec<u64>) -> HintMatch {
        passed.clear();
        let reach = NEAR + FARTHER * self.unmatched;
        let found = self.distance(page).filter(|distance| *distance <= reach);
        let hit = if found.is_some() { 1.0 } else { 0.0 };
        self.coverage += NEWEST * (hit - self.coverage);
        let Some(wrong) = found else {
            self.unmatched += 1;
            return HintMatch::No;
        };
        self.unmatched = 0;
        for _ in 0..=wrong {
            passed.extend(self.pass());
        }
        HintMatch::Yes { wrong }
    }

    /// Returns the number of hinted references before the next one to this page; `None` without a
    /// hint for it.
    pub fn distance(&self, page: u64) -> Option<u64> {
        self.next(page).map(|place| place - self.at)
    }

    /// Returns the place of the next hint for a page among all ever announced. It stays the same
    /// until the page's hint is passed.
    pub fn next(&self, page: u64) -> Option<u64> {
        self.places.get(&page).and_then(|places| places.front()).copied()
    }

    /// Returns the place of the program in the hints.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Returns the number of hints to come.
    pub fn len(&self) -> usize {
        self.upcoming.len()
    }

    /// Returns `true` if there are no hints to come.
    pub fn is_empty(&self) -> bool {
        self.upcoming.is_empty()
    }

    /// Returns the hints to come from a place on: places and pages, in order.
    pub fn upcoming_from(&self, place: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let first = place.max(self.at).min(self.at + self.upcoming.len() as u64);
        let pages = self.upcoming.range((first - self.at) as usize..);
        (first..).zip(pages.copied())
    }

    /// Returns the share of recent references that were hinted, from 0 to 1.
    pub fn coverage(&self) -> f64 {
        self.coverage
    }

    /// Removes the first hint.
    fn pass(&mut self) -> Option<u64> {
        let page = self.upcoming.pop_front()?;
        self.at += 1;
        if let Some(places) = self.places.get_mut(&page) {
            places.pop_front();
            if places.is_empty() {
                self.places.remove(&page);
            }
        }
        Some(page)
    }
}

/// Number of hints within which a matching reference counts as hinted.
const NEAR: u64 = 64;
/// Number of hints by which the reach grows with each unhinted reference.
const FARTHER: u64 = 4;
/// Weight of the newest reference in the coverage.
const NEWEST: f64 = 1.0 / 64.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hints_for(pages: &[u64]) -> Hints {
        let mut hints = Hints::new(100_000);
        assert_eq!(hints.add(pages.iter().copied()), pages.len());
        hints
    }

    #[test]
    fn hints_that_hold_are_passed_one_by_one() {
        let mut hints = hints_for(&[5, 6, 5, 7]);
        let mut passed = Vec::new();
        assert_eq!((hints.distance(5), hints.distance(7), hints.distance(8)), (Some(0), Some(3), None));
        assert_eq!(hints.referenced(5, &mut passed), HintMatch::Yes { wrong: 0 });
        assert_eq!((passed.as_slice(), hints.distance(5), hints.next(5)), ([5].as_slice(), Some(1), Some(2)));
        let from = |place| hints.upcoming_from(place).collect::<Vec<_>>();
        assert_eq!((from(0), from(3), from(9)), (vec![(1, 6), (2, 5), (3, 7)], vec![(3, 7)], vec![]));
        (1..4).for_each(|at| {
            assert_eq!(hints.referenced([5, 6, 5, 7][at], &mut passed), HintMatch::Yes { wrong: 0 });
        });
        assert!(hints.is_empty() && hints.distance(5).is_none());
    }

    #[test]
    fn a_part_that_was_not_told_leaves_the_hints_alone() {
        let mut hints = hints_for(&[1, 2, 3]);
        let mut passed = Vec::new();
        for page in [90, 91, 92] {
            assert_eq!(hints.referenced(page, &mut passed), HintMatch::No);
        }
        assert_eq!(hints.referenced(1, &mut passed), HintMatch::Yes { wrong: 0 });
        assert!(hints.coverage() < 0.1);
    }

    #[test]
    fn any_number_of_wrong_hints_is_overcome() {
        let wrong: Vec<u64> = (0..5000).collect();
        let right: Vec<u64> = (10_000..30_000).collect();
        let mut hints = hints_for(&[wrong, right.clone()].concat());
        let mut passed = Vec::new();
        let lost =
            right.iter().take_while(|page| hints.referenced(**page, &mut passed) == HintMatch::No).count();
        assert!((1000..1700).contains(&lost), "{lost}");
        for page in &right[lost + 1..lost + 2000] {
            assert_eq!(hints.referenced(*page, &mut passed), HintMatch::Yes { wrong: 0 });
        }
        assert!(hints.coverage() > 0.99);
    }

    #[test]
    fn one_stray_reference_does_not_throw_hints_away() {
        let mut hints = hints_for(&(0..1000).collect::<Vec<u64>>());
        let mut passed = Vec::new();
        assert_eq!(hints.referenced(900, &mut passed), HintMatch::No);
        assert_eq!(hints.referenced(3, &mut passed), HintMatch::Yes { wrong: 3 });
        assert_eq!(passed, [0, 1, 2, 3]);
    }

    #[test]
    fn no_more_than_so_many_are_kept() {
        let mut hints = Hints::new(3);
        assert_eq!((hints.add(0..10), hints.len(), hints.add([9])), (3, 3, 0));
        hints.referenced(0, &mut Vec::new());
        assert_eq!(hints.add([9, 8]), 1);
    }

    proptest! {
        #[test]
        fn distances_are_those_of_the_list(
            told in proptest::collection::vec(0u64..12, 0..60),
            asked in proptest::collection::vec(0u64..14, 0..80),
        ) {
            let mut hints = Hints::new(1000);
            hints.add(told.iter().copied());
            let (mut left, mut passed) = (told, Vec::new());
            for page in asked {
                let expected = left.iter().position(|one| *one == page);
                match hints.referenced(page, &mut passed) {
                    HintMatch::Yes { wrong } => {
                        prop_assert_eq!(Some(wrong as usize), expected);
                        let over: Vec<u64> = left.drain(..=wrong as usize).collect();
                        prop_assert_eq!(&over, &passed);
                    }
                    HintMatch::No => prop_assert!(passed.is_empty() && expected.is_none_or(|at| at > 64)),
                }
                for page in 0..14 {
                    let expected = left.iter().position(|one| *one == page).map(|at| at as u64);
                    prop_assert_eq!(hints.distance(page), expected);
                }
            }
        }
    }
}
