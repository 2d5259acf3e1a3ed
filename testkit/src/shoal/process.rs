//! A running instance.

use super::binary::binary;
use super::room;
use super::setup::Setup;
use crate::client::{Connection, Request, Response};
use crate::wait;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// A running instance, killed when dropped; a test whose instance panicked anywhere fails.
pub struct Shoal {
    setup: Setup,
    child: Child,
    starts: usize,
    /// Processes that took over from the child, the newest last.
    heirs: Vec<Pid>,
}

impl Shoal {
    pub(super) fn start(setup: Setup) -> Self {
        let child = spawn(&setup, 0);
        let mut shoal = Self { setup, child, starts: 1, heirs: Vec::new() };
        shoal.wait_until_ready();
        shoal
    }

    /// The address of the listener that the setup calls `name`.
    pub fn address(&self, name: &str) -> SocketAddr {
        self.setup.address(name)
    }

    /// The admin listener's address.
    pub fn admin(&self) -> SocketAddr {
        self.setup.admin
    }

    /// The folder with settings, store and logs.
    pub fn folder(&self) -> &Path {
        self.setup.folder()
    }

    /// The store's folder.
    pub fn store(&self) -> PathBuf {
        let directory = self.setup.settings["store"]["directory"].as_str();
        PathBuf::from(directory.expect("every setup names its store"))
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has the node replaced by a new process of this program, or of the one that runs. Returns the
    /// output of the command; an error is its output when the node goes on.
    pub fn upgrade(&mut self, program: Option<&Path>) -> Result<String, String> {
        let mut command = Command::new(binary());
        command.args(["upgrade", "--admin", &self.admin().to_string()]);
        if let Some(program) = program {
            command.arg("--program").arg(program);
        }
        let output = command.env_remove("SHOAL_BIN").output().expect("the binary starts");
        self.follow_upgrade();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Notes the process that the node is now, to end it with this instance.
    pub fn follow_upgrade(&mut self) {
        let pid = self.node_pid();
        let is_new =
            pid != self.pid() && self.heirs.iter().all(|heir| heir.as_raw_nonzero().get() != pid as i32);
        self.heirs.extend(Pid::from_raw(pid as i32).filter(|_| is_new));
    }

    /// The id of the process that the node is now.
    pub fn node_pid(&self) -> u32 {
        self.status()["pid"].as_u64().expect("the status names its process") as u32
    }

    /// A connection to the reverse listener.
    pub fn connect(&self) -> Connection {
        Connection::open(self.address("reverse"))
    }

    /// A connection to the forward listener.
    pub fn connect_forward(&self) -> Connection {
        Connection::open(self.address("forward"))
    }

    /// GET through the reverse listener, for the host `HOST`, on a connection of its own.
    pub fn get(&self, path: &str) -> Response {
        self.ask(&Request::get(path))
    }

    /// A request through the reverse listener, for the host `HOST`, on a connection of its own.
    pub fn ask(&self, request: &Request) -> Response {
        self.connect().ask(request, HOST)
    }

    /// A request through the forward listener; its target is an absolute URL, or an authority for
    /// CONNECT.
    pub fn ask_forward(&self, request: &Request) -> Response {
        let authority = request.target.split("://").last().unwrap_or_default();
        let host = authority.split('/').next().unwrap_or_default();
        self.connect_forward().ask(request, host)
    }

    /// A request to the admin listener.
    pub fn ask_admin(&self, request: &Request) -> Response {
        Connection::open(self.admin()).ask(request, "localhost")
    }

    /// `GET /status` of the admin listener.
    pub fn status(&self) -> Value {
        let response = self.ask_admin(&Request::get("/status"));
        serde_json::from_slice(&response.expect_status(200).body).expect("the status is JSON")
    }

    /// The sum of a metric over its rows whose labels contain `labels`.
    pub fn metric(&self, name: &str, labels: &str) -> u64 {
        let text = self.ask_admin(&Request::get("/metrics")).expect_status(200).text();
        let row = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            let (given, given_labels) = series.split_once('{').unwrap_or((series, ""));
            (given == name && given_labels.contains(labels)).then(|| value.parse::<f64>().ok())?
        };
        let values: Vec<f64> = text.lines().filter_map(row).collect();
        assert!(!values.is_empty(), "no metric {name}{{{labels}}} in\n{text}");
        values.iter().sum::<f64>() as u64
    }

    /// Waits until a metric has this value; panics with what it has when it does not in time.
    pub fn expect_metric(&self, name: &str, labels: &str, value: u64) {
        if !wait::within(wait::LIMIT, || self.metric(name, labels) == value) {
            panic!("{name}{{{labels}}} is {}, not {value}", self.metric(name, labels));
        }
    }

    /// How many responses had this result (a label of `shoal_responses_total`).
    pub fn responses(&self, result: &str) -> u64 {
        self.metric("shoal_responses_total", &format!("result=\"{result}\""))
    }

    /// Waits until so many responses had this result.
    pub fn expect_responses(&self, result: &str, count: u64) {
        self.expect_metric("shoal_responses_total", &format!("result=\"{result}\""), count);
    }

    /// The access log's lines once there are at least `count`.
    pub fn access_log(&self, count: usize) -> Vec<String> {
        let path = self.folder().join("access.log");
        let read = || std::fs::read_to_string(&path).unwrap_or_default();
        wait::until("the access log's lines", || read().lines().count() >= count);
        read().lines().map(str::to_string).collect()
    }

    /// What the process has written to its error log, all starts together.
    pub fn log(&self) -> String {
        let read = |start| std::fs::read_to_string(log_path(self.folder(), start)).unwrap_or_default();
        (0..self.starts).map(read).collect()
    }

    /// Resident memory in bytes that is the process's own: pages of files, such as its code and the
    /// index, are left out.
    pub fn resident_bytes(&self) -> u64 {
        resident_bytes(self.pid()).expect("the process runs")
    }

    /// Client connections that wait without a task.
    pub fn waiting(&self) -> usize {
        room::waiting(self.pid()).expect("the process runs")
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid() as i32).expect("a process id is not 0");
        rustix::process::kill_process(pid, signal).expect("the process is ours");
    }

