//! Messages of shared memory: answered in the loop of their connection, shared by gets that come
//! together, and refused if they are forged, too long or late.

use super::cluster::introduce_life;
use super::shared_memory_liars::{HEAD, gets, server};
use shoal_testkit::address::connect_from;
use shoal_testkit::cluster::{joined, members, peers, setup};
use shoal_testkit::seeded::body;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Origin, Shoal};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Asks for all paths over and over, on several connections at a time, until `is_over`. All bodies
/// are right. `refresh` is called before each round.
fn ask_together(node: &Shoal, paths: &[String], mut refresh: impl FnMut(), is_over: impl Fn() -> bool) {
    wait::until("enough pages came back", || {
        refresh();
        std::thread::scope(|scope| {
            for part in paths.chunks(paths.len().div_ceil(16)) {
                scope.spawn(move || {
                    for path in part {
                        node.get(path).expect_status(200).expect_body(body(path, BYTES));
                    }
                });
            }
        });
        is_over()
    });
}

/// Starts a node of one worker beside a server of memory of this kind, and asks for objects.
fn beside(kind: &'static str, is_over: impl Fn(&Shoal) -> bool) -> Shoal {
    let origin = Origin::start();
    let peers = peers(2);
    server(peers[1], kind);
    let node = setup(&origin, peers[0], &peers)
        .set("cluster.placement", "none")
        .set("cluster.shared_memory", "always")
        .set("cache.ram", "4 MiB")
        .set("workers", 1)
        .start();
    let paths = objects(&origin);
    let mut life = 0;
    let refresh = || {
        // It is believed in for some seconds, and then in its next life.
        if members(&node) < 2 {
            life += 1;
            introduce_life(peers[0], peers[1], life);
        }
    };
    ask_together(&node, &paths, refresh, || is_over(&node));
    node
}

fn objects(origin: &Origin) -> Vec<String> {
    let paths: Vec<String> = (0..320).map(|number| format!("/{number}")).collect();
    for path in &paths {
        origin.on(path, Answer::fresh(body(path, BYTES), 600));
    }
    paths
}

fn get_messages(node: &Shoal) -> u64 {
    node.metric("shoal_memory_get_messages_total", "")
}

#[test]
fn gets_that_come_together_share_a_message() {
    let node = beside("many", |node| gets(node, "\"hit\"") > get_messages(node) + 20);
    assert_eq!(gets(&node, "wrong"), 0);
}

#[test]
fn node_of_an_earlier_version_gets_messages_of_one() {
    let node = beside("honest", |node| gets(node, "\"hit\"") > 200);
    let all: u64 = ["\"hit\"", "gone", "failed", "wrong"].iter().map(|result| gets(&node, result)).sum();
    assert!(get_messages(&node) <= all, "{} messages for {all} gets", get_messages(&node));
    assert!(
        get_messages(&node) + gets(&node, "failed") >= all,
        "{} messages for {all} gets",
        get_messages(&node)
    );
}

#[test]
fn changed_pages_of_a_shared_message_are_refused() {
    let mut shared = (0..5).map(|_| {
        let node = beside("many changed", |node| gets(node, "wrong") > 0);
        assert_eq!(gets(&node, "\"hit\""), 0);
        assert!(node.log().contains("set aside"));
        gets(&node, "wrong")
    });
    // The first wrong page sets the server aside: any others came in the same message.
    assert!(shared.any(|wrong| wrong > 1), "no message had more than one page");
}

#[test]
fn pages_are_put_and_returned_without_a_task() {
    let origin = Origin::start();
    let peers = peers(2);
    let start = |own: &SocketAddr| {
        setup(&origin, *own, &peers)
            .set("cluster.placement", "directory")
            .set("cluster.shared_memory", "always")
            .set("cache.ram", "4 MiB")
            .start()
    };
    let nodes = joined(peers.iter().map(start).collect());
    let paths = objects(&origin);
    let (busy, server) = (&nodes[0], &nodes[1]);
    ask_together(busy, &paths, || {}, || gets(busy, "\"hit\"") > 100);
    let messages = |way: &str| server.metric("shoal_memory_messages_total", way);
    let kept = server.metric("shoal_memory_kept_total", "\"kept\"");
    assert!(messages("at_once") > get_messages(busy) && kept > 100, "{kept} kept");
    assert!(messages("task") * 4 < messages("at_once"), "reports alone need a task: {}", messages("task"));
    assert_eq!(gets(busy, "wrong"), 0);
}

