//! A new process takes over a running node: no connection is refused, no request fails, nothing
//! stored is lost. If it does not come up, the running one goes on.

use rustix::process::Signal;
use shoal_testkit::cluster::{joined, members, peers, setup};
use shoal_testkit::shoal::binary;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Gate, Origin, Request, Response, Setup, Shoal};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A script in the node's folder, as the program of an upgrade.
fn script(shoal: &Shoal, name: &str, text: &str) -> PathBuf {
    let path = shoal.folder().join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a temporary folder takes files");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
    path
}

/// Returns `true` if the response announces the end of its connection.
fn closes(response: &Response) -> bool {
    response.fields.joined("connection").eq_ignore_ascii_case("close")
}

#[test]
fn upgrade_keeps_connections_and_stored_objects() {
    let origin = Origin::start();
    let gate = Gate::new();
    origin.on("/a", Answer::fresh("body", 600));
    origin.on("/long", Answer::fresh("first ", 600).wait_for(&gate).piece("second"));
    let mut shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_body("body");
    let mut idle: Vec<Connection> = (0..3).map(|_| shoal.connect()).collect();
    for client in &mut idle {
        client.ask(&Request::get("/a"), "site.test").expect_hit();
    }
    let mut busy = shoal.connect();
    busy.send(Request::get("/long").to_bytes("site.test"));
    assert!(busy.head().is_ok());
    assert_eq!(busy.exactly(6), Ok(b"first ".to_vec()));

    let told = shoal.upgrade(None).expect("it takes over");
    assert!(told.contains("upgraded from shoal"), "{told}");
    assert_ne!(shoal.node_pid(), shoal.pid(), "another process is the node");
    shoal.get("/a").expect_body("body").expect_hit();
    for client in &mut idle {
        let response = client.ask(&Request::get("/a"), "site.test");
        response.expect_body("body").expect_hit();
        assert!(closes(&response));
        assert!(client.closes());
    }
    assert!(shoal.running(), "a response is still being sent");
    gate.open();
    assert_eq!(busy.exactly(6), Ok(b"second".to_vec()));
    // The head was sent before the upgrade: the connection may have one more request.
    let last = busy.ask(&Request::get("/a"), "site.test");
    last.expect_body("body");
    assert!(closes(&last));
    let status = shoal.wait_for_exit(Duration::from_secs(20)).expect("it ends when all is sent");
    assert_eq!(status.code(), Some(0), "{}", shoal.log());
    // The object came too late for the old process's store: the new one stores it.
    wait::until("the late object is stored", || shoal.get("/long").fields.has("age"));
    shoal.get("/long").expect_body("first second").expect_hit();
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn usr2_asks_for_an_upgrade() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 600));
    let mut shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_body("body");
    shoal.signal(Signal::USR2);
    wait::until("another process is the node", || shoal.node_pid() != shoal.pid());
    shoal.follow_upgrade();
    shoal.get("/a").expect_body("body").expect_hit();
    assert!(shoal.wait_for_exit(Duration::from_secs(20)).is_some(), "the old process ends");
}

/// Exits at once, hangs, bad settings, a store that it cannot open: in each phase.
#[test]
fn program_that_fails_leaves_the_node() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("body", 600));
    let mut shoal = Setup::to(&origin).set("upgrade_timeout", "1500ms").start();
    shoal.get("/a").expect_body("body");
    let hangs = script(&shoal, "hangs", "exec sleep 60");
    let real = binary().display().to_string();
    let foreign = script(&shoal, "foreign", &format!("SHOAL_STORE__ARCHITECTURE=squid exec {real} \"$@\""));
    let mistaken = script(&shoal, "mistaken", &format!("SHOAL_WORKERS=many exec {real} \"$@\""));
    let few = script(&shoal, "few", &format!("ulimit -n 14; exec {real} \"$@\""));
    let absent = shoal.folder().join("absent");
    for (program, why) in [
        (PathBuf::from("/bin/false"), "ended before it was ready"),
        (hangs, "not ready in time"),
        (mistaken, "SHOAL_WORKERS"),
        (foreign, "set the architecture to volume"),
        (few, "goes on"),
        (absent, "cannot start"),
    ] {
        let refusal = shoal.upgrade(Some(&program)).expect_err("it cannot take over");
        assert!(refusal.contains("goes on") && refusal.contains(why), "{}: {refusal}", program.display());
        assert_eq!(shoal.node_pid(), shoal.pid());
        shoal.get("/a").expect_body("body").expect_hit();
        assert_eq!(shoal.status()["readiness"], "ready");
        // The store takes new objects as before.
        let fresh = format!("/{}", program.file_name().expect("a name").to_string_lossy());
        shoal.get(&fresh).expect_body("body");
        shoal.ask_admin(&Request::new("POST", "/purge?url=http://site.test/none")).expect_status(200);
    }
    shoal.upgrade(None).expect("the right program takes over");
    for path in ["/a", "/false", "/hangs", "/mistaken", "/foreign", "/few", "/absent"] {
        shoal.get(path).expect_body("body").expect_hit();
    }
}

