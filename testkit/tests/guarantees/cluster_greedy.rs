//! A member that asks a node for everything gets its share: clients and other members are served,
//! memory stays bounded, and the member is set aside for a time.

use super::cluster_short_way::ask;
use rustix::net::sockopt;
use rustix::process::{Resource, getrlimit, setrlimit};
use shoal_testkit::address::connect_from;
use shoal_testkit::cluster::{joined, peers, setup};
use shoal_testkit::seeded::body;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Origin, Request, Shoal};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Three nodes: one that is asked, one that asks as nodes do, and one that lends this test its
/// address.
struct Ground {
    origin: Origin,
    nodes: Vec<Shoal>,
    peers: Vec<SocketAddr>,
}

impl Ground {
    fn start() -> Self {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        let _ = setrlimit(Resource::Nofile, limit);
        let origin = Origin::start();
        origin.on("/*", Answer::fresh("there", 600));
        for number in 0..LARGE {
            let path = format!("/large/{number}");
            origin.on(&path, Answer::fresh(body(&path, 300_000), 600));
        }
        let peers = peers(3);
        let node = |own: &SocketAddr| {
            let setup = setup(&origin, *own, &peers).set("cluster.peer_timeout", "10s");
            setup.set("cache.ram", "16 MiB").start()
        };
        let nodes = joined(peers.iter().map(node).collect());
        Self { origin, nodes, peers }
    }

    /// Connects to the first node from the address of the third one.
    fn open(&self) -> TcpStream {
        connect_from(self.peers[2].ip(), self.peers[0])
    }

    /// Returns the refusals of the first node for the share of another.
    fn refusals(&self) -> u64 {
        self.nodes[0].metric("shoal_cluster_refused_total", "\"share\"")
    }

    /// Asks the first two nodes for objects of this prefix that the origin has.
    fn serve_others(&self, prefix: &str) {
        let served = || self.nodes[1].metric("shoal_cluster_asks_total", "\"served\"");
        let before = served();
        for number in 0..30 {
            for node in &self.nodes[..2] {
                node.get(&format!("/{prefix}/{number}")).expect_status(200).expect_body("there");
            }
        }
        assert!(served() > before, "the other member is answered");
    }
}

/// Objects of 300,000 bytes, which are more than RAM takes.
const LARGE: usize = 100;

/// Most connections of one member.
const CONNECTIONS: usize = 2048;

/// Most resident memory of the node beside its budget: for each connection of the member, a request
/// and the piece before its socket.
const BESIDE: u64 = (64 << 20) + CONNECTIONS as u64 * (48 << 10);

#[test]
fn member_that_asks_for_everything_leaves_room_for_others() {
    let ground = Ground::start();
    let mut open: Vec<TcpStream> = Vec::new();
    for number in 0..CONNECTIONS + 200 {
        let mut stream = ground.open();
        for turn in 0..3 {
            let path = format!("/large/{}", (number + 31 * turn) % LARGE);
            // A connection beyond the share may be closed already.
            let _ = stream.write_all(&ask(&path).to_bytes("site.test"));
        }
        open.push(stream);
    }
    wait::until("connections beyond the share are closed", || ground.refusals() >= 190);
    ground.serve_others("beside");
    let resident = ground.nodes[0].resident_bytes();
    eprintln!("{} MiB resident", resident >> 20);
    assert!(resident <= (16 << 20) + BESIDE, "{resident} bytes are resident");
    drop(open);
    wait::until("the connections have ended", || {
        ground.nodes[0].metric("shoal_connections", "") < CONNECTIONS as u64 / 2
    });
    let mut client = Connection::over(Box::new(ground.open()));
    client.ask(&ask("/again"), "site.test").expect_status(200);
}

