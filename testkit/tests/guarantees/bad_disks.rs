//! Full disks, unreadable folders, corrupt objects, corrupt indexes: a miss, a counter, a line in
//! the log, and on it runs.

use shoal_testkit::disk::{SmallDisk, files, flip, occupied, overwrite, scribble};
use shoal_testkit::seeded::{Random, body, seed};
use shoal_testkit::wait;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal};
use std::path::{Path, PathBuf};

const OBJECTS: usize = 24;

fn path(number: usize) -> String {
    format!("/object/{number}")
}

fn content(path: &str) -> Vec<u8> {
    let number: usize = path.trim_start_matches("/object/").parse().expect("objects are numbered");
    body(path, 200 + number * number * 150)
}

fn library() -> Origin {
    let origin = Origin::start();
    origin.on_request("/object/*", |request| Answer::fresh(content(request.path()), 86_400));
    origin
}

/// Fetches every object and stops once all are on disk.
fn filled(origin: &Origin) -> Shoal {
    // Files that can be harmed one by one; what becomes of a harmed volume is tried in its own
    // crate.
    let mut shoal = Setup::to(origin).set("store.architecture", "squid").start();
    for number in 0..OBJECTS {
        shoal.get(&path(number)).expect_body(content(&path(number)));
    }
    wait::until("every object is on disk", || {
        shoal.status()["store"]["space"]["objects"].as_u64() == Some(OBJECTS as u64)
    });
    shoal.wait_until_written();
    shoal.kill();
    shoal
}

/// Every object is served right; gives how many came from the cache.
fn hits(shoal: &Shoal) -> usize {
    let hit = |number: &usize| {
        let answer = shoal.get(&path(*number));
        answer.expect_body(content(&path(*number))).hit()
    };
    (0..OBJECTS).filter(hit).count()
}

fn is_index(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "index")
}

