//! Peers that lie, or keep silent: they are counted and set aside, and clients are served.

use super::cluster::introduce;
use shoal_testkit::cluster::{peers, setup};
use shoal_testkit::{Answer, Origin, Request, Shoal};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A peer that answers each request with these bytes, and then keeps silent or closes.
fn liar(address: SocketAddr, answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) {
    let listener = TcpListener::bind(address).expect("the address is free");
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), answer) = (stream, Arc::clone(&answer)) else { continue };
            std::thread::spawn(move || {
                let mut read = Vec::new();
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    read.extend_from_slice(&buffer[..count]);
                    if is_whole(&read) {
                        let head = String::from_utf8_lossy(&read).into_owned();
                        // Like a node of before messages for hits.
                        let said = if head.starts_with("POST") { UNKNOWN.to_vec() } else { answer(&head) };
                        if stream.write_all(&said).is_err() {
                            return;
                        }
                        read.clear();
                    }
                }
            });
        }
    });
}

/// The xxh3 hash of the wrong body.
const SUM_OF_LIES: u64 = 0x8506_a808_ce24_6c47;

const UNKNOWN: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

/// Returns `true` if the bytes are a whole request.
fn is_whole(read: &[u8]) -> bool {
    let Some(head) = read.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let text = String::from_utf8_lossy(&read[..head]).to_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    read.len() == head + 4 + length.unwrap_or(0)
}

/// Starts a node beside a peer that lies in this way in its answers to messages for hits. It
/// answers nothing else.
pub fn liar_of_hits(origin: &Origin, kind: &'static str) -> Shoal {
    let peers = peers(2);
    let listener = TcpListener::bind(peers[1]).expect("the address is free");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            std::thread::spawn(move || {
                let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    read.extend_from_slice(&buffer[..count]);
                    if is_whole(&read) {
                        let asked = read.starts_with(b"POST /shoal/objects/hits ");
                        let said = if asked { lie(kind, &read) } else { UNKNOWN.to_vec() };
                        let _ = stream.write_all(&said);
                        read.clear();
                    }
                }
            });
        }
    });
    let node = setup(origin, peers[0], &peers).set("cluster.peer_timeout", "500ms").start();
    introduce(peers[0], peers[1]);
    node
}

