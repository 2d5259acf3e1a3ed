//! `go mod download all` from a module proxy that says nothing about caching.

use crate::rounds::twice;
use crate::workshop::{Workshop, installed, run};
use shoal_testkit::checksums::ChecksumDatabase;
use shoal_testkit::registry::{go_mod_sum, go_zip};
use shoal_testkit::{Origin, Setup};
use std::process::Command;

pub(crate) const MODULES: usize = 6;

/// Makes a module's archive: all files stand below `path@version/`.
const MAKE_ZIP: &str = "
import sys, zipfile
path, archive = sys.argv[1:]
with zipfile.ZipFile(archive, 'w') as made:
    made.writestr(f'{path}@v1.0.0/go.mod', f'module {path}\\n\\ngo 1.19\\n')
    made.writestr(f'{path}@v1.0.0/one.go', 'package one\\n\\nconst Name = \"' + 'x' * 20_000 + '\"\\n')
";

/// Go asks no proxy for loopback, so the module proxy is asked through a reverse proxy.
#[test]
fn go_downloads_from_a_silent_proxy() {
    let (shop, origin) = (Workshop::new(), Origin::start());
    if !publish(&shop) {
        return;
    }
    origin.serve_silently("/", shop.path("proxy"));
    let rule: toml::Table =
        "lifetime_default = '10m'\nignore_client_no_cache = true".parse().expect("a rule");
    let shoal = Setup::to(&origin).set("rule", vec![toml::Value::from(rule)]).start();
    let task = "go mod download of 6 modules, silent origin, `--fresh`";
    let [first, second] = twice("go", task, &origin, |round| {
        let proxy = format!("http://{}", shoal.address("reverse"));
        download(&shop, shop.command("go", None), &proxy, &format!("app-{round}"));
    });
    assert!(first.requests >= 2 * MODULES, "{first:?}");
    assert_eq!(second.requests, 0);
}

/// Makes the modules in the layout of a proxy; `false` if programs are missing.
pub(crate) fn publish(shop: &Workshop) -> bool {
    if !installed("go") || !installed("python3") {
        return false;
    }
    for number in 0..MODULES {
        let (path, folder) = (path(number), format!("proxy/{}/@v", path(number)));
        let write = |name: &str, text: &str| shop.write(&format!("{folder}/{name}"), text);
        write("list", "v1.0.0\n");
        write("v1.0.0.info", "{\"Version\":\"v1.0.0\",\"Time\":\"2026-01-01T00:00:00Z\"}");
        write("v1.0.0.mod", &go_mod(&path));
        let archive = shop.path(&format!("{folder}/v1.0.0.zip"));
        run(shop.command("python3", None).args(["-c", MAKE_ZIP, &path]).arg(archive));
    }
    true
}

/// Makes a checksum database of the modules, and serves it below their proxy.
pub(crate) fn publish_checksums(shop: &Workshop) -> ChecksumDatabase {
    let mut database = ChecksumDatabase::new("sum.test");
    for number in 0..MODULES {
        let path = path(number);
        let (go_mod, code) = (go_mod(&path), CODE_START.to_owned() + &"x".repeat(20_000) + "\"\n");
        let member = |name: &str| format!("{path}@v1.0.0/{name}");
        let (file, source) = (member("go.mod"), member("one.go"));
        let (_, zip) = go_zip(&[(&file, go_mod.as_bytes()), (&source, code.as_bytes())]);
        database.add(&path, "v1.0.0", (&zip, &go_mod_sum(go_mod.as_bytes())));
    }
    database.write(&shop.path("proxy"));
    database
}

/// Downloads all modules into an empty cache. With `all`, go writes their sums down.
pub(crate) fn download(shop: &Workshop, go: Command, proxy: &str, app: &str) {
    run(&mut downloading(shop, go, (proxy, "off"), app));
}

/// The command of [`download`], with a checksum database.
pub(crate) fn downloading(
    shop: &Workshop,
    mut go: Command,
    (proxy, database): (&str, &str),
    app: &str,
) -> Command {
    let require: String = (0..MODULES).map(|number| format!("require {} v1.0.0\n", path(number))).collect();
    shop.write(&format!("{app}/go.mod"), &format!("module app\n\ngo 1.19\n\n{require}"));
    go.current_dir(shop.path(app)).args(["mod", "download", "all"]);
    go.env("GOPROXY", proxy).env("GOSUMDB", database);
    go.env("GOFLAGS", "-modcacherw").env("GOTOOLCHAIN", "local");
    go.env("GOMODCACHE", shop.path(&format!("{app}-modules")));
    go.env("GOCACHE", shop.path("build")).env("GOPATH", shop.path("go"));
    go
}

fn go_mod(path: &str) -> String {
    format!("module {path}\n\ngo 1.19\n")
}

/// Beginning of a module's only source, as [`MAKE_ZIP`] writes it.
const CODE_START: &str = "package one\n\nconst Name = \"";

pub(crate) fn path(number: usize) -> String {
    format!("example.test/shoal{number}")
}
