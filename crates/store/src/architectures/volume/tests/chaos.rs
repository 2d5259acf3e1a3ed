//! All faults together: laps, removals, replacements and updates, failed or falsely failed writes,
//! kills and power losses. A lookup finds the latest version or none. After a crash no version
//! older than the last durable one is found.

use super::scripted::{Fate, Kind, Scripted};
use super::*;
use crate::TryInsert;
use crate::{PromptStore, StoreView};
use std::collections::HashMap;

const OBJECTS: u32 = 120;

/// Expected state of one object.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Current version, or 0 when the object should be gone.
    now: u32,
    /// Version at the last sync.
    durable: u32,
    /// First of the versions begun since.
    since: u32,
}

struct Session {
    world: World,
    door: Arc<Scripted>,
    store: VolumeStore,
    random: Random,
    known: HashMap<u32, Known>,
    step: u32,
    /// Failed writes in a thousand.
    failing: u64,
    seed: u64,
}

impl Session {
    fn new(seed: u64, failing: u64) -> Self {
        let mut world = World::new(4 << 20);
        world.settings.max_objects = 400;
        let door = Scripted::new(&world.files);
        let store = world.try_open(door.clone()).unwrap();
        let random = Random(seed);
        let session = Self { world, door, store, random, known: HashMap::new(), step: 1, failing, seed };
        session.let_writes_fail(seed);
        session
    }

    fn let_writes_fail(&self, seed: u64) {
        let (random, failing) = (parking_lot::Mutex::new(Random(seed ^ 0xfa11)), self.failing);
        self.door.play(move |call| {
            if call.kind != Kind::Write || random.lock().below(1000) >= failing {
                return Fate::Passes;
            }
            if random.lock().below(2) == 0 { Fate::Fails } else { Fate::FailsAfterwards }
        });
    }

    fn work(&mut self) {
        self.step += 1;
        let number = self.random.below(u64::from(OBJECTS)) as u32;
        match self.random.below(30) {
            0..3 => self.remove(number),
            3..6 => self.offer(number),
            6..12 => self.put(number),
            12..14 => self.update(number),
            14 => self.bring_to_disk(),
            15 if self.random.below(4) == 0 => drop(self.store.volume.checkpoint_if_due()),
            16 if self.random.below(12) == 0 => drop(self.store.volume.write_checkpoint()),
            _ => self.check(number),
        }
    }

    fn begin(&mut self, number: u32) -> (u32, usize) {
        let known = self.known.entry(number).or_default();
        known.now = self.step;
        (self.step, self.random.length())
    }

    fn put(&mut self, number: u32) {
        let (version, length) = self.begin(number);
        if put(&self.store, number, version, length).is_err() {
            // Like the proxy: the older version must not come back.
            self.remove(number);
        }
    }

    fn offer(&mut self, number: u32) {
        let (version, length) = self.begin(number);
        let body = body_of(number, version, length).into();
        let offered = self.store.try_insert(&key(number), &metadata_of(version, length), &body, &|| true);
        match offered {
            Ok(TryInsert::Inserted | TryInsert::InsertedFlushDue) => {}
            Ok(TryInsert::WouldBlock) => self.put(number),
            Err(_) => self.remove(number),
        }
    }

    fn remove(&mut self, number: u32) {
        drop(self.store.remove(&key(number)));
        self.known.entry(number).or_default().now = 0;
    }

    /// The new metadata fits the spare room, or exceeds it.
    fn update(&mut self, number: u32) {
        let longer = if self.random.below(2) == 0 { " " } else { "                              " };
        let Some(stored) = self.store.open(&key(number)).ok().flatten() else { return };
        let metadata = [&stored.metadata[..], longer.as_bytes()].concat();
        drop(self.store.update_metadata(&key(number), &metadata, &|_| true));
    }

    fn bring_to_disk(&mut self) {
        if self.store.volume.flush_and_sync().is_ok() {
            let next = self.step + 1;
            for known in self.known.values_mut() {
                (known.durable, known.since) = (known.now, next);
            }
        }
    }

    fn check(&self, number: u32) {
        let now = self.known.get(&number).map_or(0, |known| known.now);
        let version = self.found(number);
        let seed = self.seed;
        assert!(version.is_none_or(|version| version == now), "{number}: {version:?} for {now}, seed {seed}");
    }

    /// Returns the version found, which must be whole or report that it is not.
    fn found(&self, number: u32) -> Option<u32> {
        let stored = self.store.open(&key(number)).ok()??;
        let text = String::from_utf8(stored.metadata.to_vec()).expect("metadata as it was written");
        let mut words = text.split(' ').filter_map(|word| word.parse::<usize>().ok());
        let (version, length) = (words.next().expect("a version") as u32, words.next().expect("a length"));
        let mut body = Vec::new();
        while body.len() < length {
            match stored.body.read(body.len() as u64, 50_000) {
                Ok(read) if !read.is_empty() => body.extend_from_slice(&read),
                // A piece could not be written. This is known now, but was unknown at the lookup.
                _ => return None,
            }
        }
        assert!(body == body_of(number, version, length), "object {number} has another's bytes");
        Some(version)
    }

    /// Ends without an orderly close, and begins again.
    fn crash(&mut self, loses_power: bool) {
        let seed = self.random.next();
        if loses_power {
            self.world = self.world.after_power_loss(seed);
        }
        self.door = Scripted::new(&self.world.files);
        self.store = self.world.try_open(self.door.clone()).expect("the volume opens");
        for number in 0..OBJECTS {
            let known = self.known.entry(number).or_default();
            let (durable, since) = (known.durable, known.since);
            let version = self.found(number);
            let is_right = version.is_none_or(|version| version == durable || version >= since);
            let seed = self.seed;
            assert!(
                is_right,
                "{number}: {version:?} after {durable} was on disk before {since}, seed {seed}"
            );
            let now = version.unwrap_or(0);
            self.known.insert(number, Known { now, durable: now, since: self.step + 1 });
        }
        if !loses_power {
            assert_eq!(self.store.usage().corrupt, 0, "nothing was damaged, seed {}", self.seed);
        }
        let counted = self.store.usage().objects as usize;
        assert_eq!(counted, self.store.volume.directory.table.entries().count(), "objects are counted right");
        self.let_writes_fail(seed);
    }
}

#[test]
fn whatever_happens_the_latest_is_found_or_nothing() {
    for seed in 0..super::crash::budget(30) {
        let mut session = Session::new(seed, [0, 20, 100][seed as usize % 3]);
        for round in 0..6 {
            for _ in 0..400 {
                session.work();
            }
            (0..OBJECTS).for_each(|number| session.check(number));
            session.crash((seed + round) % 2 == 0);
        }
    }
}
