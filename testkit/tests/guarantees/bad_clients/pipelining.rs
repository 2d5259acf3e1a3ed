//! Clients that ask for ten thousand things before they read the first answer: what they ask waits
//! in their own socket, in order, and others are served meanwhile.

use super::{all_have_gone, get, origin, others_are_served};
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Connection, Fields, Request, Setup, Shoal, wait};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

const REQUESTS: usize = 10_000;

#[test]
fn ten_thousand_hits() {
    let origin = origin();
    origin.on("/block", Answer::fresh(body("block", 2000), 600));
    let shoal = Setup::to(&origin).set("workers", 1).start();
    shoal.get("/block").expect_status(200);
    shoal.get("/small").expect_status(200);
    let idle = shoal.resident_bytes();
    let stream = TcpStream::connect(shoal.address("reverse")).expect("a connection");
    let mut asking = stream.try_clone().expect("a second handle");
    let asks = std::thread::spawn(move || {
        asking.write_all(&get("/block").repeat(REQUESTS)).expect("all are taken in the end");
        asking.shutdown(Shutdown::Write).expect("an open connection");
    });
    others_are_served_while_it_asks(&shoal, idle);
    let mut client = Connection::over(Box::new(stream));
    for number in 0..REQUESTS {
        let response = client.try_response("GET").unwrap_or_else(|why| panic!("answer {number}: {why}"));
        assert!(response.body == body("block", 2000), "answer {number}");
        if number % 1000 == 0 {
            others_are_served(&shoal);
        }
    }
    assert!(client.closes());
    asks.join().expect("everything was asked");
    assert_eq!(origin.count("/block"), 1);
    all_have_gone(&shoal);
    // Two that filled the cache, and thirty of others.
    shoal.expect_metric("shoal_requests_total", "", REQUESTS as u64 + 32);
    shoal.expect_responses("memory_hit", REQUESTS as u64 + 30);
}

/// One client asks and asks: others are served meanwhile, and memory stays near what was taken when
/// `idle`.
fn others_are_served_while_it_asks(shoal: &Shoal, idle: u64) {
    for _ in 0..20 {
        others_are_served(shoal);
        std::thread::sleep(Duration::from_millis(20));
    }
    let held = shoal.resident_bytes().saturating_sub(idle);
    assert!(held < 4 << 20, "{held} bytes for one client");
}

/// Requests that take more than a look into RAM: parts, heads, bodies, and what only the origin
/// has.
#[test]
fn ten_thousand_requests_of_all_kinds() {
    let origin = origin();
    origin.on("/block", Answer::fresh(body("block", 2000), 600));
    origin.on_request("/echo", |request| Answer::ok(request.body.clone()).field("Cache-Control", "no-store"));
    let shoal = Setup::to(&origin).set("workers", 1).start();
    shoal.get("/block").expect_status(200);
    shoal.get("/small").expect_status(200);
    let idle = shoal.resident_bytes();
    // One in twenty goes to the origin.
    let request = |number: usize| match number % 40 {
        0 => Request::new("POST", "/echo").body(number.to_string().as_bytes()),
        20 => Request::new("POST", "/echo").chunked(number.to_string().as_bytes(), &Fields::default()),
        odd if odd % 2 == 1 => Request::get("/block").field("Range", &format!("bytes={odd}-{}", odd + 9)),
        _ => Request::new("HEAD", "/block"),
    };
    let stream = TcpStream::connect(shoal.address("reverse")).expect("a connection");
    let mut asking = stream.try_clone().expect("a second handle");
    let asks = std::thread::spawn(move || {
        let all: Vec<u8> = (0..REQUESTS).flat_map(|number| request(number).to_bytes("site.test")).collect();
        asking.write_all(&all).expect("all are taken in the end");
    });
    others_are_served_while_it_asks(&shoal, idle);
    let mut client = Connection::over(Box::new(stream));
    for number in 0..REQUESTS {
        let asked = request(number);
        let response =
            client.try_response(&asked.method).unwrap_or_else(|why| panic!("answer {number}: {why}"));
        let (status, expected) = match number % 40 {
            0 | 20 => (200, number.to_string().into_bytes()),
            odd if odd % 2 == 1 => (206, body("block", 2000)[odd..odd + 10].to_vec()),
            _ => (200, Vec::new()),
        };
        assert_eq!((response.status, response.body), (status, expected), "answer {number}");
    }
    asks.join().expect("everything was asked");
    drop(client);
    all_have_gone(&shoal);
    assert_eq!(origin.count("/echo"), REQUESTS / 20);
    shoal.expect_metric("shoal_requests_total", "", REQUESTS as u64 + 22);
}

/// Who takes no answer costs what a slow reader costs, for as long as one is waited for.
#[test]
fn who_never_reads_is_given_up() {
    let origin = origin();
    origin.on("/block", Answer::fresh(body("block", 2000), 600));
    let shoal = Setup::to(&origin).set("client.idle_timeout", "1500ms").start();
    shoal.get("/block").expect_status(200);
    shoal.get("/small").expect_status(200);
    let idle = shoal.resident_bytes();
    // Every request fits into the client's own socket, and the answers do not.
    let clients: Vec<TcpStream> = (0..5)
        .map(|_| {
            let mut client = TcpStream::connect(shoal.address("reverse")).expect("a connection");
            client.write_all(&get("/block").repeat(REQUESTS)).expect("room for all");
            client
        })
        .collect();
    let mut held = 0;
    wait::until("they are given up", || {
        others_are_served(&shoal);
        held = held.max(shoal.resident_bytes().saturating_sub(idle));
        shoal.metric("shoal_clients_slow_total", "") == 5
    });
    assert!(held < 8 << 20, "{held} bytes for five clients");
    for mut client in clients {
        let mut taken = Vec::new();
        // What had left is there, and then a reset.
        let _ = client.read_to_end(&mut taken);
        assert!(taken.len() < REQUESTS * 2000, "all was sent");
    }
    shoal.expect_metric("shoal_responses_cut_total", "", 5);
    all_have_gone(&shoal);
}
