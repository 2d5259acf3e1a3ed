//! The dashboard's page in headless Chromium: views, live events, keyboard, themes, hostile text,
//! lost nodes, bytes and growth, and findings of axe at a mock node; documents, purge and explain
//! at a real one. Pages that stand alone in a file: a plan's, of a hostile log, and a report's.
//!
//! The checks are `testkit/dashboard/*.mjs`; playwright-core and axe-core come from npm, pinned by
//! its lockfile. `SHOAL_SCREENSHOTS=1` takes the pictures of `docs/dashboard` in place of checking.

mod browser;

use browser::Browser;
use rustix::process::Signal;
use serde_json::Value;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal, wait};

/// Everything that the mock node can show.
#[test]
fn page_passes_its_checks() {
    let Some(browser) = Browser::installed() else { return };
    if std::env::var_os("SHOAL_SCREENSHOTS").is_some() {
        browser.run(&["--screenshots", concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/dashboard")], || ());
    } else {
        browser.run(&[], || ());
    }
}

#[test]
fn page_passes_at_a_node() {
    let Some(browser) = Browser::installed() else { return };
    let origin = Origin::start();
    origin.on("/fresh", Answer::fresh("12345", 600));
    origin.on("/cookie", Answer::fresh("cookie", 60).field("Set-Cookie", "a=b"));
    let shoal = Setup::to(&origin).start();
    let mut connection = shoal.connect();
    for _ in 0..200 {
        connection.ask(&Request::get("/fresh"), "a.test");
    }
    drop(shoal.get("/cookie"));
    for hostile in [HOSTILE.to_owned(), format!("/long?{}", "x".repeat(8000))] {
        // Accepted or refused: either shows in the log or among the objects.
        drop(shoal.ask(&Request::get(&hostile)));
    }
    let object = stored_object(&shoal, "/fresh");
    let base = format!("http://{}", shoal.admin());
    browser.run(&["--node", &base, "--object", &object], || shoal.signal(Signal::TERM));
    assert_eq!(origin.count("/fresh"), 1, "explaining and purging fetch nothing");
}

#[test]
fn pages_in_a_file_pass() {
    let Some(browser) = Browser::installed() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    if std::env::var_os("SHOAL_SCREENSHOTS").is_some() {
        std::fs::write(at("access.log"), made_log()).expect("written");
        shoal(&["plan", &at("access.log"), "--html", &at("plan.html")]);
        let pictures = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/dashboard/plan");
        return browser.run(&["--file", &at("plan.html"), "--pictures", pictures], || ());
    }
    let log = at("<img src=x onerror=window.broken=1>\u{202e}.log");
    std::fs::write(&log, made_log()).expect("written");
    shoal(&["plan", &log, "--html", &at("plan.html")]);
    browser.run(&["--file", &at("plan.html")], || ());
    shoal(&["lab", "run", "policies", "--trace", &log, "--out", &at("policies")]);
    browser.run(&["--file", &at("policies/index.html")], || ());
}

/// A log with outcomes, and with lines that would be markup if a page took them for some.
fn made_log() -> String {
    let mut state = 7_u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut seen = std::collections::HashSet::new();
    let mut line = |at: u64| {
        let object = draw(4000).min(draw(4000)).min(draw(4000)).min(draw(4000));
        let path = if at.is_multiple_of(50) { HOSTILE.into() } else { format!("/{object}") };
        let is_stored = !seen.insert(path.clone()) && draw(10) < 7;
        let outcome = match object % 17 {
            0 => "BYPASS",
            _ if is_stored => "HIT",
            _ => "MISS",
        };
        let (hour, minute, second) = (at / 1800 % 24, at / 30 % 60, at * 2 % 60);
        let bytes = 300 + object * object % 90_000;
        format!(
            "10.0.0.{} - - [10/Oct/2024:{hour:02}:{minute:02}:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 {bytes} \"-\" \"\u{202e}<b>\" {outcome}\n",
            draw(40)
        )
    };
    (0..12_000).map(&mut line).collect()
}

/// Runs the binary.
fn shoal(arguments: &[&str]) {
    let output = std::process::Command::new(shoal_testkit::shoal::binary()).args(arguments).output();
    let output = output.expect("the binary starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Waits until the dashboard lists an object, and returns its URL.
fn stored_object(shoal: &Shoal, path: &str) -> String {
    let listed = || {
        let response = shoal.ask_admin(&Request::get("/ui/data/objects"));
        let document: Value = serde_json::from_slice(&response.body).expect("the document is JSON");
        let objects = document["objects"].as_array().cloned().unwrap_or_default();
        let urls = objects.iter().filter_map(|object| object["key_url"].as_str().map(str::to_owned));
        urls.filter(|url| url.ends_with(path)).collect::<Vec<_>>()
    };
    wait::until("the dashboard lists the object", || !listed().is_empty());
    listed().remove(0)
}

/// A path that would be markup if the page took it for some.
const HOSTILE: &str = "/%22'(img)onerror=window.broken=true;%3Cscript%3Ewindow.broken=true%3C/script%3E";
