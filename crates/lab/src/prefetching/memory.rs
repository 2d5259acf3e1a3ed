//! The frames of one node: what is in them, ordered so that the least valuable page is found at
//! once.
//!
//! Values change all the time, but never in a way that changes the order among the pages of one
//! program that hints name, or among those that they do not. So each program has two ordered sets,
//! and only the ends of the sets are compared.

use std::collections::BTreeSet;

/// A page: of which program, and which.
pub(super) type Page = (u32, u32);

/// One node's frames.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    frames: usize,
    /// Frames that hold a page or wait for one that is under way.
    used: usize,
    shelves: Vec<ProgramPages>,
}

/// The pages of one program.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgramPages {
    /// Pages with a hint, by its place.
    pub hinted: BTreeSet<(u64, u32)>,
    /// The others, by when they were last used, in microseconds.
    pub unhinted: BTreeSet<(u64, u32)>,
}

/// Where a page stands on its shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageRank {
    Hinted(u64),
    Unhinted(u64),
}

impl Memory {
    pub fn new(frames: usize, programs: usize) -> Self {
        Self { frames, used: 0, shelves: vec![ProgramPages::default(); programs] }
    }

    /// It gets so many frames more.
    pub fn grow(&mut self, frames: usize) {
        self.frames += frames;
    }

    pub fn frames(&self) -> usize {
        self.frames
    }

    pub fn free(&self) -> usize {
        self.frames.saturating_sub(self.used)
    }

    pub fn shelf(&self, program: usize) -> &ProgramPages {
        &self.shelves[program]
    }

    /// Keeps a frame for a page that is under way.
    pub fn reserve(&mut self) {
        self.used += 1;
    }

    /// A page for which a frame was kept is there.
    pub fn fill_reserved(&mut self, page: Page, standing: PageRank) {
        let shelf = &mut self.shelves[page.0 as usize];
        match standing {
            PageRank::Hinted(place) => shelf.hinted.insert((place, page.1)),
            PageRank::Unhinted(last_used) => shelf.unhinted.insert((last_used, page.1)),
        };
    }

    /// A page leaves, and its frame is free.
    pub fn remove(&mut self, page: Page, standing: PageRank) {
        self.lift(page, standing);
        self.used -= 1;
    }

    /// A page's worth has changed in a way that changes its place.
    pub fn rerank(&mut self, page: Page, before: PageRank, after: PageRank) {
        if before != after {
            self.lift(page, before);
            self.fill_reserved(page, after);
        }
    }

    fn lift(&mut self, page: Page, standing: PageRank) {
        let shelf = &mut self.shelves[page.0 as usize];
        let was_there = match standing {
            PageRank::Hinted(place) => shelf.hinted.remove(&(place, page.1)),
            PageRank::Unhinted(last_used) => shelf.unhinted.remove(&(last_used, page.1)),
        };
        debug_assert!(was_there, "a page stands where its program says");
    }
}
