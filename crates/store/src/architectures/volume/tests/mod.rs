//! Promises of the volume, tested on files in RAM, on faulty ones and on the real file system.

mod at_once;
mod budget;
mod changed;
mod chaos;
mod crash;
mod damage;
mod disks;
mod durability;
mod failures;
mod following;
mod foreign;
mod groups;
mod inspect;
mod laps;
mod pins;
mod races;
mod resizing;
mod scripted;
mod use_cases;

use super::opening::{DATA, INDEX};
use super::{Volume, VolumeSettings, VolumeStore};
use crate::architectures::{ArchitectureOptions, StoreEnv};
use crate::fs::{FileSystem, MemoryFs};
use crate::index::MemoryHome;
use crate::{Error, Store};
use shoal_core::{ObjectKey, Timestamp};
use shoal_policy::Admission;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Remains of a store that has ended.
pub(super) struct World {
    files: Arc<MemoryFs>,
    /// Survives until a power loss.
    transient: Arc<MemoryFs>,
    settings: ArchitectureOptions,
}

impl World {
    pub(super) fn new(disk_bytes: u64) -> Self {
        let volume = VolumeSettings {
            stripe_bytes: 256 << 10,
            admission: Admission::Always,
            window_bytes: 1 << 20,
            ..VolumeSettings::default()
        };
        let settings = ArchitectureOptions {
            disk_bytes,
            max_objects: 2000,
            volume,
            now: Timestamp::from_seconds(1_000_000),
            ..ArchitectureOptions::default()
        };
        Self {
            files: Arc::new(MemoryFs::new(1 << 40)),
            transient: Arc::new(MemoryFs::new(1 << 40)),
            settings,
        }
    }

    /// Opens the store without the background thread; the log's end has been found.
    pub(super) fn open(&self) -> VolumeStore {
        self.try_open(self.files.clone()).expect("the volume opens")
    }

    fn try_open(&self, files: Arc<dyn FileSystem>) -> Result<VolumeStore, Error> {
        let store = self.try_open_unrecovered(files)?;
        while !store.volume.directory.is_recovered.load(Relaxed) {
            store.volume.recover_step(16);
        }
        Ok(store)
    }

    fn try_open_unrecovered(&self, files: Arc<dyn FileSystem>) -> Result<VolumeStore, Error> {
        let index = Box::new(MemoryHome::default());
        let transient = Some(self.transient.clone() as Arc<dyn FileSystem>);
        let parts = StoreEnv { files, index, boot: 7, lock: None, transient, background: true };
        let volume = Arc::new(Volume::open_unrecovered("volume", &self.settings, parts)?);
        Ok(VolumeStore { _maintenance: Vec::new(), volume })
    }

    /// Returns a world of the same files.
    fn same(&self) -> Self {
        let (files, transient) = (self.files.clone(), self.transient.clone());
        Self { files, transient, settings: self.settings }
    }

    /// Returns the remains after a power loss, as the seed decides.
    fn after_power_loss(&self, seed: u64) -> Self {
        let mut random = Random(seed);
        let files = Arc::new(self.files.after_power_loss(|limit| random.below(limit)));
        Self { files, transient: Arc::new(MemoryFs::new(1 << 40)), settings: self.settings }
    }
}

impl VolumeStore {
    /// Brings all waiting records to disk.
    pub(super) fn write_all(&self) {
        self.volume.flush_and_sync().expect("a disk in RAM takes all");
    }

    /// Writes the index without marking it complete.
    fn write_index(&self) {
        let volume = &self.volume;
        let header = volume.directory.header(&volume.writer.lock(), false);
        volume
            .directory
            .write_index_as(&mut volume.directory.checkpoint.lock(), header)
            .expect("a disk in RAM takes all");
    }
}

pub(super) fn key(number: u32) -> ObjectKey {
    ObjectKey::new(format!("GET http://host-{}.example/{number}", number % 7).into_bytes())
}

/// Returns bytes that only the object and its version determine.
fn body_of(number: u32, version: u32, length: usize) -> Vec<u8> {
    let seed = u64::from(number) << 32 | u64::from(version);
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995);
    let mut body = Vec::with_capacity(length + 8);
    while body.len() < length {
        body.extend_from_slice(&random.next().to_le_bytes());
    }
    body.truncate(length);
    body
}

/// Returns metadata with version and length.
fn metadata_of(version: u32, length: usize) -> Vec<u8> {
    format!("version {version} length {length}").into_bytes()
}

pub(super) fn put(store: &dyn Store, number: u32, version: u32, length: usize) -> Result<(), Error> {
    let body = body_of(number, version, length);
    let mut insert = store.insert(&key(number), &metadata_of(version, length), Some(length as u64))?;
    for part in body.chunks(10_000) {
        insert.append(part)?;
    }
    insert.commit(None)
}

/// Returns the stored version, which must be whole. `None` is a miss.
fn version_of(store: &dyn Store, number: u32) -> Option<u32> {
    let stored = store.open(&key(number)).ok()??;
    let text = String::from_utf8(stored.metadata.to_vec()).expect("metadata as it was written");
    let mut words = text.split(' ').filter_map(|word| word.parse::<usize>().ok());
    let (version, length) = (words.next().expect("a version") as u32, words.next().expect("a length"));
    assert_eq!(stored.body.length(), length as u64, "object {number}");
    let mut found = Vec::new();
    while found.len() < length {
        let read = match stored.body.read(found.len() as u64, 50_000) {
            // The disk has stopped meanwhile.
            Err(Error::Disk { .. }) => return None,
            read => read.expect("a body that was found can be read"),
        };
        assert!(!read.is_empty(), "object {number} is cut off");
        found.extend_from_slice(&read);
    }
    assert!(found == body_of(number, version, length), "object {number} has another's bytes");
    Some(version)
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// Returns mostly a few kilobytes, sometimes more than a piece.
    fn length(&mut self) -> usize {
        match self.below(12) {
            0 => self.below(200_000) as usize,
            1 => 0,
            2..6 => self.below(600) as usize,
            _ => self.below(12_000) as usize,
        }
    }
}
