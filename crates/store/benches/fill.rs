//! Fills a volume with any number of small objects through the store's own calls, and then waits to
//! be killed.
//!
//! Run `cargo bench -p shoal-store --bench fill -- FOLDER DISK_BYTES OBJECTS`. FOLDER holds one
//! object, left by a node that was stopped in order. That object is the pattern: its metadata, and
//! its key with the last part of the path replaced by a number from 1. A node thus finds objects as
//! it stores them itself. Ten million objects take a minute, and an hour of requests otherwise.
//! `bench/restart.py` uses this program to measure how soon the objects are served again.

use shoal_core::ObjectKey;
use shoal_policy::Admission;
use shoal_store::architectures::VolumeSettings;
use shoal_store::{Error, InsertRefusal, OpenOptions, Store};
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [folder, disk_bytes, objects] = arguments.as_slice() else {
        // `cargo bench` runs every bench without arguments.
        eprintln!("fill: give FOLDER DISK_BYTES OBJECTS");
        return Ok(());
    };
    let (folder, disk_bytes, objects) = (PathBuf::from(folder), disk_bytes.parse()?, objects.parse()?);
    let pattern = Pattern::of(&folder)?;
    let store = shoal_store::open(&options(folder, disk_bytes))?;
    for number in 1..=objects {
        pattern.store(&*store, number)?;
    }
    println!("filled {}", store.usage().objects);
    loop {
        std::thread::park();
    }
}

/// Object that the others are copied from.
struct Pattern {
    /// Start of the key, up to the part that is replaced.
    key: Vec<u8>,
    metadata: Vec<u8>,
    body_bytes: usize,
}

impl Pattern {
    /// Returns the last object of the store in a folder.
    fn of(folder: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let mut pattern = None;
        shoal_store::inspect::inspect(folder)?.list(true, &mut |object| {
            let end = object.key.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
            let (key, metadata) = (object.key[..end].to_vec(), object.metadata.to_vec());
            pattern = Some(Self { key, metadata, body_bytes: object.body_bytes as usize });
            false
        })?;
        pattern.ok_or_else(|| "the store is empty".into())
    }

    /// Stores the object of a number; waits for the disk if the store asks for that.
    fn store(&self, store: &dyn Store, number: u64) -> Result<(), Error> {
        let key = ObjectKey::new([&self.key[..], number.to_string().as_bytes()].concat());
        let body = self.body(number);
        loop {
            let stored = store
                .insert(&key, &self.metadata, Some(body.len() as u64))
                .and_then(|mut insert| insert.append(&body).map(|()| insert))
                .and_then(|insert| insert.commit(None));
            match stored {
                Err(Error::Declined(InsertRefusal::NoSpace)) => std::thread::yield_now(),
                stored => return stored,
            }
        }
    }

    /// Returns the number in decimal, repeated, so that a reader can tell which object a body
    /// belongs to.
    fn body(&self, number: u64) -> Vec<u8> {
        format!("{number} ").into_bytes().into_iter().cycle().take(self.body_bytes).collect()
    }
}

fn options(directory: PathBuf, disk_bytes: u64) -> OpenOptions {
    OpenOptions {
        directory,
        disk_bytes,
        object_max_bytes: 1 << 20,
        volume: VolumeSettings { admission: Admission::Always, ..Default::default() },
        ..OpenOptions::default()
    }
}