/// Head of a message: as nodes write it, or another one.
fn head(host: &str, length: usize) -> String {
    format!("POST /shoal/memory/ask HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n")
}

/// Ask of this kind, of a node that is no member.
fn forged(kind: u8, matter: &[u8]) -> Vec<u8> {
    let mut message = [&[1, kind][..], &[7; HEAD - 2], matter].concat();
    // The role of the report.
    message[26] = 0;
    message
}

#[test]
fn bad_asks_for_memory_are_refused() {
    let origin = Origin::start();
    let peers = peers(2);
    let node = setup(&origin, peers[0], &peers).set("cluster.shared_memory", "always").start();
    let own = peers[1].ip();
    let stranger: IpAddr = "127.0.0.1".parse().expect("an address");
    let page = [&[0; 32][..], &4u32.to_le_bytes(), b"page"].concat();
    let get = forged(3, &[7; 16]);
    let gets = forged(4, &[&[2, 0][..], &[7; 32]].concat());
    let put = forged(2, &[&[1, 0][..], &page].concat());
    let mut life = 0;
    for (message, from, status) in [
        (&get[..], own, 409),
        (&gets, own, 409),
        (&put, own, 409),
        (&forged(2, &[0xff, 0xff]), own, 400),
        (&forged(4, &[&[17, 0][..], &[7; 16 * 17]].concat()), own, 400),
        (&forged(4, &[0, 0]), own, 400),
        (&forged(2, &[&[2, 0][..], &page].concat()), own, 400),
        (&get[..40], own, 400),
        (b"", own, 400),
        (&get, stranger, 403),
        (&put, stranger, 403),
    ] {
        for host in ["a", "shoal"] {
            // The other node does not answer, and so is believed in for some seconds. A machine
            // under load may take longer for an ask.
            wait::until("the other node is a member before and after the ask", || {
                if members(&node) < 2 {
                    life += 1;
                    introduce_life(peers[0], peers[1], life);
                }
                let is_member = || members(&node) == 2;
                let before = is_member();
                let mut stream = connect_from(from, peers[0]);
                let bytes = [head(host, message.len()).as_bytes(), message].concat();
                stream.write_all(&bytes).expect("it reads");
                let answer = Connection::over(Box::new(stream)).head().expect("an answer");
                if !(before && is_member()) {
                    return false;
                }
                assert_eq!(answer.status, status, "{host}: {message:?}");
                true
            });
        }
    }
    assert_eq!(node.metric("shoal_memory_guests", ""), 0);
    assert_eq!(node.metric("shoal_memory_messages_total", "at_once"), 0);
}

#[test]
fn stalled_message_costs_its_connection_alone() {
    let origin = Origin::start();
    let peers = peers(2);
    let node = setup(&origin, peers[0], &peers)
        .set("cluster.shared_memory", "always")
        .set("client.idle_timeout", "1s")
        .set("workers", 1)
        .start();
    origin.on("/", Answer::fresh("fresh", 600));
    let mut life = 0;
    for (sent, is_long) in [(100, false), (20_000, false), (100, true)] {
        // As before: it is a member from the first byte to the last.
        wait::until("a stalled message ends", || {
            if members(&node) < 2 {
                life += 1;
                introduce_life(peers[0], peers[1], life);
            }
            let mut stream = connect_from(peers[1].ip(), peers[0]);
            let length = if is_long { 2 << 20 } else { 300_000 };
            stream.write_all(&[head("shoal", length).as_bytes(), &vec![1; sent]].concat()).expect("it reads");
            node.get("/").expect_status(200).expect_body("fresh");
            stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
            let mut answer = Vec::new();
            // A reset ends it, too.
            let _ = stream.read_to_end(&mut answer);
            let text = String::from_utf8_lossy(&answer);
            let is_refused = [" 408 ", " 413 "].iter().any(|status| text.contains(status));
            assert!(is_refused || answer.is_empty() || text.contains(" 403 "), "{text}");
            is_refused
        });
    }
    assert_eq!(node.metric("shoal_memory_guests", ""), 0);
}

/// Bytes of an object.
const BYTES: usize = 16_000;
