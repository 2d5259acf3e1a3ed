//! Why the server could not start, or could not take new settings.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the server could not start, or could not take new settings.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An address could not be listened on.
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// A certificate or key could not be used.
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A worker's thread or runtime could not be started.
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
