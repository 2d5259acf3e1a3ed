//! Kills at every call to the disk, every write to the mapped file and every store to the index.

use super::*;
use crate::StoreView;
use crate::fs::{CrashPoint, Faults, FaultyFs, FileSystem};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

for_each_with_segments! {
    killed_at_any_step_everything_committed_is_served,
    kill_in_full_store_loses_only_the_victim,
    kill_during_creation_is_repaired_by_next_open,
    killed_again_while_the_next_opening_settles_things,
}

/// Call to the store, with its object.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Put(u64, u64, usize),
    Update(u64, usize),
    Remove(u64),
    GiveUp(u64, usize),
    /// Orderly close, with the notes of replacement; the store is used further.
    Close,
}

/// Metadata and body.
type Object = (Vec<u8>, Vec<u8>);

/// Objects that stay in a segment, change it, leave the segments for a file and come back.
const LIFE: [Operation; 19] = {
    use Operation::{Close, GiveUp, Put, Remove, Update};
    [
        Put(1, 1, 300),
        Put(2, 1, 3_000),
        Put(3, 1, 0),
        Put(1, 2, 300),
        Put(4, 1, 7_500),
        Update(2, 40),
        Update(1, 600),
        Put(2, 2, 12_000),
        GiveUp(5, 700),
        GiveUp(1, 9_000),
        Remove(3),
        Put(6, 1, 900),
        Close,
        Put(2, 3, 900),
        Update(6, 9_000),
        Remove(1),
        Put(6, 2, 100),
        Put(1, 3, 4_500),
        Put(3, 2, 450),
    ]
};

fn subject(operation: Operation) -> u64 {
    match operation {
        Operation::Put(n, ..) | Operation::Update(n, _) | Operation::Remove(n) | Operation::GiveUp(n, _) => n,
        Operation::Close => NOBODY,
    }
}

/// Performs one operation. Failures belong to the crash; only the state afterwards is checked.
fn perform(store: &dyn Store, operation: Operation) {
    match operation {
        Operation::Put(n, version, length) => drop(put(store, n, version, length)),
        Operation::Update(n, metadata) => {
            drop(store.update_metadata(&key(n), &vec![b'u'; metadata], &|_| true));
        }
        Operation::Remove(n) => drop(store.remove(&key(n))),
        Operation::GiveUp(n, length) => {
            if let Ok(mut insert) = store.insert(&key(n), b"m", None) {
                drop(insert.append(&body_of(n, 1, length)));
            }
        }
        Operation::Close => drop(store.close()),
    }
}

/// Returns the allowed state of the operation's key afterwards.
fn outcome(operation: Operation, before: Option<&Object>) -> Option<Object> {
    match operation {
        Operation::Put(n, version, length) => {
            Some((metadata_of(n, version, length), body_of(n, version, length)))
        }
        Operation::Update(_, metadata) => before.map(|object| (vec![b'u'; metadata], object.1.clone())),
        Operation::Remove(_) => None,
        Operation::GiveUp(..) | Operation::Close => before.cloned(),
    }
}

/// Allowed contents after a series of operations.
#[derive(Default)]
struct Right {
    objects: HashMap<u64, Object>,
    /// The interrupted operation's key, with the allowed states beside the old one.
    cut_short: Option<(u64, Vec<Option<Object>>)>,
    crashed: bool,
}

impl Right {
    fn allows(&self, n: u64, found: Option<&Object>) -> bool {
        let also = self.cut_short.as_ref().filter(|(cut, _)| *cut == n).map(|(_, allowed)| allowed);
        found == self.objects.get(&n)
            || also.is_some_and(|allowed| allowed.iter().any(|object| object.as_ref() == found))
    }
}

/// Runs until the crash, if it comes.
fn live_until(world: &World, crash: &Arc<CrashPoint>, life: &[Operation]) -> Right {
    world.home.crash_at(Arc::clone(crash));
    let faults = Faults::new(5).crash_at(Arc::clone(crash));
    let faulty = Arc::new(FaultyFs::new(world.files.clone(), faults));
    let mut right = Right::default();
    let Ok(store) = world.try_open_through(faulty) else {
        return Right { crashed: true, ..right };
    };
    for operation in life {
        let n = subject(*operation);
        let after = outcome(*operation, right.objects.get(&n));
        perform(&store, *operation);
        if crash.has_come() {
            let mut allowed = vec![after];
            if matches!(operation, Operation::Update(..)) {
                // An update torn in its place is a miss.
                allowed.push(None);
            }
            right.cut_short = Some((n, allowed));
            right.crashed = true;
            return right;
        }
        match after {
            Some(object) => drop(right.objects.insert(n, object)),
            None => drop(right.objects.remove(&n)),
        }
    }
    right
}

/// Opens the store after the crash and uses it.
fn check(world: &World, right: &Right, what: &str) {
    let store = world.open();
    let mut there = 0;
    for n in 0..10 {
        let found = fetch(&store, n);
        assert!(
            right.allows(n, found.as_ref()),
            "{what}: {n} of {:?} bytes",
            found.map(|found| found.1.len())
        );
        there += u64::from(found.is_some());
    }
    let usage = store.usage();
    assert!(usage.corrupt <= 1, "{what}");
    assert_eq!(usage.objects, there, "{what}");
    let small = (20..30).chain(20..25);
    for (version, n) in small.enumerate() {
        let length = n as usize * 251 % 7_000;
        put(&store, n, version as u64, length).unwrap();
        assert!(matches(&store, n, version as u64, length), "{what}");
    }
    for n in 0..10 {
        assert!(right.allows(n, fetch(&store, n).as_ref()), "{what}: {n} was harmed by what came after");
    }
    assert_eq!(store.usage().corrupt, usage.corrupt, "{what}");
    assert_eq!(store.usage().objects, there + 10, "{what}");
}

