//! Limits of bytes and objects, also in a burst, and survival of a full or failing disk.

use super::world::{Random, check_books, fetch, maintain, objects_on_disk};
use super::*;
use crate::StoreView;
use crate::architectures::files::FileStore;
use crate::architectures::maintenance::BackgroundWork;
use crate::fs::{Faults, FaultyFs};
use crate::{Error, InsertRefusal, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

for_each_architecture! {
    bytes_stay_under_the_limit_and_objects_in_use_stay,
    the_number_of_objects_is_limited_too,
    requested_objects_stay_longest,
    when_all_is_in_use_an_insert_is_declined,
    burst_of_unknown_lengths_stays_under_limit,
    concurrent_threads_never_see_a_wrong_body,
    a_repair_of_a_sound_store_drops_nothing,
    full_disk_declines_inserts_and_keeps_serving,
    a_failing_disk_costs_misses_and_declines_only,
    a_lowered_limit_is_come_down_to,
    too_small_limit_error_states_least_size,
}

for_each_architecture_of_files! {
    a_dead_disk_is_out_of_service_and_comes_back,
}

fn bytes_stay_under_the_limit_and_objects_in_use_stay(architecture: &str) {
    let world = World::new(architecture, 4 << 20, 1000);
    let store = world.open();
    put(&store, 0, 1, 200_000).unwrap();
    let held = store.open(&key(0)).unwrap().unwrap();
    for n in 1..500 {
        put(&store, n, 1, 20_000 + n as usize * 50).unwrap();
        assert!(store.usage().bytes <= store.usage().bytes_max);
        assert!(matches(&store, n, 1, 20_000 + n as usize * 50));
    }
    assert!(store.usage().evictions > 300);
    assert!(world.files.most_used() <= World::file_bytes(&store));
    assert!(matches(&store, 0, 1, 200_000));
    assert_eq!(held.body.length(), 200_000);
}

fn the_number_of_objects_is_limited_too(architecture: &str) {
    let world = World::new(architecture, 100 << 20, 40);
    let store = world.open();
    for n in 0..300 {
        put(&store, n, 1, 100).unwrap();
        assert!(store.usage().objects <= 40);
    }
    assert_eq!(objects_on_disk(&world, &store), 40);
    assert_eq!((0..300).filter(|n| fetch(&store, *n).is_some()).count(), 40);
}

fn requested_objects_stay_longest(architecture: &str) {
    let world = World::new(architecture, 100 << 20, 100);
    let store = world.open();
    for n in 0..1000 {
        put(&store, n, 1, 100).unwrap();
        for popular in 0..10.min(n) {
            assert!(store.open(&key(popular)).unwrap().is_some(), "{popular} after {n}");
        }
    }
}

fn when_all_is_in_use_an_insert_is_declined(architecture: &str) {
    let world = World::new(architecture, 2 << 20, 100);
    let store = world.open();
    let mut held = Vec::new();
    let refused = (0..100).find_map(|n| match put(&store, n, 1, 100_000) {
        Ok(()) => {
            held.push(store.open(&key(n)).unwrap().unwrap());
            None
        }
        Err(error) => Some(error),
    });
    assert!(matches!(refused, Some(Error::Declined(InsertRefusal::NoSpace))), "{refused:?}");
    held.clear();
    put(&store, 200, 1, 100_000).unwrap();
}

fn burst_of_unknown_lengths_stays_under_limit(architecture: &str) {
    let world = World::new(architecture, 8 << 20, 500);
    let store = world.open();
    let declined = AtomicU64::new(0);
    thread::scope(|scope| {
        for worker in 0..8_u64 {
            let (store, declined) = (&store, &declined);
            scope.spawn(move || {
                let mut random = Random(worker);
                for round in 0..60 {
                    let n = random.below(200);
                    let length = random.below(900_000) as usize;
                    match put(store, n, worker << 32 | round << 1, length) {
                        Ok(()) => {}
                        Err(Error::Declined(InsertRefusal::NoSpace)) => drop(declined.fetch_add(1, Relaxed)),
                        Err(error) => panic!("{error}"),
                    }
                    assert!(store.usage().bytes <= store.usage().bytes_max);
                }
            });
        }
    });
    assert!(world.files.most_used() <= World::file_bytes(&store));
    assert!(declined.into_inner() < 240, "most find room");
    check_books(&world, &store);
}

/// Runs threads that open, insert, update, remove and evict several times the store's size, while
/// `meanwhile` runs again and again. No body is wrong, and none counts as corrupt.
fn disturb(architecture: &str, seed: u64, meanwhile: impl Fn(&FileStore) + Sync) {
    let world = World::new(architecture, 6 << 20, 300);
    let store = world.open();
    let (served, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let work = |worker: u64| {
        let mut random = Random(seed << 8 | worker);
        for round in 0..400 {
            let n = random.below(60);
            let length = 1000 + (n as usize * 7919) % 150_000;
            match random.below(10) {
                0..3 => drop(put(&store, n, n, length)),
                3 => {
                    drop(store.update_metadata(&key(n), &vec![b'm'; random.below(3000) as usize], &|_| true))
                }
                4 if round % 4 == 0 => drop(store.remove(&key(n)).unwrap()),
                _ => {
                    if let Some(stored) = store.open(&key(n)).unwrap() {
                        assert_eq!(stored.body.read(0, usize::MAX).unwrap(), body_of(n, n, length));
                        served.fetch_add(1, Relaxed);
                    }
                }
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..6).map(|worker| scope.spawn(move || work(worker))).collect();
        scope.spawn(|| {
            while !done.load(Relaxed) {
                meanwhile(&store);
                thread::yield_now();
            }
        });
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        done.store(true, Relaxed);
    });
    assert!(served.into_inner() > 300);
    assert_eq!(store.usage().corrupt, 0, "seed {seed}");
    maintain(&store.core);
    assert_eq!(store.usage().corrupt, 0, "seed {seed}");
    check_books(&world, &store);
}

fn concurrent_threads_never_see_a_wrong_body(architecture: &str) {
    for seed in 1..3 {
        disturb(architecture, seed, |_| {});
    }
}

/// A repair during all this compares entries with files that come and go.
fn a_repair_of_a_sound_store_drops_nothing(architecture: &str) {
    for seed in 11..13 {
        disturb(architecture, seed, |store| {
            store.core.index.report_damage();
            store.core.maintain();
        });
    }
}

fn full_disk_declines_inserts_and_keeps_serving(architecture: &str) {
    let world = World::new(architecture, 100 << 20, 1000);
    let store = world.open();
    put(&store, 1, 1, 50_000).unwrap();
    world.files.resize(world.files.used());
    for n in 2..6 {
        let refused = put(&store, n, 1, 50_000);
        assert!(matches!(refused, Err(Error::Declined(InsertRefusal::NoSpace))), "{refused:?}");
    }
    assert!(matches(&store, 1, 1, 50_000));
    check_books(&world, &store);
    world.files.resize(1 << 30);
    put(&store, 2, 1, 50_000).unwrap();
}

fn a_failing_disk_costs_misses_and_declines_only(architecture: &str) {
    for seed in 0..20 {
        let world = World::new(architecture, 4 << 20, 300);
        drop(world.open());
        let faults = Faults::new(seed).errors(60).full(30).torn(60);
        let faulty = Arc::new(FaultyFs::new(world.files.clone(), faults));
        let opened = (0..99).find_map(|_| world.try_open_through(faulty.clone()).ok());
        let store = opened.expect("not every try fails");
        let mut random = Random(seed);
        let mut versions = std::collections::HashMap::new();
        for version in 0..400 {
            let n = random.below(50);
            let length = random.below(150_000) as usize;
            match random.below(4) {
                0 => {
                    if put(&store, n, version, length).is_ok() {
                        versions.insert(n, (version, length));
                    }
                }
                1 => drop(store.remove(&key(n)).map(|_| versions.remove(&n))),
                _ => {
                    if let Some((_, body)) = fetch(&store, n) {
                        let (version, length) = versions[&n];
                        assert_eq!(body, body_of(n, version, length), "seed {seed}");
                    }
                }
            }
            assert!(store.usage().bytes <= store.usage().bytes_max, "seed {seed}");
        }
    }
}

fn a_dead_disk_is_out_of_service_and_comes_back(architecture: &str) {
    let world = World::new(architecture, 100 << 20, 1000);
    drop(world.open());
    let faults = Faults::new(1).errors(1000);
    let dead = Arc::new(FaultyFs::new(world.files.clone(), faults));
    // The first call is the opening's question for space, which a dead disk does not answer.
    assert!(matches!(world.try_open_through(dead), Err(Error::Unusable(_))));
    let switch = Arc::new(Switch { inner: world.files.clone(), broken: Default::default() });
    let store = world.open_through(switch.clone());
    switch.broken.store(true, Relaxed);
    let errors: Vec<_> = (0..200).map(|n| put(&store, n, 1, 10).unwrap_err()).collect();
    let out_of_service = |error: &&Error| matches!(error, Error::Declined(InsertRefusal::OutOfService));
    assert!(errors.iter().filter(out_of_service).count() > 150);
    switch.broken.store(false, Relaxed);
    let recovered = (0..200).filter(|n| put(&store, *n, 1, 10).is_ok()).count();
    assert!(recovered > 100, "{recovered}");
}

fn a_lowered_limit_is_come_down_to(architecture: &str) {
    let mut world = World::new(architecture, 20 << 20, 300);
    let store = world.open();
    (0..150).for_each(|n| put(&store, n, 1, 100_000).unwrap());
    store.close().unwrap();
    drop(store);
    world.settings.disk_bytes = 8 << 20;
    let store = world.open();
    assert!(store.usage().bytes > store.usage().bytes_max);
    maintain(&store.core);
    assert!(store.usage().bytes <= store.usage().bytes_max);
    assert!(store.usage().objects > 50);
    check_books(&world, &store);
}

fn too_small_limit_error_states_least_size(architecture: &str) {
    let world = World::new(architecture, 100_000, 1000);
    let message = world.try_open_through(world.files.clone()).err().expect("refused").to_string();
    assert!(message.contains("100000") && message.contains("raise the limit"), "{message}");
}

/// File system that can be broken and mended.
struct Switch {
    inner: Arc<crate::fs::MemoryFs>,
    broken: std::sync::atomic::AtomicBool,
}

impl Switch {
    fn check(&self) -> std::io::Result<&crate::fs::MemoryFs> {
        if self.broken.load(Relaxed) { Err(rustix::io::Errno::IO.into()) } else { Ok(&self.inner) }
    }
}

impl crate::fs::FileSystem for Switch {
    fn create(&self, path: &str) -> std::io::Result<Box<dyn crate::fs::File>> {
        self.check()?.create(path)
    }

    fn open(&self, path: &str, access: crate::fs::Access) -> std::io::Result<Box<dyn crate::fs::File>> {
        self.check()?.open(path, access)
    }

    fn length(&self, path: &str) -> std::io::Result<u64> {
        self.check()?.length(path)
    }

    fn unlink(&self, path: &str) -> std::io::Result<()> {
        self.check()?.unlink(path)
    }

    fn make_folder(&self, path: &str) -> std::io::Result<bool> {
        self.check()?.make_folder(path)
    }

    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.check()?.rename(from, to)
    }

    fn remove_folder(&self, path: &str) -> std::io::Result<()> {
        self.check()?.remove_folder(path)
    }

    fn list(&self, path: &str, limit: usize) -> std::io::Result<Vec<String>> {
        self.check()?.list(path, limit)
    }

    fn space(&self) -> std::io::Result<crate::fs::Space> {
        self.check()?.space()
    }

    fn map(&self, path: &str, bytes: u64) -> std::io::Result<Box<dyn crate::fs::Mapping>> {
        self.check()?.map(path, bytes)
    }

    fn sync(&self) -> std::io::Result<()> {
        self.check()?.sync()
    }
}
