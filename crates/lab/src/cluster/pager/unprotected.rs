//! No redundancy: each page is kept once, on the next server in turn. The pages of a lost server
//! are lost.

use super::{FrameLocation, Rebuilt, Redundancy, Servers, Transfer};

/// Paging without redundancy.
#[derive(Clone, Debug)]
pub struct NoRedundancy {
    places: Vec<Option<FrameLocation>>,
}

impl NoRedundancy {
    /// Creates the pager's memory for pages numbered below `pages`.
    pub fn new(pages: usize) -> Self {
        Self { places: vec![None; pages] }
    }
}

impl Redundancy for NoRedundancy {
    fn name(&self) -> &'static str {
        "pager, unprotected"
    }

    fn place(&self, page: u32) -> Option<FrameLocation> {
        self.places[page as usize]
    }

    fn put(&mut self, servers: &mut Servers, page: u32, contents: u64) -> Vec<Transfer> {
        let place = &mut self.places[page as usize];
        if place.is_none() {
            *place = servers.next(&[]).and_then(|server| servers.take(server));
        }
        let Some(place) = *place else { return Vec::new() };
        servers.write(place, contents);
        vec![Transfer { from: None, to: place.server }]
    }

    fn lose(&mut self, _servers: &mut Servers, lost: usize) -> Rebuilt {
        let mut rebuilt = Rebuilt::default();
        for (page, place) in (0..).zip(&mut self.places) {
            if place.is_some_and(|place| place.server == lost) {
                *place = None;
                rebuilt.homeless.push((page, None));
            }
        }
        rebuilt
    }
}
