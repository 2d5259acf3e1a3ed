//! A program under way: its hints, and the places and values of its pages.

use crate::prefetching::memory::{Page, PageRank};
use crate::prefetching::{Program, ProgramResult};
use shoal_cooperation::prefetch::{Forestall, HintMatch, Hints, PageSite, Stride, Value};

/// A program on its node.
pub(super) struct Process<'a> {
    pub program: &'a Program,
    pub index: usize,
    pub home: usize,
    pub state: State,
    pub hints: Hints,
    pub stride: Stride,
    pub forestall: Forestall,
    /// Place before which all hinted pages are local, or under way to it.
    pub missing_from: u64,
    /// Place before which no hinted page is on disk alone.
    pub disk_from: u64,
    pub pages: Vec<PageState>,
    pub finished: ProgramResult,
    /// Processor time since the epoch began, in seconds.
    pub on_processor_seconds: f64,
    /// Waiting time since the epoch began, in seconds; `references` counts from the same time.
    pub waited_seconds: f64,
    pub references: u64,
    /// Time at which its wait began, in seconds.
    pub waits_since: f64,
    /// Work added to its next computing, in seconds.
    pub access_seconds: f64,
    /// Hints not yet told.
    untold: std::vec::IntoIter<u64>,
    /// The reference at which it tells more hints.
    tells_at: usize,
    passed: Vec<u64>,
}

/// State of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Computing,
    Waiting(u32),
    Done,
}

/// State of one page of the program.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageState {
    pub place: PageSite,
    /// Place of the page's next hint, [`NO_HINT`] without one.
    pub next: u64,
    /// Time of the page's last use, in microseconds.
    pub last_used: u64,
    /// `true` if the page has been read from a disk; `was_local`: `true` if it has been local.
    pub was_read: bool,
    pub was_local: bool,
    /// `true` if the page has come and has not been used.
    pub is_fresh: bool,
    /// `true` if the page last came, or comes, from a disk.
    pub came_from_disk: bool,
}

impl<'a> Process<'a> {
    pub fn new(program: &'a Program, home: usize, seed: u64) -> Self {
        let page = PageState {
            place: PageSite::default(),
            next: NO_HINT,
            last_used: 0,
            was_read: false,
            was_local: false,
            is_fresh: false,
            came_from_disk: false,
        };
        let told = program.hints(seed);
        // Hints may name pages that the program never requests.
        let last = told.iter().max().map_or(0, |last| *last as usize + 1);
        let pages = program.pages().max(last);
        Self {
            program,
            index: 0,
            home,
            state: State::Computing,
            hints: Hints::new(told.len()),
            stride: Stride::new(program.computing_seconds),
            forestall: Forestall::default(),
            missing_from: 0,
            disk_from: 0,
            pages: vec![page; pages],
            finished: ProgramResult::default(),
            on_processor_seconds: 0.0,
            waited_seconds: 0.0,
            references: 0,
            waits_since: 0.0,
            access_seconds: 0.0,
            untold: told.into_iter(),
            tells_at: 0,
            passed: Vec::new(),
        }
    }

    /// Tells the program's next hints, if it has come far enough. Returns the pages with a new next
    /// hint, with their ranks before.
    pub fn disclose_hints(&mut self) -> Vec<(u32, PageRank)> {
        if self.index < self.tells_at || self.untold.len() == 0 {
            return Vec::new();
        }
        let step = self.program.step();
        self.tells_at = self.index.saturating_add(step);
        let first = self.hints.at() + self.hints.len() as u64;
        let told: Vec<u64> = self.untold.by_ref().take(step).collect();
        let mut changed = Vec::new();
        for (place, page) in (first..).zip(&told) {
            let page = *page as u32;
            if self.pages[page as usize].next == NO_HINT {
                changed.push((page, self.standing(page)));
                self.pages[page as usize].next = place;
            }
        }
        self.hints.add(told);
        self.missing_from = self.missing_from.min(first);
        self.disk_from = self.disk_from.min(first);
        self.forestall.reset();
        changed
    }

    /// Returns the page of the next reference.
    pub fn wanted(&self) -> u32 {
        self.program.references[self.index]
    }

    /// Returns `true` if the program has told any hints.
    pub fn is_hinted(&self) -> bool {
        !self.hints.is_empty()
    }