#[test]
fn member_that_goes_on_beyond_its_share_is_set_aside() {
    let ground = Ground::start();
    // Calls with bodies that never end.
    let held: Vec<TcpStream> = (0..CALLS)
        .map(|_| {
            let mut stream = ground.open();
            let head = "POST /shoal/objects/hits HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx";
            stream.write_all(head.as_bytes()).expect("it reads");
            stream
        })
        .collect();
    let mut client = Connection::over(Box::new(ground.open()));
    let call = Request::new("POST", "/shoal/objects/hits").field("Content-Length", "0");
    wait::until("the share of calls is used up", || client.ask(&call, "a").status == 503);
    let asked = |client: &mut Connection| {
        let answer = client.ask(&ask("/one"), "site.test");
        (answer.status, answer.field("Shoal-Answer").unwrap_or_default().split(' ').nth(1).map(str::to_owned))
    };
    let refusals = ground.refusals();
    let first = asked(&mut client);
    assert_eq!(first, (200, Some("served".into())), "{refusals} refusals set nobody aside");
    for _ in 0..REFUSALS {
        client.ask(&call, "a").expect_status(503);
    }
    assert_eq!(asked(&mut client), (503, Some("busy".into())));
    let refusals = ground.refusals();
    assert!(refusals > REFUSALS as u64, "{refusals}");
    ground.serve_others("meanwhile");
    drop(held);
    wait::until("calls are answered while asks are not", || client.ask(&call, "a").status == 400);
    assert_eq!(asked(&mut client).0, 503);
    ground.nodes[2].get("/own").expect_body("there");
    assert!(ground.origin.count("/own") == 1, "its clients are served, if need be from the origin");
}

/// Most calls of one member at the same time.
const CALLS: usize = 192;

/// Refusals that set a member aside.
const REFUSALS: usize = 256;

/// Message with asks for hits of the site `*`.
fn message(paths: impl Iterator<Item = String>) -> Vec<u8> {
    let urls: Vec<String> = paths.map(|path| format!("http://site.test{path}")).collect();
    let mut asks = vec![1];
    asks.extend([0; 16]);
    asks.extend((urls.len() as u16).to_le_bytes());
    for url in &urls {
        asks.push(1);
        for text in [url.as_bytes(), b"*", b"/"] {
            asks.extend((text.len() as u16).to_le_bytes());
            asks.extend(text);
        }
    }
    let head =
        format!("POST /shoal/objects/hits HTTP/1.1\r\nHost: shoal\r\nContent-Length: {}\r\n\r\n", asks.len());
    [head.as_bytes(), &asks].concat()
}

#[test]
fn unread_answers_to_messages_are_bounded() {
    let ground = Ground::start();
    // Objects that a message may carry, each asked for at the node itself before.
    let paths: Vec<String> = (0..32).map(|number| format!("/page/{number}")).collect();
    for path in &paths {
        ground.origin.on(path, Answer::fresh(body(path, PAGE), 600));
        let mut client = Connection::over(Box::new(ground.open()));
        client.ask(&ask(path), "site.test").expect_status(200);
    }
    let sent = message(paths.iter().cloned());
    let before = ground.nodes[0].resident_bytes();
    let streams: Vec<TcpStream> = (0..600)
        .map(|_| {
            let mut stream = ground.open();
            // The kernel takes little of an answer.
            sockopt::set_socket_recv_buffer_size(&stream, 4096).expect("a size");
            stream.write_all(&sent).expect("the kernel takes it");
            stream
        })
        .collect();
    wait::until("messages on more connections are refused", || ground.refusals() >= 300);
    let held = ground.nodes[0].resident_bytes().saturating_sub(before);
    eprintln!("{} MiB held by answers that nobody reads", held >> 20);
    assert!(held <= LINKS * 34 * PAGE as u64 + (64 << 20), "{held} bytes are held");
    ground.serve_others("beside");
    // A connection beyond the limit is answered: with nothing at once.
    let mut last = &streams[streams.len() - 1];
    last.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
    let mut head = [0; 15];
    let read = last.read_exact(&mut head);
    assert!(!read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "an answer came");
}

#[test]
fn messages_that_never_end_are_bounded() {
    let ground = Ground::start();
    for call in ["objects/hits", "memory/ask"] {
        let before = ground.refusals();
        let head = format!("POST /shoal/{call} HTTP/1.1\r\nHost: shoal\r\nContent-Length: 300000\r\n\r\n");
        let cut = [head.as_bytes(), &[1; 60_000]].concat();
        let held: Vec<TcpStream> = (0..LINKS as usize + CALLS + 50)
            .map(|_| {
                let mut stream = ground.open();
                // One that is refused may be closed already.
                let _ = stream.write_all(&cut);
                stream
            })
            .collect();
        wait::until("messages beyond both shares are refused", || ground.refusals() >= before + 50);
        ground.serve_others(call);
        drop(held);
        wait::until("the connections have ended", || ground.nodes[0].metric("shoal_connections", "") < 100);
    }
}

/// Bytes of an object of a message.
const PAGE: usize = 20_000;

/// Most connections of one member that carry messages.
const LINKS: u64 = 256;
