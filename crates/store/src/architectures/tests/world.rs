//! Files and index in RAM that outlive the store, and helpers for tests.

use super::super::files::FileStore;
use super::super::maintenance::{BackgroundWork, StepResult};
use super::super::opening::build;
use super::super::{ArchitectureOptions, Design, SegmentSettings, StoreEnv};
use super::super::{segments, signature};
use crate::StoreView;
use crate::fs::{FileSystem, MemoryFs};
use crate::index::{MemoryHome, NumberState};
use crate::{Error, Store};
use shoal_core::{ObjectKey, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// Remains of a store that has ended.
#[derive(Clone)]
pub(in crate::architectures) struct World {
    /// Row of the table of architectures.
    pub(in crate::architectures) architecture: &'static str,
    pub(in crate::architectures) files: Arc<MemoryFs>,
    pub(in crate::architectures) home: MemoryHome,
    pub(in crate::architectures) settings: ArchitectureOptions,
    pub(in crate::architectures) boot: u64,
}

impl World {
    /// Makes a disk of `disk_bytes` bytes, all for the store.
    pub(in crate::architectures) fn new(architecture: &str, disk_bytes: u64, max_objects: u64) -> Self {
        let architecture =
            super::super::opening::architecture(architecture).expect("a row of the table").name;
        let settings = ArchitectureOptions {
            disk_bytes,
            max_objects,
            segments: SegmentSettings { bytes: 1 << 20, ..SegmentSettings::default() },
            now: Timestamp::from_seconds(1_000_000),
            ..ArchitectureOptions::default()
        };
        let files = Arc::new(MemoryFs::new(1 << 40));
        Self { architecture, files, home: MemoryHome::default(), settings, boot: 7 }
    }

    pub(in crate::architectures) fn open(&self) -> FileStore {
        self.open_through(self.files.clone())
    }

    /// Opens the files through another file system, without the background thread.
    pub(in crate::architectures) fn open_through(&self, files: Arc<dyn FileSystem>) -> FileStore {
        self.try_open_through(files).expect("the store opens")
    }

    pub(in crate::architectures) fn try_open_through(
        &self,
        files: Arc<dyn FileSystem>,
    ) -> Result<FileStore, Error> {
        let parts = StoreEnv {
            files,
            index: Box::new(self.home.clone()),
            boot: self.boot,
            lock: None,
            transient: None,
            background: true,
        };
        let row = super::super::opening::architecture(self.architecture)?;
        let Design::Indexed(design) = &row.design else { panic!("{} has no index", row.name) };
        let core = build(row.name, design, &self.settings, parts)?;
        Ok(FileStore { core, maintenance: None })
    }

    /// Returns the remains after a kill.
    pub(in crate::architectures) fn after_kill(&self) -> Self {
        let home = MemoryHome::with(self.home.words().map(|words| words.after_kill()));
        Self { home, ..self.clone() }
    }

    /// Returns the remains after a power loss, as the seed decides.
    pub(in crate::architectures) fn after_power_loss(&self, seed: u64) -> Self {
        let mut random = Random(seed);
        let files = Arc::new(self.files.after_power_loss(|limit| random.below(limit)));
        let words = self.home.words().map(|words| words.after_power_loss(|limit| random.below(limit)));
        let home = MemoryHome::with(words);
        let now = self.settings.now.plus(Duration::from_secs(60));
        let settings = ArchitectureOptions { now, ..self.settings };
        Self { architecture: self.architecture, files, home, boot: self.boot + 1, settings }
    }

    /// Returns the bytes that the store's files may take: those for objects, the mapped file, and
    /// the block of its signature.
    pub(in crate::architectures) fn file_bytes(store: &FileStore) -> u64 {
        let limits = store.core.limits;
        limits.disk_bytes - limits.fixed_bytes + limits.segment_bytes + 4096
    }

    /// Returns the files that hold one object each.
    pub(in crate::architectures) fn object_files(&self) -> Vec<String> {
        self.files
            .files()
            .into_iter()
            .filter(|path| ![signature::PATH, segments::PATH].contains(&path.as_str()))
            .collect()
    }
}

/// Returns the number of objects on disk, in files and in segments. Files that wait to be
/// overwritten do not count.
pub(in crate::architectures) fn objects_on_disk(world: &World, store: &FileStore) -> usize {
    let released = store.core.released.as_ref().map_or(0, |released| released.len());
    let numbers = 0..store.core.index.geometry().max_objects;
    let is_small = |number: &u32| {
        let seen = store.core.index.examine(*number);
        matches!(seen, NumberState::Stored(found, _) if store.core.place_of_side(found.side).is_some())
    };
    world.object_files().len() - released + numbers.filter(is_small).count()
}

/// Does all due background work, which must end.
pub(in crate::architectures) fn maintain(core: &Arc<impl BackgroundWork>) {
    for _ in 0..10_000 {
        if matches!(core.maintain(), StepResult::Idle) {
            return;
        }
    }
    panic!("background work does not end");
}

/// splitmix64.
pub(in crate::architectures) struct Random(pub(in crate::architectures) u64);

impl Random {
    pub(in crate::architectures) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }
}

