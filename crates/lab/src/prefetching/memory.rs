//! The frames of one node with their pages, in an order that finds the least valuable page at once.
//!
//! Values change all the time. The order among the hinted pages of one program does not change, nor
//! does the order among its other pages. Each program therefore has two ordered sets, and only the
//! ends of the sets are compared.

use std::collections::BTreeSet;

/// A page: number of its program, and number of the page.
pub(super) type Page = (u32, u32);

/// One node's frames.
#[derive(Clone, Debug)]
pub(super) struct NodeFrames {
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
    /// Pages without a hint, by the time of their last use in microseconds.
    pub unhinted: BTreeSet<(u64, u32)>,
}

/// Rank of a page on its shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageRank {
    Hinted(u64),
    Unhinted(u64),
}

impl NodeFrames {
    pub fn new(frames: usize, programs: usize) -> Self {
        Self { frames, used: 0, shelves: vec![ProgramPages::default(); programs] }
    }

    /// Adds `frames` frames.
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

    /// Reserves a frame for a page that is under way.
    pub fn reserve(&mut self) {
        self.used += 1;
    }

    /// Puts a page into the frame reserved for it.
    pub fn fill_reserved(&mut self, page: Page, standing: PageRank) {
        let shelf = &mut self.shelves[page.0 as usize];
        match standing {
            PageRank::Hinted(place) => shelf.hinted.insert((place, page.1)),
            PageRank::Unhinted(last_used) => shelf.unhinted.insert((last_used, page.1)),
        };
    }

    /// Removes a page and frees its frame.
    pub fn remove(&mut self, page: Page, standing: PageRank) {
        self.lift(page, standing);
        self.used -= 1;
    }

    /// Moves a page to another rank after a change of its value.
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
