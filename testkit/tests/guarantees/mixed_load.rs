//! Under a mixed load every complete answer is right: the whole of one version, or a part of one,
//! and never a version that was invalidated before the request was sent ([`Versions`]).
//!
//! Readers ask for wholes, parts, heads and conditions, leave in the middle, and the origin breaks
//! off now and then. For long, with kills, reloads and more ways to ask: `testkit/tests/soak`.

use shoal_testkit::seeded::{Random, seed};
use shoal_testkit::{Connection, Origin, Request, Setup, Versions};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What the clients saw.
#[derive(Default)]
struct Seen {
    answers: AtomicU64,
    hits: AtomicU64,
}

#[test]
fn every_complete_answer_is_right() {
    let seed = seed(2_026);
    let sizes = [0, 1, 900, 5_000, 20_000, 70_000, 150_000, 400_000];
    let versions = Arc::new(Versions::new(16, &sizes, |_| "max-age=600"));
    let origin = Origin::start();
    let turns = AtomicU64::new(seed);
    let known = versions.clone();
    origin.on_request("/u/*", move |request| {
        known.answer(request, Random::new(turns.fetch_add(1, Ordering::SeqCst)).next_u64())
    });
    let small = Setup::to(&origin).set("cache.ram", "4 MiB").set("store.disk", "8 MiB");
    let shoal = small.set("cache.ram_object_max", "64 KiB").start();
    let (seen, stop) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..6)
        .map(|client| {
            let (versions, seen, stop) = (versions.clone(), seen.clone(), stop.clone());
            let address = shoal.address("reverse");
            std::thread::spawn(move || run(&versions, &seen, &stop, address, Random::new(seed + 7 * client)))
        })
        .collect();
    std::thread::sleep(Duration::from_secs(5));
    // On a machine with other work it takes longer.
    shoal_testkit::wait::until("clients were answered", || {
        let (answers, hits) = (seen.answers.load(Ordering::SeqCst), seen.hits.load(Ordering::SeqCst));
        answers > 100 && hits > answers / 10
    });
    stop.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| client.join().expect("every answer was right"));
    let (answers, hits) = (seen.answers.load(Ordering::SeqCst), seen.hits.load(Ordering::SeqCst));
    assert!(answers > 100 && hits > answers / 10, "{hits} hits of {answers} answers");
    assert_eq!(shoal.status()["store"]["corrupt"].as_u64(), Some(0));
}

fn run(versions: &Versions, seen: &Seen, stop: &AtomicBool, address: SocketAddr, mut random: Random) {
    while !stop.load(Ordering::SeqCst) {
        let url = versions.url(&mut random);
        let floor = versions.floor(url);
        let request = match random.below(20) {
            0 => Request::new("POST", &format!("/u/{url}")).body(b"next"),
            _ => versions.draw(url, &mut random),
        };
        let mut client = Connection::open(address);
        client.send(request.to_bytes("site.test"));
        if random.below(12) == 0 && request.method == "GET" {
            let _ = client.head();
            client.reset();
            continue;
        }
        let response = match client.try_response(&request.method) {
            Ok(response) => response,
            // cut before the head was sent: the origin broke off at once
            Err(why) if why.starts_with("closed") || why.starts_with("reset") => continue,
            Err(why) => panic!("{request:?}: {why}"),
        };
        if request.method == "POST" {
            response.number("x-version").into_iter().for_each(|version| versions.raise_floor(url, version));
            continue;
        }
        versions.check(url, floor, &request, &response);
        seen.answers.fetch_add(1, Ordering::Relaxed);
        seen.hits.fetch_add(u64::from(response.complete() && response.hit()), Ordering::Relaxed);
    }
}
