//! End of a node.

use super::changing::DiskChanges;
use super::{Node, timers};
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Node {
    /// Tells health checks that the node drains, and goes on accepting clients.
    pub fn announce_drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Stops the node: refuses new clients, lets current requests finish within `grace`, then
    /// closes the store. Blocks.
    pub fn drain(&self, grace: Duration) {
        self.announce_drain();
        self.warming.stop_all();
        self.orders.stop();
        // The others stop asking this node before it stops answering.
        if let Some(membership) = &self.membership {
            self.hand_over();
            membership.leave();
        }
        if let Some(reopening) = &self.reopening {
            reopening.stop();
        }
        self.changes.iter().for_each(DiskChanges::stop);
        if let Some(neighbours) = self.neighbours.lock().take() {
            neighbours.stop();
        }
        if let Some(running) = self.running.lock().take() {
            running.stop(grace);
        }
        self.stop_dashboard();
        // Failures to write purges have been reported.
        self.exchange.purge_table().note_time();
        let _ = timers().map(|runtime| runtime.block_on(self.exchange.cache().purges_written()));
        self.objects.pools().for_each(|pool| pool.close());
        if let Some(disk) = self.objects.disk()
            && let Err(error) = disk.close()
        {
            tracing::error!(%error, "the disk store was not closed in order; its next start checks it");
        }
    }
}
