//! The driver over a disk in RAM.

use super::*;
use shoal_core::Timestamp;
use shoal_policy::ReplacementPolicy;
use shoal_store::architectures::{ArchitectureOptions, StoreEnv, open_store};
use shoal_store::fs::{Access, FileSystem, MemoryFs};
use shoal_trace::{Random, Record};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A clock that moves on by a microsecond at each look.
#[derive(Default)]
struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn nanos(&self) -> u64 {
        self.0.fetch_add(1000, Relaxed)
    }
}

struct World {
    files: Arc<MemoryFs>,
    door: TimingFs,
    store: Arc<dyn Store>,
}

impl World {
    fn new(real_bytes: u64) -> Self {
        let files = Arc::new(MemoryFs::new(real_bytes));
        let door = TimingFs::new(files.clone(), Box::new(Ticks::default()));
        let settings = ArchitectureOptions {
            disk_bytes: 64 << 20,
            max_objects: 2000,
            object_max_bytes: 1 << 20,
            now: Timestamp::from_seconds(1),
            ..ArchitectureOptions::default()
        };
        let parts = StoreEnv::in_memory(Arc::new(door.clone()));
        let store = open_store("squid", &settings, parts).expect("the store opens");
        door.take();
        Self { files, door, store }
    }

    fn driver<'a>(&'a self, trace: &'a Trace, warm_up: usize) -> Driver<'a> {
        let plan = ReplayPlan {
            warm_up,
            in_flight: 1,
            sizes: SizeMeaning::Stored,
            size_change: SizeChange::Identity,
            verify: true,
        };
        Driver { store: &*self.store, trace, plan, keeper: None, door: Some(&self.door) }
    }
}

fn trace(requests: impl IntoIterator<Item = (u64, u64)>) -> Trace {
    let mut trace = Trace::default();
    for (object, bytes) in requests {
        let url = format!("http://h{}.example/{object}", object % 7).into();
        assert!(trace.push(&Record { url, bytes: Some(bytes), ..Record::default() }, 0));
    }
    trace
}

#[test]
fn parts_are_counted_apart() {
    let world = World::new(64 << 20);
    let trace = trace([(1, 5000), (2, 9000), (1, 5000), (3, 200_000), (2, 9000), (3, 200_000), (4, 10)]);
    let mut calls = Vec::new();
    let outcome = world.driver(&trace, 3).run(|part| calls.push((part, world.door.take())), |_| true);
    let (warm_up, measured) = (outcome.warm_up, outcome.measured);
    assert_eq!((warm_up.requests, warm_up.hits, warm_up.bytes, warm_up.hit_bytes), (3, 1, 19_000, 5000));
    assert_eq!((measured.requests, measured.hits), (4, 2));
    assert_eq!((measured.bytes, measured.hit_bytes), (409_010, 209_000));
    assert_eq!((measured.written, measured.wrong, measured.declined(), outcome.end), (2, 0, 0, End::Done));
    assert_eq!([calls[0].0, calls[1].0], [TracePart::WarmUp, TracePart::Measured]);
    // A small miss is a file made and one write; a small hit is a file opened and one read.
    let of = |call| calls[0].1.of(call).calls;
    assert_eq!(
        [CallKind::Create, CallKind::Write, CallKind::Open, CallKind::Read, CallKind::Unlink].map(of),
        [2, 2, 1, 1, 0]
    );
    assert_eq!(calls[0].1.of(CallKind::Open).p50_ns, 1000);
    assert_eq!(calls[0].1.of(CallKind::Close).calls, 3);
    // Sizes are those of whole files.
    assert_eq!(calls[0].1.bytes_written, 14_000);
}

#[test]
fn another_size_counts_by_the_rule() {
    let requests = [(1, 5000), (1, 6000), (1, 6000), (1, 5000)];
    for (rule, hits, changed) in [(SizeChange::Identity, 3, 0), (SizeChange::Version, 1, 2)] {
        let (world, trace) = (World::new(64 << 20), trace(requests));
        let mut driver = world.driver(&trace, 0);
        driver.plan.size_change = rule;
        let measured = driver.run(|_| (), |_| true).measured;
        assert_eq!((measured.hits, measured.changed), (hits, changed), "{rule:?}");
    }
}

