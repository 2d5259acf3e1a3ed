//! Access logs in three formats, the error log, metrics, status.

use shoal_testkit::address::{free_port, fresh_ip};
use shoal_testkit::h2::H2Connection;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Gate, Origin, Request, Setup, Shoal};
use std::collections::HashSet;

/// A hit, a miss, a refusal and a body of known size.
fn traffic(format: &str) -> (Origin, Shoal, Vec<String>) {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("12345", 60).field("Content-Type", "text/plain"));
    let shoal = Setup::to(&origin).set("log.format", format).start();
    let request = Request::get("/a?q=%22x")
        .field("User-Agent", "tester/1.0 \"quoted\"")
        .field("Referer", "http://r.test/");
    shoal.ask(&request).expect_body("12345");
    shoal.ask(&request).expect_body("12345").expect_hit();
    shoal.ask(&Request::get("/missing")).expect_status(404);
    // each request came on a connection of its own, so the lines may stand in another order
    let mut log = shoal.access_log(3);
    let rank = |line: &String| (line.contains("/missing"), line.contains("hit") || line.contains("_HIT"));
    log.sort_by_key(rank);
    (origin, shoal, log)
}

/// A scraper gets metrics and health at an address of its own, and can do nothing else there.
#[test]
fn scrapers_have_metrics_alone() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let setup = Setup::to(&origin);
    let password = setup.file("ann.password", "secret\n").to_string_lossy().into_owned();
    let address = free_port(fresh_ip());
    let ann = toml::Table::from_iter([
        ("name".into(), toml::Value::from("ann")),
        ("password_file".into(), toml::Value::from(password)),
    ]);
    let shoal = setup
        .set("admin.users", vec![toml::Value::from(ann)])
        .set("admin.metrics", address.to_string())
        .start();
    let ask =
        |method: &str, path: &str| Connection::open(address).ask(&Request::new(method, path), "localhost");
    shoal.ask(&Request::get("/a")).expect_body("body");
    assert_eq!(shoal.ask_admin(&Request::get("/metrics")).status, 401, "the admin listener wants a user");
    assert!(ask("GET", "/metrics").expect_status(200).text().contains("shoal_requests_total"));
    assert_eq!(ask("GET", "/healthz").status, 200);
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/status"),
        ("GET", "/ui/"),
        ("POST", "/metrics"),
        ("POST", "/purge?all"),
        ("POST", "/reload"),
        ("POST", "/explain"),
    ] {
        assert_eq!(ask(method, path).status, 404, "{method} {path}");
    }
    shoal.ask(&Request::get("/a")).expect_hit();
}

/// Squid's native format: time elapsed client code/status bytes method URL user hierarchy/host
/// type.
#[test]
fn the_squid_format_is_what_its_analysers_read() {
    let (origin, _shoal, log) = traffic("squid");
    let fields: Vec<Vec<&str>> = log.iter().map(|line| line.split_whitespace().collect()).collect();
    assert!(fields.iter().all(|fields| fields.len() == 10), "{log:?}");
    let (miss, hit) = (&fields[0], &fields[1]);
    assert!(miss[0].parse::<f64>().is_ok_and(|time| time > 1.7e9), "{}", miss[0]);
    assert!(miss[1].parse::<u64>().is_ok());
    assert_eq!((miss[2], miss[3], hit[3]), ("127.0.0.1", "TCP_MISS/200", "TCP_MEM_HIT/200"));
    assert!(miss[4].parse::<u64>().is_ok_and(|bytes| bytes > 5), "head and body: {}", miss[4]);
    assert_eq!((miss[5], miss[9]), ("GET", "text/plain"));
    assert!(miss[6].starts_with("http://site.test/a?q="), "{}", miss[6]);
    assert_eq!((miss[8], hit[8]), (format!("HIER_DIRECT/{}", origin.address().ip()).as_str(), "HIER_NONE/-"));
}

#[test]
fn the_combined_format_is_what_web_analysers_read() {
    let (_origin, _shoal, log) = traffic("combined");
    assert!(log[0].starts_with("127.0.0.1 - - ["), "{}", log[0]);
    assert!(log[0].contains("\"GET http://site.test/a?q="), "{}", log[0]);
    assert!(
        log[0].contains(" HTTP/1.1\" 200 5 \"http://r.test/\" \"tester/1.0 \\\"quoted\\\"\" \""),
        "{}",
        log[0]
    );
    assert!(log[1].ends_with('"') && log[1].contains("\"shoal;hit"), "{}", log[1]);
}

