//! Reads around an object: other objects of its site and the rest of a body, and no others.

use super::budget::Budget;
use super::*;

/// Inserts objects of seven sites, missed in turn, so that each site's ten lie together in 32 KB of
/// the first stripe. Also fills stripes with others.
fn fill(store: &VolumeStore) {
    for number in 0..70 {
        put(store, number, 1, 3000).unwrap();
    }
    for number in (700..1400).step_by(7) {
        put(store, number, 1, 30_000).unwrap();
    }
    store.write_all();
}

fn filled() -> World {
    let world = World::new(16 << 20);
    let store = world.open();
    fill(&store);
    store.close().unwrap();
    world
}

/// Returns the number of reads and the KiB read for requests of every object of one site.
fn cost_of_site(budget: &Budget, site: u32) -> (u64, u64) {
    let cost = budget.cost(|store| {
        for number in (site..70).step_by(7) {
            assert_eq!(version_of(store, number), Some(1));
        }
    });
    (cost.reads, cost.bytes_read >> 10)
}

fn assert_sites_are_read_whole(budget: &Budget, sites: &[u32]) {
    for site in sites {
        let (reads, kilobytes) = cost_of_site(budget, *site);
        // Two when the first object shares a page with the end of another site.
        assert!(
            reads <= 2 && kilobytes <= 24 + 16 * reads,
            "site {site}: {reads} reads, {kilobytes} KiB for 30 KB"
        );
    }
}

#[test]
fn a_site_is_read_whole_and_nothing_of_others() {
    let budget = Budget::new(&World::new(16 << 20));
    fill(&budget.store);
    assert_sites_are_read_whole(&budget, &[3, 1, 6, 5]);
}

#[test]
fn first_read_after_restart_learns_site_borders() {
    let budget = Budget::new(&filled());
    let (reads, kilobytes) = cost_of_site(&budget, 3);
    assert!((2..=3).contains(&reads) && kilobytes <= 56, "{reads} reads, {kilobytes} KiB");
    assert_sites_are_read_whole(&budget, &[1, 6, 5]);
}

#[test]
fn windows_without_borders_have_full_size() {
    let budget = Budget::new(&filled());
    let volume = &budget.store.volume;
    for stripe in 0..volume.geometry.stripes {
        volume.reader.windows.learn_borders(stripe, &[]);
    }
    let (reads, kilobytes) = cost_of_site(&budget, 3);
    assert!((1..=2).contains(&reads) && kilobytes == reads * 56, "{reads} reads, {kilobytes} KiB");
}

#[test]
fn without_windows_nothing_is_learnt() {
    let mut world = filled();
    world.settings.volume.window_bytes = 0;
    let budget = Budget::new(&world);
    assert_eq!(cost_of_site(&budget, 3).0, 10);
}

#[test]
fn of_a_body_in_pieces_several_come_with_one_read() {
    let world = World::new(16 << 20);
    let budget = Budget::new(&world);
    // Two bodies that arrive at the same time.
    let length = 110_000;
    let mut inserts: Vec<_> = (0..2)
        .map(|number| {
            let metadata = metadata_of(1, length);
            budget.store.insert(&key(number), &metadata, Some(length as u64)).unwrap()
        })
        .collect();
    let bodies = [body_of(0, 1, length), body_of(1, 1, length)];
    for at in (0..length).step_by(10_000) {
        for (insert, body) in inserts.iter_mut().zip(&bodies) {
            insert.append(&body[at..length.min(at + 10_000)]).unwrap();
        }
    }
    inserts.into_iter().for_each(|insert| insert.commit(None).unwrap());
    budget.store.write_all();
    for number in 0..2 {
        let cost = budget.cost(|store| assert_eq!(version_of(store, number), Some(1)));
        // One for the object's own record, perhaps read with the other's, and one for both pieces.
        assert!((1..=2).contains(&cost.reads), "{} reads", cost.reads);
        assert!(cost.bytes_read <= 190_000, "{} bytes for 110,000", cost.bytes_read);
    }
}

#[test]
fn next_pieces_of_a_body_are_near() {
    let world = World::new(16 << 20);
    let budget = Budget::new(&world);
    let length = 300_000;
    put(&budget.store, 1, 1, length).unwrap();
    budget.store.write_all();
    let stored = budget.store.open(&key(1)).unwrap().expect("it is there");
    let (body, whole) = (stored.body, body_of(1, 1, length));
    let (mut at, mut near) = (0, 0);
    while at < length {
        let there = body.read_near(at as u64, 64 << 10);
        near += usize::from(there.is_some());
        let bytes = there.unwrap_or_else(|| body.read(at as u64, 64 << 10).unwrap());
        assert_eq!(bytes, whole[at..at + bytes.len()]);
        at += bytes.len();
    }
    assert!(near >= 2, "{near} of 5 pieces came with others");
    assert!(body.read_near(length as u64 + 1, 1).is_none());
}
