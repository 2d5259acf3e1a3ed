//! What was purged stays away, whenever the node is killed after it has said so: by URL, by tag, by
//! an unsafe request; any architecture, one disk to three.
//!
//! Each object was stored and brought to the disk's index in one version, and replaced by another,
//! of which the index on disk knows nothing, before it is purged. `SHOAL_PURGES` sets how many
//! objects are purged in all.

use shoal_testkit::seeded::{Random, seed};
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// An origin whose objects say in which round they were fetched.
fn library(round: &Arc<AtomicU64>) -> Origin {
    let (origin, round) = (Origin::start(), Arc::clone(round));
    origin.on_request("/*", move |request| match request.method.as_str() {
        "GET" => {
            let version = format!("{} in {}", request.path(), round.load(Relaxed));
            let tag = format!("t{}", request.path().replace('/', "-"));
            Answer::fresh(version.repeat(40), 86_400).field("Cache-Tag", &tag)
        }
        _ => Answer::ok("done"),
    });
    origin
}

fn path(number: u64) -> String {
    format!("/o/{number}")
}

/// How an object is made to go. Whether that was acknowledged.
fn purge(shoal: &Shoal, number: u64) -> bool {
    let path = path(number);
    match number % 3 {
        0 => {
            let url = format!("/purge?url=http://site.test{path}");
            [200, 404].contains(&shoal.ask_admin(&Request::new("POST", &url)).status)
        }
        1 => {
            let tag = format!("/purge?tag=t{}", path.replace('/', "-"));
            shoal.ask_admin(&Request::new("POST", &tag)).status == 200
        }
        _ => shoal.ask(&Request::new("POST", &path)).status == 200,
    }
}

/// Stores, replaces, purges and kills. Gives how many purged objects were served, and how many were
/// purged.
fn course(setup: Setup, shoal_round: &Arc<AtomicU64>, rounds: u64, random: &mut Random) -> (u64, u64) {
    let mut shoal = setup.start();
    let (mut served, mut purged) = (0, 0);
    for _ in 0..rounds {
        (0..OBJECTS).for_each(|number| drop(shoal.get(&path(number))));
        // Closed in order: the index on disk has the first version.
        shoal.wait_until_written();
        if random.below(2) == 0 {
            shoal.signal(rustix::process::Signal::TERM);
            shoal.wait_for_exit(Duration::from_secs(30));
            shoal.restart();
        }
        shoal_round.fetch_add(1, Relaxed);
        let reload = |number: u64| Request::get(&path(number)).field("Cache-Control", "no-cache");
        (0..OBJECTS).for_each(|number| {
            shoal.ask(&reload(number)).expect_status(200);
        });
        thread::sleep(Duration::from_millis(random.below(1500)));
        shoal_round.fetch_add(1, Relaxed);
        let gone: Vec<u64> = (0..OBJECTS).filter(|number| purge(&shoal, *number)).collect();
        thread::sleep(Duration::from_millis(random.below(4) * 400));
        shoal.kill();
        shoal.restart();
        let now = shoal_round.load(Relaxed);
        for number in &gone {
            let text = shoal.get(&path(*number)).text();
            served += u64::from(!text.ends_with(&format!(" in {now}")));
        }
        purged += gone.len() as u64;
    }
    (served, purged)
}

#[test]
fn purged_and_killed_is_gone_in_any_store() {
    let wanted = std::env::var("SHOAL_PURGES").ok().and_then(|text| text.parse().ok()).unwrap_or(900);
    let mut random = Random::new(seed(10));
    let courses = ARCHITECTURES.len() as u64 + 2;
    let rounds = (wanted / courses / OBJECTS).max(1);
    let (mut served, mut purged) = (0, 0);
    for (at, architecture) in ARCHITECTURES.into_iter().chain(["volume"; 2]).enumerate() {
        let round = Arc::new(AtomicU64::new(0));
        let origin = library(&round);
        let setup = Setup::to(&origin)
            .set("store.architecture", architecture)
            .set("store.admission", "always")
            .set("cache.tag_fields", vec![toml::Value::from("Cache-Tag")])
            .set("log.access", "none");
        let setup = match at.checked_sub(ARCHITECTURES.len()) {
            None => setup.set("store.disk", "40 MiB"),
            Some(0) => setup.disks(&[("a", "30 MiB"), ("b", "40 MiB")]),
            Some(_) => setup.disks(&[("a", "30 MiB"), ("b", "40 MiB"), ("c", "30 MiB")]),
        };
        let (more_served, more) = course(setup, &round, rounds, &mut random);
        assert!(more > 0, "{architecture}: nothing was purged");
        eprintln!("{architecture}: {more_served} of {more} purged objects were served");
        (served, purged) = (served + more_served, purged + more);
    }
    assert_eq!(served, 0, "of {purged} purged objects");
}

const ARCHITECTURES: [&str; 9] =
    ["volume", "cern", "squid", "squid_monotonic", "squid_lowest", "squidl", "squidm", "squidml", "squidmla"];
const OBJECTS: u64 = 60;
