//! Placement by digests: any node may hold an object, and the others find it there.

use super::cluster::introduce;
use shoal_testkit::address::free_port;
use shoal_testkit::cluster::{joined, peers, setup};
use shoal_testkit::seeded::body;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

fn by_digests(origin: &Origin, own: SocketAddr, members: &[SocketAddr]) -> Setup {
    setup(origin, own, members).set("cluster.placement", "directory")
}

fn cluster(origin: &Origin, count: usize) -> Vec<Shoal> {
    let peers = peers(count);
    joined(peers.iter().map(|own| by_digests(origin, *own, &peers).start()).collect())
}

/// Returns the asks of probable holders by a node, and those in vain.
fn asks(node: &Shoal) -> (u64, u64) {
    let name = "shoal_cluster_digest_asks_total";
    (node.metric(name, "\"hit\""), node.metric(name, "false_hit"))
}

/// Stores objects at a node, and waits until another one gets the last of them from there.
fn store_and_spread(origin: &Origin, holder: &Shoal, other: &Shoal, paths: &[String]) {
    for path in paths {
        origin.on(path, Answer::fresh(body(path, 5_000), 600));
        holder.get(path).expect_body(body(path, 5_000));
    }
    let mut number = 0;
    wait::until("the digest has spread", || {
        number += 1;
        // Each probe is stored by the holder first, so that only its digest is news.
        let probe = format!("/probe{number}");
        origin.on(&probe, Answer::fresh("probe", 600));
        holder.get(&probe).expect_body("probe");
        let before = asks(other).0;
        if number > OLD {
            other.get(&format!("/probe{}", number - OLD)).expect_status(200);
        }
        asks(other).0 > before
    });
}

/// Probes stored after a probe before it is looked for: some seconds' worth.
const OLD: usize = 20;

fn paths(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("/{prefix}{number}")).collect()
}

#[test]
fn object_of_one_node_is_had_by_the_others() {
    let origin = Origin::start();
    let nodes = cluster(&origin, 3);
    let paths = paths("a", 30);
    store_and_spread(&origin, &nodes[0], &nodes[1], &paths);
    store_and_spread(&origin, &nodes[0], &nodes[2], &[]);
    for node in &nodes[1..] {
        for path in &paths {
            node.get(path).expect_body(body(path, 5_000));
        }
    }
    let again = paths.iter().filter(|path| origin.count(path) > 1).count();
    assert_eq!(again, 0, "the origin was asked once for each object");
    let head = nodes[1].ask(&Request::new("HEAD", &paths[0]));
    assert_eq!((head.status, head.field("content-length")), (200, Some("5000")));
    let bytes: u64 = nodes.iter().map(|node| node.metric("shoal_cluster_digest_bytes_total", "")).sum();
    assert!((1..3 * 300_000).contains(&bytes), "{bytes}");
}

#[test]
fn purged_object_is_had_from_nobody() {
    let origin = Origin::start();
    let nodes = cluster(&origin, 3);
    let paths = paths("p", 10);
    store_and_spread(&origin, &nodes[0], &nodes[1], &paths);
    let (_, before) = asks(&nodes[1]);
    for path in &paths {
        origin.on(path, Answer::fresh(format!("new {path}"), 600));
        let url = format!("http://site.test{path}");
        let purge = format!("{{\"url\":{url:?}}}");
        let purge =
            Request::new("POST", "/purge").field("Content-Type", "application/json").body(purge.as_bytes());
        wait::until("all nodes have confirmed", || nodes[2].ask_admin(&purge).status == 200);
        // The digest may still name the object: an ask in vain, and the origin's new body.
        nodes[1].get(path).expect_body(format!("new {path}"));
    }
    let (_, after) = asks(&nodes[1]);
    assert!(after > before, "asks in vain are counted");
    assert!(after - before <= 10, "each costs one ask: {}", after - before);
}

/// A peer that answers each head with these bytes.
fn liar(address: SocketAddr, answer: fn(&str) -> Vec<u8>) {
    let listener = TcpListener::bind(address).expect("the address is free");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    read.extend_from_slice(&buffer[..count]);
                    if read.windows(4).any(|end| end == b"\r\n\r\n") {
                        let head = String::from_utf8_lossy(&read).into_owned();
                        if stream.write_all(&answer(&head)).is_err() {
                            return;
                        }
                        read.clear();
                    }
                }
            });
        }
    });
}