#[test]
fn a_policy_of_the_drivers_own_hits_as_its_model() {
    let mut random = Random::new(3);
    let requests: Vec<_> = (0..4000).map(|_| (random.below(20) * random.below(20), 4000)).collect();
    let (world, trace) = (World::new(64 << 20), trace(requests.iter().copied()));
    let lru = ReplacementPolicy::named("lru").expect("a policy");
    let mut driver = world.driver(&trace, 0);
    let keeper = DriverReplacement::new((lru.construct)(), trace.objects().len(), 50 * 4096, 4096);
    driver.keeper = Some(Mutex::new(keeper));
    let measured = driver.run(|_| (), |_| true).measured;
    let mut model: VecDeque<u64> = VecDeque::new();
    let mut hits = 0;
    for (object, _) in requests {
        match model.iter().position(|held| *held == object) {
            Some(at) => {
                hits += 1;
                model.remove(at);
            }
            None if model.len() == 50 => drop(model.pop_front()),
            None => {}
        }
        model.push_back(object);
    }
    assert_eq!(measured.hits, hits);
    assert_eq!((world.store.usage().objects, world.store.usage().evictions), (50, 0));
    assert_eq!(measured.evicted, measured.written - 50);
}

#[test]
fn several_requests_under_way_lose_none() {
    let mut random = Random::new(4);
    let requests: Vec<_> = (0..3000).map(|_| (random.below(300), 1000 + random.below(90_000))).collect();
    let (world, trace) = (World::new(64 << 20), trace(requests));
    let mut driver = world.driver(&trace, 1000);
    driver.plan.in_flight = 4;
    let outcome = driver.run(|_| (), |_| true);
    let (warm_up, measured) = (outcome.warm_up, outcome.measured);
    assert_eq!((warm_up.requests, measured.requests, outcome.end), (1000, 2000, End::Done));
    assert_eq!(measured.hits + measured.written, 2000);
    assert_eq!((measured.wrong, measured.corrupt), (0, 0));
    assert!(measured.hits > 1500, "{}", measured.hits);
}

#[test]
fn full_disk_ends_the_run_and_keeps_its_counts() {
    let world = World::new(1 << 20);
    let trace = trace((0..500).map(|object| (object, 10_000)));
    let outcome = world.driver(&trace, 20).run(|_| (), |_| true);
    assert_eq!(outcome.warm_up.requests, 20);
    assert!((30..120).contains(&outcome.measured.requests), "{:?}", outcome.measured);
    let End::Failed(why) = &outcome.end else { panic!("{:?}", outcome.end) };
    assert!(why.starts_with("could not write 00/"), "{why}");
    assert!(why.contains("full") || why.contains("space"), "{why}");
}

#[test]
fn non_empty_folder_is_no_failed_call() {
    let door = TimingFs::new(Arc::new(MemoryFs::new(1 << 20)), Box::new(Ticks::default()));
    assert!(door.make_folder("00").expect("made"));
    door.create("00/file").map(drop).expect("made");
    door.open("00/absent", Access::Read).map(drop).expect_err("not there");
    door.remove_folder("00").expect_err("not empty");
    let told = door.latest_failed().expect("one call failed");
    assert_eq!((told.call, &*told.path), (CallKind::Open, "00/absent"));
}

#[test]
fn damage_is_a_miss_that_is_counted() {
    let world = World::new(64 << 20);
    let trace = trace([(1, 9000), (1, 9000), (1, 9000)]);
    let path = || world.files.files().into_iter().find(|path| path.contains('/')).expect("an object file");
    let spoil = |at| {
        if at == 1 {
            world.files.tamper(&path(), |bytes| bytes[5000] ^= 1);
        }
        true
    };
    let measured = world.driver(&trace, 0).run(|_| (), spoil).measured;
    assert_eq!((measured.hits, measured.corrupt, measured.written), (1, 1, 2));
}

#[test]
fn a_run_that_is_stopped_tells_how_far_it_came() {
    let world = World::new(64 << 20);
    let trace = trace((0..100).map(|object| (object, 1000)));
    let outcome = world.driver(&trace, 10).run(|_| (), |at| at < 40);
    assert_eq!((outcome.warm_up.requests, outcome.measured.requests), (10, 30));
    assert_eq!(outcome.end, End::Stopped);
    let outcome = world.driver(&trace, 10).run(|_| (), |at| at < 4);
    assert_eq!((outcome.warm_up.requests, outcome.measured.requests), (4, 0));
}
