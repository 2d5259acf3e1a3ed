//! A node under everything at once, for long: clients of all kinds, an origin that changes, fails
//! and breaks off, purges, reloads, a disk taken out, closes in order and kills. Every complete
//! answer is right ([`Versions`]), memory and disk stay within their numbers, and when the clients
//! have left nothing of them is left.
//!
//! ```text
//!   readers (HTTP/1, HTTP/2, forward) ──┐                          ┌── origin: /u/N changes, fails, breaks off, is slow
//!   invalidators (POST, PURGE, admin) ──┼──► shoal, two disks ─────┤
//!   the course: reload, disk, end, kill ┘          ▲                └── /n/N: never stored
//!                                          watch: memory, descriptors
//! ```
//!
//! It takes 15 seconds; `SHOAL_SOAK_SECONDS` sets another time, `SHOAL_SEED` another course,
//! `SHOAL_SOAK_ARCHITECTURE` another store than the default, and `SHOAL_BIN` names a binary, best
//! of a release build.

mod clients;
mod course;
mod watch;

use clients::World;
use shoal_testkit::seeded::{Random, seed};
use shoal_testkit::{Answer, Origin, Setup, Shoal, Versions};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What the node is told to take at most.
const RAM: u64 = 6 << 20;

/// Its disks, and what it may take of each.
const DISKS: [(&str, &str, u64); 2] = [("one", "16 MiB", 16 << 20), ("two", "12 MiB", 12 << 20)];

const URLS: usize = 600;

/// From nothing to several pieces of a large object; most are small.
const SIZES: [usize; 17] = [
    0, 1, 900, 2_500, 300, 4_090, 4_100, 20_000, 7_000, 1_100, 70_000, 12_300, 5_500, 150_000, 3_000,
    400_000, 1_500_000,
];

#[test]
fn every_answer_is_right_and_nothing_is_left_behind() {
    let seed = seed(2_027);
    let lasts = std::env::var("SHOAL_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(15);
    let versions = Arc::new(Versions::new(URLS, &SIZES, freshness));
    let origin = origin(&versions, seed);
    let mut shoal = node(&origin);
    let world = Arc::new(World::new(versions, &origin, &shoal));
    let watch = watch::Watch::new(RAM);
    let clients = clients::start(&world, seed);
    course::run(&mut shoal, &world, &watch, Duration::from_secs(lasts), Random::new(seed));
    world.stop();
    clients.into_iter().for_each(|client| client.join().expect("every answer was right"));
    watch.after(&shoal);
    assert_eq!(shoal.status()["store"]["corrupt"].as_u64(), Some(0), "objects were damaged");
    let seen = &world.seen;
    eprintln!("{seen:?}");
    let (answers, hits) = (seen.answers.load(Ordering::SeqCst), seen.hits.load(Ordering::SeqCst));
    assert!(answers > 500 && hits > answers / 10, "{seen:?}");
    let others = [&seen.of_http2, &seen.forward, &seen.invalidated, &seen.passed];
    assert!(others.iter().all(|count| count.load(Ordering::SeqCst) > 0), "{seen:?}");
}

/// Most are fresh for long; some have to be validated soon, or each time, and may be served stale
/// meanwhile or when the origin fails.
fn freshness(url: usize) -> &'static str {
    match url % 8 {
        0 => "max-age=1",
        1 => "max-age=1, stale-while-revalidate=5",
        2 => "max-age=1, stale-if-error=60",
        3 => "no-cache",
        _ => "max-age=600",
    }
}

fn origin(versions: &Arc<Versions>, seed: u64) -> Origin {
    let origin = Origin::start();
    let turns = AtomicU64::new(seed);
    let known = Arc::clone(versions);
    origin.on_request("/u/*", move |request| {
        known.answer(request, Random::new(turns.fetch_add(1, Ordering::SeqCst)).next_u64())
    });
    origin.on_request("/n/*", |request| {
        Answer::ok(clients::passed(request.path())).field("Cache-Control", "no-store")
    });
    origin
}

/// Small limits, so that everything is given up and comes again.
fn node(origin: &Origin) -> Shoal {
    let setup = Setup::to(origin).set("cache.ram", "6 MiB").set("cache.ram_object_max", "256 KiB");
    let setup = setup.disks(&DISKS.map(|(name, bytes, _)| (name, bytes))).set("log.level", "warn");
    match std::env::var("SHOAL_SOAK_ARCHITECTURE") {
        Ok(name) => setup.set("store.architecture", name).start(),
        Err(_) => setup.start(),
    }
}
