//! uv through a mirror of Python's kind: cold, warm and offline, and with locks made without the
//! mirror. It is installed by hand ([testing](../../../docs/TESTING.md)).

use crate::mirrored::{Mirrored, rewritten};
use crate::workshop::{Workshop, installed, run};
use shoal_testkit::Origin;
use std::path::Path;

/// Syncs in a folder of its own with an empty cache, from a lock if there is one. Gives the lock.
fn sync((shop, python): (&Workshop, &Path), (app, index): (&str, &str), lock: Option<&str>) -> String {
    let project = "[project]\nname = 'app'\nversion = '0.1.0'\nrequires-python = '>=3.8'\n\
                   dependencies = ['shoal-one']\n";
    shop.write(&format!("{app}/pyproject.toml"), project);
    let folder = shop.path(app);
    lock.iter().for_each(|lock| std::fs::write(folder.join("uv.lock"), lock).expect("writable"));
    let mut uv = shop.command("uv", None);
    uv.current_dir(&folder).arg("sync").args(lock.map(|_| "--frozen")).arg("--python").arg(python);
    uv.env("UV_DEFAULT_INDEX", index).env("UV_PYTHON_DOWNLOADS", "never").env("UV_NO_CONFIG", "1");
    run(uv.env("UV_CACHE_DIR", shop.folder(&format!("{app}-cache"))));
    let libraries = run(shop.command("find", None).arg(folder.join(".venv")).args(["-name", "data.bin"]));
    assert_eq!(String::from_utf8_lossy(&libraries).lines().count(), crate::pip::NAMES.len());
    std::fs::read_to_string(folder.join("uv.lock")).expect("a lock")
}

/// uv's lock names the URLs that it used; `shoal lock` makes it that of the registry, and back.
#[test]
#[ignore = "needs a client that is installed by hand"]
fn uv_syncs_through_a_mirror() {
    let Some(python) = crate::pip::python().filter(|_| installed("uv")) else { return };
    let (shop, origin) = (Workshop::new(), Origin::start());
    crate::pip::publish(&shop, &python);
    origin.serve_silently("/simple/", shop.path("simple"));
    origin.serve_silently("/packages/", shop.path("packages"));
    let place = (&shop, &*python);
    let upstream = format!("{}/simple", origin.url());
    let direct = sync(place, ("direct", &format!("{upstream}/")), None);
    let task = ("uv", "sync of 3 wheels, then sync --frozen");
    let mirrored = Mirrored { kind: "pypi", origin: &origin, upstream_path: "/simple", task };
    let mirror = format!("pypi={upstream}");
    let frozen = |external: &str| rewritten(&shop, ("--to-mirror", &direct), (&mirror, external));
    mirrored.thrice(&|external, round| {
        let index = format!("{external}/simple/");
        let own = sync(place, (&format!("app-{round}"), &index), None);
        assert_eq!(rewritten(&shop, ("--to-origin", &own), (&mirror, external)), direct);
        sync(place, (&format!("frozen-{round}"), &index), Some(&frozen(external)));
    });
    mirrored.warmed(("uv.lock", &direct), &|external, _| {
        sync(place, ("warmed", &format!("{external}/simple/")), Some(&frozen(external)));
    });
}