    /// Ends it at once, as a power failure would: SIGKILL.
    pub fn kill(&mut self) {
        for heir in self.heirs.drain(..) {
            let _ = rustix::process::kill_process(heir, Signal::KILL);
            // Not a child of this process: its locks are free once it is gone.
            let path = format!("/proc/{}/exe", heir.as_raw_nonzero());
            wait::within(Duration::from_secs(10), || std::fs::read_link(&path).is_err());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until all that was stored or removed is written, however long the machine takes for
    /// it.
    pub fn wait_until_written(&self) {
        let unwritten = || self.status()["store"]["unwritten"].as_u64().unwrap_or(0);
        wait::until("everything is written", || unwritten() == 0);
    }

    /// Starts it again with the settings as they are now, and waits until it serves.
    /// What is not written yet would be lost, so it waits for that first.
    pub fn restart(&mut self) {
        if self.running() {
            self.wait_until_written();
        }
        self.kill();
        self.child = spawn(&self.setup, self.starts);
        self.starts += 1;
        self.wait_until_ready();
    }

    /// The same with a store of `volume`, which follows its log to the end first.
    pub fn restart_and_find_all(&mut self) {
        let found = |shoal: &Self| shoal.log().matches("the end of the log has been found").count();
        let before = found(self);
        self.restart();
        wait::until("the end of the log has been found", || found(self) > before);
    }

    /// Starts it again and ends it after `delay`, wherever it stands then.
    pub fn kill_during_start(&mut self, delay: Duration) {
        self.kill();
        self.child = spawn(&self.setup, self.starts);
        self.starts += 1;
        std::thread::sleep(delay);
        self.kill();
    }

    /// Writes the settings file anew after `change`; takes effect on reload or restart.
    pub fn change(&mut self, change: impl FnOnce(String) -> String) {
        let path = self.folder().join("shoal.toml");
        let text = std::fs::read_to_string(&path).expect("the settings were written");
        std::fs::write(&path, change(text)).expect("a temporary folder takes files");
    }

    /// The exit status once it has ended by itself.
    pub fn wait_for_exit(&mut self, limit: Duration) -> Option<ExitStatus> {
        let mut status = None;
        wait::within(limit, || {
            status = self.child.try_wait().expect("the process is ours");
            status.is_some()
        });
        status
    }

    /// Whether it still runs.
    pub fn running(&mut self) -> bool {
        self.child.try_wait().expect("the process is ours").is_none()
    }

    fn wait_until_ready(&mut self) {
        let admin = self.admin();
        let mut ended = None;
        let ready = wait::within(Duration::from_secs(30), || {
            ended = self.child.try_wait().expect("the process is ours");
            ended.is_some() || healthy(admin)
        });
        if let Some(status) = ended {
            panic!("the binary ended with {status} instead of serving\n{}", self.log());
        }
        assert!(ready, "the binary does not serve\n{}", self.log());
    }
}

impl Drop for Shoal {
    fn drop(&mut self) {
        self.kill();
        let log = self.log();
        if std::thread::panicking() {
            eprintln!("--- error log of the binary\n{log}--- end of the log");
        } else {
            assert!(!log.contains("panicked at"), "the binary panicked\n{log}");
        }
    }
}

/// Anonymous resident memory of a process in bytes; `None` when it has ended.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// The host that [`Shoal::get`] asks for.
pub const HOST: &str = "site.test";

fn spawn(setup: &Setup, start: usize) -> Child {
    let settings = setup.folder().join("shoal.toml");
    if start == 0 {
        std::fs::write(&settings, setup.text()).expect("a temporary folder takes files");
    }
    let log = File::create(log_path(setup.folder(), start)).expect("a temporary folder takes files");
    let mut command =
        setup.host.as_ref().map_or_else(|| Command::new(binary()), |host| host.command(binary()));
    command.args(["run", "--config"]).arg(&settings).current_dir(setup.folder());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SHOAL_")) {
        command.env_remove(name);
    }
    let same = log.try_clone().expect("a file can be held twice");
    let environment = setup.environment.iter().map(|(name, value)| (name, value));
    let spawned = command.envs(environment).stdin(Stdio::null()).stdout(same).stderr(log).spawn();
    spawned.unwrap_or_else(|error| panic!("{} does not start: {error}", binary().display()))
}

fn log_path(folder: &Path, start: usize) -> PathBuf {
    folder.join(format!("error.{start}.log"))
}

fn healthy(admin: SocketAddr) -> bool {
    if TcpStream::connect(admin).is_err() {
        return false;
    }
    let mut connection = Connection::open(admin);
    connection.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    connection.try_response("GET").is_ok_and(|response| response.status == 200)
}
