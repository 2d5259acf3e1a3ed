//! Pages leave for others: from local memory to the nodes that the epoch names, from global memory
//! to nowhere.

use super::PrefetchRun;
use crate::prefetching::memory::{Page, PageRank};
use shoal_cooperation::prefetch::{PrefetchRequest, Value, VictimDecision};

impl PrefetchRun<'_> {
    /// Reserves a frame of a node for a page of its own programs. The least valuable of all its
    /// pages leaves.
    pub fn reserve_frame(&mut self, node: usize) {
        if self.nodes[node].memory.free() == 0
            && let Some((value, page)) = self.least_valuable(node, self.seconds())
        {
            self.take_out(node, page);
            self.put(node, page, value);
        }
        self.nodes[node].memory.reserve();
    }

    /// Reserves a frame for a page that a node was asked to read, if it has a free frame or a less
    /// valuable page. That page is dropped.
    pub fn make_room_for(&mut self, node: usize, request: &PrefetchRequest<Page>) -> bool {
        let now = self.seconds();
        let value = self.processes[request.page.0 as usize].value(request.page.1, now);
        let given_up = self.replace(node, value);
        if let Some(given_up) = given_up {
            self.epoch_of_mut(request.from).replaced(node, given_up, now);
        }
        given_up.is_some()
    }

    /// Puts an evicted page on the node that the epoch chooses. Drops it when it is worth less than
    /// all pages there.
    fn put(&mut self, from: usize, page: Page, value: Value) {
        let draw = self.random.unit();
        let taker = self.epoch_of(from).choose(from, draw);
        let index = page.0 as usize;
        let home = self.processes[index].home;
        if home == from {
            self.processes[index].lost_from_local(page.1, self.times.global_seconds());
        }
        let given_up = taker.and_then(|node| Some((node, self.replace(node, value)?)));
        let Some((node, given_up)) = given_up else {
            return self.lose(page);
        };
        // A page that takes the frame of one that has just left for its node replaces nothing.
        if given_up != Value::NEVER {
            let now = self.seconds();
            self.epoch_of_mut(from).replaced(node, given_up, now);
        }
        self.charge_node(from, index, self.setting.costs.putpage_seconds);
        self.nodes[node].station.transfer(self.now, self.setting.costs.transfer_seconds);
        let process = &mut self.processes[index];
        let state = &mut process.pages[page.1 as usize];
        let goes = state.place.put(node, home);
        debug_assert!(goes, "page {page:?} is put from a memory to another");
        if node == home {
            // A page that is passed on may come to the very node that will use it.
            state.came_from_disk = false;
            return self.came(page);
        }
        let standing = process.standing(page.1);
        self.nodes[node].memory.fill_reserved(page, standing);
    }

    /// Reserves a frame of a node for a page of this value: a free one, or that of its least
    /// valuable page, if that is worth less. Returns the value of the replaced page, or `None` when
    /// no frame was found.
    fn replace(&mut self, node: usize, value: Value) -> Option<Value> {
        let now = self.seconds();
        let is_full = self.nodes[node].memory.free() == 0;
        let least = is_full.then(|| self.least_valuable(node, now));
        let worth = least.map(|found| found.map_or(Value::NOW, |(value, _)| value));
        let given_up = VictimDecision::of(value, worth).given_up()?;
        if let Some((_, page)) = least.flatten() {
            self.take_out(node, page);
            let process = &mut self.processes[page.0 as usize];
            if process.home == node {
                process.lost_from_local(page.1, self.times.global_seconds());
            }
            self.awake.insert(process.home);
            self.lose(page);
        }
        self.nodes[node].memory.reserve();
        Some(given_up)
    }

    /// Drops a page from all memory.
    fn lose(&mut self, page: Page) {
        let longer = self.times.disk_seconds() - self.times.global_seconds();
        let process = &mut self.processes[page.0 as usize];
        let is_dropped = process.pages[page.1 as usize].place.drop_page();
        debug_assert!(is_dropped, "page {page:?} was in no memory");
        process.is_on_disk(page.1, longer);
    }

    fn take_out(&mut self, node: usize, page: Page) {
        let standing = self.processes[page.0 as usize].standing(page.1);
        self.nodes[node].memory.remove(page, standing);
    }

    /// Returns the least valuable page of a node.
    pub fn least_valuable(&self, node: usize, now_seconds: f64) -> Option<(Value, Page)> {
        let memory = &self.nodes[node].memory;
        let candidates = self.processes.iter().enumerate().flat_map(|(index, process)| {
            let shelf = memory.shelf(index);
            let hinted = shelf.hinted.last().map(|(place, page)| (PageRank::Hinted(*place), *page));
            let unhinted = shelf.unhinted.first().map(|(used, page)| (PageRank::Unhinted(*used), *page));
            [hinted, unhinted]
                .into_iter()
                .flatten()
                .map(move |(standing, page)| (process.value_of(standing, now_seconds), (index as u32, page)))
        });
        candidates.min_by(|a, b| a.0.cmp(&b.0))
    }
}
