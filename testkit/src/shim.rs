//! Faults and hangs of system calls, and a wall clock that is off, for an instance under test.
//!
//! ```text
//!   test ──words──► a mapped file ◄──reads── shim.c, preloaded into the binary: answers EIO, waits, or makes the call
//! ```
//!
//! `shim.c` is compiled by `cc` when the first test asks for it. The kernel hands it the instance's
//! system calls, also those that do not go through libc. Needs `cc` and a kernel that lets a
//! process set a seccomp filter; x86-64 or aarch64.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use tempfile::TempDir;

/// What an instance's system calls and clock do; one for each instance, taken by
/// [`Setup::shim`](crate::Setup::shim).
#[derive(Clone)]
pub struct Shim(Arc<Inner>);

struct Inner {
    /// The folder that holds the file of words, and goes with the last of these.
    _folder: TempDir,
    path: PathBuf,
    words: File,
}

/// Kinds of calls that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// To open a file, and to ask about it or about its file system.
    Opens,
    /// To read a file or a folder.
    Reads,
    /// To write, cut, allot, sync, rename, remove, make a folder.
    Writes,
    /// All of these.
    All,
}

impl Shim {
    /// One that lets every call through; an error says why there can be none here.
    pub fn new() -> Result<Self, String> {
        static LIBRARY: OnceLock<Result<(), String>> = OnceLock::new();
        let folder = tempfile::Builder::new().prefix("shoal-shim-").tempdir();
        let folder = folder.map_err(|error| error.to_string())?;
        let path = folder.path().join("words");
        std::fs::write(&path, [0; WORDS * 8]).map_err(|error| error.to_string())?;
        let words = File::options().read(true).write(true).open(&path).map_err(|error| error.to_string())?;
        let shim = Self(Arc::new(Inner { _folder: folder, path, words }));
        LIBRARY.get_or_init(|| shim.try_library()).clone()?;
        Ok(shim)
    }

    /// Fails calls of this kind to files below the folder with EIO, from the n-th one from now on;
    /// 1 is the next.
    pub fn fail_from(&self, calls: Calls, number: u64) {
        self.heal();
        self.begin(calls, number);
    }

    /// Has calls of this kind hang, from the n-th one from now on, until it is
    /// [healed](Self::heal): then they are made.
    pub fn hang_from(&self, calls: Calls, number: u64) {
        self.heal();
        self.set(HANGS, 1);
        self.begin(calls, number);
    }

    fn begin(&self, calls: Calls, number: u64) {
        self.set(CALLS, 0);
        self.set(FROM, number);
        self.set(KINDS, calls.bits());
    }

    /// Fails all calls of this kind from now on.
    pub fn fail(&self, calls: Calls) {
        self.fail_from(calls, 1);
    }

    /// Counts calls of this kind and lets them through.
    pub fn count(&self, calls: Calls) {
        self.fail_from(calls, u64::MAX);
    }

    /// Lets every call through from now on.
    pub fn heal(&self) {
        self.set(KINDS, 0);
        self.set(HANGS, 0);
    }

    /// Calls that were made since they were to fail or to be counted, those that failed included.
    pub fn calls(&self) -> u64 {
        let mut word = [0; 8];
        self.0.words.read_exact_at(&mut word, CALLS).expect("the file of words is as long as it was made");
        u64::from_ne_bytes(word)
    }

    /// Sets the wall clock so many seconds ahead of the machine's, or behind it; at once, also
    /// while the instance runs. The clocks that only rise stay as they are.
    pub fn set_clock_offset(&self, seconds: i64) {
        self.set(CLOCK_OFFSET, seconds.cast_unsigned());
    }

