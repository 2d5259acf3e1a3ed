//! A node starts whatever its disks do: it answers from what is sound within three seconds, and
//! takes up the rest when that answers.

use shoal_testkit::hanging_disk::HangingDisk;
use shoal_testkit::seeded::body;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A process that writes to a disk that hangs, so that whoever reads from it waits too.
struct Writing(Child);

impl Writing {
    fn to(folder: &Path) -> Self {
        let script = "dd if=/dev/zero of=\"$0\" bs=64k count=4 conv=fsync status=none";
        let child = Command::new("sh").args(["-c", script]).arg(folder.join("lost+found/x")).spawn();
        // The page cache would answer in the disk's place.
        let dropped = std::fs::write("/proc/sys/vm/drop_caches", "3");
        dropped.expect("whoever may mount may do that");
        Self(child.expect("there is a shell"))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn content(path: &str) -> Vec<u8> {
    body(path, 3000)
}

fn library() -> Origin {
    let origin = Origin::start();
    origin.on_request("/*", |request| Answer::fresh(content(request.path()), 86_400));
    origin
}

fn ask_all(shoal: &Shoal) -> usize {
    let hits = (0..OBJECTS).filter(|number| {
        let path = format!("/old/{number}");
        let response = shoal.get(&path);
        response.expect_body(content(&path));
        response.hit()
    });
    hits.count()
}

/// Asks for each until it is on the disk, whatever the admission.
fn fill(shoal: &Shoal) {
    ask_all(shoal);
    ask_all(shoal);
    shoal.wait_until_written();
}

fn purge(shoal: &Shoal, number: usize) -> u16 {
    shoal.ask_admin(&Request::new("POST", &format!("/purge?url=http://site.test/old/{number}"))).status
}

fn in_service(shoal: &Shoal) -> usize {
    let status = shoal.status();
    let disks = status["store"]["disks"].as_array().expect("a list").clone();
    disks.iter().filter(|disk| disk["service"] == "in_service").count()
}

/// Starts it, and checks that it answers in time.
fn starts_in_time(shoal: &mut Shoal) {
    let begun = Instant::now();
    shoal.restart();
    let first = shoal.get("/new");
    first.expect_body(content("/new"));
    let took = begun.elapsed();
    assert!(
        took < Duration::from_secs(6),
        "{took:?} on a machine that is not busy for three\n{}",
        shoal.log()
    );
}

#[test]
fn a_disk_that_hangs_at_the_start_comes_into_service_later() {
    let origin = library();
    let setup = Setup::to(&origin)
        .set("store.disk", "56 MiB")
        .set("store.admission", "always")
        .set("store.required", false);
    let store = setup.folder().join("store");
    let disk = match HangingDisk::mount(&store, 80 << 20) {
        Ok(disk) => disk,
        Err(why) => return eprintln!("skipped: no disk that hangs can be made here: {why}"),
    };
    let mut shoal = setup.start();
    fill(&shoal);
    shoal.kill();
    let hang = disk.hang();
    let writing = Writing::to(&store);
    starts_in_time(&mut shoal);
    assert!(shoal.log().contains("does not answer"), "{}", shoal.log());
    assert_eq!(in_service(&shoal), 0);
    assert_eq!(ask_all(&shoal), 0, "the disk is not asked");
    assert!(ask_all(&shoal) > 0, "RAM serves");
    drop(hang);
    drop(writing);
    wait::until("the disk is in service", || in_service(&shoal) == 1);
    shoal.kill();
    drop(disk);
}

#[test]
fn of_two_disks_the_one_that_answers_serves() {
    let origin = library();
    let setup = Setup::to(&origin)
        .disks(&[("a", "40 MiB"), ("b", "40 MiB")])
        .set("store.admission", "always")
        .set("cache.ram", "8 MiB");
    let hanging = setup.folder().join("a");
    let disk = match HangingDisk::mount(&hanging, 80 << 20) {
        Ok(disk) => disk,
        Err(why) => return eprintln!("skipped: no disk that hangs can be made here: {why}"),
    };
    let mut shoal = setup.start();
    fill(&shoal);
    shoal.kill();
    let hang = disk.hang();
    let writing = Writing::to(&hanging);
    starts_in_time(&mut shoal);
    assert_eq!(in_service(&shoal), 1, "{}", shoal.log());
    let served = (OBJECTS / 5..OBJECTS).filter(|number| shoal.get(&format!("/old/{number}")).hit()).count();
    assert!(served > OBJECTS / 10, "{served} of the sound disk's objects are served");
    // Purged from a disk that does not answer: that is not said to last.
    let purged: Vec<u16> = (0..OBJECTS / 5).map(|number| purge(&shoal, number)).collect();
    assert!(purged.iter().all(|status| [200, 404, 500].contains(status)), "{purged:?}");
    drop(hang);
    drop(writing);
    wait::until("the disk is in service", || in_service(&shoal) == 2);
    let hits = (0..OBJECTS / 5).filter(|number| shoal.get(&format!("/old/{number}")).hit()).count();
    assert_eq!(hits, 0, "what was purged meanwhile is gone");
    shoal.kill();
    drop(disk);
}

#[test]
fn whatever_stands_in_place_of_a_file_does_not_stop_the_start() {
    for name in ["architecture", "lock", "volume", "volume.index", "purges"] {
        for kind in ["pipe", "socket", "folder"] {
            let origin = library();
            let mut shoal =
                Setup::to(&origin).set("store.disk", "40 MiB").set("store.required", false).start();
            fill(&shoal);
            shoal.kill();
            let path = shoal.store().join(name);
            std::fs::remove_file(&path).expect("it was there");
            match kind {
                "pipe" => drop(Command::new("mkfifo").arg(&path).status().expect("there is mkfifo")),
                "socket" => drop(UnixListener::bind(&path).expect("a short path")),
                _ => std::fs::create_dir(&path).expect("made"),
            }
            starts_in_time(&mut shoal);
            assert_eq!(ask_all(&shoal), 0, "{kind} for {name}: what cannot be vouched for is not served");
            assert!(shoal.log().contains("ERROR"), "{kind} for {name} is told\n{}", shoal.log());
        }
    }
}

/// As a disk does that cannot deliver a page of a mapped file.
#[test]
fn an_index_that_cannot_be_read_costs_hits_and_no_process() {
    for (architecture, index) in [("volume", "volume.index"), ("squid", "index"), ("squidm", "index")] {
        let origin = library();
        let mut shoal = Setup::to(&origin)
            .set("store.disk", "40 MiB")
            .set("store.architecture", architecture)
            .set("store.admission", "always")
            .set("cache.ram_object_max", "1 B")
            .start();
        fill(&shoal);
        shoal.restart();
        let path = shoal.store().join(index);
        let file = std::fs::File::options().write(true).open(&path).expect("it is there");
        let length = file.metadata().expect("there").len();
        file.set_len(length / 8192 * 4096).expect("cut off");
        for _ in 0..2 {
            ask_all(&shoal);
        }
        assert!(shoal.running(), "{architecture}\n{}", shoal.log());
        shoal.kill();
        shoal.restart();
        ask_all(&shoal);
        assert!(ask_all(&shoal) > 0, "{architecture}: it serves again\n{}", shoal.log());
    }
}

const OBJECTS: usize = 60;
