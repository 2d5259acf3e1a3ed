//! Invalidation: by unsafe methods (RFC 9111 section 4.4), by cache groups (RFC 9875), by the
//! operator.

use shoal_testkit::{Answer, Gate, Origin, Request, Setup, Shoal};

/// Serves a fresh body at each path and has Shoal store it.
fn stored(origin: &Origin, shoal: &Shoal, paths: &[&str]) {
    for path in paths {
        origin.on(path, Answer::fresh(format!("body of {path}"), 600));
        shoal.get(path).expect_status(200);
        shoal.get(path).expect_hit();
    }
}

fn expect_gone(shoal: &Shoal, path: &str) {
    assert!(!shoal.get(path).hit(), "{path} is still served from the cache");
}

fn expect_kept(shoal: &Shoal, path: &str) {
    assert!(shoal.get(path).hit(), "{path} is not served from the cache any more");
}

/// RFC 9111 section 4.4: "A cache MUST invalidate the target URI ... when it receives a non-error
/// status code in response to an unsafe request method (including methods whose safety is
/// unknown)."
#[test]
fn unsafe_methods_that_succeed_invalidate_their_target() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin).start();
    for (number, (method, status)) in
        [("POST", 200), ("PUT", 204), ("DELETE", 200), ("PATCH", 201), ("POST", 303), ("MYSTERY", 200)]
            .iter()
            .enumerate()
    {
        let path = format!("/{number}");
        stored(&origin, &shoal, &[&path]);
        origin.on(&path, Answer::new(*status).field("Cache-Control", "no-store"));
        shoal.ask(&Request::new(method, &path).body(b"x")).expect_status(*status);
        origin.on(&path, Answer::fresh("new", 600));
        shoal.get(&path).expect_body("new");
    }
}

#[test]
fn unsafe_methods_that_fail_and_safe_methods_invalidate_nothing() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin).start();
    for (number, (method, status)) in
        [("POST", 400), ("PUT", 500), ("DELETE", 403), ("OPTIONS", 200), ("TRACE", 200)].iter().enumerate()
    {
        let path = format!("/{number}");
        stored(&origin, &shoal, &[&path]);
        origin.on(&path, Answer::new(*status).field("Cache-Control", "no-store"));
        shoal.ask(&Request::new(method, &path));
        expect_kept(&shoal, &path);
    }
}

/// RFC 9111 section 4.4: "A cache MAY invalidate other URIs when it receives a non-error status
/// code in response to an unsafe request method ... In particular, the URI(s) in the Location and
/// Content-Location response header fields (if present) are candidates for invalidation ...
/// However, a cache MUST NOT trigger an invalidation under these conditions if the origin (Section
/// 4.3.1 of [HTTP]) of the URI to be invalidated differs from that of the target URI".
#[test]
fn location_and_content_location_are_invalidated_within_the_origin() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin).start();
    stored(&origin, &shoal, &["/located", "/content", "/absolute", "/dir/relative", "/foreign"]);
    for (field, value, gone) in [
        ("Location", "/located", Some("/located")),
        ("Content-Location", "/content", Some("/content")),
        ("Location", "http://site.test/absolute", Some("/absolute")),
        ("Content-Location", "relative", Some("/dir/relative")),
        ("Location", "http://other.test/foreign", None),
        ("Location", "https://site.test/foreign", None),
        ("Location", "http://site.test:81/foreign", None),
    ] {
        origin.on("/dir/act", Answer::new(201).field(field, value));
        shoal.ask(&Request::new("POST", "/dir/act").body(b"x")).expect_status(201);
        gone.map_or_else(|| expect_kept(&shoal, "/foreign"), |path| expect_gone(&shoal, path));
    }
}

#[test]
fn every_variant_of_an_invalidated_target_goes() {
    let origin = Origin::start();
    origin.on_request("/v", |request| match request.method.as_str() {
        "POST" => Answer::new(204),
        _ => Answer::fresh(request.fields.joined("x-v"), 600).field("Vary", "X-V"),
    });
    let shoal = Setup::to(&origin).start();
    let variant = |value: &str| shoal.ask(&Request::get("/v").field("X-V", value));
    for value in ["a", "b", "c", "a", "b", "c"] {
        variant(value).expect_body(value);
    }
    assert_eq!(origin.count("/v"), 3);
    shoal.ask(&Request::new("POST", "/v").body(b"x")).expect_status(204);
    for value in ["a", "b", "c"] {
        assert!(!variant(value).hit(), "{value}");
    }
}

#[test]
fn the_query_belongs_to_the_target() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin).start();
    stored(&origin, &shoal, &["/q?a=1", "/q?a=2", "/q"]);
    origin.on("/q?a=1", Answer::new(204));
    shoal.ask(&Request::new("POST", "/q?a=1").body(b"x")).expect_status(204);
    expect_kept(&shoal, "/q?a=2");
    expect_kept(&shoal, "/q");
    origin.on("/q?a=1", Answer::fresh("new", 60));
    shoal.get("/q?a=1").expect_body("new");
}

