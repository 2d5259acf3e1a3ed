//! The page-frame directory (PFD): the pages that a node holds, for itself and for others.
//!
//! Feeley et al., SOSP 1995, sections 3 and 4.1. Each node has one. A frame is local if the node
//! uses its page, or global if the page stands here for others. The kind decides if the page leaves
//! with a getpage. In a node that runs, [`GuestPages`](super::GuestPages) has the global frames and
//! the RAM tier the local ones. A simulated memory has both in one.
//!
//! [`PrivatePages`] joins a node's local frames with the global-cache entries of pages that it
//! alone uses: GMS keeps these entries at the pages' user. O(1) a step.

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// The node uses the page itself.
    Local,
    /// The page stands here for other nodes.
    Global,
}

impl FrameKind {
    /// Returns `true` if a page leaves its frame with the getpage of another node. A page that its
    /// holder uses is copied, and becomes a duplicate.
    pub fn is_left_by_getpage(self) -> bool {
        self == Self::Global
    }
}

/// Places of the pages that one node alone uses.
#[derive(Clone, Debug)]
pub struct PrivatePages {
    at: Vec<PagePlace>,
}

/// Place of a private page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagePlace {
    /// In no memory.
    Nowhere,
    /// In a local frame of its user.
    Local,
    /// In a global frame of this memory server.
    Server(u16),
}

impl PrivatePages {
    /// Creates the places of `pages` pages, none of which is in memory.
    pub fn new(pages: usize) -> Self {
        Self { at: vec![PagePlace::Nowhere; pages] }
    }

    /// Returns a page's place; nowhere for an unknown page.
    pub fn place(&self, page: u32) -> PagePlace {
        self.at.get(page as usize).copied().unwrap_or(PagePlace::Nowhere)
    }

    /// Records that a page has come into a local frame, from anywhere.
    pub fn came(&mut self, page: u32) {
        debug_assert!(self.place(page) != PagePlace::Local, "page {page} is here already");
        self.set(page, PagePlace::Local);
    }

    /// Records that a page has left its local frame for a memory server, or for nowhere.
    pub fn left(&mut self, page: u32, server: Option<u16>) {
        debug_assert_eq!(self.place(page), PagePlace::Local, "page {page} leaves from elsewhere");
        self.set(page, server.map_or(PagePlace::Nowhere, PagePlace::Server));
    }

    /// Records that a memory server has given a page up. A page that has come back since stays.
    pub fn given_up(&mut self, page: u32, server: u16) {
        if self.place(page) == PagePlace::Server(server) {
            self.set(page, PagePlace::Nowhere);
        }
    }

    fn set(&mut self, page: u32, place: PagePlace) {
        if let Some(at) = self.at.get_mut(page as usize) {
            *at = place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_page_is_at_one_place() {
        let mut pages = PrivatePages::new(3);
        pages.came(1);
        pages.left(1, Some(4));
        assert_eq!((pages.place(0), pages.place(1)), (PagePlace::Nowhere, PagePlace::Server(4)));
        pages.given_up(1, 5);
        assert_eq!(pages.place(1), PagePlace::Server(4), "another server gave up an older copy");
        pages.came(1);
        pages.given_up(1, 4);
        assert_eq!(pages.place(1), PagePlace::Local, "the page has come back");
        pages.left(1, None);
        assert_eq!(pages.place(1), PagePlace::Nowhere);
        pages.came(3);
        assert_eq!(pages.place(3), PagePlace::Nowhere, "there is no such page");
    }
}