fn killed_at_any_step_everything_committed_is_served(architecture: &str) {
    let mut steps = 0;
    loop {
        let world = world(architecture, 4 << 20, 1 << 20, 200);
        drop(world.open());
        let right = live_until(&world, &CrashPoint::after(steps), &LIFE);
        check(&world.after_kill(), &right, &format!("killed at step {steps}"));
        if !right.crashed {
            break;
        }
        steps += 1;
    }
    assert!(steps > 300, "{steps} steps");
}

/// In a full store, each insert evicts another object in its place.
fn kill_in_full_store_loses_only_the_victim(architecture: &str) {
    let full = world(architecture, 1 << 20, 32 << 10, 200);
    let filled = fill(&full);
    full.files.sync().unwrap();
    let mut steps = 0;
    loop {
        // Each round has its own disk.
        let files = Arc::new(full.files.after_power_loss(|_| 0));
        let world = World { files, ..full.after_kill() };
        let crash = CrashPoint::after(steps);
        world.home.crash_at(Arc::clone(&crash));
        let faults = Faults::new(5).crash_at(Arc::clone(&crash));
        let faulty = Arc::new(FaultyFs::new(world.files.clone(), faults));
        let before = world.try_open_through(faulty).map(|store| replace_until(&store, filled, &crash));
        check_full(
            &world.after_kill(),
            &before.unwrap_or_default(),
            filled,
            &format!("killed at step {steps}"),
        );
        if !crash.has_come() {
            break;
        }
        steps += 1;
    }
    assert!(steps > 50, "{steps} steps");
}

/// Fills a store with objects of two segment sizes until it evicts others. Returns the next number.
fn fill(world: &World) -> u64 {
    let store = world.open();
    let full = (0..5_000).find(|n| {
        put(&store, *n, 1, length_of(*n)).unwrap();
        store.usage().evictions > 5
    });
    full.expect("it is full in the end") + 1
}

fn length_of(n: u64) -> usize {
    if n.is_multiple_of(2) { 700 } else { 300 }
}

/// Inserts until the crash. Returns the objects that were there when the last insert began.
fn replace_until(store: &dyn Store, next: u64, crash: &CrashPoint) -> HashSet<u64> {
    let mut before = HashSet::new();
    for n in next..next + REPLACED {
        before = (0..n).filter(|n| store.may_contain(&key(*n))).collect();
        drop(put(store, n, 1, length_of(n)));
        if crash.has_come() {
            break;
        }
    }
    before
}

fn check_full(world: &World, before: &HashSet<u64>, filled: u64, what: &str) {
    let store = world.open();
    let is_there = |n: &u64| match fetch(&store, *n) {
        None => false,
        Some(found) => {
            assert_eq!(
                found,
                (metadata_of(*n, 1, length_of(*n)), body_of(*n, 1, length_of(*n))),
                "{what}: {n}"
            );
            true
        }
    };
    let missing: Vec<_> = before.iter().filter(|n| !is_there(n)).collect();
    assert!(missing.len() <= 1, "{what}: {missing:?} are missing");
    let there = (0..filled + REPLACED).filter(is_there).count() as u64;
    assert_eq!(store.usage().objects, there, "{what}");
    assert_eq!(store.usage().corrupt, 0, "{what}");
    for n in filled + 1_000..filled + 1_020 {
        put(&store, n, 1, length_of(n)).unwrap();
        assert!(matches(&store, n, 1, length_of(n)), "{what}");
    }
    let usage = store.usage();
    assert!(usage.corrupt == 0 && usage.bytes <= usage.bytes_max, "{what}: {usage:?}");
    let there = (0..filled + REPLACED).chain(filled + 1_000..filled + 1_020).filter(is_there).count() as u64;
    assert_eq!(usage.objects, there, "{what}");
}

fn kill_during_creation_is_repaired_by_next_open(architecture: &str) {
    for steps in 0..40 {
        let world = world(architecture, 4 << 20, 1 << 20, 200);
        let right = live_until(&world, &CrashPoint::after(steps), &LIFE);
        let left = world.after_kill();
        let store = left.open();
        maintain(&store.core);
        drop(store);
        check(&left, &right, &format!("killed at step {steps} of the first opening"));
    }
}

fn killed_again_while_the_next_opening_settles_things(architecture: &str) {
    for steps in (0..900).step_by(37) {
        let world = world(architecture, 4 << 20, 1 << 20, 200);
        drop(world.open());
        let right = live_until(&world, &CrashPoint::after(steps), &LIFE);
        for again in 0..60 {
            let world = world.after_kill();
            let crash = CrashPoint::after(again);
            world.home.crash_at(Arc::clone(&crash));
            // All rounds share the files: settling can be repeated.
            let faults = Faults::new(6).crash_at(Arc::clone(&crash));
            drop(world.try_open_through(Arc::new(FaultyFs::new(world.files.clone(), faults))));
            let store = world.after_kill().open();
            for n in 0..10 {
                assert!(
                    right.allows(n, fetch(&store, n).as_ref()),
                    "killed at {steps}, then at {again}: {n}"
                );
            }
            if !crash.has_come() {
                break;
            }
        }
        if !right.crashed {
            break;
        }
    }
}

/// Number without an object.
const NOBODY: u64 = 9;
/// Inserts into a full store, each with a kill at every step.
const REPLACED: u64 = 4;
