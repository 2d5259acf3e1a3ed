//! Requests that a rule passes: neither looked up nor stored, and the settings say why.

use shoal_testkit::shoal::binary;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal};
use std::process::Command;

/// A reverse proxy for `origin` with these rules.
fn shoal(origin: &Origin, rules: &str) -> Shoal {
    let rules: toml::Table = rules.parse().expect("rules in TOML");
    Setup::to(origin).set("rule", rules["rule"].clone()).start()
}

fn with(path: &str, name: &str, value: &str) -> Request {
    Request::get(path).field(name, value)
}

const SESSIONS: &str = "[[rule]]\nrequest_fields = ['Cookie: *session=*']\npass = true\n";

#[test]
fn passed_requests_neither_hit_nor_store() {
    let origin = Origin::start();
    origin.on_request("/page", |request| Answer::fresh(request.fields.joined("Cookie"), 600));
    let shoal = shoal(&origin, SESSIONS);
    for count in 1..=2 {
        let passed = shoal.ask(&with("/page", "Cookie", "session=1"));
        passed.expect_body("session=1");
        assert_eq!(passed.cache().word("fwd").as_deref(), Some("bypass"));
        assert_eq!(passed.cache().word("detail").as_deref(), Some("rule"));
        assert!(!passed.cache().is("stored"));
        assert_eq!(origin.count("/page"), count);
    }
    // Nothing of the sessions was stored, and later sessions change nothing that is.
    shoal.get("/page").expect_body("");
    shoal.ask(&with("/page", "Cookie", "session=2")).expect_body("session=2");
    shoal.get("/page").expect_hit().expect_body("");
    shoal.ask(&Request::new("HEAD", "/page")).expect_hit();
    assert_eq!(origin.count("/page"), 4);
}

#[test]
fn passed_requests_keep_conditions_and_ranges() {
    let origin = Origin::start();
    origin.on_request("/page", |request| {
        let (condition, range) = (request.fields.joined("If-None-Match"), request.fields.joined("Range"));
        Answer::fresh(format!("{condition} {range}"), 600)
    });
    let shoal = shoal(&origin, "[[rule]]\npaths = ['/page*']\npass = true\n");
    let request = with("/page", "If-None-Match", "\"a\"").field("Range", "bytes=0-1");
    shoal.ask(&request).expect_status(200).expect_body("\"a\" bytes=0-1");
    let only = shoal.ask(&with("/page", "Cache-Control", "only-if-cached"));
    only.expect_status(504);
    assert_eq!(only.cache().word("detail").as_deref(), Some("only-if-cached"));
    assert_eq!(origin.count("/page"), 1);
}

#[test]
fn later_rule_leads_back_to_the_cache() {
    let origin = Origin::start();
    origin.on("/a.css", Answer::fresh("x", 600));
    let shoal = shoal(&origin, &format!("{SESSIONS}[[rule]]\npaths = ['*.css']\npass = false\n"));
    shoal.ask(&with("/a.css", "Cookie", "session=1"));
    shoal.ask(&with("/a.css", "Cookie", "session=2")).expect_hit();
}

#[test]
fn passed_requests_leave_stored_errors_alone() {
    let origin = Origin::start();
    origin.on("/page", Answer::fresh("x", 600));
    let shoal = shoal(&origin, SESSIONS);
    shoal.get("/page");
    origin.on("/page", Answer::new(500));
    shoal.ask(&with("/page", "Cookie", "session=1")).expect_status(500);
    shoal.get("/page").expect_hit().expect_body("x");
}

#[test]
fn explain_names_the_rule_that_passes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shoal.toml");
    let text = format!(
        "[[listen]]\naddress = '127.0.0.1:8080'\nmode = 'reverse'\n[[site]]\nhosts = ['a.example']\n\
         upstreams = [{{ url = 'http://127.0.0.1:9' }}]\n{SESSIONS}"
    );
    std::fs::write(&file, text).expect("written");
    let explain = |options: &[&str]| {
        let mut command = Command::new(binary());
        command.args(["explain", "http://a.example/page", "--config"]).arg(&file).args(options);
        let output = command.output().expect("the binary runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let passed = explain(&["--header", "Cookie: session=1"]);
    assert!(passed.contains("fwd=bypass") && passed.contains("rule[0].pass takes the request"), "{passed}");
    assert!(passed.contains("detail       rule") && !passed.contains("would be stored"), "{passed}");
    assert!(!explain(&[]).contains("bypass"));
}