fn grouped(origin: &Origin, path: &str, groups: &str) {
    origin.on(path, Answer::fresh(format!("body of {path}"), 600).field("Cache-Groups", groups));
}

/// RFC 9875 section 3: the Cache-Group-Invalidation response field names groups to invalidate,
/// within the response's own origin; it is heeded only on responses to unsafe methods.
#[test]
fn a_cache_group_is_invalidated_together() {
    let origin = Origin::start();
    grouped(&origin, "/scripts/1", "\"scripts\"");
    grouped(&origin, "/scripts/2", "\"styles\", \"scripts\"");
    grouped(&origin, "/styles/1", "\"styles\"");
    grouped(&origin, "/none", "\"Scripts\"");
    let shoal = Setup::to(&origin).start();
    let paths = ["/scripts/1", "/scripts/2", "/styles/1", "/none"];
    let fill = || {
        for path in paths {
            shoal.get(path).expect_status(200);
            expect_kept(&shoal, path);
        }
    };
    fill();
    let invalidating =
        |status| Answer::new(status).field("Cache-Group-Invalidation", "\"scripts\", \"unknown\"");
    origin.on("/act", invalidating(200));
    shoal.get("/act");
    paths.iter().for_each(|path| expect_kept(&shoal, path));
    shoal.ask(&Request::new("POST", "/act").body(b"x")).expect_status(200);
    expect_gone(&shoal, "/scripts/1");
    expect_gone(&shoal, "/scripts/2");
    expect_kept(&shoal, "/styles/1");
    expect_kept(&shoal, "/none");
}

/// RFC 9875 section 2.1: responses are of one group when they "share the same origin" and the
/// group's name, compared case-sensitively.
#[test]
fn cache_groups_of_another_origin_are_others() {
    let origin = Origin::start();
    grouped(&origin, "/page", "\"pages\"");
    origin.on("/act", Answer::new(200).field("Cache-Group-Invalidation", "\"pages\""));
    let shoal = Setup::to(&origin).start();
    let ask = |host: &str| shoal.connect().ask(&Request::get("/page"), host);
    for host in ["one.test", "two.test", "one.test", "two.test"] {
        ask(host).expect_status(200);
    }
    assert_eq!(origin.count("/page"), 2);
    shoal.connect().ask(&Request::new("POST", "/act").body(b"x"), "one.test").expect_status(200);
    assert!(ask("two.test").hit());
    assert!(!ask("one.test").hit());
}

#[test]
fn purge_removes_a_url_with_all_its_variants() {
    let origin = Origin::start();
    origin.on_request("/v", |request| Answer::fresh(request.fields.joined("x-v"), 600).field("Vary", "X-V"));
    let shoal = Setup::to(&origin).start();
    let variant = |value: &str| shoal.ask(&Request::get("/v").field("X-V", value));
    for value in ["a", "b", "a", "b"] {
        variant(value).expect_body(value);
    }
    assert_eq!(origin.count("/v"), 2);
    shoal.ask(&Request::new("PURGE", "/v")).expect_status(200);
    assert!(!variant("a").hit());
    assert!(!variant("b").hit());
    assert_eq!(origin.count_of("PURGE", "/v"), 0, "PURGE is for the cache");
}

#[test]
fn purge_is_for_those_who_may() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin).set_list("admin.purge_from", &["192.0.2.0/24"]).start();
    stored(&origin, &shoal, &["/a"]);
    let refused = shoal.ask(&Request::new("PURGE", "/a"));
    assert!(matches!(refused.status, 403 | 405), "{}", refused.status);
    expect_kept(&shoal, "/a");
    assert_eq!(origin.count_of("PURGE", "/a"), 0);
}

fn purge(shoal: &Shoal, body: &str) {
    let request =
        Request::new("POST", "/purge").field("Content-Type", "application/json").body(body.as_bytes());
    shoal.ask_admin(&request).expect_status(200);
}

