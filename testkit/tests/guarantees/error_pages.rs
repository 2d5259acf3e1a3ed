//! Pages in place of errors, the errors that stale responses cover, and redirects in a circle.

use shoal_testkit::origin::Framing;
use shoal_testkit::shoal::binary;
use shoal_testkit::{Answer, Origin, Request, Response, Setup};
use std::process::Command;
use std::time::Duration;

const PAGE: &str = "<h1>back soon</h1>";

/// A reverse proxy for `origin` with a page `down.html`, and these rules, in which `PAGE` is its
/// file.
fn setup(origin: &Origin, rules: &str) -> Setup {
    with_rules(Setup::to(origin), rules)
}

fn with_rules(setup: Setup, rules: &str) -> Setup {
    let page = setup.file("down.html", PAGE).to_string_lossy().into_owned();
    let rules: toml::Table = rules.replace("PAGE", &page).parse().expect("rules in TOML");
    setup.set("rule", rules["rule"].clone())
}

fn down() -> Setup {
    Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .site("hosts = ['a.test']\nupstreams = [{ url = 'http://127.0.0.1:1' }]\n")
}

fn stale(body: &str) -> Answer {
    let answer = Answer::ok(body).field("Age", "15").field("ETag", "\"old\"");
    answer.field("Cache-Control", "max-age=10").framed(Framing::Close)
}

trait ExpectPage {
    fn expect_page(&self, status: u16, body: &str) -> &Self;
}

impl ExpectPage for Response {
    fn expect_page(&self, status: u16, body: &str) -> &Self {
        self.expect_status(status);
        assert_eq!(self.text(), body);
        self
    }
}