#[test]
fn mistake_in_the_settings_is_told() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 600));
    let mut shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_body("body");
    shoal.change(|text| format!("nonsense = true\n{text}"));
    let refusal = shoal.upgrade(None).expect_err("the settings have a mistake");
    assert!(refusal.contains("nonsense"), "{refusal}");
    shoal.get("/a").expect_body("body").expect_hit();
}

/// Connections that wait in the kernel's queue are served by the new process.
#[test]
fn waiting_connections_are_served() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 600));
    let mut shoal = Setup::to(&origin).set("max_connections", 1).start();
    let mut only = shoal.connect();
    only.ask(&Request::get("/a"), "site.test").expect_body("body");
    let mut queued: Vec<Connection> = (0..8).map(|_| shoal.connect()).collect();
    let last = Request::get("/a").field("Connection", "close").to_bytes("site.test");
    queued.iter_mut().for_each(|client| client.send(&last));
    shoal.upgrade(None).expect("it takes over");
    for mut client in queued {
        client.response("GET").expect_body("body");
    }
    only.ask(&Request::get("/a"), "site.test").expect_body("body");
}

/// A purge reaches both processes, whichever has the connection.
#[test]
fn purges_hold_during_the_hand_over() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("body", 600));
    let mut shoal = Setup::to(&origin).start();
    for path in ["/a", "/b", "/c"] {
        shoal.get(path).expect_body("body");
        shoal.get(path).expect_hit();
    }
    let (mut idle, mut other) = (shoal.connect(), shoal.connect());
    idle.ask(&Request::get("/a"), "site.test").expect_hit();
    other.ask(&Request::get("/b"), "site.test").expect_hit();
    shoal.upgrade(None).expect("it takes over");
    shoal.ask_admin(&Request::new("POST", "/purge?url=http://site.test/a")).expect_status(200);
    wait::until("the purge reaches the old process", || origin.count("/a") == 1);
    std::thread::sleep(Duration::from_millis(200));
    idle.ask(&Request::get("/a"), "site.test").expect_body("body");
    assert_eq!(origin.count("/a"), 2, "the old process has not served what was purged");
    // An unsafe request through the old process invalidates in the new one.
    other.ask(&Request::new("POST", "/b").body(b"x"), "site.test");
    wait::until("the new process has removed it", || {
        shoal.get("/b");
        origin.count("/b") >= 3
    });
    shoal.get("/c").expect_hit();
}

/// Systemd's way: listening sockets are there before the node, and clients may wait in them.
#[test]
fn passed_sockets_are_served() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 600));
    let setup = Setup::to(&origin);
    let listener = TcpListener::bind(setup.address("reverse")).expect("a free address");
    let mut waiting = Connection::open(setup.address("reverse"));
    waiting.send(Request::get("/a").to_bytes("site.test"));
    let settings = setup.file("passed.toml", &setup.text());
    let line = format!(
        "exec 3<&0; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web; exec {} run --config {}",
        binary().display(),
        settings.display()
    );
    let log = std::fs::File::create(setup.folder().join("passed.log")).expect("a file");
    let same = log.try_clone().expect("a handle");
    let mut child = Command::new("sh")
        .args(["-c", &line])
        .current_dir(setup.folder())
        .env_remove("SHOAL_BIN")
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)))
        .stdout(same)
        .stderr(log)
        .spawn()
        .expect("a shell");
    waiting.response("GET").expect_body("body");
    let mut second = Connection::open(setup.address("reverse"));
    second.ask(&Request::get("/a"), "site.test").expect_body("body").expect_hit();
    wait::end(&mut child);
}

