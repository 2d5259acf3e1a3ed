//! Settings of `[acme]` that change by a reload: clients are served before, meanwhile and after.

use crate::acme::{is_served, ordering, origin};
use shoal_testkit::acme::{AcmeAuthority, Fault};
use shoal_testkit::{Connection, Request, Setup, Shoal, wait};
use std::time::Duration;

/// Reloads, and checks that nothing waits for a start.
fn reload(shoal: &Shoal) {
    let answer = shoal.ask_admin(&Request::new("POST", "/reload"));
    let text = answer.expect_status(200).text().to_string();
    assert!(!text.contains("acme"), "it does not wait for a start: {text}");
}

/// A connection that is open before a change, and must live after it.
fn kept(shoal: &Shoal, authority: &AcmeAuthority) -> Connection {
    let mut kept = Connection::open_tls(shoal.address("secured"), "a.test", authority.signer().client(&[]));
    kept.ask(&Request::get("/a"), "a.test").expect_body("body");
    kept
}

#[test]
fn authority_is_named_by_a_reload() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    let own = shoal_testkit::certificates::Authority::new();
    let setup = Setup::bare()
        .site(&format!("hosts = ['*']\nupstreams = [{{ url = '{}' }}]", origin.url()))
        .listen("plain", "mode = 'reverse'");
    own.issue(&["b.test"]).write(setup.folder(), "b.test");
    let file = |name: &str| setup.folder().join(name).to_string_lossy().into_owned();
    let pair =
        format!("tls = [{{ certificate = '{}', key = '{}' }}]", file("b.test.pem"), file("b.test.key"));
    let roots = setup.file("ca.pem", &authority.signer().pem()).to_string_lossy().into_owned();
    let folder = file("acme");
    let setup = setup.listen("secured", &format!("mode = 'reverse'\n{pair}\n"));
    authority.looks_at(setup.address("plain"), setup.address("secured"));
    let mut shoal = setup.start();
    let mut before = Connection::open_tls(shoal.address("secured"), "b.test", own.client(&[]));
    before.ask(&Request::get("/a"), "b.test").expect_body("body");
    let acme = format!(
        "[acme]\ndirectory = '{}'\nterms_agreed = true\nca_file = '{roots}'\nfolder = '{folder}'\nretry = '1s'\n",
        authority.directory()
    );
    shoal.change(|text| {
        let ordered = "[[listen.acme]]\nnames = ['a.test']\n\n[[listen.tls]]";
        format!("{}\n{acme}", text.replacen("[[listen.tls]]", ordered, 1))
    });
    reload(&shoal);
    wait::until("a certificate", || is_served(&shoal, &authority, "a.test"));
    before.ask(&Request::get("/a"), "b.test").expect_body("body");
    assert_eq!((authority.orders(), authority.problems()), (1, Vec::new()));
}

/// The old certificate serves until the other authority's is there. Waits of the old authority do
/// not count at the new one.
#[test]
fn other_directory_orders_anew() {
    let (first, second, origin) = (AcmeAuthority::start(), AcmeAuthority::start(), origin());
    let setup = ordering(&first, &origin, &["a.test"]).set("acme.retry", "1h");
    second.looks_at(setup.address("plain"), setup.address("secured"));
    let roots = setup.file("second.pem", &second.signer().pem()).to_string_lossy().into_owned();
    second.fault(Some(Fault::ServerError));
    let mut shoal = setup.start();
    wait::until("a certificate", || is_served(&shoal, &first, "a.test"));
    let mut open = kept(&shoal, &first);
    let (old, new) = (first.directory(), second.directory());
    let before = shoal.folder().join("ca.pem").to_string_lossy().into_owned();
    shoal.change(|text| text.replace(&old, &new).replace(&before, &roots));
    reload(&shoal);
    wait::until("a failure", || shoal.metric("shoal_acme_orders_total", "result=\"failed\"") > 0);
    assert!(is_served(&shoal, &first, "a.test"), "the old one serves meanwhile");
    second.fault(None);
    // Back and forth: the failure at the second authority makes no wait at the first.
    shoal.change(|text| text.replace(&new, &old).replace(&roots, &before));
    reload(&shoal);
    wait::until("another certificate of the first", || first.issued() == 2);
    shoal.change(|text| text.replace(&old, &new).replace(&before, &roots));
    reload(&shoal);
    wait::until("a certificate of the second", || is_served(&shoal, &second, "a.test"));
    open.ask(&Request::get("/a"), "a.test").expect_body("body");
    assert_eq!((first.accounts(), second.accounts()), (1, 1), "accounts are kept");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!((first.issued(), second.issued()), (2, 1), "nothing is ordered twice");
}

