//! `shoal store`: inspects a store from outside, running or not, and takes disks out of service.

mod format;
mod get;
mod info;
mod ls;
mod service;
mod told;
mod verify;

use crate::configuration::Configuration;
use crate::failure::Failure;
use shoal_store::inspect::{Inspect, inspect};
use std::path::PathBuf;

/// Inspect a store, running or not: its properties, its soundness, its objects; take a disk out of
/// service
///
/// `info`, `verify`, `ls` and `get` read the files of stores of the architecture `volume`, without
/// a lock and without writing anything. A running node may have the files open. Objects of the last
/// second that the node has not yet written to disk are not visible. `offline` and `online` ask the
/// running node.
#[derive(clap::Args)]
pub struct StoreOptions {
    #[command(subcommand)]
    command: StoreCommand,
}

// The variants have no comments, so that each command shows the help of its options, long help
// included.
#[derive(clap::Subcommand)]
enum StoreCommand {
    Info(info::StoreInfoOptions),
    Verify(verify::StoreVerifyOptions),
    Ls(ls::StoreLsOptions),
    Get(get::StoreGetOptions),
    Format(format::StoreFormatOptions),
    /// Have a running node take a disk out of service: pending data is written to the disk, and the
    /// disk can then be removed
    ///
    /// While the disk is out of service, its objects are misses and its share goes to the other
    /// disks. Purges during this time are applied to the disk before it serves again, as long as
    /// the node keeps running.
    Offline(service::StoreServiceOptions),
    /// Have a running node bring a disk back into service
    ///
    /// This applies to a disk that was taken out, that kept failing, or that could not be opened
    /// when others could. The disk is opened anew.
    Online(service::StoreServiceOptions),
}

impl StoreOptions {
    pub fn perform(self) -> Result<(), Failure> {
        match self.command {
            StoreCommand::Info(options) => options.perform(),
            StoreCommand::Verify(options) => options.perform(),
            StoreCommand::Ls(options) => options.perform(),
            StoreCommand::Get(options) => options.perform(),
            StoreCommand::Format(options) => options.perform(),
            StoreCommand::Offline(options) => options.perform(false),
            StoreCommand::Online(options) => options.perform(true),
        }
    }
}

/// Selection of stores.
#[derive(clap::Args)]
struct StoreSelection {
    /// Folder or device of the store; may be given more than once. Without it, the disks of the
    /// settings are used
    #[arg(long = "store", value_name = "PATH")]
    stores: Vec<PathBuf>,
    /// Take the store's disks from this configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl StoreSelection {
    /// Opens all stores for inspection. Stores that cannot be opened do not prevent the inspection
    /// of the others.
    fn open(self) -> Result<Stores, Failure> {
        let configuration = Configuration::find(self.config);
        let is_named = !self.stores.is_empty() || configuration.file.is_some();
        let folders = match self.stores.is_empty() {
            false => self.stores,
            true => {
                let disks = configuration.load()?.store.all_disks();
                disks.into_iter().map(|disk| disk.path).collect()
            }
        };
        if folders.is_empty() {
            return Err(Failure::Usage("the settings have no disk store; name one with --store".into()));
        }
        let mut stores = Stores { seen: Vec::new(), failures: Vec::new() };
        for folder in folders {
            match inspect(&folder) {
                Ok(store) => stores.seen.push((folder, store)),
                Err(error) if is_named => stores.failures.push(error.to_string()),
                Err(error) => stores.failures.push(format!(
                    "{error} (this is the default folder; --store names another, --config the settings that do)"
                )),
            }
        }
        Ok(stores)
    }
}

/// Selected stores.
struct Stores {
    seen: Vec<InspectedStore>,
    /// Reasons why other stores cannot be opened, and problems found, one line each.
    failures: Vec<String>,
}

impl Stores {
    /// Fails with all problems, after all other output.
    fn end(self) -> Result<(), Failure> {
        match self.failures.is_empty() {
            true => Ok(()),
            false => Err(Failure::Runtime(self.failures.join("\n"))),
        }
    }
}

/// Formats seconds since 1970 as in RFC 3339.
pub fn time_text(seconds: u64) -> String {
    told::time(shoal_core::Timestamp::from_seconds(seconds))
}

/// Folder of a store, and the opened store.
type InspectedStore = (PathBuf, Box<dyn Inspect>);

/// Returns the failure of a disk that could not be read.
fn failed(error: shoal_store::Error) -> Failure {
    Failure::Runtime(error.to_string())
}
