//! The public conformance suite for HTTP caches (npm package `http-cache-tests`), run through Shoal
//! as a reverse proxy.
//!
//! A check passes only if its result is exactly `true`; one whose prerequisites failed counts as
//! not passed. The outcome is compared with `docs/conformance.json`: what passed there must pass.
//! Every required or optional check that fails needs a reason in
//! `testkit/conformance/reasons.json`. `SHOAL_WRITE_DOCS=1` writes the outcome to
//! `docs/conformance.json` and `docs/CONFORMANCE.md`.

mod report;
mod suite;

use report::{Outcome, Reasons};
use suite::Suite;

#[test]
fn the_public_suite_finds_nothing_worse_than_recorded() {
    let suite = match Suite::installed() {
        Ok(suite) => suite,
        Err(why) if std::env::var_os("CI").is_none() => {
            eprintln!("skipped: {why}");
            return;
        }
        Err(why) => panic!("{why}"),
    };
    let reasons = Reasons::read();
    let outcome = suite.outcome();
    println!("{}", outcome.tally());
    if std::env::var_os("SHOAL_WRITE_DOCS").is_some() {
        outcome.write(&reasons);
        return;
    }
    let recorded = Outcome::recorded(outcome.checks.clone());
    let outcome = match outcome.worse_than(&recorded).is_empty() {
        true => outcome,
        false => outcome.or(suite.outcome()),
    };
    let worse = outcome.worse_than(&recorded);
    assert!(worse.is_empty(), "passed when recorded, and fail now: {}", outcome.explained(&worse));
    let unexplained = outcome.unexplained(&reasons);
    assert!(unexplained.is_empty(), "fail without a recorded reason: {}", outcome.explained(&unexplained));
}
