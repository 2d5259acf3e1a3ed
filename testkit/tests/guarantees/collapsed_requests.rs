//! Collapsed requests: concurrent misses for one key share one fetch, and share it well.

use shoal_testkit::origin::{After, Framing, Step};
use shoal_testkit::seeded::body;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Gate, Origin, Request, Resource, Response, Setup, Shoal};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Sends a request on each of `count` connections and waits until Shoal has them all.
fn crowd(shoal: &Shoal, count: usize, request: impl Fn(usize) -> Request) -> Vec<Connection> {
    let before = shoal.metric("shoal_requests_total", "");
    let ask = |number| {
        let mut client = shoal.connect();
        client.send(request(number).to_bytes("site.test"));
        client
    };
    let clients: Vec<_> = (0..count).map(ask).collect();
    wait::until("every request has arrived", || {
        shoal.metric("shoal_requests_total", "") >= before + count as u64
    });
    clients
}

/// Reads every answer, each on a thread of its own.
fn answers(clients: Vec<Connection>) -> Vec<Response> {
    let threads: Vec<_> =
        clients.into_iter().map(|mut client| std::thread::spawn(move || client.response("GET"))).collect();
    threads.into_iter().map(|thread| thread.join().expect("every client is answered")).collect()
}

#[test]
fn concurrent_misses_make_one_fetch() {
    let origin = Origin::start();
    let gate = Gate::new();
    origin.on("/a", Answer::fresh(body("/a", 50_000), 60).held_by(&gate));
    let shoal = Setup::to(&origin).start();
    let clients = crowd(&shoal, 20, |_| Request::get("/a"));
    gate.open();
    let answers = answers(clients);
    answers.iter().for_each(|answer| {
        answer.expect_body(body("/a", 50_000));
    });
    assert_eq!(origin.count("/a"), 1);
    let collapsed = answers.iter().filter(|answer| answer.cache().is("collapsed")).count();
    assert_eq!(collapsed, 19, "RFC 9211 section 2.6: collapsed with another request");
    shoal.expect_responses("miss", 1);
    shoal.expect_responses("collapsed", 19);
}

/// What is to complete a stored part may have come to differ by client: then it is not for all who
/// wait for it.
#[test]
fn what_comes_in_place_of_a_missing_part_is_for_those_who_select_it() {
    let origin = Origin::start();
    origin.serve("/r", Resource::new(body("/r", 10_000)).etag("\"v1\"").cache_control("max-age=600"));
    let shoal = Setup::to(&origin).start();
    shoal.ask(&Request::get("/r").field("Range", "bytes=0-3999")).expect_status(206);
    let gate = Gate::new();
    let held = gate.clone();
    origin.on_request("/r", move |request| {
        Answer::fresh(request.fields.joined("x-v"), 60).field("Vary", "X-V").held_by(&held)
    });
    let clients = crowd(&shoal, 2, |number| Request::get("/r").field("X-V", ["one", "two"][number]));
    gate.open();
    for (answer, expected) in answers(clients).iter().zip(["one", "two"]) {
        answer.expect_body(expected);
    }
}

