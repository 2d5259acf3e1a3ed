//! Kills and power losses at any call to the disk.

use super::*;
use crate::fs::{CrashPoint, Faults, FaultyFs};
use crate::{PromptStore, StoreView};
use std::collections::{HashMap, HashSet};

/// Actions of a session before it was stopped.
#[derive(Default)]
struct History {
    /// All versions ever begun, by object.
    begun: HashMap<u32, HashSet<u32>>,
    /// Objects surely removed, and not inserted since.
    removed: HashSet<u32>,
    /// Versions surely on disk, and neither removed nor replaced since.
    durable: HashMap<u32, u32>,
}

/// Works until the disk stops, or to the end.
fn work(store: &VolumeStore, seed: u64, version_from: u32, history: &mut History) {
    let mut random = Random(seed);
    let mut fresh: HashMap<u32, u32> = HashMap::new();
    let mut gone: HashSet<u32> = HashSet::new();
    for step in 0..200 {
        let number = random.below(60) as u32;
        let version = version_from + step;
        match random.below(12) {
            0 => {
                history.durable.remove(&number);
                fresh.remove(&number);
                if store.remove(&key(number)).is_ok() {
                    gone.insert(number);
                }
            }
            1 => {
                let written = store.volume.flush_and_sync();
                if written.is_ok() {
                    history.durable.extend(fresh.drain());
                    history.removed.extend(gone.drain());
                }
            }
            2 if random.below(4) == 0 => drop(store.volume.write_checkpoint()),
            3 | 4 => drop(version_of(store, number)),
            5 => drop(store.update_metadata(&key(number), b"never", &|_| false)),
            _ => {
                history.begun.entry(number).or_default().insert(version);
                history.removed.remove(&number);
                gone.remove(&number);
                history.durable.remove(&number);
                fresh.remove(&number);
                if put(store, number, version, random.length() / 3).is_ok() {
                    fresh.insert(number, version);
                }
            }
        }
    }
}

/// The removal is acknowledged before the log has been followed, and the index lacks the removed
/// object.
#[test]
fn removal_before_recovery_survives_kill() {
    let world = World::new(16 << 20);
    let store = world.open();
    (0..100).for_each(|number| put(&store, number, 1, 9000).unwrap());
    store.write_all();
    drop(store);
    for number in (0..100).step_by(10) {
        let store = world.try_open_unrecovered(world.files.clone()).unwrap();
        assert!(store.remove(&key(number)).unwrap());
        drop(store);
        assert_eq!(version_of(&world.open(), number), None, "{number}");
    }
}

/// The log is unreadable then: the removal is not acknowledged.
#[test]
fn removal_with_unreadable_log_fails_or_lasts() {
    for fails_from in 0..60 {
        let world = World::new(16 << 20);
        let store = world.open();
        (0..100).for_each(|number| put(&store, number, 1, 9000).unwrap());
        store.write_all();
        drop(store);
        let faulty = Arc::new(FaultyFs::new(
            world.files.clone(),
            Faults::new(0).crash_at(CrashPoint::after(fails_from)),
        ));
        let Ok(store) = world.try_open_unrecovered(faulty) else { continue };
        let removed = store.remove(&key(7));
        drop(store);
        let is_back = version_of(&world.open(), 7).is_some();
        assert!(!is_back || removed.is_err(), "it fails from call {fails_from} on: {removed:?}");
    }
}

/// Checks that nothing wrong is served, that nothing durable is missing, and that the store works.
fn check(world: &World, history: &History, what: &str) {
    let store = world.open();
    for number in 0..60 {
        let version = version_of(&store, number);
        if let Some(version) = version {
            assert!(
                history.begun.get(&number).is_some_and(|begun| begun.contains(&version)),
                "{what}: {number}"
            );
            assert!(!history.removed.contains(&number), "{what}: {number} had been removed");
        }
        if let Some(durable) = history.durable.get(&number) {
            assert_eq!(version, Some(*durable), "{what}: object {number} is missing or older");
        }
    }
    for number in 200..260 {
        put(&store, number, 1, 3000).unwrap();
    }
    store.close().unwrap();
    drop(store);
    let store = world.open();
    for number in 200..260 {
        assert_eq!(version_of(&store, number), Some(1), "{what}: a later object");
    }
}

/// Makes a volume larger than all writes, so that nothing is evicted.
fn roomy() -> World {
    World::new(24 << 20)
}

