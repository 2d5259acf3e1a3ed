//! Kills at every call to the disk and at every store to the index; power losses at any time.

use super::world::{Random, check_books, fetch, maintain, metadata_of};
use super::*;
use crate::Store;
use crate::StoreView;
use crate::fs::{CrashPoint, Faults, FaultyFs};
use std::collections::HashMap;
use std::sync::Arc;

for_each_architecture! {
    killed_at_any_step_everything_committed_is_served,
    kill_during_creation_is_repaired_by_next_open,
    killed_again_while_the_next_opening_settles_things,
    power_loss_serves_nothing_wrong_and_repair_ends,
    power_lost_after_an_orderly_close_loses_nothing,
    object_replaced_after_power_loss_stays_away,
}

/// Call to the store, with its object.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Put(u64, u64, usize),
    Update(u64, usize),
    Remove(u64),
    GiveUp(u64),
}

/// Metadata and body.
type Object = (Vec<u8>, Vec<u8>);
/// Allowed states of a key: each allowed version, or a miss.
type Right = Vec<Option<Object>>;

/// Returns a short series of all operations.
fn life() -> Vec<Operation> {
    use Operation::{GiveUp, Put, Remove, Update};
    vec![
        Put(1, 1, 3_000),
        Put(2, 1, 70_000),
        Put(3, 1, 0),
        Put(1, 2, 140_000),
        Update(2, 40),
        GiveUp(4),
        Remove(3),
        Put(5, 1, 65_536),
        Update(1, 3_000),
        Put(2, 2, 10),
        Remove(1),
        Put(6, 1, 20_000),
        Put(1, 3, 9_000),
    ]
}

/// Performs one operation. Failures belong to the crash; only the state afterwards is checked.
fn perform(store: &dyn Store, operation: Operation) {
    match operation {
        Operation::Put(n, version, length) => drop(put(store, n, version, length)),
        Operation::Update(n, metadata) => {
            drop(store.update_metadata(&key(n), &vec![b'u'; metadata], &|_| true));
        }
        Operation::Remove(n) => drop(store.remove(&key(n))),
        Operation::GiveUp(n) => {
            if let Ok(mut insert) = store.insert(&key(n), b"m", None) {
                drop(insert.append(&body_of(n, 1, 100_000)));
            }
        }
    }
}

/// Returns the allowed states of the operation's key afterwards, given the allowed ones before.
fn outcome(operation: Operation, before: &Right) -> Right {
    match operation {
        Operation::Put(n, version, length) => {
            vec![Some((metadata_of(n, version, length), body_of(n, version, length)))]
        }
        Operation::Update(_, metadata) => {
            let body = before[0].clone().expect("updates are of what is there").1;
            vec![Some((vec![b'u'; metadata], body))]
        }
        Operation::Remove(_) | Operation::GiveUp(_) => vec![None],
    }
}

fn subject(operation: Operation) -> u64 {
    match operation {
        Operation::Put(n, ..) | Operation::Update(n, ..) | Operation::Remove(n) | Operation::GiveUp(n) => n,
    }
}

/// Runs until the crash. Returns the allowed states, and whether there was a crash at all.
fn live_until(world: &World, crash: &Arc<CrashPoint>) -> (HashMap<u64, Right>, bool) {
    let faults = Faults::new(5).crash_at(Arc::clone(crash));
    world.home.crash_at(Arc::clone(crash));
    let mut right: HashMap<u64, Right> = HashMap::new();
    let faulty = Arc::new(FaultyFs::new(world.files.clone(), faults));
    let Ok(store) = world.try_open_through(faulty) else { return (right, true) };
    for operation in life() {
        let entry = right.entry(subject(operation)).or_insert_with(|| vec![None]);
        let after = outcome(operation, entry);
        perform(&store, operation);
        if crash.has_come() {
            // Interrupted: old or new. A torn update of metadata is a miss.
            entry.extend(after);
            if matches!(operation, Operation::Update(..)) {
                entry.push(None);
            }
            return (right, true);
        }
        *entry = after;
    }
    (right, false)
}

fn check(world: &World, right: &HashMap<u64, Right>, what: &str) {
    let store = world.open();
    assert_eq!(store.core.index.audit_step(), None, "{what}: nothing needs repair");
    for (n, allowed) in right {
        let found = fetch(&store, *n);
        assert!(allowed.contains(&found), "{what}: object {n} of {} bytes", found.map_or(0, |f| f.1.len()));
    }
    let unusable = store.usage().corrupt;
    check_books(world, &store);
    assert!(unusable <= 1, "{what}");
    for n in 10..20 {
        put(&store, n, 1, 50_000).unwrap();
        assert!(matches(&store, n, 1, 50_000), "{what}");
    }
    check_books(world, &store);
}

