//! Changes of a cluster's homes: what earlier homes hold is not fetched from the origin again.

use shoal_testkit::cluster::{joined, peers, setup};
use shoal_testkit::shoal::binary;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Origin, Request, Shoal};
use std::process::Command;

fn start(origin: &Origin, count: usize) -> Vec<Shoal> {
    let peers = peers(count);
    joined(
        peers
            .iter()
            .map(|own| setup(origin, *own, &peers).set("store.admission", "always").start())
            .collect(),
    )
}

fn paths(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("/{number}")).collect()
}

fn report(node: &Shoal) -> serde_json::Value {
    let answer = node.ask_admin(&Request::get("/cluster"));
    serde_json::from_slice(&answer.expect_status(200).body).expect("JSON")
}

/// Returns the number of members in this state, as the node sees them.
fn in_state(node: &Shoal, state: &str) -> usize {
    let report = report(node);
    let members = report["members"].as_array().expect("members");
    members.iter().filter(|member| member["state"] == state).count()
}

/// Runs `shoal cluster` on a node. Returns its output.
fn command(node: &Shoal, arguments: &[&str]) -> String {
    let mut command = Command::new(binary());
    command.arg("cluster").args(arguments).args(["--admin", &node.admin().to_string()]);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn drained_node_hands_over_what_is_asked_for() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 600));
    let nodes = start(&origin, 2);
    for path in paths(40) {
        nodes[0].get(&path).expect_body("there");
    }
    assert_eq!(origin.total(), 40);
    command(&nodes[0], &["drain"]);
    wait::until("the drain is known", || nodes.iter().all(|node| in_state(node, "draining") == 1));
    for path in paths(40) {
        nodes[1].get(&path).expect_body("there");
    }
    assert!((40..=50).contains(&origin.total()), "the drained node had its share: {}", origin.total());
    let moved = nodes[1].metric("shoal_cluster_moved_total", "");
    assert!((5..40).contains(&moved), "{moved}");
    for path in paths(40) {
        assert!(nodes[1].get(&path).hit(), "{path} has moved");
    }
    command(&nodes[0], &["join"]);
    wait::until("it is a home again", || nodes.iter().all(|node| in_state(node, "in") == 2));
}

#[test]
fn node_that_joins_gets_objects_from_earlier_homes() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 600));
    let peers = peers(2);
    let begin = |own| setup(&origin, own, &peers).set("store.admission", "always").start();
    let first = begin(peers[0]);
    for path in paths(40) {
        first.get(&path).expect_body("there");
    }
    let nodes = joined(vec![first, begin(peers[1])]);
    for path in paths(40) {
        nodes[1].get(&path).expect_body("there");
    }
    // on a busy machine an earlier home may be given up now and then
    assert!((40..=50).contains(&origin.total()), "{} fetches", origin.total());
    assert!(nodes[1].metric("shoal_cluster_moved_total", "") > 5);
}

#[test]
fn only_if_cached_asks_homes_and_no_origin() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 600));
    let nodes = start(&origin, 2);
    for path in paths(20) {
        nodes[1].get(&path).expect_body("there");
    }
    let asked = |path: &str| nodes[0].ask(&Request::get(path).field("Cache-Control", "only-if-cached"));
    for path in paths(20) {
        asked(&path).expect_body("there");
    }
    assert_eq!(asked("/absent1").status, 504);
    assert_eq!(asked("/absent2").status, 504);
    assert_eq!(origin.total(), 20);
}

#[test]
fn commands_show_peers_and_places() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 600));
    let nodes = start(&origin, 2);
    for path in paths(20) {
        nodes[0].get(&path).expect_body("there");
    }
    let row = &report(&nodes[0])["peers"][0];
    assert!(row["asks"]["served"].as_u64() > Some(0), "{row}");
    assert!(row["received_bytes"].as_u64() > Some(0), "{row}");
    assert_eq!((&row["state"], &row["purges_lag"]), (&"asked".into(), &0.into()), "{row}");
    let listed = command(&nodes[0], &["peers"]);
    assert!(listed.contains("OTHER NODE") && listed.contains("asked"), "{listed}");
    let found = command(&nodes[0], &["where", "http://site.test/1"]);
    assert!(found.contains("http://site.test/1 (site)") && found.contains("first  yes"), "{found}");
}

#[test]
fn home_without_its_way_to_the_origin_is_replaced() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 600));
    let peers = peers(2);
    let gone = Origin::start();
    let cut = setup(&gone, peers[1], &peers).start();
    drop(gone);
    let nodes = joined(vec![setup(&origin, peers[0], &peers).start(), cut]);
    for path in paths(20) {
        nodes[0].get(&path).expect_body("there");
    }
    assert!(nodes[0].metric("shoal_cluster_asks_total", "failed") > 0, "half of the homes are cut off");
}
