//! Tests on a device that is a plain file in RAM.

use super::*;
use crate::architectures::{ArchitectureOptions, StoreEnv, open_store};
use crate::fs::{MemoryFs, read_words};
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
    let memory = Arc::new(MemoryFs::new(1 << 30));
    memory.create(PATH).and_then(|file| file.set_length(BYTES)).expect("RAM is there");
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
fn extents_keep_what_they_hold_and_never_meet() {
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
fn what_is_foreign_damaged_or_cut_off_is_refused_with_the_way_out() {
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
fn a_torn_table_leaves_the_one_before_and_two_are_refused() {
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
    let settings = ArchitectureOptions {
        disk_bytes: BYTES - DeviceFs::OWN_BYTES,
        max_objects: 2000,
        object_max_bytes: 1 << 20,
        files_per_folder: 0,
        replacement: "clock",
        segments: Default::default(),
        volume: Default::default(),
        now: Timestamp::from_seconds(1_000_000),
    };
    let (files, index) = (Arc::new(open(memory)?), Box::new(MemoryHome::default()));
    open_store(
        "volume",
        &settings,
        StoreEnv { files, index, boot: 7, lock: None, transient: None, background: false },
    )
}

#[test]
fn a_volume_lives_on_a_device_that_held_other_things_and_is_found_again() {
    let memory = blank();
    // Old bytes beyond the beginning of an erased device must not pass for an index.
    memory.tamper(PATH, |content| content[1 << 20..].fill(0xa5));
    DeviceFs::format(&*medium(&memory), true).expect("erased");
    let key = |number: u32| ObjectKey::new(format!("http://a.example/{number}").into_bytes());
    let store = volume(&memory).expect("it fits");
    for number in 0..200 {
        let mut insert: Box<dyn Insert> = store.insert(&key(number), b"meta", Some(3000)).expect("room");
        insert.append(&[number as u8; 3000]).expect("taken");
        insert.commit(None).expect("stored");
    }
    store.close().expect("closed");
    drop(store);
    let store = volume(&memory).expect("it is found again");
    assert_eq!(store.usage().objects, 200);
    for number in 0..200 {
        let stored = store.open(&key(number)).expect("sound").expect("there");
        assert_eq!(stored.body.read(0, 4000).expect("whole"), vec![number as u8; 3000]);
    }
}
