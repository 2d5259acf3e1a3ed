//! Limits of a site's upstreams together: requests in flight, the queue before them.

use shoal_testkit::origin::{Gate, Step};
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal, wait};
use std::time::{Duration, Instant};

/// A reverse proxy for `origin`, whose site has these settings.
fn shoal(origin: &Origin, site: &str) -> Shoal {
    let site = format!("hosts = ['*']\nupstreams = [{{ url = '{}' }}]\n{site}", origin.url());
    Setup::to(origin).without_sites().site(&site).start()
}

/// Starts a request and leaves its answer for later.
fn begin(shoal: &Shoal, path: &str) -> Connection {
    let mut connection = shoal.connect();
    connection.send(Request::get(path).to_bytes("site.test"));
    connection
}

/// An origin whose paths below `/held` answer when the gate opens.
fn held() -> (Origin, Gate) {
    let (origin, gate) = (Origin::start(), Gate::new());
    let holds = gate.clone();
    origin
        .on_request("/held*", move |_| Answer::ok("held").field("Cache-Control", "no-store").held_by(&holds));
    origin.on_request("/fresh*", |_| Answer::fresh("fresh", 600));
    (origin, gate)
}

#[test]
fn no_more_requests_are_in_flight() {
    let (origin, gate) = held();
    let shoal = shoal(&origin, "concurrency = 2");
    let mut clients: Vec<_> = (0..5).map(|number| begin(&shoal, &format!("/held{number}"))).collect();
    wait::until("two are asked for", || origin.total() == 2);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(origin.total(), 2);
    shoal.expect_metric("shoal_site_queue_waits_total", "", 3);
    gate.open();
    for client in &mut clients {
        client.response("GET").expect_body("held");
    }
    assert_eq!(origin.total(), 5);
}

#[test]
fn beyond_the_queue_is_503() {
    let (origin, gate) = held();
    let shoal = shoal(&origin, "concurrency = 1\nqueue = 1");
    let mut first = begin(&shoal, "/held1");
    origin.wait_for("/held1", 1);
    let mut second = begin(&shoal, "/held2");
    shoal.expect_metric("shoal_site_queue_waits_total", "", 1);
    let refused = shoal.get("/held3");
    refused.expect_status(503);
    assert!(refused.number("Retry-After").is_some());
    assert_eq!(refused.proxy().word("error").as_deref(), Some("connection_limit_reached"));
    shoal.expect_metric("shoal_limited_total", "limit=\"queue\"", 1);
    gate.open();
    first.response("GET").expect_body("held");
    second.response("GET").expect_body("held");
    shoal.get("/held3").expect_body("held");
}

#[test]
fn waiting_ends_after_the_timeout() {
    let (origin, gate) = held();
    let shoal = shoal(&origin, "concurrency = 1\nqueue_timeout = '300ms'");
    let _first = begin(&shoal, "/held1");
    origin.wait_for("/held1", 1);
    let begun = Instant::now();
    shoal.get("/held2").expect_status(503);
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!(origin.count("/held2"), 0);
    gate.open();
}

#[test]
fn stale_answers_stand_in_for_a_full_queue() {
    let (origin, gate) = held();
    origin.on("/stale", Answer::fresh("old", 1));
    let shoal = shoal(&origin, "concurrency = 1\nqueue = 0");
    shoal.get("/stale").expect_body("old");
    let _first = begin(&shoal, "/held1");
    origin.wait_for("/held1", 1);
    std::thread::sleep(Duration::from_millis(2100));
    shoal.get("/stale").expect_body("old");
    assert_eq!(origin.count("/stale"), 1);
    gate.open();
}

#[test]
fn hits_and_shared_fetches_take_no_turn() {
    let (origin, gate) = held();
    let holds = gate.clone();
    origin.on_request("/shared", move |_| Answer::fresh("shared", 600).held_by(&holds));
    let shoal = shoal(&origin, "concurrency = 1\nqueue = 0");
    shoal.get("/fresh").expect_body("fresh");
    let mut clients: Vec<_> = (0..4).map(|_| begin(&shoal, "/shared")).collect();
    origin.wait_for("/shared", 1);
    shoal.get("/fresh").expect_body("fresh").expect_hit();
    shoal.get("/held1").expect_status(503);
    std::thread::sleep(Duration::from_millis(300));
    gate.open();
    for client in &mut clients {
        client.response("GET").expect_body("shared");
    }
    assert_eq!(origin.count("/shared"), 1);
}

