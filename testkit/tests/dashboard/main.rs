//! The dashboard's page in headless Chromium, against a mock node: views, live events, keyboard,
//! themes, hostile text, lost nodes, bytes and growth, and what axe finds.
//!
//! The checks are `testkit/dashboard/*.mjs`; playwright-core and axe-core come from npm, pinned by
//! its lockfile. `SHOAL_SCREENSHOTS=1` takes the pictures of `docs/dashboard` in place of checking.

mod browser;

use browser::Browser;

/// Everything that the mock node can show.
#[test]
fn page_passes_its_checks() {
    let Some(browser) = Browser::installed() else { return };
    if std::env::var_os("SHOAL_SCREENSHOTS").is_some() {
        browser.run(&["--screenshots", concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/dashboard")]);
    } else {
        browser.run(&[]);
    }
}
