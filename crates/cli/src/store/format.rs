//! `shoal store format`: makes a block device ready for a store.

use super::failed;
use crate::failure::Failure;
use crate::show::print;
use std::path::PathBuf;

/// Make a block device empty and ready for a store; what it holds is lost
///
/// A blank device needs none of this: the first `shoal run` with it takes it. One that holds
/// anything else, or a store of Shoal, is left alone without --erase. A device that is mounted or
/// in use is refused.
#[derive(clap::Args)]
pub struct Options {
    /// The device, such as /dev/sdb
    device: PathBuf,
    /// Lose what is on it
    #[arg(long)]
    erase: bool,
}

impl Options {
    pub fn perform(self) -> Result<(), Failure> {
        shoal_store::inspect::format(&self.device, self.erase).map_err(failed)?;
        print(&format!("{} is empty, and ready for `[[store.disks]]`\n", self.device.display()))
    }
}
