//! cargo through a mirror of a sparse index whose crate files are kept at another host.

use super::{Client, Lock, Place, Registry, Row};
use crate::cargo::{build_app, publish_all, toolchain};
use crate::workshop::Workshop;
use std::path::PathBuf;

struct Cargo(PathBuf);

impl Client for Cargo {
    fn publish(&self, shop: &Workshop, registry: &Registry) {
        publish_all(shop, &registry.files_url());
        registry.documents("/index/", shop.path("index"));
        registry.archive("/crates/", shop.path("crates"));
    }

    fn work(&self, place: &Place<'_>, app: &str, lock: Option<&str>) -> String {
        let config = format!(
            "[source.crates-io]\nreplace-with = 'mirror'\n[source.mirror]\nregistry = 'sparse+{}/'\n",
            place.url
        );
        if let Some(lock) = lock {
            place.shop.write(&format!("{app}/Cargo.lock"), lock);
        }
        build_app(place.shop, |program| place.command(self.0.join(program)), app, &config, "version = '1'")
    }
}

pub const CARGO: Row = Row {
    client: "cargo",
    task: "`fetch` and `run` of 8 crates, the same with the lock",
    kind: "cargo",
    path: "/index",
    lock: Lock::Same,
    list: ("Cargo.lock", "file=Cargo.lock&any-host"),
    unlisted: &[],
    absent: "/cargo/ab/se/absent",
    prepare: || toolchain().map(|toolchain| Box::new(Cargo(toolchain)) as Box<dyn Client>),
};
