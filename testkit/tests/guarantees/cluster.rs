//! The cluster: several nodes serve as one cache, whatever happens to one of them.

use rustix::process::Signal;
use shoal_testkit::address::closed_port;
use shoal_testkit::cluster::{joined, peers, setup};
use shoal_testkit::seeded::body;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Gate, Origin, Request, Resource, Response, Setup, Shoal};
use std::collections::HashSet;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Starts a cluster of nodes that know each other.
fn cluster(origin: &Origin, count: usize) -> Vec<Shoal> {
    let peers = peers(count);
    joined(peers.iter().map(|own| setup(origin, *own, &peers).start()).collect())
}

/// Tells a node of another one, in that one's name. The node believes in it for some seconds.
pub fn introduce(node: SocketAddr, other: SocketAddr) {
    introduce_life(node, other, 1);
}

/// As [`introduce`], in a later life of the other one.
pub fn introduce_life(node: SocketAddr, other: SocketAddr, life: u64) {
    let std::net::IpAddr::V4(ip) = other.ip() else { panic!("IPv4") };
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    let name = other.to_string();
    let mut body = vec![1, 4];
    body.extend(b"test");
    body.extend(clock.to_be_bytes());
    body.extend(life.to_be_bytes());
    body.extend([0, 0, 0, 0, 1]);
    body.extend(1f32.to_be_bytes());
    body.push(4);
    body.extend(ip.octets());
    body.extend(other.port().to_be_bytes());
    body.push(name.len() as u8);
    body.extend(name.bytes());
    body.extend(0u32.to_be_bytes());
    let mut stream = TcpStream::connect(node).expect("it listens");
    let length = body.len();
    let head = format!("POST /shoal/members/join HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), &body].concat()).expect("it reads");
    assert_eq!(Connection::over(Box::new(stream)).head().expect("an answer").status, 200);
}

/// The sum of a metric over nodes.
fn sum(nodes: &[Shoal], name: &str, labels: &str) -> u64 {
    nodes.iter().map(|node| node.metric(name, labels)).sum()
}

/// Asks all nodes at once and returns their answers, in order.
fn ask_all(nodes: &[Shoal], request: &Request) -> Vec<Response> {
    std::thread::scope(|scope| {
        let asks: Vec<_> = nodes.iter().map(|node| scope.spawn(|| node.ask(request))).collect();
        asks.into_iter().map(|ask| ask.join().expect("answered")).collect()
    })
}

#[test]
fn each_object_is_fetched_once_by_the_cluster() {
    let origin = Origin::start();
    let paths: Vec<String> = (0..40).map(|number| format!("/{number}")).collect();
    for path in &paths {
        origin.on(path, Answer::fresh(body(path, 20_000), 60).delay(Duration::from_millis(20)));
    }
    let nodes = cluster(&origin, 4);
    std::thread::scope(|scope| {
        for node in &nodes {
            for part in paths.chunks(10) {
                scope.spawn(move || {
                    part.iter().for_each(|path| {
                        node.get(path).expect_body(body(path, 20_000));
                    })
                });
            }
        }
    });
    for path in &paths {
        assert_eq!(origin.count(path), 1, "{path}");
    }
    assert!(
        sum(&nodes, "shoal_cluster_asks_total", "served") >= 60,
        "most objects have their home elsewhere"
    );
    assert_eq!(sum(&nodes, "shoal_cluster_asks_given_up_total", ""), 0);
    assert_eq!(sum(&nodes, "shoal_requests_total", ""), 160, "peers' asks are no requests of clients");
}

/// Returns a path whose home is not the first of these two nodes: only an ask brings it there.
fn path_of_second(nodes: &[Shoal], origin: &Origin) -> String {
    for number in 0.. {
        let path = format!("/probe{number}");
        origin.on(&path, Answer::fresh("probe", 60));
        let before = nodes[0].metric("shoal_cluster_asks_total", "served");
        nodes[0].get(&path).expect_status(200);
        if nodes[0].metric("shoal_cluster_asks_total", "served") > before {
            return path;
        }
    }
    unreachable!("half of the keys have their home at each node")
}

#[test]
fn hit_at_home_is_served_through_another_node() {
    let origin = Origin::start();
    let nodes = cluster(&origin, 2);
    let path = path_of_second(&nodes, &origin);
    let answer = nodes[0].get(&path);
    answer.expect_body("probe");
    assert_eq!(origin.count(&path), 1);
    let said = answer.fields.joined("cache-status");
    assert!(
        said.contains("hit") && said.contains("fwd=uri-miss"),
        "the home's part, then the entry's: {said}"
    );
    assert_eq!(answer.field("shoal-answer"), None, "a word between nodes");
    assert!(nodes[1].get(&path).hit(), "the home has it");
    // The entry does not keep what has its home elsewhere.
    assert!(!nodes[0].get(&path).hit());
}

#[test]
fn bodies_stream_through_before_they_end() {
    let origin = Origin::start();
    let gate = Gate::new();
    let nodes = cluster(&origin, 2);
    let path = path_of_second(&nodes, &origin);
    let (first, second) = (body("first", 100_000), body("second", 50_000));
    origin.on("/slow*", Answer::fresh(first.clone(), 60).wait_for(&gate).piece(second.clone()));
    let slow = (0..).map(|number| format!("/slow{number}"));
    // Both nodes ask; for one of two paths the home is the other node.
    let mut clients = Vec::new();
    for path in slow.take(4) {
        for node in &nodes {
            let mut client = node.connect();
            client.send(Request::get(&path).to_bytes("site.test"));
            clients.push(client);
        }
    }
    for client in &mut clients {
        assert_eq!(client.head().map(|head| head.status), Ok(200));
        assert_eq!(client.exactly(first.len()), Ok(first.clone()), "before the origin has sent the rest");
    }
    gate.open();
    for client in &mut clients {
        assert_eq!(client.exactly(second.len()), Ok(second.clone()));
    }
    assert!((0..4).all(|number| origin.count(&format!("/slow{number}")) == 1));
    drop(path);
}

#[test]
fn slow_origin_is_waited_for_and_asked_once() {
    let origin = Origin::start();
    let peers = peers(2);
    let nodes =
        peers.iter().map(|own| setup(&origin, *own, &peers).set("cluster.peer_timeout", "300ms").start());
    let nodes = joined(nodes.collect());
    for number in 0..4 {
        origin.on(&format!("/{number}"), Answer::fresh("late", 60).delay(Duration::from_millis(1500)));
    }
    std::thread::scope(|scope| {
        for number in 0..4 {
            let node = &nodes[0];
            scope.spawn(move || node.get(&format!("/{number}")).expect_body("late").status);
        }
    });
    assert!(
        (0..4).all(|number| origin.count(&format!("/{number}")) == 1),
        "signs of life keep the entry waiting"
    );
}

#[test]
fn killed_node_fails_no_request_and_comes_back() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 60));
    let mut nodes = cluster(&origin, 3);
    for number in 0..30 {
        nodes[0].get(&format!("/{number}")).expect_body("there");
    }
    nodes[2].kill();
    for number in 0..60 {
        nodes[number % 2].get(&format!("/{number}")).expect_body("there");
    }
    let refused = sum(&nodes[..2], "shoal_cluster_asks_total", "refused");
    assert!(refused > 0, "some asks met the dead node");
    nodes[2].restart();
    let served = || nodes[2].metric("shoal_cluster_answers_total", "served");
    let mut number = 100;
    wait::until("the node is asked again", || {
        number += 1;
        nodes[0].get(&format!("/{number}")).expect_body("there");
        served() > 0
    });
}

