//! A disk that hangs when a test wants it to.
//!
//! ```text
//!   folder ── ext4 ── loop device ── file ── ext4 ── loop device ── file
//!                                             ▲ frozen while it is to hang
//! ```
//!
//! The upper device's writes wait for the lower file system, in the one thread that the device has,
//! and its reads wait behind them: so neither comes back, as on a disk that has stopped answering.
//! Without any write reads go on, for nothing has noticed yet. Needs root, loop devices,
//! `mkfs.ext4` and `fsfreeze`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A file system whose disk can hang; unmounted on drop.
pub struct HangingDisk {
    upper: PathBuf,
    lower: PathBuf,
}

/// The disk hangs while this lives, and answers again when the process that holds it ends, however
/// it ends.
pub struct Hang(Child);

impl HangingDisk {
    /// Mounts one of so many bytes at `folder`; an error says why that is not possible here.
    pub fn mount(folder: &Path, bytes: u64) -> Result<Self, String> {
        let beside = |end: &str| folder.with_extension(end);
        let (image, lower) = (beside("image"), beside("lower"));
        make(&image, bytes + bytes / 4)?;
        mount(&image, &lower)?;
        // What has been mounted is unmounted when what follows fails.
        let disk = Self { upper: folder.into(), lower };
        let file = disk.lower.join("disk");
        make(&file, bytes)?;
        mount(&file, folder)?;
        Ok(disk)
    }

    /// Lets it hang from now on.
    pub fn hang(&self) -> Hang {
        // Whoever holds the other end of the pipe may be killed: then it ends, too.
        let script = "fsfreeze --freeze \"$0\" && echo frozen && read _; fsfreeze --unfreeze \"$0\"";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .arg(&self.lower)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let mut said = String::new();
        let output = child.stdout.take().expect("it was piped");
        BufReader::new(output).read_line(&mut said).expect("the shell says something");
        assert_eq!(said.trim(), "frozen", "the file system cannot be frozen");
        Hang(child)
    }
}

impl Drop for Hang {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Drop for HangingDisk {
    fn drop(&mut self) {
        for folder in [&self.upper, &self.lower] {
            // lazily, since a process that is just ending may still hold a file
            let _ = Command::new("umount").arg("--lazy").arg(folder).stderr(Stdio::null()).status();
        }
    }
}

/// Makes a file with an empty file system.
fn make(path: &Path, bytes: u64) -> Result<(), String> {
    let file = std::fs::File::create(path).map_err(|error| error.to_string())?;
    // All of it is there, lest a disk that is full be taken for one that hangs.
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)
        .map_err(|error| error.to_string())?;
    let mut command = Command::new("mkfs.ext4");
    command.args(["-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"]);
    run(command.arg(path))
}

fn mount(image: &Path, folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    run(Command::new("mount").args(["-o", "loop,noatime"]).args([image, folder]))
}

fn run(command: &mut Command) -> Result<(), String> {
    match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().into()),
        Err(error) => Err(format!("{}: {error}", command.get_program().display())),
    }
}
