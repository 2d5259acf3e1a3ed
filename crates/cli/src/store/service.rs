//! `shoal store offline|online`: takes a disk of a running node out of service, and brings it back.

use crate::admin_client::NodeOptions;
use crate::failure::Failure;
use crate::show::print;
use shoal_proxy::admin::DiskRequest;

/// Take a disk of a running node out of service, or bring it back
#[derive(clap::Args)]
pub struct StoreServiceOptions {
    /// The disk's folder, as spelled in the settings
    path: String,
    #[command(flatten)]
    node: NodeOptions,
}

impl StoreServiceOptions {
    pub fn perform(self, online: bool) -> Result<(), Failure> {
        let node = self.node.node()?;
        let request = DiskRequest { path: self.path, online };
        let body = serde_json::to_string(&request).map_err(|error| Failure::Usage(error.to_string()))?;
        let answer = node.ask("POST", "/disk", &body)?;
        let value: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let word = if online { "in service" } else { "out of service" };
        match (answer.status, value["changed"].as_bool()) {
            (200, Some(true)) => print(&format!("{} is {word}\n", request.path)),
            (200, _) => print(&format!("{} was {word} already\n", request.path)),
            _ => Err(Failure::Runtime(value["error"].as_str().unwrap_or(answer.body.trim()).to_owned())),
        }
    }
}
