//! Parity: a page has its frame on one server. The same frame of the parity server holds the
//! exclusive or of all frames of that number.
//!
//! Markatos and Dramitinos 1996, section 2.2.2, after Patterson, Gibson, Katz 1988. The server that
//! keeps a page sends the difference to the parity server: two transfers a page-out, of which the
//! client makes one. Safe against the loss of one server. When the parity server itself is lost,
//! pages stay in place and are safe no longer.

use super::{FrameLocation, Rebuilt, Redundancy, Servers, Transfer};

/// Parity on one server.
#[derive(Clone, Debug)]
pub struct Parity {
    places: Vec<Option<FrameLocation>>,
    /// The server that keeps parity: the last, until it is lost.
    parity: Option<usize>,
}

impl Parity {
    /// Creates parity for pages numbered below `pages`, on `servers` servers.
    pub fn new(pages: usize, servers: usize) -> Self {
        Self { places: vec![None; pages], parity: servers.checked_sub(1).filter(|last| *last > 0) }
    }

    /// Takes a frame on the next server in turn, if the parity server has a frame of the same
    /// number.
    fn take(&self, servers: &mut Servers) -> Option<FrameLocation> {
        let mut but: Vec<usize> = self.parity.into_iter().collect();
        let most = self.parity.map_or(usize::MAX, |parity| servers.frames(parity));
        while let Some(server) = servers.next(&but) {
            let place = servers.take(server)?;
            if (place.frame as usize) < most {
                return Some(place);
            }
            // Frames are given out from the lowest: the parity server has no frame of this number.
            servers.give_back(place);
            but.push(server);
        }
        None
    }

    /// Changes a frame and its parity.
    fn change(&self, servers: &mut Servers, place: FrameLocation, contents: u64) {
        let difference = servers.read(place) ^ contents;
        servers.write(place, contents);
        self.add_to_parity(servers, place.frame, difference);
    }

    fn add_to_parity(&self, servers: &mut Servers, frame: u32, difference: u64) {
        if let Some(parity) = self.parity {
            let place = FrameLocation { server: parity, frame };
            servers.write(place, servers.read(place) ^ difference);
        }
    }

    /// Rebuilds a lost frame from parity and the same frame of all others. Returns the number of
    /// blocks that this takes, and the contents.
    fn remade(&self, servers: &Servers, frame: u32) -> Option<(u64, u64)> {
        self.parity?;
        let others: Vec<u64> = (0..servers.len())
            .filter(|server| servers.is_up(*server) && (frame as usize) < servers.frames(*server))
            .map(|server| servers.read(FrameLocation { server, frame }))
            .collect();
        Some((others.iter().fold(0, |all, one| all ^ one), others.len() as u64))
    }
}

impl Redundancy for Parity {
    fn name(&self) -> &'static str {
        "pager, parity"
    }

    fn place(&self, page: u32) -> Option<FrameLocation> {
        self.places[page as usize]
    }

    fn put(&mut self, servers: &mut Servers, page: u32, contents: u64) -> Vec<Transfer> {
        if self.places[page as usize].is_none() {
            self.places[page as usize] = self.take(servers);
        }
        let Some(place) = self.places[page as usize] else { return Vec::new() };
        self.change(servers, place, contents);
        let to_server = Transfer { from: None, to: place.server };
        let to_parity = self.parity.map(|parity| Transfer { from: Some(place.server), to: parity });
        std::iter::once(to_server).chain(to_parity).collect()
    }

    fn lose(&mut self, servers: &mut Servers, lost: usize) -> Rebuilt {
        let mut rebuilt = Rebuilt::default();
        if self.parity == Some(lost) {
            self.parity = None;
            return rebuilt;
        }
        let was_there = |place: &Option<FrameLocation>| place.is_some_and(|place| place.server == lost);
        for page in (0..self.places.len()).filter(|page| was_there(&self.places[*page])).collect::<Vec<_>>() {
            let Some(place) = self.places[page].take() else { continue };
            let Some((contents, sent)) = self.remade(servers, place.frame) else {
                rebuilt.homeless.push((page as u32, None));
                continue;
            };
            // The lost frame counts as empty from here on.
            self.add_to_parity(servers, place.frame, contents);
            rebuilt.transfers += sent;
            match self.take(servers) {
                Some(new) => {
                    self.change(servers, new, contents);
                    self.places[page] = Some(new);
                    rebuilt.transfers += 2;
                }
                None => rebuilt.homeless.push((page as u32, Some(contents))),
            }
        }
        rebuilt
    }
}
