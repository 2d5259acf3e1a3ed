//! `shoal upgrade`: has a running node replaced by a new process, without a refused connection.

use crate::admin_client::NodeOptions;
use crate::failure::Failure;
use crate::show::print;
use shoal_handover::{UpgradeOutcome, request_upgrade};
use shoal_proxy::admin::Status;
use std::path::PathBuf;

/// Have a running node replaced by a new process, without a refused connection
///
/// The node starts the program anew, which reads the settings and takes over the sockets and the
/// store. If it cannot, for any reason, the running process goes on, and this command says why and
/// exits with code 1. The node's user and root may ask. `kill -USR2` asks for the same.
#[derive(clap::Args)]
pub struct UpgradeOptions {
    /// Start this program; without it, the one at the place of the running one. An older one is
    /// the way back
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    #[command(flatten)]
    node: NodeOptions,
}

impl UpgradeOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let program = self.program.map(|program| {
            std::path::absolute(&program)
                .map_err(|error| Failure::Usage(format!("{}: {error}", program.display())))
        });
        let program = program.transpose()?;
        let node = self.node.node()?;
        let answer = node.ask("GET", "/status", "")?;
        let status: Status = serde_json::from_str(&answer.body)
            .map_err(|_| Failure::Runtime(format!("{node} answers {}", answer.status)))?;
        let Some(socket) = status.upgrade_socket else {
            let why = format!(
                "the node at {node} has no socket for this question; `kill -USR2 {}` asks it, and its error log has the \
                 outcome",
                status.pid
            );
            return Err(Failure::Runtime(why));
        };
        match request_upgrade(socket.as_ref(), program) {
            Ok(UpgradeOutcome::Upgraded { pid, program }) => print(&format!(
                "upgraded from shoal {} (process {}) to shoal {program} (process {pid})\n",
                status.version, status.pid
            )),
            Ok(UpgradeOutcome::Refused { why }) => {
                let why = why.join("\n");
                Err(Failure::Runtime(format!("the running process goes on:\n{why}")))
            }
            Err(error) => Err(Failure::Runtime(format!("no answer at {socket}: {error}"))),
        }
    }
}
