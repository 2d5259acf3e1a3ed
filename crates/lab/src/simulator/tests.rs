//! The simulator and the policies in it: exact counts, memory, and no growth once full.
//!
//! The numbers of misses are those of libCacheSim 0.3.5 (the package of that name for Python) on
//! the same requests. Our numbers are equal where libCacheSim follows the publication that we
//! follow. Elsewhere they agree within stated bounds; docs/experiments/policies.md says where and
//! why.

use super::*;
use shoal_policy::{Belady, BeladySize, Clock, NextUses, ReplacementPolicy, Ring};

/// Returns 200,000 requests, Zipf 0.8 over 10,000 objects of one byte.
fn uniform() -> impl Iterator<Item = Request> {
    ZipfTrace::new(10_000, 0.8, 1, 1).take(200_000)
}

/// Returns the uniform requests with sizes from 1 to 97 bytes.
fn sized() -> impl Iterator<Item = Request> {
    uniform().map(|request| Request { bytes: 1 + request.object * request.object % 97, ..request })
}

fn misses(policy: impl Replacement<u64>, requests: impl Iterator<Item = Request>, room: u64) -> u64 {
    Simulator::new(policy, Capacity::Bytes(room)).run(requests).misses()
}

fn named(name: &str) -> Box<dyn Replacement<u64>> {
    (ReplacementPolicy::named(name).expect("a policy's name").construct)()
}

#[test]
fn misses_equal_libcachesim_for_published_policies() {
    for (policy, of_one_size, of_many) in [
        ("fifo", 121_231, 121_228),
        ("clock", 110_196, 110_236),
        ("lru", 112_753, 112_742),
        ("sieve", 96_448, 95_086),
    ] {
        assert_eq!(misses(named(policy), uniform(), 1000), of_one_size, "{policy}");
        assert_eq!(misses(named(policy), sized(), 49_000), of_many, "{policy}, sizes differ");
    }
    // libCacheSim's Clock with two bits is the policy that the index on disk counts by.
    assert_eq!(misses(Ring::<Clock, u64>::new(), uniform(), 1000), 107_194);
}

/// Misses of libCacheSim and ours. The numbers differ where the publication leaves a choice or
/// where libCacheSim departs from it.
#[test]
fn other_policies_keep_their_misses() {
    for (policy, theirs, ours) in [
        // The orders differ in ties only; ours agrees with a heap of all requests in another
        // language.
        ("gdsf", 100_659, 100_692),
        // For one size, LFU-DA equals GDSF by its publication; libCacheSim adds the cache's age to
        // a key at each hit.
        ("lfu_da", 93_590, 100_692),
        // An empty cache is filled in another way; filled as theirs, the same requests miss.
        ("slru", 96_532, 96_167),
        ("slru_fill", 96_532, 96_532),
        // Other keys are still remembered.
        ("s3_fifo", 95_304, 94_957),
        // Frequencies are estimated otherwise.
        ("w_tinylfu", 92_836, 91_094),
    ] {
        assert_eq!(misses(named(policy), uniform(), 1000), ours, "{policy}");
        assert!(policy == "lfu_da" || ours < theirs + theirs / 1000, "{policy} misses as little as theirs");
    }
    assert_eq!(misses(named("gdsf"), sized(), 49_000), 86_580);
}

/// 1,250 objects in turn, with room for 1,000: from the bottom SLRU is LRU and never hits; filled
/// upwards it keeps the first objects in the three upper segments. So the way in which an empty
/// cache fills can last for ever.
#[test]
fn fillings_of_slru_differ_for_good_in_a_loop() {
    let turns = || (0..20).flat_map(|_| (0..1250).map(|object| Request { object, bytes: 1 }));
    assert_eq!(misses(named("slru"), turns(), 1000), 25_000);
    assert_eq!(misses(named("slru_fill"), turns(), 1000), 1250 + 19 * 500);
}

#[test]
fn belady_misses_least() {
    let future = || NextUses::of(uniform().map(|request| request.object));
    assert_eq!(misses(Belady::new(future()), uniform(), 1000), 66_857);
    assert_eq!(misses(BeladySize::new(future()), uniform(), 1000), 66_857);
    // libCacheSim looks for the victim in a sample of 128 and misses 58,885.
    assert_eq!(misses(BeladySize::new(future()), sized(), 49_000), 57_205);
}

#[test]
fn counts_add_up() {
    for policy in ReplacementPolicy::<u64>::ALL {
        let mut simulator = Simulator::new((policy.construct)(), Capacity::Bytes(50));
        let warm = simulator.run(sized().take(1000));
        let all = simulator.run(sized().skip(1000).take(9000));
        assert_eq!((warm.requests, all.requests, all.since(&warm).requests), (1000, 10_000, 9000));
        assert!(all.declined > 0, "objects of more than 50 bytes are declined");
        assert_eq!(
            all.misses(),
            all.evictions + all.declined + simulator.objects() as u64,
            "{}",
            policy.name
        );
        assert!(all.hits > 0 && all.hit_bytes <= 50 * all.hits && all.hit_bytes < all.bytes);
    }
}

#[test]
fn looking_ahead_changes_nothing() {
    for policy in ReplacementPolicy::<u64>::ALL {
        let mut singly = Simulator::new((policy.construct)(), Capacity::Bytes(3000));
        let hits = sized().take(20_000).filter(|request| singly.request(*request)).count();
        let mut together = Simulator::new((policy.construct)(), Capacity::Bytes(3000));
        let counts = together.run(sized().take(20_000));
        assert_eq!((counts, counts.hits), (singly.counts(), hits as u64), "{}", policy.name);
    }
}

/// A full cache allocates nothing for a request, so no array has another capacity afterwards. While
/// the cache fills, memory is in proportion to the objects.
#[test]
fn memory_stays_in_bounds_and_does_not_grow_once_full() {
    for policy in ReplacementPolicy::<u64>::ALL {
        let mut simulator = Simulator::new((policy.construct)(), Capacity::Objects(10_000));
        simulator.run(ZipfTrace::new(100_000, 0.8, 1, 2).take(150_000));
        let (before, objects) = (simulator.memory_bytes(), simulator.objects());
        simulator.run(ZipfTrace::new(100_000, 0.8, 1, 3).take(80_000));
        assert_eq!((simulator.memory_bytes(), simulator.objects()), (before, objects), "{}", policy.name);
        let bound = match policy.name {
            "gdsf" => 64,
            _ => 48,
        };
        let bytes = before.div_ceil(objects);
        assert!(bytes <= bound, "{}: {bytes} bytes an object", policy.name);
    }
}