#[test]
fn lame_duck_is_told_while_clients_are_accepted() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 600));
    let mut shoal = Setup::to(&origin).set("drain.lame_duck", "3s").start();
    shoal.get("/a").expect_body("body");
    let begun = Instant::now();
    shoal.signal(Signal::TERM);
    let health = || shoal.ask_admin(&Request::get("/healthz")).status;
    wait::until("the health check turns", || health() == 503);
    if begun.elapsed() < Duration::from_secs(2) {
        shoal.get("/a").expect_body("body").expect_hit();
    }
    assert_eq!(shoal.wait_for_exit(Duration::from_secs(30)).and_then(|status| status.code()), Some(0));
    assert!(begun.elapsed() >= Duration::from_secs(3));
}

/// The other nodes notice nothing: the node keeps its place and its objects.
#[test]
fn node_of_a_cluster_passes_too() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("there", 600));
    let addresses = peers(2);
    let node = |own| setup(&origin, own, &addresses).set("store.admission", "always").start();
    let mut nodes = joined(vec![node(addresses[0]), node(addresses[1])]);
    for number in 0..30 {
        nodes[1].get(&format!("/{number}")).expect_body("there");
    }
    nodes[0].upgrade(None).expect("it takes over");
    wait::until("both see both", || nodes.iter().all(|node| members(node) == 2));
    for number in 30..60 {
        nodes[1].get(&format!("/{number}")).expect_body("there");
        nodes[0].get(&format!("/{number}")).expect_body("there");
    }
    let fetched = (30..60).map(|number| origin.count(&format!("/{number}"))).sum::<usize>();
    // For a second or so the new process may not have compared its purges with the other node's.
    assert!((30..40).contains(&fetched), "each object is fetched once by the two: {fetched}");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        assert_eq!(members(&nodes[1]), 2, "nobody has left");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The small form of `bench/upgrade.py`.
#[test]
fn load_through_upgrades_loses_nothing() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("body", 3600));
    let mut shoal = Setup::to(&origin).start();
    let address = shoal.address("reverse");
    let (is_over, next, failures) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let ask = |client: &mut Connection, path: &str| {
        client.send(Request::get(path).to_bytes("site.test"));
        client.try_response("GET").is_ok_and(|response| response.status == 200 && response.body == b"body")
    };
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (is_over, next, failures) = (&is_over, &next, &failures);
            scope.spawn(move || {
                let mut client: Option<Connection> = None;
                let mut asked = 0;
                while !is_over.load(SeqCst) {
                    let path = format!("/{}", next.fetch_add(1, SeqCst) % 400);
                    let mut own = client.take().unwrap_or_else(|| Connection::open(address));
                    own.send(Request::get(&path).to_bytes("site.test"));
                    let response = own.try_response("GET");
                    asked += 1;
                    match response {
                        Ok(response) if response.status == 200 && response.body == b"body" => {
                            // Half of the clients open a connection for each request.
                            client = Some(own).filter(|_| !closes(&response) && number % 2 == 0);
                        }
                        other => {
                            eprintln!("{path}: {other:?}");
                            failures.fetch_add(1, SeqCst);
                        }
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
                assert!(asked > 0);
            });
        }
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(500));
            shoal.upgrade(None).expect("it takes over");
        }
        is_over.store(true, SeqCst);
    });
    assert_eq!(failures.load(SeqCst), 0, "{}", shoal.log());
    std::thread::sleep(Duration::from_secs(1));
    let asked = next.load(SeqCst).min(400);
    let mut client = Connection::open(address);
    for number in 0..asked {
        assert!(ask(&mut client, &format!("/{number}")));
    }
    let again: usize = (0..asked).map(|number| origin.count(&format!("/{number}"))).sum();
    assert_eq!(again, asked, "each object was fetched once, through all upgrades");
    assert!(TcpStream::connect(address).is_ok());
}