fn stopped_at(world: &World, seed: u64, calls: u64, history: &mut History) -> bool {
    let crash = CrashPoint::after(calls);
    let faults = Faults::new(seed).crash_at(Arc::clone(&crash));
    let door = Arc::new(FaultyFs::new(world.files.clone(), faults));
    if let Ok(store) = world.try_open_unrecovered(door) {
        while !store.volume.directory.is_recovered.load(Relaxed) && !crash.has_come() {
            store.volume.recover_step(16);
        }
        work(&store, seed, 1000 * calls as u32, history);
    }
    crash.has_come()
}

#[test]
fn kill_at_any_call_loses_no_written_object() {
    let mut calls = 0;
    loop {
        let world = roomy();
        let mut history = History::default();
        let has_come = stopped_at(&world, 1, calls, &mut history);
        check(&world, &history, &format!("killed at call {calls}"));
        if !has_come {
            break;
        }
        calls += 1;
    }
    assert!(calls > 20, "the work makes {calls} calls");
}

#[test]
fn power_loss_at_any_call_loses_no_synced_object() {
    for seed in 0..budget(150) {
        let world = roomy();
        let mut history = History::default();
        stopped_at(&world, seed, Random(seed).below(60), &mut history);
        check(&world.after_power_loss(seed), &history, &format!("power lost, seed {seed}"));
    }
}

#[test]
fn crash_after_crash() {
    for seed in 0..budget(20) {
        let mut world = roomy();
        let mut history = History::default();
        for round in 0..4 {
            let calls = Random(seed * 7 + round).below(50);
            stopped_at(&world, seed + 100 * round, calls, &mut history);
            if round % 2 == 1 {
                world = world.after_power_loss(seed + round);
            }
        }
        check(&world, &history, &format!("seed {seed}"));
    }
}

#[test]
fn unsynced_header_does_not_count_as_written() {
    // Small, since each power loss copies the disk some times.
    let world = World::new(3 << 20);
    let store = world.open();
    put(&store, 1, 1, 3000).unwrap();
    store.close().unwrap();
    drop(store);
    // Also killed just after the header that marks the log as growing was written, while only the
    // kernel has this header.
    let mut calls = 0;
    loop {
        let world = world.after_power_loss(0);
        let crash = CrashPoint::after(calls);
        let door = Arc::new(FaultyFs::new(world.files.clone(), Faults::new(1).crash_at(Arc::clone(&crash))));
        if let Ok(store) = world.try_open(door) {
            drop(store.remove(&key(2)));
            drop(store.volume.flush(true));
        }
        let store = world.open();
        store.remove(&key(1)).unwrap();
        store.write_all();
        drop(store);
        for seed in 0..20 {
            let store = world.after_power_loss(seed).open();
            assert_eq!(version_of(&store, 1), None, "killed at call {calls}, seed {seed}");
        }
        if !crash.has_come() {
            break;
        }
        calls += 1;
    }
}

/// Objects may be gone, since the cursor goes round, but must not be wrong.
#[test]
fn crashes_in_a_full_volume_serve_nothing_wrong() {
    for seed in 0..budget(60) {
        let world = World::new(3 << 20);
        let mut history = History::default();
        for round in 0..5 {
            stopped_at(&world, seed + 1000 * round, 20 + Random(seed + round).below(60), &mut history);
            history.durable.clear();
        }
        let world = if seed % 2 == 0 { world } else { world.after_power_loss(seed) };
        check(&world, &history, &format!("full, seed {seed}"));
    }
}

#[test]
fn without_its_index_the_volume_is_read_through() {
    let world = roomy();
    let mut history = History::default();
    let store = world.open();
    work(&store, 5, 1, &mut history);
    store.write_all();
    drop(store);
    for damage in 0..3 {
        world.files.tamper(INDEX, |bytes| match damage {
            0 => bytes.truncate(100),
            1 => bytes[16] ^= 1,
            _ => bytes.clear(),
        });
        check(&world, &history, "the index was lost");
    }
}

