//! Failures of a node to start, or to accept new settings.

use crate::access_log::OpenError;
use crate::exchange::ExchangeSettingsError;
use crate::neighbours::SetupMistake;
use crate::server;
use crate::upstream::SetupError;
use shoal_cluster::ClusterError;
use std::fmt;

/// Failure of a node to start, or to accept new settings.
#[derive(Debug)]
#[non_exhaustive]
pub enum NodeError {
    /// Failure of a listener or certificate.
    Server(server::Error),
    /// Failure to set up the connections to origins.
    Upstream(SetupError),
    /// Invalid rules or sites.
    Live(ExchangeSettingsError),
    /// Failure to set up the neighbours.
    Neighbours(SetupMistake),
    /// Failure to take part in the cluster.
    Cluster(ClusterError),
    /// A user or certificate of the admin listener that cannot be used, in a line.
    Admin(String),
    /// Failure of the access log.
    Log(OpenError),
    /// Failure to start threads.
    Threads(std::io::Error),
    /// The process before this one did not hand the node over; one line of reason.
    Handover(String),
    /// No disk is usable, but one is required; one line of reason per disk.
    NoDisk(Vec<String>),
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => write!(f, "{error}"),
            Self::Upstream(error) => write!(f, "{error}"),
            Self::Live(error) => write!(f, "{error}"),
            Self::Neighbours(error) => write!(f, "{error}"),
            Self::Cluster(error) => write!(f, "{error}"),
            Self::Admin(why) => f.write_str(why),
            Self::Log(error) => write!(f, "{error}"),
            Self::Threads(error) => write!(f, "cannot start threads: {error}"),
            Self::Handover(why) => f.write_str(why),
            Self::NoDisk(why) => {
                why.iter().try_for_each(|why| writeln!(f, "{why}"))?;
                f.write_str(
                    "no disk of the store can be used, and store.required asks for one: mend that, or set it to false to \
                     serve from RAM while the disk is tried again (--store none: from RAM alone)",
                )
            }
        }
    }
}

impl std::error::Error for NodeError {}
