//! The LRU stack of a program: references to each position, and a stack from which pages go at any
//! position.
//!
//! Mattson, Gecsei, Slutz, Traiger, *Evaluation techniques for storage hierarchies*, IBM Systems
//! Journal 1970. O(log references) a reference.

use super::Application;
use crate::curve::Stack;
use crate::fenwick::Fenwick;

/// References to each position of the LRU stack, with memory for all pages.
#[derive(Clone, Debug)]
pub struct Positions {
    /// Index `d` counts references at stack distance d + 1.
    counts: Vec<u64>,
    /// First references to a page.
    first: u64,
}

/// Counts the positions of all references of a program.
pub fn distances(application: &Application) -> Positions {
    let mut stack = Stack::new();
    let mut positions = Positions { counts: vec![0; application.pages], first: 0 };
    for page in &application.references {
        match stack.touch(*page, 0) {
            Some(distance) => positions.counts[distance.objects as usize - 1] += 1,
            None => positions.first += 1,
        }
    }
    positions
}

impl Positions {
    /// Returns the references that a memory of `pages` pages does not hold, first references left
    /// out.
    pub fn beyond(&self, pages: usize) -> u64 {
        self.counts[pages.min(self.counts.len())..].iter().sum()
    }

    /// Returns the number of first references.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns the probability that a reference goes to one position, for each of `parts` parts of
    /// the stack from the top. Each point is the part's end, as a share of the stack, and the mean
    /// probability of its positions.
    pub fn profile(&self, parts: usize) -> Vec<(f64, f64)> {
        let references: u64 = self.counts.iter().sum::<u64>() + self.first;
        let parts = parts.clamp(1, self.counts.len().max(1));
        let edge = |part: usize| part * self.counts.len() / parts;
        let point = |part: usize| {
            let positions = &self.counts[edge(part)..edge(part + 1)];
            let mean = positions.iter().sum::<u64>() as f64 / positions.len().max(1) as f64;
            ((part + 1) as f64 / parts as f64, mean / references.max(1) as f64)
        };
        (0..parts).map(point).collect()
    }

    /// Returns the share of the stack, from the bottom, with at most this probability of a
    /// reference to each position.
    pub fn cold_share(&self, probability: f64) -> f64 {
        let references: u64 = self.counts.iter().sum::<u64>() + self.first;
        let most = (probability * references as f64) as u64;
        let cold = self.counts.iter().rev().take_while(|count| **count <= most).count();
        cold as f64 / self.counts.len().max(1) as f64
    }
}

/// A stack of pages in the order of their last use, from which a page at any position can be taken.
pub(super) struct AgedStack {
    /// Marks at the time of each page's last use.
    marks: Fenwick,
    /// The page used at each time, from 1.
    page_at: Vec<u32>,
    /// Time of each page's last use, 0 when it is not in the stack.
    last: Vec<u32>,
    now: u32,
    pages: usize,
}

impl AgedStack {
    /// Creates a stack for at most `uses` uses of pages numbered below `pages`.
    pub fn new(uses: usize, pages: usize) -> Self {
        Self { marks: Fenwick::new(uses), page_at: vec![0; uses + 1], last: vec![0; pages], now: 0, pages: 0 }
    }

    /// Returns the number of pages in the stack.
    pub fn len(&self) -> usize {
        self.pages
    }

    /// Puts a page on top. Returns its former position from the top, 1 the topmost; `None` when it
    /// was not there.
    pub fn touch(&mut self, page: u32) -> Option<usize> {
        self.now += 1;
        let before = std::mem::replace(&mut self.last[page as usize], self.now);
        let position = (before > 0).then(|| {
            let position = 1 + self.pages - self.marks.sum_to(before) as usize;
            self.marks.add(before, -1);
            position
        });
        self.pages += usize::from(before == 0);
        self.marks.add(self.now, 1);
        self.page_at[self.now as usize] = page;
        position
    }

    /// Takes out the page at a position from the bottom, 0 the oldest. The position is below
    /// [`AgedStack::len`].
    pub fn take_from_bottom(&mut self, position: usize) -> u32 {
        let time = self.marks.position_of(position as u32 + 1);
        let page = self.page_at[time as usize];
        self.marks.add(time, -1);
        self.last[page as usize] = 0;
        self.pages -= 1;
        page
    }
}