#[test]
fn waiting_clients_are_sent_the_body_as_it_arrives() {
    let origin = Origin::start();
    let gate = Gate::new();
    let (first, second) = (body("first", 100_000), body("second", 50_000));
    origin.on("/a", Answer::fresh(first.clone(), 60).wait_for(&gate).piece(second.clone()));
    let shoal = Setup::to(&origin).start();
    let mut clients = crowd(&shoal, 3, |_| Request::get("/a"));
    for client in &mut clients {
        assert_eq!(client.head().map(|head| head.status), Ok(200));
        assert_eq!(client.exactly(first.len()), Ok(first.clone()), "before the origin has sent the rest");
    }
    let mut late = crowd(&shoal, 1, |_| Request::get("/a")).remove(0);
    assert_eq!(late.head().map(|head| head.status), Ok(200));
    assert_eq!(late.exactly(first.len()), Ok(first), "one that comes later starts at the beginning");
    gate.open();
    for client in clients.iter_mut().chain([&mut late]) {
        assert_eq!(client.exactly(second.len()), Ok(second.clone()));
    }
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn a_client_that_reads_slowly_holds_nobody_up() {
    let origin = Origin::start();
    let gate = Gate::new();
    let large = body("/large", 12_000_000);
    origin.on("/large", Answer::fresh(large.clone(), 60).held_by(&gate));
    let shoal = Setup::to(&origin).start();
    let mut clients = crowd(&shoal, 4, |_| Request::get("/large"));
    let mut slow = clients.remove(0);
    gate.open();
    let start = Instant::now();
    answers(clients).iter().for_each(|answer| {
        answer.expect_body(&large);
    });
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    slow.response("GET").expect_body(&large);
    assert_eq!(origin.count("/large"), 1);
}

#[test]
fn a_client_that_leaves_disturbs_nobody() {
    for leaving in [0, 2] {
        let origin = Origin::start();
        let gate = Gate::new();
        let (first, second) = (body("first", 100_000), body("second", 100_000));
        origin.on("/a", Answer::fresh(first.clone(), 60).wait_for(&gate).piece(second.clone()));
        let shoal = Setup::to(&origin).start();
        let mut clients = crowd(&shoal, 1, |_| Request::get("/a"));
        origin.wait_for("/a", 1);
        clients.extend(crowd(&shoal, 3, |_| Request::get("/a")));
        let mut leaver = clients.remove(leaving);
        assert_eq!(leaver.head().map(|head| head.status), Ok(200));
        leaver.reset();
        std::thread::sleep(Duration::from_millis(100));
        gate.open();
        for answer in answers(clients) {
            answer.expect_body([first.clone(), second.clone()].concat());
        }
        assert_eq!(origin.count("/a"), 1, "client {leaving} left");
        shoal.get("/a").expect_hit();
    }
}

#[test]
fn a_first_client_that_leaves_before_the_head_disturbs_nobody() {
    let origin = Origin::start();
    let gate = Gate::new();
    origin.on("/a", Answer::fresh("body", 60).held_by(&gate));
    let shoal = Setup::to(&origin).start();
    let first = crowd(&shoal, 1, |_| Request::get("/a"));
    origin.wait_for("/a", 1);
    let others = crowd(&shoal, 3, |_| Request::get("/a"));
    first.into_iter().for_each(Connection::reset);
    std::thread::sleep(Duration::from_millis(100));
    gate.open();
    for answer in answers(others) {
        answer.expect_body("body");
    }
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn an_uncacheable_fetch_ends_when_its_client_leaves() {
    let origin = Origin::start();
    let mut endless = Answer::new(200).field("Cache-Control", "no-store").framed(Framing::Chunked);
    for _ in 0..2_000 {
        endless = endless.piece(vec![b'x'; 10_000]).pause(Duration::from_millis(10));
    }
    origin.on("/endless", endless);
    let shoal = Setup::to(&origin).start();
    let mut client = shoal.connect();
    client.send(Request::get("/endless").to_bytes("site.test"));
    assert_eq!(client.head().map(|head| head.status), Ok(200));
    client.reset();
    origin.wait_for_aborts(1);
}

#[test]
fn an_uncacheable_response_releases_everyone_at_once() {
    let origin = Origin::start();
    let gate = Gate::new();
    let served = AtomicUsize::new(0);
    let first = gate.clone();
    origin.on_request("/private", move |_| {
        let number = served.fetch_add(1, Ordering::SeqCst);
        let answer = Answer::ok(format!("for client {number}")).field("Cache-Control", "private");
        if number == 0 { answer.held_by(&first) } else { answer.delay(Duration::from_millis(1500)) }
    });
    let shoal = Setup::to(&origin).start();
    let clients = crowd(&shoal, 10, |_| Request::get("/private"));
    let start = Instant::now();
    gate.open();
    let mut bodies: Vec<_> = answers(clients).iter().map(|answer| answer.expect_status(200).text()).collect();
    assert!(start.elapsed() < Duration::from_secs(9), "one after the other: {:?}", start.elapsed());
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 10, "nobody gets another's private response");
    assert_eq!(origin.count("/private"), 10);
}

#[test]
fn a_failed_fetch_leaves_nobody_waiting() {
    let origin = Origin::start();
    let gate = Gate::new();
    origin.on_each("/a", [Answer::raw("").held_by(&gate).then(After::Reset), Answer::fresh("body", 60)]);
    let shoal = Setup::to(&origin).start();
    let clients = crowd(&shoal, 8, |_| Request::get("/a"));
    gate.open();
    let start = Instant::now();
    for answer in answers(clients) {
        assert!(matches!(answer.status, 200 | 502), "{}", answer.status);
    }
    assert!(start.elapsed() < Duration::from_secs(15));
    shoal.get("/a").expect_body("body");
}

#[test]
fn a_body_that_fails_half_way_is_cut_for_everyone_and_not_stored() {
    let origin = Origin::start();
    let gate = Gate::new();
    let cut = Answer::fresh("half", 60)
        .framed(Framing::Claimed(8))
        .step(Step::Await(gate.clone()))
        .then(After::Reset);
    origin.on_each("/a", [cut, Answer::fresh("complete", 60)]);
    let shoal = Setup::to(&origin).start();
    let clients = crowd(&shoal, 4, |_| Request::get("/a"));
    std::thread::sleep(Duration::from_millis(100));
    gate.open();
    for answer in answers(clients) {
        assert!(!answer.complete() || answer.status == 502 || answer.body == b"complete", "{answer:?}");
    }
    shoal.get("/a").expect_body("complete");
}

#[test]
fn variants_do_not_share_a_fetch() {
    let origin = Origin::start();
    let gate = Gate::new();
    let held = gate.clone();
    origin.on_request("/v", move |request| {
        let language = request.fields.joined("accept-language");
        Answer::fresh(language, 60).field("Vary", "Accept-Language").held_by(&held)
    });
    let shoal = Setup::to(&origin).start();
    let language = |number| ["en", "fr", "de"][number % 3];
    let clients = crowd(&shoal, 9, |number| Request::get("/v").field("Accept-Language", language(number)));
    gate.open();
    for (number, answer) in answers(clients).iter().enumerate() {
        answer.expect_body(language(number));
    }
}

/// RFC 9110 section 13.1.5: with an If-Range that does not hold, "the recipient MUST ignore the
/// Range header field": a part of the new version would be joined to bytes of the old one.
#[test]
fn requests_with_another_if_range_do_not_share_a_part() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let held = gate.clone();
    let new = body("new", 1000);
    let sent = new.clone();
    origin.on_request("/a", move |request| {
        let answer = match request.fields.has("if-range") {
            true => Answer::fresh(sent.clone(), 60),
            false => Answer::new(206)
                .piece(&sent[..10])
                .field("Content-Range", "bytes 0-9/1000")
                .field("Cache-Control", "max-age=60"),
        };
        answer.field("ETag", "\"new\"").held_by(&held)
    });
    let shoal = Setup::to(&origin).start();
    let request = || Request::get("/a").field("Range", "bytes=0-9");
    let clients = crowd(&shoal, 2, |number| match number {
        0 => request(),
        _ => request().field("If-Range", "\"old\""),
    });
    gate.open();
    let answers = answers(clients);
    assert_eq!(answers[0].expect_status(206).body, new[..10]);
    answers[1].expect_body(&new);
}