#[test]
fn frozen_node_delays_by_one_timeout_at_most() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 60));
    let nodes = cluster(&origin, 2);
    nodes[0].get("/warm").expect_body("there");
    nodes[1].signal(Signal::STOP);
    let slowest = (0..20).map(|number| {
        let start = Instant::now();
        nodes[0].get(&format!("/{number}")).expect_body("there");
        start.elapsed()
    });
    let slowest = slowest.max().expect("some requests");
    nodes[1].signal(Signal::CONT);
    assert!(slowest < Duration::from_secs(4), "the time-out is 2 s: {slowest:?}");
    assert!(nodes[0].metric("shoal_cluster_asks_total", "late") > 0, "some asks met the frozen node");
}

#[test]
fn answers_for_one_client_never_cross() {
    let origin = Origin::start();
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let gate = Gate::new();
    let held = gate.clone();
    origin.on_request("/mine*", move |request| {
        seen.fetch_add(1, Ordering::Relaxed);
        let who = request.fields.joined("x-who");
        Answer::ok(who.clone()).field("Cache-Control", "private, max-age=60").held_by(&held)
    });
    origin.on_request("/cookie*", |request| {
        let who = request.fields.joined("x-who");
        Answer::fresh(who.clone(), 60).field("Set-Cookie", &format!("who={who}"))
    });
    let nodes = cluster(&origin, 2);
    gate.open();
    for path in ["/mine1", "/mine2", "/mine3", "/cookie1", "/cookie2", "/cookie3"] {
        std::thread::scope(|scope| {
            for number in 0..8 {
                let node = &nodes[number % 2];
                scope.spawn(move || {
                    let who = format!("client{number}");
                    let answer = node.ask(&Request::get(path).field("X-Who", &who));
                    answer.expect_status(200).expect_body(who.as_bytes());
                    if let Some(cookie) = answer.field("set-cookie") {
                        assert_eq!(cookie, format!("who={who}"));
                    }
                });
            }
        });
    }
    let asks = sum(&nodes, "shoal_cluster_asks_total", "served");
    nodes[0].ask(&Request::get("/mine1").field("X-Who", "again")).expect_body("again");
    nodes[1].ask(&Request::get("/mine1").field("X-Who", "again")).expect_body("again");
    assert_eq!(sum(&nodes, "shoal_cluster_asks_total", "served"), asks, "the origin is asked at once");
}

