//! An authority that misbehaves: each way is bounded and told, and clients are served meanwhile.

use crate::acme::{end, is_served, ordering, origin};
use shoal_testkit::acme::{AcmeAuthority, Fault};
use shoal_testkit::{Connection, Request, Shoal, wait};
use std::time::Duration;

/// The reason that is told of the last failure.
fn why(shoal: &Shoal) -> String {
    shoal.status()["certificates"][0]["order"]["why"].as_str().unwrap_or_default().to_owned()
}

fn check(fault: Fault, expected: &str) {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    authority.fault(Some(fault.clone()));
    let shoal = ordering(&authority, &origin, &["a.test"]).start();
    wait::until(&format!("{fault:?} is told"), || why(&shoal).contains(expected));
    assert!(!is_served(&shoal, &authority, "a.test"));
    let mut plain = Connection::open(shoal.address("plain"));
    plain.ask(&Request::get("/a"), "a.test").expect_body("body");
    let resident = shoal.resident_bytes();
    assert!(resident < 400 << 20, "{fault:?}: {resident} bytes");
    assert!(why(&shoal).len() <= 1200 && !why(&shoal).contains('\n'), "{}", why(&shoal));
    authority.fault(None);
    wait::until(&format!("a certificate after {fault:?}"), || is_served(&shoal, &authority, "a.test"));
    assert_eq!(why(&shoal), "");
}

#[test]
fn endless_answers_are_cut() {
    check(Fault::Endless, "longer than 262144 bytes");
}

#[test]
fn redirects_are_not_followed() {
    check(Fault::Circle, "redirects are not followed");
}

#[test]
fn other_hosts_are_not_asked() {
    let elsewhere = origin();
    check(Fault::ForeignHost(format!("https://{}", elsewhere.address())), "beside its own host");
    check(Fault::ForeignHost("http://127.0.0.1:1".into()), "beside its own host");
    assert_eq!(elsewhere.total(), 0);
}

#[test]
fn certificates_for_others_are_refused() {
    check(Fault::WrongName("evil.test"), "its certificate is for evil.test");
    check(Fault::WrongKey, "another key");
}

#[test]
fn proofs_of_other_names_are_refused() {
    check(Fault::OtherName("evil.test"), "which was not ordered");
}

#[test]
fn nonsense_is_no_answer() {
    check(Fault::Garbage, "JSON");
}

#[test]
fn old_nonces_are_tried_again() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    authority.fault(Some(Fault::BadNonce(2)));
    let shoal = ordering(&authority, &origin, &["a.test"]).start();
    wait::until("a certificate", || is_served(&shoal, &authority, "a.test"));
    assert_eq!(shoal.metric("shoal_acme_orders_total", "result=\"failed\""), 0);
}

#[test]
fn order_that_never_ends_is_given_up() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    authority.fault(Some(Fault::NeverReady));
    let shoal = ordering(&authority, &origin, &["a.test"]).start();
    wait::until("the end of the order", || why(&shoal).contains("timed out"));
    assert!(authority.origin().total() < 60, "{}", authority.origin().total());
    let mut plain = Connection::open(shoal.address("plain"));
    plain.ask(&Request::get("/a"), "a.test").expect_body("body");
    assert_eq!(end(&shoal), 0);
}

#[test]
fn wish_to_wait_is_kept() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    authority.fault(Some(Fault::RateLimited("3600")));
    let mut shoal = ordering(&authority, &origin, &["a.test"]).start();
    wait::until("the refusal is told", || why(&shoal).contains("too many orders"));
    let asked = |authority: &AcmeAuthority| authority.origin().count("/new-order");
    assert_eq!(asked(&authority), 1);
    authority.fault(None);
    // A restart does not shorten the wait.
    shoal.restart();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(asked(&authority), 1);
    let next_at = shoal.status()["certificates"][0]["order"]["next_at"].as_u64().expect("a time");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    assert!(next_at > now.as_secs() + 3000, "{next_at}");
}

#[test]
fn failed_proof_names_its_reason() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    let setup = ordering(&authority, &origin, &["a.test"]);
    // The authority asks a server that is not this node.
    authority.looks_at(origin.address(), setup.address("secured"));
    let shoal = setup.start();
    wait::until("the reason", || why(&shoal).contains("a.test answers 404"));
}

#[test]
fn full_folder_stops_orders() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    let setup = ordering(&authority, &origin, &["a.test"]);
    let blocked = setup.file("acme", "a file where the folder belongs");
    let shoal = setup.start();
    wait::until("the log tells", || shoal.log().contains("certificates are not ordered yet"));
    assert_eq!(authority.origin().total(), 0);
    std::fs::remove_file(blocked).expect("it is there");
    wait::until("a certificate", || is_served(&shoal, &authority, "a.test"));
}
