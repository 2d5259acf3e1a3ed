//! Thread that takes requests for an upgrade at the node's socket.

use shoal_handover::{PendingRequest, UpgradeSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, channel};

/// File of the node's socket. Dropping it removes the file: the thread waits at the socket until
/// the process ends.
pub struct SocketFile(PathBuf);

impl SocketFile {
    /// Returns the socket's path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Opens the socket and starts the thread. Returns the socket's file, if it can be had, and the
/// requests.
pub fn open() -> (Option<SocketFile>, Receiver<PendingRequest>) {
    let (told, heard) = channel(REQUESTS_MAX);
    let folder = folder();
    let socket = UpgradeSocket::open(&folder, std::process::id());
    let socket = match socket {
        Ok(socket) => socket,
        Err(error) => {
            tracing::warn!(%error, "no socket for `shoal upgrade`; the signal USR2 asks for the same");
            return (None, heard);
        }
    };
    let path = socket.path().to_owned();
    let work = move || {
        while !told.is_closed() {
            match socket.next() {
                // After the node's end nobody hears it.
                Ok(request) => drop(told.blocking_send(request)),
                // Descriptors have run out; the next question may be heard.
                Err(_) => std::thread::sleep(AFTER_FAILURE),
            }
        }
    };
    match std::thread::Builder::new().name("upgrade-socket".into()).spawn(work) {
        Ok(_) => (Some(SocketFile(path)), heard),
        Err(error) => {
            tracing::warn!(%error, "no thread for `shoal upgrade`; the signal USR2 asks for the same");
            (None, heard)
        }
    }
}

/// Returns the folder of the socket: the service's own, the user's, or one of the user's in the
/// folder for temporary files.
fn folder() -> PathBuf {
    let first = |name: &str| {
        let value = std::env::var_os(name)?;
        std::env::split_paths(&value).next().filter(|path| path.is_absolute())
    };
    first("RUNTIME_DIRECTORY")
        .or_else(|| Some(first("XDG_RUNTIME_DIR").filter(|path| path.is_dir())?.join("shoal")))
        .unwrap_or_else(|| {
            let uid = rustix::process::geteuid().as_raw();
            std::env::temp_dir().join(format!("shoal-{uid}"))
        })
}

/// Pause after a question that could not be accepted.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Most requests that wait.
const REQUESTS_MAX: usize = 8;
