//! A disk that hangs, beside one that does not.

use super::super::invalidations::Invalidations;
use super::disk_queues::PATIENCE;
use super::hanging::{UNWRITABLE, World, key, until};
use super::*;
use std::time::Instant;

impl World {
    /// Waits until the disk has hung for a client's patience, and is known to hang.
    async fn hang(&self) {
        assert!(find(&self.objects, &key(0, 0)).await && self.objects.disk_queue(0).hangs());
    }
}

/// Returns `true` if the lookup misses the object.
async fn find(objects: &HybridCache, key: &ObjectKey) -> bool {
    let invalidations = Invalidations::new();
    objects.find((key, Urgency::Demand), || invalidations.snapshot(key)).await.is_none()
}

#[tokio::test]
async fn hanging_disk_delays_no_other_disk() {
    let world = World::new(100);
    let hung: Vec<_> = (0..8)
        .map(|number| {
            let objects = Arc::clone(&world.objects);
            tokio::spawn(async move { find(&objects, &key(0, number)).await })
        })
        .collect();
    tokio::task::yield_now().await;
    let begun = Instant::now();
    for number in 0..100 {
        assert!(find(&world.objects, &key(1, number)).await);
    }
    assert_eq!(world.metrics.disk_corrupt.value(), 100, "the other disk has answered");
    assert!(begun.elapsed() < PATIENCE, "and nobody waited for the one that hangs");
    for waiting in hung {
        assert!(waiting.await.expect("it ends"), "a miss");
    }
    assert_eq!(world.metrics.disk_slow.value() + world.metrics.disk_busy.value(), 8);
    world.close();
}

#[tokio::test]
async fn known_hanging_disk_is_skipped_until_it_answers() {
    let world = World::new(100);
    world.hang().await;
    let begun = Instant::now();
    for number in 0..100 {
        assert!(find(&world.objects, &key(0, number)).await, "a miss");
        let other = key(0, 200 + number);
        world.objects.insert_marker(&other, note(), &valid(&other)).await;
    }
    assert!(begun.elapsed() < 20 * PATIENCE, "two hundred did not wait");
    assert!(world.metrics.disk_busy.value() >= 200, "each is counted");
    world.answer();
    until(|| !world.objects.disk_queue(0).hangs()).await;
    let (asked, other) = (world.metrics.disk_corrupt.value(), key(0, 300));
    find(&world.objects, &key(0, 99)).await;
    assert_eq!(world.metrics.disk_corrupt.value(), asked + 1, "the disk is asked again");
    world.objects.insert_marker(&other, note(), &valid(&other)).await;
    assert!(world.keys.lock().contains(&other.hash()), "and takes objects again");
    world.close();
}

#[tokio::test]
async fn removal_on_hanging_disk_hides_at_once() {
    let world = World::new(10);
    world.hang().await;
    let begun = Instant::now();
    for number in 0..5 {
        let hidden = RemovalResult { was_there: true, lasts: false };
        assert_eq!(world.objects.remove(&key(0, number)).await, hidden, "the disk has not been told");
    }
    assert!(begun.elapsed() < 4 * PATIENCE, "five did not wait");
    world.answer();
    until(|| !world.objects.disk_queue(0).hangs()).await;
    let corrupt = world.metrics.disk_corrupt.value();
    for number in 0..5 {
        assert!(find(&world.objects, &key(0, number)).await, "{number} has been removed");
    }
    assert_eq!(world.metrics.disk_corrupt.value(), corrupt, "and the disk has not been asked for it");
    until(|| (0..5).all(|number| !world.keys.lock().contains(&key(0, number).hash()))).await;
    assert!((5..10).all(|number| world.keys.lock().contains(&key(0, number).hash())));
    until(|| (0..5).all(|number| !world.objects.removals.is_hidden(&key(0, number)))).await;
    world.close();
}

/// The result tells the caller: the object may be there again after the next start.
#[tokio::test]
async fn removals_that_fail_do_not_pass_for_done() {
    let world = World::new(10);
    assert_eq!(world.objects.remove(&key(1, 3)).await, RemovalResult { was_there: true, lasts: true });
    assert_eq!(world.objects.remove(&key(1, 3)).await, RemovalResult { was_there: false, lasts: true });
    assert!(!world.objects.remove(&key(1, UNWRITABLE)).await.lasts);
    world.close();
}

#[tokio::test]
async fn removals_beyond_limit_fail_hanging_disk() {
    let world = World::new(3);
    world.hang().await;
    for number in 0_u64.. {
        if world.objects.removals.hide(&ObjectKey::new(number.to_le_bytes()))
            == removals::HideOutcome::Refused
        {
            break;
        }
    }
    for number in 0..3 {
        let removed = tokio::time::timeout(3 * PATIENCE, world.objects.remove(&key(0, number))).await;
        assert!(removed.is_ok(), "nobody waits for it without a limit");
        assert!(!world.objects.on_disk(&key(0, number)));
    }
    assert!(world.objects.on_disk(&key(1, 0)), "the other disk is not given up");
    assert!(world.objects.remove(&key(1, 0)).await.was_there);
    world.close();
}

#[tokio::test]
async fn late_insert_is_undone() {
    let world = World::new(0);
    let begun = Instant::now();
    let wanted = key(0, 1);
    world.objects.insert_marker(&wanted, note(), &valid(&wanted)).await;
    assert!(begun.elapsed() < 3 * PATIENCE, "the client waits no longer than that");
    assert_eq!(world.metrics.disk_slow.value(), 1);
    // Meanwhile a newer object may exist that the disk does not accept.
    world.answer();
    let pool = world.objects.disk_queue(0).pool().finished();
    until(|| world.objects.disk_queue(0).pool().finished() > pool || !world.objects.disk_queue(0).hangs())
        .await;
    assert!(world.keys.lock().is_empty(), "the older one is not left on the disk");
    world.close();
}

fn note() -> ObjectMetadata {
    let head = super::super::metadata::VaryMarker { generation: 1, lists: Vec::new(), is_pinned: false };
    ObjectMetadata::Vary(Arc::new(head))
}

fn valid(key: &ObjectKey) -> ValiditySnapshot {
    Invalidations::new().snapshot(key)
}
