//! bundler through a mirror of a gem registry with the compact index, which redirects to its gems.

use super::{Client, Lock, Place, Registry, Row};
use crate::rounds::Says;
use crate::workshop::{Workshop, installed, run};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use sha2::Sha256;
use shoal_testkit::Resource;
use shoal_testkit::registry::sha256;

const GEM: &str = "shoalhello";

fn md5(text: &str) -> String {
    Md5::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Bundler {
    /// URL of the registry, which a Gemfile names also behind a mirror.
    source: std::cell::OnceCell<String>,
}

impl Client for Bundler {
    /// Makes the compact index of one gem, and the gem.
    fn publish(&self, shop: &Workshop, registry: &Registry) {
        self.source.get_or_init(|| registry.url());
        let files = format!("s.name = '{GEM}'; s.version = '1.0.0'; s.summary = 'x'; s.authors = ['x']");
        shop.write(&format!("gem/{GEM}.gemspec"), &format!("Gem::Specification.new {{ |s| {files} }}\n"));
        let mut build = shop.command("gem", None);
        run(build.current_dir(shop.path("gem")).args(["build", "--silent", &format!("{GEM}.gemspec")]));
        let file = format!("{GEM}-1.0.0.gem");
        shop.folder("registry/gems");
        std::fs::rename(shop.path("gem").join(&file), shop.path("registry/gems").join(&file)).expect("built");
        let gem = std::fs::read(shop.path("registry/gems").join(&file)).expect("moved");
        let info = format!("---\n1.0.0 |checksum:{}\n", sha256(&gem));
        let sum = md5(&info);
        shop.write(&format!("registry/info/{GEM}"), &info);
        let versions = format!("created_at: 2026-01-01T00:00:00Z\n---\n{GEM} 1.0.0 {sum}\n");
        shop.write("registry/versions", &versions);
        shop.write("registry/names", &format!("---\n{GEM}\n"));
        registry.redirecting("/", &shop.path("registry"), ".gem");
        if registry.says == Says::Lifetimes {
            // bundler compares the entity tag of a document with its MD5.
            for (path, text) in [("/versions", versions), (&format!("/info/{GEM}"), info)] {
                let document = Resource::new(text.clone()).cache_control("max-age=60, public");
                let digest = STANDARD.encode(Sha256::digest(&text));
                let document = document.etag(&format!("\"{}\"", md5(&text)));
                registry.origin.serve(path, document.field("Repr-Digest", &format!("sha-256=:{digest}:")));
            }
        }
    }

    fn work(&self, place: &Place<'_>, app: &str, lock: Option<&str>) -> String {
        let shop = place.shop;
        let source = self.source.get().expect("it is published");
        shop.write(&format!("{app}/Gemfile"), &format!("source '{source}'\ngem '{GEM}'\n"));
        if let Some(lock) = lock {
            shop.write(&format!("{app}/Gemfile.lock"), lock);
        }
        let mut bundle = place.command("bundle");
        bundle.current_dir(shop.path(app)).env("HOME", shop.folder(&format!("home-{app}")));
        bundle.env("BUNDLE_PATH", "vendor").env("BUNDLE_SILENCE_ROOT_WARNING", "1");
        bundle.envs(lock.map(|_| ("BUNDLE_FROZEN", "true")));
        if place.direct.is_none() {
            bundle.env("BUNDLE_MIRROR__ALL", &place.url);
        }
        run(bundle.arg("install"));
        std::fs::read_to_string(shop.path(app).join("Gemfile.lock")).expect("a lock")
    }
}

pub const BUNDLER: Row = Row {
    client: "bundler",
    task: "`install` of a gem, `--frozen`",
    kind: "rubygems",
    path: "",
    lock: Lock::Same,
    list: ("Gemfile.lock", "file=Gemfile.lock"),
    // The first client is the first one to tell when the list of gems changed.
    unlisted: &["/info/shoalhello"],
    absent: "/rubygems/info/absent",
    prepare: || {
        let found = installed("bundle") && installed("gem");
        found.then(|| Box::new(Bundler { source: Default::default() }) as Box<dyn Client>)
    },
};
