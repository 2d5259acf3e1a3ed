//! Thread that takes requests for an upgrade at the node's socket.

use shoal_handover::{PendingRequest, UpgradeSocket};
use std::path::PathBuf;
use tokio::sync::mpsc::{Receiver, channel};

/// Opens the socket and starts the thread. Returns the socket's path, if it can be had, and the
/// requests.
pub fn open() -> (Option<PathBuf>, Receiver<PendingRequest>) {
    let (told, heard) = channel(REQUESTS_MAX);
    let socket = UpgradeSocket::open(&folder(), std::process::id());
    let socket = match socket {
        Ok(socket) => socket,
        Err(error) => {
            tracing::warn!(%error, "no socket for `shoal upgrade`; the signal USR2 asks for the same");
            return (None, heard);
        }
    };
    let path = socket.path().to_owned();
    let work = move || {
        while let Ok(request) = socket.next() {
            // The node has ended, or this many wait already.
            if told.blocking_send(request).is_err() {
                return;
            }
        }
    };
    match std::thread::Builder::new().name("upgrade-socket".into()).spawn(work) {
        Ok(_) => (Some(path), heard),
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

/// Most requests that wait.
const REQUESTS_MAX: usize = 8;
