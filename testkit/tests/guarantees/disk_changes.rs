//! Disks that come, go, move and change their size by a reload: clients notice nothing, and stored
//! objects stay as far as they fit.

use rustix::process::Signal;
use shoal_testkit::seeded::{Random, body};
use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

const OBJECTS: u64 = 300;

fn expected(path: &str) -> Vec<u8> {
    let number: u64 = path.trim_start_matches("/object/").parse().expect("objects are numbered");
    body(path, 2_000 + number as usize * 97 % 40_000)
}

fn library() -> Origin {
    let origin = Origin::start();
    origin.on_request("/object/*", |request| {
        Answer::fresh(expected(request.path()), 86_400).field("ETag", "\"1\"")
    });
    origin
}

/// A client that reads until it is told to stop.
#[derive(Default)]
struct Reader {
    stop: AtomicBool,
    reads: AtomicU64,
    faults: Mutex<Vec<String>>,
}

impl Reader {
    fn run(&self, address: SocketAddr, seed: u64) {
        let mut random = Random::new(seed);
        let mut connection = Connection::open(address);
        while !self.stop.load(Relaxed) {
            let path = format!("/object/{}", random.below(OBJECTS));
            let response = connection.ask(&Request::get(&path), "site.test");
            self.reads.fetch_add(1, Relaxed);
            if response.status != 200 || response.body != expected(&path) {
                self.faults.lock().expect("no panic").push(format!("{path}: {}", response.status));
            }
        }
    }
}

/// Runs clients while `change` works.
fn under_load(shoal: &mut Shoal, change: impl FnOnce(&mut Shoal)) {
    let reader = Arc::new(Reader::default());
    let address = shoal.address("reverse");
    let threads: Vec<_> = (0..2)
        .map(|seed| {
            let reader = Arc::clone(&reader);
            std::thread::spawn(move || reader.run(address, seed))
        })
        .collect();
    change(shoal);
    reader.stop.store(true, Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("a reader"));
    let faults = reader.faults.lock().expect("no panic");
    assert!(
        faults.is_empty(),
        "{} of {} reads: {:?}",
        faults.len(),
        reader.reads.load(Relaxed),
        &faults[..faults.len().min(5)]
    );
    assert!(reader.reads.load(Relaxed) > 20, "clients read meanwhile");
}

fn fill(shoal: &Shoal) {
    (0..OBJECTS).for_each(|number| _ = shoal.get(&format!("/object/{number}")).expect_status(200));
    shoal.wait_until_written();
}

fn reload(shoal: &mut Shoal, change: impl FnOnce(String) -> String) {
    shoal.change(change);
    shoal.signal(Signal::HUP);
}

fn disks(shoal: &Shoal) -> Vec<String> {
    let status = shoal.status();
    let disks = status["store"]["disks"].as_array().expect("a store").iter();
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    disks.map(|disk| name(disk["path"].as_str().expect("a path"))).collect()
}

/// Returns the number of objects for which the origin is asked now.
fn fetched(shoal: &Shoal, origin: &Origin) -> usize {
    let before = origin.total();
    (0..OBJECTS).for_each(|number| _ = shoal.get(&format!("/object/{number}")).expect_status(200));
    origin.total() - before
}

fn setup(origin: &Origin) -> Setup {
    Setup::to(origin).set("cache.ram", "4 MiB").set("store.move_rate", 0).set("store.admission", "always")
}

fn entry(shoal: &Shoal, name: &str, bytes: &str) -> String {
    format!("\n[[store.disks]]\npath = \"{}\"\nbytes = \"{bytes}\"\n", shoal.folder().join(name).display())
}

fn without(text: &str, name: &str) -> String {
    let mut parts = text.split("[[store.disks]]");
    let first = parts.next().unwrap_or_default().to_owned();
    parts
        .filter(|part| !part.contains(&format!("/{name}\"")))
        .fold(first, |text, part| format!("{text}[[store.disks]]{part}"))
}

