//! Pages are fetched before their reference.

use super::process::{Process, State};
use super::{PrefetchEvent, PrefetchRun, after, file_of};
use crate::prefetching::MOST_INCOMING;
use shoal_cooperation::NodeId;
use shoal_cooperation::prefetch::{MissingPage, PageSite, Value, slack};

impl PrefetchRun<'_> {
    /// Lets every node prefetch that may be able to.
    pub fn prefetch(&mut self) {
        while let Some(node) = self.awake.pop_first() {
            let of_node = |run: &Self, index: &usize| {
                let process = &run.processes[*index];
                process.home == node && process.is_hinted() && process.state != State::Done
            };
            for index in (0..self.processes.len()).filter(|index| of_node(self, index)).collect::<Vec<_>>() {
                self.prefetch_to_local(index);
                if self.setting.prefetching.disk_to_global {
                    self.prefetch_to_global(index);
                }
            }
        }
    }

    /// Brings in the first missing page while the predicate is true, if a less valuable page can
    /// leave for it.
    fn prefetch_to_local(&mut self, index: usize) {
        let prefetching = self.setting.prefetching;
        if !prefetching.disk_to_local && !prefetching.global_to_local {
            return;
        }
        while self.processes[index].forestall.must_look() && self.must_prefetch(index) {
            let Some((page, source)) = self.first_to_fetch(index) else { return };
            let process = &self.processes[index];
            let (home, now) = (process.home, self.seconds());
            if self.least_value(home, now) >= process.value(page, now) {
                return;
            }
            match source {
                PageSource::Global(node) => self.get((index as u32, page), node, true),
                PageSource::Disk => self.read((index as u32, page), true),
            }
        }
    }

    /// Returns `true` if the predicate is true. Otherwise remembers how long it stays false.
    fn must_prefetch(&mut self, index: usize) -> bool {
        let times = self.times;
        let process = &mut self.processes[index];
        let first = process.missing().next();
        process.missing_from =
            first.map_or(process.hints.at() + process.hints.len() as u64, |(place, _)| place);
        // Pages farther ahead than local memory has frames do not matter.
        let frames = self.nodes[process.home].memory.frames();
        let missing = || {
            process.missing().take(frames).map(|(place, page)| MissingPage {
                until_seconds: process.computing_until(place),
                fetch_seconds: process.pages[page as usize].place.fetch_seconds(&times),
            })
        };
        let slack = slack(missing());
        process.forestall.looked(slack);
        slack.is_some_and(|slack| slack <= 0.0)
    }

    /// Returns the first missing page. Pages that other nodes are reading and pages of a kind that
    /// is not prefetched are passed over. `None` when the page's way is not free.
    fn first_to_fetch(&self, index: usize) -> Option<(u32, PageSource)> {
        let process = &self.processes[index];
        let prefetching = self.setting.prefetching;
        // Pages in global memory are passed over at once where these are not prefetched.
        let first = if prefetching.global_to_local { process.missing_from } else { process.disk_from };
        for (_, page) in process.hinted_from(first) {
            match process.pages[page as usize].place {
                PageSite::Global(node) if prefetching.global_to_local => {
                    let is_free = self.nodes[process.home].incoming < MOST_INCOMING;
                    return is_free.then_some((page, PageSource::Global(node)));
                }
                PageSite::Disk if prefetching.disk_to_local => {
                    let is_free = self.nodes[process.home].station.disk_has_time();
                    return is_free.then_some((page, PageSource::Disk));
                }
                _ => {}
            }
        }
        None
    }

    /// Asks other nodes for the first pages that are on disk alone.
    fn prefetch_to_global(&mut self, index: usize) {
        let (home, now) = (self.processes[index].home, self.seconds());
        while self.nodes[home].requester.may_ask() {
            let process = &mut self.processes[index];
            let on_disk = |page: u32| process.pages[page as usize].place == PageSite::Disk;
            let Some((place, page)) = process.hinted_from(process.disk_from).find(|(_, page)| on_disk(*page))
            else {
                process.disk_from = process.hints.at() + process.hints.len() as u64;
                return;
            };
            process.disk_from = place;
            let value = process.value(page, now);
            let Some((page, node)) = self.ask_for(index, place, now) else {
                let epoch = self.epoch_of_mut(home);
                if value > epoch.max_value(now) && epoch.is_used_up_for(home) {
                    epoch.used_up();
                }
                return;
            };
            let process = &mut self.processes[index];
            let value = process.value(page, now);
            let is_asked = process.pages[page as usize].place.ask(node);
            debug_assert!(is_asked, "page {page} is asked for once");
            self.charge(index, self.setting.costs.ask_seconds);
            let costs = &self.setting.costs;
            let arrives = after(self.now, costs.ask_seconds + costs.ask_wire_seconds);
            let page = Process::page(index, page);
            self.schedule(arrives, PrefetchEvent::Asked { node, page, until_us: value.until_us() });
        }
    }

    /// Selects the page to ask for, from a place on, and its node. Where not all disks have all
    /// files, pages that no giving node can read are passed over.
    fn ask_for(&mut self, index: usize, place: u64, now: f64) -> Option<(u32, usize)> {
        let process = &self.processes[index];
        let planner = self.planner_of(process.home);
        let (requester, epoch) = (&mut self.nodes[process.home].requester, &self.knowledge[planner].epoch);
        let on_disk = |page: &u32| process.pages[*page as usize].place == PageSite::Disk;
        let most = if self.aliases.is_some() { PASSED_OVER } else { 1 };
        let pages = process.hinted_from(place).map(|(_, page)| page).filter(on_disk).take(most);
        pages.into_iter().find_map(|page| {
            let file = file_of(index, page);
            let has_page = |node: usize| match &self.aliases {
                Some(aliases) => aliases.on(file, NodeId(node as u64)).is_some(),
                None => true,
            };
            Some((page, requester.ask_among(process.value(page, now), epoch, now, has_page)?))
        })
    }

    /// Returns the value of a node's least valuable page; that of a free frame where there is one.
    pub fn least_value(&self, node: usize, now_seconds: f64) -> Value {
        if self.nodes[node].memory.free() > 0 {
            return Value::NEVER;
        }
        self.least_valuable(node, now_seconds).map_or(Value::NOW, |(value, _)| value)
    }
}

/// Place that a page is prefetched from.
enum PageSource {
    Global(usize),
    Disk,
}

/// Most pages that are looked at for one that another disk has: some files.
const PASSED_OVER: usize = 512;
