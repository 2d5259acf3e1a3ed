//! A program references a page: it has the page, waits for it, or fetches it.

use super::process::State;
use super::{PrefetchEvent, PrefetchRun, after};
use crate::prefetching::memory::{Page, PageRank};
use shoal_cooperation::prefetch::{FaultStep, PageSite};

impl PrefetchRun<'_> {
    /// Handles a program's next reference.
    pub fn reference(&mut self, index: usize) {
        let told = self.processes[index].disclose_hints();
        self.restand(index, &told);
        let page = self.processes[index].wanted();
        let changed = self.processes[index].advance_hints(page);
        self.restand(index, &changed);
        self.processes[index].references += 1;
        self.awake.insert(self.processes[index].home);
        if self.processes[index].pages[page as usize].place == PageSite::Local {
            self.use_page(index, page);
        } else {
            self.processes[index].state = State::Waiting(page);
            self.processes[index].waits_since = self.seconds();
            self.fault((index as u32, page));
        }
    }

    /// Ranks a program's pages again after their hints changed.
    fn restand(&mut self, index: usize, changed: &[(u32, PageRank)]) {
        let process = &self.processes[index];
        for (page, before) in changed {
            let Some(holder) = process.pages[*page as usize].place.holder(process.home) else { continue };
            let after = process.standing(*page);
            self.nodes[holder].memory.rerank((index as u32, *page), *before, after);
        }
    }

    /// Lets a program go on with a page that is local.
    fn use_page(&mut self, index: usize, page: u32) {
        let (now_us, now) = (self.now / 1000, self.seconds());
        let access = self.setting.costs.access_seconds;
        let process = &mut self.processes[index];
        let before = process.standing(page);
        let state = &mut process.pages[page as usize];
        state.last_used = now_us;
        if std::mem::take(&mut state.is_fresh) {
            process.access_seconds += access;
        }
        let after = process.standing(page);
        self.nodes[process.home].memory.rerank((index as u32, page), before, after);
        debug_assert!(process.pages[page as usize].place == PageSite::Local, "page {page} is used from afar");
        process.state = State::Computing;
        process.index += 1;
        if process.index < process.program.references.len() {
            self.compute(index);
        } else {
            process.state = State::Done;
            process.finished.elapsed_seconds = now;
        }
    }

    /// Makes a program wait for a page.
    fn fault(&mut self, page: Page) {
        let index = page.0 as usize;
        let home = self.processes[index].home;
        match self.place(page).fault() {
            FaultStep::Use => {}
            FaultStep::Hurry => self.nodes[home].station.hurry(page),
            FaultStep::AwaitFetch(_) => {
                let fetches = &mut self.processes[index].finished.disk_to_global;
                fetches.in_time -= 1;
                fetches.stalls += 1;
            }
            FaultStep::Get(node) => self.get(page, node, false),
            FaultStep::Read { withdrawn } => {
                if let Some(node) = withdrawn
                    && self.nodes[node].station.requests.withdraw(home, page)
                {
                    self.nodes[home].requester.acknowledged();
                }
                self.read(page, false);
            }
        }
        self.start_disk(home);
    }

    /// Gets a page from global memory, for a waiting program or ahead of its reference.
    pub fn get(&mut self, page: Page, node: usize, ahead: bool) {
        let index = page.0 as usize;
        let costs = &self.setting.costs;
        let sent = after(self.now, costs.getpage_seconds + costs.wire_seconds);
        let arrives = self.nodes[node].station.transfer(sent, costs.transfer_seconds);
        self.charge(index, self.setting.costs.getpage_seconds);
        // The page leaves first, so that its frame can take the page that goes in exchange.
        let standing = self.processes[index].standing(page.1);
        self.nodes[node].memory.remove(page, standing);
        let home = self.processes[index].home;
        self.reserve_frame(home);
        self.nodes[home].incoming += usize::from(ahead);
        let state = &mut self.processes[index].pages[page.1 as usize];
        let leaves = state.place.get(node);
        debug_assert!(leaves, "page {page:?} is asked of a node without it");
        state.came_from_disk = false;
        self.schedule(arrives, PrefetchEvent::Arrived { page, ahead });
    }

    /// Reads a page from the own disk.
    pub fn read(&mut self, page: Page, ahead: bool) {
        let index = page.0 as usize;
        let home = self.processes[index].home;
        self.charge(index, self.setting.costs.read_seconds);
        self.reserve_frame(home);
        let state = &mut self.processes[index].pages[page.1 as usize];
        let is_read = state.place.read();
        debug_assert!(is_read, "page {page:?} is read although a memory has or gets it");
        state.came_from_disk = true;
        let station = &mut self.nodes[home].station;
        if ahead {
            station.read_ahead(page)
        } else {
            station.read_for_fault(page)
        }
        self.start_disk(home);
    }

    /// Handles a page that has come into local memory, from a disk or from global memory.
    pub fn arrive(&mut self, page: Page) {
        let arrives = self.processes[page.0 as usize].pages[page.1 as usize].place.arrive();
        debug_assert!(arrives, "page {page:?} was not on its way");
        self.came(page);
    }

    /// Handles a page that is local from now on.
    pub fn came(&mut self, page: Page) {
        let index = page.0 as usize;
        let now = self.seconds();
        let process = &mut self.processes[index];
        let is_waited_for = process.state == State::Waiting(page.1);
        let state = &mut process.pages[page.1 as usize];
        let fetches = if state.came_from_disk {
            &mut process.finished.disk_to_local
        } else {
            &mut process.finished.global_to_local
        };
        let is_cold = if state.came_from_disk { !state.was_read } else { !state.was_local };
        fetches.cold += u64::from(is_cold);
        if is_waited_for {
            fetches.stalls += 1;
        } else {
            fetches.in_time += 1;
        }
        state.was_read = true;
        state.was_local = true;
        state.is_fresh = true;
        debug_assert_eq!(state.place, PageSite::Local, "page {page:?} is elsewhere");
        state.last_used = self.now / 1000;
        let standing = process.standing(page.1);
        let home = process.home;
        self.nodes[home].memory.fill_reserved(page, standing);
        self.awake.insert(home);
        if is_waited_for {
            let process = &mut self.processes[index];
            process.waited_seconds += now - process.waits_since;
            self.use_page(index, page.1);
        }
    }

    /// Handles a page that has come into the memory of another node.
    pub fn arrive_in_global(&mut self, node: usize, page: Page) {
        let index = page.0 as usize;
        let process = &mut self.processes[index];
        let state = &mut process.pages[page.1 as usize];
        let is_fetched = state.place.fetched(node);
        debug_assert!(is_fetched, "page {page:?} was not fetched here");
        state.last_used = self.now / 1000;
        let standing = process.standing(page.1);
        self.awake.insert(process.home);
        self.nodes[node].memory.fill_reserved(page, standing);
        if self.processes[index].state == State::Waiting(page.1) {
            self.get(page, node, false);
        }
    }

    pub(super) fn place(&self, page: Page) -> PageSite {
        self.processes[page.0 as usize].pages[page.1 as usize].place
    }
}
