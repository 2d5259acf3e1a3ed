//! Pinned objects: replacement spares them within the budget, and nothing else.

use super::super::PinSettings;
use super::*;
use crate::{PromptStore, StoreUpkeep};

/// Version of pinned objects.
const PINNED: u32 = 9;

/// Returns a small volume that spares this number of bytes.
fn world(bytes_max: u64) -> World {
    let mut world = World::new(8 << 20);
    world.settings.volume.pins =
        PinSettings { bytes_max, is_pinned: |metadata| metadata.starts_with(b"version 9 ") };
    world
}

/// Writes objects that nobody asks for, about this number of laps of the volume.
fn fill(store: &VolumeStore, laps: u32, first: u32) {
    for number in 0..laps * (8 << 20) / 20_000 {
        // A stretch of stripes that stay declines some.
        let _ = put(store, first + number, 1, 20_000);
        if number % 8 == 0 {
            let _ = store.flush_due(key(number).hash());
        }
    }
    store.write_all();
}

/// Returns the number of these objects that are stored, each with its own body.
fn stored(store: &VolumeStore, numbers: std::ops::Range<u32>, version: u32, length: usize) -> usize {
    numbers.filter(|number| holds(store, *number, version, length)).count()
}

fn holds(store: &VolumeStore, number: u32, version: u32, length: usize) -> bool {
    let Some(object) = store.open(&key(number)).expect("the disk is sound") else { return false };
    assert_eq!(object.metadata, metadata_of(version, length));
    let body = object.body.read(0, length).expect("it is whole");
    assert_eq!(body[..], body_of(number, version, length)[..body.len()]);
    true
}

#[test]
fn pinned_objects_outlast_laps_and_restarts() {
    let world = world(2 << 20);
    let store = world.open();
    (0..20).for_each(|number| put(&store, number, PINNED, 5000).expect("there is room"));
    (20..40).for_each(|number| put(&store, number, 1, 5000).expect("there is room"));
    put(&store, 40, PINNED, 700_000).expect("there is room");
    fill(&store, 3, 1000);
    drop(store);
    let store = world.open();
    fill(&store, 2, 10_000);
    assert_eq!(stored(&store, 0..20, PINNED, 5000), 20);
    assert_eq!(stored(&store, 20..40, 1, 5000), 0, "they are not pinned");
    assert_eq!(stored(&store, 40..41, PINNED, 700_000), 1, "a large one");
}

#[test]
fn pinned_bytes_stay_within_the_budget() {
    let world = world(1 << 20);
    let store = world.open();
    (0..300).for_each(|number| drop(put(&store, number, PINNED, 10_000)));
    fill(&store, 3, 1000);
    let kept = stored(&store, 0..300, PINNED, 10_000);
    assert!((50..=105).contains(&kept), "{kept} of 10 KB each in a budget of 1 MiB");
    assert!(store.volume.writer.lock().pinned.total_bytes() <= 1 << 20);
    // Nothing is spared without a budget.
    let without = World { settings: super::World::new(8 << 20).settings, ..world.same() };
    drop(store);
    let store = without.open();
    fill(&store, 2, 10_000);
    assert_eq!(stored(&store, 0..300, PINNED, 10_000), 0);
}

