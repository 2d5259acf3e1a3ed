//! The store over a disk on which anything may have changed: wrong bytes are misses, never answers.

use shoal_core::{ObjectKey, Timestamp};
use shoal_store::architectures::{ArchitectureOptions, StoreEnv, open_store};
use shoal_store::fs::MemoryFs;
use shoal_store::index::{MemoryHome, Words};
use shoal_store::{Error, Store};
use std::sync::Arc;

/// Object files with bytes changed, cut off, or exchanged: each object is served as it was, or not
/// at all.
pub fn store_object(data: &[u8]) {
    let Some((first, changes)) = data.split_first() else { return };
    let disk = Disk::filled(architecture(*first));
    let paths = disk.files.files();
    for change in changes.chunks_exact(4).take(64) {
        let path = &paths[usize::from(change[0] >> 2) % paths.len()];
        let at = usize::from(u16::from_le_bytes([change[1], change[2]]));
        let other = content(&disk.files, &paths[usize::from(change[3]) % paths.len()]);
        disk.files.tamper(path, |bytes| match change[0] & 3 {
            0 => bytes.truncate(at),
            1 => *bytes = other,
            flip => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = if flip == 2 { *byte ^ change[3] } else { change[3] };
                }
            }
        });
    }
    disk.check(BOOT);
}

/// An index with words changed, by a run of the machine that knows of no harm or in a later one:
/// the store opens or says why not, serves what was stored or nothing, takes new objects while it
/// has numbers, and comes to an end.
pub fn store_index(data: &[u8]) {
    let Some((first, changes)) = data.split_first() else { return };
    let disk = Disk::filled(architecture(*first >> 1));
    let words = disk.home.words().expect("an index was made");
    for change in changes.chunks_exact(11).take(64) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % words.count();
        let value = u64::from_le_bytes(change[3..11].try_into().expect("eight of eleven bytes"));
        let value = match change[2] % 3 {
            0 => value,
            1 => words.load(at) ^ value,
            _ => words.load(value as usize % words.count()),
        };
        words.store(at, value);
    }
    disk.check(BOOT + u64::from(first & 1));
}

/// A volume or its index with bytes changed, runs of them wiped, or cut off, in a closed store: it
/// opens or says why not, and serves what was stored or nothing.
pub fn store_volume(data: &[u8]) {
    let disk = Disk::filled("volume");
    let paths = ["volume", "volume.index"];
    for change in data.chunks_exact(6).take(64) {
        let path = paths[usize::from(change[0] & 1)];
        let at = u32::from_le_bytes([change[1], change[2], change[3], 0]) as usize;
        disk.files.tamper(path, |bytes| {
            let at = at % bytes.len().max(1);
            let end = bytes.len().min(at + 16 * usize::from(change[4]));
            match change[0] >> 1 & 7 {
                0 => bytes.truncate(at),
                1 => bytes[at..end].fill(change[5]),
                // Near the beginning, where the geometry, the header and the first records are.
                flip => {
                    let at =
                        if flip < 5 { at % 4096 + DATA_AT * usize::from(change[0] >> 4 & 1) } else { at };
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= change[5];
                    }
                }
            }
        });
    }
    disk.check(BOOT);
}

/// With every object in a file of its own, or the small ones in one mapped file.
fn architecture(byte: u8) -> &'static str {
    ["squid", "squidmla"][usize::from(byte & 1)]
}

/// What a store leaves.
struct Disk {
    architecture: &'static str,
    files: Arc<MemoryFs>,
    home: MemoryHome,
}

impl Disk {
    /// With [`OBJECTS`] objects stored and the store closed in order.
    fn filled(architecture: &'static str) -> Self {
        let disk =
            Self { architecture, files: Arc::new(MemoryFs::new(1 << 30)), home: MemoryHome::default() };
        let store = disk.open(BOOT).expect("a new store opens");
        for number in 0..OBJECTS {
            put(&*store, number).expect("there is room");
        }
        store.close().expect("a disk in RAM takes all");
        drop(store);
        disk
    }

    fn open(&self, boot: u64) -> Result<Arc<dyn Store>, Error> {
        let settings = ArchitectureOptions {
            disk_bytes: 8 << 20,
            max_objects: MAX_OBJECTS,
            object_max_bytes: 1 << 20,
            now: Timestamp::from_seconds(1_767_312_000),
            ..ArchitectureOptions::default()
        };
        let parts = StoreEnv {
            files: self.files.clone(),
            index: Box::new(self.home.clone()),
            boot,
            lock: None,
            transient: None,
            background: self.architecture != "volume",
        };
        open_store(self.architecture, &settings, parts)
    }

    /// Opens the store in this run of the machine and asks it for everything that was ever put
    /// there.
    fn check(&self, boot: u64) {
        let Ok(store) = self.open(boot) else { return };
        for number in 0..OBJECTS {
            check_object(&*store, number);
        }
        for number in OBJECTS..OBJECTS + 40 {
            let _ = put(&*store, number);
            check_object(&*store, number);
            // Object files stand in folders; beside those there are files of the store's own.
            let objects = self.files.files().iter().filter(|path| path.contains('/')).count();
            assert!(objects <= MAX_OBJECTS as usize, "more files than numbers");
        }
        let _ = store.remove(&key(0));
        let _ = store.update_metadata(&key(1), &metadata(1), &|_| true);
        let _ = store.close();
    }
}

/// What the store has under a key is what was put there.
fn check_object(store: &dyn Store, number: u32) {
    let Ok(Some(stored)) = store.open(&key(number)) else { return };
    assert_eq!(stored.metadata, metadata(number), "metadata of object {number}");
    let expected = body(number);
    if let Ok(read) = stored.body.read(0, usize::MAX) {
        assert!(expected.starts_with(&read) && !read.is_empty(), "body of object {number}");
        assert_eq!(stored.body.length(), expected.len() as u64, "length of object {number}");
    }
}

fn put(store: &dyn Store, number: u32) -> Result<(), Error> {
    let mut insert = store.insert(&key(number), &metadata(number), None)?;
    insert.append(&body(number))?;
    insert.commit(None)
}

fn key(number: u32) -> ObjectKey {
    ObjectKey::new(format!("GET http://example.org/{number}").into_bytes())
}

fn metadata(number: u32) -> Vec<u8> {
    format!("metadata of object {number}").into_bytes()
}

/// One of the bodies is longer than what is read at once.
fn body(number: u32) -> Vec<u8> {
    let length = if number == 3 { 100_000 } else { 100 + number as usize * 37 };
    (0..length).map(|at| (at as u32).wrapping_mul(number + 1).to_le_bytes()[at % 3]).collect()
}

fn content(files: &MemoryFs, path: &str) -> Vec<u8> {
    let mut content = Vec::new();
    files.tamper(path, |bytes| content.clone_from(bytes));
    content
}

/// Where a volume's first stripe begins.
const DATA_AT: usize = 64 << 10;
const OBJECTS: u32 = 6;
const MAX_OBJECTS: u64 = 32;
/// The run of the machine that fills the store.
const BOOT: u64 = 7;
