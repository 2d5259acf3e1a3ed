//! `npm ci` from a registry tree, with integrity from the lock file.

use crate::rounds::{Says, twice};
use crate::workshop::{Workshop, installed, line, run};
use serde_json::{Value, json};
use shoal_testkit::Origin;
use shoal_testkit::seeded::body;

const PACKAGES: usize = 12;

#[test]
fn npm_ci_installs_twice() {
    install(Says::Lifetimes);
}

#[test]
fn npm_ci_installs_from_a_silent_registry() {
    install(Says::Nothing);
}

/// Installs from a lock file twice; the second time the origin has nothing to do.
fn install(says: Says) {
    if !installed("npm") || !installed("node") {
        return;
    }
    let (shop, origin) = (Workshop::new(), Origin::start());
    let mut locked = serde_json::Map::new();
    let dependencies: serde_json::Map<_, _> =
        (0..PACKAGES).map(|number| (format!("shoal-{number}"), json!("1.0.0"))).collect();
    locked.insert("".into(), json!({ "name": "app", "version": "1.0.0", "dependencies": dependencies }));
    for number in 0..PACKAGES {
        let name = format!("shoal-{number}");
        let (tarball, integrity) = pack(&shop, &name, &json!({}));
        let url = format!("{}/{name}/-/{tarball}", origin.url());
        locked.insert(
            format!("node_modules/{name}"),
            json!({ "version": "1.0.0", "resolved": url, "integrity": integrity }),
        );
    }
    let lock = json!({ "name": "app", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": locked });
    let manifest = json!({ "name": "app", "version": "1.0.0", "dependencies": dependencies });
    says.serve(&origin, "/", shop.path("registry"), "public, max-age=300");
    let shoal = says.start();
    let [first, second] = twice("npm", &says.task("npm ci of 12 packages"), &origin, |round| {
        let app = shop.folder(&format!("app-{round}"));
        std::fs::write(app.join("package.json"), manifest.to_string()).expect("writable");
        std::fs::write(app.join("package-lock.json"), lock.to_string()).expect("writable");
        let mut npm = shop.command("npm", Some(&shoal));
        npm.current_dir(&app).args([
            "ci",
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
            "--fetch-retries=0",
        ]);
        npm.arg(format!("--registry={}/", origin.url()));
        for scope in ["user", "global"] {
            npm.arg(format!("--{scope}config={}", shop.write(&format!("{scope}.npmrc"), "").display()));
        }
        run(npm.arg("--cache").arg(shop.path(&format!("npm-cache-{round}"))));
        for number in 0..PACKAGES {
            let file = app.join(format!("node_modules/shoal-{number}/data.bin"));
            assert!(std::fs::read(file).expect("installed") == body(&format!("shoal-{number}"), 20_000));
        }
    });
    assert!(first.requests >= PACKAGES, "{first:?}");
    assert_eq!(second.requests, 0);
}

/// Makes a tarball as `npm pack` does, below `registry/NAME/-/`; gives its name and its integrity.
pub(crate) fn pack(shop: &Workshop, name: &str, needs: &Value) -> (String, String) {
    let manifest = json!({ "name": name, "version": "1.0.0", "main": "index.js", "dependencies": needs });
    shop.write(&format!("sources/{name}/package/package.json"), &manifest.to_string());
    shop.write(&format!("sources/{name}/package/index.js"), &format!("module.exports = '{name}'\n"));
    std::fs::write(shop.path(&format!("sources/{name}/package/data.bin")), body(name, 20_000))
        .expect("writable");
    let tarball = format!("{name}-1.0.0.tgz");
    let path = shop.folder(&format!("registry/{name}/-")).join(&tarball);
    run(shop
        .command("tar", None)
        .arg("-C")
        .arg(shop.path(&format!("sources/{name}")))
        .arg("-czf")
        .arg(&path)
        .arg("package"));
    let script = "const [file] = process.argv.slice(1); const hash = require('crypto').createHash('sha512'); \
                  console.log('sha512-' + hash.update(require('fs').readFileSync(file)).digest('base64'))";
    let integrity = line(shop.command("node", None).args(["-e", script]).arg(&path));
    (tarball, integrity)
}
