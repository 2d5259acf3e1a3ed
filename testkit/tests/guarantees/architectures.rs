//! Every cache architecture runs in the proxy: what was stored is served, after a kill too; limits
//! hold; a store is never taken for another architecture's.

use shoal_testkit::disk::{files, occupied};
use shoal_testkit::seeded::body;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Origin, Setup, Shoal};
use std::path::Path;
use std::time::Duration;

/// The test kit knows of the binary only what an operator knows; that these are all is asked of the
/// binary below.
pub(crate) const ARCHITECTURES: [&str; 9] =
    ["volume", "cern", "squid", "squid_monotonic", "squid_lowest", "squidl", "squidm", "squidml", "squidmla"];

/// Bodies of all ways to be kept: nothing, in segments of each size, just above them, in several
/// buffers.
const SIZES: [usize; 9] = [0, 300, 900, 1_800, 3_500, 7_000, 9_000, 70_000, 400_000];
const OBJECTS: usize = 45;

fn path(number: usize) -> String {
    format!("/folder{}/object{number}.html", number % 4)
}

fn content(path: &str) -> Vec<u8> {
    let digits: String =
        path.rsplit('/').next().unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
    let number: usize = digits.parse().expect("objects are numbered");
    body(path, SIZES[number % SIZES.len()])
}

fn library() -> Origin {
    let origin = Origin::start();
    origin.on_request("/*", |request| Answer::fresh(content(request.path()), 86_400).field("ETag", "\"1\""));
    origin
}

fn setup(origin: &Origin, architecture: &str) -> Setup {
    Setup::to(origin).set("store.architecture", architecture).set("store.admission", "always")
}

/// How many of the objects are served from the cache; all are served right.
fn hits(shoal: &Shoal) -> usize {
    let hit = |number: &usize| {
        let answer = shoal.get(&path(*number));
        answer.expect_body(content(&path(*number))).hit()
    };
    (0..OBJECTS).filter(hit).count()
}

fn all_on_disk(shoal: &Shoal) {
    wait::until("every object is on disk", || {
        shoal.status()["store"]["space"]["objects"].as_u64() == Some(OBJECTS as u64)
    });
}

fn restart(shoal: &mut Shoal, architecture: &str) {
    match architecture {
        "volume" => shoal.restart_and_find_all(),
        _ => shoal.restart(),
    }
}

#[test]
fn what_is_stored_is_served_again_and_after_a_kill() {
    for architecture in ARCHITECTURES {
        let origin = library();
        let mut shoal = setup(&origin, architecture).start();
        assert_eq!(shoal.status()["store"]["architecture"], architecture);
        assert_eq!((hits(&shoal), hits(&shoal)), (0, OBJECTS), "{architecture}");
        all_on_disk(&shoal);
        // Waits until the last are on disk and kills: RAM is empty then, and all comes from the
        // disk.
        restart(&mut shoal, architecture);
        assert_eq!(hits(&shoal), OBJECTS, "{architecture}, after a kill");
        assert_eq!(origin.total(), OBJECTS, "{architecture}");
        assert_eq!(shoal.status()["store"]["corrupt"].as_u64(), Some(0), "{architecture}");
    }
}

#[test]
fn validations_and_purges_reach_what_is_on_disk() {
    for architecture in ARCHITECTURES {
        let origin = Origin::start();
        origin.on_request("/*", |request| match request.fields.first("If-None-Match") {
            Some(_) => Answer::new(304).field("Cache-Control", "max-age=1000").field("ETag", "\"1\""),
            None => {
                Answer::ok(content(request.path())).field("Cache-Control", "max-age=1").field("ETag", "\"1\"")
            }
        });
        let mut shoal = setup(&origin, architecture).start();
        hits(&shoal);
        all_on_disk(&shoal);
        std::thread::sleep(Duration::from_millis(2100));
        // All are stale: each is validated once, and its new lifetime written beside it.
        hits(&shoal);
        assert_eq!(origin.total(), 2 * OBJECTS, "{architecture}");
        restart(&mut shoal, architecture);
        assert_eq!((hits(&shoal), origin.total()), (OBJECTS, 2 * OBJECTS), "{architecture}");
    }
}

#[test]
fn the_disk_limit_holds_with_every_architecture() {
    const LIMIT: u64 = 8 << 20;
    for architecture in ARCHITECTURES {
        let origin = Origin::start();
        origin.on_request("/*", |request| Answer::fresh(body(request.path(), 30_000), 600));
        let shoal = setup(&origin, architecture).set("store.disk", "8 MiB").set("cache.ram", "4 MiB").start();
        let mut most = 0;
        for number in 0..400 {
            let path = format!("/h{}/{number}", number % 7);
            shoal.get(&path).expect_body(body(&path, 30_000));
            if number % 20 == 0 {
                most = most.max(occupied(&shoal.store()));
            }
        }
        assert!(most <= LIMIT, "{architecture}: {most} bytes of blocks");
        // With `cern` a walk that begins within a second gives objects up.
        wait::until("something is given up", || {
            shoal.status()["store"]["evictions"].as_u64().is_some_and(|count| count > 0)
        });
    }
}

#[test]
fn a_store_is_never_taken_for_anothers() {
    let origin = library();
    for (maker, other) in [
        ("squid", "squidl"),
        ("squidm", "squidmla"),
        ("cern", "volume"),
        ("volume", "squid"),
        ("squidl", "cern"),
    ] {
        let mut shoal = setup(&origin, maker).set("store.required", false).start();
        hits(&shoal);
        all_on_disk(&shoal);
        shoal.restart();
        shoal.kill();
        let before = contents(&shoal.store());
        shoal.change(|text| text.replace(&format!("\"{maker}\""), &format!("\"{other}\"")));
        shoal.restart();
        // Served without a store, and told why.
        hits(&shoal);
        let log = shoal.log();
        assert!(log.contains(maker) && log.contains(other), "{maker} opened as {other}:\n{log}");
        assert_eq!(contents(&shoal.store()), before, "{maker} opened as {other}: nothing is touched");
    }
}

/// Every file of a store with its bytes, but what every architecture has beside its own.
pub(crate) fn contents(store: &Path) -> Vec<(String, Vec<u8>)> {
    let shown = |path: std::path::PathBuf| {
        let name = path.strip_prefix(store).ok()?.to_string_lossy().into_owned();
        let is_shared = ["purges", "lock"].contains(&name.as_str());
        (!is_shared).then(|| (name, std::fs::read(&path).unwrap_or_default()))
    };
    files(store).into_iter().filter_map(shown).collect()
}

#[test]
fn these_are_all_architectures() {
    let output = std::process::Command::new(shoal_testkit::shoal::binary())
        .args(["replay", "-", "--dir", ".", "--architecture", "?"])
        .stdin(std::process::Stdio::null())
        .output()
        .expect("the binary runs");
    let told = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let known = told.rsplit(": ").next().unwrap_or_default();
    assert_eq!(known.split(", ").collect::<Vec<_>>(), ARCHITECTURES);
}
