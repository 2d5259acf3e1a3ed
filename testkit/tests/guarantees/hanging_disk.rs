//! A disk that hangs costs hits: clients are served from RAM and from the origin, the first who
//! wait for the disk do so for three seconds, and when it answers again it serves again, without
//! what was purged meanwhile.

use shoal_testkit::client::Response;
use shoal_testkit::hanging_disk::HangingDisk;
use shoal_testkit::seeded::{Random, body};
use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The versions of an object: the second one from its purge on.
fn content(path: &str, version: u32) -> Vec<u8> {
    body(&format!("{path} {version}"), if path.starts_with("/old/") { 40_000 } else { 3000 })
}

/// An origin that gives the second version of what stands in the list.
fn library(purged: &'static Mutex<Vec<String>>) -> Origin {
    let origin = Origin::start();
    origin.on_request("/*", |request| {
        let is_purged = purged.lock().expect("nobody panics").iter().any(|path| path == request.path());
        Answer::fresh(content(request.path(), 1 + u32::from(is_purged)), 86_400)
    });
    origin
}

/// What clients are told and see.
struct Clients {
    address: SocketAddr,
    stop: AtomicBool,
    begin: Instant,
    next_new: AtomicU64,
    seen: Mutex<Vec<Seen>>,
}

/// An answer: of which kind of object, and from when to when it was waited for, in milliseconds
/// since the clients began.
#[derive(Debug)]
struct Seen {
    kind: &'static str,
    from: u64,
    until: u64,
    hit: bool,
}

impl Clients {
    fn ask(&self, connection: &mut Connection, kind: &'static str, path: &str) -> Response {
        let now = || self.begin.elapsed().as_millis() as u64;
        let from = now();
        let response = connection.ask(&Request::get(path), "site.test");
        let seen = Seen { kind, from, until: now(), hit: response.hit() };
        self.seen.lock().expect("nobody panics").push(seen);
        response
    }