#[test]
fn modes_never_mix() {
    let (site, named) = (Origin::start(), Origin::start());
    site.on("/*", Answer::fresh("of the site", 60));
    named.on("/*", Answer::fresh("of the named host", 60));
    let nodes = cluster(&site, 2);
    let host = named.address().to_string();
    for number in 0..10 {
        for node in &nodes {
            let url = format!("http://{host}/{number}");
            node.ask_forward(&Request::get(&url)).expect_body("of the named host");
            node.connect().ask(&Request::get(&format!("/{number}")), &host).expect_body("of the site");
        }
    }
    for number in 0..10 {
        assert_eq!((site.count(&format!("/{number}")), named.count(&format!("/{number}"))), (1, 1));
    }
}

#[test]
fn heads_ranges_variants_and_conditions_pass_through() {
    let origin = Origin::start();
    let whole = body("/r", 30_000);
    origin.serve("/r*", Resource::new(whole.clone()).etag("\"v1\"").cache_control("max-age=600"));
    origin.on_request("/v*", |request| Answer::fresh(request.fields.joined("x-v"), 60).field("Vary", "X-V"));
    let nodes = cluster(&origin, 2);
    for number in 0..4 {
        let path = format!("/r{number}");
        for node in &nodes {
            let range = node.ask(&Request::get(&path).field("Range", "bytes=100-299"));
            assert_eq!(range.expect_status(206).body, whole[100..300]);
            node.get(&path).expect_status(200).expect_body(&whole);
            let range = node.ask(&Request::get(&path).field("Range", "bytes=100-299"));
            assert_eq!(range.expect_status(206).body, whole[100..300]);
            assert_eq!(range.field("content-range"), Some("bytes 100-299/30000"));
            let several = node.ask(&Request::get(&path).field("Range", "bytes=0-9,20-29"));
            several.expect_status(206);
            node.ask(&Request::get(&path).field("Range", "bytes=40000-")).expect_status(416);
            node.ask(&Request::get(&path).field("If-None-Match", "\"v1\"")).expect_status(304);
            let head = node.ask(&Request::new("HEAD", &path));
            assert_eq!((head.status, head.field("content-length")), (200, Some("30000")));
        }
        let path = format!("/v{number}");
        for value in ["one", "two", "one"] {
            for answer in ask_all(&nodes, &Request::get(&path).field("X-V", value)) {
                answer.expect_body(value);
            }
        }
        assert_eq!(origin.count(&path), 2, "each variant once");
    }
}

#[test]
fn errors_of_the_origin_are_the_same_everywhere() {
    let origin = Origin::start();
    origin.on("/gone*", Answer::new(410).field("Cache-Control", "max-age=60"));
    origin.on("/bad*", Answer::new(503));
    let nodes = cluster(&origin, 2);
    for number in 0..4 {
        for node in &nodes {
            node.get(&format!("/gone{number}")).expect_status(410);
            node.get(&format!("/bad{number}")).expect_status(503);
        }
        assert_eq!(origin.count(&format!("/gone{number}")), 1);
    }
    let dead = closed_port();
    for number in 0..4 {
        for node in &nodes {
            node.ask_forward(&Request::get(&format!("http://{dead}/{number}"))).expect_status(502);
        }
    }
    assert!(sum(&nodes, "shoal_cluster_asks_total", "failed") > 0, "a home's failure is the answer");
}

