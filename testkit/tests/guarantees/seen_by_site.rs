//! What happened is told by site: in metrics, in the status, and as the URLs that cost most.

use serde_json::Value;
use shoal_testkit::address::closed_port;
use shoal_testkit::shoal::binary;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal, wait};
use std::collections::BTreeSet;
use std::process::Command;

/// Two sites, `one.test` and `two.test/api`, and a forward listener.
fn two_sites(one: &Origin, two: &Origin) -> Setup {
    let site = |hosts: &str, more: &str, origin: &Origin| {
        format!("hosts = ['{hosts}']\n{more}upstreams = [{{ url = '{}' }}]", origin.url())
    };
    Setup::to(one).without_sites().site(&site("one.test", "", one)).site(&site(
        "two.test",
        "path_prefix = '/api'\n",
        two,
    ))
}

fn ask(shoal: &Shoal, host: &str, request: &Request) -> shoal_testkit::Response {
    shoal.connect().ask(request, host)
}

fn get(shoal: &Shoal, host: &str, path: &str) -> shoal_testkit::Response {
    ask(shoal, host, &Request::get(path))
}

fn expect(shoal: &Shoal, site: &str, result: &str, count: u64) {
    let labels = format!("site=\"{site}\",result=\"{result}\"");
    shoal.expect_metric("shoal_site_responses_total", &labels, count);
}

fn expect_asked(shoal: &Shoal, site: &str, reason: &str, count: u64) {
    let labels = format!("site=\"{site}\",reason=\"{reason}\"");
    shoal.expect_metric("shoal_site_upstream_requests_total", &labels, count);
}

fn status_of(shoal: &Shoal, site: &str) -> Value {
    let status = shoal.status();
    let sites = status["sites"].as_array().expect("sites");
    sites.iter().find(|status| status["site"] == site).unwrap_or_else(|| panic!("{site} in {status}")).clone()
}

fn command(shoal: &Shoal, arguments: &[&str]) -> String {
    let admin = shoal.admin().to_string();
    let output = Command::new(binary()).args(arguments).args(["--admin", &admin]).output().expect("run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn results_and_reasons_stand_under_their_site() {
    let (one, two) = (Origin::start(), Origin::start());
    one.on("/fresh", Answer::fresh("12345", 60));
    one.on("/cookie", Answer::fresh("cookie", 60).field("Set-Cookie", "a=b"));
    let stale = Answer::ok("old").field("Age", "15").field("ETag", "\"v\"");
    let old = stale.field("Cache-Control", "max-age=10, stale-if-error=60");
    one.on_each("/stale", [old.clone(), Answer::new(500), old.clone()]);
    let validated = Answer::new(304).field("ETag", "\"v\"").field("Cache-Control", "max-age=60");
    one.on_each("/validated", [old, validated]);
    two.on("/api/a", Answer::fresh("two", 60));
    two.on("/api/broken", Answer::raw(""));
    let shoal = two_sites(&one, &two).start();
    for _ in 0..3 {
        get(&shoal, "one.test", "/fresh").expect_body("12345");
        get(&shoal, "one.test", "/cookie").expect_body("cookie");
    }
    get(&shoal, "one.test", "/stale").expect_body("old");
    get(&shoal, "one.test", "/stale").expect_body("old");
    get(&shoal, "one.test", "/validated").expect_body("old");
    get(&shoal, "one.test", "/validated").expect_body("old");
    ask(&shoal, "one.test", &Request::new("POST", "/fresh").body(b"x")).expect_status(200);
    get(&shoal, "two.test", "/api/a").expect_body("two");
    get(&shoal, "two.test", "/api/broken").expect_status(502);
    get(&shoal, "two.test", "/elsewhere").expect_status(404);
    get(&shoal, "three.test", "/").expect_status(404);

    for (result, count) in
        [("memory_hit", 2), ("miss", 6), ("stale", 1), ("refresh_unmodified", 1), ("pass", 1), ("error", 0)]
    {
        expect(&shoal, "one.test/", result, count);
    }
    for (result, count) in [("memory_hit", 0), ("miss", 1), ("error", 1)] {
        expect(&shoal, "two.test/api", result, count);
    }
    expect(&shoal, "none", "none", 2);
    for (reason, count) in
        [("uri-miss", 3), ("set-cookie", 3), ("stale", 1), ("stale-if-error", 1), ("method", 1)]
    {
        expect_asked(&shoal, "one.test/", reason, count);
    }
    expect_asked(&shoal, "two.test/api", "uri-miss", 1);
    expect_asked(&shoal, "two.test/api", "error", 1);
    // An error is a miss for the whole node.
    shoal.expect_responses("miss", 8);
    let two = status_of(&shoal, "two.test/api");
    assert_eq!((two["requests"].as_u64(), two["hits"].as_u64()), (Some(2), Some(0)), "{two}");
    assert_eq!(two["upstream_body_bytes"].as_u64(), Some(3), "{two}");
    let one = status_of(&shoal, "one.test/");
    let sent = one["results"]["memory_hit"]["body_bytes"].as_u64();
    assert_eq!((sent, one["hit_body_bytes"].as_u64()), (Some(10), Some(10 + 3 + 3)), "{one}");
}

/// Whether lines are logged or not: the fast path counts in two places.
#[test]
fn hits_in_ram_are_counted_and_timed_by_site() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("12345", 60));
    for access in ["none", "access.log"] {
        let shoal = two_sites(&origin, &origin).set("log.access", access).start();
        get(&shoal, "one.test", "/a").expect_body("12345");
        let mut connection = shoal.connect();
        for _ in 0..65 {
            connection.ask(&Request::get("/a"), "one.test").expect_hit();
        }
        expect(&shoal, "one.test/", "memory_hit", 65);
        let bytes = "site=\"one.test/\",result=\"memory_hit\"";
        shoal.expect_metric("shoal_site_response_body_bytes_total", bytes, 325);
        let labels = "site=\"one.test/\",source=\"ram\"";
        let timed = shoal.metric("shoal_site_response_duration_seconds_count", labels);
        // One in 64 of each core.
        assert!((1..=3).contains(&timed), "{timed} of 65");
        let times = status_of(&shoal, "one.test/");
        assert!(times["p50_us"].as_u64().is_some_and(|time| time > 0), "{times}");
        assert_eq!(times["times"]["origin"]["count"], 1, "{times}");
    }
}