    /// Moves hints on at a reference to a page. Returns the pages with a new next hint, with their
    /// ranks before.
    pub fn advance_hints(&mut self, page: u32) -> Vec<(u32, PageRank)> {
        if self.hints.is_empty() {
            return Vec::new();
        }
        let mut passed = std::mem::take(&mut self.passed);
        if let HintMatch::Yes { wrong: 1.. } = self.hints.referenced(u64::from(page), &mut passed) {
            // All later hints are nearer by the number of hints passed over.
            self.forestall.reset();
        }
        passed.sort_unstable();
        passed.dedup();
        let mut changed = Vec::with_capacity(passed.len());
        for page in &passed {
            let page = *page as u32;
            changed.push((page, self.standing(page)));
            self.pages[page as usize].next = self.hints.next(u64::from(page)).unwrap_or(NO_HINT);
        }
        self.passed = passed;
        changed
    }

    /// Returns the value of a page.
    pub fn value(&self, page: u32, now_seconds: f64) -> Value {
        self.value_of(self.standing(page), now_seconds)
    }

    /// Returns the value of a page of this rank.
    pub fn value_of(&self, standing: PageRank, now_seconds: f64) -> Value {
        match standing {
            PageRank::Hinted(place) => Value::hinted(place.saturating_sub(self.hints.at()), &self.stride),
            PageRank::Unhinted(last_used) => {
                let age = (now_seconds - last_used as f64 / 1e6).max(0.0);
                let horizon = self.hints.len() as f64 * self.stride.seconds();
                Value::unforetold(age, horizon, self.hints.coverage())
            }
        }
    }

    /// Returns the rank of a page among those of its program.
    pub fn standing(&self, page: u32) -> PageRank {
        let state = &self.pages[page as usize];
        if state.next == NO_HINT { PageRank::Unhinted(state.last_used) } else { PageRank::Hinted(state.next) }
    }

    /// Handles the loss of a page from local memory.
    pub fn lost_from_local(&mut self, page: u32, fetch_seconds: f64) {
        let next = self.pages[page as usize].next;
        if next != NO_HINT {
            self.missing_from = self.missing_from.min(next);
            self.forestall.moved_away(self.computing_until(next), fetch_seconds);
        }
    }

    /// Handles a page that is on disk alone from now on. `longer_seconds` is the time that it is
    /// farther away.
    pub fn is_on_disk(&mut self, page: u32, longer_seconds: f64) {
        let PageState { place, next, .. } = self.pages[page as usize];
        debug_assert_eq!(place, PageSite::Disk, "page {page} is in a memory");
        if next != NO_HINT {
            self.disk_from = self.disk_from.min(next);
            self.forestall.moved_away(self.computing_until(next), longer_seconds);
        }
    }

    /// Returns the computing time until the program comes to a hinted place, in seconds.
    pub fn computing_until(&self, place: u64) -> f64 {
        place.saturating_sub(self.hints.at()) as f64 * self.stride.computing_seconds()
    }

    /// Returns the hinted places from `place` on, each with its page, where the place is the page's
    /// next hint.
    pub fn hinted_from(&self, place: u64) -> impl Iterator<Item = (u64, u32)> + '_ {
        let first_of_page = |(place, page): &(u64, u32)| self.pages[*page as usize].next == *place;
        self.hints.upcoming_from(place).map(|(place, page)| (place, page as u32)).filter(first_of_page)
    }

    /// Returns the hinted pages that are neither local nor under way to it, each with its place.
    pub fn missing(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let is_missing = |page: u32| self.pages[page as usize].place.is_missing();
        self.hinted_from(self.missing_from).filter(move |(_, page)| is_missing(*page))
    }

    /// Returns a page of the program as memories know it.
    pub fn page(index: usize, page: u32) -> Page {
        (index as u32, page)
    }
}

pub(super) const NO_HINT: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_over_hints_bring_later_ones_nearer() {
        let program = Program::reverse(64).unhinted();
        let mut process = Process::new(&program, 0, 1);
        process.hints = Hints::new(100);
        process.hints.add(0..60);
        process.forestall.looked(Some(1.0));
        process.advance_hints(0);
        assert!(!process.forestall.must_look(), "as was hinted");
        process.advance_hints(50);
        assert!(process.forestall.must_look(), "fifty references nearer");
    }
}
