//! `shoal store offline|online`: takes a disk of a running node out of service, and brings it back.

use crate::admin_client::ask;
use crate::configuration::admin_address;
use crate::failure::Failure;
use crate::show::print;
use shoal_proxy::admin::DiskRequest;
use shoal_settings::AdminAddress;
use std::path::PathBuf;

/// Take a disk of a running node out of service, or bring it back
#[derive(clap::Args)]
pub struct StoreServiceOptions {
    /// The disk's folder, as spelled in the settings
    path: String,
    /// The node's admin address, such as 127.0.0.1:3129 or unix:/run/shoal/admin.sock
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<AdminAddress>,
    /// Take the admin address from this configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl StoreServiceOptions {
    pub fn perform(self, online: bool) -> Result<(), Failure> {
        let address = admin_address(self.admin, self.config)?;
        let request = DiskRequest { path: self.path, online };
        let body = serde_json::to_string(&request).map_err(|error| Failure::Usage(error.to_string()))?;
        let answer = ask(&address, "POST", "/disk", &body)?;
        let value: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let word = if online { "in service" } else { "out of service" };
        match (answer.status, value["changed"].as_bool()) {
            (200, Some(true)) => print(&format!("{} is {word}\n", request.path)),
            (200, _) => print(&format!("{} was {word} already\n", request.path)),
            _ => Err(Failure::Runtime(value["error"].as_str().unwrap_or(answer.body.trim()).to_owned())),
        }
    }
}
