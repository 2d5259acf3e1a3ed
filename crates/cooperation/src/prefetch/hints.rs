//! What a program will ask for next: the references that it told, and how far it has come in them.
//!
//! A program tells pages in the order in which it will ask for them (Voelker 2000, section 4.2.2,
//! as in Patterson, Gibson, Ginting, Stodolsky, Zelenka, *Informed prefetching and caching*, SOSP
//! 1995). What it tells may be all, a part, or wrong, so each reference is matched with the hints:
//!
//! - It is the next hinted one: the program goes on in them.
//! - It is hinted a little further on: what lies between was wrong, or came in another order, and
//!   is dropped.
//! - Neither: the program did something that it had not told, and the hints stay. How far *a
//!   little* is grows with each such reference, so that any number of wrong hints is overcome in
//!   the end, while a single stray reference does not throw away many good ones.
//!
//! The share of recent references that were foretold is the [coverage](Hints::coverage); pages that
//! hints do not name are judged by it. Hints are bounded in number; what is told beyond the bound
//! is not taken, and the program may tell it again later. O(1) a hint and, amortized, a reference;
//! some 100 to 160 bytes a hint where each names another page, less where pages come again.

use std::collections::{HashMap, VecDeque};

/// Hints of one program.
#[derive(Clone, Debug)]
pub struct Hints {
    /// What is still to come; its first stands at `at`.
    upcoming: VecDeque<u64>,
    /// For each page that is to come, its places among all hints ever told, rising.
    places: HashMap<u64, VecDeque<u64>>,
    at: u64,
    most: usize,
    /// References since one was foretold.
    unmatched: u64,
    coverage: f64,
}

/// How a reference was found among the hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintMatch {
    /// It was hinted; so many hints before it were dropped as wrong.
    Yes {
        /// How many.
        wrong: u64,
    },
    /// It was not hinted, or so far on that it may be something else.
    No,
}

impl Hints {
    /// None so far, at most so many at once.
    pub fn new(most: usize) -> Self {
        Self { upcoming: VecDeque::new(), places: HashMap::new(), at: 0, most, unmatched: 0, coverage: 0.0 }
    }

    /// The program tells what it will ask for after all that it told before. Gives how many were
    /// taken, from the first on.
    pub fn add(&mut self, pages: impl IntoIterator<Item = u64>) -> usize {
        let before = self.upcoming.len();
        for page in pages.into_iter().take(self.most.saturating_sub(before)) {
            let place = self.at + self.upcoming.len() as u64;
            self.places.entry(page).or_default().push_back(place);
            self.upcoming.push_back(page);
        }
        self.upcoming.len() - before
    }

    /// The program asks for a page. Pages whose hints are used up by it, dropped ones among them,
    /// are put into `passed`, which is emptied before.
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

    /// The hinted references before the next one to this page; `None` when no hint names it.
    pub fn distance(&self, page: u64) -> Option<u64> {
        self.next(page).map(|place| place - self.at)
    }

    /// The place of the next hint for a page among all ever told: it stays the same until the
    /// page's hint is passed.
    pub fn next(&self, page: u64) -> Option<u64> {
        self.places.get(&page).and_then(|places| places.front()).copied()
    }

    /// The place that the program has come to.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// How many hinted references are to come: as far as is known.
    pub fn len(&self) -> usize {
        self.upcoming.len()
    }

    /// Whether nothing is hinted.
    pub fn is_empty(&self) -> bool {
        self.upcoming.is_empty()
    }

    /// What is to come from a place on: places and pages, in order.
    pub fn upcoming_from(&self, place: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let first = place.max(self.at).min(self.at + self.upcoming.len() as u64);
        let pages = self.upcoming.range((first - self.at) as usize..);
        (first..).zip(pages.copied())
    }

    /// The share of recent references that were foretold, from 0 to 1.
    pub fn coverage(&self) -> f64 {
        self.coverage
    }

    /// The first hint is over.
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

/// A reference that is hinted within so many others is taken for that one.
const NEAR: u64 = 64;
/// By so many hints the reach grows with each reference that was not foretold.
const FARTHER: u64 = 4;
/// The weight of the newest reference in the coverage.
const NEWEST: f64 = 1.0 / 64.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(pages: &[u64]) -> Hints {
        let mut hints = Hints::new(100_000);
        assert_eq!(hints.add(pages.iter().copied()), pages.len());
        hints
    }

    #[test]
    fn hints_that_hold_are_passed_one_by_one() {
        let mut hints = told(&[5, 6, 5, 7]);
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
        let mut hints = told(&[1, 2, 3]);
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
        let mut hints = told(&[wrong, right.clone()].concat());
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
        let mut hints = told(&(0..1000).collect::<Vec<u64>>());
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
