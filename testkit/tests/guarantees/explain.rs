//! `shoal explain` tells the truth: its claim about a request is compared with the Cache-Status of
//! the real request that follows. The claim itself changes and counts nothing.

use serde_json::{Value, json};
use shoal_testkit::certificates::Authority;
use shoal_testkit::shoal::binary;
use shoal_testkit::{Answer, Origin, Request, Response, Setup, Shoal, wait};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// A request, and the answer that its origin gives.
#[derive(Clone, Default)]
struct Case {
    path: &'static str,
    method: Option<&'static str>,
    request: &'static [(&'static str, &'static str)],
    status: u16,
    answer: &'static [(&'static str, &'static str)],
}

impl Case {
    fn new(path: &'static str, answer: &'static [(&'static str, &'static str)]) -> Self {
        Self { path, status: 200, answer, ..Self::default() }
    }

    fn with(self, request: &'static [(&'static str, &'static str)]) -> Self {
        Self { request, ..self }
    }

    fn answer(&self) -> Answer {
        let answer = Answer::new(self.status).piece("body");
        self.answer.iter().fold(answer, |answer, (name, value)| answer.field(name, value))
    }
}

pub fn explain(shoal: &Shoal, request: Value) -> Value {
    let body = request.to_string();
    let counted = settled_counters(shoal);
    let answer = shoal.ask_admin(&Request::new("POST", "/explain").body(body.as_bytes()));
    let claim = serde_json::from_slice(&answer.expect_status(200).body).expect("JSON");
    let after = counters(shoal);
    let changed: Vec<_> = counted.iter().zip(&after).filter(|(before, after)| before != after).collect();
    assert!(changed.is_empty() && counted.len() == after.len(), "{body} is counted: {changed:?}");
    claim
}

