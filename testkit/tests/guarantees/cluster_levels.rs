//! Placement by levels: a miss goes up from node to node, and each keeps a copy.

use shoal_testkit::cluster::{joined, peers, setup};
use shoal_testkit::seeded::body;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Origin, Request, Response, Setup, Shoal};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

fn leveled(origin: &Origin, (own, level): (SocketAddr, i64), members: &[SocketAddr]) -> Setup {
    setup(origin, own, members).set("cluster.placement", "hierarchy").set("cluster.level", level)
}

/// Starts nodes of these levels that know each other, with their levels.
fn hierarchy(origin: &Origin, levels: &[i64]) -> (Vec<Shoal>, Vec<SocketAddr>) {
    let peers = peers(levels.len());
    let own = peers.iter().copied().zip(levels.iter().copied());
    let nodes = joined(own.map(|own| leveled(origin, own, &peers).start()).collect());
    wait::until("all know the levels", || nodes.iter().all(|node| known_levels(node) == sorted(levels)));
    (nodes, peers)
}

fn sorted(levels: &[i64]) -> Vec<i64> {
    let mut levels = levels.to_vec();
    levels.sort_unstable();
    levels
}

/// Returns the levels of the living members that a node knows.
fn known_levels(node: &Shoal) -> Vec<i64> {
    let status = node.ask_admin(&Request::get("/cluster")).expect_status(200).text();
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    let members = status["members"].as_array().expect("a list").iter();
    let living = members.filter(|member| member["state"] != "out");
    sorted(&living.filter_map(|member| member["level"].as_i64()).collect::<Vec<_>>())
}

/// Returns the nodes that an answer came through, the one nearest to the origin first.
fn way(response: &Response) -> Vec<String> {
    let lines = response.fields.joined("cache-status");
    lines.split(", ").filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn names(peers: &[SocketAddr], response: &Response) -> Vec<usize> {
    let of = |part: &String| {
        let named = |peer: &SocketAddr| part.starts_with(&format!("shoal-{peer};"));
        peers.iter().position(named).unwrap_or_else(|| panic!("{part}"))
    };
    way(response).iter().map(of).collect()
}

#[test]
fn miss_goes_up_and_each_level_keeps_a_copy() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh(body("/a", 9_000), 600));
    let (nodes, peers) = hierarchy(&origin, &[0, 1, 2]);
    let first = nodes[0].get("/a");
    first.expect_body(body("/a", 9_000));
    assert_eq!(names(&peers, &first), [2, 1, 0], "{:?}", way(&first));
    assert!(way(&first).iter().all(|part| part.contains("fwd=uri-miss")), "{:?}", way(&first));
    for (number, node) in nodes.iter().enumerate() {
        let again = node.get("/a");
        again.expect_body(body("/a", 9_000));
        let own = way(&again).pop().expect("its own part");
        assert!(own.contains(";hit"), "node {number} keeps a copy: {own}");
    }
    assert_eq!(origin.count("/a"), 1);
    let where_is = nodes[0].ask_admin(&Request::get("/cluster/where?url=http://site.test/a"));
    let where_is: serde_json::Value = serde_json::from_str(&where_is.text()).expect("JSON");
    assert_eq!(where_is["nodes"][0]["name"], peers[1].to_string(), "the parent is first: {where_is}");
    assert!(where_is["nodes"].as_array().expect("a list").iter().all(|node| node["holds"] == true));
}

#[test]
fn misses_below_meet_at_the_parent() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 600).delay(std::time::Duration::from_millis(100)));
    let (nodes, _) = hierarchy(&origin, &[0, 0, 1]);
    std::thread::scope(|scope| {
        for node in &nodes {
            for _ in 0..3 {
                scope.spawn(|| {
                    (0..10).for_each(|number| _ = node.get(&format!("/{number}")).expect_body("there"))
                });
            }
        }
    });
    assert_eq!(origin.total(), 10, "one fetch each, at the parent");
}

#[test]
fn rules_choose_parents_by_host() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 600));
    let peers = peers(4);
    let own = |number: usize, level| leveled(&origin, (peers[number], level), &peers);
    let edge = own(0, 0)
        .parent("hosts = ['direct.test']\ndirect = true")
        .parent(&format!("hosts = ['*.named.test']\nnodes = ['{}']", peers[3]))
        .parent("hosts = ['top.test']\nlevel = 2");
    let nodes = vec![edge.start(), own(1, 1).start(), own(2, 1).start(), own(3, 2).start()];
    let nodes = joined(nodes);
    wait::until("the edge knows the levels", || known_levels(&nodes[0]) == [0, 1, 1, 2]);
    let mut connection = Connection::open(nodes[0].address("reverse"));
    let mut through = |host: &str| names(&peers, &connection.ask(&Request::get("/x"), host));
    assert_eq!(through("direct.test"), [0]);
    assert_eq!(through("a.named.test"), [3, 0]);
    assert_eq!(through("top.test"), [3, 0]);
    let usual = through("other.test");
    assert!(usual == [3, 1, 0] || usual == [3, 2, 0], "{usual:?}");
}

#[test]
fn dead_parent_is_replaced_by_the_next() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 600));
    let (mut nodes, peers) = hierarchy(&origin, &[0, 1, 1]);
    nodes[1].kill();
    for number in 0..40 {
        let response = nodes[0].get(&format!("/{number}"));
        response.expect_body("there");
        assert!(!names(&peers, &response).contains(&1), "{:?}", way(&response));
    }
    assert!(nodes[2].metric("shoal_cluster_answers_total", "served") > 5, "the other parent answers");
}

#[test]
fn sibling_with_a_copy_is_found_by_its_digest() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 600));
    let (nodes, peers) = hierarchy(&origin, &[0, 0]);
    let mut number = 0;
    wait::until("a sibling answers", || {
        let path = format!("/s{number}");
        number += 1;
        nodes[0].get(&path).expect_body("there");
        let older = format!("/s{}", (number - 1) / 2);
        names(&peers, nodes[1].get(&older).expect_body("there")) == [0, 1]
    });
}

/// Puts another placement and level in force.
fn reload(node: &Shoal, placement: &str, level: i64) {
    let path = node.folder().join("shoal.toml");
    let text = std::fs::read_to_string(&path).expect("the settings were written");
    let line = |line: &str| match line {
        _ if line.starts_with("placement") => format!("placement = {placement:?}"),
        // The log has a level in quotes.
        _ if line.starts_with("level =") && !line.contains(['"', '\'']) => format!("level = {level}"),
        line => line.to_owned(),
    };
    let changed: Vec<String> = text.lines().map(line).collect();
    std::fs::write(&path, changed.join("\n")).expect("a temporary folder takes files");
    node.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
}

#[test]
fn levels_change_without_a_failed_request() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 600));
    let (nodes, _) = hierarchy(&origin, &[0, 1, 2]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (number, node) in nodes.iter().enumerate() {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut count = number;
                while !is_over.load(Relaxed) {
                    count += 7;
                    node.get(&format!("/{count}")).expect_body("there");
                }
            });
        }
        let _stop = StopReaders(&is_over);
        let changes = [("hierarchy", [2, 1, 0]), ("hash", [0, 0, 0]), ("hierarchy", [1, 0, 2])];
        for (placement, levels) in changes {
            for (node, level) in nodes.iter().zip(levels) {
                reload(node, placement, level);
            }
            wait::until("all know the levels", || {
                nodes.iter().all(|node| known_levels(node) == sorted(&levels))
            });
        }
    });
}

/// Ends the readers when dropped, also after a panic.
struct StopReaders<'a>(&'a AtomicBool);

impl Drop for StopReaders<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