#[test]
fn forward_mode_is_one_site_and_names_tunnels() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let port = origin.address().port();
    let shoal = two_sites(&origin, &origin).set("forward.connect_ports", vec![i64::from(port)]).start();
    let request = Request::get(&format!("{}/a", origin.url()));
    shoal.ask_forward(&request).expect_body("body");
    shoal.ask_forward(&request).expect_hit();
    let refused = format!("http://{}/", closed_port());
    shoal.ask_forward(&Request::get(&refused)).expect_status(502);
    let mut tunnel = shoal.connect_forward();
    tunnel.send(format!("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n", origin.address()));
    assert_eq!(tunnel.head().expect("a head").status, 200);
    tunnel.send(Request::get("/a").to_bytes("origin.test"));
    tunnel.response("GET").expect_body("body");
    drop(tunnel);
    for (result, count) in [("memory_hit", 1), ("miss", 1), ("error", 1), ("tunnel", 1)] {
        expect(&shoal, "forward", result, count);
    }
    let forward = status_of(&shoal, "forward");
    assert_eq!(forward["requests"], 3, "tunnels are apart: {forward}");
    let told = command(&shoal, &["status"]);
    let lines: Vec<&str> = told.lines().filter(|line| line.starts_with("forward")).collect();
    assert_eq!(lines.len(), 2, "{told}");
    assert!(lines[1].starts_with("forward tunnels  "), "{told}");
    assert!(told.contains("\none.test/"), "{told}");
}

