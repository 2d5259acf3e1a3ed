//! Mirroring: each page on two servers.
//!
//! Markatos and Dramitinos 1996, section 2.2.1. Two transfers a page-out and half of the memory; a
//! lost server's pages are copied from their other places.

use super::{FrameLocation, Rebuilt, Redundancy, Servers, Transfer};

/// Mirroring on two servers.
#[derive(Clone, Debug)]
pub struct Mirrors {
    /// Places of each page. The second is missing where a server was lost and no other had room.
    places: Vec<Option<(FrameLocation, Option<FrameLocation>)>>,
}

impl Mirrors {
    /// Creates mirroring for pages numbered below `pages`.
    pub fn new(pages: usize) -> Self {
        Self { places: vec![None; pages] }
    }

    /// Takes two frames on two servers, or none.
    fn pair(servers: &mut Servers) -> Option<(FrameLocation, Option<FrameLocation>)> {
        let first = servers.next(&[])?;
        let second = servers.next(&[first])?;
        Some((servers.take(first)?, servers.take(second)))
    }
}

impl Redundancy for Mirrors {
    fn name(&self) -> &'static str {
        "pager, mirroring"
    }

    fn place(&self, page: u32) -> Option<FrameLocation> {
        self.places[page as usize].map(|(first, _)| first)
    }

    fn put(&mut self, servers: &mut Servers, page: u32, contents: u64) -> Vec<Transfer> {
        let places = &mut self.places[page as usize];
        if places.is_none() {
            *places = Self::pair(servers);
        }
        let Some((first, second)) = *places else { return Vec::new() };
        let each = std::iter::once(first).chain(second);
        each.map(|place| {
            servers.write(place, contents);
            Transfer { from: None, to: place.server }
        })
        .collect()
    }

    fn lose(&mut self, servers: &mut Servers, lost: usize) -> Rebuilt {
        let mut rebuilt = Rebuilt::default();
        for (page, places) in (0..).zip(&mut self.places) {
            let Some((first, second)) = *places else { continue };
            let left = match second {
                Some(second) if first.server == lost => Some(second),
                Some(second) if second.server == lost => Some(first),
                None if first.server == lost => None,
                _ => continue,
            };
            let Some(left) = left else {
                *places = None;
                rebuilt.homeless.push((page, None));
                continue;
            };
            let other = servers.next(&[left.server]).and_then(|server| servers.take(server));
            if let Some(other) = other {
                servers.write(other, servers.read(left));
                rebuilt.transfers += 1;
            }
            *places = Some((left, other));
        }
        rebuilt
    }
}
