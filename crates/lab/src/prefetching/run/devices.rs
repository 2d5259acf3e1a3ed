//! Processors, links and disks: their work, and the time of its end.

use super::{PrefetchEvent, PrefetchRun, after};
use crate::prefetching::disk::{Disk, DiskTimes};
use crate::prefetching::memory::Page;
use shoal_cooperation::prefetch::{PageSite, PrefetchQueue, PrefetchRequest};
use std::collections::VecDeque;

/// The devices of one node.
pub(super) struct NodeDevices {
    /// Time at which the processor has done all its work, in nanoseconds.
    processor_free: u64,
    /// Processor time of the node's own programs since the epoch began, in seconds.
    pub processor_seconds: f64,
    link_free: u64,
    disk: Disk,
    disk_seconds: f64,
    reading: Option<DiskFetch>,
    /// Pages that the node's own programs wait for.
    faults: VecDeque<Page>,
    /// Pages that the node's own programs will want.
    ahead: VecDeque<Page>,
    /// Pages that other nodes requested.
    pub requests: PrefetchQueue<Page>,
}

/// Read that a disk is doing.
#[derive(Clone, Copy, Debug)]
enum DiskFetch {
    Own(Page),
    ForOther(Page),
}

impl NodeDevices {
    pub fn new(times: DiskTimes, most_requests: usize) -> Self {
        Self {
            processor_free: 0,
            processor_seconds: 0.0,
            link_free: 0,
            disk: Disk::new(times),
            disk_seconds: 0.0,
            reading: None,
            faults: VecDeque::new(),
            ahead: VecDeque::new(),
            requests: PrefetchQueue::new(most_requests),
        }
    }

    pub fn disk_busy_seconds(&self) -> f64 {
        self.disk_seconds
    }

    /// Returns `true` if the disk neither reads nor has queued a page for the node's own programs.
    pub fn disk_has_time(&self) -> bool {
        self.faults.is_empty() && self.ahead.is_empty() && !matches!(self.reading, Some(DiskFetch::Own(_)))
    }

    pub fn read_for_fault(&mut self, page: Page) {
        self.faults.push_back(page);
    }

    pub fn read_ahead(&mut self, page: Page) {
        self.ahead.push_back(page);
    }

    /// Moves a page from the readahead queue to the faults, since a program now waits for it.
    pub fn hurry(&mut self, page: Page) {
        if let Some(at) = self.ahead.iter().position(|waiting| *waiting == page) {
            self.ahead.remove(at);
            self.faults.push_back(page);
        }
    }

    /// Computes from now, or from the processor's next free time. Returns the time of the end, in
    /// nanoseconds.
    fn compute(&mut self, now: u64, seconds: f64) -> u64 {
        debug_assert!(seconds >= 0.0 && seconds.is_finite(), "computing for {seconds} s");
        self.processor_free = after(self.processor_free.max(now), seconds);
        self.processor_seconds += seconds;
        self.processor_free
    }

    /// Sends or gets a page that is ready at some time. Returns the time of the end, in
    /// nanoseconds.
    pub fn transfer(&mut self, ready: u64, seconds: f64) -> u64 {
        debug_assert!(seconds >= 0.0 && seconds.is_finite(), "a transfer of {seconds} s");
        self.link_free = after(self.link_free.max(ready), seconds);
        self.link_free
    }
}

impl PrefetchRun<'_> {
    /// Lets a program compute up to its next reference, with the work charged to it.
    pub fn compute(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let computing = process.program.computing_seconds;
        let access = std::mem::take(&mut process.access_seconds);
        process.finished.user_seconds += computing;
        process.finished.system_seconds += access;
        process.on_processor_seconds += computing + access;
        process.stride.computed(computing + access);
        process.forestall.computed(computing);
        let done = self.nodes[process.home].station.compute(self.now, computing + access);
        self.schedule(done, PrefetchEvent::Reference { process: index });
    }

    /// Charges work for a program's pages to its node's processor, which delays the next work.
    pub fn charge(&mut self, index: usize, seconds: f64) {
        self.charge_node(self.processes[index].home, index, seconds);
    }

    /// Charges work for a program's pages to any node. The work counts for the program only on its
    /// own node.
    pub fn charge_node(&mut self, node: usize, index: usize, seconds: f64) {
        self.nodes[node].station.compute(self.now, seconds);
        let process = &mut self.processes[index];
        if process.home == node {
            process.finished.system_seconds += seconds;
            process.on_processor_seconds += seconds;
        }
    }

    /// Handles a prefetch request that has come to a node.
    pub fn asked(&mut self, node: usize, request: PrefetchRequest<Page>) {
        if self.place(request.page) != PageSite::Requested(node) {
            // The request was withdrawn while it was on its way.
            self.nodes[request.from].requester.acknowledged();
            self.awake.insert(request.from);
        } else if self.nodes[node].station.requests.push(request) {
            self.start_disk(node);
        } else {
            self.refuse(node, request);
        }
    }

    /// Refuses a request at a node.
    fn refuse(&mut self, node: usize, request: PrefetchRequest<Page>) {
        self.epoch_of_mut(request.from).exhausted(node);
        let process = &mut self.processes[request.page.0 as usize];
        if process.pages[request.page.1 as usize].place.refuse(node) {
            process.is_on_disk(request.page.1, 0.0);
        }
        self.nodes[request.from].requester.acknowledged();
        self.awake.insert(request.from);
    }

    /// Starts the first read of a node's disk, if the disk is idle.
    pub fn start_disk(&mut self, node: usize) {
        while self.nodes[node].station.reading.is_none() {
            let station = &mut self.nodes[node].station;
            let own = station.faults.pop_front().or_else(|| station.ahead.pop_front());
            let read = match own {
                Some(page) => DiskFetch::Own(page),
                None => {
                    let Some(request) = station.requests.begin() else { return };
                    if !self.make_room_for(node, &request) {
                        self.refuse(node, request);
                        continue;
                    }
                    self.begin_for_other(node, request);
                    DiskFetch::ForOther(request.page)
                }
            };
            let (DiskFetch::Own(page) | DiskFetch::ForOther(page)) = read;
            let station = &mut self.nodes[node].station;
            let seconds = station.disk.read(page.0, page.1);
            station.disk_seconds += seconds;
            station.reading = Some(read);
            self.schedule(after(self.now, seconds), PrefetchEvent::DiskDone { node });
        }
    }

    /// Begins a node's read for another node and tells it so.
    fn begin_for_other(&mut self, node: usize, request: PrefetchRequest<Page>) {
        let (program, page) = (request.page.0 as usize, request.page.1);
        let process = &mut self.processes[program];
        let state = &mut process.pages[page as usize];
        let of_global = &mut process.finished.disk_to_global;
        of_global.in_time += 1;
        of_global.cold += u64::from(!state.was_read);
        state.was_read = true;
        let begins = state.place.begin(node);
        debug_assert!(begins, "page {page} is read by a node that was not asked");
        self.acknowledge(node, request.from, request.value);
        self.nodes[request.from].requester.acknowledged();
        self.awake.insert(request.from);
    }

    pub fn disk_done(&mut self, node: usize) {
        match self.nodes[node].station.reading.take() {
            Some(DiskFetch::Own(page)) => self.arrive(page),
            Some(DiskFetch::ForOther(page)) => self.arrive_in_global(node, page),
            None => {}
        }
        self.start_disk(node);
    }
}
