//! apt through a mirror of an archive that redirects to its packages.

use super::{Client, Lock, Place, Registry, Row};
use crate::workshop::{Workshop, installed};
use std::fmt::Write;

struct Apt;

impl Client for Apt {
    fn publish(&self, shop: &Workshop, registry: &Registry) {
        crate::apt::repository(shop);
        registry.redirecting("/debian/", &shop.path("debian"), ".deb");
    }

    fn work(&self, place: &Place<'_>, app: &str, _: Option<&str>) -> String {
        crate::apt::download(place.shop, (&place.url, None), app);
        String::new()
    }

    fn list(&self, _: &Workshop, registry: &Registry) -> Option<String> {
        let mut urls = String::new();
        let lists = ["dists/stable/Release", "dists/stable/main/binary-amd64/Packages"].map(str::to_owned);
        let packages = ["shoal-a", "shoal-b", "shoal-c"].map(|name| format!("pool/{name}_1.0_all.deb"));
        for path in lists.iter().chain(&packages) {
            let _ = writeln!(urls, "{}/debian/{path}", registry.url());
        }
        Some(urls)
    }
}

pub const APT: Row = Row {
    client: "apt",
    task: "`update` and `download` of 3 packages",
    kind: "deb",
    path: "/debian",
    lock: Lock::None,
    list: ("URLs", "format=urls"),
    unlisted: &["/InRelease", "/Release.gpg"],
    absent: "/deb/dists/absent/InRelease",
    prepare: || {
        let found = installed("apt-get") && installed("dpkg-deb");
        found.then(|| Box::new(Apt) as Box<dyn Client>)
    },
};
