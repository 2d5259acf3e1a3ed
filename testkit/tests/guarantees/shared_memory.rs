//! Shared memory: objects that leave one node's RAM stay in another's, and are never stale.

use shoal_testkit::cluster::{joined, peers, setup};
use shoal_testkit::seeded::{Random, body};
use shoal_testkit::wait;
use shoal_testkit::{Answer, Origin, Request, Shoal};
use std::time::{Duration, Instant};

/// Starts nodes of 4 MiB of RAM each, any of which may hold an object.
pub fn cluster(origin: &Origin, count: usize, shared: &str) -> Vec<Shoal> {
    let peers = peers(count);
    let node = |own: &std::net::SocketAddr| {
        setup(origin, *own, &peers)
            .set("cluster.placement", "directory")
            .set("cluster.shared_memory", shared)
            .set("cache.ram", "4 MiB")
            .start()
    };
    let nodes = joined(peers.iter().map(node).collect());
    if shared != "off" {
        wait::until("all nodes share memory", || nodes.iter().all(|node| servers(node) == count - 1));
    }
    nodes
}

/// Returns the number of nodes that take pages of this one.
fn servers(node: &Shoal) -> usize {
    let memory = report(node);
    let rows = memory["servers"].as_array().cloned().unwrap_or_default();
    rows.iter().filter(|row| row["state"] == "on").count()
}

/// Returns a node's words about shared memory.
pub fn report(node: &Shoal) -> serde_json::Value {
    let text = node.ask_admin(&Request::get("/cluster")).expect_status(200).text();
    let value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    value["shared_memory"].clone()
}

/// Has the origin serve objects, and returns their paths.
fn objects(origin: &Origin, count: usize) -> Vec<String> {
    let paths: Vec<String> = (0..count).map(|number| format!("/{number}")).collect();
    for path in &paths {
        origin.on(path, Answer::fresh(body(path, BYTES), 600));
    }
    paths
}

/// Asks a node for all objects, so that it stores them.
fn load(node: &Shoal, paths: &[String]) {
    for path in paths {
        node.get(path).expect_body(body(path, BYTES));
    }
}

/// Returns the counters of shared memory of all nodes, for people.
fn counts(nodes: &[Shoal]) -> String {
    let rows = nodes.iter().map(|node| {
        let of = |name: &str, results: &[&str]| {
            let value =
                |result: &&str| format!("{result} {}", node.metric(&format!("shoal_memory_{name}"), result));
            results.iter().map(value).collect::<Vec<_>>().join(", ")
        };
        let puts = of("puts_total", &["kept", "left", "late", "refused", "failed", "dropped"]);
        let gets = of("gets_total", &["hit", "gone", "failed", "wrong"]);
        let held = of("kept_total", &["kept", "declined"]);
        let guests = (node.metric("shoal_memory_guests", ""), node.metric("shoal_memory_guest_bytes", ""));
        format!("puts: {puts}; gets: {gets}; held: {held}; guests {guests:?}; {}", report(node))
    });
    rows.collect::<Vec<_>>().join("\n  ")
}

fn gets(node: &Shoal) -> u64 {
    node.metric("shoal_memory_gets_total", "\"hit\"")
}

/// Bytes of an object.
const BYTES: usize = 16_000;

/// Requests before the first one that counts: the load leaves the latest objects in RAM.
const WARMING: usize = 3_000;

/// Requests of a run that counts.
const COUNTED: usize = 5_000;

/// Most runs until one counts.
const RUNS: usize = 4;

/// Runs clients of which four of five ask one node. Returns the objects read from disks, without
/// the first read of each one, for which no memory can do anything. A busy machine delays puts and
/// lets servers seem slow: then the next run of as many requests counts, until one `is_enough`.
fn disk_reads(shared: &str, is_enough: impl Fn(u64) -> bool) -> u64 {
    let origin = Origin::start();
    let nodes = cluster(&origin, 4, shared);
    let paths = objects(&origin, 2_000);
    load(&nodes[0], &paths);
    let reads = || nodes.iter().map(|node| node.metric("shoal_disk_object_reads_total", "")).sum::<u64>();
    let (mut random, mut asked) = (Random::new(7), std::collections::HashSet::new());
    let mut run = |requests: usize| {
        let (before, mut first) = (reads(), 0);
        for number in 0..requests {
            // Popularity falls as the reciprocal of the rank.
            let unit = random.below(1 << 30) as f64 / f64::from(1 << 30);
            let path = &paths[(paths.len() as f64).powf(unit) as usize - 1];
            let node = if number % 5 < 4 { 0 } else { 1 + number % 3 };
            first += u64::from(asked.insert(path));
            nodes[node].get(path).expect_body(body(path, BYTES));
        }
        (reads() - before).saturating_sub(first)
    };
    run(WARMING);
    let mut found = run(COUNTED);
    for _ in 1..RUNS {
        eprintln!("{shared}: {found} disk reads; {}", counts(&nodes));
        if is_enough(found) {
            break;
        }
        found = run(COUNTED);
    }
    for node in &nodes {
        let ram = &node.status()["ram"];
        assert!(ram["bytes"].as_u64().is_some_and(|bytes| bytes <= 4 << 20), "{ram}");
    }
    assert!(shared == "off" || gets(&nodes[0]) > 100);
    found
}

