//! Cost of a power loss, on a simulated clock and a slow disk.

use super::*;
use crate::fs::{Faults, FaultyFs};
use parking_lot::Mutex;
use std::sync::Weak;
use std::time::Duration;

/// Clients that insert at random times, also while the disk works.
struct Traffic {
    now: Mutex<Duration>,
    state: Mutex<TrafficState>,
    /// Volume of the inserts; without one there are none.
    store: Mutex<Weak<Volume>>,
}

struct TrafficState {
    random: Random,
    next: Duration,
    /// Time of each insert, by number.
    inserted: Vec<Duration>,
    /// Mean time between two inserts, in microseconds.
    pause_us: u64,
}

impl Traffic {
    fn new(seed: u64, pause_us: u64) -> Arc<Self> {
        let state =
            TrafficState { random: Random(seed), next: Duration::ZERO, inserted: Vec::new(), pause_us };
        Arc::new(Self { now: Mutex::default(), state: Mutex::new(state), store: Mutex::default() })
    }

    fn now(&self) -> Duration {
        *self.now.lock()
    }

    /// Lets time pass, with the inserts that fall into it.
    fn pass(&self, time: Duration) {
        let until = self.now() + time;
        let store = self.store.lock().upgrade();
        while let Some(volume) = &store {
            let (number, length) = {
                let mut state = self.state.lock();
                if state.next > until {
                    break;
                }
                let at = state.next;
                self.advance_to(at);
                state.inserted.push(at);
                let mean_us = state.pause_us;
                let pause = state.random.below(2 * mean_us) + 1;
                state.next = at + Duration::from_micros(pause);
                (state.inserted.len() as u32 - 1, state.random.length() / 4)
            };
            let store = VolumeStore { _maintenance: Vec::new(), volume: Arc::clone(volume) };
            put(&store, number, 1, length).expect("there is room for all");
        }
        self.advance_to(until);
    }

    /// Advances the clock. An insert sometimes waits for the disk, while others come.
    fn advance_to(&self, instant: Duration) {
        let mut now = self.now.lock();
        *now = instant.max(*now);
    }

    fn begin(&self, store: &VolumeStore) {
        self.state.lock().next = self.now();
        *self.store.lock() = Arc::downgrade(&store.volume);
    }
}

/// Lets clients insert for some seconds, with calls to the disk of up to `call` each. Power is lost
/// just before the end of each round. Returns the age of the oldest lost insert.
fn oldest_lost(seed: u64, call: Duration, pause_us: u64) -> Duration {
    let mut world = World::new(16 << 20);
    world.settings.max_objects = 20_000;
    let traffic = Traffic::new(seed, pause_us);
    let clock = Arc::clone(&traffic);
    let faults = Faults::new(seed).takes(call, move |time| clock.pass(time));
    let store =
        world.try_open(Arc::new(FaultyFs::new(world.files.clone(), faults))).expect("the volume opens");
    traffic.begin(&store);
    let (mut oldest, mut rounds, mut durable) = (Duration::ZERO, 0, 0);
    while traffic.now() < Duration::from_secs(5) {
        let inserted = traffic.state.lock().inserted.len() as u32;
        let began = traffic.now();
        let begins_now = store.volume.pace.lock().due().is_some_and(|due| due <= began);
        let left = begins_now.then(|| world.after_power_loss(seed));
        let pause = store.volume.sync_if_due(&|| traffic.now());
        if let Some(left) = left {
            rounds += 1;
            let left = left.open();
            // The first absent object is the oldest. Inserts since the round began cannot be on
            // disk.
            let lost = (durable..inserted).find(|number| version_of(&left, *number).is_none());
            let lost_at = lost.map_or(began, |number| traffic.state.lock().inserted[number as usize]);
            oldest = oldest.max(traffic.now() - lost_at);
            durable = inserted;
        }
        // The bell would ring at the next insert.
        traffic.pass(if store.volume.queue.lock().is_unsynced() { pause } else { Duration::from_millis(1) });
    }
    // With an insert every 0.6 s there is a round every 1.35 s, and the first takes longer.
    assert!((3..=10).contains(&rounds), "{rounds} rounds in five seconds");
    let inserted = traffic.state.lock().inserted.len();
    assert!(inserted as u64 > 2_500_000 / pause_us, "{inserted} inserted");
    oldest
}

