//! The budget holds, objects in use stay charged, and popular objects stay.

use super::*;
use bytes::Bytes;
use std::sync::atomic::AtomicBool;
use std::thread;

/// Values that have no parts.
macro_rules! whole {
    ($($type:ty),*) => {
        $(impl TierValue for $type {
            fn body(&self) -> Option<&MemoryBody> {
                None
            }

            fn body_mut(&mut self) -> Option<&mut MemoryBody> {
                None
            }
        })*
    };
}
whole!((), i32, u64, &'static str);

/// A value with a body that may be held without it.
pub(super) struct Article {
    pub(super) number: u64,
    pub(super) edition: u64,
    pub(super) body: MemoryBody,
}

impl TierValue for Article {
    fn body(&self) -> Option<&MemoryBody> {
        Some(&self.body)
    }

    fn body_mut(&mut self) -> Option<&mut MemoryBody> {
        Some(&mut self.body)
    }
}

pub(super) fn key(n: u64) -> Key {
    Key::of(&n.to_le_bytes())
}

#[test]
fn changed_limit_evicts_and_admits() {
    let ledger = MemoryBudget::new(1 << 20);
    let tier = MemoryTier::new(Arc::clone(&ledger), 4);
    let fill = || (0..4000).filter(|number| tier.insert(key(*number), Arc::new(*number), 1000)).count();
    assert_eq!(fill(), 4000, "older objects make room");
    let body = ledger.try_reserve(300_000).expect("objects make room");
    assert_eq!(ledger.set_limit(400_000), 0);
    assert!(ledger.used() <= 400_000 && tier.usage().objects > 50, "{:?}", tier.usage());
    assert_eq!(ledger.set_limit(200_000), 100_000, "the body in flight stays");
    assert!(tier.usage().objects == 0 && ledger.try_reserve(1).is_none());
    assert!(!tier.insert(key(1), Arc::new(1), 1000));
    drop(body);
    assert!(tier.insert(key(1), Arc::new(1), 1000));
    assert_eq!(ledger.set_limit(8 << 20), 0);
    assert_eq!(fill(), 4000);
    assert!(tier.usage().objects == 4000 && ledger.used() <= 8 << 20, "all have room now");
}

/// A caller that makes `still_may` return `false` and then removes the key has removed it.
/// `still_may` runs under the lock that the removal takes.
#[test]
fn forbidden_insert_is_never_visible() {
    let (ledger, may) = (MemoryBudget::new(1 << 20), std::sync::atomic::AtomicBool::new(true));
    let tier = MemoryTier::new(Arc::clone(&ledger), 1);
    std::thread::scope(|scope| {
        let (asked, begin) = std::sync::mpsc::channel();
        let (tier, may) = (&tier, &may);
        let removal = scope.spawn(move || {
            begin.recv().unwrap();
            may.store(false, Relaxed);
            tier.remove(key(1))
        });
        let still_may = || {
            asked.send(()).unwrap();
            // The removal gets as far as the lock.
            while may.load(Relaxed) {
                std::thread::yield_now();
            }
            false
        };
        assert!(!tier.insert_if(key(1), Arc::new("old"), 100, still_may));
        assert!(!removal.join().unwrap(), "it was never there");
    });
    assert_eq!((tier.peek(key(1)), ledger.used()), (None, 0));
}

#[test]
fn objects_are_found_until_removed() {
    let tier = MemoryTier::new(MemoryBudget::new(1 << 20), 4);
    assert!(tier.insert(key(1), Arc::new("one"), 3));
    assert_eq!(tier.get(key(1)).as_deref(), Some(&"one"));
    assert_eq!(tier.get(key(2)), None);
    let usage = MemoryUsage { objects: 1, bytes: 3 + ENTRY_OVERHEAD_BYTES, ..MemoryUsage::default() };
    assert_eq!(tier.usage(), usage);
    assert!(tier.remove(key(1)));
    assert!(!tier.remove(key(1)));
    assert_eq!(tier.get(key(1)), None);
}

#[test]
fn the_newer_object_replaces_the_older() {
    let ledger = MemoryBudget::new(1 << 20);
    let tier = MemoryTier::new(Arc::clone(&ledger), 1);
    assert!(tier.insert(key(1), Arc::new(1), 1000));
    assert!(tier.insert(key(1), Arc::new(2), 10));
    assert_eq!(tier.get(key(1)).as_deref(), Some(&2));
    assert_eq!(ledger.used(), 10 + ENTRY_OVERHEAD_BYTES);
}

#[test]
fn tier_makes_room_for_itself_and_bodies_in_flight() {
    let ledger = MemoryBudget::new(100 * 1000);
    let tier = MemoryTier::new(Arc::clone(&ledger), 4);
    for n in 0..1000 {
        assert!(tier.insert(key(n), Arc::new(n), 1000 - ENTRY_OVERHEAD_BYTES));
        assert!(ledger.used() <= ledger.limit());
    }
    assert_eq!(tier.usage().objects, 100);
    let mut body = ledger.try_reserve(40_000).expect("the tier gives back");
    assert!(body.grow(10_000));
    assert_eq!(tier.usage().objects, 50);
    assert!(ledger.try_reserve(60_000).is_none());
    assert_eq!(tier.usage().objects, 50, "nothing is given up for what cannot be had");
    assert_eq!(ledger.refused(), 1);
    drop(body);
    assert_eq!(ledger.used(), 50_000);
    drop(tier);
    assert_eq!(ledger.used(), 0);
}

#[test]
fn body_in_flight_is_charged_once_when_kept() {
    let ledger = MemoryBudget::new(1000 + ENTRY_OVERHEAD_BYTES);
    let tier = MemoryTier::new(Arc::clone(&ledger), 1);
    let body = ledger.try_reserve(1000).unwrap();
    assert!(tier.insert_reserved(key(1), Arc::new(()), body, || true));
    assert_eq!(ledger.used(), ledger.limit());
    assert!(!tier.insert_reserved(
        key(2),
        Arc::new(()),
        MemoryBudget::new(9).try_reserve(1).unwrap(),
        || true
    ));
}

#[test]
fn objects_in_use_are_no_victims_and_stay_charged() {
    let ledger = MemoryBudget::new(10 * (100 + ENTRY_OVERHEAD_BYTES));
    let tier = MemoryTier::new(Arc::clone(&ledger), 1);
    assert!(tier.insert(key(0), Arc::new(0), 100));
    let held = tier.get(key(0)).unwrap();
    for n in 1..100 {
        assert!(tier.insert(key(n), Arc::new(n), 100));
    }
    assert!(tier.get(key(0)).is_some());
    tier.remove(key(0));
    assert!(ledger.try_reserve(ledger.limit()).is_none(), "its bytes are still in memory");
    drop(held);
    assert!(ledger.try_reserve(ledger.limit()).is_some());
}

#[test]
fn objects_with_held_bodies_are_no_victims() {
    let ledger = MemoryBudget::new(10 * (100 + ENTRY_OVERHEAD_BYTES));
    let tier = MemoryTier::new(Arc::clone(&ledger), 1);
    let article =
        |number| Arc::new(Article { number, edition: 0, body: tier.place(key(number), vec![0; 100].into()) });
    assert!(tier.insert(key(0), article(0), 100));
    let body = tier.get(key(0)).unwrap().body.bytes();
    for n in 1..100 {
        assert!(tier.insert(key(n), article(n), 100));
    }
    assert!(tier.get(key(0)).is_some(), "its body is being sent");
    tier.remove(key(0));
    assert!(ledger.try_reserve(ledger.limit()).is_none(), "the body is still in memory");
    drop(body);
    assert!(ledger.try_reserve(ledger.limit()).is_some());
}

#[test]
fn copy_of_replaced_object_is_not_put_in_its_place() {
    let ledger = MemoryBudget::new(10_000);
    let tier = MemoryTier::new(Arc::clone(&ledger), 1);
    let body = tier.place(key(1), vec![0; 500].into());
    let edition = |edition| Arc::new(Article { number: 1, edition, body: body.clone() });
    let follows = |edition| move |article: &Article| article.edition == edition;
    assert!(!tier.replace_if(key(1), edition(1), 500, |_| true), "there is nothing to replace");
    assert!(tier.insert(key(1), edition(1), 500));
    assert!(tier.replace_if(key(1), edition(2), 700, follows(1)));
    assert_eq!(ledger.used(), 700 + ENTRY_OVERHEAD_BYTES, "the body they share is charged once");
    assert!(!tier.replace_if(key(1), edition(3), 600, follows(1)), "edition 2 came in between");
    assert!(tier.replace_if(key(1), edition(4), 600, follows(2)));
    assert_eq!(tier.get(key(1)).map(|article| article.edition), Some(4));
    assert_eq!(ledger.used(), 600 + ENTRY_OVERHEAD_BYTES);
    assert!(!tier.replace_if(key(1), edition(5), 20_000, follows(4)), "beyond the budget");
    assert_eq!(tier.get(key(1)).map(|article| article.edition), Some(4));
    drop(body);
    assert!(ledger.try_reserve(ledger.limit()).is_some(), "nothing is left on the books");
}

#[test]
fn of_concurrent_replacements_of_one_edition_one_wins() {
    let tier = MemoryTier::new(MemoryBudget::new(1 << 20), 4);
    tier.insert(key(1), Arc::new(0_u64), 10);
    let won: u64 = thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let raise = |_| {
                        let seen = *tier.get(key(1)).expect("never absent");
                        u64::from(tier.replace_if(key(1), Arc::new(seen + 1), 10, |held| *held == seen))
                    };
                    (0..5000).map(raise).sum::<u64>()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(*tier.get(key(1)).unwrap(), won, "no replacement was lost");
}

#[test]
fn the_budget_holds_in_a_burst_of_threads() {
    let ledger = MemoryBudget::new(200_000);
    let tier = MemoryTier::new(Arc::clone(&ledger), 8);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !done.load(Relaxed) {
                assert!(ledger.used() <= ledger.limit());
            }
        });
        let workers: Vec<_> = (0..4_u64)
            .map(|worker| {
                let (tier, ledger) = (&tier, &ledger);
                scope.spawn(move || {
                    for n in 0..5000 {
                        let name = (n * 7 + worker) % 300;
                        match tier.get(key(name)) {
                            Some(value) => assert_eq!(*value, name),
                            None => drop(tier.insert(key(name), Arc::new(name), 500 + name)),
                        }
                        if n % 16 == 0 {
                            drop(ledger.try_reserve(20_000));
                        }
                        if n % 31 == 0 {
                            tier.remove(key(name));
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        done.store(true, Relaxed);
        watch.join().unwrap();
    });
    assert!(tier.usage().objects > 100);
    drop(tier);
    assert_eq!(ledger.used(), 0);
}

#[test]
fn unread_large_bodies_make_room_read_ones_stay() {
    let arrived = |number: u64| {
        let mut whole = BodyBuilder::with_capacity(LENT_MIN);
        whole.push(&vec![number as u8; LENT_MIN]);
        whole.into_bytes()
    };
    let tier = MemoryTier::new(MemoryBudget::new(10 * LENT_MIN as u64), 1);
    let put = |number: u64, bytes: Bytes| {
        let article = Article { number, edition: 0, body: bytes.into() };
        tier.insert(key(number), Arc::new(article), LENT_MIN as u64)
    };
    let read = arrived(0);
    assert!(put(0, read.clone()));
    for number in 1..100 {
        assert!(put(number, arrived(number)), "{number} finds room");
    }
    let found = tier.get(key(99)).expect("the latest");
    assert_eq!(found.body.bytes(), vec![99; LENT_MIN]);
    assert!(tier.usage().bytes <= 10 * LENT_MIN as u64 && tier.usage().objects >= 8);
    assert_eq!(tier.get(key(0)).expect("it is being read").body.bytes(), read);
}

#[test]
fn evicted_values_are_told_and_removed_ones_not() {
    let ledger = MemoryBudget::new(100_000);
    let tier = MemoryTier::new(Arc::clone(&ledger), 2);
    let told = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let listener = Arc::clone(&told);
    tier.on_evicted(move |number: &Arc<u64>| listener.lock().push(**number));
    assert!(tier.insert(key(0), Arc::new(0), 1000) && tier.remove(key(0)));
    (1..500).for_each(|number| assert!(tier.insert(key(number), Arc::new(number), 1000)));
    let told = told.lock();
    assert_eq!(told.len() as u64, tier.usage().evictions);
    assert!(told.len() > 300 && !told.contains(&0));
    assert!(told.iter().all(|number| tier.peek(key(*number)).is_none()));
}

/// Holder of bytes that counts how often it was asked.
struct Giver(AtomicU64, Arc<MemoryBudget>);

impl Reclaim for Giver {
    fn reclaimable_bytes(&self) -> u64 {
        50_000
    }

    fn reclaim(&self, bytes: u64) -> u64 {
        self.0.fetch_add(1, Relaxed);
        self.1.release(bytes);
        bytes
    }
}

#[test]
fn first_giver_spares_the_tier() {
    let ledger = MemoryBudget::new(100_000);
    let tier = MemoryTier::new(Arc::clone(&ledger), 1);
    assert!(tier.insert(key(1), Arc::new(1_u64), 40_000));
    let giver = Arc::new(Giver(AtomicU64::new(0), Arc::clone(&ledger)));
    // The giver accounts for these bytes from here on.
    assert_eq!(ledger.try_reserve(50_000).expect("it is free").transfer(), 50_000);
    let weak: Weak<Giver> = Arc::downgrade(&giver);
    ledger.register_first(weak);
    let taken = ledger.try_reserve(30_000).expect("the first giver has it");
    assert!(tier.peek(key(1)).is_some() && giver.0.load(Relaxed) == 1);
    drop(taken);
    ledger.release(ledger.used() - tier.usage().bytes);
}