#[test]
fn the_json_format_is_an_object_a_line() {
    let (_origin, _shoal, log) = traffic("json");
    let lines: Vec<serde_json::Value> = log
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert_eq!((lines[0]["status"].as_u64(), lines[0]["body_bytes"].as_u64()), (Some(200), Some(5)));
    assert_eq!(lines[0]["client"], "127.0.0.1");
    assert_eq!(lines[0]["user_agent"], "tester/1.0 \"quoted\"");
    assert!(
        lines[1]["cache_status"].as_str().is_some_and(|value| value.starts_with("shoal;hit")),
        "{}",
        lines[1]
    );
    assert_ne!(lines[0]["outcome"], lines[1]["outcome"]);
    assert_eq!(lines[2]["status"], 404);
}

/// The URL with its host, as where the request gets further: by the path alone nobody finds out
/// which site is missing.
#[test]
fn what_is_refused_is_logged_with_its_url() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin)
        .without_sites()
        .site(&format!("hosts = ['site.test']\nupstreams = [{{ url = '{}' }}]", origin.url()))
        .set_list("forward.deny_destinations", &["denied.test"])
        .set_list("admin.purge_from", &["192.0.2.1"])
        .start();
    let ask = |request: &Request, host: &str| shoal.connect().ask(request, host).status;
    assert_eq!(ask(&Request::get("/a?b"), "Other.test:8080"), 404);
    assert_eq!(ask(&Request::new("PURGE", "/a"), "site.test"), 403);
    assert_eq!(shoal.ask_forward(&Request::get("http://denied.test/a")).status, 403);
    let log = shoal.access_log(3).join("\n");
    for url in ["http://other.test:8080/a?b", "http://site.test/a", "http://denied.test/a"] {
        assert!(log.contains(&format!("\"url\":\"{url}\"")), "{url} is not in\n{log}");
    }
}

/// Any client can be refused as often as it likes, and none may fill the error log with that: each
/// setting has a line in a while.
#[test]
fn what_the_rules_refuse_is_no_error() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin).set_list("forward.allow_private_destinations", &[]).start();
    let closed = shoal_testkit::address::closed_port();
    for _ in 0..20 {
        shoal.ask_forward(&Request::get(&format!("http://{closed}/private"))).expect_status(403);
        shoal.ask_forward(&Request::new("CONNECT", "refused.test:25")).expect_status(403);
        shoal.ask_forward(&Request::new("HEAD", &format!("http://{closed}/head"))).expect_status(403);
        shoal.ask_forward(&Request::new("POST", &format!("http://{closed}/post"))).expect_status(403);
    }
    let log = shoal.log();
    for text in ["refused.test", &closed.to_string()] {
        let lines = log.lines().filter(|line| line.contains(text)).count();
        assert!(lines <= 2, "{text} is in {lines} lines of\n{log}");
        assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
    }
    shoal.expect_responses("denied", 80);
    // What fails for other reasons is.
    let site = format!("hosts = ['*']\nupstreams = [{{ url = 'http://{closed}' }}]");
    let shoal = Setup::to(&origin).without_sites().site(&site).start();
    shoal.get("/get").expect_status(502);
    shoal.ask(&Request::new("HEAD", "/head")).expect_status(502);
    let told = |text| shoal.log().contains(text);
    wait::until("both are told", || told("site.test/get") && told("site.test/head"));
}