fn check(setup: &Setup) -> (Option<i32>, String) {
    let file = setup.file("checked.toml", &setup.text());
    let output = Command::new(binary()).arg("check").arg(file).output().expect("the binary runs");
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn own_errors_have_the_page() {
    let rules = "[[rule]]\nerror_page = 'PAGE'\n[[rule]]\npaths = ['/secret/*']\ndeny = 404\n";
    let shoal = with_rules(down(), rules).start();
    let ask = |method: &str, path: &str, host: &str| shoal.connect().ask(&Request::new(method, path), host);
    let failed = ask("GET", "/x", "a.test");
    failed.expect_page(502, PAGE);
    assert_eq!(failed.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(failed.proxy().word("error").as_deref(), Some("connection_refused"));
    assert_eq!(failed.cache().word("fwd").as_deref(), Some("uri-miss"));
    assert_eq!(failed.field("cache-control"), Some("no-store"));
    ask("GET", "/secret/x", "a.test").expect_page(404, PAGE);
    ask("GET", "/x", "unknown.test").expect_page(404, PAGE);
    let head = ask("HEAD", "/x", "a.test");
    head.expect_page(502, "");
    assert_eq!(head.number("content-length"), Some(PAGE.len() as u64));
    let range = shoal.connect().ask(&Request::get("/x").field("Range", "bytes=0-3"), "a.test");
    range.expect_page(502, PAGE);
    shoal
        .connect()
        .ask(&Request::get("/x").field("Cache-Control", "only-if-cached"), "a.test")
        .expect_page(504, PAGE);
}

#[test]
fn page_is_for_the_named_statuses_and_sites() {
    let rules = "[[rule]]\nstatuses = ['404']\nerror_page = 'PAGE'\n";
    let shoal = with_rules(down(), rules).start();
    let ask = |host: &str| shoal.connect().ask(&Request::get("/x"), host);
    assert_ne!(ask("a.test").expect_status(502).text(), PAGE);
    ask("unknown.test").expect_page(404, PAGE);
    let setup = down();
    let page = setup.file("own.txt", "own").to_string_lossy().into_owned();
    let site = format!(
        "hosts = ['b.test']\nupstreams = [{{ url = 'http://127.0.0.1:1' }}]\nrule = [{{ error_page = '{page}' }}]\n"
    );
    let shoal = setup.site(&site).start();
    let ask = |host: &str| shoal.connect().ask(&Request::get("/x"), host);
    ask("b.test").expect_page(502, "own");
    assert_ne!(ask("a.test").expect_status(502).text(), "own");
    assert_ne!(ask("unknown.test").expect_status(404).text(), "own");
}

#[test]
fn errors_of_the_origin_keep_status_and_lifetime() {
    let origin = Origin::start();
    let missing =
        Answer::new(404).piece(b"origin's").field("Cache-Control", "max-age=60").field("ETag", "\"1\"");
    origin.on("/missing", missing.field("Content-Type", "application/x-odd").field("X-Kept", "1"));
    origin.on("/broken", Answer::new(503).piece(b"origin's").field("Retry-After", "7"));
    origin.on("/fine", Answer::fresh("fine", 60));
    origin.on("/post", Answer::new(422).piece(b"origin's"));
    let shoal = setup(&origin, "[[rule]]\nerror_page = 'PAGE'\nerror_page_origin = true\n").start();
    for round in 0..2 {
        let answer = shoal.get("/missing");
        answer.expect_page(404, PAGE);
        assert_eq!((answer.hit(), answer.field("x-kept")), (round == 1, Some("1")));
        assert_eq!(
            (answer.field("content-type"), answer.field("etag")),
            (Some("text/html; charset=utf-8"), None)
        );
        assert_eq!(answer.number("content-length"), Some(PAGE.len() as u64));
    }
    let broken = shoal.get("/broken");
    assert_eq!(broken.expect_page(503, PAGE).field("retry-after"), Some("7"));
    let head = shoal.ask(&Request::new("HEAD", "/broken"));
    assert_eq!(head.expect_status(503).number("content-length"), Some(PAGE.len() as u64));
    shoal.ask(&Request::get("/broken").field("Range", "bytes=0-1")).expect_page(503, PAGE);
    shoal.ask(&Request::new("POST", "/post").body(b"x")).expect_page(422, PAGE);
    shoal.get("/fine").expect_body("fine");
    shoal.get("/fine").expect_hit().expect_body("fine");
    let plain = setup(&origin, "[[rule]]\nerror_page = 'PAGE'\n").start();
    plain.get("/missing").expect_page(404, "origin's");
}

#[test]
fn connections_outlast_replaced_bodies() {
    let origin = Origin::start();
    origin.on("/*", Answer::new(500).piece(b"a body that no client sees"));
    let rules = "[[rule]]\nerror_page = 'PAGE'\nerror_page_origin = true\n";
    let shoal = setup(&origin, rules).set("workers", 1).start();
    for number in 0..6 {
        shoal.get(&format!("/{number}")).expect_page(500, PAGE);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(origin.connections() < 4, "{} connections", origin.connections());
}

#[test]
fn pages_are_read_again_on_reload() {
    let shoal = with_rules(down(), "[[rule]]\nerror_page = 'PAGE'\n").start();
    let get = || shoal.connect().ask(&Request::get("/x"), "a.test");
    get().expect_page(502, PAGE);
    let page = shoal.folder().join("down.html");
    std::fs::write(&page, "newer").expect("the page is ours");
    get().expect_page(502, PAGE);
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    get().expect_page(502, "newer");
    std::fs::remove_file(&page).expect("the page is ours");
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(422);
    get().expect_page(502, "newer");
}

#[test]
fn pages_that_cannot_be_read_are_mistakes() {
    let setup = down();
    let large = setup.file("large.html", &"x".repeat((1 << 20) + 1)).to_string_lossy().into_owned();
    for (page, said) in [("/missing/page.html", "cannot read"), (&*large, "1 MiB"), ("page.php", "ending")] {
        let setup = with_rules(down(), &format!("[[rule]]\nerror_page = '{page}'\n"));
        let (code, text) = check(&setup);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("rule[0].error_page") && text.contains(said), "{text}");
        assert!(text.contains("checked.toml:"), "it has a line: {text}");
    }
}

#[test]
fn stale_responses_cover_the_named_errors() {
    for (stale_on, covered) in [
        ("['429', 'timeout']", [false, true, false]),
        ("['5xx', '404']", [true, false, true]),
        ("[]", [false; 3]),
    ] {
        let origin = Origin::start();
        for (path, status) in [("/503", 503), ("/429", 429), ("/404", 404)] {
            origin.on_each(path, [stale("old"), Answer::new(status)]);
        }
        let rules = format!("[[rule]]\nstale_on = {stale_on}\n");
        let shoal = setup(&origin, &rules).set("cache.retry_after_max", "0s").start();
        for ((path, status), covered) in [("/503", 503), ("/429", 429), ("/404", 404)].iter().zip(covered) {
            shoal.get(path).expect_body("old");
            let answer = shoal.get(path);
            assert_eq!(answer.status, if covered { 200 } else { *status }, "{path} {stale_on}");
        }
    }
}

#[test]
fn stale_responses_cover_the_named_failures() {
    for (stale_on, timeout, refused) in [("timeout", 200, 502), ("connect", 504, 200), ("broken", 504, 502)] {
        let origin = Origin::start();
        origin.on_each("/slow", [stale("old"), Answer::ok("late").delay(Duration::from_secs(20))]);
        let rules = format!("[[rule]]\nstale_on = ['{stale_on}']\n");
        let shoal = setup(&origin, &rules).set("upstream.first_byte_timeout", "2s").start();
        shoal.get("/slow").expect_body("old");
        shoal.get("/slow").expect_status(timeout);
        let gone = Origin::start();
        gone.on("/gone", stale("old"));
        let shoal = setup(&gone, &rules).start();
        shoal.get("/gone").expect_body("old");
        drop(gone);
        let answer = shoal.get("/gone");
        assert_eq!(answer.status, refused, "{stale_on}: {answer:?}");
    }
}

#[test]
fn redirects_to_https_keep_the_query() {
    let origin = Origin::start();
    let rules = "[[rule]]\nredirect = 'https://$host$path?$query'\nredirect_status = 308\n";
    let shoal = setup(&origin, rules).start();
    for path in ["/a", "/a?b=c", "/?b"] {
        let moved = shoal.connect().ask(&Request::get(path), "h.test");
        let wanted = format!("https://h.test{path}");
        assert_eq!(moved.expect_status(308).field("location"), Some(wanted.as_str()));
    }
    assert_eq!(origin.total(), 0);
}

#[test]
fn redirects_in_a_circle_are_warned_of() {
    let origin = Origin::start();
    for (rule, warns) in [
        ("redirect = 'http://$host/new$path'", true),
        ("paths = ['/a']\nredirect = 'http://$host/b'", false),
        ("redirect = 'http://$host:80/'", true),
    ] {
        let (code, text) = check(&setup(&origin, &format!("[[rule]]\n{rule}\n")));
        assert_eq!((code, text.contains("circle")), (Some(0), warns), "{rule}: {text}");
    }
}
