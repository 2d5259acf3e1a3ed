//! Prefetching: hinted requests become hits, clients go first, and wrong hints do no harm.

use serde_json::{Value, json};
use shoal_testkit::cluster::{joined, peers, setup};
use shoal_testkit::origin::{After, Framing};
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Gate, Origin, Request, Resource, Setup, Shoal, wait};
use std::time::Duration;

/// Sends a list of paths as hints, in this order.
fn hint(shoal: &Shoal, paths: &[String]) -> Value {
    let lines = paths.iter().map(|path| json!({ "url": format!("http://site.test{path}") }).to_string());
    let list = lines.collect::<Vec<_>>().join("\n");
    let answer = shoal.ask_admin(&Request::new("POST", "/hints").body(list.as_bytes()));
    serde_json::from_slice(&answer.expect_status(202).body).expect("JSON")
}

/// Returns the account of a source, once `is_so` of it.
fn account(shoal: &Shoal, source: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    wait::until(&format!("the account of {source}"), || {
        let status = shoal.status();
        let sources = status["prefetch"]["sources"].as_array().cloned().unwrap_or_default();
        found = sources.into_iter().find(|it| it["source"] == source).unwrap_or(Value::Null);
        !found.is_null() && is_so(&found)
    });
    found
}

fn count(account: &Value, name: &str) -> u64 {
    account[name].as_u64().unwrap_or_else(|| panic!("{name} of {account}"))
}

fn paths(name: &str, number: usize) -> Vec<String> {
    (0..number).map(|at| format!("/{name}{at}")).collect()
}

#[test]
fn hinted_requests_become_hits() {
    let origin = Origin::start();
    let paths = paths("a", 20);
    for path in &paths {
        origin.on(path, Answer::fresh(body(path, 5000), 600).delay(Duration::from_millis(30)));
    }
    let shoal = Setup::to(&origin).start();
    let report = hint(&shoal, &paths);
    assert_eq!((report["accepted"].as_u64(), report["refused"].as_u64()), (Some(20), Some(0)), "{report}");
    // The window of a new source opens with each use.
    for path in &paths {
        origin.wait_for(path, 1);
        shoal.get(path).expect_body(body(path, 5000));
    }
    let account = account(&shoal, "list", |it| count(it, "used") == 20);
    assert_eq!(count(&account, "used_bytes"), 100_000, "{account}");
    assert_eq!((count(&account, "wasted"), count(&account, "failed")), (0, 0), "{account}");
    assert_eq!(origin.total(), 20, "each was fetched once");
    shoal.expect_metric("shoal_prefetch_used_total", "source=\"list\"", 20);
    assert!(shoal.responses("miss") == 0, "clients missed nothing");
}

#[test]
fn client_joins_the_prefetch_of_the_same() {
    let origin = Origin::start();
    let gate = Gate::new();
    origin.on("/a0", Answer::fresh("late", 600).held_by(&gate));
    let shoal = Setup::to(&origin).start();
    hint(&shoal, &paths("a", 1));
    origin.wait_for("/a0", 1);
    let mut client = shoal.connect();
    client.send(Request::get("/a0").to_bytes("site.test"));
    std::thread::sleep(Duration::from_millis(100));
    gate.open();
    client.response("GET").expect_body("late");
    account(&shoal, "list", |it| count(it, "used") == 1);
    assert_eq!(origin.count("/a0"), 1);
}

#[test]
fn prefetch_gives_its_connection_to_clients() {
    let slow = Gate::new();
    let before_head = Answer::fresh("slow", 600).held_by(&slow);
    let within_body = Answer::fresh("slow", 600).wait_for(&slow).piece("er");
    for answer in [before_head, within_body] {
        let (origin, quick) = (Origin::start(), Gate::new());
        origin.on("/a0", answer);
        for path in ["/one", "/two"] {
            origin.on(path, Answer::fresh("quick", 600).held_by(&quick));
        }
        let shoal = Setup::to(&origin).set("upstream.connections_per_origin", 2).start();
        hint(&shoal, &paths("a", 1));
        origin.wait_for("/a0", 1);
        let mut clients = [shoal.connect(), shoal.connect()];
        for (client, path) in clients.iter_mut().zip(["/one", "/two"]) {
            client.send(Request::get(path).to_bytes("site.test"));
        }
        // Both are at the origin, though the prefetch held one of its two connections.
        let is_there = |path| wait::within(Duration::from_secs(10), || origin.count(path) == 1);
        assert!(is_there("/one") && is_there("/two"), "a client waits behind a prefetch");
        assert!(!slow.is_open(), "the prefetch has no answer yet");
        quick.open();
        for client in &mut clients {
            client.response("GET").expect_body("quick");
        }
    }
    slow.open();
}