/// Whether the file holds an object: it is named by its number.
fn is_object(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.len() == 8 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn object_files(shoal: &Shoal) -> Vec<PathBuf> {
    let found = files(&shoal.store());
    let objects: Vec<_> = found.into_iter().filter(|path| is_object(path)).collect();
    // objects of other architectures than one file each would need another way to be harmed
    assert!(objects.len() >= OBJECTS, "{objects:?}");
    objects
}

#[test]
fn flipped_bytes_in_objects_are_a_miss_and_never_served() {
    let origin = library();
    let mut shoal = filled(&origin);
    let mut random = Random::new(seed(7));
    for file in object_files(&shoal) {
        let length = file.metadata().expect("the file is there").len();
        flip(&file, random.below(length), 1);
    }
    shoal.restart();
    let kept = hits(&shoal);
    // one flipped byte may fall into what nobody reads, such as padding; almost none do
    assert!(kept <= OBJECTS / 4, "{kept} objects of {OBJECTS} were served from damaged files");
    let corrupt = shoal.status()["store"]["corrupt"].as_u64().unwrap_or_default();
    assert!(corrupt >= (OBJECTS - kept) as u64 / 2, "{corrupt} counted");
    assert_eq!(hits(&shoal), OBJECTS, "what was fetched again is stored again");
}

#[test]
fn truncated_emptied_missing_and_exchanged_objects_are_misses() {
    let origin = library();
    let mut shoal = filled(&origin);
    let objects = object_files(&shoal);
    for (number, file) in objects.iter().enumerate() {
        let length = file.metadata().expect("the file is there").len();
        match number % 4 {
            0 => {
                std::fs::File::options().write(true).open(file).and_then(|opened| opened.set_len(length / 2))
            }
            1 => std::fs::write(file, b""),
            2 => std::fs::remove_file(file),
            _ => std::fs::copy(&objects[number - 3 + (number % 2)], file).map(|_| ()),
        }
        .expect("the store's files can be harmed");
    }
    shoal.restart();
    hits(&shoal);
    assert_eq!(hits(&shoal), OBJECTS);
    assert!(shoal.running());
}

#[test]
fn objects_that_change_places_are_not_mistaken_for_each_other() {
    let origin = library();
    let mut shoal = filled(&origin);
    let objects = object_files(&shoal);
    let contents: Vec<_> = objects.iter().map(|file| std::fs::read(file).expect("readable")).collect();
    for (number, file) in objects.iter().enumerate() {
        std::fs::write(file, &contents[(number + 1) % contents.len()]).expect("writable");
    }
    shoal.restart();
    assert_eq!(hits(&shoal), 0, "each file is sound, and of another key");
}

/// Harms the store's own file `name` in one way after another; the cache must serve right, and
/// store anew.
fn harm(name: &str, seed: u64) {
    for round in 0..6 {
        let origin = library();
        let mut shoal = filled(&origin);
        let mut random = Random::new(seed + round);
        let file = shoal.store().join(name);
        match round {
            0 => std::fs::write(&file, b"").expect("writable"),
            1 => std::fs::remove_file(&file).expect("removable"),
            2 => overwrite(&file, 0, &[0xff; 4096]),
            3 => overwrite(&file, 0, &[0; 64]),
            _ => scribble(&file, &mut random),
        }
        shoal.restart();
        hits(&shoal);
        assert_eq!(hits(&shoal), OBJECTS, "{name}, round {round}: the store works on");
        assert!(occupied(&shoal.store()) <= 64 << 20);
    }
}

#[test]
fn a_corrupt_index_costs_hits_and_nothing_else() {
    harm("index", seed(11));
}

#[test]
fn a_corrupt_table_of_purges_costs_hits_and_nothing_else() {
    harm("purges", seed(12));
}

#[test]
fn the_index_is_made_anew_from_the_objects_when_it_is_lost() {
    let origin = library();
    let mut shoal = filled(&origin);
    for index in files(&shoal.store()).into_iter().filter(|path| is_index(path)) {
        std::fs::remove_file(index).expect("removable");
    }
    shoal.restart();
    // reading the objects takes time, in the background
    wait::until("the objects are found again", || {
        shoal.status()["store"]["space"]["objects"].as_u64() == Some(OBJECTS as u64)
    });
    assert_eq!(hits(&shoal), OBJECTS);
    assert_eq!(origin.total(), OBJECTS);
}

#[test]
fn foreign_files_in_the_store_are_left_alone_or_swept_and_do_no_harm() {
    let origin = library();
    let mut shoal = filled(&origin);
    std::fs::write(shoal.store().join("README"), "not an object").expect("writable");
    let beside = object_files(&shoal)[0].with_file_name("FFFFFFFF");
    std::fs::write(beside, body("noise", 5_000)).expect("writable");
    shoal.restart();
    assert_eq!(hits(&shoal), OBJECTS);
}

#[test]
fn a_full_disk_is_no_reason_to_stop() {
    let origin = Origin::start();
    origin.on_request("/big/*", |request| Answer::fresh(body(request.path(), 300_000), 600));
    let setup = Setup::to(&origin).set("store.disk", "10 MiB").set("cache.ram", "4 MiB");
    let setup = setup.set("store.architecture", "squid");
    let store = setup.folder().join("store");
    let disk = match SmallDisk::mount(&store, 12 << 20) {
        Ok(disk) => disk,
        Err(why) => {
            eprintln!("skipped: no small file system can be mounted here: {why}");
            return;
        }
    };
    let shoal = setup.start();
    // declared last, so unmounted first: a folder that is mounted on could not be removed
    let _disk = disk;
    // There was room for the store when it was made, which somebody else has taken since.
    std::fs::write(shoal.store().join("of-somebody"), vec![0; 6 << 20]).expect("room for that");
    for round in 0..2 {
        for number in 0..60 {
            let path = format!("/big/{number}");
            let answer = shoal.get(&path);
            answer.expect_body(body(&path, 300_000));
            assert!(round == 1 || !answer.hit());
        }
    }
    let troubles = shoal.log().lines().filter(|line| line.to_lowercase().contains("space")).count();
    assert!((1..=5).contains(&troubles), "said once, not for each object: {troubles} lines\n{}", shoal.log());
    let counted = shoal.metric("shoal_disk_declined_total", "") + shoal.metric("shoal_disk_errors_total", "");
    assert!(counted > 0);
}

#[test]
fn a_store_that_cannot_be_used_is_done_without() {
    let origin = library();
    let setup = Setup::to(&origin);
    let file = setup.file("not-a-folder", "this is a file");
    let setup = setup.set("store.directory", file.to_string_lossy().into_owned());
    let shoal = setup.set("store.required", false).start();
    assert_eq!(shoal.ask_admin(&Request::get("/healthz")).expect_status(200).text(), "degraded: no store\n");
    assert_eq!(shoal.status()["readiness"], "degraded");
    hits(&shoal);
    assert!(shoal.log().contains("not-a-folder"), "the log names the folder\n{}", shoal.log());
    assert_eq!(std::fs::read_to_string(&file).ok().as_deref(), Some("this is a file"));
}

#[test]
fn a_store_that_vanishes_while_running_costs_hits_alone() {
    let origin = library();
    let shoal = Setup::to(&origin).set("cache.ram", "4 MiB").start();
    hits(&shoal);
    shoal.wait_until_written();
    for file in files(&shoal.store()) {
        let _ = std::fs::remove_file(file);
    }
    hits(&shoal);
    hits(&shoal);
    let mut shoal = shoal;
    assert!(shoal.running());
    shoal.restart();
    hits(&shoal);
}
