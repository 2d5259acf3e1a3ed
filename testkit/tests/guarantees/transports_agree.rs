//! However a request arrives, the answer is the same up to the clock: on the short way and the
//! ordinary way of HTTP/1, over TLS, over HTTP/2, and over HTTP/3. The requests are made of a seed: methods,
//! conditions, ranges, directives.

use shoal_testkit::certificates::Authority;
use shoal_testkit::h2::H2Connection;
use shoal_testkit::h3::H3Connection;
use shoal_testkit::seeded::{Random, body};
use shoal_testkit::{Answer, Connection, Origin, Request, Response, Setup};

/// A token that changes nothing, but makes the request one that is not plain. HTTP/2 has no such
/// field.
const ORDINARY: (&str, &str) = ("Connection", "keep-alive, x-nothing");

const DATE: &str = "Mon, 01 Jan 2024 00:00:00 GMT";

const PATHS: [&str; 6] = ["/small", "/large", "/empty", "/gone", "/tagged", "/varied"];

/// Of what the answer to `/varied` differs by.
const ENCODINGS: [&str; 3] = ["gzip", "br, identity;q=0", "GZIP;q=1.0 , br;q=0.50,br;q=0.5"];

fn fill(origin: &Origin) {
    origin.on("/small", Answer::fresh("body", 6000).field("ETag", "\"s\"").field("Last-Modified", DATE));
    origin.on("/large", Answer::fresh(body("large", 200_000), 6000).field("ETag", "\"l\"").field("X-A", "1"));
    origin.on("/empty", Answer::fresh("", 6000).field("ETag", "W/\"e\""));
    origin.on("/gone", Answer { status: 404, ..Answer::fresh("gone", 6000) });
    let varied = Answer::fresh("varied", 6000).field("ETag", "\"s\"");
    origin.on("/varied", varied.field("Vary", "User-Agent, Accept-Encoding, X-Nobody"));
    origin.on(
        "/tagged",
        Answer::fresh("x".repeat(5000), 6000).field("Content-Type", "text/plain").field("X-A", "2"),
    );
}

/// Requests for everything that is stored, each variant among it.
fn stored() -> Vec<Request> {
    let mut requests: Vec<Request> = PATHS.iter().map(|path| Request::get(path)).collect();
    for agent in [None, Some("tester/1"), Some("")] {
        for encodings in [None].into_iter().chain(ENCODINGS.map(Some)) {
            let varied = Request::get("/varied");
            let varied = agent.iter().fold(varied, |varied, agent| varied.field("User-Agent", agent));
            requests
                .push(encodings.iter().fold(varied, |varied, value| varied.field("Accept-Encoding", value)));
        }
    }
    requests
}