    /// Asks for the same objects, which are in RAM.
    fn ask_for_what_is_hot(&self) {
        let mut connection = Connection::open(self.address);
        while !self.stop.load(Relaxed) {
            for number in 0..HOT {
                let path = format!("/hot/{number}");
                self.ask(&mut connection, "hot", &path).expect_body(content(&path, 1));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asks for what only the disk has, and for what nobody has.
    fn ask_for_the_rest(&self, seed: u64) {
        let (mut connection, mut random) = (Connection::open(self.address), Random::new(seed));
        while !self.stop.load(Relaxed) {
            let path = format!("/old/{}", KEPT + random.below(OLD - KEPT));
            self.ask(&mut connection, "old", &path).expect_body(content(&path, 1));
            let path = format!("/new/{}", self.next_new.fetch_add(1, Relaxed));
            self.ask(&mut connection, "new", &path).expect_body(content(&path, 1));
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The answers that were asked for and given within this time.
    fn count(&self, kind: &str, from: u64, until: u64, wanted: impl Fn(&Seen) -> bool) -> usize {
        let seen = self.seen.lock().expect("nobody panics");
        let is_it =
            |seen: &&Seen| seen.kind == kind && seen.from >= from && seen.until <= until && wanted(seen);
        seen.iter().filter(is_it).count()
    }
}

fn purge(shoal: &Shoal, purged: &Mutex<Vec<String>>, number: u64) {
    let path = format!("/old/{number}");
    let body = format!(r#"{{"url": "http://site.test{path}"}}"#);
    purged.lock().expect("nobody panics").push(path);
    let request = Request::new("POST", "/purge").field("Content-Type", "application/json");
    let answer = shoal.ask_admin(&request.body(body.as_bytes()));
    // It is gone at once, and said to be gone for good only where the disk has been told.
    assert!(
        answer.status == 200 || answer.status == 500 && answer.text().contains("does not answer"),
        "{answer:?}"
    );
}

/// Asks for all old objects: those that were purged come in their second version. Gives how many of
/// the others were hits.
fn check(shoal: &Shoal, when: &str) -> usize {
    let mut hits = 0;
    for number in 0..OLD {
        let path = format!("/old/{number}");
        let answer = shoal.get(&path);
        let version = if number < PURGED { 2 } else { 1 };
        assert!(answer.body == content(&path, version), "{path} {when}, hit: {}", answer.hit());
        hits += usize::from(number >= PURGED && answer.hit());
    }
    hits
}

fn lines(shoal: &Shoal, text: &str) -> usize {
    shoal.log().lines().filter(|line| line.contains(text)).count()
}

#[test]
fn a_disk_that_hangs_costs_hits_and_the_first_clients_three_seconds() {
    static PURGED_PATHS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let origin = library(&PURGED_PATHS);
    let setup = Setup::to(&origin).set("cache.ram", "4 MiB").set("store.disk", "56 MiB");
    let disk = match HangingDisk::mount(&setup.folder().join("store"), 80 << 20) {
        Ok(disk) => disk,
        Err(why) => return eprintln!("skipped: no disk that hangs can be made here: {why}"),
    };
    let mut shoal = setup.start();
    // Declared last, so unmounted first: a folder that is mounted on could not be removed.
    let disk = disk;
    fill(&shoal);
    let clients = Clients {
        address: shoal.address("reverse"),
        stop: AtomicBool::new(false),
        begin: Instant::now(),
        next_new: AtomicU64::new(0),
        seen: Mutex::default(),
    };
    let (hangs_from, hangs_until) = thread::scope(|scope| {
        scope.spawn(|| clients.ask_for_what_is_hot());
        for seed in 0..CLIENTS {
            let clients = &clients;
            scope.spawn(move || clients.ask_for_the_rest(seed));
        }
        let from = clients.begin.elapsed().as_millis() as u64;
        let hang = disk.hang();
        // One purge at once, which waits, and the others once it is known that the disk hangs.
        scope.spawn(|| purge(&shoal, &PURGED_PATHS, 0));
        wait::until("the disk is known to hang", || lines(&shoal, SAID) > 0);
        (1..PURGED).for_each(|number| purge(&shoal, &PURGED_PATHS, number));
        let is_known = clients.begin.elapsed().as_millis() as u64;
        wait::until("clients are served while the disk is known to hang", || {
            ["old", "new"].iter().all(|kind| clients.count(kind, is_known, u64::MAX, |_| true) > SERVED)
        });
        for number in 1..PURGED {
            let path = format!("/old/{number}");
            shoal.get(&path).expect_body(content(&path, 2));
        }
        let until = clients.begin.elapsed().as_millis() as u64;
        drop(hang);
        wait::until("the disk answers", || lines(&shoal, "the disk answers again") > 0);
        clients.stop.store(true, Relaxed);
        assert!((2500..12_000).contains(&(is_known - from)), "known after {} ms", is_known - from);
        (from, until)
    });
    expect_service(&shoal, &clients, hangs_from, hangs_until);
    check(&shoal, "when the disk answers again");
    shoal.restart();
    let hits = check(&shoal, "from the disk alone");
    // What was fetched anew while the disk did not take it is gone from it.
    assert!(hits as u64 >= (OLD - PURGED) / 2, "{hits} of {} old objects are on the disk", OLD - PURGED);
    // Before the disk is unmounted.
    shoal.kill();
    drop(disk);
}

/// Old objects on disk alone, for the most part, and hot ones in RAM.
fn fill(shoal: &Shoal) {
    let mut connection = shoal.connect();
    for (kind, count) in [("old", OLD), ("hot", HOT), ("hot", HOT), ("hot", HOT)] {
        for number in 0..count {
            let path = format!("/{kind}/{number}");
            connection.ask(&Request::get(&path), "site.test").expect_body(content(&path, 1));
        }
    }
    wait::until("every object is stored", || {
        shoal.status()["store"]["space"]["objects"].as_u64() == Some(OLD + HOT)
    });
    shoal.wait_until_written();
}

/// What clients saw, what was said and what was counted.
fn expect_service(shoal: &Shoal, clients: &Clients, from: u64, until: u64) {
    // Who waited for the disk waited three seconds.
    let is_slow = |seen: &Seen| seen.until - seen.from > 2500;
    assert_eq!(clients.count("hot", 0, u64::MAX, is_slow), 0, "RAM does not wait for the disk");
    let hits = clients.count("hot", from, until, |seen| seen.hit);
    assert!(hits > 100 && clients.count("hot", from, until, |seen| !seen.hit) == 0, "{hits} hits in RAM");
    let slow = |kind| clients.count(kind, 0, u64::MAX, is_slow) as u64;
    assert!(slow("old") + slow("new") <= CLIENTS, "{} and {} were slow", slow("old"), slow("new"));
    let longest = |seen: &Seen| seen.until - seen.from > 8000;
    assert_eq!(
        clients.count("old", 0, u64::MAX, longest),
        0,
        "nobody waits for much more than three seconds"
    );
    assert_eq!(lines(shoal, SAID), 1, "said once\n{}", shoal.log());
    assert_eq!(lines(shoal, "the disk answers again"), 1, "said once\n{}", shoal.log());
    // What each wanted to read, what it fetched instead and perhaps what it fetched before; and the
    // purge.
    let waited = shoal.metric("shoal_disk_slow_total", "");
    assert!((1..=3 * CLIENTS + 1).contains(&waited), "{waited} jobs were no longer waited for");
    assert!(shoal.metric("shoal_disk_refused_total", "") > 20);
}

const SAID: &str = "the disk has not answered";
const CLIENTS: u64 = 4;
/// Answers of each kind while the disk is known to hang.
const SERVED: usize = 20;
const HOT: u64 = 10;
/// More than RAM takes, with the rest.
const OLD: u64 = 200;
const PURGED: u64 = 10;
/// Not asked for while the disk hangs but by who purges them.
const KEPT: u64 = PURGED;

/// What an origin invalidates by group, and what the operator purges, is written down on the disk;
/// nobody but who asked for it waits there.
#[test]
fn purges_that_wait_for_a_disk_that_hangs_keep_nobody_else() {
    let origin = Origin::start();
    origin.on("/hot", Answer::fresh("hot", 600));
    let grouped = |version: &str| Answer::fresh(version, 600).field("Cache-Groups", "\"g\"");
    origin.on_each("/grouped", [grouped("1"), grouped("2")]);
    origin.on("/change", Answer::ok("done").field("Cache-Group-Invalidation", "\"g\""));
    let setup = Setup::to(&origin).set("workers", 1).set("store.disk", "56 MiB");
    let disk = match HangingDisk::mount(&setup.folder().join("store"), 80 << 20) {
        Ok(disk) => disk,
        Err(why) => return eprintln!("skipped: no disk that hangs can be made here: {why}"),
    };
    let mut shoal = setup.start();
    let disk = disk;
    for path in ["/hot", "/grouped"] {
        shoal.get(path).expect_status(200);
        shoal.get(path).expect_hit();
    }
    let hang = disk.hang();
    thread::scope(|scope| {
        let shoal = &shoal;
        scope.spawn(|| shoal.ask(&Request::new("POST", "/change")));
        for number in 0..5 {
            scope.spawn(move || shoal.ask_admin(&Request::new("POST", &format!("/purge?tag=t{number}"))));
        }
        origin.wait_for("/change", 1);
        thread::sleep(Duration::from_millis(500));
        let begin = Instant::now();
        shoal.get("/hot").expect_body("hot").expect_hit();
        shoal.get("/grouped").expect_body("2");
        shoal.ask_admin(&Request::get("/healthz")).expect_status(200);
        shoal.ask_admin(&Request::get("/metrics")).expect_status(200);
        let took = begin.elapsed();
        drop(hang);
        assert!(took < Duration::from_secs(2), "{took:?}");
    });
    shoal.kill();
    drop(disk);
}
