//! Errors of the cluster's drivers.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Failure of the cluster's drivers.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClusterError {
    /// The key file cannot be used. The reason names the remedy.
    KeyFile {
        /// File of the keys.
        path: PathBuf,
        /// Reason in a line.
        why: String,
    },
    /// The system gives no random numbers.
    Randomness,
    /// A certificate cannot be made.
    Certificate(String),
    /// The socket for datagrams cannot be opened.
    Socket {
        /// Address of `cluster.peer`.
        address: SocketAddr,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The options cannot be used.
    Options(String),
    /// The control thread cannot be started.
    Thread(std::io::Error),
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyFile { path, why } => write!(f, "key file {}: {why}", path.display()),
            Self::Randomness => f.write_str("the system gives no random numbers"),
            Self::Certificate(why) => write!(f, "cannot make the certificate of this node: {why}"),
            Self::Socket { address, source } => write!(f, "cannot open UDP {address} for peers: {source}"),
            Self::Options(why) => f.write_str(why),
            Self::Thread(source) => write!(f, "cannot start the thread of the cluster: {source}"),
        }
    }
}

impl std::error::Error for ClusterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Socket { source, .. } | Self::Thread(source) => Some(source),
            _ => None,
        }
    }
}
