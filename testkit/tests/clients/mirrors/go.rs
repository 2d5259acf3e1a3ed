//! go through a mirror of a module proxy that redirects to its zips.

use super::{Client, Lock, Place, Registry, Row};
use crate::workshop::{Workshop, installed};

struct Go;

impl Client for Go {
    fn publish(&self, shop: &Workshop, registry: &Registry) {
        crate::go::publish(shop);
        registry.redirecting("/", &shop.path("proxy"), ".zip");
    }

    fn work(&self, place: &Place<'_>, app: &str, lock: Option<&str>) -> String {
        if let Some(lock) = lock {
            place.shop.write(&format!("{app}/go.sum"), lock);
        }
        crate::go::download(place.shop, place.command("go"), &place.url, app);
        std::fs::read_to_string(place.shop.path(&format!("{app}/go.sum"))).expect("go writes sums")
    }
}

pub const GO: Row = Row {
    client: "go",
    task: "`mod download` of 6 modules, the same with `go.sum`",
    kind: "go",
    path: "",
    lock: Lock::Same,
    list: ("go.sum", "file=go.sum&any-host"),
    unlisted: &[],
    absent: "/go/example.test/absent/@v/list",
    prepare: || (installed("go") && installed("python3")).then(|| Box::new(Go) as Box<dyn Client>),
};
