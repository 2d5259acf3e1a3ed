//! The settings of docs/NEIGHBOURS.md for nginx and HAProxy in front of Shoal, started as they stand.

use shoal_testkit::neighbours::Neighbour;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal, missing, wait};

/// The block of this language in the page, with the addresses of these nodes.
fn settings(language: &str, nodes: &[Shoal]) -> String {
    let page = include_str!("../../../docs/NEIGHBOURS.md");
    let from = page.split(&format!("```{language}\n")).nth(1).expect("the page has the block");
    let mut text = from.split("```").next().expect("a block ends").to_owned();
    for (number, node) in nodes.iter().enumerate() {
        text = text.replace(&format!("10.0.0.{}:8080", number + 1), &node.address("reverse").to_string());
    }
    assert!(!text.contains(":8080"), "each server is a node of the test: {text}");
    text.replace("10.0.0.10:80", "{address}")
}

fn check(program: &str, start: impl Fn(&str) -> Option<Neighbour>, language: &str) {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("body", 3600));
    let mut nodes: Vec<Shoal> = (0..3).map(|_| Setup::to(&origin).start()).collect();
    let Some(front) = start(&settings(language, &nodes)) else { return missing::skip(program) };
    let get = |path: &str| Connection::open(front.address()).ask(&Request::get(path), "site.test");
    wait::until("the front sees its nodes", || get("/first").status == 200);
    let path = |number: usize| format!("/{number}?query={number}");
    let before = origin.total();
    for _ in 0..2 {
        for number in 0..90 {
            get(&path(number)).expect_status(200).expect_body("body");
        }
    }
    assert_eq!(origin.total() - before, 90, "{program}: each object is on one node");
    for node in &nodes {
        let held = node.responses("miss");
        assert!((10..60).contains(&held), "{program}: {held} of 90 on one node");
    }
    let lost = nodes.pop().expect("three nodes");
    let moved = lost.responses("miss");
    drop(lost);
    wait::until("the front leaves the lost node", || (0..30).all(|number| get(&path(number)).status == 200));
    let before = origin.total();
    for number in 0..90 {
        get(&path(number)).expect_status(200).expect_body("body");
    }
    let fetched = (origin.total() - before) as u64;
    assert!(fetched <= moved, "{program}: {fetched} were fetched again, and {moved} were lost");
}

#[test]
fn nginx_spreads_objects_over_nodes() {
    check("nginx", Neighbour::nginx_with, "nginx");
}

#[test]
fn haproxy_spreads_objects_over_nodes() {
    check("haproxy", Neighbour::haproxy_with, "haproxy");
}
