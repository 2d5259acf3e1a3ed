//! pip and uv through a mirror of an index that names files of another host.

use super::{Client, Lock, Place, Registry, Row};
use crate::pip::{NAMES, install_into, publish, python, requirements};
use crate::rounds::Says;
use crate::workshop::{Workshop, installed, run, sha256};
use serde_json::json;
use shoal_testkit::Resource;
use std::path::PathBuf;

/// Makes the wheels, and an index that names them at their host: JSON with metadata beside wheels
/// (PEP 691, 714), or HTML alone.
pub fn publish_index(shop: &Workshop, python: &std::path::Path, registry: &Registry) {
    publish(shop, python);
    registry.archive("/packages/", shop.path("packages"));
    for name in NAMES {
        let file = format!("{name}-1.0-py3-none-any.whl");
        let wheel = shop.path("packages").join(&file);
        let (url, sum) = (format!("{}/packages/{file}", registry.files_url()), sha256(&wheel));
        let project = name.replace('_', "-");
        let html = format!("<!DOCTYPE html><a href=\"{url}#sha256={sum}\">{file}</a>\n");
        let html = Resource::new(html).field("Content-Type", "text/html");
        let place = format!("/simple/{project}/");
        if registry.says == Says::Nothing {
            registry.origin.serve(&place, html);
            continue;
        }
        let metadata = sha256(&shop.path("packages").join(format!("{file}.metadata")));
        let size = wheel.metadata().expect("a wheel").len();
        let listed = json!({
            "filename": file, "url": url, "hashes": { "sha256": sum }, "size": size, "yanked": false,
            "upload-time": "2020-01-01T00:00:00.000000Z", "requires-python": ">=3.7",
            "core-metadata": { "sha256": metadata }, "data-dist-info-metadata": { "sha256": metadata }
        });
        let page = json!({ "meta": { "api-version": "1.3", "_last-serial": 1 }, "name": project,
                           "versions": ["1.0"], "files": [listed] });
        let json = Resource::new(page.to_string()).field("Content-Type", JSON);
        let forms = [(html, "html"), (json, "json")].map(|(form, name)| {
            let form = form.cache_control("max-age=600, public").field("Vary", "Accept, Accept-Encoding");
            form.field("X-PyPI-Last-Serial", "1").etag(&format!("\"{project}-{name}\""))
        });
        registry.origin.on_request(&place, move |request| {
            let is_json = request.fields.first("accept").is_some_and(|accept| accept.contains(JSON));
            forms[usize::from(is_json)].answer(request)
        });
    }
}

const JSON: &str = "application/vnd.pypi.simple.v1+json";

struct Pip(PathBuf);

impl Client for Pip {
    fn publish(&self, shop: &Workshop, registry: &Registry) {
        publish_index(shop, &self.0, registry);
    }

    /// Its lock is a list with digests, which no client writes.
    fn work(&self, place: &Place<'_>, app: &str, lock: Option<&str>) -> String {
        let index = format!("{}/", place.url.trim_end_matches("/simple").to_owned() + "/simple");
        let listed = lock.map(|lock| place.shop.write(&format!("{app}-requirements.txt"), lock));
        let pip = place.command(&self.0);
        install_into(pip, &index, (&place.shop.path(app), listed.as_deref()));
        requirements(place.shop)
    }
}

struct Uv(PathBuf);

impl Client for Uv {
    fn publish(&self, shop: &Workshop, registry: &Registry) {
        publish_index(shop, &self.0, registry);
    }

    fn work(&self, place: &Place<'_>, app: &str, lock: Option<&str>) -> String {
        let shop = place.shop;
        let project = "[project]\nname = 'app'\nversion = '0.1.0'\nrequires-python = '>=3.8'\n\
                       dependencies = ['shoal-one']\n";
        shop.write(&format!("{app}/pyproject.toml"), project);
        let folder = shop.path(app);
        lock.iter().for_each(|lock| std::fs::write(folder.join("uv.lock"), lock).expect("writable"));
        let index = place.url.trim_end_matches("/simple").to_owned() + "/simple/";
        let mut uv = place.command("uv");
        uv.current_dir(&folder).arg("sync").args(lock.map(|_| "--frozen")).arg("--python").arg(&self.0);
        uv.env("UV_DEFAULT_INDEX", index).env("UV_PYTHON_DOWNLOADS", "never").env("UV_NO_CONFIG", "1");
        run(uv.env("UV_CACHE_DIR", shop.folder(&format!("{app}-cache"))));
        let libraries = run(shop.command("find", None).arg(folder.join(".venv")).args(["-name", "data.bin"]));
        assert_eq!(String::from_utf8_lossy(&libraries).lines().count(), NAMES.len());
        std::fs::read_to_string(folder.join("uv.lock")).expect("a lock")
    }
}

pub const PIP: Row = Row {
    client: "pip",
    task: "`install` of 3 wheels, `--require-hashes`",
    kind: "pypi",
    path: "/simple",
    lock: Lock::Same,
    list: ("requirements.txt", "file=requirements.txt&any-host"),
    unlisted: &[],
    absent: "/pypi/simple/absent/",
    prepare: || python().map(|python| Box::new(Pip(python)) as Box<dyn Client>),
};

pub const UV: Row = Row {
    client: "uv",
    task: "`sync` of 3 wheels, `--frozen`",
    lock: Lock::Rewritten,
    list: ("uv.lock", "file=uv.lock"),
    prepare: || {
        let python = python().filter(|_| installed("uv"));
        python.map(|python| Box::new(Uv(python)) as Box<dyn Client>)
    },
    ..PIP
};
