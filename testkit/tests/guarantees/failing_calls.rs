//! A system call to a disk fails or hangs, whichever it is: the node answers in time from what is
//! sound, and says of nothing that it is done that a restart undoes.

use shoal_testkit::seeded::body;
use shoal_testkit::shim::{Calls, Shim};
use shoal_testkit::shoal::binary;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// An origin whose content has a version, which a test raises when it purges.
struct Library {
    origin: Origin,
    version: &'static AtomicU32,
}

impl Library {
    fn open() -> Self {
        let version: &'static AtomicU32 = Box::leak(Box::default());
        let origin = Origin::start();
        origin
            .on_request("/*", |request| Answer::fresh(content(request.path(), version.load(SeqCst)), 86_400));
        Self { origin, version }
    }

    fn change(&self) {
        self.version.fetch_add(1, SeqCst);
    }

    /// The version that is served, which is one there was, and whether it is a hit.
    fn ask(&self, shoal: &Shoal, path: &str) -> (u32, bool) {
        let answer = shoal.get(path);
        let known = (0..=self.version.load(SeqCst)).rev();
        let version = known.into_iter().find(|version| answer.body == content(path, *version));
        (version.unwrap_or_else(|| panic!("{path} has a body that it never had: {answer:?}")), answer.hit())
    }
}

fn content(path: &str, version: u32) -> Vec<u8> {
    body(&format!("{path} {version}"), 3000)
}

fn path(number: usize) -> String {
    format!("/old/{number}")
}

fn fill(library: &Library, shoal: &Shoal) {
    for _ in 0..2 {
        for number in 0..OBJECTS {
            library.ask(shoal, &path(number));
        }
    }
    shoal.wait_until_written();
}

fn purge(shoal: &Shoal, path: &str) -> u16 {
    shoal.ask_admin(&Request::new("POST", &format!("/purge?url=http://site.test{path}"))).status
}

/// Whether who purged was told that it is done.
fn is_acknowledged(status: u16) -> bool {
    assert!([200, 404, 500].contains(&status), "{status}");
    status != 500
}

/// The setup with the shim over the store's folder, or that of the first of two disks.
fn setup(library: &Library, shim: &Shim, disks: usize) -> Setup {
    let setup = Setup::to(&library.origin).set("store.admission", "always").set("store.required", false);
    match disks {
        1 => setup.set("store.disk", "40 MiB").shim(shim, "store"),
        _ => setup.disks(&[("a", "40 MiB"), ("b", "40 MiB")]).shim(shim, "a"),
    }
}

fn shim() -> Option<Shim> {
    Shim::new().map_err(|why| eprintln!("skipped: no system call can be failed here: {why}")).ok()
}

#[test]
fn a_purge_that_cannot_be_written_is_not_acknowledged() {
    let Some(shim) = shim() else { return };
    for disks in [1, 2] {
        let library = Library::open();
        let mut shoal = setup(&library, &shim, disks).start();
        fill(&library, &shoal);
        library.change();
        shim.fail(Calls::Writes);
        let purged: Vec<_> = (0..OBJECTS / 2).map(|number| (number, purge(&shoal, &path(number)))).collect();
        assert!(shim.calls() > 0, "the shim has seen no write");
        let failed = purged.iter().filter(|(_, status)| *status == 500).count();
        // a secret of the store decides which of two disks an object is on
        let expected = if disks == 1 { purged.len() / 3 } else { 1 };
        assert!(failed >= expected, "{disks} disks: {failed} of {} are said to have failed", purged.len());
        for (number, _) in &purged {
            assert_eq!(library.ask(&shoal, &path(*number)).0, 1, "{number} was purged, whatever lasts of it");
        }
        shoal.kill();
        shim.heal();
        shoal.restart();
        for (number, status) in purged {
            let (version, _) = library.ask(&shoal, &path(number));
            assert!(
                version == 1 || !is_acknowledged(status),
                "{disks} disks: {number} is back after {status}"
            );
        }
        for number in OBJECTS / 2..OBJECTS {
            assert!(is_acknowledged(purge(&shoal, &path(number))), "the disk is sound again");
            assert_eq!(library.ask(&shoal, &path(number)).0, 1);
        }
    }
}

