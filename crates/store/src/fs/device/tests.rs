//! Tests on a device that is a plain file in RAM.

use super::*;
use crate::architectures::{ArchitectureOptions, StoreEnv, open_store};
use crate::fs::{CrashPoint, Faults, FaultyFs, MemoryFs, read_words};
use crate::index::MemoryHome;
use crate::{Insert, Store};
use shoal_core::{ObjectKey, Timestamp};

/// File that stands for a device.
struct Plain(Arc<MemoryFs>, Box<dyn File>);

impl DeviceIo for Plain {
    fn bytes(&self) -> u64 {
        self.0.length(PATH).expect("it is there")
    }

    fn buffered(&self) -> &dyn File {
        &*self.1
    }

    fn direct(&self) -> &dyn File {
        &*self.1
    }

    fn load(&self, at: u64, bytes: u64) -> io::Result<Box<dyn LoadedWords>> {
        let mut content = vec![0; bytes as usize];
        read_full(&*self.1, &mut content, at)?;
        let memory = MemoryFs::new(1 << 30);
        write_full(&*memory.create("words")?, &content, 0)?;
        Ok(Box::new(read_words(&*memory.open("words", Access::Read)?, bytes)?))
    }
}

const PATH: &str = "device";
const BYTES: u64 = 40 << 20;

fn blank() -> Arc<MemoryFs> {
    blank_of(BYTES)
}

fn blank_of(bytes: u64) -> Arc<MemoryFs> {
    let memory = Arc::new(MemoryFs::new(1 << 30));
    memory.create(PATH).and_then(|file| file.set_length(bytes)).expect("RAM is there");
    memory
}

fn medium(memory: &Arc<MemoryFs>) -> Box<Plain> {
    let file = memory.open(PATH, Access::Write).expect("it is there");
    Box::new(Plain(Arc::clone(memory), file))
}

fn open(memory: &Arc<MemoryFs>) -> Result<DeviceFs, Error> {
    DeviceFs::open(medium(memory), Access::Write)
}

