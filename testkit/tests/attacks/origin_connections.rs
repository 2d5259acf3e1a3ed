//! Connections to an origin, of which there are few: whoever leaves, waits, reads nothing or keeps
//! a tunnel open must not take them from others.

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use shoal_testkit::origin::{After, Framing};
use shoal_testkit::{Answer, Connection, Gate, Origin, Request, Response, Setup, Shoal, address, wait};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Streams of one HTTP/2 connection that are begun and left.
struct Streams {
    runtime: Runtime,
    sender: SendRequest<Bytes>,
}

impl Streams {
    fn open(address: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a thread may have a runtime");
        let sender = runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(address).await.expect("the server accepts");
            let (sender, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
            tokio::spawn(connection);
            sender
        });
        Self { runtime, sender }
    }

    /// Asks for `path` and waits for nothing.
    fn ask(&self, path: &str) -> (ResponseFuture, SendStream<Bytes>) {
        self.runtime.block_on(async {
            let mut sender = self.sender.clone().ready().await.expect("the connection takes streams");
            let uri = format!("http://site.test{path}");
            let request = http::Request::get(uri).body(()).expect("a request");
            sender.send_request(request, true).expect("a stream")
        })
    }
}

/// A connection from another address than others come from.
fn connect_from(shoal: &Shoal, address: u8) -> Connection {
    let from = Ipv4Addr::new(127, 0, 3, address).into();
    Connection::over(Box::new(address::connect_from(from, shoal.address("reverse"))))
}

/// What a client of another address gets, and how long that takes.
fn stranger_gets(shoal: &Shoal, path: &str) -> (Response, Duration) {
    let begun = Instant::now();
    let response = connect_from(shoal, 2).ask(&Request::get(path), "site.test");
    (response, begun.elapsed())
}

/// An origin that answers `/silent/*` when the gate opens, and others at once; with so many
/// connections.
fn silent_origin(connections: i64) -> (Origin, Gate, Shoal) {
    silent(Origin::start(), connections)
}

fn silent(origin: Origin, connections: i64) -> (Origin, Gate, Shoal) {
    let gate = Gate::new();
    origin.on("/silent/*", Answer::fresh("late", 60).held_by(&gate));
    origin.on("/fast/*", Answer::fresh("fast", 60));
    let shoal = setup(&origin, connections).start();
    (origin, gate, shoal)
}

fn setup(origin: &Origin, connections: i64) -> Setup {
    Setup::to(origin).set("workers", 1).set("upstream.connections_per_origin", connections)
}

#[test]
fn reset_requests_give_connections_back() {
    let (origin, gate, shoal) = silent_origin(16);
    let attacker = Streams::open(shoal.address("reverse"));
    for round in 0..4 {
        let streams: Vec<_> =
            (0..32).map(|number| attacker.ask(&format!("/silent/{round}/{number}"))).collect();
        wait::until("the origin is asked", || origin.total() > round * 4);
        for (_answer, mut stream) in streams {
            stream.send_reset(Reason::CANCEL);
        }
    }
    wait::until("a quarter is left to fill the cache", || {
        shoal.metric("shoal_upstream_connections", "") <= 4
    });
    let (response, took) = stranger_gets(&shoal, "/fast/1");
    response.expect_body("fast");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(shoal.metric("shoal_fetches_abandoned_total", "") > 0);
    gate.open();
}

#[test]
fn closed_connections_give_connections_back() {
    let (origin, gate, shoal) = silent_origin(16);
    for round in 0..3 {
        let clients: Vec<_> = (0..12)
            .map(|number| {
                let mut client = shoal.connect();
                client.send(Request::get(&format!("/silent/{round}/{number}")).to_bytes("site.test"));
                client
            })
            .collect();
        wait::until("the origin is asked", || origin.total() > round * 4);
        clients.into_iter().for_each(Connection::reset);
    }
    wait::until("a quarter is left to fill the cache", || {
        shoal.metric("shoal_upstream_connections", "") <= 4
    });
    stranger_gets(&shoal, "/fast/1").0.expect_body("fast");
    gate.open();
}

/// What is left goes on for others: the next who asks finds it.
#[test]
fn a_few_abandoned_fetches_fill_the_cache() {
    let (origin, gate, shoal) = silent_origin(16);
    let mut client = shoal.connect();
    client.send(Request::get("/silent/1").to_bytes("site.test"));
    origin.wait_for("/silent/1", 1);
    client.reset();
    shoal.expect_responses("abandoned", 1);
    gate.open();
    shoal.get("/silent/1").expect_body("late");
    assert_eq!(origin.count("/silent/1"), 1);
}

#[test]
fn bodies_that_all_have_left_give_connections_back() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let slow = Answer::new(200).field("Cache-Control", "max-age=60").framed(Framing::Claimed(1000));
    origin.on("/slow/*", slow.piece("begin").wait_for(&gate));
    origin.on("/fast/*", Answer::fresh("fast", 60));
    let shoal = setup(&origin, 16).start();
    let clients: Vec<_> = (0..12)
        .map(|number| {
            let mut client = shoal.connect();
            client.send(Request::get(&format!("/slow/{number}")).to_bytes("site.test"));
            assert_eq!(client.head().map(|head| head.status), Ok(200));
            client
        })
        .collect();
    clients.into_iter().for_each(Connection::reset);
    wait::until("a quarter is left to fill the cache", || {
        shoal.metric("shoal_upstream_connections", "") <= 4
    });
    stranger_gets(&shoal, "/fast/1").0.expect_body("fast");
    gate.open();
}