/// RFC 9111 section 3.5: "A shared cache MUST NOT use a cached response to a request with an
/// Authorization header field to satisfy any subsequent request unless the response contains a
/// Cache-Control field with a response directive that allows it".
#[test]
fn authorized_requests_share_only_what_may_be_shared() {
    let origin = Origin::start();
    let gate = Gate::new();
    let held = gate.clone();
    origin.on_request("/mine", move |request| {
        Answer::fresh(request.fields.joined("authorization"), 60).held_by(&held)
    });
    let shoal = Setup::to(&origin).start();
    let clients =
        crowd(&shoal, 4, |number| Request::get("/mine").field("Authorization", &format!("Bearer {number}")));
    gate.open();
    for (number, answer) in answers(clients).iter().enumerate() {
        answer.expect_body(format!("Bearer {number}"));
    }
    assert_eq!(origin.count("/mine"), 4);
}

#[test]
fn concurrent_requests_for_a_stale_response_make_one_validation() {
    let origin = Origin::start();
    let gate = Gate::new();
    let stored = Answer::fresh("body", 10).field("Age", "100").field("ETag", "\"a\"");
    let validated =
        Answer::new(304).field("Cache-Control", "max-age=60").field("ETag", "\"a\"").held_by(&gate);
    origin.on_each("/a", [stored, validated]);
    let shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_body("body");
    let clients = crowd(&shoal, 8, |_| Request::get("/a"));
    gate.open();
    for answer in answers(clients) {
        answer.expect_body("body");
    }
    assert_eq!(origin.count("/a"), 2);
    assert_eq!(origin.last("/a").fields.first("if-none-match"), Some("\"a\""));
}

