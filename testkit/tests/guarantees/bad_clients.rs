//! Clients that are slow on purpose, leave half, reset in the middle or ask for everything at once:
//! each is bounded in time and memory and counted, and nobody else notices.

mod pipelining;
mod slow_readers;

use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal, wait};
use std::time::{Duration, Instant};

const LARGE: usize = 8 << 20;

fn get(path: &str) -> Vec<u8> {
    Request::get(path).to_bytes("site.test")
}

/// An origin with a small object and large ones, of which `/passed` is never stored.
fn origin() -> Origin {
    let origin = Origin::start();
    origin.on("/small", Answer::fresh("small", 600)).on("/large", Answer::fresh(body("large", LARGE), 600));
    origin.on("/passed", Answer::ok(body("large", LARGE)).field("Cache-Control", "no-store"));
    origin
}

/// Another client's request is answered at once.
fn others_are_served(shoal: &Shoal) {
    let start = Instant::now();
    shoal.get("/small").expect_body("small");
    assert!(start.elapsed() < Duration::from_secs(8), "another client waited {:?}", start.elapsed());
}

fn all_have_gone(shoal: &Shoal) {
    wait::until("connections are given up", || shoal.metric("shoal_connections", "") == 0);
}

/// Slowloris: heads that never end. Each connection costs its slot for `head_timeout` and no more.
#[test]
fn many_heads_that_never_end_are_given_up_in_time() {
    let origin = origin();
    let shoal = Setup::to(&origin).set("client.head_timeout", "5s").start();
    shoal.get("/small").expect_body("small");
    // What was stored is written meanwhile, out of a buffer of a stripe in a large page.
    let idle = shoal.resident_bytes() + (2 << 20);
    let mut clients: Vec<Connection> = (0..300).map(|_| shoal.connect()).collect();
    let start = Instant::now();
    for line in ["GET /small HTTP/1.1\r\n", "Host: site.test\r\n", "X-A: b\r\n", "X-B: c\r\n", "X-C: d\r\n"] {
        clients.iter_mut().for_each(|client| client.send(line));
        others_are_served(&shoal);
        std::thread::sleep(Duration::from_millis(150));
    }
    let held = shoal.resident_bytes().saturating_sub(idle);
    assert!(held < 300 * 12_000, "{held} bytes for 300 connections");
    for client in &mut clients {
        assert_eq!(client.response("GET").status, 408);
        assert!(client.closes());
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    shoal.expect_metric("shoal_requests_refused_total", "", 300);
    all_have_gone(&shoal);
}

#[test]
fn a_body_that_comes_below_the_least_rate_is_refused() {
    let origin = Origin::start();
    origin.on("/form", Answer::ok("taken"));
    let shoal = Setup::to(&origin).set("client.idle_timeout", "1s").set("client.rate_min", "1 KiB").start();
    let head = "POST /form HTTP/1.1\r\nHost: site.test\r\nContent-Length: 4000\r\n\r\n";
    for (bytes_each_time, status) in [(10, 408), (800, 200)] {
        let mut client = shoal.connect();
        client.send(head);
        let mut stream = 0;
        let start = Instant::now();
        while stream < 4000 && start.elapsed() < Duration::from_secs(4) {
            client.send(vec![b'x'; bytes_each_time]);
            stream += bytes_each_time;
            std::thread::sleep(Duration::from_millis(200));
        }
        let response = client.try_response("POST").expect("an answer rather than silence");
        assert_eq!(response.status, status, "{bytes_each_time} bytes each time");
    }
    shoal.expect_metric("shoal_clients_slow_total", "", 1);
}

/// A client that has ended its sending still gets the answer to what is stored, and whole.
#[test]
fn a_half_closed_client_gets_its_hit_whole() {
    let origin = origin();
    let shoal = Setup::to(&origin).start();
    for path in ["/small", "/large"] {
        shoal.get(path).expect_status(200);
        let mut client = shoal.connect();
        client.send(get(path));
        client.end_sending();
        let response = client.response("GET");
        assert!(response.complete() && response.hit(), "{path}");
        assert!(client.closes(), "{path}");
    }
    all_have_gone(&shoal);
    let hits = shoal.responses("memory_hit") + shoal.responses("hit");
    assert_eq!((shoal.responses("miss"), hits), (2, 2));
    expect_nobody_blamed(&shoal);
    let aborted = shoal.access_log(4).iter().filter(|line| line.contains("\"aborted\":true")).count();
    assert_eq!(aborted, 0, "in the log as aborted");
}

/// A client that ends its sending in order is neither slow nor wrong, and its answer was not cut.
fn expect_nobody_blamed(shoal: &Shoal) {
    for counter in ["shoal_clients_slow_total", "shoal_requests_refused_total", "shoal_responses_cut_total"] {
        shoal.expect_metric(counter, "", 0);
    }
}

/// In the middle of a head, before one, and while the origin is asked: nothing stays behind.
#[test]
fn half_closed_connections_leave_nothing_behind() {
    let origin = origin();
    origin.on("/slow", Answer::fresh("slow", 600).delay(Duration::from_millis(500)));
    let shoal = Setup::to(&origin).start();
    shoal.get("/small").expect_body("small");
    for bytes in [&b""[..], b"GET /small HTTP/1.1\r\nHost: si", &get("/slow")] {
        let mut clients: Vec<Connection> = (0..20).map(|_| shoal.connect()).collect();
        for client in &mut clients {
            client.send(bytes);
            client.end_sending();
        }
        others_are_served(&shoal);
        for client in &mut clients {
            let (_, ending) = client.everything();
            assert_eq!(ending, None, "{:?}", String::from_utf8_lossy(bytes));
        }
        all_have_gone(&shoal);
    }
    // Who had asked before leaving has had it fetched for others.
    wait::until("the fetch is stored", || shoal.get("/slow").hit());
    assert_eq!(origin.count("/slow"), 1);
    // Each of the twenty that had asked got its answer, and so did the one after them.
    let log = shoal.access_log(25);
    let answered = log.iter().filter(|line| line.contains("/slow") && line.contains("\"status\":200"));
    assert!(answered.count() >= 21, "{log:?}");
    expect_nobody_blamed(&shoal);
}

/// Resets while a body is sent out of RAM, from disk, and as it arrives: the others' bytes are
/// right.
#[test]
fn resets_in_the_middle_of_a_body_harm_nobody() {
    let origin = origin();
    let shoal = Setup::to(&origin).set("cache.ram", "12 MiB").set("cache.ram_object_max", "10 MiB").start();
    let on_disk = Setup::to(&origin).set("cache.ram", "4 MiB").set("cache.ram_object_max", "64 KiB").start();
    for (shoal, path) in [(&shoal, "/large"), (&on_disk, "/large"), (&shoal, "/passed")] {
        let reader = shoal.connect();
        let idle = shoal.resident_bytes();
        for _ in 0..40 {
            let mut client = shoal.connect();
            client.send(get(path));
            client.exactly(40_000).expect("the beginning of an answer");
            client.reset();
        }
        let mut reader = reader;
        reader.ask(&Request::get(path), "site.test").expect_body(body("large", LARGE));
        drop(reader);
        all_have_gone(shoal);
        let held = shoal.resident_bytes().saturating_sub(idle);
        assert!(held < 40 << 20, "{held} bytes stay after {path}");
        let aborted = shoal.access_log(41).iter().filter(|line| line.contains("\"aborted\":true")).count();
        assert!(aborted >= 40, "{aborted} of 40 are in the log as aborted");
        let cut = shoal.metric("shoal_responses_cut_total", "");
        assert!(cut >= 40, "{cut} of 40 are counted");
    }
}

/// What is being read from the disk is not written over, however often the rest of the store is.
#[test]
fn what_a_slow_reader_reads_stays_while_the_store_is_written_over() {
    const OBJECT: usize = 3 << 20;
    let origin = Origin::start();
    // The last that matches is taken.
    origin.on("/o/*", Answer::fresh(body("another", OBJECT), 600));
    origin.on("/o/read", Answer::fresh(body("read", OBJECT), 600));
    let setup = Setup::to(&origin).set("cache.ram", "4 MiB").set("cache.ram_object_max", "64 KiB");
    let shoal = setup.set("store.disk", "24 MiB").set("store.admission", "always").start();
    shoal.get("/o/read").expect_status(200);
    wait::until("the object is on disk", || shoal.get("/o/read").hit());
    let mut reader = shoal.connect();
    reader.send(get("/o/read"));
    let mut taken = reader.exactly(100_000).expect("the beginning");
    for number in 0..20 {
        shoal.get(&format!("/o/{number}")).expect_status(200);
    }
    let evictions = shoal.status()["store"]["evictions"].as_u64();
    assert!(evictions.is_some_and(|count| count > 8), "{evictions:?}: the store was not written over");
    let head = taken.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head") + 4;
    taken.extend(reader.exactly(head + OBJECT - taken.len()).expect("the rest"));
    assert!(taken[head..] == body("read", OBJECT));
    assert_eq!(shoal.status()["store"]["corrupt"].as_u64(), Some(0));
}
