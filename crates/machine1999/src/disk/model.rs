//! Published figures of a drive, and times computed from them.

use super::Nanos;
use std::time::Duration;

/// Drive. Sectors have 512 bytes. All tracks have the mean number of sectors: zones are not
/// modelled.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskModel {
    /// Name of the drive.
    pub name: &'static str,
    /// Positions of the arm.
    pub cylinders: u32,
    /// Tracks at each position.
    pub heads: u32,
    /// Sectors of a track.
    pub sectors_per_track: u32,
    /// Turns a minute.
    pub rpm: u32,
    /// Seek to the next cylinder.
    pub seek_one: Duration,
    /// Seek over a third of the cylinders, the mean distance of random positions.
    pub seek_average: Duration,
    /// Seek over all cylinders.
    pub seek_full: Duration,
    /// Time to switch from one head to another of the same cylinder.
    pub head_switch: Duration,
    /// The controller's time for a command.
    pub overhead: Duration,
    /// Speed of the bus, in bytes a second.
    pub bus_bytes_per_second: u64,
    /// Bytes that the drive reads on after a read.
    pub read_ahead_bytes: u32,
}

impl DiskModel {
    /// Returns Digital's RZ28: 2.1 GB at 5400 turns a minute.
    pub fn rz28() -> Self {
        Self {
            name: "RZ28",
            cylinders: 2595,
            heads: 16,
            sectors_per_track: 99,
            rpm: 5400,
            seek_one: Duration::from_micros(1200),
            seek_average: Duration::from_micros(9500),
            seek_full: Duration::from_micros(19_000),
            ..Self::rz29()
        }
    }

    /// Returns Digital's RZ29: 4.3 GB at 7200 turns a minute.
    pub fn rz29() -> Self {
        Self {
            name: "RZ29",
            cylinders: 3708,
            heads: 20,
            sectors_per_track: 113,
            rpm: 7200,
            seek_one: Duration::from_micros(1000),
            seek_average: Duration::from_micros(9000),
            seek_full: Duration::from_micros(18_000),
            head_switch: Duration::from_micros(900),
            overhead: Duration::from_micros(500),
            bus_bytes_per_second: 10_000_000,
            read_ahead_bytes: 128 << 10,
        }
    }

    /// Returns Digital's RZ27: 1.6 GB at 5400 turns a minute.
    pub fn rz27() -> Self {
        Self { name: "RZ27", cylinders: 2082, sectors_per_track: 94, ..Self::rz28() }
    }

    /// Returns the bytes of the whole disk.
    pub fn bytes(&self) -> u64 {
        u64::from(self.cylinders) * self.sectors_per_cylinder() * SECTOR_BYTES
    }

    pub(super) fn sectors_per_cylinder(&self) -> u64 {
        u64::from(self.heads) * u64::from(self.sectors_per_track)
    }

    /// Returns the time of one turn.
    pub(super) fn turn(&self) -> Nanos {
        60_000_000_000 / u64::from(self.rpm)
    }

    /// Returns the time in which `sectors` sectors pass the head.
    pub(super) fn pass(&self, sectors: u64) -> Nanos {
        sectors * self.turn() / u64::from(self.sectors_per_track)
    }

    /// Returns the time of a seek over `distance` cylinders, through the three published points:
    /// with the square root up to a third of the stroke, and linear beyond.
    pub(super) fn seek(&self, distance: u32) -> Nanos {
        let [one, average, full] =
            [self.seek_one, self.seek_average, self.seek_full].map(|t| t.as_nanos() as f64);
        debug_assert!(distance < self.cylinders, "cylinder {distance} of {}", self.cylinders);
        let (distance, all) = (f64::from(distance), f64::from(self.cylinders - 1).max(4.0));
        let third = all / 3.0;
        let time = if distance < 1.0 {
            0.0
        } else if distance < third {
            one + (average - one) * (distance.sqrt() - 1.0) / (third.sqrt() - 1.0)
        } else {
            average + (full - average) * (distance - third) / (all - third)
        };
        debug_assert!((0.0..=full).contains(&time), "a seek of {time} ns");
        time as Nanos
    }

    /// Returns the sectors by which a track begins later than the one before, so that the head
    /// switch fits.
    pub(super) fn track_skew(&self) -> u64 {
        self.sectors_in(self.head_switch)
    }

    /// Returns the additional sectors by which the first track of a cylinder begins later.
    pub(super) fn cylinder_skew(&self) -> u64 {
        self.sectors_in(self.seek_one).saturating_sub(self.track_skew())
    }

    fn sectors_in(&self, time: Duration) -> u64 {
        (time.as_nanos() as u64 * u64::from(self.sectors_per_track)).div_ceil(self.turn())
    }
}

pub(super) const SECTOR_BYTES: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_the_published_ones() {
        assert_eq!(DiskModel::rz28().bytes(), 4_110_480 * 512);
        assert_eq!(DiskModel::rz29().bytes(), 8_380_080 * 512);
        assert_eq!(DiskModel::rz27().bytes(), 3_131_328 * 512);
    }

    #[test]
    fn seeks_go_through_the_published_points() {
        let disk = DiskModel { cylinders: 3001, ..DiskModel::rz29() };
        for (distance, micros) in [(0, 0), (1, 1000), (1000, 9000), (2000, 13_500), (3000, 18_000)] {
            assert_eq!((disk.seek(distance) + 500) / 1000, micros, "{distance} cylinders");
        }
        // 1000 + 8000 (√100 − 1) / (√1000 − 1), worked by hand: 1000 + 8000 · 9 / 30.6228 = 3351.
        assert_eq!((disk.seek(100) + 500) / 1000, 3351);
    }

    #[test]
    fn a_turn_and_its_parts() {
        let disk = DiskModel { sectors_per_track: 120, rpm: 7200, ..DiskModel::rz29() };
        assert_eq!(disk.turn(), 8_333_333);
        assert_eq!(disk.pass(60), 4_166_666);
        // 0.9 ms of 8.333 are 12.96 sectors, 1 ms 14.4.
        assert_eq!((disk.track_skew(), disk.cylinder_skew()), (13, 2));
    }
}
