//! Arm over the turning platters: the time of one transfer, from the place of the one before.

use super::model::SECTOR_BYTES;
use super::{DiskModel, Nanos, Transfer};
use crate::machine::FRAGMENT_BYTES;
use std::ops::AddAssign;

/// Mechanical state of a disk.
#[derive(Debug)]
pub(super) struct Arm {
    model: DiskModel,
    cylinder: u32,
    /// Read-ahead after a read.
    ahead: Option<Ahead>,
}

/// Buffer of the drive: the sector after the last read, and the time when the head reached it.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    sector: u64,
    passed: Nanos,
}

/// Parts of a transfer's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Service {
    pub(in super::super) overhead: Nanos,
    pub(in super::super) seek: Nanos,
    pub(in super::super) rotation: Nanos,
    pub(in super::super) transfer: Nanos,
}

impl Service {
    pub(in super::super) fn total(&self) -> Nanos {
        self.overhead + self.seek + self.rotation + self.transfer
    }
}

impl AddAssign for Service {
    fn add_assign(&mut self, other: Self) {
        self.overhead += other.overhead;
        self.seek += other.seek;
        self.rotation += other.rotation;
        self.transfer += other.transfer;
    }
}

impl Arm {
    /// Makes an arm at rest over the first cylinder.
    pub(super) fn new(model: DiskModel) -> Self {
        Self { model, cylinder: 0, ahead: None }
    }

    /// Does one transfer that begins at `start`, and returns its time.
    pub(super) fn serve(&mut self, start: Nanos, transfer: &Transfer) -> Service {
        let first = u64::from(transfer.fragment) * u64::from(FRAGMENT_BYTES) / SECTOR_BYTES;
        let sectors = u64::from(transfer.bytes).div_ceil(SECTOR_BYTES);
        assert!(sectors > 0, "a transfer of nothing");
        debug_assert!(
            (first + sectors) * SECTOR_BYTES <= self.model.bytes(),
            "sectors from {first} on lie beyond the disk's end"
        );
        let service = match self.ahead {
            Some(ahead) if self.is_buffered(ahead, transfer, first) => {
                self.read_buffered(start, ahead, sectors)
            }
            _ => self.reach(start, first, sectors),
        };
        self.cylinder = self.cylinder_of(first + sectors - 1);
        let passed = match self.ahead {
            Some(ahead) if self.is_buffered(ahead, transfer, first) => {
                ahead.passed + self.pass_from(first, sectors)
            }
            _ => start + service.total(),
        };
        self.ahead = (!transfer.traffic.is_write).then_some(Ahead { sector: first + sectors, passed });
        service
    }

    fn is_buffered(&self, ahead: Ahead, transfer: &Transfer, first: u64) -> bool {
        !transfer.traffic.is_write && ahead.sector == first && transfer.bytes <= self.model.read_ahead_bytes
    }

    /// Returns the time of a read from the drive's buffer. Bytes read ahead go over the bus while
    /// the rest passes the head.
    fn read_buffered(&self, start: Nanos, ahead: Ahead, sectors: u64) -> Service {
        let overhead = self.model.overhead.as_nanos() as Nanos;
        let bus = sectors * SECTOR_BYTES * 1_000_000_000 / self.model.bus_bytes_per_second;
        let there = ahead.passed + self.pass_from(ahead.sector, sectors);
        let transfer = bus.max(there.saturating_sub(start + overhead));
        Service { overhead, transfer, ..Service::default() }
    }

    fn reach(&self, start: Nanos, first: u64, sectors: u64) -> Service {
        let overhead = self.model.overhead.as_nanos() as Nanos;
        let seek = self.model.seek(self.cylinder.abs_diff(self.cylinder_of(first)));
        let turn = self.model.turn();
        let there = (start + overhead + seek) % turn;
        let rotation = (self.angle(first) + turn - there) % turn;
        debug_assert!(rotation < turn, "a disk waits for less than a turn");
        Service { overhead, seek, rotation, transfer: self.pass_from(first, sectors) }
    }

