//! Loops: a request that has been here before is refused.

use shoal_testkit::{Answer, Origin, Request, Setup};

#[test]
fn a_request_that_names_this_cache_is_refused() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let shoal = Setup::to(&origin).set("cache.name", "north").start();
    for (field, value) in [
        ("CDN-Loop", "north"),
        ("CDN-Loop", "other; v=1, North, third"),
        ("Via", "1.1 north"),
        ("Via", "1.0 other, HTTP/1.1 north (comment)"),
    ] {
        let response = shoal.ask(&Request::get("/a").field(field, value));
        assert!(matches!(response.status, 502 | 508), "{field}: {value} gave {}", response.status);
        assert_eq!(response.proxy().word("error").as_deref(), Some("proxy_loop_detected"));
    }
    assert_eq!(origin.total(), 0);
}

#[test]
fn other_names_pass_and_ours_is_added() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("body"));
    let shoal = Setup::to(&origin).set("cache.name", "north").start();
    for (number, (field, value)) in [
        ("CDN-Loop", "northern, south"),
        ("CDN-Loop", "south; note=\"north\""),
        ("Via", "1.1 northern"),
        ("Via", "1.1 south (north)"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/{number}");
        shoal.ask(&Request::get(&path).field(field, value)).expect_body("body");
        let received = origin.last(&path).fields.joined("cdn-loop");
        assert!(received.ends_with("north"), "RFC 8586 section 2: {received}");
    }
}

/// nginx compresses nothing for whoever has a Via. CDN-Loop finds loops without it.
#[test]
fn a_site_without_via_ends_loops_all_the_same() {
    let origin = Origin::start();
    origin.on("/a", Answer::ok("body"));
    let setup = Setup::to(&origin).without_sites();
    let own = setup.address("reverse");
    let shoal = setup
        .site(&format!("hosts = ['*']\nvia = false\nupstreams = [{{ url = '{}' }}]", origin.url()))
        .site(&format!("hosts = ['loop.test']\nvia = false\nupstreams = [{{ url = 'http://{own}' }}]"))
        .start();
    let answer = shoal.ask(&Request::get("/a").field("Via", "1.1 other"));
    assert!(answer.field("via").is_some(), "clients are told as ever");
    let fields = origin.last("/a").fields;
    assert_eq!((fields.has("via"), fields.has("cdn-loop")), (false, true), "{fields:?}");
    let response = shoal.connect().ask(&Request::get("/a"), "loop.test");
    assert!(matches!(response.status, 502 | 508), "{}", response.status);
    assert!(shoal.metric("shoal_requests_total", "") <= 4);
}

#[test]
fn a_site_that_points_at_itself_ends_soon() {
    let origin = Origin::start();
    let setup = Setup::to(&origin).without_sites();
    let own = setup.address("reverse");
    let shoal = setup.site(&format!("hosts = ['*']\nupstreams = [{{ url = 'http://{own}' }}]")).start();
    let response = shoal.get("/a");
    assert!(matches!(response.status, 502 | 508), "{}", response.status);
    assert!(shoal.metric("shoal_requests_total", "") <= 3);
}