/// One of many requests that a stored response answers.
fn made(random: &mut Random) -> Request {
    let mut choose = |from: &[&'static str]| from[random.below(from.len() as u64) as usize];
    let path = choose(&PATHS);
    let mut request = Request::new(choose(&["GET", "GET", "GET", "HEAD"]), path);
    let fields: [(&str, &[&'static str]); 7] = [
        ("If-None-Match", &["\"s\"", "\"l\"", "W/\"e\"", "*", "\"none\"", "\"a\", \"s\""]),
        ("If-Modified-Since", &[DATE, "Mon, 01 Jan 2023 00:00:00 GMT", "nonsense"]),
        (
            "Range",
            &[
                "bytes=0-0",
                "bytes=-2",
                "bytes=1-",
                "bytes=0-1,3-3",
                "bytes=999999-",
                "bytes=2-1",
                "lines=1-2",
            ],
        ),
        ("If-Range", &["\"s\"", "\"l\"", "W/\"e\"", DATE]),
        ("Cache-Control", &["max-stale", "max-age=5000", "min-fresh=1", "only-if-cached"]),
        ("Accept-Encoding", &ENCODINGS),
        ("User-Agent", &["tester/1", ""]),
    ];
    for (name, values) in fields {
        let rare = ["", "", "yes"];
        if !choose(&rare).is_empty() {
            request = request.field(name, choose(values));
        }
    }
    request
}

/// Whether it is answered where its connection waits: such as most clients ask, for what the kernel
/// takes at once.
fn is_plain(request: &Request) -> bool {
    let names = ["Accept-Encoding", "User-Agent", "If-None-Match", "If-Modified-Since", "Range"];
    let ranges = ["bytes=0-0", "bytes=-2", "bytes=1-"];
    let is_plain = |name: &str, value: &str| {
        names.contains(&name) && (name != "Range" || ranges.contains(&value) || request.method == "HEAD")
    };
    let fields = &request.fields.0;
    let is_part = fields.iter().any(|(name, _)| name == "Range");
    let is_small = match &*request.target {
        "/large" => request.method == "HEAD",
        "/empty" => request.method == "HEAD" || !is_part,
        _ => true,
    };
    is_small && fields.iter().all(|(name, value)| is_plain(name, value))
}

/// All of an answer but what the clock decides, and what only HTTP/1 says. The clock also chooses
/// what parts several ranges.
fn picture(response: &Response) -> (u16, Vec<(String, String)>, String) {
    let lines = response.fields.lines();
    let kind = response.fields.joined("content-type");
    let boundary = kind.split_once("boundary=").map(|(_, boundary)| boundary.to_owned());
    let fixed = |text: String| match &boundary {
        Some(boundary) => text.replace(boundary, "BOUNDARY"),
        None => text,
    };
    let mut fields: Vec<(String, String)> = lines
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .filter(|(name, _)| name != "connection")
        .map(|(name, value)| match &*name {
            "age" | "date" => (name, String::new()),
            "cache-status" => (name, value.split(";ttl=").next().unwrap_or_default().to_owned()),
            _ => (name, fixed(value)),
        })
        .collect();
    fields.sort();
    (response.status, fields, fixed(String::from_utf8_lossy(&response.body).into_owned()))
}

#[test]
fn stored_responses_are_alike_over_every_transport() {
    let origin = Origin::start();
    fill(&origin);
    let authority = Authority::new();
    let setup = Setup::to(&origin);
    authority.issue(&["a.test"]).write(setup.folder(), "a.test");
    let file = |name: &str| setup.folder().join(name).to_string_lossy().into_owned();
    let pair = format!("{{ certificate = '{}', key = '{}' }}", file("a.test.pem"), file("a.test.key"));
    let listen = format!("mode = 'reverse'\ntls = [{pair}]");
    let shoal = setup.listen("tls", &listen).listen("h3", &format!("{listen}\nhttp3 = true")).start();
    let mut plain = shoal.connect();
    let tls_address = shoal.address("tls");
    // It asks nothing but what a connection is served where it waits.
    let mut waiting = shoal.connect();
    let mut tls = Connection::open_tls(tls_address, "a.test", authority.client(&["http/1.1"]));
    let mut h2 = H2Connection::open(shoal.address("reverse"));
    let mut h2_tls = H2Connection::open_tls(tls_address, "a.test", authority.client(&["h2"]));
    let mut h3 = H3Connection::open(shoal.address("h3"), "a.test", &authority.client(&[]));
    for request in stored() {
        // http and https are kept apart
        plain.ask(&request, "a.test");
        tls.ask(&request, "a.test");
    }
    let asked = origin.total();
    let mut random = Random::new(11);
    let mut statuses = std::collections::BTreeSet::new();
    let mut plain_asked = 0;
    for _ in 0..400 {
        let request = made(&mut random);
        let first = plain.ask(&request, "a.test");
        statuses.insert(first.status);
        let exact = plain.ask_exactly(&request, "a.test");
        let mut exact_others = vec![
            ("the ordinary way", plain.ask_exactly(&request.clone().field(ORDINARY.0, ORDINARY.1), "a.test")),
            ("TLS", tls.ask_exactly(&request, "a.test")),
        ];
        if is_plain(&request) {
            exact_others.push(("who waits", waiting.ask_exactly(&request, "a.test")));
            assert_eq!(shoal.waiting(), 1, "{request:?}");
            plain_asked += 1;
        }
        for (way, other) in exact_others {
            other.expect_like(exact.clone(), &format!("{way}: {request:?}"));
        }
        let others = [
            ("HTTP/2", h2.ask(&request, "a.test")),
            ("HTTP/2 over TLS", h2_tls.ask(&request, "a.test")),
            ("HTTP/3", h3.ask(&request, "a.test")),
        ];
        for (way, other) in others {
            assert_eq!(picture(&other), picture(&first), "{way}: {request:?}");
        }
    }
    assert_eq!(origin.total(), asked, "only what is stored was asked for");
    assert!(plain_asked > 10, "{plain_asked} are plain");
    assert!([200, 206, 304, 404, 416].iter().all(|status| statuses.contains(status)), "{statuses:?}");
}
