//! `shoal store format`: prepares a block device for a store.

use super::failed;
use crate::failure::Failure;
use crate::show::print;
use std::path::PathBuf;

/// Make a block device empty and ready for a store; all data on the device is lost
///
/// A blank device does not need this: the first `shoal run` with the device takes it. Without
/// --erase a device with other data, or with a store of Shoal, is left alone. A device that is
/// mounted or in use is refused.
#[derive(clap::Args)]
pub struct StoreFormatOptions {
    /// The device, such as /dev/sdb
    device: PathBuf,
    /// Lose all data on the device
    #[arg(long)]
    erase: bool,
}

impl StoreFormatOptions {
    pub fn perform(self) -> Result<(), Failure> {
        shoal_store::inspect::format(&self.device, self.erase).map_err(failed)?;
        print(&format!("{} is empty, and ready for `[[store.disks]]`\n", self.device.display()))
    }
}
