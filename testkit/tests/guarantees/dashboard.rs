//! The dashboard's documents, live events and history count the requests made, for users of the
//! right role.

use rustix::process::Signal;
use serde_json::Value;
use shoal_testkit::{Answer, Connection, Origin, Request, Response, Setup, Shoal, wait};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn ask(shoal: &Shoal, target: &str) -> Response {
    shoal.ask_admin(&Request::get(target))
}

fn document(shoal: &Shoal, target: &str) -> Value {
    let response = ask(shoal, target);
    let response = response.expect_status(200);
    assert!(response.body.len() <= DOCUMENT_BYTES_MAX, "{target}: {} bytes", response.body.len());
    serde_json::from_slice(&response.body).unwrap_or_else(|error| panic!("{target}: {error}"))
}

/// Waits until a document is as wanted, and returns it.
fn wanted(shoal: &Shoal, target: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    wait::until(target, || is_wanted(&document(shoal, target)));
    document(shoal, target)
}

fn row<'v>(rows: &'v Value, name: &str, value: &str) -> &'v Value {
    let rows = rows.as_array().expect("rows");
    rows.iter().find(|row| row[name] == value).unwrap_or_else(|| panic!("no {value} in {rows:?}"))
}

/// Opens live events of a page, as a browser does.
fn live(shoal: &Shoal, query: &str) -> TcpStream {
    let mut stream = TcpStream::connect(shoal.admin()).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    let head =
        format!("GET /ui/live?{query} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    stream
}

/// Reads until `wanted` has come. Returns everything until then.
fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let (mut text, mut buffer) = (Vec::new(), [0; 16 << 10]);
    loop {
        let read = stream.read(&mut buffer).expect("more of the events");
        assert!(read > 0, "the events ended without {wanted:?}: {}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&buffer[..read]);
        if String::from_utf8_lossy(&text).contains(wanted) {
            return String::from_utf8_lossy(&text).into_owned();
        }
    }
}

#[test]
fn documents_count_the_requests_made() {
    let origin = Origin::start();
    origin.on("/fresh", Answer::fresh("12345", 60));
    origin.on("/cookie", Answer::fresh("cookie", 60).field("Set-Cookie", "a=b"));
    let shoal = Setup::to(&origin).start();
    let mut connection = shoal.connect();
    connection.ask(&Request::get("/fresh"), "a.test").expect_status(200);
    for _ in 0..130 {
        connection.ask(&Request::get("/fresh"), "a.test").expect_hit();
    }
    for _ in 0..3 {
        shoal.get("/cookie").expect_status(200);
    }
    let now = wanted(&shoal, "/ui/data/now", |now| now["requests"] == 134);
    let answers = &now["answers"];
    assert_eq!(row(answers, "source", "ram")["requests"], 130, "{answers}");
    assert_eq!(row(answers, "source", "origin")["requests"], 4, "{answers}");
    assert_eq!((&now["state"], &now["may_change"]), (&"ready".into(), &true.into()), "{now}");
    assert_eq!(row(&now["sites"], "name", "*/")["requests"], 134);
    assert!(now["limits"]["rss"].as_u64() > Some(1 << 20) && now["limits"]["ram_limit"].as_u64() > Some(0));
    let edges = now["heat"]["edges_us"].as_array().expect("edges").len();
    let column = &now["heat"]["sources"]["origin"][0];
    assert_eq!(column.as_array().map(Vec::len), Some(edges + 1), "{}", now["heat"]);

    let reasons = document(&shoal, "/ui/data/reasons");
    let cookie = row(&reasons["not_stored"], "reason", "set-cookie");
    assert_eq!((&cookie["requests"], &cookie["bytes"]), (&3.into(), &18.into()), "{reasons}");
    assert!(cookie["samples"][0].as_str().is_some_and(|url| url.ends_with("/cookie")), "{cookie}");
    assert!(!cookie["rule"].as_str().unwrap_or_default().is_empty(), "{cookie}");
    assert_eq!(row(&reasons["misses"], "reason", "uri-miss")["requests"], 1, "{reasons}");

    let objects = document(&shoal, "/ui/data/objects?q=/fresh");
    let fresh = &objects["objects"][0];
    assert_eq!((&fresh["requests"], &fresh["size"]), (&(1 + 3 * 64).into(), &5.into()), "{objects}");
    assert_eq!(fresh["in"], "ram", "{objects}");
    let costly = document(&shoal, "/ui/data/objects?by=cost");
    assert_eq!(costly["objects"].as_array().map(Vec::len), Some(2), "{costly}");

    let origins = document(&shoal, "/ui/data/origins");
    let member = &origins["origins"][0];
    assert_eq!((&member["requests"], &member["state"]), (&4.into(), &"up".into()), "{origins}");
    assert!(member["p99_us"].as_u64() > Some(0), "{origins}");
    let disk = document(&shoal, "/ui/data/disk");
    assert_eq!((&disk["architecture"], &disk["disks"][0]["in_service"]), (&"volume".into(), &true.into()));
    assert_eq!(disk["popularity"].as_object().map(|all| all.len()), Some(1), "{disk}");
    assert!(disk["admission"]["offered"].as_u64() >= Some(1), "{disk}");
    let size = wanted(&shoal, "/ui/data/size", |size| size["requests"] == 134);
    assert!(
        size["sampled_keys"].as_u64() >= Some(1) && size["curve"].as_array().is_some_and(|it| it.len() > 10)
    );
    assert_eq!(document(&shoal, "/ui/data/cluster")["enabled"], false);
    let history = document(&shoal, "/ui/history?seconds=600&points=60");
    assert_eq!(history["series"]["requests"].as_array().map(Vec::len), Some(60), "{history}");
}

#[test]
fn live_events_come_and_end_with_the_node() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("12345", 60));
    let shoal = Setup::to(&origin).start();
    let (mut now, mut log) = (live(&shoal, "page=now"), live(&shoal, "page=log&url=/wanted"));
    let head = read_until(&mut now, "event: now\ndata: {");
    assert!(head.to_lowercase().contains("content-type: text/event-stream"), "{head}");
    read_until(&mut now, "event: now\ndata: {");
    read_until(&mut log, "event: tick");
    shoal.get("/unwanted").expect_status(200);
    shoal.get("/wanted%1B?x").expect_status(200);
    let line = read_until(&mut log, "event: line\ndata: {");
    assert!(!line.contains("/unwanted"), "{line}");
    shoal.expect_metric("shoal_dashboard_viewers", "", 2);
    drop(now);
    shoal.expect_metric("shoal_dashboard_viewers", "", 1);
    shoal.signal(Signal::TERM);
    read_until(&mut log, "event: ended");
}