#[test]
fn prefetch_takes_no_last_connection() {
    let origin = Origin::start();
    origin.on("/a0", Answer::fresh("never", 600));
    origin.on("/b", Answer::fresh("asked", 600));
    let shoal = Setup::to(&origin).set("upstream.connections_per_origin", 1).start();
    hint(&shoal, &paths("a", 1));
    std::thread::sleep(Duration::from_millis(300));
    shoal.get("/b").expect_body("asked");
    assert_eq!(origin.count("/a0"), 0, "the only connection is for clients");
}

#[test]
fn wrong_hints_cost_an_origin_little() {
    let origin = Origin::start();
    let (asked, wrong) = (paths("asked", 40), paths("wrong", 300));
    for path in asked.iter().chain(&wrong) {
        origin.on(path, Answer::fresh(body(path, 20_000), 600));
    }
    let shoal = Setup::to(&origin)
        .set("prefetch.trial", "16 KiB")
        .set("prefetch.waste", 2)
        .set("prefetch.use_within", "1s")
        .start();
    hint(&shoal, &wrong);
    for path in &asked {
        shoal.get(path).expect_body(body(path, 20_000));
    }
    std::thread::sleep(Duration::from_millis(1500));
    let account = account(&shoal, "list", |it| count(it, "wasted") + count(it, "failed") > 0);
    let demanded = 40 * 20_000;
    let wasted: u64 = wrong.iter().map(|path| origin.count(path) as u64 * 20_000).sum();
    assert!(wasted * 20 <= demanded, "{wasted} bytes more than {demanded}: {account}");
    assert!(asked.iter().all(|path| origin.count(path) == 1));
}

#[test]
fn links_within_the_site_are_fetched() {
    let origin = Origin::start();
    let links =
        "</style.css>; rel=preload; as=style, <http://other.test/stolen>; rel=preload, </next>; rel=next";
    origin.on("/page", Answer::fresh("page", 600).field("Link", links));
    origin.on("/style.css", Answer::fresh("style", 600));
    origin.on("/next", Answer::fresh("second", 600).field("Link", "</third>; rel=next"));
    origin.on("/third", Answer::fresh("third", 600));
    origin.on("/stolen", Answer::fresh("stolen", 600));
    let shoal = Setup::to(&origin).set("prefetch.links", true).start();
    let request = Request::get("/page").field("Cookie", "user=ann").field("Accept-Encoding", "gzip");
    shoal.ask(&request).expect_body("page");
    for path in ["/style.css", "/next"] {
        origin.wait_for(path, 1);
        let fields = &origin.last(path).fields;
        assert_eq!(fields.first("cookie"), None, "no credentials travel");
        assert_eq!(fields.first("sec-purpose"), Some("prefetch"));
        assert_eq!(fields.first("accept-encoding"), Some("gzip"));
    }
    account(&shoal, "link", |it| count(it, "prefetched") == 2);
    assert_eq!(origin.count("/third"), 0, "no chain without a client");
    wait::until("the second page is stored", || shoal.status()["prefetch"]["unused"] == 2);
    shoal.get("/next").expect_body("second");
    origin.wait_for("/third", 1);
    assert_eq!(origin.count("/stolen"), 0, "another host's URL");
    assert_eq!(origin.count("/next"), 1);
}

#[test]
fn early_hints_are_sent_again_while_a_client_waits() {
    let origin = Origin::start();
    let gate = Gate::new();
    let links = [("Link", "</style.css>; rel=preload")];
    let answer = || Answer::ok("body").field("Cache-Control", "max-age=0").field("ETag", "\"1\"");
    origin.on_each("/a", [answer().interim(103, &links), answer().held_by(&gate)]);
    let shoal = Setup::to(&origin).set("prefetch.early_hints", "all").start();
    assert_eq!(shoal.get("/a").interim.len(), 1, "the origin's own");
    let mut client = shoal.connect();
    client.send(Request::get("/a").to_bytes("site.test"));
    let hint = client.head().expect("the remembered hint comes while the origin works");
    assert_eq!((hint.status, hint.fields.first("link")), (103, Some("</style.css>; rel=preload")));
    gate.open();
    client.response("GET").expect_body("body");
}

