//! Notes of replacement on small objects survive an orderly close, and outdated notes do no harm.

use super::*;
use crate::StoreView;
use crate::architectures::SegmentPolicy;
use crate::architectures::files::FileStore;

for_each_with_segments! {
    requested_objects_stay_after_orderly_close,
    without_a_close_in_order_all_begin_alike,
    notes_of_an_older_close_harm_nothing,
    every_policy_serves_stored_objects,
}

const POLICIES: [SegmentPolicy; 4] = [
    SegmentPolicy::Fbc { c_max: 3, a_max: 100 },
    SegmentPolicy::Lru,
    SegmentPolicy::FbcResident { c_max: 3, a_max: 100 },
    SegmentPolicy::LruResident,
];
/// Objects with many hits.
const POPULAR: u64 = 10;

fn tight_with(architecture: &str, policy: SegmentPolicy) -> World {
    let mut world = tight(architecture);
    world.settings.segments.policy = policy;
    world
}

fn length() -> usize {
    fitting(99_999, 1024)
}

/// Fills the segments of one size; the first objects get many hits. Returns the next number.
fn fill_with_popular(store: &FileStore) -> u64 {
    let mut next = 0;
    while store.usage().evictions == 0 {
        put(store, next, 1, length()).unwrap();
        (0..POPULAR.min(next)).for_each(|n| drop(store.open(&key(n)).unwrap()));
        next += 1;
    }
    next
}

/// Returns the number of popular objects left after new ones that fill all but a few segments.
fn left_after_new_ones(store: &FileStore, next: u64) -> usize {
    maintain(&store.core);
    (next..next + next - 2 * POPULAR).for_each(|n| put(store, n, 1, length()).unwrap());
    (0..POPULAR).filter(|n| matches(store, *n, 1, length())).count()
}

fn requested_objects_stay_after_orderly_close(architecture: &str) {
    for policy in POLICIES {
        let world = tight_with(architecture, policy);
        let store = world.open();
        let next = fill_with_popular(&store);
        store.close().unwrap();
        drop(store);
        let left = left_after_new_ones(&world.open(), next);
        assert_eq!(left as u64, POPULAR, "{policy:?}");
    }
}

fn without_a_close_in_order_all_begin_alike(architecture: &str) {
    for policy in POLICIES {
        let world = tight_with(architecture, policy);
        let store = world.open();
        let next = fill_with_popular(&store);
        drop(store);
        let left = left_after_new_ones(&world.after_kill().open(), next);
        assert!((left as u64) < POPULAR, "{policy:?}: the notes are what made the difference");
    }
}

fn notes_of_an_older_close_harm_nothing(architecture: &str) {
    for policy in POLICIES {
        let world = tight_with(architecture, policy);
        let store = world.open();
        let next = fill_with_popular(&store);
        store.close().unwrap();
        // Removed, or replaced by a file, by a segment of another size and by others. The process
        // is killed after this.
        assert!(store.remove(&key(0)).unwrap());
        put(&store, 1, 2, 20_000).unwrap();
        put(&store, 2, 2, 300).unwrap();
        (next..next + 200).for_each(|n| put(&store, n, 1, length()).unwrap());
        let is_there = |n: &u64| store.may_contain(&key(*n));
        let stored: Vec<u64> = (3..next + 200).filter(is_there).collect();
        let usage = store.usage();
        drop(store);
        let store = world.after_kill().open();
        maintain(&store.core);
        assert_eq!(store.usage().objects, usage.objects, "{policy:?}");
        assert!(!store.may_contain(&key(0)));
        assert!(matches(&store, 1, 2, 20_000) && matches(&store, 2, 2, 300));
        assert!(stored.iter().all(|n| matches(&store, *n, 1, length())), "{policy:?}");
        (0..300).for_each(|n| put(&store, 50_000 + n, 1, length()).unwrap());
        assert_eq!(store.usage().corrupt, 0, "{policy:?}");
    }
}

fn every_policy_serves_stored_objects(architecture: &str) {
    for policy in POLICIES {
        let world = tight_with(architecture, policy);
        let mut store = world.open();
        let mut random = Random(3);
        let mut served = 0;
        for step in 0..3_000 {
            let n = random.below(60) * random.below(60);
            match fetch(&store, n) {
                Some(found) => {
                    assert_eq!(found.1, body_of(n, 1, n as usize * 7 % 9_000), "{policy:?}: {n}");
                    served += 1;
                }
                None => put(&store, n, 1, n as usize * 7 % 9_000).unwrap(),
            }
            if step % 1_000 == 999 {
                store.close().unwrap();
                drop(store);
                store = world.open();
                maintain(&store.core);
            }
        }
        let usage = store.usage();
        assert!(served > 300 && usage.corrupt == 0 && usage.bytes <= usage.bytes_max, "{served}, {usage:?}");
    }
}
