//! Servers of memory that lie, forget, or are slower than the disk.

use super::cluster::introduce_life;
use shoal_testkit::cluster::{members, peers, setup};
use shoal_testkit::seeded::body;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Origin, Shoal};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Pages that the server has, by their numbers.
type Pages = Arc<Mutex<HashMap<[u8; 16], Vec<u8>>>>;

const UNKNOWN: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

/// Bytes of an ask before its matter: version, kind, node, life, purges, report.
pub const HEAD: usize = 51;

/// A server of memory that lies in this way. It answers nothing else. Kinds with `many` answer
/// several gets in one message.
pub fn server(address: SocketAddr, kind: &'static str) {
    let listener = TcpListener::bind(address).expect("the address is free");
    let pages = Pages::default();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), pages) = (stream, Arc::clone(&pages)) else { continue };
            std::thread::spawn(move || {
                let (mut read, mut buffer) = (Vec::new(), [0; 65_536]);
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    read.extend_from_slice(&buffer[..count]);
                    let Some(body) = whole(&read) else { continue };
                    let said = match read.starts_with(b"POST /shoal/memory/ask ") {
                        true => answer(kind, &body, &pages),
                        false => UNKNOWN.to_vec(),
                    };
                    if stream.write_all(&said).is_err() {
                        return;
                    }
                    read.clear();
                }
            });
        }
    });
}

/// Returns the body of a whole request.
fn whole(read: &[u8]) -> Option<Vec<u8>> {
    let head = read.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&read[..head]).to_lowercase();
    let length =
        text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    (read.len() == head + length).then(|| read[head..].to_vec())
}

fn answer(kind: &str, ask: &[u8], pages: &Pages) -> Vec<u8> {
    let mut out = vec![1, ask[1], 0];
    // Idle, with memory without end, as old as can be.
    out.push(0);
    out.extend([0xff; 16]);
    out.extend(1000u16.to_le_bytes());
    out.extend(1000u16.to_le_bytes());
    out.extend([1, 0, 0, 0]);
    out.push(0);
    let mut pages = pages.lock().expect("no thread panics");
    match ask[1] {
        1 => out.push(if kind.contains("many") { 2 } else { 1 }),
        2 => {
            let count = u16::from_le_bytes([ask[HEAD], ask[HEAD + 1]]);
            let mut rest = &ask[HEAD + 2..];
            for _ in 0..count {
                let length = u32::from_le_bytes(rest[32..36].try_into().expect("four")) as usize;
                pages.insert(rest[..16].try_into().expect("sixteen"), rest[36..36 + length].to_vec());
                rest = &rest[36 + length..];
            }
            out.extend(count.to_le_bytes());
            out.extend(vec![0; usize::from(count)]);
        }
        3 => push_page(kind, &ask[HEAD..], &mut pages, &mut out),
        _ => {
            let count = u16::from_le_bytes([ask[HEAD], ask[HEAD + 1]]);
            out.extend(count.to_le_bytes());
            for number in 0..usize::from(count) {
                push_page(kind, &ask[HEAD + 2 + 16 * number..], &mut pages, &mut out);
            }
        }
    }
    let length = out.len();
    [format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").as_bytes(), &out].concat()
}

/// Adds the page with the number at the start of `wanted`, or a lie.
fn push_page(kind: &str, wanted: &[u8], pages: &mut HashMap<[u8; 16], Vec<u8>>, out: &mut Vec<u8>) {
    let wanted: [u8; 16] = wanted[..16].try_into().expect("sixteen");
    let mut page = pages.remove(&wanted).unwrap_or_default();
    if kind.contains("changed") {
        *page.last_mut().expect("it has bytes") ^= 1;
    }
    match kind {
        "another" => page = pages.values().next().cloned().unwrap_or_default(),
        "slow" => std::thread::sleep(Duration::from_millis(30)),
        "forgets" => return out.push(0),
        _ => {}
    }
    let length = if kind == "giant" { u32::MAX } else { page.len() as u32 };
    out.push(1);
    out.extend(length.to_le_bytes());
    out.extend(page);
}

/// Starts a node beside such a server, and asks for objects until `is_over`. All answers are right.
fn beside(kind: &'static str, shared: &str, is_over: impl Fn(&Shoal) -> bool) -> Shoal {
    let origin = Origin::start();
    let peers = peers(2);
    server(peers[1], kind);
    let node = setup(&origin, peers[0], &peers)
        .set("cluster.placement", "none")
        .set("cluster.shared_memory", shared)
        .set("cache.ram", "4 MiB")
        .start();
    let paths: Vec<String> = (0..320).map(|number| format!("/{number}")).collect();
    for path in &paths {
        origin.on(path, Answer::fresh(body(path, 16_000), 600));
    }
    let mut life = 0;
    wait::until(kind, || {
        // It is believed in for some seconds, and then in its next life.
        if members(&node) < 2 {
            life += 1;
            introduce_life(peers[0], peers[1], life);
        }
        for path in &paths {
            node.get(path).expect_status(200).expect_body(body(path, 16_000));
        }
        is_over(&node)
    });
    node
}

pub fn gets(node: &Shoal, result: &str) -> u64 {
    node.metric("shoal_memory_gets_total", result)
}

#[test]
fn server_that_returns_pages_is_used() {
    let node = beside("honest", "always", |node| gets(node, "\"hit\"") > 50);
    assert_eq!(gets(&node, "wrong"), 0);
}

#[test]
fn other_bytes_are_refused_and_the_server_is_set_aside() {
    for kind in ["changed", "another", "giant"] {
        let node = beside(kind, "always", |node| gets(node, "wrong") > 0);
        assert!(gets(&node, "wrong") <= 4, "{kind}: {}", gets(&node, "wrong"));
        assert_eq!(gets(&node, "\"hit\""), 0, "{kind}");
        assert!(node.log().contains("set aside") || kind == "giant", "{kind}");
    }
}

#[test]
fn server_that_forgets_pages_gets_no_more() {
    let node = beside("forgets", "always", |node| gets(node, "gone") >= 16);
    wait::until("it is said", || node.log().contains("forgets most pages"));
}

#[test]
fn server_slower_than_the_disk_is_left_out() {
    let off = "shoal_memory_switched_off_total";
    let node = beside("slow", "measured", |node| node.metric(off, "") > 0);
    assert!(node.log().contains("the disk is faster than the memory of this peer"));
    assert!(gets(&node, "\"hit\"") < 300, "{}", gets(&node, "\"hit\""));
}
