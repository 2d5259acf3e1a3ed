//! A request's way through stations, one leg after the other.

use super::ServiceTimes;
use crate::cluster::{LocatedBy, SERVER, ServedFrom};

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedRequest {
    /// The node that answers it.
    pub(super) node: usize,
    pub(super) object: u32,
    served: ServedFrom,
    /// Time of the beginning.
    pub(super) began: u64,
    leg: u8,
    /// The journey that reads the same object for the same node.
    follows: Option<u32>,
    /// The first journey that waits for this one's read.
    pub(super) waiting: Option<u32>,
    /// The next journey that waits for the same read.
    pub(super) behind: Option<u32>,
}

/// Next step of a journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestStage {
    /// Takes a node's processor for this number of microseconds.
    Processor(usize, u64),
    /// Takes a node's disk.
    Disk(usize, u64),
    /// Is on its way from node to node.
    Way(u64),
    /// Waits for the object that this journey reads.
    Wait(u32),
    /// Has read its object.
    Read,
    /// Is answered.
    Over,
}

impl QueuedRequest {
    pub(super) fn new(node: usize, object: u32, served: ServedFrom, began: u64) -> Self {
        Self { node, object, served, began, leg: 0, follows: None, waiting: None, behind: None }
    }

    /// Returns `true` if the journey reads its object from a disk.
    pub(super) fn reads(&self) -> bool {
        matches!(self.served, ServedFrom::Disk(_) | ServedFrom::OwnDisk)
    }

    /// Returns `true` if the node had the object.
    pub(super) fn is_local(&self) -> bool {
        self.served == ServedFrom::Local
    }

    /// Makes the journey wait until another has read the object.
    pub(super) fn follow(&mut self, reader: u32) {
        self.follows = Some(reader);
    }

    /// Moves to the next leg and returns it.
    pub(super) fn next(&mut self, service: &ServiceTimes) -> RequestStage {
        loop {
            let leg = self.leg(service);
            self.leg += 1;
            if leg != RequestStage::Way(0) {
                return leg;
            }
        }
    }

    /// Returns the current leg; a way of no length where there is nothing to do.
    fn leg(&self, service: &ServiceTimes) -> RequestStage {
        let ServiceTimes { connection_us, send_us, message_us, disk_us, .. } = *service;
        let way = |hops: u32| RequestStage::Way(u64::from(hops) * service.hop_us);
        let sends = RequestStage::Processor(self.node, send_us);
        if self.leg == 0 {
            let sends_at_once = self.is_local() && self.follows.is_none();
            let us = if sends_at_once { connection_us + send_us } else { connection_us };
            return RequestStage::Processor(self.node, us);
        }
        match (self.served, self.leg) {
            (ServedFrom::Local, leg) => match (self.follows, leg) {
                (Some(reader), 1) => RequestStage::Wait(reader),
                (Some(_), 2) => sends,
                _ => RequestStage::Over,
            },
            (ServedFrom::Remote { hops, .. } | ServedFrom::Server(hops) | ServedFrom::Disk(hops), 1) => {
                way(hops.saturating_sub(1))
            }
            (ServedFrom::Remote { asked, .. }, 2) => match asked {
                LocatedBy::Nobody => RequestStage::Way(0),
                LocatedBy::Server => RequestStage::Processor(SERVER, message_us),
                LocatedBy::Node(manager) => RequestStage::Processor(manager, message_us),
            },
            (ServedFrom::Remote { from, .. }, 3) => RequestStage::Processor(from, send_us),
            (ServedFrom::Server(_), 2) => RequestStage::Processor(SERVER, message_us + send_us),
            (ServedFrom::Server(_), 3) => RequestStage::Way(0),
            (ServedFrom::Remote { .. } | ServedFrom::Server(_), 4) => way(1),
            (ServedFrom::Remote { .. } | ServedFrom::Server(_), 5) => sends,
            (ServedFrom::Disk(_), 2) => RequestStage::Processor(SERVER, message_us),
            (ServedFrom::Disk(_), 3) => RequestStage::Disk(SERVER, disk_us),
            (ServedFrom::Disk(_), 4) => RequestStage::Processor(SERVER, send_us),
            (ServedFrom::Disk(_), 5) => way(1),
            (ServedFrom::Disk(_), 6) | (ServedFrom::OwnDisk, 2) => RequestStage::Read,
            (ServedFrom::Disk(_), 7) | (ServedFrom::OwnDisk, 3) => sends,
            (ServedFrom::OwnDisk, 1) => RequestStage::Disk(self.node, disk_us),
            _ => RequestStage::Over,
        }
    }
}
