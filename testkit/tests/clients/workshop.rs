//! A folder to work in, and programs run with nothing of the user's environment.

use shoal_testkit::{Shoal, missing};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A temporary folder with a home for clients.
pub struct Workshop(TempDir);

impl Workshop {
    /// An empty one.
    pub fn new() -> Self {
        Self(tempfile::Builder::new().prefix("shoal-client-").tempdir().expect("a temporary folder"))
    }

    /// A path inside.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a folder and gives its path.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).expect("a temporary folder takes folders");
        path
    }

    /// Writes a file, its folders included.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("files stand in folders")).expect("folders can be made");
        std::fs::write(&path, text).expect("a temporary folder takes files");
        path
    }

    /// A program with an empty environment but PATH, a home of its own, and the proxy's variables.
    pub fn command(&self, program: impl AsRef<Path>, shoal: Option<&Shoal>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env_clear().current_dir(self.0.path());
        command.env("PATH", search_path());
        command.env("HOME", self.folder("home")).env("TMPDIR", self.folder("tmp")).env("LC_ALL", "C.UTF-8");
        if let Some(shoal) = shoal {
            let proxy = format!("http://{}", shoal.address("forward"));
            for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"] {
                command.env(name, &proxy);
            }
        }
        command
    }
}

/// Runs a command; panics with what it said unless it succeeds. Gives its standard output.
pub fn run(command: &mut Command) -> Vec<u8> {
    let shown = format!("{command:?}");
    let Output { status, stdout, stderr } =
        command.output().unwrap_or_else(|error| panic!("{shown}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(status.success(), "{shown}: {status}\n{}\n{}", text(&stdout), text(&stderr));
    stdout
}

/// Runs a command and gives its output as a line.
pub fn line(command: &mut Command) -> String {
    String::from_utf8_lossy(&run(command)).trim().to_string()
}

/// Whether a program answers to `--version`; its test is skipped when it does not
/// ([`missing::skip`]).
pub fn installed(program: &str) -> bool {
    let asks = if program == "go" { "version" } else { "--version" };
    let mut asking = Command::new(program);
    let found = asking.arg(asks).env("PATH", search_path()).output().is_ok_and(|out| out.status.success());
    if !found {
        missing::skip(program);
    }
    found
}

/// The folder of clients that are installed by hand, with `bin` and `node_modules`.
fn clients() -> Option<PathBuf> {
    std::env::var_os("SHOAL_CLIENTS").map(PathBuf::from)
}

/// A file of a client that is installed by hand; its test is skipped where it is not.
pub fn client_file(name: &str) -> Option<PathBuf> {
    let found = clients().map(|folder| folder.join(name)).filter(|path| path.exists());
    if found.is_none() {
        missing::skip(name);
    }
    found
}

/// The search path of clients: those that are installed by hand come first.
pub fn search_path() -> OsString {
    let own = clients().into_iter().flat_map(|at| [at.join("bin"), at.join("node_modules/.bin")]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(own.chain(std::env::split_paths(&path))).unwrap_or(path)
}

/// The SHA-256 of a file, hexadecimal.
pub fn sha256(path: &Path) -> String {
    line(Command::new("sha256sum").arg(path)).split(' ').next().unwrap_or_default().to_string()
}
