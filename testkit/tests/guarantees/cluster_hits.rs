//! Hits at home on another node: many requests share one message between the nodes, and each reply
//! is that of the ordinary path.

use super::cluster_liars::liar_of_hits;
use shoal_testkit::cluster::{joined, peers, setup};
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Origin, Request, Resource, Response, Shoal};

/// Starts two nodes.
fn pair(origin: &Origin) -> Vec<Shoal> {
    let peers = peers(2);
    joined(peers.iter().map(|own| setup(origin, *own, &peers).start()).collect())
}

fn peer_hits(node: &Shoal) -> u64 {
    node.responses("peer_hit")
}

/// Returns `count` paths of the form `prefix` and a number, with their home at the second node,
/// which holds them in RAM.
fn paths_of_second(nodes: &[Shoal], prefix: &str, count: usize) -> Vec<String> {
    let mut paths = Vec::new();
    for number in 0.. {
        let path = format!("{prefix}{number}");
        nodes[0].get(&path).expect_status(200);
        let before = peer_hits(&nodes[0]);
        nodes[0].get(&path).expect_status(200);
        if peer_hits(&nodes[0]) > before {
            paths.push(path);
        }
        if paths.len() == count {
            break;
        }
    }
    paths
}

/// Sends the requests at the same time, each on a connection of its own that has had a reply.
fn ask_together(node: &Shoal, requests: &[Request]) -> Vec<Response> {
    let mut clients: Vec<_> = requests.iter().map(|_| node.connect()).collect();
    for (client, request) in clients.iter_mut().zip(requests) {
        client.send(request.to_bytes("site.test"));
    }
    let answers = clients.iter_mut().zip(requests);
    answers.map(|(client, request)| client.response(&request.method)).collect()
}

#[test]
fn many_hits_share_few_messages() {
    let origin = Origin::start();
    for number in 0..200 {
        let path = format!("/{number}");
        origin.on(&path, Answer::fresh(body(&path, 2_000), 600));
    }
    let nodes = pair(&origin);
    let paths = paths_of_second(&nodes, "/", 40);
    let (fetched, hits) = (origin.total(), peer_hits(&nodes[0]));
    let messages = nodes[1].metric("shoal_cluster_hit_messages_total", "");
    let requests: Vec<Request> = paths.iter().map(|path| Request::get(path)).collect();
    for _ in 0..5 {
        for (path, answer) in paths.iter().zip(ask_together(&nodes[0], &requests)) {
            answer.expect_status(200).expect_body(body(path, 2_000));
            let said = answer.fields.joined("cache-status");
            assert!(said.contains(";hit;") && said.contains("fwd=uri-miss;fwd-status=200"), "{said}");
            assert_eq!(answer.field("shoal-answer"), None);
        }
    }
    assert_eq!(origin.total(), fetched, "no fetch");
    assert_eq!(peer_hits(&nodes[0]) - hits, 200);
    let messages = nodes[1].metric("shoal_cluster_hit_messages_total", "") - messages;
    assert!((1..200).contains(&messages), "{messages} messages for 200 requests");
    let status = nodes[0].ask_admin(&Request::get("/status")).expect_status(200).text();
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    let counted = status["responses"]["hits"].as_u64().expect("a number");
    assert!(counted >= peer_hits(&nodes[0]), "they count as hits: {status}");
}

#[test]
fn hits_equal_those_of_the_ordinary_path() {
    let origin = Origin::start();
    let rich = Answer::fresh(body("rich", 20_000), 600).field("ETag", "\"e\"").field("X-A", "1");
    origin.on("/*", rich.field("X-A", "2").field("Content-Type", "text/plain"));
    let nodes = pair(&origin);
    let path = paths_of_second(&nodes, "/", 1).remove(0);
    // A token that changes nothing, but makes the request one that is not plain.
    let ordinary = Request::get(&path).field("Connection", "keep-alive, x-nothing");
    let (one, other) = (nodes[0].ask(&ordinary), nodes[0].get(&path));
    assert_eq!((one.status, &one.body), (other.status, &other.body));
    let names = |answer: &Response| {
        let mut names: Vec<_> = answer.fields.0.iter().map(|(name, _)| name.to_lowercase()).collect();
        names.sort();
        names.dedup();
        names
    };
    assert_eq!(names(&one), names(&other));
    for name in ["via", "cache-status", "proxy-status", "x-a", "etag", "content-type", "content-length"] {
        let [one, other] = [&one, &other].map(|answer| answer.fields.joined(name).replace(",", ", "));
        assert_eq!(one.replace(",  ", ", "), other.replace(",  ", ", "), "{name}");
    }
}

#[test]
fn conditions_go_to_the_home_and_bring_no_body() {
    let origin = Origin::start();
    let whole = body("/r", 30_000);
    origin.serve("/r*", Resource::new(whole.clone()).etag("\"v1\"").cache_control("max-age=600"));
    let nodes = pair(&origin);
    let path = paths_of_second(&nodes, "/r", 1).remove(0);
    let received = || nodes[0].metric("shoal_cluster_received_bytes_total", "");
    let before = (received(), peer_hits(&nodes[0]));
    for _ in 0..3 {
        let answer = nodes[0].ask(&Request::get(&path).field("If-None-Match", "\"v1\""));
        assert_eq!(answer.expect_status(304).field("etag"), Some("\"v1\""));
    }
    assert_eq!((received(), peer_hits(&nodes[0])), (before.0, before.1 + 3), "no body came");
    let other = nodes[0].ask(&Request::get(&path).field("If-None-Match", "\"v2\""));
    other.expect_status(200).expect_body(&whole);
    assert_eq!(received(), before.0 + 30_000);
}

#[test]
fn purged_hits_are_not_had_from_the_home() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("old", 600));
    let nodes = pair(&origin);
    let paths = paths_of_second(&nodes, "/", 8);
    origin.on("/*", Answer::fresh("new", 600));
    let purge = Request::new("POST", "/purge").field("Content-Type", "application/json");
    nodes[1].ask_admin(&purge.body(br#""all""#)).expect_status(200);
    let requests: Vec<Request> = paths.iter().map(|path| Request::get(path)).collect();
    for answer in ask_together(&nodes[0], &requests) {
        answer.expect_status(200).expect_body("new");
    }
}

#[test]
fn wrong_hits_reach_no_client() {
    for kind in ["key", "sum", "head", "count", "cut", "noise", "silent", "unknown"] {
        let origin = Origin::start();
        origin.on("/*", Answer::fresh("truth", 60));
        let node = liar_of_hits(&origin, kind);
        for number in 0..20 {
            node.get(&format!("/{number}")).expect_status(200).expect_body("truth");
        }
        let wrong = node.metric("shoal_cluster_asks_total", "wrong");
        let expected = if ["silent", "unknown"].contains(&kind) { 0 } else { 1 };
        assert_eq!(wrong, expected, "{kind}: then the peer is set aside");
        assert_eq!(peer_hits(&node), 0, "{kind}");
    }
}
