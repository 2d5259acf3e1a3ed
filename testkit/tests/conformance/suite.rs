//! Installing the suite, starting its origin, running its command-line client.

use crate::report::{Check, Outcome};
use serde_json::Value;
use shoal_testkit::wait;
use shoal_testkit::{Setup, Shoal};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The suite, installed.
pub struct Suite {
    folder: PathBuf,
}

/// What this folder pins: the suite's version and the scripts beside it.
const PINNED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/conformance");

impl Suite {
    /// Installs the pinned version into the target folder unless it is there; an error says why
    /// that cannot be.
    pub fn installed() -> Result<Self, String> {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance");
        let folder = root.join("node_modules/http-cache-tests");
        let lock = |folder: &Path| std::fs::read_to_string(folder.join("package-lock.json")).ok();
        if !(folder.join("cli.mjs").exists() && lock(&root) == lock(Path::new(PINNED))) {
            install(&root)?;
        }
        Ok(Self { folder })
    }

    /// Runs every check through a Shoal of its own.
    pub fn outcome(&self) -> Outcome {
        let origin = self.start_origin();
        let shoal = in_front_of(origin.address);
        let output = self
            .node(&["--no-warnings", "cli.mjs"])
            .env("npm_config_base", format!("http://{}", shoal.address("reverse")))
            // an empty id means all checks; the client tells it from an absent one
            .env("npm_package_config_id", "")
            .output()
            .expect("node was found before");
        let results: BTreeMap<String, Value> = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}\n{}", String::from_utf8_lossy(&output.stderr)));
        Outcome::new(self.checks(), &results)
    }

    fn checks(&self) -> Vec<Check> {
        let script = Path::new(PINNED).join("catalogue.mjs");
        let output =
            Command::new("node").arg(script).arg(&self.folder).output().expect("node was found before");
        let checks: Vec<Value> = serde_json::from_slice(&output.stdout).expect("the catalogue is JSON");
        checks.iter().map(Check::read).collect()
    }

    fn start_origin(&self) -> NodeOrigin {
        let log = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("conformance-origin.{}.log", std::process::id()));
        let output = std::fs::File::create(&log).expect("the target folder takes files");
        let child = self
            .node(&["--import"])
            .arg(Path::new(PINNED).join("loopback.mjs"))
            .arg("server/server.mjs")
            .env("npm_config_protocol", "http")
            .env("npm_config_port", "0")
            .env("npm_config_pidfile", "/dev/null")
            .stdin(Stdio::null())
            .stdout(output)
            .spawn()
            .expect("node was found before");
        let mut origin = NodeOrigin { child, address: ([127, 0, 0, 1], 0).into() };
        let said = || std::fs::read_to_string(&log).unwrap_or_default();
        wait::until("the suite's origin listens", || said().contains("Listening on"));
        let text = said();
        let address = text.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        origin.address = address.and_then(|address| address.parse().ok()).expect("it prints its address");
        origin
    }

    fn node(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("node");
        command.args(arguments).current_dir(&self.folder);
        command
    }
}

/// The suite's origin server, ended on drop.
struct NodeOrigin {
    child: Child,
    address: SocketAddr,
}

impl Drop for NodeOrigin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn in_front_of(origin: SocketAddr) -> Shoal {
    let setup = Setup::bare().listen("reverse", "mode = 'reverse'");
    setup.site(&format!("hosts = ['*']\nupstreams = [{{ url = 'http://{origin}' }}]")).start()
}

fn install(root: &Path) -> Result<(), String> {
    let version = Command::new("npm").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        return Err("node and npm are not installed".into());
    }
    std::fs::create_dir_all(root).map_err(|error| error.to_string())?;
    for name in ["package.json", "package-lock.json"] {
        std::fs::copy(Path::new(PINNED).join(name), root.join(name)).map_err(|error| error.to_string())?;
    }
    let arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    let output =
        Command::new("npm").args(arguments).current_dir(root).output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("npm ci failed: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