#[test]
fn challenge_changes_by_a_reload() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    let setup = ordering(&authority, &origin, &["a.test"]).set("acme.challenge", "tls-alpn-01");
    // Nobody answers at the place of the first challenge.
    authority.looks_at(setup.address("plain"), ([127, 0, 0, 1], 1).into());
    let mut shoal = setup.start();
    wait::until("a failure", || shoal.metric("shoal_acme_orders_total", "result=\"failed\"") > 0);
    shoal.change(|text| text.replace("tls-alpn-01", "http-01"));
    reload(&shoal);
    wait::until("a certificate by http", || is_served(&shoal, &authority, "a.test"));
    let mut open = kept(&shoal, &authority);
    authority.looks_at(([127, 0, 0, 1], 1).into(), shoal.address("secured"));
    shoal.change(|text| {
        text.replace("http-01", "tls-alpn-01")
            .replace("names = [\"a.test\"]", "names = [\"a.test\", \"c.test\"]")
    });
    reload(&shoal);
    assert!(is_served(&shoal, &authority, "a.test"), "the name that stays is served meanwhile");
    wait::until("a certificate by TLS", || is_served(&shoal, &authority, "c.test"));
    open.ask(&Request::get("/a"), "a.test").expect_body("body");
}

#[test]
fn account_gets_changed_addresses() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    authority.lifetime(Duration::from_secs(9));
    let mail = |name: &str| format!("mailto:{name}@a.test");
    let setup = ordering(&authority, &origin, &["a.test"]);
    let mut shoal = setup.set("acme.contact", vec![toml::Value::from(mail("old"))]).start();
    wait::until("a certificate", || is_served(&shoal, &authority, "a.test"));
    assert_eq!(authority.contact(), [mail("old")]);
    shoal.change(|text| text.replace("mailto:old", "mailto:new"));
    reload(&shoal);
    wait::until("the changed address", || authority.contact() == [mail("new")]);
    wait::until("another certificate", || authority.issued() > 1);
    wait::until("one more", || authority.issued() > 2);
    let received = authority.origin().received();
    let told = received.iter().filter(|it| it.target.starts_with("/account/")).count();
    assert_eq!((authority.accounts(), told), (1, 1), "it is told once, to the same account");
}

#[test]
fn folder_moves_by_a_reload() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    let mut shoal = ordering(&authority, &origin, &["a.test"]).start();
    wait::until("a certificate", || is_served(&shoal, &authority, "a.test"));
    let mut open = kept(&shoal, &authority);
    authority.fault(Some(Fault::ServerError));
    let (old, new) = (shoal.folder().join("acme"), shoal.folder().join("other"));
    let (from, to) = (old.to_string_lossy().into_owned(), new.to_string_lossy().into_owned());
    shoal.change(|text| text.replace(&format!("\"{from}\""), &format!("\"{to}\"")));
    reload(&shoal);
    wait::until("a failure", || shoal.metric("shoal_acme_orders_total", "result=\"failed\"") > 0);
    assert!(is_served(&shoal, &authority, "a.test"), "the certificate in use stays");
    let lock = std::fs::File::open(old.join("lock")).expect("it stays");
    lock.try_lock().expect("the folder before is free for others");
    authority.fault(None);
    wait::until("a certificate in the new folder", || {
        let files = std::fs::read_dir(&new).into_iter().flatten().flatten();
        files.filter(|file| file.file_name().to_string_lossy().ends_with(".pem")).count() == 1
    });
    assert!(is_served(&shoal, &authority, "a.test"));
    open.ask(&Request::get("/a"), "a.test").expect_body("body");
}

/// A file that cannot be used leaves all as it was.
#[test]
fn unusable_trust_refuses_the_reload() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    let mut shoal = ordering(&authority, &origin, &["a.test"]).start();
    wait::until("a certificate", || is_served(&shoal, &authority, "a.test"));
    let broken = shoal.folder().join("broken.pem");
    std::fs::write(&broken, "no certificate").expect("writable");
    let before = shoal.folder().join("ca.pem").to_string_lossy().into_owned();
    shoal.change(|text| text.replace(&before, &broken.to_string_lossy()).replace("a.test", "c.test"));
    let refused = shoal.ask_admin(&Request::new("POST", "/reload"));
    assert_eq!(refused.status, 422);
    assert!(refused.text().contains("acme.ca_file"), "{}", refused.text());
    assert!(is_served(&shoal, &authority, "a.test"));
    assert_eq!(authority.orders(), 1);
}