#[test]
fn a_check_of_settings_names_a_disk_that_does_not_answer() {
    let Some(shim) = shim() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (store, file) = (folder.path().join("store"), folder.path().join("shoal.toml"));
    std::fs::create_dir(&store).expect("made");
    let text = format!("[store]\ndirectory = {store:?}\ndisk = '40 MiB'\n");
    std::fs::write(&file, text).expect("written");
    let check = || {
        let output = Command::new(binary()).arg("check").arg(&file).envs(shim.environment(&store)).output();
        let output = output.expect("the binary runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = check();
    assert!(code == Some(0) && !said.contains("warning"), "{code:?} {said}");
    shim.hang_from(Calls::All, 1);
    let begun = Instant::now();
    let (code, said) = check();
    assert!(code == Some(0) && said.contains("store does not answer"), "{code:?} {said}");
    assert!(shim.calls() > 0 && begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
}

/// Starts it with the disk failing from this call on, and again with a sound one.
fn check_start(library: &Library, shim: &Shim, shoal: &mut Shoal, number: u64) {
    shoal.kill();
    library.change();
    let (of_this_round, newest) = (path(number as usize % OBJECTS), library.version.load(SeqCst));
    shim.fail_from(Calls::All, number);
    let begun = Instant::now();
    shoal.restart();
    assert_eq!(library.ask(shoal, &format!("/new/{number}")).0, newest);
    let took = begun.elapsed();
    assert!(took < IN_TIME, "{took:?} with call {number} failing on a machine that is not busy for three");
    let status = purge(shoal, &of_this_round);
    assert_eq!(library.ask(shoal, &of_this_round).0, newest, "call {number}: purged at once");
    shoal.kill();
    shim.heal();
    shoal.restart();
    let (version, is_hit) = library.ask(shoal, &of_this_round);
    assert!(
        version == newest || !is_acknowledged(status),
        "call {number}: version {version} of {newest} after {status}, hit: {is_hit}\n{}",
        shoal.log()
    );
    // Sound again, it stores again.
    fill(library, shoal);
}

/// Of the first calls of a start every third, or each with `SHOAL_EACH_CALL`, fails with all that
/// follow.
fn check_starts(disks: usize) {
    let Some(shim) = shim() else { return };
    let library = Library::open();
    let mut shoal = setup(&library, &shim, disks).start();
    fill(&library, &shoal);
    shoal.kill();
    shim.count(Calls::All);
    shoal.restart();
    let calls = shim.calls();
    assert!(calls > 20, "{calls} calls of a start were seen");
    shim.heal();
    let step = if std::env::var_os("SHOAL_EACH_CALL").is_some() { 1 } else { 3 };
    for number in (1..=CALLS.min(calls)).step_by(step) {
        check_start(&library, &shim, &mut shoal, number);
    }
}

#[test]
fn any_call_that_fails_at_the_start_leaves_ram_to_serve() {
    check_starts(1);
}

#[test]
fn any_call_that_fails_at_the_start_leaves_the_other_disk() {
    check_starts(2);
}

fn in_service(shoal: &Shoal) -> usize {
    let status = shoal.status();
    let disks = status["store"]["disks"].as_array().expect("a list").clone();
    disks.iter().filter(|disk| disk["service"] == "in_service").count()
}

/// From one of the first calls of a start on, the disk hangs; later it answers.
fn check_hanging_start(library: &Library, shim: &Shim, shoal: &mut Shoal, disks: usize, number: u64) {
    let (of_this_round, kept) = (path(0), path(1));
    fill(library, shoal);
    shoal.kill();
    library.change();
    let newest = library.version.load(SeqCst);
    shim.hang_from(Calls::All, number);
    let begun = Instant::now();
    shoal.restart();
    assert_eq!(library.ask(shoal, &format!("/new/{number}")).0, newest);
    let took = begun.elapsed();
    assert!(took < IN_TIME, "{took:?} with call {number} hanging on a machine that is not busy for three");
    let sound = in_service(shoal);
    assert!(sound >= disks - 1, "call {number}: {sound} of {disks} serve\n{}", shoal.log());
    purge(shoal, &of_this_round);
    shim.heal();
    wait::until("every disk is in service", || in_service(shoal) == disks);
    assert_eq!(library.ask(shoal, &of_this_round).0, newest, "call {number}: purged while the disk hung");
    library.ask(shoal, &kept);
}

fn check_hanging_starts(disks: usize) {
    let Some(shim) = shim() else { return };
    let library = Library::open();
    let mut shoal = setup(&library, &shim, disks).start();
    for number in HANGING {
        check_hanging_start(&library, &shim, &mut shoal, disks, number);
    }
}

#[test]
fn any_call_that_hangs_at_the_start_leaves_ram_to_serve() {
    check_hanging_starts(1);
}

#[test]
fn any_call_that_hangs_at_the_start_leaves_the_other_disk() {
    check_hanging_starts(2);
}

#[test]
fn a_disk_that_hangs_is_told_of_and_taken_out_in_time() {
    let Some(shim) = shim() else { return };
    for disks in [1, 2] {
        let library = Library::open();
        let shoal = setup(&library, &shim, disks).start();
        fill(&library, &shoal);
        shim.hang_from(Calls::All, 1);
        for number in 0..OBJECTS {
            library.ask(&shoal, &format!("/new/{number}"));
        }
        wait::until("a call hangs", || shim.calls() > 0);
        let name = if disks == 1 { "store" } else { "a" };
        let body = format!(r#"{{"path": {:?}, "online": false}}"#, shoal.folder().join(name));
        let request = Request::new("POST", "/disk").field("Content-Type", "application/json");
        let begun = Instant::now();
        let answer = shoal.ask_admin(&request.body(body.as_bytes()));
        assert!(answer.status >= 400 && answer.text().contains("does not answer"), "{answer:?}");
        assert_eq!(in_service(&shoal), disks - 1);
        shoal.metric("shoal_store_disk_in_service", "");
        assert!(begun.elapsed() < IN_TIME, "{disks} disks: {:?}", begun.elapsed());
        shim.heal();
    }
}

const OBJECTS: usize = 40;
/// Calls of a start from which on a disk hangs.
const HANGING: [u64; 5] = [1, 2, 8, 21, 55];
/// Calls of a start that are failed in turn.
const CALLS: u64 = 60;
/// Three seconds, on a machine that does other things too.
const IN_TIME: Duration = Duration::from_secs(6);