#[test]
fn top_misses_names_urls_reasons_and_settings() {
    let origin = Origin::start();
    origin.on("/cookie*", Answer::fresh("cookie", 60).field("Set-Cookie", "a=b"));
    origin.on("/large", Answer::ok(vec![b'x'; 300_000]).field("Cache-Control", "no-store"));
    origin.on("/fresh", Answer::fresh("fresh", 60));
    origin.on("/silent", Answer::ok("silent"));
    let shoal = two_sites(&origin, &origin).start();
    for _ in 0..5 {
        get(&shoal, "one.test", "/cookie?user=7").expect_status(200);
        get(&shoal, "one.test", "/fresh").expect_status(200);
    }
    get(&shoal, "one.test", "/large").expect_status(200);
    for _ in 0..2 {
        get(&shoal, "one.test", "/silent").expect_status(200);
    }
    shoal.ask_forward(&Request::get(&format!("{}/large", origin.url()))).expect_status(200);
    let list = |arguments: &[&str]| -> Value {
        let text = command(&shoal, &[&["top", "misses", "--json"], arguments].concat());
        serde_json::from_str(&text).expect("JSON")
    };
    // The account of a request is closed when its body has ended.
    wait::until("all is told", || list(&[])["total"] == 10);
    let by_requests = list(&[]);
    let first = &by_requests["urls"][0];
    assert_eq!(
        (first["url"].as_str(), first["requests"].as_u64()),
        (Some("http://one.test/cookie?user=7"), Some(5))
    );
    assert_eq!((first["reason"].as_str(), first["error"].as_u64()), (Some("set-cookie"), Some(0)));
    assert_eq!(first["settings"][0], "rule.set_cookie");
    let mut urls = by_requests["urls"].as_array().expect("a list").iter();
    let silent = urls.find(|url| url["url"] == "http://one.test/silent").expect("listed");
    assert_eq!(silent["settings"][0], "rule.lifetime_default", "{silent}");
    let by_bytes = list(&["--by", "bytes", "--site", "one.test/", "-n", "1"]);
    let urls = by_bytes["urls"].as_array().expect("a list");
    assert_eq!((urls.len(), urls[0]["body_bytes"].as_u64()), (1, Some(300_000)), "{by_bytes}");
    assert_eq!(urls[0]["reason"], "no-store");
    let text = command(&shoal, &["top", "misses", "--by", "time"]);
    assert!(text.contains("http://one.test/cookie?user=7") && text.contains("rule.set_cookie"), "{text}");
    let unknown = command(&shoal, &["top", "misses", "--site", "nobody.test/"]);
    assert_eq!(unknown, "no request has gone to an origin\n");
}

/// A client sends many URLs that come once each. What costs most stays on the list, and the list
/// does not grow.
#[test]
fn flood_of_urls_does_not_hide_what_costs_most() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("x").field("Cache-Control", "no-store"));
    let shoal = two_sites(&origin, &origin).start();
    let mut connection = shoal.connect();
    for number in 0..1500 {
        connection.ask(&Request::get(&format!("/once/{number}")), "one.test").expect_status(200);
        if number % 50 == 0 {
            connection.ask(&Request::get("/heavy"), "one.test").expect_status(200);
        }
    }
    let answer = shoal.ask_admin(&Request::get("/top/misses?n=1000"));
    let list: Value = serde_json::from_str(&answer.text()).expect("JSON");
    let urls = list["urls"].as_array().expect("a list");
    assert_eq!(urls[0]["url"], "http://one.test/heavy", "{}", urls[0]);
    assert!(urls.len() <= 256, "{} URLs of one of two sites", urls.len());
}

/// Hosts and paths of requests make no label, and a hundred sites have labels of their own.
#[test]
fn labels_come_from_the_settings_and_are_bounded() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("x", 60));
    let mut setup = Setup::to(&origin).without_sites();
    for number in 0..120 {
        setup = setup.site(&format!(
            "hosts = ['s{number}.test', '*.s{number}.test']\nupstreams = [{{ url = '{}' }}]",
            origin.url()
        ));
    }
    let shoal = setup.start();
    let labels = |shoal: &Shoal| -> BTreeSet<String> {
        let page = shoal.ask_admin(&Request::get("/metrics")).text();
        let sites = page.lines().filter(|line| line.starts_with("shoal_site_"));
        sites.filter_map(|line| Some(line.split_once("site=\"")?.1.split_once('"')?.0.to_owned())).collect()
    };
    for host in ["s3.test", "x.s3.test", "\"};evil.s3.test", "s119.test", "s110.test", "unknown.test"] {
        get(&shoal, host, "/a");
    }
    let labels = labels(&shoal);
    assert_eq!(labels.len(), 100 + 3, "a hundred sites, forward, other, none: {labels:?}");
    assert!(labels.contains("s3.test/") && !labels.contains("s119.test/"), "{labels:?}");
    expect(&shoal, "s3.test/", "miss", 2);
    expect(&shoal, "other", "miss", 2);
}

#[test]
fn reload_keeps_counts_of_sites_that_stay() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("x", 60));
    let mut shoal = two_sites(&origin, &origin).start();
    get(&shoal, "one.test", "/a").expect_body("x");
    get(&shoal, "two.test", "/api").expect_body("x");
    shoal.change(|text| text.replace("two.test", "three.test"));
    let answer = shoal.ask_admin(&Request::new("POST", "/reload"));
    answer.expect_status(200);
    get(&shoal, "one.test", "/a").expect_hit();
    get(&shoal, "three.test", "/api").expect_body("x");
    expect(&shoal, "one.test/", "miss", 1);
    expect(&shoal, "one.test/", "memory_hit", 1);
    expect(&shoal, "three.test/api", "miss", 1);
    assert!(!shoal.ask_admin(&Request::get("/metrics")).text().contains("site=\"two.test"));
}
