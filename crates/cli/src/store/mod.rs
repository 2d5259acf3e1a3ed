//! `shoal store`: looks at a store from outside, running or not, and takes disks out of service.

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

/// Look at a store, running or not: what it is, whether it is sound, what it holds; take a disk out
/// of service
///
/// `info`, `verify`, `ls` and `get` read the files of stores of the architecture `volume`, without
/// a lock and without writing anything; a node that is running may have them open. What that node
/// has not written to disk yet, of the last second, is not seen. `offline` and `online` ask the
/// running node.
#[derive(clap::Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

// Without words of their own the commands have those of their options, long help with them.
#[derive(clap::Subcommand)]
enum Command {
    Info(info::Options),
    Verify(verify::Options),
    Ls(ls::Options),
    Get(get::Options),
    Format(format::Options),
    /// Have a running node take a disk out of service: what it holds is brought to disk, and it can
    /// be taken away
    ///
    /// While it is out, its objects are misses and its share goes to the other disks. What is
    /// purged meanwhile is removed from it before it serves again, as long as the node keeps
    /// running.
    Offline(service::Options),
    /// Have a running node bring a disk back into service
    ///
    /// One that was taken out, or kept failing, or could not be opened when others could. It is
    /// opened anew.
    Online(service::Options),
}

impl Options {
    pub fn perform(self) -> Result<(), Failure> {
        match self.command {
            Command::Info(options) => options.perform(),
            Command::Verify(options) => options.perform(),
            Command::Ls(options) => options.perform(),
            Command::Get(options) => options.perform(),
            Command::Format(options) => options.perform(),
            Command::Offline(options) => options.perform(false),
            Command::Online(options) => options.perform(true),
        }
    }
}

/// Which stores are meant.
#[derive(clap::Args)]
struct StoreSelection {
    /// Folder or device of the store; may be given more than once. Without it, the disks of the
    /// settings are meant
    #[arg(long = "store", value_name = "PATH")]
    stores: Vec<PathBuf>,
    /// Take the store's disks from this configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl StoreSelection {
    /// All of them, opened for looking at: what can be seen of some is told although others cannot
    /// be read.
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

/// The stores that are meant.
struct Stores {
    seen: Vec<InspectedStore>,
    /// Why the others cannot be looked at, and what was found wrong, a line each.
    failures: Vec<String>,
}

impl Stores {
    /// Fails with all that went wrong, once everything else has been told.
    fn end(self) -> Result<(), Failure> {
        match self.failures.is_empty() {
            true => Ok(()),
            false => Err(Failure::Runtime(self.failures.join("\n"))),
        }
    }
}

/// A store's folder, and the store as it is seen from outside.
type InspectedStore = (PathBuf, Box<dyn Inspect>);

/// A disk that could not be read.
fn failed(error: shoal_store::Error) -> Failure {
    Failure::Runtime(error.to_string())
}