#[test]
fn viewer_that_reads_nothing_is_dropped() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin).start();
    // The window of the socket takes some documents; beyond it the queue fills.
    let idle: Vec<TcpStream> = (0..4).map(|_| live(&shoal, "page=now")).collect();
    shoal.expect_metric("shoal_dashboard_viewers", "", 4);
    for stream in &idle {
        assert!(stream.peek(&mut [0; 16]).is_ok_and(|read| read > 0), "the first event came");
    }
    let is_dropped = || shoal.metric("shoal_dashboard_viewers_dropped_total", "") > 0;
    let has_left = || shoal.metric("shoal_dashboard_viewers", "") == 0;
    // On loopback megabytes fit into the socket; closing the far end must free the places at least.
    drop(idle);
    assert!(wait::within(wait::LIMIT, || has_left() || is_dropped()), "places are given back");
}

#[test]
fn hostile_urls_are_shown_harmless() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("x", 60).field("Set-Cookie", "a=b"));
    let shoal = Setup::to(&origin).set("client.target_max", 16_384).start();
    let mut log = live(&shoal, "page=log");
    read_until(&mut log, "event: tick");
    for number in 0..150 {
        let text = format!("/{number}/%3Cscript%3E/'<b>{}", "%E2%80%AE%F0%9F%90%9F".repeat(300));
        shoal.get(&text);
        // Bytes beyond ASCII may be refused; nobody may obey them.
        shoal.get(&format!("/{number}/\u{202e}\u{9b}{}", "\u{feff}".repeat(300)));
    }
    let lines = read_until(&mut log, "event: skipped");
    for page in ["now", "reasons", "objects", "log", "origins"] {
        let text = document(&shoal, &format!("/ui/data/{page}")).to_string();
        for character in ['\u{202e}', '\u{9b}', '\u{feff}', '\u{7}'] {
            assert!(!shows(&text, character) && !lines.contains(character), "{page} shows {character:?}");
        }
    }
    for target in
        ["/ui/data/nowhere", "/ui/data/now?what=1", "/ui/history?seconds=0", "/ui/x", "/ui/data/objects?by=x"]
    {
        assert!([400, 404].contains(&ask(&shoal, target).status), "{target}");
    }
    let post = shoal.ask_admin(&Request::new("POST", "/ui/data/now").body(b"{}"));
    post.expect_status(405);
}

/// Returns `true` if a text that is shown has this character. `key_url` is sent on, never shown.
fn shows(text: &str, character: char) -> bool {
    let mut document: Value = serde_json::from_str(text).expect("JSON");
    if let Some(objects) = document["objects"].as_array_mut() {
        objects.iter_mut().for_each(|object| object["key_url"] = Value::Null);
    }
    document.to_string().contains(character)
}

#[test]
fn ten_thousand_sites_have_bounded_documents() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("x", 60));
    let mut setup = Setup::to(&origin).without_sites();
    for number in 0..10_000 {
        setup =
            setup.site(&format!("hosts = ['{number}.test']\nupstreams = [{{ url = '{}' }}]", origin.url()));
    }
    let shoal = setup.start();
    let mut connection = shoal.connect();
    for number in 0..300 {
        connection.ask(&Request::get("/"), &format!("{number}.test")).expect_status(200);
    }
    let now = wanted(&shoal, "/ui/data/now", |now| now["requests"] == 300);
    assert_eq!(now["sites"].as_array().map(Vec::len), Some(100), "at most a hundred rows");
    assert_eq!((&now["sites_others"], &now["sites"][0]["name"]), (&9900.into(), &"other".into()));
    let origins = document(&shoal, "/ui/data/origins");
    assert_eq!(origins["origins"].as_array().map(Vec::len), Some(100));
    assert_eq!(origins["others"], 9900);
    let one = document(&shoal, "/ui/data/now?site=7.test/");
    assert_eq!(one["requests"], 1, "{one}");
}