    /// Returns the time in a turn at which a sector begins, in nanoseconds.
    fn angle(&self, sector: u64) -> Nanos {
        let per_track = u64::from(self.model.sectors_per_track);
        let track = sector / per_track;
        let cylinder = u64::from(self.cylinder_of(sector));
        let skew = track * self.model.track_skew() + cylinder * self.model.cylinder_skew();
        self.model.pass((sector + skew) % per_track)
    }

    /// Returns the time in which consecutive sectors pass, with switches of heads and cylinders.
    fn pass_from(&self, first: u64, sectors: u64) -> Nanos {
        let per_track = u64::from(self.model.sectors_per_track);
        let last = first + sectors - 1;
        let switches = last / per_track - first / per_track;
        let steps = u64::from(self.cylinder_of(last) - self.cylinder_of(first));
        self.model.pass(sectors + switches * self.model.track_skew() + steps * self.model.cylinder_skew())
    }

    fn cylinder_of(&self, sector: u64) -> u32 {
        (sector / self.model.sectors_per_cylinder()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{BlockKind, Traffic};
    use std::time::Duration;

    /// Returns an arm with 100 sectors a track and a turn of 10 ms. A sector passes in 0.1 ms; no
    /// overhead.
    fn arm() -> Arm {
        let model = DiskModel {
            cylinders: 1000,
            heads: 10,
            sectors_per_track: 100,
            rpm: 6000,
            seek_one: Duration::from_millis(1),
            head_switch: Duration::from_millis(1),
            overhead: Duration::ZERO,
            ..DiskModel::rz29()
        };
        Arm::new(model)
    }

    fn transfer(is_write: bool, fragment: u32, bytes: u32) -> Transfer {
        Transfer { traffic: Traffic { is_write, is_mapped: false, kind: BlockKind::Data }, fragment, bytes }
    }

    const MS: Nanos = 1_000_000;

    #[test]
    fn a_transfer_waits_for_its_sector() {
        // Sector 20 comes by 2 ms into the turn and 16 sectors take 1.6 ms.
        let service = arm().serve(0, &transfer(true, 10, 8192));
        assert_eq!(service, Service { overhead: 0, seek: 0, rotation: 2 * MS, transfer: 16 * MS / 10 });
        // Half a turn later it has gone by.
        let service = arm().serve(5 * MS, &transfer(true, 10, 8192));
        assert_eq!(service.rotation, 7 * MS);
    }

    #[test]
    fn the_next_track_begins_a_head_switch_later() {
        // Sectors 84 to 115 cross to the second track: 32 sectors and a skew of 10.
        assert_eq!(arm().serve(0, &transfer(true, 42, 16384)).transfer, 42 * MS / 10);
        // The second track's first sector stands at angle 10.
        assert_eq!(arm().serve(0, &transfer(true, 50, 1024)).rotation, MS);
    }

    #[test]
    fn only_sequential_writes_wait_for_a_turn() {
        for (is_write, rotation, total) in [(false, 0, 1_600_000 - 100_000), (true, 99 * MS / 10, 11_500_000)]
        {
            let mut arm = arm();
            let first = arm.serve(0, &transfer(is_write, 0, 8192));
            assert_eq!(first.total(), 16 * MS / 10);
            // A tenth of a millisecond after the end of the first.
            let second = arm.serve(17 * MS / 10, &transfer(is_write, 8, 8192));
            assert_eq!((second.seek, second.rotation, second.total()), (0, rotation, total));
        }
    }

    #[test]
    fn another_cylinder_costs_a_seek() {
        let mut arm = arm();
        // Sector 1000 is the first of the second cylinder: angle 10 tracks of 10 sectors skew, a
        // whole turn.
        let service = arm.serve(0, &transfer(false, 500, 1024));
        assert_eq!((service.seek, service.rotation), (MS, 9 * MS));
        assert_eq!(arm.cylinder, 1);
    }
}
