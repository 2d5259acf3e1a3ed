//! Packages that a mirror pins stay on disk when space is made for others, with their index.

use crate::mirrors::npm_mirror;
use shoal_testkit::registry::{NPM_SHORT, NpmVersion, npm_document};
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Origin, Request, Shoal};

/// Serves any package with one version, whose tarball has 60 KB.
fn any_package(origin: &Origin) {
    let url = origin.url();
    origin.on_request("/*", move |request| {
        let path = request.path().to_owned();
        let name = path.split('/').nth(1).unwrap_or_default();
        let tarball = body(name, 60_000);
        match path.ends_with(".tgz") {
            true => Answer::ok(tarball),
            false => Answer::ok(npm_document(name, &[NpmVersion::of(&url, name, "1.0.0", &tarball)], false))
                .field("Content-Type", "application/json"),
        }
    });
}

fn get(shoal: &Shoal, name: &str) {
    let document = Request::get(&format!("/npm/{name}")).field("Accept", NPM_SHORT);
    shoal.ask(&document).expect_status(200);
    shoal.get(&format!("/npm/{name}/-/{name}-1.0.0.tgz")).expect_status(200);
}

#[test]
fn pinned_package_outlasts_others() {
    let origin = Origin::start();
    any_package(&origin);
    let mut shoal = npm_mirror(&origin, "pin = ['kept*']\nindex_lifetime = '1h'")
        .set("cache.ram", "4 MiB")
        .set("cache.ram_object_max", "128 KiB")
        .set("store.disk", "12 MB")
        .set("store.pin_max", "3 MB")
        .set("store.admission", "always")
        .start();
    for name in ["kept", "plain"] {
        get(&shoal, name);
    }
    for number in 0..400 {
        get(&shoal, &format!("other-{number}"));
        if number % 25 == 0 {
            // An insert is declined while too much waits.
            shoal.wait_until_written();
        }
    }
    shoal.restart();
    let before = origin.total();
    get(&shoal, "kept");
    assert_eq!(origin.total(), before, "both come from the disk");
    get(&shoal, "plain");
    assert!(origin.total() > before, "nobody pinned it");
}

/// `shoal warm --pin` keeps the files that it fetches, `shoal mirror pin` those that are held already.
/// The end of a pin is tested at the metadata.
#[test]
fn warmed_package_is_pinned_for_a_time() {
    let origin = Origin::start();
    any_package(&origin);
    let mut shoal = npm_mirror(&origin, "index_lifetime = '1h'")
        .set("cache.ram", "4 MiB")
        .set("cache.ram_object_max", "128 KiB")
        .set("store.disk", "12 MB")
        .set("store.pin_max", "3 MB")
        .set("store.admission", "always")
        .start();
    get(&shoal, "held");
    get(&shoal, "plain");
    let list = |names: &[&str]| {
        let urls = names.iter().map(|name| format!("{}/{name}/-/{name}-1.0.0.tgz\n", origin.url()));
        urls.collect::<String>()
    };
    let warm = |shoal: &Shoal, pin: &str, names: &[&str]| {
        let path = format!("/warm?format=urls&pin={pin}");
        let started = shoal.ask_admin(&Request::new("POST", &path).body(list(names).as_bytes()));
        let job =
            serde_json::from_str::<serde_json::Value>(&started.expect_status(202).text()).expect("JSON");
        let state = || {
            let told = shoal.ask_admin(&Request::get(&format!("/warm?job={}", job["job"]))).text();
            serde_json::from_str::<serde_json::Value>(&told).expect("JSON")
        };
        shoal_testkit::wait::until("the job ends", || state()["state"] == "done");
        assert_eq!(state()["failures"]["count"], 0, "{}", state());
    };
    warm(&shoal, "30d", &["kept"]);
    let mut pin = std::process::Command::new(shoal_testkit::shoal::binary());
    pin.args(["mirror", "pin", "pkg:npm/held@1.0.0", "--for", "30d", "--admin"]);
    let pinned = pin.arg(shoal.admin().to_string()).output().expect("the binary runs");
    let told = String::from_utf8_lossy(&pinned.stdout);
    assert!(pinned.status.success() && told.contains("1 held"), "{told}{pinned:?}");
    for number in 0..400 {
        get(&shoal, &format!("other-{number}"));
        if number % 25 == 0 {
            shoal.wait_until_written();
        }
    }
    shoal.restart();
    let file = |name: &str| format!("/npm/{name}/-/{name}-1.0.0.tgz");
    let before = origin.total();
    for name in ["kept", "held"] {
        shoal.get(&file(name)).expect_status(200).expect_hit().expect_body(body(name, 60_000));
    }
    assert_eq!(origin.total(), before, "both come from the disk");
    assert!(!shoal.get(&file("plain")).expect_status(200).hit(), "nobody pinned it");
    shoal.ask_admin(&Request::new("POST", "/warm?format=urls&pin=0s").body(b"x")).expect_status(400);
}
