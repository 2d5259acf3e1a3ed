//! `shoal replay` on disks that cannot be used, fill up, or are taken away in mid-run: path and
//! cause are told, what was measured is kept, and nothing of others is touched.

use super::architectures::{ARCHITECTURES, contents};
use serde_json::Value;
use shoal_testkit::disk::SmallDisk;
use shoal_testkit::shoal::binary;
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A replay of a trace into a folder; `more` is added to the command.
fn replay(trace: &Path, store: &Path, architecture: &str, more: &[&str]) -> Command {
    replay_by(binary(), trace, store, architecture, more)
}

/// The same by the binary at another path.
fn replay_by(program: &Path, trace: &Path, store: &Path, architecture: &str, more: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.arg("replay").arg(trace).arg("--dir").arg(store);
    command.args(["--json", "--architecture", architecture]).args(more);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(mut command: Command) -> Output {
    command.output().expect("the binary runs")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim_end().to_owned()
}

/// The last line of what was told, and the report that was kept.
fn broken_off(output: &Output, what: &str) -> (String, Value) {
    let told = told(output);
    assert_eq!(output.status.code(), Some(1), "{what}: {told}");
    let report = serde_json::from_slice(&output.stdout);
    let report: Value = report.unwrap_or_else(|error| panic!("{what}: {error}: {told}"));
    assert_eq!(report["end"], "failed", "{what}");
    (told.lines().last().unwrap_or_default().to_owned(), report)
}

fn requests(report: &Value) -> u64 {
    let of = |part: &str| report["parts"][part]["requests"].as_u64().unwrap_or(0);
    of("warm_up") + of("measured")
}

/// Requests for objects of which each is asked for once, of 100 bytes to 40 KB.
fn trace(folder: &Path, objects: u64) -> PathBuf {
    let mut text = String::new();
    for number in 0..objects {
        let bytes = 100 + number * number % 40_000;
        writeln!(text, "http://h{}.example/{number} {bytes}", number % 9).expect("a string takes all");
    }
    let file = folder.join("trace.txt");
    std::fs::write(&file, text).expect("writable");
    file
}

/// A file system of 12 MiB; says so where none can be mounted.
fn small_disk(folder: &Path) -> Option<SmallDisk> {
    let mounted = SmallDisk::mount(folder, 12 << 20);
    mounted.inspect_err(|why| eprintln!("skipped: no small file system can be mounted here: {why}")).ok()
}

#[test]
fn a_disk_that_is_full_ends_the_run_with_what_was_measured() {
    for architecture in ARCHITECTURES {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let disk = folder.path().join("disk");
        let Some(_mounted) = small_disk(&disk) else { return };
        let trace = trace(folder.path(), 4000);
        // The store is told of more than there is.
        let more =
            ["--warm-up", "50", "--disk-bytes", "400 MB", "--segments", "1 MB", "--max-objects", "8000"];
        let output = run(replay(&trace, &disk, architecture, &more));
        if architecture == "volume" {
            // Its space is taken when it is made, and is what the disk has: it never runs out in
            // mid-run.
            assert_eq!(output.status.code(), Some(0), "{}", told(&output));
            let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(requests(&report), 4000);
            assert!(report["store"]["bytes"].as_u64().is_some_and(|bytes| bytes <= 12 << 20), "{report}");
            continue;
        }
        let (last, report) = broken_off(&output, architecture);
        assert!(last.contains("disk: could not ") && last.contains("space"), "{architecture}: {last}");
        let done = requests(&report);
        assert!((100..1500).contains(&done), "{architecture}: {done} requests");
        assert!(last.ends_with(&format!("the figures are those of the first {done} requests")), "{last}");
    }
}

#[test]
fn a_mapped_file_that_the_disk_has_no_room_for_is_told_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let disk = folder.path().join("disk");
    let Some(_mounted) = small_disk(&disk) else { return };
    let trace = trace(folder.path(), 400);
    for architecture in ["squidm", "squidml", "squidmla"] {
        let store = disk.join(architecture);
        std::fs::create_dir(&store).expect("made");
        // Otherwise a store through the mapping would end the process, when the disk has no page
        // for it.
        let more = ["--disk-bytes", "400 MB", "--segments", "100 MB", "--max-objects", "1000"];
        let output = run(replay(&trace, &store, architecture, &more));
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{architecture}");
        let told = told(&output);
        assert!(told.contains(&format!("disk/{architecture}: ")) && told.contains("space"), "{told}");
    }
}