#[test]
fn idle_memory_halves_the_disk_reads_of_a_busy_node() {
    let without = disk_reads("off", |_| true);
    let with = disk_reads("always", |reads| reads * 2 <= without);
    assert!(with * 2 <= without, "{with} disk reads, and {without} without shared memory");
}

#[test]
fn purged_object_is_never_served_from_other_memory() {
    let origin = Origin::start();
    let nodes = cluster(&origin, 3, "always");
    let paths = objects(&origin, 800);
    wait::until("objects are at other nodes", || {
        load(&nodes[0], &paths);
        nodes[0].metric("shoal_memory_placed", "") > 100
    });
    let purge = |node: &Shoal, wish: String| {
        let json = Request::new("POST", "/purge").field("Content-Type", "application/json");
        let request = json.body(wish.as_bytes());
        wait::until("all nodes have confirmed", || node.ask_admin(&request).status == 200);
    };
    for (number, path) in paths.iter().enumerate().take(60) {
        origin.on(path, Answer::fresh(format!("new {path}"), 600));
        purge(&nodes[number % 3], format!("{{\"url\":\"http://site.test{path}\"}}"));
        nodes[0].get(path).expect_body(format!("new {path}"));
    }
    // A purge of everything leaves the pages where they are, and no client gets one.
    let held = nodes[0].metric("shoal_memory_placed", "");
    assert!(held > 100, "{held}");
    for path in &paths {
        origin.on(path, Answer::fresh(format!("newer {path}"), 600));
    }
    purge(&nodes[1], "\"all\"".into());
    for path in &paths {
        nodes[0].get(path).expect_body(format!("newer {path}"));
    }
}

#[test]
fn dead_and_frozen_servers_fail_no_request() {
    let origin = Origin::start();
    let mut nodes = cluster(&origin, 4, "always");
    let paths = objects(&origin, 1_000);
    wait::until("objects are at other nodes", || {
        load(&nodes[0], &paths);
        nodes[0].metric("shoal_memory_placed", "") > 300
    });
    let slowest = |node: &Shoal| {
        let mut slowest = Duration::ZERO;
        for path in &paths {
            let begun = Instant::now();
            node.get(path).expect_status(200).expect_body(body(path, BYTES));
            slowest = slowest.max(begun.elapsed());
        }
        slowest
    };
    nodes[1].kill();
    let killed = slowest(&nodes[0]);
    nodes[2].signal(rustix::process::Signal::STOP);
    let frozen = slowest(&nodes[0]);
    nodes[2].signal(rustix::process::Signal::CONT);
    // A time-out of 2 s, on a machine that may be busy: no request waits for server after server.
    assert!(killed < wait::LIMIT / 2 && frozen < wait::LIMIT / 2, "{killed:?} {frozen:?}");
    let failed = nodes[0].metric("shoal_memory_gets_total", "failed");
    assert!(failed <= paths.len() as u64 / 10, "servers that are gone are left out: {failed} gets failed");
    assert_eq!(nodes[0].metric("shoal_memory_gets_total", "wrong"), 0);
    // The last server has the objects that left RAM last. From the first object on, each would be
    // given up just before its turn.
    load(&nodes[0], &paths.iter().rev().take(500).cloned().collect::<Vec<_>>());
    assert!(gets(&nodes[0]) > 0, "the last server serves: {}", counts(&nodes[..1]));
}

#[test]
fn node_that_becomes_busy_takes_its_memory_back() {
    let origin = Origin::start();
    let nodes = cluster(&origin, 2, "always");
    let paths = objects(&origin, 1_200);
    let held = || nodes[1].metric("shoal_memory_guest_bytes", "");
    // A fast node drops some of its offers: the queue is short.
    wait::until("the idle node holds objects", || {
        load(&nodes[0], &paths[..600]);
        held() > 2 << 20
    });
    let before = held();
    load(&nodes[1], &paths[600..]);
    wait::until("it has given them up", || held() < before / 2);
    assert!(nodes[1].metric("shoal_memory_yielded_total", "") > 50);
    let (ram, memory) = (nodes[1].status()["ram"].clone(), report(&nodes[1]));
    assert!(ram["bytes"].as_u64().is_some_and(|bytes| bytes <= 4 << 20), "{ram}");
    assert!(memory["guest_bytes"].as_u64().is_some_and(|bytes| bytes < before), "{memory}");
    load(&nodes[0], &paths[..50]);
}

#[test]
fn reload_turns_shared_memory_off_and_on() {
    let origin = Origin::start();
    let mut nodes = cluster(&origin, 2, "always");
    let paths = objects(&origin, 600);
    wait::until("the idle node holds objects", || {
        load(&nodes[0], &paths);
        nodes[1].metric("shoal_memory_guests", "") > 50
    });
    nodes[1].change(|text| text.replace("\"always\"", "\"off\""));
    assert_eq!(nodes[1].ask_admin(&Request::new("POST", "/reload")).status, 200);
    wait::until("all is given back", || nodes[1].metric("shoal_memory_guest_bytes", "") == 0);
    load(&nodes[0], &paths);
    assert!(report(&nodes[1]).is_null());
    nodes[1].change(|text| text.replace("\"off\"", "\"always\""));
    assert_eq!(nodes[1].ask_admin(&Request::new("POST", "/reload")).status, 200);
    wait::until("it takes objects again", || {
        load(&nodes[0], &paths);
        nodes[1].metric("shoal_memory_guests", "") > 0
    });
}