/// Returns a key at one of a few hosts.
pub(in crate::architectures) fn key(n: u64) -> ObjectKey {
    ObjectKey::new(format!("http://host{}.example/{n}", n % 5).into_bytes())
}

/// Returns bytes that identify an object's number, version and place.
pub(in crate::architectures) fn body_of(n: u64, version: u64, length: usize) -> Vec<u8> {
    let mut random = Random(n << 32 | version);
    // A page that no other object has, with each copy numbered.
    let mut page = Vec::with_capacity(4096);
    while page.len() < 4096 {
        page.extend_from_slice(&random.below(u64::MAX).to_le_bytes());
    }
    let mut body = Vec::with_capacity(length + page.len());
    for copy in 0..length.div_ceil(page.len()) as u64 {
        page[..8].copy_from_slice(&copy.to_le_bytes());
        body.extend_from_slice(&page);
    }
    body.truncate(length);
    body
}

/// Returns metadata that identifies number, version and length.
pub(in crate::architectures) fn metadata_of(n: u64, version: u64, length: usize) -> Vec<u8> {
    format!("object {n} version {version} length {length}").into_bytes()
}

/// Inserts a version of an object.
pub(in crate::architectures) fn put(
    store: &dyn Store,
    n: u64,
    version: u64,
    length: usize,
) -> Result<(), Error> {
    let mut insert = store.insert(&key(n), &metadata_of(n, version, length), None)?;
    for part in body_of(n, version, length).chunks(50_000) {
        insert.append(part)?;
    }
    insert.commit(None)
}

/// Returns metadata and body of a stored object. `None` is a miss of any kind.
pub(in crate::architectures) fn fetch(store: &dyn Store, n: u64) -> Option<(Vec<u8>, Vec<u8>)> {
    let stored = store.open(&key(n)).ok()??;
    let body = stored.body.read(0, usize::MAX).ok()?;
    assert_eq!(body.len() as u64, stored.body.length());
    Some((stored.metadata.to_vec(), body.to_vec()))
}

/// Returns `true` if the store serves exactly this version.
pub(in crate::architectures) fn matches(store: &dyn Store, n: u64, version: u64, length: usize) -> bool {
    fetch(store, n) == Some((metadata_of(n, version, length), body_of(n, version, length)))
}

/// Checks that the charge equals the size of the files, to the block, and that each file is an
/// object.
pub(in crate::architectures) fn check_books(world: &World, store: &FileStore) {
    let lengths = world.object_files().into_iter().map(|path| world.files.length(&path).unwrap());
    let blocks: u64 = lengths.map(|length| store.core.blocks(length)).sum();
    assert_eq!(store.core.index.totals().blocks, blocks);
    assert_eq!(store.usage().objects, objects_on_disk(world, store) as u64);
}