/// Pinned newcomers to a full volume need no second request, as long as they would be spared.
#[test]
fn pins_beyond_the_budget_are_on_probation() {
    let mut world = world(1 << 20);
    world.settings.volume.admission = Admission::Probation;
    let store = world.open();
    let mut number = 100_000;
    while !store.volume.directory.is_full() {
        let _ = put(&store, number, 1, 20_000);
        number += 1;
    }
    store.write_all();
    let admitted =
        |from: u32| (from..from + 200).filter(|it| put(&store, *it, PINNED, 10_000).is_ok()).count();
    let first = admitted(0);
    assert!((90..=104).contains(&first), "{first} of 10 KB each in a budget of 1 MiB");
    assert_eq!(admitted(200), 0, "nor later ones, in one lap");
    // Those asked for again are admitted, and so are replacements.
    let again = |from: u32| (from..from + 10).filter(|it| put(&store, *it, PINNED, 10_000).is_ok()).count();
    assert_eq!((again(200), again(0)), (10, 10));
    store.write_all();
    let at_once = |number: u32| {
        let body = vec![1; 10_000].into();
        store.try_insert(&key(number), &metadata_of(PINNED, 10_000), &body, &|| true)
    };
    let outcome = at_once(900);
    assert!(matches!(outcome, Err(Error::Declined(crate::InsertRefusal::OnProbation))), "{outcome:?}");
    // Once they are removed and the log has come round, others have the room.
    for number in 0..400 {
        store.remove(&key(number)).expect("the disk is sound");
    }
    for number in 0..3 * (8 << 20) / 20_000 {
        let _ = put(&store, 200_000 + number, 1, 20_000);
        let _ = put(&store, 200_000 + number, 1, 20_000);
        if number % 8 == 0 {
            store.write_all();
        }
    }
    assert!(put(&store, 5000, PINNED, 10_000).is_ok());
}

#[test]
fn log_goes_on_behind_a_long_pinned_stretch() {
    // 92 stripes stay in a row, more than one search looks at.
    let mut world = world(24 << 20);
    world.settings.disk_bytes = 48 << 20;
    world.settings.max_objects = 10_000;
    let store = world.open();
    (0..2).for_each(|number| put(&store, number, PINNED, 9_000_000).expect("there is room"));
    for number in 2..12_000 {
        let _ = put(&store, number, 1, 20_000);
        if number % 8 == 0 {
            let _ = store.flush_due(key(number).hash());
        }
    }
    store.write_all();
    assert_eq!(stored(&store, 0..2, PINNED, 9_000_000), 2);
    assert!(stored(&store, 11_900..12_000, 1, 20_000) > 50, "later objects are stored");
}

#[test]
fn objects_that_are_pinned_no_longer_go() {
    let world = world(2 << 20);
    let store = world.open();
    put(&store, 0, PINNED, 700_000).expect("there is room");
    put(&store, 1, PINNED, 5000).expect("there is room");
    store.write_all();
    for (number, length) in [(0, 700_000), (1, 5000)] {
        let updated = store.update_metadata(&key(number), &metadata_of(1, length), &|_| true);
        assert!(updated.expect("the disk is sound"));
    }
    fill(&store, 3, 1000);
    assert_eq!(stored(&store, 0..1, 1, 700_000) + stored(&store, 1..2, 1, 5000), 0);
}

#[test]
fn removals_reach_the_disk_within_a_pinned_stretch() {
    let mut world = world(24 << 20);
    world.settings.disk_bytes = 48 << 20;
    world.settings.max_objects = 10_000;
    let store = world.open();
    (0..2).for_each(|number| put(&store, number, PINNED, 9_000_000).expect("there is room"));
    let mut next = 2;
    // The log comes round, up to the stretch.
    while store.volume.writer.lock().take_examined() == 0 {
        let _ = put(&store, next, 1, 20_000);
        next += 1;
        assert!(next < 12_000, "the stretch is never met");
    }
    assert!(store.remove(&key(next - 200)).is_ok());
    store.write_all();
}

#[test]
fn replaced_and_removed_objects_are_not_spared() {
    let world = world(2 << 20);
    let store = world.open();
    (0..20).for_each(|number| put(&store, number, PINNED, 5000).expect("there is room"));
    store.write_all();
    (0..10).for_each(|number| put(&store, number, 2, 5000).expect("there is room"));
    (10..20).for_each(|number| assert!(store.remove(&key(number)).expect("the disk is sound")));
    fill(&store, 2, 1000);
    assert_eq!(stored(&store, 0..20, 2, 5000), 0);
    assert_eq!(store.volume.writer.lock().pinned.total_bytes(), 0);
}