#[test]
fn whereabouts_name_homes_and_holders() {
    let origin = Origin::start();
    let nodes = cluster(&origin, 2);
    let path = path_of_second(&nodes, &origin);
    for (node, state) in nodes.iter().zip(["asked", "here"]) {
        let answer = node.ask_admin(&Request::get(&format!("/cluster/where?url=http://site.test{path}")));
        let found: serde_json::Value =
            serde_json::from_slice(&answer.expect_status(200).body).expect("the answer is JSON");
        let [home, other] = [&found["nodes"][0], &found["nodes"][1]];
        assert_eq!((home["home"].as_u64(), home["holds"].as_bool()), (Some(1), Some(true)), "{found}");
        assert_eq!((other["home"].as_u64(), other["holds"].as_bool()), (Some(2), Some(false)), "{found}");
        assert_eq!(home["state"].as_str(), Some(state), "{found}");
    }
    let alone = Setup::to(&origin).start();
    alone.ask_admin(&Request::get("/cluster/where?url=http://a.test/")).expect_status(400);
}

/// Otherwise clients and origins could make nodes set each other aside.
#[test]
fn fields_between_nodes_mean_nothing_from_outside() {
    let origin = Origin::start();
    let zero = "0000000000000000";
    let answer = format!("1 served {zero} shared 60000 0 4 {zero} {zero}");
    origin.on("/*", Answer::fresh("there", 60).field("Shoal-Answer", &answer).trailer("Shoal-Sum", zero));
    let nodes = cluster(&origin, 2);
    for number in 0..10 {
        let request =
            Request::get(&format!("/{number}")).field("Shoal-Peer", "1 home").field("TE", "trailers");
        ask_all(&nodes, &request).iter().for_each(|answer| {
            answer.expect_body("there");
        });
    }
    assert_eq!(sum(&nodes, "shoal_cluster_asks_total", "wrong"), 0);
    assert!(sum(&nodes, "shoal_cluster_asks_total", "served") >= 10);
    assert_eq!(origin.total(), 10);
    assert!(!origin.last("/0").fields.has("shoal-peer"));
}

#[test]
fn nobody_outside_is_answered() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 60));
    let peers = peers(2);
    let node = setup(&origin, peers[0], &peers).start();
    let zero = "0000000000000000";
    let field = format!("Shoal-Peer: 1 home {zero} 127.0.0.1:1 1 {zero} {zero} 1000 site * /\r\n");
    let request = format!("GET http://site.test/a HTTP/1.1\r\nHost: site.test\r\n{field}\r\n");
    for (text, status) in [
        (request.clone(), 403),
        (request.replace(&field, ""), 404),
        ("CONNECT site.test:443 HTTP/1.1\r\nHost: site.test:443\r\n\r\n".into(), 404),
        ("POST /shoal/purges/x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".into(), 403),
    ] {
        let mut stream = TcpStream::connect(peers[0]).expect("it listens");
        stream.write_all(text.as_bytes()).expect("it reads");
        let answer = Connection::over(Box::new(stream)).head().expect("an answer");
        assert_eq!(answer.status, status, "{text}");
    }
    assert_eq!(origin.total(), 0);
    assert_eq!(node.metric("shoal_cluster_refused_total", ""), 4);
}

#[test]
fn views_that_disagree_make_no_loop_and_no_deadlock() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 60).delay(Duration::from_millis(10)));
    let all = peers(4);
    // Each node knows itself and some of the others.
    let known =
        [vec![all[1], all[2], all[3]], vec![all[0], all[2]], vec![all[0], all[1], all[3]], vec![all[1]]];
    let nodes: Vec<Shoal> = all.iter().map(|own| setup(&origin, *own, &[]).start()).collect();
    // An early life of a node is told, which it does not answer for: the views stay apart.
    for (own, others) in all.iter().zip(&known) {
        others.iter().for_each(|other| introduce(*own, *other));
    }
    let start = Instant::now();
    std::thread::scope(|scope| {
        for node in &nodes {
            for part in 0..4 {
                scope.spawn(move || {
                    (part * 10..part * 10 + 10).for_each(|number| {
                        node.get(&format!("/{number}")).expect_body("there");
                    });
                });
            }
        }
    });
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let paths: HashSet<_> = origin.received().iter().map(|request| request.path().to_owned()).collect();
    assert_eq!(paths.len(), 40);
    assert!(origin.total() <= 160, "at most once for each node");
}
