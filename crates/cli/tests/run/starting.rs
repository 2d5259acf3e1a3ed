//! Command lines and settings that start a node, and obstacles to a start.

use super::*;
use rustix::fs::{FlockOperation, flock};
use std::os::unix::fs::PermissionsExt;

const REQUIRED: &str = "no disk of the store can be used, and store.required asks for one";

/// Another process's store: a folder with its lock taken.
fn locked(folder: &Path) -> std::fs::File {
    std::fs::create_dir_all(folder).expect("made");
    let lock = std::fs::File::create(folder.join("lock")).expect("made");
    flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("free");
    lock
}

fn names(folder: &Path) -> Vec<std::ffi::OsString> {
    std::fs::read_dir(folder).expect("there").map(|entry| entry.expect("read").file_name()).collect()
}

#[test]
fn a_named_disk_that_cannot_be_used_is_exit_code_1() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("a-file");
    std::fs::write(&file, "no folder").expect("written");
    let taken = folder.path().join("taken");
    let _lock = locked(&taken);
    for (path, why) in [
        (file.to_str().expect("UTF-8"), "(os error "),
        (taken.to_str().expect("UTF-8"), "in use by another process"),
        ("/proc/nothing/here", "no room for 10 GB"),
        ("/dev/no-such-disk", "there is no such device"),
    ] {
        let (code, error) = failed_start(&["run", "--listen", "0", "--store", path, "--admin", "none"]);
        assert_eq!(code, Some(1), "{error}");
        for text in [path, why, REQUIRED, "--store none"] {
            assert!(error.contains(text), "{text} is not in {error}");
        }
    }
    assert_eq!(names(&taken), ["lock"], "the other's folder is left as it was");
}

#[test]
fn oversized_disk_is_refused_with_fitting_size() {
    let run = |size: &str| {
        failed_start(&["run", "--listen", "0", "--admin", "none", "--ram", "8MB", "--disk", size])
    };
    let (code, error) = run("100TB");
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("has no room for 100 TB"), "{error}");
    let fits = error.split("at most ").nth(1).and_then(|rest| rest.split(" fit").next());
    let fits = fits.unwrap_or_else(|| panic!("no number in {error}"));
    let folder = TempDir::new().expect("a folder");
    let checked = |size: &str| {
        let file = folder.path().join("shoal.toml");
        std::fs::write(&file, format!("[store]\ndisk = {size:?}\n")).expect("written");
        let output = shoal(folder.path(), &["check", "shoal.toml"]).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(0), "right on another machine: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let warned = checked("100 TB");
    assert!(
        warned.contains("shoal.toml:2:8: warning: store.disk: ") && warned.contains("at most "),
        "{warned}"
    );
    // Other processes may use some of the space meanwhile.
    let number: u64 = fits.split(' ').next().and_then(|number| number.parse().ok()).expect("a number");
    let unit = fits.split(' ').nth(1).expect("a unit");
    assert!(!checked(&format!("{} {unit}", number / 2)).contains("warning"), "half of {fits}");
}