/// A digest answer with as many bits set as are still believed.
fn lying_digest() -> Vec<u8> {
    let mut answer = vec![1, 3];
    answer.extend([1u64, 1, 1000].iter().flat_map(|number| number.to_le_bytes()));
    answer.push(1);
    answer.extend(16u32.to_le_bytes());
    answer.extend([0x5555_5555_5555_5555u64; 16].iter().flat_map(|word| word.to_le_bytes()));
    answer
}

#[test]
fn lying_digest_costs_bounded_asks() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("truth", 60));
    let peers = peers(2);
    liar(peers[1], |head| {
        let zero = "0000000000000000";
        if head.contains("digests/pull") {
            let digest = lying_digest();
            let mut bytes =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", digest.len()).into_bytes();
            bytes.extend(digest);
            return bytes;
        }
        let status = if head.starts_with("POST") { "404 Not Found" } else { "504 Gateway Timeout" };
        let answer = format!("Shoal-Answer: 1 missing {zero} private 0 0 - - {zero}");
        format!("HTTP/1.1 {status}\r\n{answer}\r\nContent-Length: 0\r\n\r\n").into_bytes()
    });
    let node = by_digests(&origin, peers[0], &peers).start();
    introduce(peers[0], peers[1]);
    let mut number = 0;
    wait::until("the digest is distrusted", || {
        number += 1;
        node.get(&format!("/{number}")).expect_body("truth");
        node.metric("shoal_cluster_digest_distrusted_total", "") > 0
    });
    for number in 0..100 {
        node.get(&format!("/after{number}")).expect_body("truth");
    }
    let (found, in_vain) = asks(&node);
    assert_eq!((found, in_vain), (0, 16), "then it is left out for a minute");
}

#[test]
fn malformed_pull_is_refused() {
    let origin = Origin::start();
    let address = free_port(Ipv4Addr::LOCALHOST.into());
    let _node = by_digests(&origin, address, &[address]).start();
    for (body, expected) in [(&b"\x01"[..], 400), (&[1; 25], 200), (&[2; 25], 400), (&[1; 26], 400)] {
        let mut stream = TcpStream::connect(address).expect("it listens");
        let head =
            format!("POST /shoal/digests/pull HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(&[head.as_bytes(), body].concat()).expect("it reads");
        assert_eq!(Connection::over(Box::new(stream)).head().expect("an answer").status, expected);
    }
}

/// Puts another placement in force. The settings are written by hand, since clients use the node.
fn reload(node: &Shoal, placement: &str) {
    let path = node.folder().join("shoal.toml");
    let text = std::fs::read_to_string(&path).expect("the settings were written");
    let lines = text.lines().map(|line| match line.starts_with("placement") {
        true => format!("placement = {placement:?}"),
        false => line.to_owned(),
    });
    let changed = lines.collect::<Vec<_>>().join("\n");
    assert!(changed.contains(placement), "{text}");
    std::fs::write(&path, changed).expect("a temporary folder takes files");
    assert_eq!(node.ask_admin(&Request::new("POST", "/reload")).status, 200);
}

#[test]
fn placement_changes_without_a_failed_request() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 600));
    let nodes = cluster(&origin, 3);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (number, node) in nodes.iter().enumerate() {
            let is_over = &is_over;
            scope.spawn(move || {
                for count in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    node.get(&format!("/{}", (count * 7 + number) % 500)).expect_body("there");
                }
            });
        }
        for placement in ["hash", "directory", "none", "directory", "hash"] {
            for node in &nodes {
                reload(node, placement);
            }
            match placement {
                "directory" => wait::until("the digests are used", || {
                    nodes.iter().all(|node| node.metric("shoal_cluster_digest_keys", "") > 0)
                }),
                _ => wait::until("the digests are given up", || {
                    nodes.iter().all(|node| node.metric("shoal_cluster_digest_keys", "") == 0)
                }),
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let before = nodes[0].metric("shoal_cluster_asks_total", "served");
    wait::until("homes are asked again", || {
        let number = origin.total();
        nodes[0].get(&format!("/again{number}")).expect_body("there");
        nodes[0].metric("shoal_cluster_asks_total", "served") > before
    });
}
