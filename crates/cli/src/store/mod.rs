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

/// Look at a store, running or not: what it is, whether it is sound, what it holds; take a disk out of service
///
/// `info`, `verify`, `ls` and `get` read the files of stores of the architecture `volume`, without a lock and without writing
/// anything; a node that is running may have them open. What that node has not written to disk yet, of the last second,
/// is not seen. `offline` and `online` ask the running node.
#[derive(clap::Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Tell what a store is: geometry, objects, bytes, age, where it is written, whether it was closed in order
    Info(info::Options),
    /// Read everything and check it; exit code 1 when something is damaged
    Verify(verify::Options),
    /// List what is stored: when, size, position, URL
    Ls(ls::Options),
    /// Write the body that is stored for a URL to stdout
    Get(get::Options),
    /// Make a block device empty and ready for a store; what it holds is lost
    Format(format::Options),
    /// Have a running node take a disk out of service: what it holds is brought to disk, and it can be taken away
    Offline(service::Options),
    /// Have a running node bring a disk back into service
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
struct Which {
    /// Folder or device of the store; may be given more than once. Without it, the disks of the settings are meant
    #[arg(long = "store", value_name = "PATH")]
    stores: Vec<PathBuf>,
    /// Take the store's disks from this configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Which {
    /// All of them, opened for looking at.
    fn open(self) -> Result<Vec<Seen>, Failure> {
        let folders = match self.stores.is_empty() {
            false => self.stores,
            true => {
                let settings = Configuration::find(self.config).load()?;
                settings.store.all_disks().into_iter().map(|disk| disk.path).collect()
            }
        };
        if folders.is_empty() {
            return Err(Failure::Usage("the settings have no disk store; name one with --store".into()));
        }
        let open = |folder: PathBuf| match inspect(&folder) {
            Ok(store) => Ok((folder, store)),
            Err(error) => Err(Failure::Runtime(error.to_string())),
        };
        folders.into_iter().map(open).collect()
    }
}

/// A store's folder, and the store as it is seen from outside.
type Seen = (PathBuf, Box<dyn Inspect>);

/// A disk that could not be read.
fn failed(error: shoal_store::Error) -> Failure {
    Failure::Runtime(error.to_string())
}