/// A fetch that every client has left may fill the cache, but one of two turns is left to others.
#[test]
fn turns_come_back_however_requests_end() {
    let (origin, gate) = held();
    origin.on("/cut", Answer::ok("half").then(shoal_testkit::origin::After::Reset));
    origin.on_head("/fresh", Answer::fresh("", 600));
    let shoal = shoal(&origin, "concurrency = 2\nqueue_timeout = '5s'");
    for round in 0..3 {
        let left = format!("/held-left{round}");
        drop(begin(&shoal, &left));
        origin.wait_for(&left, 1);
        let _ = shoal.get("/cut");
        shoal.ask(&Request::new("HEAD", "/fresh"));
        shoal.ask(&Request::new("POST", "/fresh").body(b"x"));
    }
    gate.open();
    shoal.get("/held-last").expect_body("held");
}

/// A client that takes nothing holds its turn for a short time only, while others wait.
#[test]
fn unread_bodies_give_way() {
    let (origin, _gate) = held();
    let large = vec![7; 24 << 20];
    origin.on("/large", Answer::ok(large).field("Cache-Control", "no-store"));
    let shoal = shoal(&origin, "concurrency = 1\nqueue_timeout = '9s'");
    let _unread = begin(&shoal, "/large");
    origin.wait_for("/large", 1);
    shoal.get("/fresh").expect_body("fresh");
    assert!(shoal.metric("shoal_upstream_stalled_shed_total", "") >= 1);
}

#[test]
fn tunnels_keep_no_turn() {
    let (origin, _gate) = held();
    let answer = Answer::new(101).field("Upgrade", "websocket").field("Connection", "Upgrade");
    origin.on("/socket", answer.framed(shoal_testkit::origin::Framing::Length).step(Step::Echo));
    let shoal = shoal(&origin, "concurrency = 1\nqueue = 0");
    let mut tunnel = shoal.connect();
    let request = Request::get("/socket").field("Connection", "Upgrade").field("Upgrade", "websocket");
    tunnel.send(request.to_bytes("site.test"));
    assert_eq!(tunnel.head().map(|head| head.status), Ok(101));
    shoal.get("/fresh").expect_body("fresh");
    tunnel.send(b"ping");
    assert_eq!(tunnel.exactly(4), Ok(b"ping".to_vec()));
}

/// One network fills the queue; another one asks a little later, and does not wait for all of it.
#[test]
fn networks_take_turns_in_the_queue() {
    let (origin, gate) = held();
    let site = format!("hosts = ['*']\nupstreams = [{{ url = '{}' }}]\n", origin.url());
    let shoal = Setup::to(&origin)
        .without_sites()
        .site(&format!("{site}concurrency = 1\nqueue = 20\nqueue_timeout = '30s'"))
        .listen("behind", "mode = 'reverse'\ntrusted_proxies = ['127.0.0.0/8']")
        .start();
    let ask = |client: &str, path: &str| {
        let mut connection = Connection::open(shoal.address("behind"));
        connection.send(Request::get(path).field("X-Forwarded-For", client).to_bytes("site.test"));
        connection
    };
    let mut flood: Vec<_> = (0..30).map(|number| ask("192.0.2.1", &format!("/held/a{number}"))).collect();
    wait::until("the flood fills its share", || shoal.metric("shoal_limited_total", "limit=\"queue\"") >= 10);
    let queued = shoal.metric("shoal_site_queue_waits_total", "");
    let mut others: Vec<_> = (0..3).map(|number| ask("192.0.2.2", &format!("/held/b{number}"))).collect();
    shoal.expect_metric("shoal_site_queue_waits_total", "", queued + 3);
    gate.open();
    for client in &mut others {
        client.response("GET").expect_body("held");
    }
    let statuses = flood.iter_mut().map(|client| client.response("GET").status);
    let refused = statuses.filter(|status| *status == 503).count();
    assert!((10..28).contains(&refused), "{refused} of the flood found no place");
    let order: Vec<String> = origin.received().iter().map(|request| request.path().to_owned()).collect();
    // The three arrive in any order among themselves.
    let others = order.iter().enumerate().filter(|(_, path)| path.starts_with("/held/b"));
    let turns: Vec<usize> = others.map(|(at, _)| at).collect();
    assert_eq!(turns.len(), 3, "{order:?}");
    for (number, turn) in turns.into_iter().enumerate() {
        // The flood's first is there before; then they take turns.
        assert!(turn <= 2 * number + 3, "turn {turn} of {order:?}");
    }
}
