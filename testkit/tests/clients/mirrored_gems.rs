//! bundler through a mirror of a gem registry: cold, warm and offline, with a clean lock.

use crate::mirrored::Mirrored;
use crate::workshop::{Workshop, installed, run};
use md5::{Digest, Md5};
use shoal_testkit::Origin;
use shoal_testkit::registry::sha256;

const GEM: &str = "shoalhello";

/// Makes the compact index of one gem, and the gem.
fn publish(shop: &Workshop) {
    let files = format!("s.name = '{GEM}'; s.version = '1.0.0'; s.summary = 'x'; s.authors = ['x']");
    shop.write(&format!("gem/{GEM}.gemspec"), &format!("Gem::Specification.new {{ |s| {files} }}\n"));
    let mut build = shop.command("gem", None);
    run(build.current_dir(shop.path("gem")).args(["build", "--silent", &format!("{GEM}.gemspec")]));
    let file = format!("{GEM}-1.0.0.gem");
    shop.folder("registry/gems");
    std::fs::rename(shop.path("gem").join(&file), shop.path("registry/gems").join(&file)).expect("built");
    let gem = std::fs::read(shop.path("registry/gems").join(&file)).expect("moved");
    let info = format!("---\n1.0.0 |checksum:{}\n", sha256(&gem));
    let sum: String = Md5::digest(&info).iter().map(|byte| format!("{byte:02x}")).collect();
    shop.write(&format!("registry/info/{GEM}"), &info);
    shop.write("registry/versions", &format!("created_at: 2026-01-01T00:00:00Z\n---\n{GEM} 1.0.0 {sum}\n"));
    shop.write("registry/names", &format!("---\n{GEM}\n"));
}

#[test]
fn bundler_installs_through_a_mirror() {
    if !installed("bundle") || !installed("gem") {
        return;
    }
    let (shop, origin) = (Workshop::new(), Origin::start());
    publish(&shop);
    origin.serve_silently("/", shop.path("registry"));
    let install = |name: &str, mirror: Option<&str>| {
        let gemfile = format!("source '{}'\ngem '{GEM}'\n", origin.url());
        shop.write(&format!("{name}/Gemfile"), &gemfile);
        let mut bundle = shop.command("bundle", None);
        bundle.current_dir(shop.path(name)).env("HOME", shop.folder(&format!("home-{name}")));
        bundle.env("BUNDLE_PATH", "vendor").env("BUNDLE_SILENCE_ROOT_WARNING", "1");
        bundle.envs(mirror.map(|mirror| ("BUNDLE_MIRROR__ALL", mirror)));
        run(bundle.arg("install"));
        std::fs::read_to_string(shop.path(name).join("Gemfile.lock")).expect("a lock")
    };
    let direct = install("direct", None);
    let task = ("bundler", "install of a gem");
    let mirrored = Mirrored { kind: "rubygems", origin: &origin, upstream_path: "", task };
    let installed = |external: &str, round| {
        assert_eq!(install(&format!("app-{round}"), Some(external)), direct, "the lock is clean");
    };
    assert_eq!(mirrored.thrice(&installed), 3, "versions, info and the gem");
    mirrored.warmed(("Gemfile.lock", &direct), &installed);
}
