//! go through a mirror of a module proxy that redirects to its zips. A checksum database with a key
//! of its own is behind the same proxy.

use super::{Client, Lock, Place, Registry, Row};
use crate::go::{downloading, path, publish, publish_checksums};
use crate::rounds::Says;
use crate::workshop::{Workshop, installed, run};
use shoal_testkit::Request;
use std::cell::OnceCell;
use std::process::Output;

#[derive(Default)]
struct Go {
    /// Key of the checksum database.
    verifier: OnceCell<String>,
}

impl Client for Go {
    fn publish(&self, shop: &Workshop, registry: &Registry) {
        publish(shop);
        self.verifier.get_or_init(|| publish_checksums(shop).verifier());
        registry.redirecting("/", &shop.path("proxy"), ".zip");
    }

    fn work(&self, place: &Place<'_>, app: &str, lock: Option<&str>) -> String {
        if let Some(lock) = lock {
            place.shop.write(&format!("{app}/go.sum"), lock);
        }
        let verifier = self.verifier.get().expect("it is published");
        run(&mut downloading(place.shop, place.command("go"), (&place.url, verifier), app));
        std::fs::read_to_string(place.shop.path(&format!("{app}/go.sum"))).expect("go writes sums")
    }
}

pub const GO: Row = Row {
    client: "go",
    task: "`mod download` of 6 modules by a checksum database, the same with `go.sum`",
    kind: "go",
    path: "",
    lock: Lock::Same,
    list: ("go.sum", "file=go.sum&any-host"),
    unlisted: &[],
    absent: "/go/example.test/absent/@v/list",
    prepare: || is_there().then(|| Box::new(Go::default()) as Box<dyn Client>),
};

fn is_there() -> bool {
    installed("go") && installed("python3")
}

/// A registry with one wrong file, and a mirror of it.
struct Tampered {
    shop: Workshop,
    registry: Registry,
    verifier: String,
    /// File below the module proxy.
    file: String,
    right: Vec<u8>,
}

impl Tampered {
    fn new(file: &str, tamper: impl FnOnce(&Workshop, Vec<u8>) -> Vec<u8>) -> Self {
        let (shop, registry) = (Workshop::new(), Registry::start(Says::Lifetimes));
        publish(&shop);
        let verifier = publish_checksums(&shop).verifier();
        registry.redirecting("/", &shop.path("proxy"), ".zip");
        let file = format!("proxy/{file}");
        let right = std::fs::read(shop.path(&file)).expect("it is published");
        let wrong = tamper(&shop, right.clone());
        assert_ne!(wrong, right);
        std::fs::write(shop.path(&file), wrong).expect("writable");
        Self { shop, registry, verifier, file, right }
    }

    /// Downloads all modules with empty caches.
    fn download(&self, proxy: &str, app: &str) -> Output {
        let go = self.shop.command("go", None);
        let mut go = downloading(&self.shop, go, (proxy, &self.verifier), app);
        go.output().expect("go starts")
    }

    /// The registry has the right file from now on.
    fn mend(&self) {
        std::fs::write(self.shop.path(&self.file), &self.right).expect("writable");
    }
}

/// Path of the first module's files at a proxy.
fn first(ending: &str) -> String {
    format!("{}/@v/v1.0.0{ending}", path(0))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The record is in the cache before go asks for the zip, so that the node itself refuses it.
#[test]
fn tampered_zip_is_cut_and_not_kept() {
    if !is_there() {
        return;
    }
    // The zip of another module: whole, but with other members.
    let tampered = Tampered::new(&first(".zip"), |shop, _| {
        std::fs::read(shop.path(&format!("proxy/{}/@v/v1.0.0.zip", path(1)))).expect("published")
    });
    let Some(shoal) = tampered.registry.mirrored("go", "") else { return };
    let proxy = format!("http://{}/go", shoal.address("reverse"));
    let output = tampered.download(&proxy, "wrong");
    assert!(!output.status.success() && said(&output).contains(&path(0)), "{}", said(&output));
    assert!(shoal.metric("shoal_mirror_refused_total", "reason=\"digest\"") > 0);
    tampered.mend();
    let output = tampered.download(&proxy, "right");
    assert!(output.status.success(), "{}", said(&output));
}

/// With `checksum_database` the node asks for the record first, and passes no such file on.
#[test]
fn tampered_go_mod_is_cut_by_a_node_that_asks() {
    if !is_there() {
        return;
    }
    let tampered = Tampered::new(&first(".mod"), |_, right| [&right[..], b"// more\n"].concat());
    let Some(mut shoal) = tampered.registry.mirrored("go", "") else { return };
    shoal.change(|text| text.replace("index_lifetime", "checksum_database = \"sum.test\"\nindex_lifetime"));
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    let proxy = format!("http://{}/go", shoal.address("reverse"));
    let output = tampered.download(&proxy, "wrong");
    assert!(!output.status.success() && !said(&output).contains("SECURITY ERROR"), "{}", said(&output));
    assert!(shoal.metric("shoal_mirror_refused_total", "reason=\"digest\"") > 0);
    tampered.mend();
    let output = tampered.download(&proxy, "right");
    assert!(output.status.success(), "{}", said(&output));
}

/// A registry that changes a record too deceives the node, but not go: the record is not the one of
/// the signed tree.
#[test]
fn forged_record_is_refused_by_go() {
    if !is_there() {
        return;
    }
    let record = format!("sumdb/sum.test/lookup/{}@v1.0.0", path(0));
    let tampered = Tampered::new(&record, |shop, right| {
        let other = shop.path(&format!("proxy/sumdb/sum.test/lookup/{}@v1.0.0", path(1)));
        let other = std::fs::read_to_string(other).expect("published");
        let sum = |text: &str| text.lines().nth(1).and_then(|line| line.split(' ').nth(2)).map(str::to_owned);
        let right = String::from_utf8(right).expect("text");
        let (true_sum, forged) = (sum(&right).expect("a sum"), sum(&other).expect("a sum"));
        right.replace(&true_sum, &forged).into_bytes()
    });
    let Some(shoal) = tampered.registry.mirrored("go", "") else { return };
    let output = tampered.download(&format!("http://{}/go", shoal.address("reverse")), "wrong");
    let said = said(&output);
    assert!(!output.status.success() && said.contains("cannot authenticate record"), "{said}");
}