/// Whatever became of it: an answer that came from an origin does not look as if nobody had been
/// asked.
#[test]
fn what_an_origin_was_asked_for_is_logged_with_the_origin() {
    let origin = Origin::start();
    origin.on("/fresh", Answer::fresh("body", 60));
    origin.on("/private", Answer::ok("body").field("Cache-Control", "private"));
    let stale = || Answer::ok("body").field("Cache-Control", "max-age=0").field("ETag", "\"v\"");
    origin.on_each(
        "/stale",
        [stale(), Answer::new(304).field("ETag", "\"v\"").field("Cache-Control", "max-age=0")],
    );
    let shoal = Setup::to(&origin).set("log.format", "squid").start();
    let asked = format!("HIER_DIRECT/{}", origin.address().ip());
    let requests = [
        ("TCP_MISS/200", Request::get("/fresh")),
        ("TCP_MISS/200", Request::get("/private")),
        ("TCP_MISS/200", Request::get("/fresh?q").field("Authorization", "Basic eDp5")),
        ("TCP_MISS/200", Request::new("HEAD", "/fresh?r")),
        ("TCP_MISS/200", Request::new("POST", "/fresh")),
        ("TCP_MISS/200", Request::get("/stale")),
        ("TCP_REFRESH_UNMODIFIED/200", Request::get("/stale")),
    ];
    for (count, (code, request)) in requests.iter().enumerate() {
        shoal.ask(request).expect_status(200);
        let log = shoal.access_log(count + 1);
        let fields: Vec<&str> = log[count].split_whitespace().collect();
        assert_eq!((fields[3], fields[8]), (*code, asked.as_str()), "{}", log[count]);
    }
}

#[test]
fn a_request_whose_client_leaves_before_the_answer_is_logged() {
    for (format, told) in [
        ("squid", "NONE_NONE_ABORTED/000 0 GET http://site.test/slow - HIER_NONE/- -"),
        ("combined", "\"GET http://site.test/slow HTTP/1.1\" 499 0 \"-\""),
        (
            "json",
            "\"status\":499,\"head_bytes\":0,\"body_bytes\":0,\"aborted\":true,\"outcome\":\"abandoned\"",
        ),
    ] {
        let origin = Origin::start();
        let gate = Gate::new();
        origin.on("/slow", Answer::ok("late").held_by(&gate));
        let shoal = Setup::to(&origin).set("log.format", format).start();
        let mut client = shoal.connect();
        client.send(Request::get("/slow").to_bytes("site.test"));
        wait::until("the origin is asked", || origin.count("/slow") == 1);
        drop(client);
        let log = shoal.access_log(1);
        assert!(log.len() == 1 && log[0].contains(told), "{log:?}");
        shoal.expect_responses("abandoned", 1);
        gate.open();
    }
}

#[test]
fn nothing_that_a_client_sends_breaks_a_log_line() {
    for format in ["squid", "combined", "json"] {
        let origin = Origin::start();
        origin.on("/*", Answer::ok("x"));
        let shoal = Setup::to(&origin).set("log.format", format).start();
        let request =
            Request::get("/%0a%22%5c").field("User-Agent", "a\\\"b\tc").field("Referer", "\u{e9}\"");
        shoal.ask(&request).expect_status(200);
        assert_eq!(shoal.access_log(1).len(), 1, "{format}");
    }
}

#[test]
fn metrics_are_prometheus_text() {
    let (_origin, shoal, _log) = traffic("json");
    let page = shoal.ask_admin(&Request::get("/metrics"));
    assert!(page.field("content-type").is_some_and(|kind| kind.starts_with("text/plain; version=0.0.4")));
    let text = page.expect_status(200).text();
    let (mut typed, mut finished, mut current) = (HashSet::new(), HashSet::new(), String::new());
    let mut series = HashSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a kind");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(typed.insert(name.to_string()), "{name} has two types");
            finished.insert(std::mem::replace(&mut current, name.into()));
        } else if !line.starts_with('#') && !line.is_empty() {
            let (name, value) = line.rsplit_once(' ').expect("a series and a value");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(series.insert(name.to_string()), "{name} stands twice");
            let family = name.split('{').next().unwrap_or_default();
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| family.strip_suffix(end).filter(|base| *base == current))
                .unwrap_or(family);
            assert_eq!(family, current, "rows of one family stand together under their TYPE: {line}");
            assert!(!finished.contains(family), "{line}");
            assert!(family.starts_with("shoal_") || family.starts_with("process_"), "{line}");
        }
    }
    shoal.expect_responses("memory_hit", 1);
    shoal.expect_responses("miss", 2);
    shoal.expect_metric("shoal_requests_total", "", 3);
}