#[test]
fn early_hints_come_before_a_hit_in_ram() {
    let origin = Origin::start();
    let links = [("Link", "</style.css>; rel=preload")];
    origin.on("/a", Answer::fresh("body", 600).interim(103, &links));
    origin.on("/b", Answer::fresh("body", 600));
    let shoal = Setup::to(&origin).set("prefetch.early_hints", "all").start();
    assert_eq!(shoal.get("/a").interim.len(), 1, "the origin's own");
    let hit = shoal.get("/a");
    hit.expect_body("body");
    let told: Vec<_> = hit.interim.iter().map(|head| (head.status, head.fields.first("link"))).collect();
    assert_eq!(told, [(103, Some("</style.css>; rel=preload"))]);
    assert_eq!(origin.count("/a"), 1, "it is a hit");
    shoal.get("/b").expect_body("body");
    assert!(shoal.get("/b").interim.is_empty(), "an answer without hints");
}

#[test]
fn successors_are_learnt_from_hits_in_ram() {
    let origin = Origin::start();
    for path in ["/page", "/part"] {
        origin.on(path, Answer::fresh(path, 600));
    }
    let shoal = Setup::to(&origin).set("prefetch.learn", true).start();
    for path in ["/page", "/part"] {
        shoal.get(path).expect_body(path);
    }
    // One second in eight teaches. A hinted answer is in the cache already, and counts as held.
    wait::until("a hint was learnt from hits", || {
        for path in ["/page", "/part"] {
            shoal.get(path).expect_body(path);
        }
        let rows = shoal.ask_admin(&Request::get("/hints")).text();
        let told: serde_json::Value = serde_json::from_str(&rows).expect("it is JSON");
        let learnt =
            told["sources"].as_array().and_then(|rows| rows.iter().find(|it| it["source"] == "learnt"));
        learnt.is_some_and(|row| row["held"].as_u64() > Some(0))
    });
    assert_eq!((origin.count("/page"), origin.count("/part")), (1, 1));
}

#[test]
fn early_hints_of_private_answers_are_forgotten() {
    let origin = Origin::start();
    let answer = || Answer::ok("body").field("Cache-Control", "private");
    origin.on("/a", answer().interim(103, &[("Link", "</ann.css>; rel=preload")]));
    let shoal = Setup::to(&origin).set("prefetch.early_hints", "all").start();
    assert_eq!(shoal.get("/a").interim.len(), 1);
    origin.on("/a", answer());
    assert!(shoal.get("/a").interim.is_empty());
}

#[test]
fn next_ranges_are_fetched_ahead() {
    let origin = Origin::start();
    let whole = body("film", 400_000);
    origin.serve("/film", Resource::new(whole.clone()).etag("\"1\"").cache_control("max-age=600"));
    let shoal = Setup::to(&origin).set("prefetch.ranges", true).start();
    let ask = |at: usize| {
        let (first, last) = (at * 10_000, at * 10_000 + 9_999);
        let request = Request::get("/film").field("Range", &format!("bytes={first}-{last}"));
        let response = shoal.ask(&request);
        assert_eq!(response.expect_status(206).body, &whole[first..=last]);
    };
    (0..3).for_each(ask);
    account(&shoal, "ranges", |it| count(it, "prefetched") >= 2);
    wait::until("they are stored", || shoal.status()["prefetch"]["unused"].as_u64() >= Some(2));
    let before = origin.count("/film");
    ask(3);
    account(&shoal, "ranges", |it| count(it, "used") >= 1);
    let again = origin
        .received()
        .iter()
        .skip(before)
        .filter(|it| it.fields.first("range") == Some("bytes=30000-39999"))
        .count();
    assert_eq!(again, 0, "the piece was there");
}

#[test]
fn often_wrong_source_is_muted() {
    let origin = Origin::start();
    for at in 0..30 {
        let link = format!("</useless{at}>; rel=prefetch");
        origin.on(&format!("/page{at}"), Answer::fresh("page", 600).field("Link", &link));
        origin.on(&format!("/useless{at}"), Answer::fresh("useless", 600));
    }
    let shoal = Setup::to(&origin).set("prefetch.links", true).set("prefetch.use_within", "1s").start();
    for at in 0..10 {
        shoal.get(&format!("/page{at}")).expect_body("page");
        origin.wait_for(&format!("/useless{at}"), 1);
    }
    let account = account(&shoal, "link", |it| count(it, "mutes") == 1);
    assert!(account["muted_seconds"].as_u64() > Some(200), "{account}");
    shoal.expect_metric("shoal_prefetch_muted", "source=\"link\"", 1);
    assert!(shoal.log().contains("a source of hints is muted"), "{}", shoal.log());
    shoal.get("/page20").expect_body("page");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(origin.count("/useless20"), 0);
}

