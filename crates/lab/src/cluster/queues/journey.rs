//! A request's way through stations, one leg after the other.

use super::Service;
use crate::cluster::{Asked, SERVER, Served};

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Journey {
    /// The node that answers it.
    pub(super) node: usize,
    pub(super) object: u32,
    served: Served,
    /// When it began.
    pub(super) began: u64,
    leg: u8,
    /// The journey that is reading the same object for the same node.
    follows: Option<u32>,
    /// The first of those that wait for this one's read.
    pub(super) waiting: Option<u32>,
    /// The next that waits for the same read.
    pub(super) behind: Option<u32>,
}

/// What a journey does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leg {
    /// Takes a node's processor for so many microseconds.
    Processor(usize, u64),
    /// Takes a node's disk.
    Disk(usize, u64),
    /// Is on its way from node to node.
    Way(u64),
    /// Waits for what this journey reads.
    Wait(u32),
    /// Has read its object.
    Read,
    /// Is answered.
    Over,
}

impl Journey {
    pub(super) fn new(node: usize, object: u32, served: Served, began: u64) -> Self {
        Self { node, object, served, began, leg: 0, follows: None, waiting: None, behind: None }
    }

    /// Whether it reads its object from a disk.
    pub(super) fn reads(&self) -> bool {
        matches!(self.served, Served::Disk(_) | Served::OwnDisk)
    }

    /// Whether the node had its object.
    pub(super) fn is_local(&self) -> bool {
        self.served == Served::Local
    }

    /// It waits until another has read the object.
    pub(super) fn follow(&mut self, reader: u32) {
        self.follows = Some(reader);
    }

    /// The next leg.
    pub(super) fn next(&mut self, service: &Service) -> Leg {
        loop {
            let leg = self.leg(service);
            self.leg += 1;
            if leg != Leg::Way(0) {
                return leg;
            }
        }
    }

    /// The leg that it has come to; a way of no length where there is nothing to do.
    fn leg(&self, service: &Service) -> Leg {
        let Service { connection_us, send_us, message_us, disk_us, .. } = *service;
        let way = |hops: u32| Leg::Way(u64::from(hops) * service.hop_us);
        let sends = Leg::Processor(self.node, send_us);
        if self.leg == 0 {
            let sends_at_once = self.is_local() && self.follows.is_none();
            let us = if sends_at_once { connection_us + send_us } else { connection_us };
            return Leg::Processor(self.node, us);
        }
        match (self.served, self.leg) {
            (Served::Local, leg) => match (self.follows, leg) {
                (Some(reader), 1) => Leg::Wait(reader),
                (Some(_), 2) => sends,
                _ => Leg::Over,
            },
            (Served::Remote { hops, .. } | Served::Server(hops) | Served::Disk(hops), 1) => {
                way(hops.saturating_sub(1))
            }
            (Served::Remote { asked, .. }, 2) => match asked {
                Asked::Nobody => Leg::Way(0),
                Asked::Server => Leg::Processor(SERVER, message_us),
                Asked::Node(manager) => Leg::Processor(manager, message_us),
            },
            (Served::Remote { from, .. }, 3) => Leg::Processor(from, send_us),
            (Served::Server(_), 2) => Leg::Processor(SERVER, message_us + send_us),
            (Served::Server(_), 3) => Leg::Way(0),
            (Served::Remote { .. } | Served::Server(_), 4) => way(1),
            (Served::Remote { .. } | Served::Server(_), 5) => sends,
            (Served::Disk(_), 2) => Leg::Processor(SERVER, message_us),
            (Served::Disk(_), 3) => Leg::Disk(SERVER, disk_us),
            (Served::Disk(_), 4) => Leg::Processor(SERVER, send_us),
            (Served::Disk(_), 5) => way(1),
            (Served::Disk(_), 6) | (Served::OwnDisk, 2) => Leg::Read,
            (Served::Disk(_), 7) | (Served::OwnDisk, 3) => sends,
            (Served::OwnDisk, 1) => Leg::Disk(self.node, disk_us),
            _ => Leg::Over,
        }
    }
}