#[test]
fn clients_notice_no_change_of_disks() {
    let origin = library();
    let mut shoal = setup(&origin).disks(&[("one", "48 MiB"), ("two", "48 MiB")]).start();
    fill(&shoal);
    under_load(&mut shoal, |shoal| {
        let added = entry(shoal, "three", "64 MiB");
        reload(shoal, |text| text + &added);
        wait::until("the third disk serves", || disks(shoal) == ["one", "two", "three"]);
        reload(shoal, |text| text.replace("64 MiB", "96 MiB"));
        wait::until("it is larger", || {
            shoal.status()["store"]["disks"][2]["space"]["bytes_max"] == (96_u64 << 20)
        });
        reload(shoal, |text| without(&text, "one"));
        wait::until("the first is gone", || disks(shoal) == ["two", "three"]);
        wait::until("it is empty", || !shoal.folder().join("one/volume").exists());
        reload(shoal, |text| text.replace("96 MiB", "32 MiB"));
        wait::until("it is smaller", || {
            shoal.status()["store"]["disks"][1]["space"]["bytes_max"] == (32_u64 << 20)
        });
    });
    assert_eq!(fetched(&shoal, &origin), 0, "all objects fit on what is left");
    shoal.restart();
    assert_eq!(fetched(&shoal, &origin), 0, "after a restart");
    shoal.expect_metric("shoal_store_corrupt_total", "", 0);
}

#[test]
fn only_folder_moves_with_its_purges() {
    let origin = library();
    let mut shoal = setup(&origin).set("store.disk", "64 MiB").start();
    fill(&shoal);
    shoal.ask_admin(&Request::new("POST", "/purge?url=http://site.test/object/7")).expect_status(200);
    let (old, new) = (shoal.store(), shoal.folder().join("elsewhere"));
    under_load(&mut shoal, |shoal| {
        let (old, new) = (old.display().to_string(), new.display().to_string());
        reload(shoal, |text| text.replace(&old, &new));
        wait::until("the new folder serves alone", || disks(shoal) == ["elsewhere"]);
        wait::until("the old one is empty", || !shoal.folder().join(&old).join("volume").exists());
    });
    assert!(fetched(&shoal, &origin) <= 1, "the purged object at most");
    assert!(new.join("purges").exists() && new.join("volume").exists());
    shoal.restart();
    assert!(fetched(&shoal, &origin) == 0, "after a restart");
}

#[test]
fn removal_goes_on_after_a_kill() {
    let origin = library();
    let setup =
        setup(&origin).disks(&[("one", "48 MiB"), ("two", "48 MiB")]).set("store.move_rate", "256 KiB");
    let mut shoal = setup.start();
    fill(&shoal);
    reload(&mut shoal, |text| without(&text, "one"));
    wait::until("some objects are copied", || {
        shoal.status()["store"]["disks"][0]["copied_objects"].as_u64().is_some_and(|copied| copied > 0)
    });
    assert_eq!(shoal.status()["store"]["disks"][0]["change"], "leaving");
    shoal.kill();
    shoal.change(|text| text.replace("256 KiB", "0"));
    shoal.restart();
    wait::until("the first is gone", || disks(&shoal) == ["two"]);
    assert_eq!(fetched(&shoal, &origin), 0, "no object is lost");
    assert!(!shoal.store().join("leaving").exists(), "nothing is left to do");
}

#[test]
fn disk_named_again_stays() {
    let origin = library();
    let setup = setup(&origin).disks(&[("one", "48 MiB"), ("two", "48 MiB")]).set("store.move_rate", "1 KiB");
    let mut shoal = setup.start();
    fill(&shoal);
    let before = std::fs::read_to_string(shoal.folder().join("shoal.toml")).expect("the settings");
    reload(&mut shoal, |text| without(&text, "one"));
    wait::until("it leaves", || shoal.status()["store"]["disks"][0]["change"] == "leaving");
    reload(&mut shoal, |_| before);
    wait::until("it stays", || shoal.status()["store"]["disks"][0]["change"].is_null());
    assert_eq!((disks(&shoal), fetched(&shoal, &origin)), (vec!["one".to_owned(), "two".to_owned()], 0));
}
