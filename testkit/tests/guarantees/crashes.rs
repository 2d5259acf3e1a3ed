//! After `kill -9` at any instant: what was completely written is served, nothing wrong is, and the
//! start takes no reading through.

use shoal_testkit::seeded::{Random, body, seed};
use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Sizes that touch every tier: within a block, several blocks, beyond what RAM takes.
fn size(name: u64) -> usize {
    let mut random = Random::new(name);
    match random.below(10) {
        0..=5 => random.below(6_000) as usize,
        6..=8 => 6_000 + random.below(60_000) as usize,
        _ => 200_000 + random.below(400_000) as usize,
    }
}

fn expected(path: &str) -> Vec<u8> {
    let name = path.trim_start_matches("/object/").parse().expect("objects are numbered");
    body(path, size(name))
}

fn library() -> Origin {
    let origin = Origin::start();
    origin.on_request("/object/*", |request| {
        Answer::fresh(expected(request.path()), 86_400).field("ETag", "\"1\"")
    });
    origin
}

/// Asks for objects in a seeded order until told to stop; wrong bodies are collected, cut ones are
/// the kill's.
fn load(address: SocketAddr, seed: u64, stop: &AtomicBool, wrong: &Mutex<Vec<String>>) {
    let mut random = Random::new(seed);
    while !stop.load(Ordering::Relaxed) {
        let path = format!("/object/{}", random.below(OBJECTS));
        let Ok(stream) = std::net::TcpStream::connect(address) else { return };
        let mut client = Connection::over(Box::new(stream));
        client.limit(Duration::from_secs(3));
        client.send(Request::get(&path).to_bytes("site.test"));
        let Ok(response) = client.try_response("GET") else { continue };
        let sound = response.status == 200 && (!response.complete() || response.body == expected(&path));
        if !sound {
            wrong.lock().expect("no loader panics").push(format!("{path}: {}", response.status));
        }
    }
}

const OBJECTS: u64 = 200;

fn run_under_load(shoal: &mut Shoal, seed: u64, for_so_long: Duration) {
    let (stop, wrong) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let address = shoal.address("reverse");
    let loaders: Vec<_> = (0..4)
        .map(|number| {
            let (stop, wrong) = (stop.clone(), wrong.clone());
            std::thread::spawn(move || load(address, seed + number, &stop, &wrong))
        })
        .collect();
    std::thread::sleep(for_so_long);
    shoal.kill();
    stop.store(true, Ordering::Relaxed);
    for loader in loaders {
        loader.join().expect("a loader does not panic");
    }
    let wrong = wrong.lock().expect("no loader panics");
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn whatever_is_served_after_a_kill_is_right() {
    let seed = seed(20_260_101);
    let mut random = Random::new(seed);
    let origin = library();
    let mut shoal = Setup::to(&origin).set("cache.ram", "4 MiB").set("store.disk", "12 MiB").start();
    let mut kept = 0;
    for round in 0..8 {
        run_under_load(&mut shoal, seed + 1000 * round, Duration::from_millis(40 + random.below(400)));
        let start = Instant::now();
        shoal.restart();
        assert!(start.elapsed() < Duration::from_secs(12), "ready only after {:?}", start.elapsed());
        for number in 0..OBJECTS / 4 {
            let path = format!("/object/{}", (number * 7 + round) % OBJECTS);
            let answer = shoal.get(&path);
            answer.expect_body(expected(&path));
            kept += u64::from(answer.hit());
        }
    }
    assert!(kept > 0, "nothing at all was kept over eight kills");
}

#[test]
fn what_was_completely_written_is_served_after_a_kill() {
    let origin = library();
    let mut shoal = Setup::to(&origin).start();
    let paths: Vec<String> = (0..60).map(|number| format!("/object/{number}")).collect();
    for path in &paths {
        shoal.get(path).expect_body(expected(path));
    }
    wait::until("every object is on disk", || {
        shoal.status()["store"]["space"]["objects"].as_u64() == Some(paths.len() as u64)
    });
    for _ in 0..3 {
        shoal.restart_and_find_all();
        for path in &paths {
            shoal.get(path).expect_body(expected(path)).expect_hit();
        }
    }
    assert_eq!(origin.total(), paths.len());
}

#[test]
fn an_object_that_was_half_written_is_fetched_again() {
    let origin = Origin::start();
    let gate = shoal_testkit::Gate::new();
    let (first, second) = (body("first", 500_000), body("second", 500_000));
    let answer = Answer::fresh(first.clone(), 600).wait_for(&gate).piece(second.clone());
    origin.on("/a", answer);
    let mut shoal = Setup::to(&origin).start();
    let mut client = shoal.connect();
    client.send(Request::get("/a").to_bytes("site.test"));
    assert_eq!(client.head().map(|head| head.status), Ok(200));
    assert!(client.exactly(first.len()).is_ok());
    shoal.kill();
    gate.open();
    shoal.restart();
    let whole = [first, second].concat();
    let answer = shoal.get("/a");
    answer.expect_body(&whole);
    assert!(!answer.hit());
    shoal.get("/a").expect_body(&whole).expect_hit();
}

#[test]
fn killing_during_the_start_harms_nothing() {
    let origin = library();
    let mut shoal = Setup::to(&origin).start();
    let paths: Vec<String> = (0..40).map(|number| format!("/object/{number}")).collect();
    for path in &paths {
        shoal.get(path).expect_body(expected(path));
    }
    wait::until("every object is on disk", || {
        shoal.status()["store"]["space"]["objects"].as_u64() == Some(paths.len() as u64)
    });
    shoal.restart();
    for delay in [0, 1, 3, 8, 20] {
        shoal.kill_during_start(Duration::from_millis(delay));
    }
    shoal.restart_and_find_all();
    let hits: HashSet<_> =
        paths.iter().filter(|path| shoal.get(path).expect_body(expected(path)).hit()).collect();
    assert_eq!(hits.len(), paths.len());
}