#[test]
fn collapsing_can_be_turned_off() {
    let origin = Origin::start();
    let gate = Gate::new();
    origin.on("/a", Answer::fresh("body", 60).held_by(&gate));
    let shoal = Setup::to(&origin).set("cache.collapse", false).start();
    let clients = crowd(&shoal, 5, |_| Request::get("/a"));
    origin.wait_for("/a", 5);
    gate.open();
    for answer in answers(clients) {
        answer.expect_body("body");
    }
}

/// What cannot be stored for what one request says, or for its range, says nothing of others'
/// responses.
#[test]
fn a_request_that_nothing_can_be_stored_for_leaves_others_collapsed() {
    for (name, value) in
        [("Cache-Control", "no-store"), ("Authorization", "Bearer x"), ("Range", "bytes=900-")]
    {
        let (origin, gate) = (Origin::start(), Gate::new());
        let resource = Resource::new("body").etag("\"v\"").cache_control("max-age=60");
        origin.serve("/a", resource.clone());
        let shoal = Setup::to(&origin).start();
        shoal.ask(&Request::get("/a").field(name, value));
        let held = gate.clone();
        origin.on_request("/a", move |request| resource.answer(request).held_by(&held));
        let clients = crowd(&shoal, 5, |_| Request::get("/a").field("If-None-Match", "\"other\""));
        gate.open();
        for answer in answers(clients) {
            answer.expect_body("body");
        }
        assert_eq!(origin.count("/a"), 2, "{name}: {value}");
    }
}

/// What is validated with each use is validated for each who waits, and not fetched anew for those
/// that came to wait too often.
#[test]
fn requests_that_each_want_a_validation_make_no_whole_fetches() {
    for (directives, request) in [("no-cache", ""), ("max-age=60", "max-age=0"), ("max-age=60", "no-cache")] {
        let (origin, gate) = (Origin::start(), Gate::new());
        let resource = Resource::new("body").etag("\"v\"").cache_control(directives);
        origin.serve("/a", resource.clone());
        let shoal = Setup::to(&origin).start();
        shoal.get("/a").expect_body("body");
        let held = gate.clone();
        let pause = Duration::from_millis(50);
        origin.on_request("/a", move |request| resource.answer(request).held_by(&held).delay(pause));
        let clients = crowd(&shoal, 10, |_| match request {
            "" => Request::get("/a"),
            request => Request::get("/a").field("Cache-Control", request),
        });
        gate.open();
        for answer in answers(clients) {
            answer.expect_body("body");
        }
        let whole = origin.received().iter().filter(|asked| !asked.fields.has("if-none-match")).count();
        assert_eq!(whole, 1, "{directives}, asked with {request:?}");
    }
}