/// The counters once all requests before have been counted, and fetches in the background are over.
fn settled_counters(shoal: &Shoal) -> Vec<String> {
    let sum = |rows: &[String], name: &str| {
        let of_name = rows.iter().filter(|row| row.split(['{', ' ']).next() == Some(name));
        of_name.filter_map(|row| row.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>()
    };
    let mut last = Vec::new();
    wait::until("counters come to rest", || {
        let before = std::mem::replace(&mut last, counters(shoal));
        sleep(Duration::from_millis(10));
        sum(&last, "shoal_responses_total") >= sum(&last, "shoal_requests_total") && before == last
    });
    last
}

/// Rows of the metrics that only requests and stored objects change.
fn counters(shoal: &Shoal) -> Vec<String> {
    let page = shoal.ask_admin(&Request::get("/metrics")).text();
    let is_counter = |line: &&str| {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        // Writes to the disk go on in the background.
        name == "shoal_ram_objects" || name.ends_with("_total") && !name.starts_with("process_")
    };
    page.lines().filter(is_counter).map(str::to_owned).collect()
}

/// Explains a case, makes it happen, and compares. Returns the claim.
fn check(shoal: &Shoal, case: &Case) -> Value {
    let claim = explain(
        shoal,
        json!({
            "url": format!("http://site.test{}", case.path),
            "method": case.method.unwrap_or("GET"),
            "mode": "reverse",
            "fields": case.request,
            "response": { "status": case.status, "fields": case.answer },
        }),
    );
    let request = Request::new(case.method.unwrap_or("GET"), case.path);
    let request = case.request.iter().fold(request, |request, (name, value)| request.field(name, value));
    compare(case.path, &claim, &shoal.ask(&request));
    claim
}

fn compare(what: &str, claim: &Value, real: &Response) {
    let member = real.cache();
    let shown = format!("{what}: {claim:#}\n{member:?}");
    if let Some(refusal) = claim["refusal"].as_object() {
        assert_eq!(refusal["status"], real.status, "{shown}");
        assert_eq!(refusal["detail"].as_str(), member.word("detail").as_deref(), "{shown}");
        if let Some(location) = refusal["location"].as_str() {
            assert_eq!(Some(location), real.field("location"), "{shown}");
        }
        return;
    }
    let (reuse, storing) = (&claim["reuse"], &claim["storing"]);
    assert_eq!(reuse["hit"], member.is("hit"), "{shown}");
    assert_eq!(reuse["fwd"].as_str(), member.word("fwd").as_deref(), "{shown}");
    let near = |claimed: &Value| {
        let (claimed, real) = (claimed.as_i64().expect("a number"), member.number("ttl").unwrap_or(i64::MIN));
        assert!((claimed - 2..=claimed + 2).contains(&real), "{claimed} is not about {real}: {shown}");
    };
    if member.is("hit") {
        assert_eq!(reuse["detail"].as_str(), member.word("detail").as_deref(), "{shown}");
        return near(&claim["stored"]["ttl_seconds"]);
    }
    if storing.is_null() {
        return assert!(!member.is("stored"), "{shown}");
    }
    assert_eq!(storing["stored"], member.is("stored"), "{shown}");
    let detail = reuse["detail"].as_str().or(storing["detail"].as_str());
    assert_eq!(detail, member.word("detail").as_deref(), "{shown}");
    if member.is("stored") {
        near(&storing["ttl_seconds"]);
    }
}

const FRESH: &[(&str, &str)] = &[("Cache-Control", "max-age=60")];

#[test]
fn claims_hold_for_origins_of_all_kinds() {
    let origin = Origin::start();
    let modified = &[("Last-Modified", "Sat, 29 Oct 1994 19:43:31 GMT")];
    let cases = [
        Case::new("/fresh", FRESH),
        Case::new("/shared", &[("Cache-Control", "max-age=5, s-maxage=50")]),
        Case::new("/targeted", &[("Cache-Control", "no-store"), ("CDN-Cache-Control", "max-age=40")]),
        Case::new("/expired", &[("Expires", "0"), ("ETag", "\"a\"")]),
        Case::new("/aged", &[("Cache-Control", "max-age=60"), ("Age", "20")]),
        Case::new("/aged-out", &[("Cache-Control", "max-age=60"), ("Age", "90"), ("ETag", "\"a\"")]),
        Case::new("/guessed", modified),
        Case::new("/guessed?q", modified),
        Case::new("/silent", &[]),
        Case::new("/no-store", &[("Cache-Control", "no-store")]),
        Case::new("/private", &[("Cache-Control", "private, max-age=60")]),
        Case::new("/no-cache", &[("Cache-Control", "no-cache"), ("ETag", "\"a\"")]),
        Case::new("/cookie", &[("Cache-Control", "max-age=60"), ("Set-Cookie", "a=b")]),
        Case::new("/vary-any", &[("Cache-Control", "max-age=60"), ("Vary", "*")]),
        Case::new("/login", FRESH).with(&[("Authorization", "Basic YTpi")]),
        Case::new("/shared-login", &[("Cache-Control", "public, max-age=60")])
            .with(&[("Authorization", "Basic YTpi")]),
        Case::new("/secret", FRESH).with(&[("Cache-Control", "no-store")]),
        Case::new("/reload", FRESH).with(&[("Cache-Control", "no-cache")]),
        Case::new("/absent", FRESH).with(&[("Cache-Control", "only-if-cached")]),
        Case::new("/guarded", FRESH).with(&[("If-Match", "\"a\"")]),
        Case { status: 404, ..Case::new("/missing", &[]) },
        Case { status: 500, ..Case::new("/broken", &[]) },
        Case { status: 302, ..Case::new("/moved", &[("Location", "/"), ("Cache-Control", "max-age=60")]) },
        Case { method: Some("HEAD"), ..Case::new("/head", FRESH) },
        Case { method: Some("POST"), ..Case::new("/post", FRESH) },
    ];
    for case in &cases {
        origin.on(case.path.split('?').next().expect("a path"), case.answer());
    }
    let shoal = Setup::to(&origin).start();
    for case in &cases {
        for _ in 0..2 {
            check(&shoal, case);
        }
    }
}

#[test]
fn claims_hold_for_variants() {
    let origin = Origin::start();
    let case = Case::new("/v", &[("Cache-Control", "max-age=60"), ("Vary", "Accept-Encoding")]);
    origin.on("/v", case.answer());
    let shoal = Setup::to(&origin).start();
    let (gzip, br) =
        (case.clone().with(&[("Accept-Encoding", "gzip")]), case.with(&[("Accept-Encoding", "br")]));
    assert_eq!(check(&shoal, &gzip)["reuse"]["fwd"], "uri-miss");
    let claim = check(&shoal, &br);
    assert_eq!((&claim["reuse"]["fwd"], &claim["notes"]), (&json!("vary-miss"), &json!([])));
    let lacking = explain(&shoal, json!({ "url": "http://site.test/v" }));
    assert!(lacking["notes"][0].as_str().is_some_and(|it| it.contains("accept-encoding")), "{lacking:#}");
    let claim = check(&shoal, &gzip);
    assert_eq!(
        (&claim["reuse"]["hit"], &claim["stored"]["varies_by"]),
        (&json!(true), &json!([["accept-encoding"]]))
    );
}

#[test]
fn claims_hold_for_stale_responses() {
    let origin = Origin::start();
    let stale = Case::new("/stale", &[("Cache-Control", "max-age=1"), ("ETag", "\"a\"")]);
    let window = Case::new("/window", &[("Cache-Control", "max-age=1, stale-while-revalidate=60")]);
    let accepted = stale.clone().with(&[("Cache-Control", "max-stale=60")]);
    for case in [&stale, &window] {
        origin.on(case.path, case.answer());
    }
    let shoal = Setup::to(&origin).start();
    for case in [&stale, &window] {
        check(&shoal, case);
    }
    sleep(Duration::from_millis(2100));
    assert_eq!(check(&shoal, &accepted)["reuse"]["hit"], true);
    assert_eq!(check(&shoal, &stale)["reuse"]["fwd"], "stale");
    let claim = check(&shoal, &window);
    assert_eq!(
        (&claim["reuse"]["hit"], &claim["stored"]["stale_while_revalidate_seconds"]),
        (&json!(true), &json!(60))
    );
}

#[test]
fn claims_hold_after_a_restart() {
    for architecture in ["volume", "squid"] {
        let origin = Origin::start();
        let case = Case::new("/a", FRESH);
        origin.on("/a", case.answer());
        let mut shoal = Setup::to(&origin).set("store.architecture", architecture).start();
        check(&shoal, &case);
        shoal.restart();
        for _ in 0..2 {
            let claim = explain(&shoal, json!({ "url": "http://site.test/a", "mode": "reverse" }));
            assert_eq!(
                (&claim["stored"]["tier"], &claim["reuse"]["hit"]),
                (&json!("disk"), &json!(true)),
                "{claim:#}"
            );
        }
        assert_eq!(check(&shoal, &case)["stored"]["tier"], "disk", "{architecture}");
        assert_eq!(check(&shoal, &case)["stored"]["tier"], "ram", "{architecture}");
        assert_eq!(origin.count("/a"), 1);
    }
}

const RULES: &str = "
[[rule]]
name = 'first'
paths = ['/ruled/*']
lifetime_default = '10m'
query_drop = ['utm_*']
[[rule]]
paths = ['/ruled/two*']
lifetime_default = '20m'
[[rule]]
paths = ['/ruled/most']
lifetime_max = '5s'
[[rule]]
paths = ['/ruled/never']
store = false
[[rule]]
paths = ['/denied*']
deny = 404
[[rule]]
paths = ['/office*']
allow_clients = ['192.0.2.0/24']
[[rule]]
paths = ['/old']
redirect = 'https://$host/new'
redirect_status = 301
";

fn ruled(origin: &Origin) -> Setup {
    let setup = Setup::to(origin);
    let users = setup.file("users", "a:b\n");
    let guards = format!(
        "[[rule]]\npaths = ['/user']\nusers_file = '{}'\n\
         [[rule]]\npaths = ['/certificate']\nallow_certificates = ['CN=a']\n",
        users.display()
    );
    let rules: toml::Table = format!("{RULES}{guards}").parse().expect("TOML");
    setup.set("rule", rules["rule"].clone())
}

#[test]
fn claims_hold_for_rules() {
    let origin = Origin::start();
    let cases = [
        Case::new("/ruled/one", &[]),
        Case::new("/ruled/two", &[]),
        Case::new("/ruled/most", FRESH),
        Case::new("/ruled/never", FRESH),
        Case { status: 404, ..Case::new("/ruled/missing", &[]) },
        Case::new("/ruled/cookies", &[]).with(&[("Cookie", "a=b")]),
    ];
    for case in &cases {
        origin.on(case.path, case.answer());
    }
    let shoal = ruled(&origin).start();
    for case in &cases {
        for _ in 0..3 {
            check(&shoal, case);
        }
    }
    let decided = |path| check(&shoal, &Case::new(path, &[]))["storing"]["decided_by"].clone();
    assert_eq!(decided("/ruled/two"), "rule[1].lifetime_default", "the later rule wins");
    let claim = check(&shoal, &Case::new("/ruled/two", &[]));
    let settings = &claim["rules"]["matching"][0]["settings"];
    assert_eq!(
        (&settings[0]["part"], &settings[0]["overruled_by"]),
        (&json!("overruled"), &json!("rule[1]"))
    );
    assert_eq!(check(&shoal, &Case::new("/ruled/never", FRESH))["storing"]["decided_by"], "rule[3].store");
    for (path, setting) in [
        ("/denied", "rule[4].deny"),
        ("/office", "rule[5].allow_clients"),
        ("/old", "rule[6].redirect"),
        ("/user", "rule[7].users_file"),
        ("/certificate", "rule[8].allow_certificates"),
    ] {
        assert_eq!(check(&shoal, &Case::new(path, &[]))["refusal"]["setting"], setting);
    }
    let dropped = check(&shoal, &Case::new("/ruled/one?utm_source=x", &[]));
    assert_eq!(dropped["reuse"]["hit"], true);
    assert!(dropped["target"]["url"].as_str().is_some_and(|url| url.ends_with("/ruled/one")));
    assert!(claim["rules"]["matching"][0]["line"].is_number(), "{claim:#}");
}

#[test]
fn claims_hold_in_forward_mode() {
    let authority = Authority::new();
    let (plain, https) = (Origin::start(), Origin::start_tls(&authority.issue(&["127.0.0.1"])));
    let fields: &[(&str, &str)] = FRESH;
    for origin in [&plain, &https] {
        origin.on("/a", Case::new("/a", fields).answer());
    }
    let setup = Setup::bare().set_list("forward.deny_destinations", &["denied.test"]);
    let ca = setup.file("ca.pem", &authority.pem());
    let shoal = setup.set("upstream.ca_file", ca.to_string_lossy().into_owned()).start();
    let check = |url: &str| {
        let response = json!({ "status": 200, "fields": fields });
        let claim = explain(&shoal, json!({ "url": url, "response": response }));
        compare(url, &claim, &shoal.ask_forward(&Request::get(url)));
        claim
    };
    for url in [format!("{}/a", plain.url()), format!("https://{}/a", https.address())] {
        assert_eq!(check(&url)["reuse"]["fwd"], "uri-miss");
        assert_eq!(check(&url)["reuse"]["hit"], true);
    }
    for (url, setting) in [
        ("http://denied.test/", "forward.deny_destinations"),
        ("http://10.0.0.1/", "forward.allow_private_destinations"),
        ("http://127.0.0.1:25/", "forward.request_ports"),
    ] {
        assert_eq!(check(url)["refusal"]["setting"], setting, "{url}");
        let real = shoal.ask_forward(&Request::get(url));
        assert!(real.expect_status(403).text().contains(setting), "the body names the setting");
        assert_eq!(real.proxy().word("details").as_deref(), Some(setting), "so does Proxy-Status");
        let line = || {
            shoal.log().lines().any(|line| line.contains("refused by a setting") && line.contains(setting))
        };
        wait::until("a line of the log", line);
    }
    let tunnel = explain(&shoal, json!({ "url": "127.0.0.1:22", "method": "CONNECT" }));
    assert_eq!(tunnel["refusal"]["setting"], "forward.connect_ports");
}

#[test]
fn unreadable_requests_are_refused_in_a_line() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin).start();
    for request in [
        json!({ "url": "nothing" }),
        json!({ "url": "http://a/", "method": "G T" }),
        json!({ "url": "http://a/", "fields": [["X", "a\r\nb"]] }),
        json!({ "url": "http://a/", "fields": [["Host", "b"]] }),
        json!({ "url": "http://a/", "response": { "status": 99 } }),
        json!({ "url": "http://a/", "mode": "sideways" }),
        json!({ "url": "http://a/", "client": "somewhere" }),
        json!({ "url": format!("http://a/{}", "x".repeat(20_000)) }),
        json!({ "url": "http://a/", "fields": vec![["X", "a"]; 200] }),
    ] {
        let answer = shoal.ask_admin(&Request::new("POST", "/explain").body(request.to_string().as_bytes()));
        assert_eq!(answer.status, 400, "{request}: {}", answer.text());
    }
}

#[test]
fn command_line_asks_node_and_settings_file() {
    let origin = Origin::start();
    origin.on("/ruled/two", Case::new("/ruled/two", &[]).answer());
    let setup = ruled(&origin);
    let file = setup.file("alone.toml", &setup.text());
    let shoal = setup.start();
    shoal.get("/ruled/two");
    let url = "http://site.test/ruled/two";
    let run = |options: &[&str]| {
        let output = Command::new(binary()).arg("explain").args(options).arg(url).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let admin = shoal.admin().to_string();
    let page = run(&["--admin", &admin, "--mode", "reverse"]);
    for part in ["This request is a hit", "rule[1] (line ", "overruled by rule[1]", "fresh until", "in RAM"] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    let file = file.to_string_lossy();
    let claim: Value =
        serde_json::from_str(&run(&["--config", &file, "--mode", "reverse", "--json"])).expect("JSON");
    assert_eq!((&claim["stored"], &claim["storing"]["lifetime_seconds"]), (&Value::Null, &json!(1200)));
}
