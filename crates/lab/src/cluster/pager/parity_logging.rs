//! Parity logging: every page-out goes to the next server, and each group of page-outs has one
//! parity page, made by the client.
//!
//! Markatos and Dramitinos 1996, section 2.2.3. A page has no frame of its own. The client adds
//! each page that it sends to a buffer, by exclusive or. When every server has got one page, the
//! buffer goes to the parity server: 1 + 1/S transfers a page-out. The older version of the page
//! stays in place, inactive, since its group's parity counts it. A group without active pages is
//! given up. A tenth of the memory is for inactive pages. When frames run short all the same, a
//! cleaner takes the group with the fewest active pages. The cleaner sends those pages again and
//! gives the group up. The paper never ran its cleaner; this one runs.

use super::{FrameLocation, Rebuilt, Redundancy, Servers, Transfer};
use std::collections::BTreeMap;

/// Parity logging.
#[derive(Clone, Debug)]
pub struct ParityLog {
    /// Place of each page, and the number of its group.
    places: Vec<Option<(FrameLocation, u64)>>,
    active: usize,
    /// The groups that are full, by number.
    closed: BTreeMap<u64, Group>,
    open: Group,
    /// The number of the open group.
    number: u64,
    /// The server that keeps parity: the last, until it is lost.
    parity: Option<usize>,
    /// Blocks that the cleaner sent.
    cleaned: u64,
}

/// Page-outs that share a parity page.
#[derive(Clone, Debug, Default)]
struct Group {
    /// Place of each page-out, and its page while that version is current.
    members: Vec<(FrameLocation, Option<u32>)>,
    /// Exclusive or of all pages: in the client's buffer while the group is open.
    all: u64,
    /// Place of the parity page.
    parity: Option<FrameLocation>,
}

impl Group {
    fn active(&self) -> usize {
        self.members.iter().filter(|member| member.1.is_some()).count()
    }
}

impl ParityLog {
    /// Creates parity logging for pages numbered below `pages`, on `servers` servers.
    pub fn new(pages: usize, servers: usize) -> Self {
        Self {
            places: vec![None; pages],
            active: 0,
            closed: BTreeMap::new(),
            open: Group::default(),
            number: 0,
            parity: servers.checked_sub(1).filter(|last| *last > 0),
            cleaned: 0,
        }
    }

    /// Returns the number of blocks that the cleaner has sent again.
    pub fn cleaned(&self) -> u64 {
        self.cleaned
    }

    /// Returns the servers for pages that are up.
    fn data_servers(&self, servers: &Servers) -> Vec<usize> {
        (0..servers.len()).filter(|server| Some(*server) != self.parity && servers.is_up(*server)).collect()
    }

    /// Returns the largest number of active pages, so that a part of the memory is left for
    /// inactive ones.
    fn most_active(&self, servers: &Servers) -> usize {
        let frames: usize = self.data_servers(servers).iter().map(|server| servers.frames(*server)).sum();
        frames * 10 / 11
    }

    /// Marks the page's last version as inactive.
    fn deactivate(&mut self, servers: &mut Servers, page: u32) {
        let Some((place, number)) = self.places[page as usize].take() else { return };
        self.active -= 1;
        let group = if number == self.number { Some(&mut self.open) } else { self.closed.get_mut(&number) };
        let Some(group) = group else { return };
        if let Some(member) = group.members.iter_mut().find(|member| member.0 == place) {
            member.1 = None;
        }
        if number != self.number && group.active() == 0 {
            self.give_up(servers, number);
        }
    }

    fn give_up(&mut self, servers: &mut Servers, number: u64) {
        let Some(group) = self.closed.remove(&number) else { return };
        for place in group.members.iter().map(|member| member.0).chain(group.parity) {
            if servers.is_up(place.server) {
                servers.give_back(place);
            }
        }
    }

    /// Sends a page to the next server that is not yet in the open group, and the group's parity
    /// after the last. Sends nothing when no server has room.
    fn append(&mut self, servers: &mut Servers, page: u32, contents: u64, sent: &mut Vec<Transfer>) -> bool {
        let mut but: Vec<usize> = self.open.members.iter().map(|member| member.0.server).collect();
        but.extend(self.parity);
        let Some(place) = servers.next(&but).and_then(|server| servers.take(server)) else { return false };
        servers.write(place, contents);
        sent.push(Transfer { from: None, to: place.server });
        self.open.members.push((place, Some(page)));
        self.open.all ^= contents;
        self.places[page as usize] = Some((place, self.number));
        self.active += 1;
        if self.open.members.len() >= self.data_servers(servers).len() {
            self.close(servers, sent);
        }
        true
    }

