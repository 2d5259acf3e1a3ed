//! Errors of starting the server and of applying new settings.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Reason for a failed start or for rejected settings.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The server could not listen on an address.
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A certificate or key could not be used.
    Certificate {
        /// The file.
        path: PathBuf,
        /// The problem with the file.
        problem: String,
    },
    /// The server could not start a worker's thread or runtime.
    Worker(std::io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, source } => write!(f, "could not listen on {address}: {source}"),
            Self::Certificate { path, problem } => write!(f, "{}: {problem}", path.display()),
            Self::Worker(source) => write!(f, "could not start a worker: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen { source, .. } | Self::Worker(source) => Some(source),
            Self::Certificate { .. } => None,
        }
    }
}
