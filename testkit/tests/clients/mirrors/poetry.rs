//! poetry through a mirror of an index that the project names as its source.

use super::python::{PIP, publish_index};
use super::{Client, Lock, Place, Registry, Row};
use crate::pip::{NAMES, python};
use crate::workshop::{Workshop, installed, line, run};
use std::path::PathBuf;

struct Poetry(PathBuf);

impl Client for Poetry {
    fn publish(&self, shop: &Workshop, registry: &Registry) {
        publish_index(shop, &self.0, registry);
    }

    fn work(&self, place: &Place<'_>, app: &str, lock: Option<&str>) -> String {
        let shop = place.shop;
        let poetry = |arguments: &[&str]| {
            let mut poetry = place.command("poetry");
            poetry
                .args(arguments)
                .current_dir(shop.folder(app))
                .env("HOME", shop.folder(&format!("{app}-home")));
            poetry.env("POETRY_VIRTUALENVS_IN_PROJECT", "true");
            poetry.env("POETRY_CACHE_DIR", shop.folder(&format!("{app}-cache")));
            line(poetry.env("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring"))
        };
        let index = place.url.trim_end_matches("/simple").to_owned() + "/simple/";
        let primary = match is_old(&poetry(&["--version"])) {
            true => "default = true",
            false => "priority = 'primary'",
        };
        let project = format!(
            "[tool.poetry]\nname = 'app'\nversion = '0.1.0'\ndescription = ''\nauthors = []\n\
             [tool.poetry.dependencies]\npython = '>=3.8'\nshoal-one = '1.0'\n\
             [[tool.poetry.source]]\nname = 'own'\nurl = '{index}'\n{primary}\n"
        );
        shop.write(&format!("{app}/pyproject.toml"), &project);
        match lock {
            Some(lock) => drop(shop.write(&format!("{app}/poetry.lock"), lock)),
            None => drop(poetry(&["lock", "-n"])),
        }
        poetry(&["install", "-n", "--no-root"]);
        let folder = shop.path(app);
        let libraries = run(shop.command("find", None).arg(folder.join(".venv")).args(["-name", "data.bin"]));
        assert_eq!(String::from_utf8_lossy(&libraries).lines().count(), NAMES.len());
        std::fs::read_to_string(folder.join("poetry.lock")).expect("a lock")
    }
}

/// Returns `true` for a version before 1.5, which has no priorities of sources.
fn is_old(version: &str) -> bool {
    let numbers = version.split(|character: char| !character.is_ascii_digit());
    let mut numbers = numbers.filter_map(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) < (Some(1), Some(5))
}

pub const POETRY: Row = Row {
    client: "poetry",
    task: "`lock` and `install` of 3 wheels, `install`",
    lock: Lock::But("content-hash"),
    list: ("poetry.lock", "file=poetry.lock"),
    prepare: || {
        let python = python().filter(|_| installed("poetry"));
        python.map(|python| Box::new(Poetry(python)) as Box<dyn Client>)
    },
    ..PIP
};
