//! Disks of a node that an operator takes out of service and brings back.

use super::{Node, purges_at, reopening, timers};
use shoal_store::StoreView;

impl Node {
    /// Takes a disk of the store out of service, or brings it back. Blocks. Returns `true` if the
    /// state changed.
    ///
    /// # Errors
    /// The reason for the failure, in a line.
    pub fn set_disk_online(&self, path: &str, online: bool) -> Result<bool, String> {
        let disks = self.disks.as_ref().ok_or("this node has no disk store")?;
        let purges = purges_at(&self.settings.lock().store).filter(|folder| folder.to_string_lossy() == path);
        let done = match online {
            true => {
                disks.bring_online_after(path, &reopening::ready(self.exchange.purge_table(), purges.clone()))
            }
            false => disks.take_offline(path),
        };
        if purges.is_some() && !disks.is_in_service() && !self.exchange.purge_table().are_lost() {
            self.detach_purge_table();
        }
        done.map_err(|error| match error {
            // This error names its subject: an unknown disk name, or a disk by its path.
            shoal_store::Error::Unusable(why) => why,
            error => error.to_string(),
        })
    }

    /// Writes and closes the purge table, so that its disk can be unmounted. Waits only briefly for
    /// a disk that hangs.
    pub(super) fn detach_purge_table(&self) {
        self.exchange.purge_table().note_time();
        let _ = timers().map(|runtime| runtime.block_on(self.exchange.cache().purges_written()));
        self.exchange.purge_table().detach_file("its disk is out of service");
    }
}
