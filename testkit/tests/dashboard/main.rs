//! The dashboard's page in headless Chromium: views, live events, keyboard, themes, hostile text,
//! lost nodes, bytes and growth, and findings of axe at a mock node; documents, purge and explain
//! at a real one.
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