#[test]
fn tags_purge_what_carries_them() {
    let origin = Origin::start();
    origin.on("/1", Answer::fresh("1", 600).field("Cache-Tag", "product-1, sale"));
    origin.on("/2", Answer::fresh("2", 600).field("Surrogate-Key", "product-2 sale"));
    origin.on("/3", Answer::fresh("3", 600).field("Cache-Tag", "product-3"));
    let shoal = Setup::to(&origin).start();
    for path in ["/1", "/2", "/3", "/1", "/2", "/3"] {
        shoal.get(path).expect_status(200);
    }
    assert_eq!(origin.total(), 3);
    purge(&shoal, r#"{"tag": "sale"}"#);
    expect_gone(&shoal, "/1");
    expect_gone(&shoal, "/2");
    expect_kept(&shoal, "/3");
    purge(&shoal, r#"{"tag": "product-3"}"#);
    expect_gone(&shoal, "/3");
}

#[test]
fn hosts_groups_urls_and_everything_can_be_purged() {
    let origin = Origin::start();
    for path in ["/1", "/2"] {
        grouped(&origin, path, "\"g\"");
    }
    let shoal = Setup::to(&origin).start();
    let fill = || {
        for path in ["/1", "/2"] {
            shoal.get(path).expect_status(200);
            expect_kept(&shoal, path);
        }
    };
    fill();
    purge(&shoal, r#"{"url": "http://site.test/1"}"#);
    expect_gone(&shoal, "/1");
    expect_kept(&shoal, "/2");
    // Hosts and schemes have no case, and a port that is the scheme's own says nothing.
    for body in [
        r#"{"host": "site.test"}"#,
        r#"{"host": "Site.Test"}"#,
        r#"{"group": {"origin": "http://site.test", "group": "g"}}"#,
        r#"{"group": {"origin": "HTTP://Site.test:80/", "group": "g"}}"#,
        r#""all""#,
    ] {
        fill();
        purge(&shoal, body);
        expect_gone(&shoal, "/1");
        expect_gone(&shoal, "/2");
    }
}

/// A final dot makes another key, but not another host: sites and access lists do not tell them
/// apart either.
#[test]
fn a_host_is_purged_with_its_final_dot() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 600));
    let shoal = Setup::to(&origin).start();
    let ask = |host: &str| shoal.connect().ask(&Request::get("/a"), host);
    for purged in ["site.test", "site.test."] {
        for host in ["site.test", "site.test."] {
            ask(host).expect_body("body");
            ask(host).expect_hit();
        }
        purge(&shoal, &format!("{{\"host\": \"{purged}\"}}"));
        for host in ["site.test", "site.test."] {
            assert!(!ask(host).hit(), "{host} after a purge of {purged}");
        }
    }
}

/// What is arriving was asked for before the purge, and is not for who asks after it.
#[test]
fn what_is_purged_while_it_arrives_is_not_shared_any_more() {
    for what in
        [r#"{"url": "http://site.test/a"}"#, r#"{"tag": "t"}"#, r#"{"host": "site.test"}"#, r#""all""#]
    {
        let origin = Origin::start();
        let gate = Gate::new();
        let old = Answer::fresh("old", 600).field("Cache-Tag", "t").wait_for(&gate).piece(" to its end");
        origin.on_each("/a", [old, Answer::fresh("new", 600)]);
        let shoal = Setup::to(&origin).start();
        let mut first = shoal.connect();
        first.send(Request::get("/a").to_bytes("site.test"));
        assert_eq!(first.head().map(|head| head.status), Ok(200));
        purge(&shoal, what);
        let mut second = shoal.connect();
        second.send(Request::get("/a").to_bytes("site.test"));
        let asked_anew =
            shoal_testkit::wait::within(std::time::Duration::from_secs(5), || origin.count("/a") == 2);
        gate.open();
        second.response("GET").expect_body("new");
        assert!(asked_anew, "{what}");
        assert_eq!(first.exactly(14).as_deref(), Ok(&b"old to its end"[..]));
        shoal.get("/a").expect_body("new");
    }
}

/// What names no host would purge nothing and say that it had.
#[test]
fn what_names_no_host_or_origin_is_refused() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin).start();
    for body in [
        r#"{"host": "http://site.test"}"#,
        r#"{"host": "site.test/a"}"#,
        r#"{"host": ""}"#,
        r#"{"group": {"origin": "site.test", "group": "g"}}"#,
        r#"{"group": {"origin": "http://site.test/a", "group": "g"}}"#,
        // There are no wildcards, and no port beyond 65535 that would fall back to the scheme's.
        r#"{"host": "*.site.test"}"#,
        r#"{"group": {"origin": "http://*.site.test", "group": "g"}}"#,
        r#"{"group": {"origin": "http://site.test", "group": ""}}"#,
        r#"{"url": "http://site.test:99999/1"}"#,
        // A response's tags never look so: commas and blanks part them.
        r#"{"tag": ""}"#,
        r#"{"tag": "sale,product-3"}"#,
        r#"{"tag": "sale product-3"}"#,
        r#"{"tag": "Größe"}"#,
    ] {
        let request =
            Request::new("POST", "/purge").field("Content-Type", "application/json").body(body.as_bytes());
        shoal.ask_admin(&request).expect_status(400);
    }
}

#[test]
fn what_was_purged_stays_away_after_a_restart() {
    let origin = Origin::start();
    origin.on("/tagged", Answer::fresh("tagged", 600).field("Cache-Tag", "t"));
    let mut shoal = Setup::to(&origin).start();
    stored(&origin, &shoal, &["/named", "/kept"]);
    shoal.get("/tagged").expect_status(200);
    shoal_testkit::wait::until("all are on disk", || {
        shoal.status()["store"]["space"]["objects"].as_u64() >= Some(3)
    });
    shoal.ask(&Request::new("PURGE", "/named")).expect_status(200);
    purge(&shoal, r#"{"tag": "t"}"#);
    shoal.restart_and_find_all();
    expect_gone(&shoal, "/named");
    expect_gone(&shoal, "/tagged");
    expect_kept(&shoal, "/kept");
}