#[test]
fn a_second_of_inserts_is_lost_at_most_when_power_is() {
    let second = Duration::from_secs(1);
    for seed in 0..2 {
        // A fast disk and a slow one, few clients and many.
        for (call_ms, pause_us) in [(1, 5000), (1, 200_000), (40, 5000), (60, 3000), (80, 600_000)] {
            let oldest = oldest_lost(seed, Duration::from_millis(call_ms), pause_us);
            assert!(oldest <= second, "{oldest:?} with calls of {call_ms} ms, seed {seed}");
        }
    }
}

/// Continuous inserts of one client do not delay the sync of others' inserts.
#[test]
fn a_round_ends_however_much_is_inserted_meanwhile() {
    let world = World::new(48 << 20);
    let store = world.open();
    for number in 0..40 {
        put(&store, number, 1, 9000).unwrap();
    }
    let due = store.volume.queue.lock().begin_sync();
    for number in 40..80 {
        put(&store, number, 1, 9000).unwrap();
    }
    store.volume.write_due(&mut store.volume.writer.lock(), due).unwrap();
    let waiting = (0..80).filter(|number| store.volume.queue.lock().find(key(*number).hash()).is_some());
    let waiting: Vec<u32> = waiting.collect();
    assert!(waiting.iter().all(|number| *number >= 40), "of the first forty there wait {waiting:?}");
    assert!(store.volume.queue.lock().is_unsynced() && !waiting.is_empty(), "the later ones are still due");
    store.write_all();
    assert!(!store.volume.queue.lock().is_unsynced());
    for number in 0..80 {
        assert_eq!(version_of(&store, number), Some(1));
    }
}

/// Neighbours in the page are written with the metadata, and survive a torn write.
#[test]
fn torn_metadata_update_costs_at_most_its_object() {
    let world = World::new(64 << 20);
    let store = world.open();
    let length = |number: u32| if number.is_multiple_of(3) { 70_000 } else { 1000 + number as usize * 37 };
    // The versions differ at both ends.
    let metadata = |version: u32, number: u32| {
        let spare = b" and no more".repeat(number as usize % 100);
        let text = metadata_of(version, length(number));
        [&text[..], &spare, &text].concat()
    };
    for number in 0..300 {
        let body = body_of(number, 1, length(number));
        let mut insert = store.insert(&key(number), &metadata(1, number), Some(body.len() as u64)).unwrap();
        insert.append(&body).unwrap();
        insert.commit(None).unwrap();
    }
    store.write_all();
    let is_replaced = |number: u32| number.is_multiple_of(4);
    for number in (0..300).filter(|number| is_replaced(*number)) {
        assert!(store.update_metadata(&key(number), &metadata(2, number), &|_| true).unwrap());
    }
    let (mut old, mut new, mut lost) = (0, 0, 0);
    for seed in 0..10 {
        let left = world.after_power_loss(seed);
        let left = left.open();
        for number in 0..300 {
            let Some(found) = left.open(&key(number)).unwrap() else {
                assert!(is_replaced(number), "{number} is lost, seed {seed}");
                lost += 1;
                continue;
            };
            let body = found.body.read(0, 1 << 20).unwrap();
            assert!(!body.is_empty() && body_of(number, 1, length(number)).starts_with(&body), "{number}");
            match found.metadata {
                found if found == metadata(1, number) => old += 1,
                found if found == metadata(2, number) && is_replaced(number) => new += 1,
                found => panic!("{number}: {found:?}, seed {seed}"),
            }
        }
    }
    assert!(lost > 0 && new > lost && old > new, "{old} with the old, {new} with the new, {lost} lost");
}

#[test]
fn failed_sync_is_tried_again() {
    let world = World::new(8 << 20);
    let crash = crate::fs::CrashPoint::never();
    let door = FaultyFs::new(world.files.clone(), Faults::new(1).crash_at(Arc::clone(&crash)));
    let store = world.try_open(Arc::new(door)).unwrap();
    put(&store, 1, 1, 500).unwrap();
    crash.come();
    assert!(store.volume.flush_and_sync().is_err());
    assert!(store.volume.queue.lock().is_unsynced());
}

#[test]
fn removals_of_absent_objects_cause_no_write() {
    let world = World::new(8 << 20);
    let store = world.open();
    put(&store, 0, 1, 500).unwrap();
    store.write_all();
    let sequence = || store.volume.writer.lock().sequence;
    let before = sequence();
    for number in 100..200 {
        assert!(!store.remove(&key(number)).unwrap());
    }
    assert!(!store.volume.queue.lock().is_unsynced(), "nobody has to hurry");
    assert!(store.remove(&key(0)).unwrap() && store.volume.queue.lock().is_unsynced());
    store.write_all();
    assert_eq!((sequence(), store.volume.queue.lock().bytes()), (before + 1, 0), "all in one chunk");
}