    fn close(&mut self, servers: &mut Servers, sent: &mut Vec<Transfer>) {
        let mut group = std::mem::take(&mut self.open);
        if let Some(place) = self.parity.and_then(|parity| servers.take(parity)) {
            servers.write(place, group.all);
            sent.push(Transfer { from: None, to: place.server });
            group.parity = Some(place);
        }
        let number = self.number;
        self.number += 1;
        let is_empty = group.active() == 0;
        self.closed.insert(number, group);
        if is_empty {
            self.give_up(servers, number);
        }
    }

    /// Frees a group's frames while a server, or the parity server, has few: sends the active pages
    /// of the group with the fewest again. Returns `false` when all pages of every group are
    /// active.
    fn clean(&mut self, servers: &mut Servers, sent: &mut Vec<Transfer>) -> bool {
        let fewest =
            self.closed.iter().map(|(number, group)| (group.active(), group.members.len(), *number)).min();
        let Some((active, members, number)) = fewest else { return false };
        if active >= members {
            return false;
        }
        let Some(group) = self.closed.get(&number) else { return false };
        let pages: Vec<(u32, u64)> = group
            .members
            .iter()
            .filter_map(|(place, page)| Some((page.as_ref().copied()?, servers.read(*place))))
            .collect();
        for (page, _) in &pages {
            self.places[*page as usize] = None;
            self.active -= 1;
        }
        self.give_up(servers, number);
        for (page, contents) in pages {
            self.cleaned += 1;
            // At least as many frames as the active pages need have just been given back.
            self.append(servers, page, contents, sent);
        }
        true
    }

    /// Returns `true` if the next page-outs find room on every server.
    fn has_room(&self, servers: &Servers) -> bool {
        let enough = |server: usize| servers.free(server) > RESERVE;
        self.data_servers(servers).into_iter().all(enough) && self.parity.is_none_or(enough)
    }
}

impl Redundancy for ParityLog {
    fn name(&self) -> &'static str {
        "pager, parity logging"
    }

    fn place(&self, page: u32) -> Option<FrameLocation> {
        self.places[page as usize].map(|(place, _)| place)
    }

    fn put(&mut self, servers: &mut Servers, page: u32, contents: u64) -> Vec<Transfer> {
        let mut sent = Vec::new();
        let was_kept = self.places[page as usize].is_some();
        self.deactivate(servers, page);
        if !was_kept && self.active >= self.most_active(servers) {
            return sent;
        }
        while !self.has_room(servers) && self.clean(servers, &mut sent) {}
        self.append(servers, page, contents, &mut sent);
        sent
    }

    fn lose(&mut self, servers: &mut Servers, lost: usize) -> Rebuilt {
        let mut rebuilt = Rebuilt::default();
        if self.parity == Some(lost) {
            self.parity = None;
            self.closed.values_mut().for_each(|group| group.parity = None);
            return rebuilt;
        }
        let open = self.number;
        let mut again = Vec::new();
        for (number, group) in self.closed.iter_mut().chain(std::iter::once((&open, &mut self.open))) {
            let Some(at) = group.members.iter().position(|member| member.0.server == lost) else { continue };
            let (_, page) = group.members.swap_remove(at);
            let others = group.members.iter().fold(0, |all, member| all ^ servers.read(member.0));
            let is_open = *number == open;
            let parity =
                if is_open { Some(group.all) } else { group.parity.map(|place| servers.read(place)) };
            let contents = parity.map(|parity| parity ^ others);
            // The group stays without its lost member.
            group.all = others;
            if let Some(place) = group.parity {
                servers.write(place, others);
            }
            if let Some(page) = page {
                rebuilt.transfers += group.members.len() as u64 + u64::from(!is_open);
                again.push((page, contents));
            }
        }
        for (page, _) in &again {
            self.places[*page as usize] = None;
            self.active -= 1;
        }
        let empty: Vec<u64> =
            self.closed.iter().filter(|(_, group)| group.active() == 0).map(|(number, _)| *number).collect();
        empty.into_iter().for_each(|number| self.give_up(servers, number));
        for (page, contents) in again {
            let kept = contents.map(|contents| self.put(servers, page, contents));
            rebuilt.transfers += kept.map_or(0, |sent| sent.len() as u64);
            if self.places[page as usize].is_none() {
                rebuilt.homeless.push((page, contents));
            }
        }
        rebuilt
    }
}

/// Frames that stay free on each server, for the cleaner to work with.
const RESERVE: usize = 2;
