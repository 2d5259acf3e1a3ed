//! pip, cargo and go through mirrors: cold, warm with empty caches of their own, and offline. The
//! registries say nothing about caching. Each file is fetched once, and locks name no mirror.

use crate::workshop::Workshop;
use shoal_testkit::{Origin, Request, Setup, Shoal};

/// Work of a client in one round: the registry's URL, and a number.
pub type Round<'a> = dyn Fn(&str, usize) + 'a;

/// Runs a client three times through a mirror, the last time offline. Gives the requests of the
/// origin in the first round; there are none in the others.
pub fn thrice(kind: &str, origin: &Origin, upstream_path: &str, client: &Round<'_>) -> usize {
    let mirror =
        format!("kind = '{kind}'\nupstream = '{}{upstream_path}'\nindex_lifetime = '1h'", origin.url());
    let mut shoal: Shoal = Setup::bare().listen("reverse", "mode = 'reverse'").mirror(&mirror).start();
    let external = format!("http://{}/{kind}", shoal.address("reverse"));
    let before = origin.total();
    client(&external, 0);
    let cold = origin.total() - before;
    for round in 1..3 {
        let before = origin.total();
        client(&external, round);
        assert_eq!(origin.total(), before, "{kind}, round {round}");
        let offline = "index_lifetime = \"1h\"\noffline = true";
        shoal.change(|text| {
            text.replace("index_lifetime = \"1h\"\noffline = true", "index_lifetime = \"1h\"")
                .replace("index_lifetime = \"1h\"", offline)
        });
        shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    }
    cold
}

#[test]
fn pip_installs_through_a_mirror() {
    let Some(python) = crate::pip::python() else { return };
    let (shop, origin) = (Workshop::new(), Origin::start());
    crate::pip::publish(&shop, &python);
    origin.serve_silently("/simple/", shop.path("simple"));
    origin.serve_silently("/packages/", shop.path("packages"));
    let cold = thrice("pypi", &origin, "/simple", &|external, round| {
        let target = shop.path(&format!("target-{round}"));
        crate::pip::install_into(&shop, &python, None, &format!("{external}/simple/"), &target);
    });
    assert_eq!(cold, 2 * crate::pip::NAMES.len(), "a page and a wheel of each project");
}

#[test]
fn cargo_builds_through_a_mirror() {
    let Some(toolchain) = crate::cargo::toolchain() else { return };
    let (shop, origin) = (Workshop::new(), Origin::start());
    crate::cargo::publish_all(&shop, &origin);
    origin.serve_silently("/index/", shop.path("index"));
    origin.serve_silently("/crates/", shop.path("crates"));
    let build = |registry: &str, name: &str| {
        let config = format!(
            "[source.crates-io]\nreplace-with = 'mirror'\n[source.mirror]\nregistry = 'sparse+{registry}/'\n"
        );
        crate::cargo::build_app(&shop, &toolchain, None, name, &config, "version = '1'")
    };
    let direct = build(&format!("{}/index", origin.url()), "direct");
    let cold = thrice("cargo", &origin, "/index", &|external, round| {
        assert_eq!(build(external, &format!("app-{round}")), direct, "the lock is clean");
    });
    assert_eq!(cold, 1 + 2 * crate::cargo::CRATES, "config.json, an index file and a crate of each");
}

#[test]
fn go_downloads_through_a_mirror() {
    let (shop, origin) = (Workshop::new(), Origin::start());
    if !crate::go::publish(&shop) {
        return;
    }
    origin.serve_silently("/", shop.path("proxy"));
    let cold = thrice("go", &origin, "", &|external, round| crate::go::download(&shop, external, round));
    assert!(cold >= 2 * crate::go::MODULES, "{cold}");
}