/// The node serves from RAM meanwhile and reports this everywhere. It needs no operator when the
/// store becomes free.
#[test]
fn optional_locked_store_serves_once_free() {
    let folder = TempDir::new().expect("a folder");
    let store = folder.path().join("shoal-cache");
    let lock = locked(&store);
    let log = std::fs::File::create(folder.path().join("error.log")).expect("created");
    let configuration = CONFIGURATION.replace("[store]", "[store]\nrequired = false");
    let node = Node::start_in(folder, &configuration, log.into());
    let status =
        || String::from_utf8_lossy(&node.command(&["status", ADMIN[0], ADMIN[1]]).stdout).into_owned();
    assert!(status().contains("degraded: no store"), "{}", status());
    assert!(node.metrics().contains("\nshoal_degraded 1\n"));
    assert_eq!(names(&store), ["lock"], "the other's folder is left as it was");
    let until = Instant::now() + PATIENCE;
    while node.metrics().contains("\nshoal_store_open_retries_total 0\n") {
        assert!(Instant::now() < until, "it is not tried again");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(node.error_log().matches("this disk cannot be used").count(), 1, "{}", node.error_log());
    drop(lock);
    node.wait_for_log("the disk could be opened and is in service");
    assert!(node.metrics().contains("\nshoal_degraded 0\n"));
    assert!(status().contains(", ready, ") && !status().contains("out of service"), "{}", status());
    assert_eq!(node.notification(), "READY=1\nSTATUS=ready");
    let purged = node.command(&["purge", "--tag", "some", ADMIN[0], ADMIN[1]]);
    assert_eq!(purged.status.code(), Some(0), "{}", String::from_utf8_lossy(&purged.stderr));
}

/// Every way of writing an address, alone and over a file.
#[test]
fn options_and_a_file_go_together() {
    let folder = || {
        let folder = TempDir::new().expect("a folder");
        std::fs::write(folder.path().join("shoal.toml"), CONFIGURATION).expect("written");
        folder
    };
    let greeting = |arguments: &[&str]| {
        let folder = folder();
        let mut child = shoal(folder.path(), arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let mut text = String::new();
        let mut lines = BufReader::new(child.stdout.take().expect("piped"));
        while !text.contains("  logs ") {
            assert!(lines.read_line(&mut text).expect("readable") > 0, "{arguments:?}: {text}");
        }
        child.kill().expect("ours");
        child.wait().expect("ours");
        text
    };
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("bound");
    let port = free.port();
    for (listen, shown) in [
        (port.to_string(), format!("http://127.0.0.1:{port}\n")),
        (format!(":{port}"), format!("http://127.0.0.1:{port}, and port {port} of all IPv4 addresses\n")),
        (format!("localhost:{port}"), format!("http://127.0.0.1:{port}\n")),
    ] {
        let both = ["run", "--config", "shoal.toml", "--listen", &listen, "--ram", "9 MiB"];
        let both = greeting(&[&both[..], &["--set", "store.disk=30 MB"]].concat());
        assert!(both.contains(&shown) && both.contains("9 MiB RAM, 30 MB disk"), "{both}");
        let alone = greeting(&["run", "--listen", &listen, "--store", "none", "--admin", "none"]);
        assert!(alone.contains(&shown), "{alone}");
    }
    let two = CONFIGURATION
        .replace("[cache]", "[[listen]]\naddress = \"127.0.0.1:0\"\nmode = \"forward\"\n[cache]");
    let folder = folder();
    std::fs::write(folder.path().join("two.toml"), two).expect("written");
    for (arguments, why) in [
        (["--config", "two.toml", "--listen", "0"], "the file has 2 listeners, and this does not say which"),
        (["--config", "shoal.toml", "--to", "http://a"], "with --config write a [[site]] into the file"),
        (["--config", "shoal.toml", "--set", "cache.ram"], "write it as SETTING=VALUE"),
        (["--config", "shoal.toml", "--listen", "host:1"], "names are not looked up here"),
    ] {
        let output = shoal(folder.path(), &[&["run"][..], &arguments].concat()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(why), "{arguments:?}: {said}");
    }
}

#[test]
fn signals_that_mean_nothing_are_told_and_ignored() {
    let mut node = Node::start();
    for (signal, name) in [(Signal::ALARM, "ALRM"), (Signal::IO, "IO")] {
        node.signal(signal);
        node.wait_for_log(&format!("signal=\"{name}\""));
    }
    for signal in [Signal::PIPE, Signal::WINCH, Signal::URG, Signal::CONT] {
        node.signal(signal);
    }
    node.signal(Signal::USR1);
    node.wait_for_log("the access log was opened again");
    assert_eq!(node.child.try_wait().expect("ours"), None);
    node.signal(Signal::QUIT);
    assert_eq!(exit_code(&mut node.child), Some(0), "in order: {}", node.error_log());
    node.wait_for_log("stopped");
}

/// Other users of the machine must not see the responses sent to clients.
#[test]
fn files_of_a_node_are_for_its_user() {
    let node = Node::start();
    let mut open = Vec::new();
    let mut folders = vec![node.folder.path().join("shoal-cache")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("there").flatten() {
            let found = entry.metadata().expect("there");
            let mode = found.permissions().mode() & 0o777;
            if mode & 0o077 != 0 {
                open.push((entry.path(), mode));
            }
            if found.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    assert_eq!(open, []);
    for (name, most) in [("shoal-cache", 0o700), ("access.log", 0o640), ("admin.sock", 0o660)] {
        let mode = std::fs::metadata(node.folder.path().join(name)).expect("there").permissions().mode();
        assert_eq!(mode & 0o777 & !most, 0, "{name}: {mode:o}");
    }
}
