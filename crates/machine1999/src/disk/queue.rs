//! Transfers that wait for a disk: served in one direction over the disk and then from its start
//! again (4.4BSD's `disksort`, known as C-LOOK). Cost: O(log waiting) a transfer.

use super::arm::Arm;
use super::{DiskModel, Nanos, Service, Transfer};
use std::collections::BTreeMap;

/// Disk with its waiting transfers.
#[derive(Debug)]
pub(in super::super) struct Disk {
    arm: Arm,
    /// Waiting transfers by first fragment, then by arrival.
    waiting: BTreeMap<(u32, Ticket), (Nanos, Transfer)>,
    /// Position of the sweep.
    position: u32,
    free_at: Nanos,
    /// Arrival of the first waiting transfer.
    waiting_since: Nanos,
    next: Ticket,
    spent: Service,
}

/// Number that identifies a transfer.
pub(in super::super) type Ticket = u64;

impl Disk {
    pub(in super::super) fn new(model: DiskModel) -> Self {
        let (arm, waiting) = (Arm::new(model), BTreeMap::new());
        Self { arm, waiting, position: 0, free_at: 0, waiting_since: 0, next: 0, spent: Service::default() }
    }

    /// Queues a transfer. Time only moves forward from call to call.
    pub(in super::super) fn submit(&mut self, now: Nanos, transfer: Transfer) -> Ticket {
        self.run_until(now);
        if self.waiting.is_empty() {
            self.waiting_since = now;
        }
        let ticket = self.next;
        self.next += 1;
        let before = self.waiting.insert((transfer.fragment, ticket), (now, transfer));
        debug_assert!(before.is_none(), "ticket {ticket} is given once");
        ticket
    }

    /// Serves waiting transfers until this one is done. Returns the time of its end.
    pub(in super::super) fn finish(&mut self, fragment: u32, ticket: Ticket) -> Nanos {
        while self.waiting.contains_key(&(fragment, ticket)) {
            self.serve_next();
        }
        self.free_at
    }

    /// Serves transfers that begin before `now`.
    pub(in super::super) fn run_until(&mut self, now: Nanos) {
        while !self.waiting.is_empty() && self.free_at.max(self.waiting_since) < now {
            self.serve_next();
        }
    }

    /// Serves all waiting transfers. Returns the time of the end.
    pub(in super::super) fn finish_all(&mut self) -> Nanos {
        while !self.waiting.is_empty() {
            self.serve_next();
        }
        self.free_at
    }

    /// Returns the time spent on transfers.
    pub(in super::super) fn spent(&self) -> Service {
        self.spent
    }

    fn serve_next(&mut self) {
        let ahead = self.waiting.range((self.position, 0)..).next().map(|(key, _)| *key);
        let Some(key) = ahead.or_else(|| self.waiting.keys().next().copied()) else { return };
        let Some((arrival, transfer)) = self.waiting.remove(&key) else { return };
        let start = self.free_at.max(arrival);
        let service = self.arm.serve(start, &transfer);
        debug_assert!(service.total() > 0, "each transfer takes time");
        self.spent += service;
        self.free_at = start + service.total();
        debug_assert!(self.free_at >= self.spent.total(), "the arm worked longer than time went on");
        self.position = key.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{BlockKind, Traffic};

    fn read(fragment: u32) -> Transfer {
        let traffic = Traffic { is_write: false, is_mapped: false, kind: BlockKind::Data };
        Transfer { traffic, fragment, bytes: 8192 }
    }

    #[test]
    fn the_sweep_goes_up_and_starts_again_below() {
        let mut disk = Disk::new(DiskModel::rz28());
        disk.position = 500;
        let tickets = [400, 900, 600].map(|fragment| (fragment, disk.submit(0, read(fragment))));
        let [low, high, middle] = tickets.map(|(fragment, ticket)| disk.clone_finish(fragment, ticket));
        assert!(middle < high && high < low);
    }

    impl Disk {
        /// Returns the time when a transfer would be done, without changing this disk.
        fn clone_finish(&self, fragment: u32, ticket: Ticket) -> Nanos {
            let mut copy = Disk::new(DiskModel::rz28());
            (copy.position, copy.next) = (self.position, self.next);
            copy.waiting = self.waiting.clone();
            copy.finish(fragment, ticket)
        }
    }

    #[test]
    fn earlier_transfer_is_under_way_before_nearer_one() {
        let mut disk = Disk::new(DiskModel::rz28());
        let first = disk.submit(0, read(900_000));
        // The first is under way when a nearer one arrives.
        let second = disk.submit(1000, read(8));
        let done = disk.finish(900_000, first);
        assert!(disk.finish(8, second) > done);
        assert_eq!(disk.finish_all(), disk.free_at);
    }
}