#[test]
fn a_permission_lost_in_mid_run_is_told_with_the_path() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: another user can be had by root only");
        return;
    }
    // The folder in which it was built may be closed to others.
    let home = readable_by_all();
    let program = home.path().join("shoal");
    std::fs::hard_link(binary(), &program)
        .or_else(|_| std::fs::copy(binary(), &program).map(drop))
        .expect("the binary can be had elsewhere");
    for architecture in ["cern", "squid", "squid_monotonic", "squid_lowest", "squidl"] {
        let folder = readable_by_all();
        let trace = trace(folder.path(), 60_000);
        let store = folder.path().join("store");
        std::fs::create_dir(&store).expect("made");
        std::os::unix::fs::chown(&store, Some(NOBODY), Some(NOBODY)).expect("root may");
        let mut command = replay_by(&program, &trace, &store, architecture, &["--warm-up", "10"]);
        let mut child = match command.uid(NOBODY).gid(NOBODY).spawn() {
            Ok(child) => child,
            Err(error) => {
                eprintln!("skipped: nobody may not run the binary: {error}");
                return;
            }
        };
        wait_for_objects(&mut child, &store);
        forbid(&store);
        let output = child.wait_with_output().expect("an end");
        let (last, report) = broken_off(&output, architecture);
        assert!(last.contains("store: could not "), "{architecture}: {last}");
        assert!(last.contains("Permission denied"), "{architecture}: {last}");
        let done = requests(&report);
        assert!((10..60_000).contains(&done), "{architecture}: {done} requests");
        assert!(last.ends_with(&format!("the figures are those of the first {done} requests")), "{last}");
    }
}

fn readable_by_all() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("ours");
    folder
}

/// Until some objects are stored.
fn wait_for_objects(child: &mut Child, store: &Path) {
    let limit = Instant::now() + Duration::from_secs(20);
    while shoal_testkit::disk::files(store).len() < 60 {
        let ended = child.try_wait().expect("it can be asked");
        assert!(ended.is_none() && Instant::now() < limit, "no objects come: {ended:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Takes every folder below away from all but root.
fn forbid(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            forbid(&entry.path());
            let _ = std::os::unix::fs::chown(entry.path(), Some(0), Some(0));
            let _ = std::fs::set_permissions(entry.path(), PermissionsExt::from_mode(0o700));
        }
    }
}

#[test]
fn no_architecture_takes_the_store_of_another() {
    for maker in ARCHITECTURES {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let trace = trace(folder.path(), 40);
        let store = folder.path().join("store");
        std::fs::create_dir(&store).expect("made");
        let room = ["--disk-bytes", "64 MB", "--max-objects", "1000"];
        let made = run(replay(&trace, &store, maker, &room));
        assert_eq!(made.status.code(), Some(0), "{maker}: {}", told(&made));
        let before = contents(&store);
        for other in ARCHITECTURES.into_iter().filter(|other| *other != maker) {
            let refused = run(replay(&trace, &store, other, &room));
            let told = told(&refused);
            assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0), "{maker}, {other}");
            assert!(told.contains("store: ") && told.contains(maker), "{other}: {told}");
            assert_eq!(told.lines().count(), 1, "{told}");
            assert!(contents(&store) == before, "{maker} opened as {other}: something is touched");
        }
    }
}

#[test]
fn a_folder_that_is_missing_or_closed_is_told_by_name() {
    let folder = readable_by_all();
    let trace = trace(folder.path(), 10);
    for architecture in ARCHITECTURES {
        let absent = folder.path().join("absent");
        let output = run(replay(&trace, &absent, architecture, &[]));
        assert_eq!(output.status.code(), Some(1));
        let told = told(&output);
        assert!(told.contains("absent: No such file or directory"), "{architecture}: {told}");
        assert!(!absent.exists(), "{architecture}");
    }
}

/// The user that owns nothing.
const NOBODY: u32 = 65_534;
