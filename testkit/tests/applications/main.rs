//! Real applications behind a node, each by its trial in `testkit/applications`: those that need no
//! more than Python, Node, Go and git. The others are run by hand: `testkit/applications/run.py`.
//!
//! The settings of a trial are a block of docs/APPLICATIONS.md. Every block of the page is checked
//! here, so that one without a trial in this suite is a file that a node takes.

use shoal_testkit::certificates::Authority;
use shoal_testkit::missing;
use shoal_testkit::shoal::binary;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn git_is_pushed_and_cloned() {
    check("git");
}

#[test]
fn grpc_streams_outlast_an_upgrade() {
    check("grpc");
}

#[test]
fn socketio_talks_by_each_way() {
    check("socketio");
}

#[test]
fn events_arrive_as_they_are_sent() {
    check("events");
}

#[test]
fn webdav_changes_are_seen_at_once() {
    check("webdav");
}

#[test]
fn live_video_is_fetched_once() {
    check("hls");
}

/// Runs a trial; one that lacks a program or package is skipped.
fn check(name: &str) {
    let asked =
        Command::new("python3").args(["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]).output();
    if !asked.is_ok_and(|output| output.status.success()) {
        return missing::skip("python3 from 3.10 on");
    }
    let mut trial = Command::new("python3");
    trial.arg("-B").arg(folder().join("run.py")).arg(name).arg("--shoal").arg(binary());
    trial.arg("--tools").arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("applications"));
    // Those of the other tests that build with Go.
    trial.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-build"));
    let output = trial.output().expect("python3 was found before");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, faults) = (text(&output.stdout), text(&output.stderr));
    match output.status.code() {
        Some(0) => println!("{said}"),
        Some(SKIPPED) => missing::skip(faults.trim()),
        code => panic!("the trial of {name} ends with {code:?}\n{said}{faults}"),
    }
}

#[test]
fn blocks_of_the_page_are_settings() {
    let page = std::fs::read_to_string(folder().join("../../docs/APPLICATIONS.md")).expect("the page");
    let place = tempfile::tempdir().expect("a folder");
    Authority::new().issue(&["site.test"]).write(place.path(), "site");
    let blocks: Vec<&str> =
        page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().expect("a block")).collect();
    assert_eq!(blocks.len(), 10, "one block for each application");
    for block in blocks {
        let at = |name: &str| place.path().join(name).to_string_lossy().into_owned();
        let text = block.replace("/etc/shoal/site", &at("site")).replace("/var/cache/shoal", &at("cache"));
        let settings = place.path().join("shoal.toml");
        std::fs::write(&settings, text).expect("written");
        let output = Command::new(binary())
            .arg("check")
            .arg(&settings)
            .env_remove("SHOAL_BIN")
            .output()
            .expect("the binary starts");
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        // The page's disks are larger than this machine's may be.
        let mut warnings =
            said.lines().filter(|line| line.contains("warning") && !line.contains("has no room"));
        assert!(output.status.success() && warnings.next().is_none(), "{block}\n{said}");
    }
}

/// Each row of the page's table leads to a section, and names a trial.
#[test]
fn trials_are_those_of_the_page() {
    let run = std::fs::read_to_string(folder().join("run.py")).expect("the command");
    let named = run.split("TRIALS = {").nth(1).and_then(|rest| rest.split('}').next()).expect("the trials");
    let modules: Vec<&str> = named.split('"').skip(3).step_by(4).collect();
    assert_eq!(modules.len(), 10, "{modules:?}");
    for module in modules {
        assert!(folder().join(format!("{module}.py")).exists(), "{module}");
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("applications")
}

/// Exit code of a trial whose application is not installed.
const SKIPPED: i32 = 3;