/// Answer to a message for one hit that is wrong in one respect.
fn lie(kind: &str, request: &[u8]) -> Vec<u8> {
    if kind == "silent" {
        return Vec::new();
    }
    if kind == "unknown" {
        return UNKNOWN.to_vec();
    }
    let head = request.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    // Version, view, hash of purges and count come before the one ask.
    let ask = &request[head + 19..];
    let url = &ask[3..3 + usize::from(u16::from_le_bytes([ask[1], ask[2]]))];
    let key = shoal_core::Key::unkeyed(url).low() ^ u64::from(kind == "key");
    let sum = SUM_OF_LIES ^ u64::from(kind == "sum");
    let fields: &[u8] = if kind == "head" { b"a: b\r\n\r\nlies" } else { b"a: b\r\n" };
    let mut body = vec![1];
    body.extend([0; 12]);
    body.extend(u16::from(kind != "count").to_le_bytes());
    body.push(1);
    body.extend(key.to_le_bytes());
    body.extend(sum.to_le_bytes());
    body.extend((fields.len() as u32).to_le_bytes());
    body.extend(4u32.to_le_bytes());
    body.extend([fields, b"lies"].concat());
    match kind {
        "noise" => body = vec![7; 300],
        "cut" => drop(body.pop()),
        _ => {}
    }
    let length = body.len();
    [format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").as_bytes(), &body].concat()
}

/// An answer of a peer with this description and body.
fn said(description: &str, body: &str) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nShoal-Answer: ";
    format!("{head}{description}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[test]
fn peer_that_lies_is_set_aside() {
    let zero = "0000000000000000";
    let described = move |key: &str, sum: &str| format!("1 served {key} shared 0 0 4 {sum} {zero}");
    let answers: [(&str, Vec<u8>); 4] = [
        ("no description", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlies".to_vec()),
        ("another key", said(&described(zero, zero), "lies")),
        ("not HTTP", b"lies, lies\r\n\r\n".to_vec()),
        ("endless head", [b"HTTP/1.1 200 OK\r\n".to_vec(), b"X: y\r\n".repeat(20_000)].concat()),
    ];
    for (what, answer) in answers {
        let origin = Origin::start();
        origin.on("/*", Answer::fresh("truth", 60));
        let peers = peers(2);
        liar(peers[1], move |_| answer.clone());
        let node = setup(&origin, peers[0], &peers).start();
        introduce(peers[0], peers[1]);
        for number in 0..20 {
            node.get(&format!("/{number}")).expect_status(200).expect_body("truth");
        }
        assert_eq!(origin.total(), 20, "{what}");
        let asks = || node.metric("shoal_cluster_asks_total", "");
        assert!((1..=6).contains(&asks()), "{what}: the liar is set aside after {} asks", asks());
    }
}

/// Returns the hash of the key that an ask is about.
fn key_of(head: &str) -> String {
    let url = head.split(' ').nth(1).unwrap_or_default();
    format!("{:016x}", shoal_core::Key::unkeyed(url.as_bytes()).low())
}

#[test]
fn wrong_body_reaches_no_client_as_whole() {
    let zero = "0000000000000000";
    for (told, sent) in [("4", "lies"), ("400", "lies"), ("3", "lies"), ("-", "lies")] {
        let origin = Origin::start();
        origin.on("/*", Answer::fresh("truth", 60));
        let peers = peers(2);
        liar(peers[1], move |head| {
            let sum = if told == "-" { "-" } else { zero };
            said(&format!("1 served {} shared 0 0 {told} {sum} {zero}", key_of(head)), sent)
        });
        let node = setup(&origin, peers[0], &peers).start();
        introduce(peers[0], peers[1]);
        let mut cut = 0;
        for number in 0..20 {
            let mut client = node.connect();
            client.send(Request::get(&format!("/{number}")).to_bytes("site.test"));
            match client.try_response("GET") {
                Ok(answer) if answer.complete() => {
                    answer.expect_body("truth");
                }
                _ => cut += 1,
            }
        }
        assert!(cut <= 1, "{told}: one client at most sees a cut body, {cut} did");
        assert_eq!(node.metric("shoal_cluster_asks_total", "wrong"), 1, "{told}: then the peer is set aside");
        assert!(origin.total() >= 19);
    }
}

#[test]
fn peer_with_endless_bodies_is_set_aside() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("truth", 60));
    let peers = peers(2);
    liar(peers[1], |head| {
        let (key, zero) = (key_of(head), "0000000000000000");
        let fields = format!("Shoal-Answer: 1 served {key} shared 0 0 - - {zero}");
        let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{fields}\r\n");
        format!("{head}Transfer-Encoding: chunked\r\n\r\n4\r\ntrut\r\n").into_bytes()
    });
    let node = setup(&origin, peers[0], &peers).set("upstream.idle_timeout", "1s").start();
    introduce(peers[0], peers[1]);
    let mut cut = 0;
    for number in 0..20 {
        let mut client = node.connect();
        client.send(Request::get(&format!("/{number}")).to_bytes("site.test"));
        match client.try_response("GET") {
            Ok(answer) if answer.complete() => {
                answer.expect_body("truth");
            }
            _ => cut += 1,
        }
    }
    assert_eq!(cut, 1, "one client sees a cut body");
    assert_eq!(node.metric("shoal_cluster_asks_total", "wrong"), 1, "then the peer is set aside");
    assert_eq!(origin.total(), 19);
}

#[test]
fn silent_peer_costs_one_timeout() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("truth", 60));
    let peers = peers(2);
    liar(peers[1], |_| Vec::new());
    let node = setup(&origin, peers[0], &peers).set("cluster.peer_timeout", "500ms").start();
    introduce(peers[0], peers[1]);
    for number in 0..20 {
        let start = Instant::now();
        node.get(&format!("/{number}")).expect_body("truth");
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    }
    assert!(node.metric("shoal_cluster_asks_total", "late") >= 1);
}
