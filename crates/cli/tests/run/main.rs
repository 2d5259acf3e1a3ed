//! The life of a node from its operator's view: start, signals, commands, end.

mod device;
mod secured;
mod starting;
mod store;
mod terminal;

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Running node in a folder of its own. Killed when dropped.
struct Node {
    child: Child,
    folder: TempDir,
    notifications: UnixDatagram,
    greeting: String,
}

const CONFIGURATION: &str = "\
workers = 1
drain_timeout = \"1 s\"
[[listen]]
address = \"127.0.0.1:0\"
mode = \"forward\"
[cache]
ram = \"8 MiB\"
[store]
disk = \"20 MB\"
[log]
access = \"access.log\"
[admin]
listen = \"unix:admin.sock\"
";

impl Node {
    fn start() -> Self {
        Self::start_with(CONFIGURATION)
    }

    fn start_with(configuration: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let log = std::fs::File::create(folder.path().join("error.log")).expect("created");
        Self::start_in(folder, configuration, log.into())
    }

    fn start_in(folder: TempDir, configuration: &str, log: Stdio) -> Self {
        std::fs::write(folder.path().join("shoal.toml"), configuration).expect("written");
        let socket = folder.path().join("notify.sock");
        let notifications = UnixDatagram::bind(&socket).expect("bound");
        notifications.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut child = shoal(folder.path(), &["run", "--config", "shoal.toml"])
            .env("NOTIFY_SOCKET", &socket)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the binary runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut greeting = String::new();
        // The greeting arrives in one piece and ends with this line.
        while !greeting.contains("shoal run --to https://ORIGIN") {
            let read = lines.read_line(&mut greeting).expect("readable");
            assert!(
                read > 0,
                "no greeting: {}",
                std::fs::read_to_string(folder.path().join("error.log")).unwrap()
            );
        }
        let node = Self { child, folder, notifications, greeting };
        assert!(node.notification().starts_with("READY=1\nSTATUS="));
        node
    }

    /// Returns the address that accepts clients.
    fn address(&self) -> &str {
        let line = self.greeting.lines().find_map(|line| line.trim().strip_prefix("forward  http://"));
        line.expect("in the greeting")
    }

    fn notification(&self) -> String {
        let mut bytes = [0; 200];
        let length = self.notifications.recv(&mut bytes).expect("a notification");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("running");
    }

    fn command(&self, arguments: &[&str]) -> Output {
        shoal(self.folder.path(), arguments).output().expect("the binary runs")
    }

    /// Returns the page that a scraper gets.
    fn metrics(&self) -> String {
        let mut page = String::new();
        let mut admin = UnixStream::connect(self.folder.path().join("admin.sock")).expect("connected");
        admin.set_read_timeout(Some(PATIENCE)).expect("set");
        admin.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("sent");
        admin.read_to_string(&mut page).expect("answered");
        page
    }

