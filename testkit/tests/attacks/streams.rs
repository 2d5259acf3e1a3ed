//! What an HTTP/2 connection can make the node hold.

use crate::frames;
use shoal_testkit::h2::H2Connection;
use shoal_testkit::{Answer, Gate, Origin, Request, Response, Setup, Shoal, wait};

/// The most memory that the process has had, in bytes.
fn peak_bytes(shoal: &Shoal) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", shoal.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel tells");
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kibibytes << 10
}

/// A table entry of 4,000 bytes, named 15 times in each head by a byte each: streams that wait for
/// an origin held all of it, 64 KiB each (issues of this kind are told of in RFC 7541, section
/// 7.3).
#[test]
fn repeated_table_entries_hold_bounded_memory() {
    let origin = Origin::start();
    let gate = Gate::new();
    origin.on("/slow/*", Answer::ok("slow").field("Cache-Control", "no-store").held_by(&gate));
    origin.on("/other", Answer::fresh("other", 60));
    let shoal = Setup::to(&origin).set("cache.ram", "16 MiB").start();
    shoal.get("/other").expect_body("other");
    let before = peak_bytes(&shoal);
    // Each asks for something else, lest they share a fetch.
    let request = |client: usize, number: usize| {
        let request = Request::get(&format!("/slow/{client}.{number}"));
        (0..15).fold(request, |request, _| request.field("x-large", &"a".repeat(4000)))
    };
    let address = shoal.address("reverse");
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|client| {
            let requests: Vec<_> = (0..100).map(|number| request(client, number)).collect();
            std::thread::spawn(move || H2Connection::open(address).ask_all(&requests, "site.test"))
        })
        .collect();
    wait::until("the connections have their shares", || origin.total() > CONNECTIONS);
    shoal.get("/other").expect_body("other").expect_hit();
    gate.open();
    let answers: Vec<Response> =
        clients.into_iter().flat_map(|client| client.join().expect("all are answered")).collect();
    let refused = answers.iter().filter(|answer| answer.status == 431).count();
    let served = answers.iter().filter(|answer| answer.status == 200).count();
    assert!(refused > 0 && served >= CONNECTIONS, "{refused} refused, {served} served");
    // Unbounded it is 48 MB, twice.
    let more = peak_bytes(&shoal).saturating_sub(before);
    assert!(more < 40 << 20, "{more} bytes more for {served} served and {refused} refused");
}

const CONNECTIONS: usize = 8;

/// The same in trailers, which wait until an origin takes the body before them.
#[test]
fn repeated_trailers_hold_bounded_memory() {
    let (origin, gate) = (Origin::start(), Gate::new());
    origin.on("/*", Answer::ok("slow").field("Cache-Control", "no-store").held_by(&gate));
    let setup = Setup::to(&origin).set("cache.ram", "16 MiB");
    let shoal = setup.set("upstream.connections_per_origin", 1).start();
    let before = peak_bytes(&shoal);
    // A literal of 4,000 bytes that the table takes (RFC 7541, section 6.2.1), and references to
    // it.
    let literal = [&b"\x40\x07x-large\x7f\xa1\x1e"[..], &[b'a'; 4000]].concat();
    let mut clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let mut client = shoal.connect();
            let mut bytes = frames::preface(&[]);
            for number in 0..100 {
                let stream = 1 + 2 * number;
                let block = frames::request("POST", "/a", &[]);
                bytes.extend(frames::frame(frames::HEADERS, frames::END_HEADERS, stream, &block));
                bytes.extend(frames::frame(frames::DATA, 0, stream, b"body"));
                let first = if number == 0 { &literal[..] } else { &[0xbe] };
                let block = [first, &[0xbe; 14]].concat();
                let flags = frames::END_HEADERS | frames::END_STREAM;
                bytes.extend(frames::frame(frames::HEADERS, flags, stream, &block));
            }
            client.send(bytes);
            client
        })
        .collect();
    // Each is told of the streams that were too many.
    for client in &mut clients {
        wait::until("streams are reset", || {
            client.limit(std::time::Duration::from_millis(300));
            let resets = frames::read(&client.everything().0);
            resets
                .iter()
                .any(|(kind, _, payload)| *kind == frames::RST_STREAM && payload[..] == [0, 0, 0, 11])
        });
    }
    let more = peak_bytes(&shoal).saturating_sub(before);
    // Unbounded it is 48 MB.
    assert!(more < 28 << 20, "{more} bytes more");
    gate.open();
}

/// Each stream of CONNECT takes a descriptor, beside the connections that are counted.
#[test]
fn connect_streams_leave_tunnels_to_others() {
    let origin = Origin::start();
    let destination = origin.address().to_string();
    let shoal = Setup::bare()
        .set_list("forward.allow_private_destinations", &["127.0.0.0/8"])
        .set("forward.connect_ports", vec![i64::from(origin.address().port())])
        .set("upstream.tunnels", 30)
        .start();
    let mut greedy: Vec<_> = (0..40).map(|_| shoal.connect_forward()).collect();
    let statuses: Vec<u16> = greedy
        .iter_mut()
        .map(|client| {
            client.send(Request::new("CONNECT", &destination).to_bytes(&destination));
            client.head().expect("an answer").status
        })
        .collect();
    let opened = statuses.iter().filter(|status| **status == 200).count();
    let refused = statuses.iter().filter(|status| **status == 503).count();
    assert_eq!((opened, refused), (24, 16), "an address has four for each that is free");
    drop(greedy);
    wait::until("the tunnels have ended", || {
        let mut client = shoal.connect_forward();
        client.send(Request::new("CONNECT", &destination).to_bytes(&destination));
        client.head().expect("an answer").status == 200
    });
}