    /// The variables with which a process is started: calls to files in `folder` are the ones that
    /// can fail.
    pub fn environment(&self, folder: &Path) -> [(&'static str, String); 3] {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.into());
        [
            ("LD_PRELOAD", library_path().to_string_lossy().into_owned()),
            ("FAULTS_CONTROL", self.0.path.to_string_lossy().into_owned()),
            ("FAULTS_UNDER", folder.to_string_lossy().into_owned()),
        ]
    }

    fn set(&self, at: u64, word: u64) {
        self.0.words.write_all_at(&word.to_ne_bytes(), at).expect("the file of words can be written");
    }

    /// Compiles the library, and sees whether a process can be started with it.
    fn try_library(&self) -> Result<(), String> {
        let library = library_path();
        // Other test processes may do the same at this moment: each replaces the file as a whole.
        let own = library.with_extension(format!("{}.so", std::process::id()));
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-x", "c", "-o"]).arg(&own);
        run(compiler.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src/shim/shim.c")))?;
        std::fs::rename(&own, &library).map_err(|error| error.to_string())?;
        let mut tried = Command::new("true");
        run(tried.envs(self.environment(Path::new("/nowhere"))))
    }
}

impl Calls {
    fn bits(self) -> u64 {
        match self {
            Self::Opens => 1,
            Self::Reads => 2,
            Self::Writes => 4,
            Self::All => 7,
        }
    }
}

/// Beside the test's executable, which stands in the target folder.
fn library_path() -> PathBuf {
    std::env::current_exe().expect("a process has an executable").with_file_name("libshoal_shim.so")
}

fn run(command: &mut Command) -> Result<(), String> {
    match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().into()),
        Err(error) => Err(format!("{}: {error}", command.get_program().display())),
    }
}

/// Bytes from the start of the file to each of its words, as `shim.c` has them.
const CLOCK_OFFSET: u64 = 0;
const KINDS: u64 = 8;
const FROM: u64 = 16;
const CALLS: u64 = 24;
const HANGS: u64 = 32;
const WORDS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// What a process says that is started with the shim, or `None` when it fails.
    fn said(shim: &Shim, folder: &Path, program: &str, arguments: &[&str]) -> Option<String> {
        let mut command = Command::new(program);
        let output = command.args(arguments).envs(shim.environment(folder)).output().expect("it is there");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn shim() -> Option<Shim> {
        Shim::new().map_err(|why| eprintln!("skipped: no shim can be had here: {why}")).ok()
    }

    #[test]
    fn calls_fail_in_the_folder_while_they_are_to() {
        let Some(shim) = shim() else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let (inside, beside) = (folder.path().join("a/file"), folder.path().join("ab"));
        std::fs::create_dir(folder.path().join("a")).expect("made");
        for path in [&inside, &beside] {
            std::fs::write(path, "text").expect("written");
        }
        let read = |path: &Path| said(&shim, &folder.path().join("a"), "cat", &[&path.to_string_lossy()]);
        let text = Some("text".to_owned());
        assert_eq!(read(&inside), text);
        shim.fail(Calls::Reads);
        assert_eq!((read(&inside), read(&beside)), (None, text.clone()));
        shim.count(Calls::All);
        assert_eq!(read(&inside), text);
        let calls = shim.calls();
        assert!(calls >= 2, "one to open it and one to read it: {calls}");
        shim.fail_from(Calls::All, calls + 1);
        assert_eq!(read(&inside), text, "fewer calls than are let through");
        shim.fail_from(Calls::All, 2);
        assert_eq!(read(&inside), None);
        shim.heal();
        assert_eq!(read(&inside), text);
        shim.hang_from(Calls::Reads, 1);
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| read(&inside));
            crate::wait::until("a call hangs", || shim.calls() > 0);
            assert!(!reading.is_finished());
            shim.heal();
            assert_eq!(reading.join().expect("no panic"), text);
        });
    }

    #[test]
    fn the_clock_is_off_by_as_much_as_is_said() {
        let Some(shim) = shim() else { return };
        let now = || {
            let said = said(&shim, Path::new("/nowhere"), "date", &["+%s"]).expect("a time");
            said.parse::<i64>().expect("seconds")
        };
        let real = now();
        for years in [-10, 10] {
            let seconds = years * 365 * 86_400;
            shim.set_clock_offset(seconds);
            assert!((0..600).contains(&(now() - real - seconds)), "{years} years");
        }
    }
}
