//! Readers that take a little now and then, so that no pause is ever too long, yet less than
//! `client.rate_min`: they are given up by whichever way the bytes go to them, and who is within
//! the rate gets on.

use super::{all_have_gone, get};
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Origin, Setup, Shoal, wait};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// More than the kernel's buffers on the way take at once.
const ALL: usize = 40 << 20;

/// Of one body, as of many small ones that are asked for at once, the whole has so many bytes.
struct Way {
    /// What is asked for, and how it may be stored.
    caching: &'static str,
    body_bytes: usize,
    /// The counter of the answers that go this way.
    result: &'static str,
    ram: &'static str,
    ram_object_max: &'static str,
}

#[test]
fn of_a_body_that_is_passed_on() {
    check(&Way {
        caching: "no-store",
        body_bytes: ALL,
        result: "miss",
        ram: "8 MiB",
        ram_object_max: "64 KiB",
    });
}

/// Copied into the socket, head and body in one call.
#[test]
fn of_many_bodies_in_ram() {
    check(&Way { body_bytes: 64 << 10, ..IN_RAM });
}

/// Lent to the kernel, which copies nothing.
#[test]
fn of_a_large_body_in_ram() {
    check(&IN_RAM);
}

#[test]
fn of_a_body_on_disk() {
    check(&Way { result: "hit", ram: "8 MiB", ram_object_max: "64 KiB", ..IN_RAM });
}

const IN_RAM: Way = Way {
    caching: "max-age=600",
    body_bytes: ALL,
    result: "memory_hit",
    ram: "128 MiB",
    ram_object_max: "64 MiB",
};

fn check(way: &Way) {
    let origin = Origin::start();
    let large = Answer::ok(body("large", way.body_bytes)).field("Cache-Control", way.caching);
    origin.on("/large", large);
    let start = |rate: &str| {
        let setup = Setup::to(&origin).set("client.idle_timeout", "2s").set("client.rate_min", rate);
        let setup = setup.set("store.disk", "256 MiB").set("store.admission", "always");
        let shoal = setup.set("cache.ram", way.ram).set("cache.ram_object_max", way.ram_object_max).start();
        if way.result != "miss" {
            shoal.get("/large").expect_status(200);
            wait::until("it is stored", || shoal.get("/large").hit());
        }
        shoal
    };
    // About three megabytes a second. It takes three megabytes a second; the others get their
    // answers at this rate on a busy machine too.
    let strict = start("6 MiB");
    let before = strict.responses(way.result);
    let taken = read_slowly(&strict, ALL / way.body_bytes);
    assert!(taken < ALL, "all of it was sent");
    strict.expect_metric("shoal_clients_slow_total", "", 1);
    strict.expect_metric("shoal_responses_cut_total", "", 1);
    all_have_gone(&strict);
    assert!(strict.responses(way.result) > before, "it went another way");
    let lenient = start("64 KiB");
    assert!(read_slowly(&lenient, ALL / way.body_bytes) > 8 << 20);
    lenient.expect_metric("shoal_clients_slow_total", "", 0);
}

/// What is taken in nine seconds, a little at a time, or before the connection is given up.
fn read_slowly(shoal: &Shoal, requests: usize) -> usize {
    let mut stream = TcpStream::connect(shoal.address("reverse")).expect("a connection");
    stream.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
    stream.write_all(&get("/large").repeat(requests)).expect("requests");
    let (mut buffer, mut taken) = (vec![0; 64 << 10], 0);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(9) {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => taken += count,
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    taken
}