fn refusal(memory: &Arc<MemoryFs>) -> String {
    open(memory).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn extents_keep_their_bytes_and_never_overlap() {
    let memory = blank();
    let device = open(&memory).expect("blank");
    for (name, length) in [("a", 100), ("b", 3 << 20), ("c", 5000)] {
        let file = device.create(name).expect("made");
        file.allot(length).expect("there is space");
        write_full(&*file, &vec![name.as_bytes()[0]; length as usize], 0).expect("written");
        assert!(write_full(&*file, b"x", length).is_err(), "an extent does not grow into the next");
    }
    device.unlink("a").expect("there");
    assert!(device.create("b").is_err() && device.create("a name that is too long").is_err());
    let small = device.create("d").expect("made");
    write_full(&*small, b"signature", 0).expect("the gap is taken");
    assert!(device.create("e").and_then(|file| file.allot(BYTES)).is_err(), "more than there is");
    drop(device);
    let device = open(&memory).expect("ours");
    let mut names = device.list("", 10).expect("names");
    names.sort();
    assert_eq!(names, ["b", "c", "d", "e"]);
    for (name, length) in [("b", 3 << 20), ("c", 5000)] {
        let mut read = vec![0; length as usize];
        let file = device.open_direct(name, Access::Read).expect("there");
        assert_eq!(read_full(&*file, &mut read, 0).expect("read"), length as usize);
        assert!(read.iter().all(|byte| *byte == name.as_bytes()[0]), "{name}");
        assert!(write_full(&*file, b"x", 0).is_err(), "open for reading");
    }
    assert_eq!(device.length("d").expect("there"), 9);
}

#[test]
fn foreign_or_damaged_device_is_refused_with_a_hint() {
    for (at, bytes, what) in [
        (1080, &b"\x53\xef"[..], "ext4"),
        (65_600, b"_BHRfS_M", "Btrfs"),
        (700_000, b"x", "it holds data"),
        (BYTES as usize - 5, b"x", "it holds data"),
    ] {
        let memory = blank();
        memory.tamper(PATH, |content| content[at..at + bytes.len()].copy_from_slice(bytes));
        let why = refusal(&memory);
        assert!(why.contains(what) && why.contains("shoal store format --erase"), "{why}");
        assert!(DeviceFs::format(&*medium(&memory), false).is_err());
        DeviceFs::format(&*medium(&memory), true).expect("erased");
        open(&memory).expect("it is ours now");
    }
    let memory = blank();
    assert!(DeviceFs::open(medium(&memory), Access::Read).is_err(), "who only reads makes nothing");
    drop(open(&memory).expect("blank"));
    memory.tamper(PATH, |content| content.truncate(20 << 20));
    assert!(refusal(&memory).contains("says that it has"), "{}", refusal(&memory));
    memory.tamper(PATH, |content| content.truncate(1 << 20));
    assert!(refusal(&memory).contains("are least"));
}

#[test]
fn torn_table_leaves_older_copy_two_are_refused() {
    let memory = blank();
    let device = open(&memory).expect("blank");
    device.create("a").expect("made");
    device.create("b").expect("made");
    drop(device);
    // The second copy has the later table: three changes after the first.
    let newer = if names_without_copy(&memory, 0) == ["a"] { 0 } else { COPY_BYTES };
    assert_eq!(names_without_copy(&memory, newer), ["a"], "the one before has what was there before");
    memory.tamper(PATH, |content| {
        content[20] ^= 1;
        content[COPY_BYTES + 20] ^= 1;
    });
    assert!(refusal(&memory).contains("damaged in its table"), "{}", refusal(&memory));
    memory.tamper(PATH, |content| [8, COPY_BYTES + 8].into_iter().for_each(|at| content[at] = 9));
    assert!(refusal(&memory).contains("of another version"), "{}", refusal(&memory));
}

/// Returns the extents found when the copy at `at` is torn.
fn names_without_copy(memory: &Arc<MemoryFs>, at: usize) -> Vec<String> {
    let flip = |content: &mut Vec<u8>| content[at + 100] ^= 1;
    memory.tamper(PATH, flip);
    let names = open(memory).expect("the other copy").list("", 10).expect("names");
    memory.tamper(PATH, flip);
    names
}

fn volume(memory: &Arc<MemoryFs>) -> Result<Arc<dyn Store>, Error> {
    volume_with(memory, false)
}

/// Opens the volume. In the background it follows its log after an end without a close.
fn volume_with(memory: &Arc<MemoryFs>, background: bool) -> Result<Arc<dyn Store>, Error> {
    volume_on(Arc::new(open(memory)?), memory, background)
}

fn volume_on(
    files: Arc<DeviceFs>,
    memory: &Arc<MemoryFs>,
    background: bool,
) -> Result<Arc<dyn Store>, Error> {
    let settings = ArchitectureOptions {
        disk_bytes: memory.length(PATH).expect("it is there") - DeviceFs::OWN_BYTES,
        max_objects: 2000,
        object_max_bytes: 1 << 20,
        now: Timestamp::from_seconds(1_000_000),
        ..ArchitectureOptions::default()
    };
    let index = Box::new(MemoryHome::default());
    open_store(
        "volume",
        &settings,
        StoreEnv { files, index, boot: 7, lock: None, transient: None, background },
    )
}

#[test]
fn volume_on_erased_device_is_found_again() {
    let memory = blank();
    // Old bytes beyond the beginning of an erased device must not pass for an index.
    memory.tamper(PATH, |content| content[1 << 20..].fill(0xa5));
    DeviceFs::format(&*medium(&memory), true).expect("erased");
    let store = volume(&memory).expect("it fits");
    (0..200).for_each(|number| put(&store, number, number as u8));
    store.close().expect("closed");
    drop(store);
    let store = volume(&memory).expect("it is found again");
    assert_eq!(store.usage().objects, 200);
    for number in 0..200 {
        let stored = store.open(&key(number)).expect("sound").expect("there");
        assert_eq!(stored.body.read(0, 4000).expect("whole"), vec![number as u8; 3000]);
    }
}

/// Makes the device larger, with old bytes in the new part.
fn enlarge(memory: &Arc<MemoryFs>, bytes: u64) {
    memory.tamper(PATH, |content| content.resize(bytes as usize, 0xa5));
}

fn volume_bytes(memory: &Arc<MemoryFs>) -> u64 {
    let device = DeviceFs::open(medium(memory), Access::Read).expect("ours");
    device.length("volume").expect("there")
}

#[test]
fn volume_grows_with_its_device() {
    let memory = blank();
    let store = volume(&memory).expect("it fits");
    (0..200).for_each(|number| put(&store, number, number as u8));
    store.close().expect("closed");
    drop(store);
    for (round, bytes) in [(1, 2 * BYTES), (2, 4 * BYTES)] {
        enlarge(&memory, bytes);
        let store = volume(&memory).expect("it grows");
        let volume_bytes = volume_bytes(&memory);
        assert!(volume_bytes > bytes - (8 << 20), "round {round}: {volume_bytes} of {bytes}");
        assert_eq!(check_bodies(&store, 200 * round, "enlarged"), 200 * round);
        assert!(store.index_is_complete(), "the index has been copied");
        (200 * round..200 * (round + 1)).for_each(|number| put(&store, number, number as u8));
        store.close().expect("closed");
        drop(store);
        let store = volume(&memory).expect("it is found again");
        assert_eq!(check_bodies(&store, 200 * (round + 1), "again"), 200 * (round + 1));
        store.close().expect("closed");
    }
    let mut names = open(&memory).expect("ours").list("", 10).expect("names");
    names.sort();
    assert_eq!(names, ["architecture", "volume", "volume.index"]);
}

/// The process ends at any call while the volume grows. Nothing is lost and nothing wrong is found.
#[test]
fn growth_that_is_cut_off_loses_nothing() {
    let base = blank_of(SMALL);
    let store = volume(&base).expect("it fits");
    (0..150).for_each(|number| put(&store, number, number as u8));
    store.close().expect("closed");
    drop(store);
    enlarge(&base, 2 * SMALL);
    let content = content_of(&base);
    // The first call opens the device.
    for calls in 1.. {
        let memory = copy_of(&content);
        let crash = CrashPoint::after(calls);
        let faults = Faults::new(calls).crash_at(Arc::clone(&crash));
        let door = FaultyFs::new(Arc::clone(&memory) as Arc<dyn FileSystem>, faults);
        let file = door.open(PATH, Access::Write).expect("the first call passes");
        let opened = DeviceFs::open(Box::new(Plain(Arc::clone(&memory), file)), Access::Write);
        let store = opened.and_then(|files| volume_on(Arc::new(files), &memory, false));
        let is_through = store.is_ok() && !crash.has_come();
        drop(store);
        let store = volume(&memory).unwrap_or_else(|error| panic!("{calls} calls: {error}"));
        assert_eq!(check_bodies(&store, 150, &format!("{calls} calls")), 150, "{calls} calls");
        assert!(volume_bytes(&memory) > SMALL, "{calls} calls: it has grown");
        store.close().expect("closed");
        if is_through {
            assert!(calls > 5, "no write was stopped");
            return;
        }
    }
}

#[test]
fn renamed_extent_replaces_another() {
    let memory = blank_of(SMALL);
    let device = open(&memory).expect("blank");
    for (name, bytes) in [("a", &b"one"[..]), ("b.next", b"another")] {
        write_full(&*device.create(name).expect("made"), bytes, 0).expect("written");
    }
    assert!(device.rename("a", "a name that is too long").is_err());
    assert!(device.rename("nothing", "a").is_err() && device.length("a").is_ok_and(|bytes| bytes == 3));
    device.rename("b.next", "a").expect("there");
    assert!(device.length("a").is_ok_and(|bytes| bytes == 7) && device.length("b.next").is_err());
    drop(device);
    let mut read = [0; 7];
    let file = open(&memory).expect("ours").open("a", Access::Read).expect("there");
    assert_eq!((read_full(&*file, &mut read, 0).expect("read"), &read), (7, b"another"));
}

fn key(number: u32) -> ObjectKey {
    ObjectKey::new(format!("http://a.example/{number}").into_bytes())
}

/// Stores an object with metadata and a body that name it and its version.
fn put(store: &Arc<dyn Store>, number: u32, version: u8) {
    let body = [version; 3000];
    let metadata = format!("{number} {version}");
    let mut insert: Box<dyn Insert> =
        store.insert(&key(number), metadata.as_bytes(), Some(body.len() as u64)).expect("room");
    insert.append(&body).expect("taken");
    insert.commit(None).expect("stored");
}

/// Reads each object and checks that its body belongs to its metadata. Returns how many were found.
fn check_bodies(store: &Arc<dyn Store>, objects: u32, context: &str) -> u32 {
    let mut found = 0;
    for number in 0..objects {
        let Ok(Some(stored)) = store.open(&key(number)) else { continue };
        let Ok(body) = stored.body.read(0, 4000) else { continue };
        let metadata = String::from_utf8_lossy(&stored.metadata).into_owned();
        let version = metadata.strip_prefix(&format!("{number} ")).and_then(|text| text.parse::<u8>().ok());
        let version = version.unwrap_or_else(|| panic!("{context}: {number} has the head {metadata:?}"));
        assert!(body.iter().eq([version; 3000].iter()), "{context}: {number} has another version's body");
        found += 1;
    }
    found
}

fn copy_of(content: &[u8]) -> Arc<MemoryFs> {
    let memory = Arc::new(MemoryFs::new(1 << 30));
    let file = memory.create(PATH).expect("RAM is there");
    write_full(&*file, content, 0).expect("written");
    memory
}

fn content_of(memory: &Arc<MemoryFs>) -> Vec<u8> {
    let mut content = Vec::new();
    memory.tamper(PATH, |bytes| content.clone_from(bytes));
    content
}

#[test]
fn flips_in_table_serve_nothing_wrong() {
    let memory = blank_of(SMALL);
    let store = volume(&memory).expect("it fits");
    (0..100).for_each(|number| put(&store, number, number as u8));
    store.close().expect("closed");
    drop(store);
    let content = content_of(&memory);
    let mut random = Random(7);
    let mut opened = 0;
    for round in 0..FLIPS {
        let mut damaged = content.clone();
        // one flip, a few, or many: in one copy of the table, or in both
        let (copies, flips) = (1 + round % 2, 1 << (round % 4));
        for _ in 0..flips {
            let at = random.below((copies * COPY_BYTES) as u64) as usize;
            damaged[at] ^= 1 << random.below(8);
        }
        let damaged = copy_of(&damaged);
        match volume(&damaged) {
            Ok(store) => {
                opened += 1;
                check_bodies(&store, 100, &format!("round {round}"));
            }
            Err(error) => assert!(!error.to_string().is_empty(), "round {round}: a refusal says why"),
        }
    }
    assert!(opened > FLIPS / 4, "one sound copy is enough: {opened} of {FLIPS} opened");
}

#[test]
fn table_with_other_extents_serves_nothing_wrong() {
    let memory = blank_of(SMALL);
    let store = volume(&memory).expect("it fits");
    (0..100).for_each(|number| put(&store, number, number as u8));
    store.close().expect("closed");
    drop(store);
    let content = content_of(&memory);
    let DeviceContents::Table(table) = Table::read(&content[..FIRST_AT as usize]) else { panic!("no table") };
    let change = |at: usize, change: &dyn Fn(&mut Extent)| {
        let mut forged = table.clone();
        change(&mut forged.extents[at]);
        forged
    };
    let mut forged = Vec::new();
    for at in 0..table.extents.len() {
        forged.push(change(at, &|extent| extent.at += ALIGN));
        forged.push(change(at, &|extent| extent.at = FIRST_AT));
        forged.push(change(at, &|extent| extent.length /= 2));
        forged.push(change(at, &|extent| extent.length = 0));
        for other in &table.extents {
            forged.push(change(at, &|extent| extent.name.clone_from(&other.name)));
        }
    }
    for (number, mut table) in forged.into_iter().enumerate() {
        let damaged = copy_of(&content);
        for _ in 0..2 {
            table.sequence += 1;
            let (bytes, at) = table.encode();
            damaged.tamper(PATH, |content| {
                content[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
            });
        }
        if let Ok(store) = volume(&damaged) {
            check_bodies(&store, 100, &format!("table {number}"));
        }
    }
}

/// A copy taken piece by piece while the store goes on has pieces of many moments.
#[test]
fn raw_snapshot_in_use_serves_nothing_wrong() {
    let mut found = 0;
    for seed in 0..SNAPSHOTS {
        let memory = blank_of(SMALL);
        let mut random = Random(seed);
        let store = volume(&memory).expect("it fits");
        let put_some = |random: &mut Random| {
            for _ in 0..random.below(40) {
                put(&store, random.below(150) as u32, random.below(256) as u8);
            }
            if random.below(3) == 0 {
                store.flush_due(key(0).hash()).expect("written");
            }
        };
        (0..10).for_each(|_| put_some(&mut random));
        let mut snapshot = content_of(&memory);
        let piece = 4096 << random.below(9);
        for at in (0..snapshot.len()).step_by(piece) {
            if random.below(1 + (snapshot.len() / piece / 30) as u64) == 0 {
                put_some(&mut random);
            }
            let end = (at + piece).min(snapshot.len());
            memory.tamper(PATH, |content| snapshot[at..end].copy_from_slice(&content[at..end]));
        }
        let copy = copy_of(&snapshot);
        // The copy may be refused. Else it serves right bodies, before and after its log was
        // followed, and after more was stored.
        let Ok(store) = volume_with(&copy, true) else { continue };
        check_bodies(&store, 150, &format!("seed {seed}, at once"));
        let is_followed = (0..YIELDS).any(|_| {
            std::thread::yield_now();
            store.index_is_complete()
        });
        assert!(is_followed, "seed {seed}: the log is not followed");
        found += check_bodies(&store, 150, &format!("seed {seed}"));
        (150..200).for_each(|number| put(&store, number, 1));
        check_bodies(&store, 200, &format!("seed {seed}, later"));
    }
    assert!(found > 50 * SNAPSHOTS as u32, "{found} objects in {SNAPSHOTS} snapshots");
}

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        shoal_core::mixed(self.0) % limit.max(1)
    }
}

/// A small device, since each test copies it many times.
const SMALL: u64 = 12 << 20;

const FLIPS: usize = 200;

const SNAPSHOTS: u64 = 20;

/// Turns that the thread of the store gets to follow its log.
const YIELDS: u32 = 100_000_000;