#[test]
fn answers_for_one_client_are_not_kept() {
    let origin = Origin::start();
    origin.on("/a0", Answer::ok("ann").field("Cache-Control", "private"));
    origin.on("/a1", Answer::fresh("ann", 600).field("Set-Cookie", "a=b"));
    let shoal = Setup::to(&origin).start();
    hint(&shoal, &paths("a", 2));
    let account = account(&shoal, "list", |it| count(it, "failed") == 2);
    assert_eq!((count(&account, "used"), count(&account, "wasted")), (0, 0), "{account}");
    shoal.get("/a0").expect_body("ann");
    assert_eq!(origin.count("/a0"), 2);
}

#[test]
fn origin_that_refuses_is_left_alone() {
    let origin = Origin::start();
    let paths = paths("a", 30);
    for path in &paths {
        origin.on(path, Answer::new(503).field("Retry-After", "60"));
    }
    let shoal = Setup::to(&origin).set("prefetch.requests", 2).start();
    hint(&shoal, &paths);
    account(&shoal, "list", |it| count(it, "failed") >= 1);
    std::thread::sleep(Duration::from_millis(500));
    assert!(origin.total() <= 4, "{} requests to an origin that said no", origin.total());
}

#[test]
fn refused_destinations_are_not_prefetched() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("secret", 600));
    let shoal = Setup::bare().set_list("forward.deny_destinations", &["127.0.0.0/8"]).start();
    let list = json!({ "url": format!("{}/a", origin.url()) }).to_string();
    let answer = shoal.ask_admin(&Request::new("POST", "/hints").body(list.as_bytes()));
    answer.expect_status(202);
    account(&shoal, "list", |it| count(it, "failed") == 1);
    assert_eq!(origin.total(), 0);
}

#[test]
fn bad_lists_are_refused() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin).start();
    for (list, status) in [("", 400), ("nonsense", 400), ("{\"pace_ms\":5}", 400)] {
        let answer = shoal.ask_admin(&Request::new("POST", "/hints").body(list.as_bytes()));
        answer.expect_status(status);
    }
    let list = "{\"url\":\"ftp://x/\"}\nnonsense\n{\"url\":\"http://site.test/a\",\"headers\":{\"cookie\":\"a\"}}\n{\"url\":\"http://site.test/b\"}";
    let answer = shoal.ask_admin(&Request::new("POST", "/hints").body(list.as_bytes()));
    let report: Value = serde_json::from_slice(&answer.expect_status(202).body).expect("JSON");
    assert_eq!((report["accepted"].as_u64(), report["refused"].as_u64()), (Some(1), Some(3)), "{report}");
    let off = Setup::to(&origin).set("prefetch.lists", false).start();
    let list = "{\"url\":\"http://site.test/b\"}";
    off.ask_admin(&Request::new("POST", "/hints").body(list.as_bytes())).expect_status(409);
}

#[test]
fn body_that_breaks_off_is_no_prefetch() {
    let origin = Origin::start();
    let cut = Answer::fresh(body("x", 20_000), 600).framed(Framing::Claimed(50_000)).then(After::Close);
    origin.on("/a0", cut);
    let shoal = Setup::to(&origin).start();
    hint(&shoal, &paths("a", 1));
    account(&shoal, "list", |it| count(it, "failed") == 1);
    origin.on("/a0", Answer::fresh("whole", 600));
    shoal.get("/a0").expect_body("whole");
}

#[test]
fn hints_go_to_the_homes_of_their_objects() {
    let origin = Origin::start();
    let paths = paths("a", 30);
    for path in &paths {
        origin.on(path, Answer::fresh(body(path, 2000), 600));
    }
    let peers = peers(2);
    let nodes = joined(peers.iter().map(|own| setup(&origin, *own, &peers).start()).collect());
    hint(&nodes[0], &paths);
    for path in &paths {
        origin.wait_for(path, 1);
        nodes[0].get(path).expect_body(body(path, 2000));
    }
    let own = account(&nodes[0], "list", |it| count(it, "placed") + count(it, "used") == 30);
    assert!(count(&own, "placed") > 5 && count(&own, "used") > 5, "{own}");
    let placed = count(&own, "placed");
    account(&nodes[1], "peer", |it| count(it, "used") == placed);
    assert_eq!(origin.total(), 30, "each object was fetched once, and kept once");
}
