//! Installs what the checks are driven with, and runs them.

use shoal_testkit::missing;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Scripts, lockfile and pinned packages, beside each other in the target folder.
pub struct Browser {
    folder: PathBuf,
}

/// Scripts and versions.
const PINNED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/dashboard");
/// The page.
const ASSETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/dashboard/assets");

impl Browser {
    /// Copies the scripts and installs their packages; `None` if a program is missing.
    pub fn installed() -> Option<Self> {
        for program in ["npm", "node", "chromium"] {
            if !starts(program) {
                missing::skip(program);
                return None;
            }
        }
        static INSTALLING: Mutex<()> = Mutex::new(());
        let _alone = INSTALLING.lock().expect("no installation panics and goes on");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard");
        let lock = |folder: &Path| std::fs::read_to_string(folder.join("package-lock.json")).ok();
        let fresh = lock(&folder) == lock(Path::new(PINNED)) && folder.join("node_modules/axe-core").exists();
        copy_scripts(&folder);
        if !fresh {
            install(&folder);
        }
        Some(Self { folder })
    }

    /// Runs the checks and shows their results. `end_node` is called when they ask for it.
    ///
    /// # Panics
    ///
    /// If one of them fails.
    pub fn run(&self, arguments: &[&str], end_node: impl Fn()) {
        let mut running = Command::new("node")
            .arg("run.mjs")
            .args(arguments)
            .current_dir(&self.folder)
            .env("SHOAL_ASSETS", format!("{ASSETS}/"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("node was found before");
        let mut said = String::new();
        for line in BufReader::new(running.stdout.take().expect("it is piped")).lines() {
            let line = line.expect("the checks write text");
            if line == "END THE NODE" {
                end_node();
            }
            println!("{line}");
            said += &line;
            said.push('\n');
        }
        let status = running.wait().expect("the checks end");
        assert!(status.success(), "the page fails its checks:\n{said}");
    }
}

fn starts(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn copy_scripts(folder: &Path) {
    std::fs::create_dir_all(folder).expect("the target folder takes folders");
    for entry in std::fs::read_dir(PINNED).expect("the scripts are there") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            std::fs::copy(&path, folder.join(path.file_name().expect("a file"))).expect("a copy");
        }
    }
}

fn install(folder: &Path) {
    let arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    let output = Command::new("npm").args(arguments).current_dir(folder).output().expect("npm was found");
    assert!(output.status.success(), "npm ci failed: {}", String::from_utf8_lossy(&output.stderr));
}