    fn error_log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("error.log")).expect("readable")
    }

    fn wait_for_log(&self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.error_log().contains(text) {
            assert!(Instant::now() < until, "{text:?} is not in\n{}", self.error_log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn shoal(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoal"));
    command.args(arguments).current_dir(folder);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SHOAL_") {
            command.env_remove(name);
        }
    }
    command
}

const ADMIN: [&str; 2] = ["--admin", "unix:admin.sock"];

#[test]
fn a_node_is_started_asked_and_stopped() {
    let mut node = Node::start();
    for text in ["forward  http://127.0.0.1:", "PIP_PROXY=", "unix:", "access.log (squid)"] {
        assert!(node.greeting.contains(text), "{text} is not in\n{}", node.greeting);
    }

    node.wait_for_log("there is no store yet: a new one is made disk=shoal-cache");
    node.wait_for_log("started version=");

    let status = node.command(&["status", ADMIN[0], ADMIN[1]]);
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert_eq!(status.status.code(), Some(0), "{text}");
    assert!(text.contains("ready") && text.contains("RAM"), "{text}");
    let status = node.command(&["status", "--config", "shoal.toml", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    assert_eq!(value["readiness"], "ready");

    let purged = node.command(&["purge", "--tag", "some", ADMIN[0], ADMIN[1]]);
    assert_eq!(purged.status.code(), Some(0), "{}", String::from_utf8_lossy(&purged.stderr));
    assert!(String::from_utf8_lossy(&purged.stdout).starts_with("purged"));
    let several = node.command(&["purge", "http://a.example/", "http://b.example/", ADMIN[0], ADMIN[1]]);
    assert_eq!(String::from_utf8_lossy(&several.stdout), "purged 0 responses\n");
    let wrong = node.command(&["purge", "http://a.example/", "b.example", ADMIN[0], ADMIN[1]]);
    let why = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!((wrong.status.code(), why.contains("b.example is not ")), (Some(2), true), "{why}");
    assert!(why.contains("(1 of 2 URLs were purged)"), "{why}");

    node.signal(Signal::TERM);
    assert_eq!(node.notification(), "STOPPING=1\nEXTEND_TIMEOUT_USEC=11000000");
    assert_eq!(exit_code(&mut node.child), Some(0), "{}", node.error_log());
    node.wait_for_log("stopped");
    assert!(!node.folder.path().join("admin.sock").exists());
}

#[test]
fn a_reload_with_mistakes_keeps_the_old_settings() {
    let mut node = Node::start();
    let path = node.folder.path().join("shoal.toml");
    node.signal(Signal::HUP);
    assert!(node.notification().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert!(node.notification().starts_with("READY=1\nSTATUS="));
    node.wait_for_log("settings read again");

    std::fs::write(&path, CONFIGURATION.replace("workers", "wrokers")).expect("written");
    node.signal(Signal::HUP);
    node.wait_for_log("shoal.toml:1:1: wrokers: unknown setting `wrokers` (did you mean `workers`?)");
    node.wait_for_log("the old settings stay at work");
    let status = node.command(&["status", "--config", "shoal.toml"]);
    let why = String::from_utf8_lossy(&status.stdout);
    assert_eq!((status.status.code(), why.contains("--admin does")), (Some(3), true), "{why}");
    let reload = node.command(&["reload", ADMIN[0], ADMIN[1]]);
    assert_eq!(reload.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&reload.stderr).contains("shoal.toml:1:1: wrokers"));

    std::fs::write(&path, CONFIGURATION).expect("written");
    let reload = node.command(&["reload", ADMIN[0], ADMIN[1]]);
    assert_eq!((reload.status.code(), &reload.stdout[..]), (Some(0), &b"reloaded\n"[..]));
    // Each reload reports the settings that wait for the next start, until they are in force.
    std::fs::write(&path, CONFIGURATION.replace("workers = ", "max_connections = 77\nworkers = 1"))
        .expect("written");
    for _ in 0..2 {
        let reload = node.command(&["reload", ADMIN[0], ADMIN[1]]);
        let waiting =
            "reloaded; changes to these take effect with the next start: workers, max_connections\n";
        assert_eq!(String::from_utf8_lossy(&reload.stdout), waiting);
    }
    node.signal(Signal::INT);
    assert_eq!(exit_code(&mut node.child), Some(0));
}

#[test]
fn usr1_opens_the_access_log_again() {
    let node = Node::start();
    let log = node.folder.path().join("access.log");
    assert!(log.exists());
    std::fs::rename(&log, node.folder.path().join("access.log.1")).expect("moved");
    node.signal(Signal::USR1);
    let until = Instant::now() + PATIENCE;
    while !log.exists() {
        assert!(Instant::now() < until, "not opened again");
        std::thread::sleep(Duration::from_millis(10));
    }
    node.wait_for_log("the access log was opened again");
}

/// Requests in flight may finish. The access log has them, and is written to its end.
#[test]
fn drain_waits_for_requests_in_flight() {
    let mut node = Node::start_with(&patient());
    let (mut client, mut origin) = request_in_flight(&node);
    node.signal(Signal::TERM);
    node.wait_for_log("stopping");
    std::thread::sleep(Duration::from_millis(100));
    origin.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole").expect("sent");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("readable");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nwhole"), "{answer}");
    assert_eq!(exit_code(&mut node.child), Some(0), "{}", node.error_log());
    let log = std::fs::read_to_string(node.folder.path().join("access.log")).expect("readable");
    assert!(log.contains(" TCP_MISS/200 "), "{log:?}");
}

#[test]
fn a_second_signal_does_not_wait() {
    let mut node = Node::start_with(&patient());
    let (_client, _origin) = request_in_flight(&node);
    node.signal(Signal::TERM);
    node.wait_for_log("stopping");
    node.signal(Signal::TERM);
    assert_eq!(exit_code(&mut node.child), Some(0));
    node.wait_for_log("stopped at once");
}

/// Returns the configuration with a longer drain than the tests take.
fn patient() -> String {
    let forward = "[forward]\nallow_private_destinations = [\"127.0.0.1\"]\n";
    CONFIGURATION.replace("\"1 s\"", "\"10 min\"") + forward
}

/// Begins a request that the origin has received and not answered. Returns the connections of the
/// client and of the origin.
fn request_in_flight(node: &Node) -> (TcpStream, TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let origin = listener.local_addr().expect("bound");
    let mut client = TcpStream::connect(node.address()).expect("connected");
    client.set_read_timeout(Some(PATIENCE)).expect("set");
    write!(client, "GET http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let (mut origin, _) = listener.accept().expect("the node connects");
    origin.set_read_timeout(Some(PATIENCE)).expect("set");
    assert!(origin.read(&mut [0; 4096]).expect("a request") > 0);
    (client, origin)
}

/// The reader of the errors may stop reading. Clients are still served. Lost lines are counted, and
/// the log reports their number once the reader continues.
#[test]
fn an_error_log_that_takes_nothing_holds_up_nobody() {
    let (mut errors, log) = std::io::pipe().expect("a pipe");
    // Refused requests have few lines; an origin that is down has one line for each request.
    let private = "[forward]\nallow_private_destinations = [\"127.0.0.0/8\"]\n[log]\nlevel = \"debug\"";
    let configuration = CONFIGURATION.replace("[log]", private);
    let mut node = Node::start_in(TempDir::new().expect("a folder"), &configuration, log.into());
    let asked = |times: usize| {
        let mut client = TcpStream::connect(node.address()).expect("connected");
        client.set_read_timeout(Some(PATIENCE)).expect("set");
        let target = format!("http://127.0.0.1:1024/{}", "x".repeat(2000));
        let request = format!("HEAD {target} HTTP/1.1\r\nHost: 127.0.0.1:1024\r\n\r\n");
        for _ in 0..times {
            client.write_all(request.as_bytes()).expect("sent");
            let (mut head, mut part) = (Vec::new(), [0; 4096]);
            while !head.ends_with(b"\r\n\r\n") {
                let read = client.read(&mut part).expect("answered");
                assert!(read > 0, "closed");
                head.extend_from_slice(&part[..read]);
            }
        }
    };
    asked(2000);
    let metrics = node.metrics();
    let lost = metrics.lines().find_map(|line| line.strip_prefix("shoal_error_log_lines_dropped_total "));
    assert!(lost.is_some_and(|lost| lost != "0"), "{lost:?}");
    let (said, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(&mut errors).lines().map_while(Result::ok);
        lines.filter(|line| line.contains("lines of it are lost")).for_each(|_| _ = said.send(()));
    });
    heard.recv_timeout(PATIENCE).expect("it says so");
    asked(1);
    node.signal(Signal::TERM);
    assert_eq!(exit_code(&mut node.child), Some(0));
}

/// A second node with the same listener cannot start, and reports the reason.
#[test]
fn an_address_in_use_is_exit_code_1() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = taken.local_addr().expect("bound").to_string();
    let (code, error) = failed_start(&["run", "--listen", &address, "--store", "none", "--admin", "none"]);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains(&address), "{error}");
}