fn killed_at_any_step_everything_committed_is_served(architecture: &str) {
    let mut steps = 0;
    loop {
        let world = World::new(architecture, 100 << 20, 64);
        drop(world.open());
        let (right, crashed) = live_until(&world, &CrashPoint::after(steps));
        check(&world.after_kill(), &right, &format!("killed at step {steps}"));
        if !crashed {
            break;
        }
        steps += 1;
    }
    assert!(steps > 500, "{steps} steps");
}

fn kill_during_creation_is_repaired_by_next_open(architecture: &str) {
    for steps in 0..40 {
        let world = World::new(architecture, 100 << 20, 64);
        let (right, _) = live_until(&world, &CrashPoint::after(steps));
        let left = world.after_kill();
        let store = left.open();
        maintain(&store.core);
        drop(store);
        check(&left, &right, &format!("killed at step {steps} of the first opening"));
    }
}

fn killed_again_while_the_next_opening_settles_things(architecture: &str) {
    for steps in (0..900).step_by(23) {
        let world = World::new(architecture, 100 << 20, 64);
        drop(world.open());
        let (right, _) = live_until(&world, &CrashPoint::after(steps));
        for again in 0..60 {
            let world = world.after_kill();
            let crash = CrashPoint::after(again);
            world.home.crash_at(Arc::clone(&crash));
            // All rounds share the files: the removals can be repeated.
            let faults = Faults::new(6).crash_at(Arc::clone(&crash));
            drop(world.try_open_through(Arc::new(FaultyFs::new(world.files.clone(), faults))));
            let left = world.after_kill();
            let store = left.open();
            for (n, allowed) in &right {
                assert!(allowed.contains(&fetch(&store, *n)), "killed at {steps}, then at {again}: {n}");
            }
            if !crash.has_come() {
                break;
            }
        }
    }
}

fn power_loss_serves_nothing_wrong_and_repair_ends(architecture: &str) {
    let mut survived = 0;
    for seed in 0..150 {
        let world = World::new(architecture, 3 << 20, 200);
        let mut versions: HashMap<u64, Vec<Object>> = HashMap::new();
        let mut random = Random(seed);
        let store = world.open();
        for version in 0..random.below(150) {
            let n = random.below(30);
            let length = random.below(100_000) as usize;
            match random.below(12) {
                0 => drop(store.remove(&key(n))),
                1 if random.below(3) == 0 => store.close().unwrap(),
                _ => {
                    put(&store, n, version, length).unwrap();
                    let object = (metadata_of(n, version, length), body_of(n, version, length));
                    versions.entry(n).or_default().push(object);
                }
            }
        }
        let lost = world.after_power_loss(seed);
        let after = lost.open();
        for round in 0..2 {
            for (n, versions) in &versions {
                let Some(found) = fetch(&after, *n) else { continue };
                assert!(versions.contains(&found), "seed {seed}: {n} is a version that never was");
                survived += 1;
            }
            if round == 0 {
                put(&after, 77, 1, 30_000).ok();
                maintain(&after.core);
            }
        }
        check_books(&lost, &after);
        assert!(after.usage().bytes <= after.usage().bytes_max, "seed {seed}");
        put(&after, 78, 1, 30_000).unwrap();
        assert!(matches(&after, 78, 1, 30_000));
        assert_eq!(after.core.index.audit_step(), None);
    }
    assert!(survived > 1000, "{survived}");
}

fn power_lost_after_an_orderly_close_loses_nothing(architecture: &str) {
    for seed in 0..20 {
        let world = World::new(architecture, 10 << 20, 200);
        let store = world.open();
        (0..40).for_each(|n| put(&store, n, n, 2_000).unwrap());
        store.close().unwrap();
        let lost = world.after_power_loss(seed);
        let after = lost.open();
        assert_eq!(after.core.index.audit_step(), None);
        assert!((0..40).all(|n| matches(&after, n, n, 2_000)));
    }
}

fn object_replaced_after_power_loss_stays_away(architecture: &str) {
    for seed in 0..60 {
        let world = World::new(architecture, 10 << 20, 200);
        let store = world.open();
        (0..20).for_each(|n| put(&store, n, 1, 2_000).unwrap());
        store.close().unwrap();
        (0..20).for_each(|n| put(&store, n, 2, 2_000).unwrap());
        let lost = world.after_power_loss(seed);
        let after = lost.open();
        (0..10).for_each(|n| put(&after, n, 3, 2_000).unwrap());
        for n in 10..20 {
            after.remove(&key(n)).unwrap();
        }
        maintain(&after.core);
        for n in 0..10 {
            let metadata = fetch(&after, n).map(|found| String::from_utf8(found.0).unwrap());
            assert!(matches(&after, n, 3, 2_000), "seed {seed}: {n} is {metadata:?}");
        }
        check_books(&lost, &after);
    }
}
