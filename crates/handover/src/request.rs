//! Socket at which the node is asked for an upgrade, by its own user only.
//!
//! The socket (0600) lies in a folder that only the user may write to. Each process that connects
//! must be the user's or root's (`SO_PEERCRED`). A question and its
//! answer are one line of JSON each.

use rustix::net::sockopt::socket_peercred;
use rustix::process::{Uid, geteuid};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Request for an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpgradeRequest {
    /// Version of this question.
    pub version: u32,
    /// Program to start; `None` for the one at the place of the running one.
    pub program: Option<PathBuf>,
}

/// Answer to [`UpgradeRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpgradeOutcome {
    /// The new process is the node.
    Upgraded {
        /// Process id of the new process.
        pid: u32,
        /// Version of the new program.
        program: String,
    },
    /// The old process goes on; the reason in lines.
    Refused {
        /// The reason.
        why: Vec<String>,
    },
}

/// Socket that waits for questions. Dropping it removes the socket's file.
#[derive(Debug)]
pub struct UpgradeSocket {
    listener: UnixListener,
    path: PathBuf,
}

/// A process that has asked, and waits for the answer.
#[derive(Debug)]
pub struct PendingRequest {
    stream: UnixStream,
    /// The question.
    pub request: UpgradeRequest,
}

impl UpgradeSocket {
    /// Opens the socket of the process `pid` in a folder, which is made if absent.
    ///
    /// # Errors
    /// If the folder is open to other users or not this user's, or the socket cannot be bound.
    pub fn open(folder: &Path, pid: u32) -> io::Result<Self> {
        let made = fs::DirBuilder::new().mode(0o700).create(folder);
        if let Err(error) = made
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(error);
        }
        let data = fs::symlink_metadata(folder)?;
        let is_private = data.is_dir() && data.uid() == geteuid().as_raw() && data.mode() & 0o022 == 0;
        if !is_private {
            let why = format!("{} is not a folder that only this user writes to", folder.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let path = folder.join(format!("upgrade-{pid}.sock"));
        // Left behind by an earlier process of this number.
        let _ = fs::remove_file(&path);
        remove_abandoned(folder);
        let listener = UnixListener::bind(&path)?;
        let port = Self { listener, path };
        fs::set_permissions(&port.path, fs::Permissions::from_mode(0o600))?;
        Ok(port)
    }

    /// Returns the socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the next question of this user or of root. Others are let go without an answer.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn next(&self) -> io::Result<PendingRequest> {
        loop {
            let (stream, _) = self.listener.accept()?;
            if let Some(pending) = PendingRequest::of(stream) {
                return Ok(pending);
            }
        }
    }
}

/// Removes the sockets of killed nodes, at which nothing listens.
fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours =
            name.to_str().is_some_and(|name| name.starts_with("upgrade-") && name.ends_with(".sock"));
        let refused = |why: io::Error| why.kind() == io::ErrorKind::ConnectionRefused;
        if is_ours && UnixStream::connect(entry.path()).is_err_and(refused) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

impl Drop for UpgradeSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl PendingRequest {
    fn of(stream: UnixStream) -> Option<Self> {
        let peer = socket_peercred(stream.as_fd()).ok()?.uid;
        if peer != geteuid() && peer != Uid::ROOT {
            return None;
        }
        stream.set_read_timeout(Some(READ_TIMEOUT)).ok()?;
        stream.set_write_timeout(Some(READ_TIMEOUT)).ok()?;
        let line = read_line(&stream).ok()?;
        let request: UpgradeRequest = serde_json::from_str(&line).ok()?;
        (request.version == REQUEST_VERSION).then_some(Self { stream, request })
    }

    /// Answers.
    pub fn answer(mut self, outcome: &UpgradeOutcome) {
        if let Ok(mut line) = serde_json::to_vec(outcome) {
            line.push(b'\n');
            // A process that has left needs no answer.
            let _ = self.stream.write_all(&line);
        }
    }
}

/// Asks the node behind a socket for an upgrade, and waits for the outcome.
///
/// # Errors
/// If no process of this user answers there, or it goes away.
pub fn request_upgrade(socket: &Path, program: Option<PathBuf>) -> io::Result<UpgradeOutcome> {
    let mut stream = UnixStream::connect(socket)?;
    let peer = socket_peercred(stream.as_fd())?.uid;
    let own = geteuid();
    if peer != own && own != Uid::ROOT {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user's process answers there"));
    }
    let mut line = serde_json::to_vec(&UpgradeRequest { version: REQUEST_VERSION, program })?;
    line.push(b'\n');
    stream.write_all(&line)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let line = read_line(&stream)?;
    serde_json::from_str(&line).map_err(|_| io::Error::new(io::ErrorKind::UnexpectedEof, "it went away"))
}

fn read_line(stream: &UnixStream) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(LINE_MAX)).read_line(&mut line)?;
    Ok(line)
}

/// Version of the question.
const REQUEST_VERSION: u32 = 1;

/// Most bytes of a question or an answer.
const LINE_MAX: u64 = 16 << 10;

/// Longest wait for a question.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest wait for the outcome, longer than all phases of a hand-over.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(180);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_and_answer_pass() {
        let folder = tempfile::tempdir().expect("a folder");
        let port = UpgradeSocket::open(&folder.path().join("own"), 7).expect("opened");
        let path = port.path().to_owned();
        assert_eq!(fs::metadata(&path).expect("bound").mode() & 0o777, 0o600);
        let asking = std::thread::spawn(move || request_upgrade(&path, Some("/bin/other".into())));
        let pending = port.next().expect("a question");
        assert_eq!(pending.request.program.as_deref(), Some(Path::new("/bin/other")));
        let outcome = UpgradeOutcome::Refused { why: vec!["no".into()] };
        pending.answer(&outcome);
        assert_eq!(asking.join().expect("no panic").expect("an answer"), outcome);
        let path = port.path().to_owned();
        drop(port);
        assert!(!path.exists(), "the socket's file is gone");
    }

    #[test]
    fn sockets_of_killed_nodes_go() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).expect("ours");
        let (dead, alive) = (folder.path().join("upgrade-1.sock"), folder.path().join("upgrade-2.sock"));
        drop(UnixListener::bind(&dead).expect("bound"));
        let _listener = UnixListener::bind(&alive).expect("bound");
        let other = folder.path().join("other.sock");
        drop(UnixListener::bind(&other).expect("bound"));
        let port = UpgradeSocket::open(folder.path(), 3).expect("opened");
        assert!(!dead.exists() && alive.exists() && other.exists() && port.path().exists());
    }

    #[test]
    fn folder_that_others_write_to_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("ours");
        let refusal = UpgradeSocket::open(folder.path(), 7).expect_err("others may write there");
        assert_eq!(refusal.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn nonsense_gets_no_answer() {
        let folder = tempfile::tempdir().expect("a folder");
        let port = UpgradeSocket::open(folder.path(), 7).expect("opened");
        for text in ["\n", "{}\n", "{\"version\":99}\n"] {
            let mut stream = UnixStream::connect(port.path()).expect("it listens");
            stream.write_all(text.as_bytes()).expect("sent");
            let (far, _) = port.listener.accept().expect("connected");
            assert!(PendingRequest::of(far).is_none(), "{text}");
        }
    }
}