#[test]
fn roles_and_foreign_pages_are_told_apart() {
    let origin = Origin::start();
    let setup = Setup::to(&origin);
    let users = |name: &str| {
        let file = setup.folder().join(name);
        std::fs::write(&file, format!("{name}-secret\n")).expect("written");
        let path = file.to_string_lossy().into_owned();
        let role = if name == "ann" { "look" } else { "change" };
        toml::Table::from_iter([
            ("name".to_owned(), name.into()),
            ("password_file".to_owned(), path.into()),
            ("role".to_owned(), role.into()),
        ])
    };
    let all = vec![toml::Value::Table(users("ann")), toml::Value::Table(users("bob"))];
    // `/healthz`, by which the start is awaited, needs no user.
    let shoal = setup.set("admin.users", all).start();
    let status = |request: Request, user: Option<&str>| {
        let request = match user {
            Some(user) => request.field("Authorization", &format!("Basic {}", base64(user))),
            None => request,
        };
        Connection::open(shoal.admin()).ask(&request, "localhost").status
    };
    let (ann, bob) = (Some("ann:ann-secret"), Some("bob:bob-secret"));
    let purge = || Request::new("POST", "/purge?all").field("Content-Type", "application/json");
    for target in ["/ui/", "/ui/data/now", "/status", "/metrics"] {
        assert_eq!(status(Request::get(target), None), 401, "{target}");
        assert_eq!(status(Request::get(target), ann), 200, "{target}");
    }
    assert_eq!(status(Request::get("/healthz"), None), 200);
    assert_eq!(status(Request::get("/status"), Some("ann:bob-secret")), 401);
    assert_eq!((status(purge(), ann), status(purge(), bob), status(purge(), None)), (403, 200, 401));
    for (name, value) in [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
        ("Origin", "http://evil.example"),
        ("Origin", "null"),
    ] {
        assert_eq!(status(purge().field(name, value), bob), 403, "{name}: {value}");
    }
    let form = Request::new("POST", "/purge?all").field("Origin", "http://localhost");
    assert_eq!(status(form.field("Content-Type", "text/plain"), bob), 403, "a form");
    assert_eq!(status(purge().field("Origin", "http://localhost"), bob), 200, "our own page");
    let page = Request::get("/ui/").field("Accept-Encoding", "gzip");
    let request = page.field("Authorization", &format!("Basic {}", base64("ann:ann-secret")));
    let response = Connection::open(shoal.admin()).ask(&request, "localhost");
    assert_eq!(response.field("X-Content-Type-Options"), Some("nosniff"));
    assert!(
        response.field("Content-Security-Policy").is_some_and(|policy| policy.contains("default-src 'none'"))
    );
    let tag = response.field("ETag").expect("a validator").to_owned();
    let again = Connection::open(shoal.admin()).ask(&request.field("If-None-Match", &tag), "localhost");
    again.expect_status(304);
}

#[test]
fn history_goes_on_after_a_restart() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("x", 60));
    let mut shoal = Setup::to(&origin).start();
    for _ in 0..20 {
        shoal.get("/a").expect_status(200);
    }
    let sum = |document: &Value| -> f64 {
        let values = document["series"]["requests"].as_array().expect("values");
        values.iter().filter_map(Value::as_f64).sum::<f64>() * document["step_s"].as_f64().expect("a step")
    };
    // A step of two seconds may have one sample, and its rate then stands for both.
    let before = wanted(&shoal, "/ui/history?seconds=60", |history| sum(history) > 15.0);
    assert!(sum(&before) < 45.0, "{before}");
    shoal.signal(Signal::TERM);
    shoal.wait_for_exit(Duration::from_secs(20)).expect("an orderly end");
    shoal.restart();
    let kept = shoal.store().join("dashboard");
    assert!(kept.exists());
    let after = document(&shoal, "/ui/history?seconds=120");
    assert!(sum(&after) > 15.0, "{after}");
    shoal.kill();
    std::fs::write(&kept, b"SHOALHI1 and doubtful bytes").expect("written");
    shoal.restart();
    assert_eq!(sum(&document(&shoal, "/ui/history?seconds=120")), 0.0, "doubtful bytes are dropped");
}

fn base64(text: &str) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let sextets = |piece: &[u8]| {
        let word = piece.iter().chain([&0; 3]).take(3).fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        let digit = |at: u32| char::from(ALPHABET[(word >> (18 - 6 * at)) as usize & 63]);
        let digits: String = (0..=piece.len() as u32).map(digit).collect();
        format!("{digits:=<4}")
    };
    text.as_bytes().chunks(3).map(sextets).collect()
}

/// Most bytes of a document.
const DOCUMENT_BYTES_MAX: usize = 256 << 10;
