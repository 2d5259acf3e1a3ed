//! Cost of each call, counted at the file system.

use super::*;
use crate::fs::{Calls, CountingFs};

pub(super) struct Budget {
    counted: Arc<CountingFs>,
    pub(super) store: VolumeStore,
}

impl Budget {
    pub(super) fn new(world: &World) -> Self {
        let counted = Arc::new(CountingFs::new(world.files.clone()));
        let store = world.try_open(counted.clone()).unwrap();
        Self { counted, store }
    }

    pub(super) fn cost(&self, work: impl FnOnce(&VolumeStore)) -> Calls {
        self.counted.take();
        work(&self.store);
        self.counted.take()
    }
}

#[test]
fn a_miss_makes_no_call() {
    let budget = Budget::new(&World::new(8 << 20));
    for number in 0..100 {
        put(&budget.store, number, 1, 5000).unwrap();
    }
    let cost = budget.cost(|store| {
        for number in 1000..2000 {
            assert_eq!(version_of(store, number), None);
        }
    });
    assert!(cost.reads <= 1 && cost.writes == 0, "{cost:?}");
}

#[test]
fn a_hit_of_up_to_a_piece_makes_one_read_at_most() {
    let mut world = World::new(16 << 20);
    world.settings.volume.window_bytes = 0;
    let budget = Budget::new(&world);
    for number in 0..100 {
        put(&budget.store, number, 1, number as usize * 655).unwrap();
    }
    budget.store.write_all();
    for number in 0..100 {
        let cost = budget.cost(|store| assert_eq!(version_of(store, number), Some(1)));
        assert_eq!((cost.reads, cost.writes, cost.opens), (1, 0, 0), "object {number}");
    }
}

#[test]
fn neighbours_come_with_one_read() {
    let budget = Budget::new(&World::new(16 << 20));
    for number in 0..300 {
        put(&budget.store, number, 1, 1500).unwrap();
    }
    budget.store.write_all();
    let cost = budget.cost(|store| {
        for number in 0..300 {
            assert_eq!(version_of(store, number), Some(1));
        }
    });
    assert!(cost.reads <= 30, "{} reads for 300 objects missed one after the other", cost.reads);
}

#[test]
fn interleaved_objects_of_a_site_take_one_read() {
    let budget = Budget::new(&World::new(16 << 20));
    for number in 0..100 {
        put(&budget.store, number, 1, 1500).unwrap();
    }
    budget.store.write_all();
    let cost = budget.cost(|store| {
        for number in (0..100).step_by(7) {
            assert_eq!(version_of(store, number), Some(1));
        }
    });
    assert!(cost.reads <= 3, "{} reads for the 15 objects of one of seven sites", cost.reads);
}

#[test]
fn inserts_are_written_as_whole_stripes() {
    let mut world = World::new(64 << 20);
    world.settings.volume.stripe_bytes = 1 << 20;
    let budget = Budget::new(&world);
    let mut random = Random(1);
    let mut admitted = 0;
    let cost = budget.cost(|store| {
        for number in 0..1500 {
            let length = 500 + random.below(19_000) as usize;
            put(store, number, 1, length).unwrap();
            admitted += (length + metadata_of(1, length).len() + key(number).full().len()) as u64;
        }
        store.write_all();
    });
    let stripes = admitted.div_ceil(1 << 20) + 2;
    // The index's header first records that the store is in use.
    assert!(cost.writes <= stripes + 1, "{} writes for {stripes} stripes", cost.writes);
    let percent = cost.bytes_written as f64 / admitted as f64;
    assert!(percent <= 1.02, "{percent} bytes written for a byte admitted");
}

#[test]
fn opening_costs_the_same_at_any_size() {
    let cost_of = |megabytes: u64| {
        let mut world = World::new(megabytes << 20);
        world.settings.max_objects = 100_000;
        let store = world.open();
        for number in 0..megabytes as u32 * 20 {
            put(&store, number, 1, 30_000).unwrap();
        }
        store.close().unwrap();
        drop(store);
        let counted = Arc::new(CountingFs::new(world.files.clone()));
        drop(world.try_open(counted.clone()).unwrap());
        counted.take().reads
    };
    assert_eq!(cost_of(8), cost_of(64));
}
