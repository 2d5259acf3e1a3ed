//! An ask of another node for a fresh response in RAM is answered on a short way. Its answer is
//! that of the ordinary way, which a field that is not plain leads to.

use shoal_testkit::address::free_port;
use shoal_testkit::cluster::setup;
use shoal_testkit::{Answer, Connection, Origin, Request, Shoal, wait};
use std::net::{Ipv4Addr, SocketAddr};

/// A token that changes nothing, but makes the request one that is not plain.
const ORDINARY: (&str, &str) = ("Connection", "keep-alive, x-nothing");

/// Starts a node that is a cluster alone, and whose address is that of this test.
fn node(origin: &Origin) -> (Shoal, SocketAddr) {
    let own = free_port(Ipv4Addr::LOCALHOST.into());
    (setup(origin, own, &[own]).start(), own)
}

/// An ask of the node for an object of the site, as another node makes it.
pub fn ask(path: &str) -> Request {
    ask_accepting("trailers", path)
}

/// As [`ask`], with another TE.
fn ask_accepting(te: &str, path: &str) -> Request {
    let zero = "0000000000000000";
    Request::get(&format!("http://site.test{path}"))
        .field("User-Agent", "x")
        .field("Via", "1.1 other")
        .field("CDN-Loop", "shoal-x")
        .field("X-Forwarded-For", "127.0.0.9")
        .field("Shoal-Peer", &format!("1 home {zero} 127.0.0.9:4711 1 {zero} {zero} 2000 site * /"))
        .field("TE", te)
}

fn answered_at_once(node: &Shoal) -> u64 {
    node.metric("shoal_cluster_answers_at_once_total", "")
}

#[test]
fn asks_are_answered_alike_on_both_ways() {
    let origin = Origin::start();
    let rich = Answer::fresh("x".repeat(20_000), 6000).field("ETag", "\"a\"").field("X-A", "1");
    origin.on("/small", Answer::fresh("body", 6000)).on("/rich", rich.field("X-A", "2"));
    origin.on("/large", Answer::fresh("y".repeat(300_000), 6000));
    origin.on("/gone", Answer { status: 404, ..Answer::fresh("gone", 6000) });
    let (node, peer) = node(&origin);
    let mut client = Connection::open(peer);
    for (number, path) in ["/small", "/rich", "/large"].into_iter().enumerate() {
        let ordinary = ask(path).field(ORDINARY.0, ORDINARY.1);
        let mut exact = |request: &Request| client.ask_exactly(request, "site.test");
        exact(&ordinary);
        let (first, second) = (exact(&ordinary), exact(&ask(path)));
        assert!(second.head.contains("shoal-answer: 1 served") && second.head.contains(";hit;"));
        second.expect_like(first, path);
        assert_eq!(answered_at_once(&node), number as u64 + 1, "{path}: only the second");
    }
    client.ask(&ask("/gone"), "site.test").expect_status(404);
    client.ask(&ask("/gone"), "site.test").expect_status(404);
    assert_eq!((answered_at_once(&node), origin.count("/gone")), (4, 1));
    assert_eq!(node.metric("shoal_cluster_answers_total", "served"), 11);
    assert_eq!(node.metric("shoal_requests_total", ""), 0, "asks are no requests of clients");
    let bytes = 3 * (4 + 20_000 + 300_000) + 2 * 4;
    assert_eq!(node.metric("shoal_cluster_served_bytes_total", ""), bytes);
}

#[test]
fn doubtful_asks_take_the_ordinary_way() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 6000).field("ETag", "\"e\""));
    origin.on("/varied", Answer::fresh("varied", 6000).field("Vary", "Accept-Language"));
    origin.on("/old", Answer::fresh("old", 6000).field("Age", "6001"));
    let (node, peer) = node(&origin);
    let mut client = Connection::open(peer);
    let mut status = |request: &Request| client.ask(request, "site.test").status;
    for path in ["/a", "/varied", "/old", "/varied", "/old"] {
        assert_eq!(status(&ask(path)), 200);
    }
    assert_eq!(status(&ask("/a").field("Range", "bytes=1-2")), 206);
    assert_eq!(status(&ask("/a").field("If-None-Match", "\"e\"")), 304);
    assert_eq!(status(&ask("/a").field("Cache-Control", "no-cache")), 200);
    let wrong = [(" site * /", " site b.test /", 503), ("1 home", "2 home", 400), (" 2000 ", " 02000 ", 400)];
    for (from, to, expected) in wrong {
        let mut request = ask("/a");
        for (name, value) in &mut request.fields.0 {
            if name == "Shoal-Peer" {
                *value = value.replace(from, to);
            }
        }
        assert_eq!(status(&request), expected, "{to}");
    }
    assert_eq!(answered_at_once(&node), 0);
    assert_eq!(status(&ask("/a")), 200);
    assert_eq!(answered_at_once(&node), 1);
}

#[test]
fn purged_response_is_not_answered_at_once() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 6000));
    let (node, peer) = node(&origin);
    let mut client = Connection::open(peer);
    (0..2).for_each(|_| _ = client.ask(&ask("/a"), "site.test").expect_status(200));
    assert_eq!(answered_at_once(&node), 1);
    let purge = Request::new("POST", "/purge").field("Content-Type", "application/json");
    node.ask_admin(&purge.body(br#"{"url": "http://site.test/a"}"#)).expect_status(200);
    client.ask(&ask("/a"), "site.test");
    assert_eq!((answered_at_once(&node), origin.count("/a")), (1, 2));
}

#[test]
fn mark_of_a_digest_is_for_nodes_that_read_it() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 6000));
    let own = free_port(Ipv4Addr::LOCALHOST.into());
    let node = setup(&origin, own, &[own]).set("cluster.placement", "directory").start();
    node.get("/a").expect_body("body");
    let mut client = Connection::open(own);
    let mut parts = |te: &str, is_plain: bool| {
        let request = ask_accepting(te, "/a");
        let request = if is_plain { request } else { request.field(ORDINARY.0, ORDINARY.1) };
        let answer = client.ask(&request, "site.test");
        answer.field("Shoal-Answer").map_or(0, |value| value.split(' ').count())
    };
    wait::until("a digest is published", || parts("trailers, shoal-mark", true) == 10);
    for is_plain in [true, false] {
        // A node of an earlier build takes an answer with another number of parts for a lie.
        assert_eq!(parts("trailers", is_plain), 9, "{is_plain}");
        assert_eq!(parts("trailers, shoal-mark", is_plain), 10, "{is_plain}");
    }
}