/// The index on disk may name the object, and so may the log before the line with its removal.
#[test]
fn removed_object_is_not_served_before_recovery() {
    let world = roomy();
    let store = world.open();
    let is_removed = |number: u32| number.is_multiple_of(5);
    (0..60).for_each(|number| put(&store, number, 1, 20_000).unwrap());
    store.write_all();
    store.volume.write_checkpoint().unwrap();
    (60..120).for_each(|number| put(&store, number, 1, 20_000).unwrap());
    store.write_all();
    for number in (0..120).filter(|number| is_removed(*number)) {
        store.remove(&key(number)).unwrap();
    }
    // Stripes later than the objects'.
    (200..230).for_each(|number| put(&store, number, 1, 50_000).unwrap());
    store.write_all();
    drop(store);
    let worlds = [0, 1, 3, 10].map(|steps| (world.after_power_loss(3), "power lost", steps));
    for (world, what, steps) in worlds.into_iter().chain([(world, "killed", 0)]) {
        let store = world.try_open_unrecovered(world.files.clone()).unwrap();
        for _ in 0..steps {
            store.volume.recover_step(1);
        }
        assert!(!store.volume.directory.is_recovered.load(Relaxed));
        for number in 0..120 {
            let version = version_of(&store, number);
            assert_eq!(version.is_none(), is_removed(number), "{number} {what}, {steps} steps");
        }
        store.volume.recover();
        for number in 0..120 {
            assert_eq!(version_of(&store, number).is_none(), is_removed(number), "{number} {what}");
        }
        assert_eq!(store.usage().corrupt, 0);
    }
}

/// A purge meanwhile takes effect too.
#[test]
fn close_before_recovery_ends_loses_nothing() {
    for steps in [0, 1, 3, 10] {
        let world =
            World { settings: ArchitectureOptions { max_objects: 60_000, ..roomy().settings }, ..roomy() };
        let store = world.open();
        for number in 0..1000 {
            put(&store, number, 1, 9000).unwrap();
        }
        store.write_all();
        drop(store);
        let store = world.try_open_unrecovered(world.files.clone()).unwrap();
        store.volume.recover_step(steps);
        assert!(!store.volume.directory.is_recovered.load(Relaxed));
        if steps == 3 {
            store.remove(&key(990)).unwrap();
        }
        store.close().unwrap();
        drop(store);
        let store = world.open();
        for number in 0..1000 {
            let is_gone = steps == 3 && number == 990;
            assert_eq!(version_of(&store, number), (!is_gone).then_some(1), "{number} after {steps} steps");
        }
    }
}

/// Returns the number of seeds, times the factor that a long run sets.
pub(super) fn budget(seeds: u64) -> u64 {
    let times = std::env::var("SHOAL_CRASH_TIMES").ok().and_then(|times| times.parse::<u64>().ok());
    seeds * times.unwrap_or(1)
}

/// The index on disk has the first version, the log the second. Only the second's record is marked
/// as removed.
#[test]
fn replaced_object_stays_away_after_kill() {
    for is_removed in [false, true] {
        let world = World::new(64 << 20);
        let store = world.open();
        put(&store, 1, 1, 5000).unwrap();
        store.write_all();
        store.volume.write_checkpoint().unwrap();
        put(&store, 1, 2, 5000).unwrap();
        store.write_all();
        if is_removed {
            assert!(store.remove(&key(1)).unwrap());
        }
        drop(store);
        let store = world.try_open_unrecovered(world.files.clone()).unwrap();
        assert!(store.try_open(&key(1)).is_none(), "the log has not been followed");
        assert_eq!(version_of(&store, 1), (!is_removed).then_some(2), "removed: {is_removed}");
    }
}

/// Without an index the stripes are entered from the oldest to the newest: until the end no version
/// is surely the latest.
#[test]
fn replaced_object_stays_away_during_rebuild() {
    let world = World::new(64 << 20);
    let store = world.open();
    for version in [1, 2] {
        put(&store, 1, version, 5000).unwrap();
        // More than a stripe, so that the next version is in another.
        (100..160).for_each(|number| put(&store, number, version, 9000).unwrap());
        store.write_all();
    }
    assert!(store.remove(&key(1)).unwrap());
    drop(store);
    world.files.tamper(INDEX, Vec::clear);
    let store = world.try_open_unrecovered(world.files.clone()).unwrap();
    while !store.volume.directory.is_recovered.load(Relaxed) {
        assert_eq!(version_of(&store, 1), None);
        store.volume.recover_step(1);
    }
    assert_eq!((version_of(&store, 1), version_of(&store, 100)), (None, Some(2)));
}
