//! Disks with the replacement of each cache architecture, without their I/O: the objects that a
//! disk of some size would still have.
//!
//! A `volume` is a log with a cursor ([`super::log_tier`]). Files (`squid` and its kin) take whole
//! blocks, and a hand goes over them (`clock`). Where small objects stand in a mapped file, they
//! have a quarter of the disk and replace each other there by FBC ([`MappedCache`]). Objects
//! without a place there are files. Index and folders take their part first.

use super::footprint::Footprint;
use super::log_tier::{LARGEST_SHARE, Log};
use crate::curve::DiskTier;
use crate::simulator::{Capacity, MappedCache, MappedPolicy, Request, Simulator};
use shoal_policy::{Appender, Packer, Replacement, ReplacementPolicy, SegmentLayout};

/// Creates a disk of `disk_bytes` bytes under an architecture, for objects of this mean body size.
/// `rate` is the simulated share of the objects: the room for objects shrinks by this factor. Index
/// and folders do not shrink.
pub(super) fn disk(
    architecture: &str,
    (disk_bytes, rate): (u64, f64),
    mean_bytes: u64,
    footprint: Footprint,
) -> Box<dyn DiskTier> {
    let scaled = |bytes: u64| (bytes as f64 * rate) as u64;
    let room = disk_bytes.saturating_sub(fixed(architecture, disk_bytes, mean_bytes, footprint));
    let placement: Box<dyn SegmentLayout> = match architecture {
        VOLUME => return Box::new(Log::new(room, rate, footprint)),
        "squidm" | "squidml" => Box::new(Appender::default()),
        "squidmla" => Box::new(Packer::default()),
        _ => return Box::new(Files::new(scaled(room), footprint)),
    };
    let mapped_bytes = room.min(disk_bytes / MAPPED_SHARE);
    let policy = MappedPolicy::Fbc { c_max: 3, a_max: 100 };
    Box::new(SegmentedDisk {
        small: MappedCache::placed_by(placement, policy, scaled(mapped_bytes)),
        files: Files::new(scaled(room - mapped_bytes), footprint),
    })
}

/// Returns the approximate number of objects of this mean size on a disk of `disk_bytes` bytes.
pub(super) fn objects(architecture: &str, disk_bytes: u64, mean_bytes: u64, footprint: Footprint) -> u64 {
    let each = match architecture {
        VOLUME => footprint.volume(mean_bytes),
        _ => blocks(footprint.file(mean_bytes)),
    };
    disk_bytes / (each + index_bytes(architecture))
}

/// Returns the largest body that a disk of `disk_bytes` bytes takes.
pub(super) fn largest(architecture: &str, disk_bytes: u64, footprint: Footprint) -> u64 {
    let room = if architecture == VOLUME { disk_bytes / LARGEST_SHARE } else { disk_bytes };
    room.min(footprint.object_max)
}

/// Returns the bytes of the index for each object (docs/FORMATS.md).
pub(super) fn index_bytes(architecture: &str) -> u64 {
    // Volume: an entry in a table that is three quarters full. Others: an entry, its bucket and its
    // side word.
    if architecture == VOLUME { 11 } else { 44 }
}

/// Returns the bytes that index and folders take.
fn fixed(architecture: &str, disk_bytes: u64, mean_bytes: u64, footprint: Footprint) -> u64 {
    let objects = objects(architecture, disk_bytes, mean_bytes, footprint) * OBJECTS_ROOM / 100;
    let blocks = match architecture {
        VOLUME => VOLUME_BLOCKS,
        _ => 2 + objects / FILES_PER_FOLDER + OTHER_FILES,
    };
    objects * index_bytes(architecture) + blocks * BLOCK_BYTES
}

/// Objects as files.
struct Files {
    held: Simulator<Box<dyn Replacement<u64>>>,
    footprint: Footprint,
}

impl Files {
    fn new(bytes: u64, footprint: Footprint) -> Self {
        let clock = ReplacementPolicy::<u64>::named("clock").expect("it is in the table: a test asks for it");
        Self { held: Simulator::new((clock.construct)(), Capacity::Bytes(bytes)), footprint }
    }
}

impl DiskTier for Files {
    fn request(&mut self, object: u64, body_bytes: u64) -> bool {
        // An object larger than `object_max` weighs more than any room.
        let weight = match body_bytes <= self.footprint.object_max {
            true => blocks(self.footprint.file(body_bytes)),
            false => u64::MAX,
        };
        self.held.request_weighing(Request { object, bytes: body_bytes }, weight)
    }

    fn written(&self) -> u64 {
        self.held.counts().taken()
    }