#[test]
fn one_client_that_waits_leaves_connections_to_others() {
    let (origin, gate, shoal) = silent_origin(16);
    let attacker = Streams::open(shoal.address("reverse"));
    let _streams: Vec<_> = (0..100).map(|number| attacker.ask(&format!("/silent/{number}"))).collect();
    let _clients: Vec<_> = (100..200)
        .map(|number| {
            let mut client = shoal.connect();
            client.send(Request::get(&format!("/silent/{number}")).to_bytes("site.test"));
            client
        })
        .collect();
    wait::until("the attacker has its share", || origin.total() >= 13);
    for number in 0..3 {
        let (response, took) = stranger_gets(&shoal, &format!("/fast/{number}"));
        response.expect_body("fast");
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    assert_eq!(origin.total(), 13 + 3, "four for each that is free");
    gate.open();
}

#[test]
fn tunnels_are_beside_the_connections() {
    let origin = Origin::start();
    let switch = Answer::new(101).field("Upgrade", "websocket").field("Connection", "Upgrade");
    origin.on("/socket", switch.then(After::Stall)).on("/fast/*", Answer::fresh("fast", 60));
    let shoal = setup(&origin, 4).set("upstream.tunnels_per_origin", 10).start();
    let upgrade = Request::get("/socket").field("Connection", "Upgrade").field("Upgrade", "websocket");
    let ask = || {
        let mut client = shoal.connect();
        client.send(upgrade.to_bytes("site.test"));
        (client.head().expect("an answer").status, client)
    };
    let tunnels: Vec<_> = (0..8).map(|_| ask()).collect();
    assert!(tunnels.iter().all(|(status, _)| *status == 101));
    stranger_gets(&shoal, "/fast/1").0.expect_body("fast");
    assert_eq!(ask().0, 503, "this client has its share of the tunnels");
    assert_eq!(shoal.metric("shoal_upstream_tunnels_refused_total", ""), 1);
    let mut other = connect_from(&shoal, 2);
    other.send(upgrade.to_bytes("site.test"));
    assert_eq!(other.head().map(|head| head.status), Ok(101));
    drop(tunnels);
    wait::until("a tunnel that ended leaves room", || ask().0 == 101);
}

#[test]
fn a_client_that_reads_nothing_gives_way_to_those_who_wait() {
    let origin = Origin::start();
    let large = vec![b'x'; 40_000_000];
    origin.on("/large/*", Answer::ok(large).field("Cache-Control", "no-store"));
    origin.on("/fast/*", Answer::ok("fast").field("Cache-Control", "no-store"));
    let shoal = setup(&origin, 4).start();
    // Each of another address, so that shares do not help.
    let mut idle: Vec<_> = (10..14)
        .map(|address| {
            let mut client = connect_from(&shoal, address);
            client.send(Request::get(&format!("/large/{address}")).to_bytes("site.test"));
            assert_eq!(client.head().map(|head| head.status), Ok(200));
            client
        })
        .collect();
    stranger_gets(&shoal, "/fast/1").0.expect_body("fast");
    assert_eq!(shoal.metric("shoal_upstream_stalled_shed_total", ""), 1, "one made way for one");
    let (read, _) = idle.remove(0).everything();
    assert!(read.len() < 40_000_000, "the first of them was cut");
}

/// An HTTP/2 connection carries many requests, and they are shared out as connections are.
#[test]
fn one_client_that_waits_leaves_streams_to_others() {
    let (origin, gate, shoal) = silent(Origin::start_h2c(), 2);
    let attackers: Vec<_> = (0..4).map(|_| Streams::open(shoal.address("reverse"))).collect();
    let ask = |number: usize| attackers[number / 64].ask(&format!("/silent/{number}"));
    let _streams: Vec<_> = (0..256).map(ask).collect();
    wait::until("the attacker has its share of two connections' streams", || origin.total() >= 160);
    for number in 0..3 {
        let (response, took) = stranger_gets(&shoal, &format!("/fast/{number}"));
        response.expect_body("fast");
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    assert!(origin.total() <= 163, "four for each that is free, of two hundred: {}", origin.total());
    assert_eq!(shoal.metric("shoal_upstream_connections", ""), 2);
    gate.open();
}

#[test]
fn a_client_that_reads_nothing_gives_its_stream_to_those_who_wait() {
    let origin = Origin::start_h2c_with(4);
    origin.on("/large/*", Answer::ok(vec![b'x'; 40_000_000]).field("Cache-Control", "no-store"));
    origin.on("/fast/*", Answer::ok("fast").field("Cache-Control", "no-store"));
    let shoal = setup(&origin, 1).start();
    // From here on it is known how many streams there are.
    stranger_gets(&shoal, "/fast/0").0.expect_body("fast");
    // Each of another address, so that shares do not help.
    let _idle: Vec<_> = (10..14)
        .map(|address| {
            let mut client = connect_from(&shoal, address);
            client.send(Request::get(&format!("/large/{address}")).to_bytes("site.test"));
            assert_eq!(client.head().map(|head| head.status), Ok(200));
            client
        })
        .collect();
    stranger_gets(&shoal, "/fast/1").0.expect_body("fast");
    assert_eq!(shoal.metric("shoal_upstream_stalled_shed_total", ""), 1, "one made way for one");
}