/// What has no freshness at all is validated for each, and nobody waits for the validation of
/// another more than once.
#[test]
fn nobody_waits_twice_for_what_is_not_fresh() {
    let origin = Origin::start();
    let gates = Arc::new([Gate::new(), Gate::new(), Gate::new()]);
    let (held, asked) = (Arc::clone(&gates), AtomicUsize::new(0));
    origin.on_request("/a", move |request| {
        let answer = match request.fields.has("if-none-match") {
            true => Answer::new(304),
            false => Answer::ok("body"),
        };
        let answer = answer.field("ETag", "\"v\"").field("Cache-Control", "max-age=0");
        match asked.fetch_add(1, Ordering::SeqCst) {
            0 => answer,
            1 => answer.held_by(&held[0]),
            2..=4 => answer.held_by(&held[1]),
            _ => answer.held_by(&held[2]),
        }
    });
    let shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_body("body");
    // The first of them may lead a flight; what it lands is for none of the others, who go on
    // together.
    let first = crowd(&shoal, 4, |_| Request::get("/a"));
    gates[0].open();
    origin.wait_for("/a", 5);
    gates[1].open();
    for answer in answers(first) {
        answer.expect_body("body");
    }
    // Nobody waits for another any more.
    let second = crowd(&shoal, 4, |_| Request::get("/a"));
    origin.wait_for("/a", 9);
    gates[2].open();
    for answer in answers(second) {
        answer.expect_body("body");
    }
}

/// Pages that differ by cookie come slowly, and the first of them shows only when its head arrives
/// that it is for one client. The origin answers nobody until it has been asked by all.
#[test]
fn clients_with_cookies_do_not_queue_for_the_page_of_another() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let held = gate.clone();
    origin.on_request("/mine", move |request| {
        Answer::ok(request.fields.joined("cookie")).field("Cache-Control", "private").held_by(&held)
    });
    let shoal = Setup::to(&origin).start();
    let clients = crowd(&shoal, 3, |number| Request::get("/mine").field("Cookie", &format!("id={number}")));
    origin.wait_for("/mine", 3);
    gate.open();
    for (number, answer) in answers(clients).iter().enumerate() {
        answer.expect_body(format!("id={number}"));
    }
}

/// The page may be for all, in spite of their cookies: they do not all go at once, and who has none
/// waits.
#[test]
fn few_of_many_clients_ask_a_slow_origin_for_the_same_page() {
    let (origin, gate) = (Origin::start(), Gate::new());
    origin.on("/page", Answer::fresh("for all", 60).held_by(&gate));
    let shoal = Setup::to(&origin).start();
    let clients = crowd(&shoal, 40, |number| match number % 2 {
        0 => Request::get("/page").field("Cookie", &format!("id={number}")),
        _ => Request::get("/page"),
    });
    origin.wait_for("/page", 3);
    let asked = origin.count("/page");
    gate.open();
    answers(clients).iter().for_each(|answer| {
        answer.expect_body("for all");
    });
    assert!(asked < 20, "{asked} of 40 asked the origin, which had answered none");
}

/// Ranges wait for the whole that is being fetched, and when it is for nobody else go on together.
#[test]
fn ranges_wait_once_for_a_whole_that_is_not_shared() {
    let (origin, gate, late) = (Origin::start(), Gate::new(), Gate::new());
    let (held, others) = (gate.clone(), late.clone());
    let asked = AtomicUsize::new(0);
    origin.on_request("/a", move |_| {
        let gate = if asked.fetch_add(1, Ordering::SeqCst) == 0 { &held } else { &others };
        Answer::ok("0123456789").field("Cache-Control", "private").held_by(gate)
    });
    let shoal = Setup::to(&origin).start();
    let mut clients = crowd(&shoal, 1, |_| Request::get("/a"));
    origin.wait_for("/a", 1);
    clients.extend(crowd(&shoal, 3, |_| Request::get("/a").field("Range", "bytes=0-3")));
    gate.open();
    origin.wait_for("/a", 4);
    late.open();
    for answer in answers(clients) {
        answer.expect_status(200);
    }
}

#[test]
fn an_error_is_shared_by_those_who_take_a_stale_response_for_it() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let stale = Answer::fresh("old", 10).field("Age", "15").field("ETag", "\"v\"");
    origin.on_each("/a", [stale, Answer::new(503).held_by(&gate)]);
    let shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_body("old");
    let clients = crowd(&shoal, 8, |_| Request::get("/a"));
    gate.open();
    for answer in answers(clients) {
        answer.expect_body("old");
    }
    assert_eq!(origin.count("/a"), 2);
}