    fn is_full(&self) -> bool {
        self.held.counts().evictions > 0
    }
}

/// Small objects in a mapped file, the others as files.
struct SegmentedDisk {
    small: MappedCache,
    files: Files,
}

impl DiskTier for SegmentedDisk {
    fn request(&mut self, object: u64, body_bytes: u64) -> bool {
        let record = self.files.footprint.file(body_bytes);
        if record > SEGMENT_MAX || body_bytes > self.files.footprint.object_max {
            return self.files.request(object, body_bytes);
        }
        // An object without a segment is a file.
        self.small.request(Request { object, bytes: record })
            || (!self.small.holds(object) && self.files.request(object, body_bytes))
    }

    fn written(&self) -> u64 {
        self.small.counts().taken() + self.files.written()
    }

    fn is_full(&self) -> bool {
        self.files.is_full()
    }
}

/// Returns the number of whole blocks, with those that list a long file's blocks.
fn blocks(bytes: u64) -> u64 {
    let data = bytes.div_ceil(BLOCK_BYTES).max(1);
    let all = (data + if data > 12 { 1 + data / 1024 } else { 0 }) * BLOCK_BYTES;
    debug_assert!(all >= bytes, "{bytes} bytes in {all}");
    all
}

/// The store's default architecture.
pub(super) const VOLUME: &str = "volume";
/// Percentage of the expected number of objects that `max_objects` is set to; it leaves room above
/// the mean size's estimate.
pub(super) const OBJECTS_ROOM: u64 = 150;
const BLOCK_BYTES: u64 = 4096;
const SEGMENT_MAX: u64 = 8192;
/// The default of `store.segments`.
const MAPPED_SHARE: u64 = 4;
const FILES_PER_FOLDER: u64 = 256;
/// The index's journal, the lock, the table of purges, upper folders.
const OTHER_FILES: u64 = 64;
/// A volume's superblock, the other blocks before its stripes, and the table of purges.
const VOLUME_BLOCKS: u64 = 34;

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_store::architectures::ARCHITECTURES;

    #[test]
    fn every_architecture_holds_only_objects_that_fit() {
        for architecture in ARCHITECTURES {
            let footprint = Footprint::default();
            let mut disk = disk(architecture.name, (20 << 20, 1.0), 4000, footprint);
            // An eighth of the disk, in segments of 8 KB or two blocks.
            (0..300).for_each(|object| {
                disk.request(object, 4000);
            });
            assert!((0..300).all(|object| disk.request(object, 4000)), "{}", architecture.name);
            // Twice each, for architectures that admit an object at its second request.
            (0..30_000).for_each(|object| {
                disk.request(object / 2, 4000);
            });
            // Backwards, so that the newest objects are looked for first.
            let held = (0..15_000).rev().filter(|object| disk.request(*object, 4000)).count() as u64;
            let most = (20 << 20) / footprint.volume(4000).min(footprint.file(4000));
            assert!((500..=most).contains(&held), "{}: {held} of {most}", architecture.name);
        }
    }

    #[test]
    fn sample_has_its_share_of_the_objects_room() {
        let held = |rate: f64| {
            let mut disk = disk(VOLUME, (8 << 20, rate), 4000, Footprint::default());
            let asked = (20_000.0 * rate) as u64;
            (0..asked).for_each(|object| {
                disk.request(object, 4000);
            });
            (0..asked).filter(|object| disk.request(*object, 4000)).count() as f64 / rate
        };
        let (all, sampled) = (held(1.0), held(0.05));
        assert!((sampled / all - 1.0).abs() < 0.02, "{sampled} {all}");
    }

    #[test]
    fn large_objects_are_files_or_declined() {
        let mut disk = disk("squidmla", (20 << 20, 1.0), 4000, Footprint::default());
        assert!(!disk.request(1, 1 << 20) && disk.request(1, 1 << 20));
        assert!(!disk.request(2, 1 << 30) && !disk.request(2, 1 << 30));
        assert_eq!(disk.written(), 1);
        let limited = Footprint { object_max: 1000, ..Footprint::default() };
        for architecture in ARCHITECTURES {
            let mut disk = super::disk(architecture.name, (20 << 20, 1.0), 4000, limited);
            assert!(!disk.request(1, 1001) && !disk.request(1, 1001), "{}", architecture.name);
            assert!(!disk.request(2, 1000) && disk.request(2, 1000), "{}", architecture.name);
        }
        assert_eq!((blocks(1), blocks(4097), blocks(13 * 4096)), (4096, 8192, 14 * 4096));
    }
}
