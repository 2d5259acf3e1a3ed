//! pip, cargo and go through mirrors: cold, warm with empty caches of their own, and offline. The
//! registries say nothing about caching. Each file is fetched once, and locks name no mirror.

use crate::rounds::note_mirrored;
use crate::workshop::{Workshop, run};
use shoal_testkit::shoal::binary;
use shoal_testkit::{Origin, Request, Setup, Shoal, wait};

/// Work of a client in one round: the registry's URL, and a number.
pub type Round<'a> = dyn Fn(&str, usize) + 'a;

/// A registry, and the mirror of it that clients use.
pub struct Mirrored<'a> {
    /// Kind of the mirror.
    pub kind: &'a str,
    /// The registry.
    pub origin: &'a Origin,
    /// Path of the registry at its host.
    pub upstream_path: &'a str,
    /// Client, and its work.
    pub task: (&'a str, &'a str),
}

impl Mirrored<'_> {
    /// Starts a node with an empty cache.
    fn start(&self) -> (Shoal, String) {
        let (kind, upstream) = (self.kind, format!("{}{}", self.origin.url(), self.upstream_path));
        let mirror = format!("kind = '{kind}'\nupstream = '{upstream}'\nindex_lifetime = '1h'");
        let shoal = Setup::bare().listen("reverse", "mode = 'reverse'").mirror(&mirror).start();
        let external = format!("http://{}/{kind}", shoal.address("reverse"));
        (shoal, external)
    }

    /// Runs a client three times through a mirror, the last time offline. Gives the requests of the
    /// origin in the first round; there are none in the others.
    pub fn thrice(&self, client: &Round<'_>) -> usize {
        let (mut shoal, external) = self.start();
        let mut asked = [0; 3];
        for (round, asked) in asked.iter_mut().enumerate() {
            let before = self.origin.total();
            client(&external, round);
            *asked = self.origin.total() - before;
            assert!(round == 0 || *asked == 0, "{}, round {round}: {asked} requests", self.kind);
            if round == 1 {
                let offline = "index_lifetime = \"1h\"\noffline = true";
                shoal.change(|text| text.replace("index_lifetime = \"1h\"", offline));
                shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
            }
        }
        note_mirrored(self.task, asked);
        asked[0]
    }

    /// Warms a node from a lock. The client then asks the registry for nothing.
    pub fn warmed(&self, (file, lock): (&str, &str), client: &Round<'_>) {
        let (shoal, external) = self.start();
        let query = format!("/warm?file={file}&any-host");
        let started = shoal.ask_admin(&Request::new("POST", &query).body(lock.as_bytes()));
        let report = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("a report");
        let job = report(&started.expect_status(202).text())["job"].clone();
        let now = || report(&shoal.ask_admin(&Request::get(&format!("/warm?job={job}"))).text());
        wait::until("the lock is warmed", || now()["state"] == "done");
        let end = now();
        assert_eq!((&end["failures"]["count"], &end["refused"]["count"]), (&0.into(), &0.into()), "{end}");
        let before = self.origin.total();
        client(&external, 3);
        let received = self.origin.received();
        let asked: Vec<_> = received[before..].iter().map(|request| &request.target).collect();
        assert!(asked.is_empty(), "{} after warming: {asked:?}", self.kind);
    }
}

/// Rewrites the URLs of a lock, for a mirror as `shoal run` names it and the URL of its clients.
pub fn rewritten(
    shop: &Workshop,
    (direction, lock): (&str, &str),
    (mirror, external): (&str, &str),
) -> String {
    let file = shop.write("rewritten.lock", lock);
    let at = external.rsplit_once('/').map_or(external, |(at, _)| at);
    let mut shoal = shop.command(binary(), None);
    run(shoal.args(["lock", direction, "--mirror", mirror, "--at", at]).arg(&file));
    std::fs::read_to_string(file).expect("it is there")
}

#[test]
fn pip_installs_through_a_mirror() {
    let Some(python) = crate::pip::python() else { return };
    let (shop, origin) = (Workshop::new(), Origin::start());
    crate::pip::publish(&shop, &python);
    origin.serve_silently("/simple/", shop.path("simple"));
    origin.serve_silently("/packages/", shop.path("packages"));
    let install = |external: &str, round| {
        let target = shop.path(&format!("target-{round}"));
        crate::pip::install_into(&shop, &python, None, &format!("{external}/simple/"), &target);
    };
    let task = ("pip", "install of 3 wheels");
    let mirrored = Mirrored { kind: "pypi", origin: &origin, upstream_path: "/simple", task };
    assert_eq!(mirrored.thrice(&install), 2 * crate::pip::NAMES.len(), "a page and a wheel of each project");
    let lock = crate::pip::requirements(&shop);
    mirrored.warmed(("requirements.txt", &lock), &install);
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
    let built = |external: &str, round| {
        assert_eq!(build(external, &format!("app-{round}")), direct, "the lock is clean");
    };
    let task = ("cargo", "fetch and build of 8 crates");
    let mirrored = Mirrored { kind: "cargo", origin: &origin, upstream_path: "/index", task };
    let wanted = 1 + 2 * crate::cargo::CRATES;
    assert_eq!(mirrored.thrice(&built), wanted, "config.json, an index file and a crate of each");
    mirrored.warmed(("Cargo.lock", &direct), &built);
}

#[test]
fn go_downloads_through_a_mirror() {
    let (shop, origin) = (Workshop::new(), Origin::start());
    if !crate::go::publish(&shop) {
        return;
    }
    origin.serve_silently("/", shop.path("proxy"));
    let download = |external: &str, round| crate::go::download(&shop, external, round);
    let task = ("go", "mod download of 6 modules");
    let mirrored = Mirrored { kind: "go", origin: &origin, upstream_path: "", task };
    let cold = mirrored.thrice(&download);
    assert!(cold >= 2 * crate::go::MODULES, "{cold}");
    let lock = std::fs::read_to_string(shop.path("app-0/go.sum")).expect("go writes sums");
    mirrored.warmed(("go.sum", &lock), &download);
}