/// Files named in the settings must be usable, too.
#[test]
fn a_certificate_that_is_none_is_exit_code_2() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("nonsense.pem");
    std::fs::write(&path, "nonsense").expect("written");
    let configuration = format!(
        "[[listen]]\naddress = \"127.0.0.1:0\"\nmode = \"forward\"\n\
         tls = [{{ certificate = {path:?}, key = {path:?} }}]\n[store]\ndirectory = \"\"\n"
    );
    let file = folder.path().join("shoal.toml");
    std::fs::write(&file, configuration).expect("written");
    let (code, error) = failed_start(&["run", "--config", file.to_str().expect("UTF-8"), "--admin", "none"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("nonsense.pem"), "{error}");
}

/// Returns the exit code and the errors of a node that should not start.
fn failed_start(arguments: &[&str]) -> (Option<i32>, String) {
    let folder = TempDir::new().expect("a folder");
    let mut child = shoal(folder.path(), arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let code = exit_code(&mut child);
    let mut error = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut error).expect("readable");
    (code, error)
}

/// Waits for the child's end, and kills the child after the wait.
fn exit_code(child: &mut Child) -> Option<i32> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(status) = child.try_wait().expect("ours") {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("ours");
    panic!("it does not end");
}

const PATIENCE: Duration = Duration::from_secs(20);