/// Whether lines are logged or not: without them, nobody keeps a record of a hit in RAM.
#[test]
fn bytes_of_bodies_are_counted_by_what_the_cache_did() {
    let origin = Origin::start();
    let (small, lent, large) = (vec![b's'; 1000], vec![b'l'; 200_000], vec![b'd'; 400_000]);
    origin.on("/small", Answer::fresh(small.clone(), 60));
    origin.on("/lent", Answer::fresh(lent.clone(), 60));
    origin.on("/large", Answer::fresh(large.clone(), 60));
    origin.on("/private", Answer::ok("12345").field("Cache-Control", "private"));
    for access in [None, Some("none")] {
        let mut setup = Setup::to(&origin).set("cache.ram_object_max", "256 KiB");
        if let Some(access) = access {
            setup = setup.set("log.access", access);
        }
        let shoal = setup.start();
        for (path, body) in [("/small", &small), ("/lent", &lent), ("/large", &large)] {
            shoal.get(path).expect_body(body);
        }
        shoal.get("/private").expect_body("12345");
        wait::until("a hit on disk", || shoal.get("/large").expect_body(&large).hit());
        let from_disk = shoal.metric("shoal_responses_total", "result=\"hit\"");
        for (path, body) in [("/small", &small), ("/lent", &lent)] {
            shoal.get(path).expect_body(body).expect_hit();
            H2Connection::open(shoal.address("reverse"))
                .ask(&Request::get(path), "site.test")
                .expect_body(body);
        }
        shoal.ask(&Request::new("HEAD", "/lent")).expect_status(200);
        shoal.expect_responses("memory_hit", 5);
        let (name, disk) = ("shoal_response_body_bytes_total", from_disk * 400_000);
        shoal.expect_metric(name, "result=\"memory_hit\"", 2 * (1000 + 200_000));
        shoal.expect_metric(name, "result=\"hit\"", disk);
        shoal.expect_metric(name, "", 3 * (1000 + 200_000) + 400_000 + disk + 5);
        shoal.expect_metric("shoal_upstream_body_bytes_total", "", 601_005);
        let responses = &shoal.status()["responses"];
        assert_eq!(responses["hit_body_bytes"].as_u64(), Some(402_000 + disk), "{responses}");
        for (result, count) in [("hit", from_disk), ("miss", 4), ("pass", 0), ("collapsed", 0)] {
            let result = format!("result=\"{result}\"");
            shoal.expect_metric("shoal_response_duration_seconds_count", &result, count);
        }
        assert!(
            !shoal.ask_admin(&Request::get("/metrics")).text().contains("seconds_count{result=\"memory_hit")
        );
    }
}

#[test]
fn status_says_what_it_is_and_holds() {
    let (_origin, shoal, _log) = traffic("json");
    let status = shoal.status();
    assert_eq!((status["name"].as_str(), status["readiness"].as_str()), (Some("shoal"), Some("ready")));
    assert_eq!(status["ram"]["bytes_max"].as_u64(), Some(16 << 20));
    assert!(status["ram"]["objects"].as_u64() >= Some(1), "{status}");
    let responses = &status["responses"];
    assert_eq!((responses["all"].as_u64(), responses["hits"].as_u64()), (Some(3), Some(1)), "{responses}");
    assert_eq!(status["store"]["architecture"], "volume");
    assert_eq!(status["addresses"].as_array().map(Vec::len), Some(2));
}

#[test]
fn the_admin_routes_are_not_on_the_clients_listeners() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("of the site"));
    let shoal = Setup::to(&origin).start();
    for path in ["/metrics", "/status", "/healthz"] {
        shoal.get(path).expect_body("of the site");
    }
}

#[test]
fn the_error_log_can_be_json() {
    let origin = Origin::start();
    origin.on("/broken", Answer::raw(""));
    let shoal = Setup::to(&origin).set("log.json", true).start();
    shoal.get("/broken").expect_status(502);
    let events =
        || shoal.log().lines().filter(|line| line.starts_with('{')).map(str::to_string).collect::<Vec<_>>();
    wait::until("the error is logged", || !events().is_empty());
    for line in events() {
        let event: serde_json::Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(event["level"].is_string() && event["timestamp"].is_string(), "{line}");
    }
}

#[test]
fn lines_about_a_changed_volume_name_its_disk() {
    let origin = Origin::start();
    let mut shoal = Setup::to(&origin).disks(&[("one", "64 MiB"), ("two", "64 MiB")]).start();
    shoal.change(|text| text.replacen("64 MiB", "128 MiB", 1));
    shoal.restart();
    let line = || shoal.log().lines().find(|line| line.contains("has changed its size")).map(str::to_owned);
    wait::until("it is told", || line().is_some());
    let name = shoal.folder().join("one").display().to_string();
    assert!(line().is_some_and(|line| line.contains(&name)), "{:?}", line());
}
