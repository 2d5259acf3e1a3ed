//! Purges of a cluster: seen at every node, confirmed, made up for, and kept over kills.

use shoal_testkit::address::{free_port, fresh_ip};
use shoal_testkit::cluster::joined;
use shoal_testkit::shoal::binary;
use shoal_testkit::wait::within;
use shoal_testkit::{Answer, Origin, Request, Response, Setup, Shoal};
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

/// Starts nodes that name each other. Returns their names too: their addresses for peers.
fn cluster(origin: &Origin, nodes: usize) -> (Vec<Shoal>, Vec<String>) {
    placed(origin, nodes, "none")
}

fn placed(origin: &Origin, nodes: usize, placement: &str) -> (Vec<Shoal>, Vec<String>) {
    let peers: Vec<SocketAddr> = (0..nodes).map(|_| free_port(fresh_ip())).collect();
    let join: Vec<String> = peers.iter().map(SocketAddr::to_string).collect();
    let listed: Vec<&str> = join.iter().map(String::as_str).collect();
    let start = |peer: &SocketAddr| {
        Setup::to(origin)
            .set("cluster.name", "test")
            .set("cluster.peer", peer.to_string())
            .set("cluster.placement", placement)
            .set_list("cluster.join", &listed)
            .set("store.admission", "always")
            .start()
    };
    (joined(peers.iter().map(start).collect()), join)
}

fn purge(shoal: &Shoal, body: &str) -> (u16, serde_json::Value) {
    let request =
        Request::new("POST", "/purge").field("Content-Type", "application/json").body(body.as_bytes());
    let answer = shoal.ask_admin(&request);
    (answer.status, serde_json::from_slice(&answer.body).expect("JSON"))
}

/// Stores the path on a node.
fn store(shoal: &Shoal, path: &str) {
    assert!(
        within(Duration::from_secs(60), || {
            shoal.get(path).expect_status(200);
            shoal.get(path).hit()
        }),
        "{path} is never served from the cache"
    );
}

/// Waits until a purge at the first node is confirmed by all others.
fn settled(nodes: &[Shoal]) {
    let names = |answer: &serde_json::Value| answer["nodes"]["confirmed"].as_array().map(Vec::len);
    let is_confirmed = || {
        let (status, answer) = purge(&nodes[0], r#"{"tag": "nothing"}"#);
        status == 200 && names(&answer) == Some(nodes.len() - 1)
    };
    assert!(within(Duration::from_secs(60), is_confirmed), "the nodes never confirm");
}

fn is_body(response: &Response, body: &str) -> bool {
    response.body == body.as_bytes()
}

#[test]
fn purge_at_one_node_is_seen_at_all() {
    let origin = Origin::start();
    let (nodes, _) = cluster(&origin, 3);
    settled(&nodes);
    let purges = [
        r#"{"url": "http://site.test/a"}"#,
        r#"{"tag": "news"}"#,
        r#"{"host": "site.test"}"#,
        r#"{"group": {"origin": "http://site.test", "group": "g"}}"#,
        r#""all""#,
    ];
    for (number, body) in purges.iter().enumerate() {
        let version = |number: usize| {
            Answer::fresh(format!("version {number}"), 600)
                .field("Cache-Tag", "news")
                .field("Cache-Groups", "\"g\"")
        };
        origin.on("/a", version(number));
        nodes.iter().for_each(|node| store(node, "/a"));
        origin.on("/a", version(number + 1));
        let (status, answer) = purge(&nodes[number % 3], body);
        assert_eq!((status, &answer["nodes"]["missing"]), (200, &serde_json::json!([])), "{body}");
        for node in &nodes {
            node.get("/a").expect_body(format!("version {}", number + 1));
        }
    }
}

#[test]
fn unsafe_methods_invalidate_on_all_nodes() {
    let origin = Origin::start();
    let (nodes, _) = cluster(&origin, 3);
    settled(&nodes);
    origin.on("/a", Answer::fresh("old", 600));
    nodes.iter().for_each(|node| store(node, "/a"));
    origin.on("/a", Answer::fresh("new", 600));
    nodes[1].ask(&Request::new("POST", "/a").body(b"x")).expect_status(200);
    for node in &nodes {
        assert!(within(Duration::from_secs(60), || is_body(&node.get("/a"), "new")));
    }
}

#[test]
fn node_that_is_down_is_named_and_catches_up() {
    let origin = Origin::start();
    let (mut nodes, names) = cluster(&origin, 3);
    settled(&nodes);
    let missing = names[2].as_str();
    origin.on("/a", Answer::fresh("old", 600)).on("/b", Answer::fresh("kept", 600));
    nodes.iter().for_each(|node| ["/a", "/b"].iter().for_each(|path| store(node, path)));
    nodes[2].wait_until_written();
    nodes[2].kill();
    origin.on("/a", Answer::fresh("new", 600));
    let begun = Instant::now();
    let (status, answer) = purge(&nodes[0], r#"{"url": "http://site.test/a"}"#);
    assert!(begun.elapsed() < Duration::from_secs(30), "the wait has a bound");
    assert_eq!((status, &answer["nodes"]["missing"]), (202, &serde_json::json!([missing])));
    let shell = Command::new(binary())
        .args(["purge", "--tag", "x", "--admin", &nodes[0].admin().to_string()])
        .output()
        .expect("the binary runs");
    let told = String::from_utf8_lossy(&shell.stderr).into_owned();
    assert!(!shell.status.success() && told.contains(missing), "{told}");
    nodes[2].restart();
    // From its first answer on.
    nodes[2].get("/a").expect_body("new");
    assert!(within(Duration::from_secs(60), || nodes[2].get("/b").hit()), "old responses are served again");
    nodes[2].get("/a").expect_body("new");
    settled(&nodes);
}

#[test]
fn acknowledged_purges_hold_after_any_kill() {
    let origin = Origin::start();
    let (mut nodes, _) = cluster(&origin, 2);
    settled(&nodes);
    for killed in [0, 1] {
        origin.on("/a", Answer::fresh("old", 600).field("Cache-Tag", "news"));
        purge(&nodes[0], r#""all""#);
        nodes.iter().for_each(|node| store(node, "/a"));
        nodes.iter().for_each(Shoal::wait_until_written);
        origin.on("/a", Answer::fresh("new", 600));
        assert_eq!(purge(&nodes[0], r#"{"tag": "news"}"#).0, 200);
        nodes[killed].kill();
        nodes[1 - killed].get("/a").expect_body("new");
        nodes[killed].restart();
        nodes[killed].get("/a").expect_body("new");
        settled(&nodes);
    }
}

/// The home of an object has the purge before it answers another node, and a purge reaches bodies
/// that nodes got from each other.
#[test]
fn purged_object_is_not_had_from_another_node() {
    let origin = Origin::start();
    let (nodes, _) = placed(&origin, 3, "hash");
    settled(&nodes);
    for number in 0..10 {
        let path = format!("/{number}");
        origin.on(&path, Answer::fresh("old", 600));
        for node in &nodes {
            node.get(&path).expect_body("old");
        }
        origin.on(&path, Answer::fresh("new", 600));
        let (status, _) = purge(&nodes[number % 3], &format!("{{\"url\": \"http://site.test{path}\"}}"));
        assert_eq!(status, 200);
        for node in &nodes {
            node.get(&path).expect_body("new");
        }
    }
    let served: u64 =
        nodes.iter().map(|node| node.metric("shoal_cluster_answers_total", "result=\"served\"")).sum();
    assert!(served > 0, "no node asked another one");
}
