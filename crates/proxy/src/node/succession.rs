//! Hand-over of a node from one process to the next, and back.
//!
//! ```text
//! serving ─► released: hits from RAM and disk, nothing is stored ─► retired: requests end
//!    ▲           │
//!    └───────────┘ the next process does not come up
//! ```
//!
//! Only one process writes the store, the purges and the cluster's journal, and only one speaks for
//! the node in its cluster. Purges that a released node makes are told to the process that has the
//! files.

use super::changing::DiskChanges;
use super::{Node, NodeError, reopening};
use crate::cluster::{ClusterInheritance, peer_address};
use crate::exchange::apply_change;
use crate::metrics::Metrics;
use crate::purge_table::PurgeScope;
use crate::server::RunningServer;
use crate::storage::{OPEN_PATIENCE, StorageError, StorageStack, attach_purge_table};
use shoal_core::ObjectKey;
use shoal_handover::{Change, InheritedSockets, SocketName, SocketUse};
use shoal_settings::Settings;
use shoal_store::Store;
use shoal_store::disks::{DiskState, Heir, LateObject, ServiceState};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Parts of a node that its process gets from the one before.
#[derive(Default)]
pub struct Inheritance {
    /// Sockets that are bound already.
    pub sockets: InheritedSockets,
    /// Waits until the process before has let the store go, or says why it does not. Called once
    /// all that does not need the store has succeeded.
    pub store: Option<Box<dyn FnOnce() -> Result<StoreRelease, String> + Send>>,
}

/// State in which a process leaves the node to the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreRelease {
    /// Disks that were in service.
    pub disks: Vec<String>,
    /// Addresses of members of the cluster.
    pub members: Vec<String>,
}

/// Event in a node that has let its store go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LateNews {
    /// Stored responses were purged.
    Changed(Change),
    /// An object would have been stored.
    Stored(LateObject),
    /// An object was removed, with this key.
    Removed(ObjectKey),
}

/// Adapter from the store's events.
struct NewsHeir<F>(Arc<F>);

impl<F: Fn(LateNews) -> bool + Send + Sync> Heir for NewsHeir<F> {
    fn insert(&self, object: LateObject) -> bool {
        (self.0)(LateNews::Stored(object))
    }

    fn remove(&self, key: &ObjectKey) {
        let _ = (self.0)(LateNews::Removed(key.clone()));
    }
}

impl Node {
    /// Returns handles of all sockets that others know, with their names, for another process.
    ///
    /// # Errors
    /// If descriptors have run out.
    pub fn offers(&self) -> io::Result<Vec<(SocketName, OwnedFd)>> {
        let mut offers = self.running.lock().as_ref().map_or(Ok(Vec::new()), RunningServer::offers)?;
        if let Some(neighbours) = &*self.neighbours.lock() {
            offers.extend(neighbours.offers()?);
        }
        if let (Some(membership), Some(cluster)) = (&self.membership, &self.cluster) {
            let asked = cluster.address().to_string();
            let name = SocketName { used_for: Some(SocketUse::Gossip), bound: asked.clone(), asked };
            offers.push((name, membership.socket()?.into()));
        }
        Ok(offers)
    }

    /// Writes everything, lets another process open the store, and tells `told` of all that happens
    /// too late from now on; it must not block. Blocks. After an error the node is as before.
    ///
    /// # Errors
    /// The reason, in a line.
    pub fn release(
        &self,
        told: impl Fn(LateNews) -> bool + Send + Sync + 'static,
    ) -> Result<StoreRelease, String> {
        let _no_reload = self.reloading.lock();
        let mut left = StoreRelease::default();
        if let (Some(membership), Some(cluster)) = (&self.membership, &self.cluster) {
            let view = membership.view();
            let others = view.members().iter().filter(|member| member.id != cluster.own());
            left.members.extend(others.take(MEMBERS_MAX).map(|member| member.address.to_string()));
            membership.pause(true);
            cluster.invalidation().iter().for_each(|purges| purges.freeze(true));
        }
        if let Some(reopening) = &self.reopening {
            reopening.pause(true);
        }
        self.changes.iter().for_each(|changes| changes.pause(true));
        self.wait_for_disk_jobs();
        self.dashboard.get().inspect(|dashboard| dashboard.leave_history(true));
        // From here on a purge is written, or told, or both.
        let told = Arc::new(told);
        let changed = Arc::clone(&told);
        self.exchange.cache().changes.set(Some(Box::new(move |change| {
            // A listener that takes no more purges everything.
            let _ = changed(LateNews::Changed(change));
        })));
        debug_assert!(left.members.len() <= MEMBERS_MAX);
        let Some(disks) = &self.disks else { return Ok(left) };
        let in_service = |disk: DiskState| (disk.service == ServiceState::InService).then_some(disk.path);
        left.disks = disks.states().into_iter().filter_map(in_service).collect();
        let purge_table = self.exchange.purge_table();
        if !purge_table.are_lost() {
            purge_table.note_time();
            let released = purge_table.release_file();
            let written = super::timers()
                .map(|runtime| runtime.block_on(async { timeout(PURGES_WAIT_MAX, released).await }));
            let failure = match written {
                Err(error) => Some(error.to_string()),
                Ok(Err(_)) => Some("the disk does not answer".into()),
                Ok(Ok(written)) => written.err().map(|why| why.to_string()),
            };
            if let Some(why) = failure {
                self.take_back();
                return Err(format!("the purges cannot be written: {why}"));
            }
        }
        match disks.release(Arc::new(NewsHeir(told))) {
            Ok(()) => Ok(left),
            Err(error) => {
                self.take_back();
                Err(error.to_string())
            }
        }
    }

    /// Takes the store and all else back that [`Self::release`] let go. Blocks.
    pub fn take_back(&self) {
        debug_assert!(!self.draining.load(SeqCst), "a retired node");
        let store = self.settings.lock().store.clone();
        let purge_table = self.exchange.purge_table();
        if let Some(disks) = &self.disks {
            let folder = super::purges_at(&store);
            if folder.is_none()
                && let Err(error) = attach_purge_table(purge_table, &store.directory)
            {
                purge_table.detach_file(&error.to_string());
            }
            disks.take_back(&reopening::ready(purge_table, folder.clone()));
            if let Some(folder) = folder.filter(|_| !purge_table.is_in_file())
                && let Err(error) = attach_purge_table(purge_table, &folder)
            {
                // The thread that opens disks again reads the purges too.
                purge_table.detach_file(&error.to_string());
            }
        }
        self.exchange.cache().changes.set(None);
        self.dashboard.get().inspect(|dashboard| dashboard.leave_history(false));
        if let Some(reopening) = &self.reopening {
            reopening.pause(false);
        }
        self.changes.iter().for_each(|changes| changes.pause(false));
        if let Some(cluster) = &self.cluster {
            cluster.invalidation().iter().for_each(|purges| purges.freeze(false));
        }
        if let Some(membership) = &self.membership {
            membership.pause(false);
        }
    }

    /// Ends a node that another process has taken over: accepts no clients, answers each idle one
    /// once more, and lets requests finish within `grace`. Blocks.
    pub fn retire(&self, grace: Duration) {
        self.announce_drain();
        self.warming.stop_all();
        if let Some(membership) = &self.membership {
            membership.end_replaced();
        }
        if let Some(reopening) = &self.reopening {
            reopening.stop();
        }
        self.changes.iter().for_each(DiskChanges::stop);
        if let Some(neighbours) = self.neighbours.lock().take() {
            neighbours.stop();
        }
        if let Some(running) = self.running.lock().take() {
            running.retire(grace, grace);
            running.join();
        }
        self.stop_dashboard();
        self.exchange.cache().changes.set(None);
        self.objects.pools().for_each(|pool| pool.close());
    }

    /// Serves nothing that was stored up to now: the process that has taken over has purged.
    pub fn forget_stored(&self) {
        self.exchange.purge_table().purge(PurgeScope::All);
    }

    /// Tells a function, which must not block, of each purge from now on; `None` tells nobody.
    pub fn tell_changes(&self, told: Option<Box<dyn Fn(Change) + Send + Sync>>) {
        self.exchange.cache().changes.set(told);
    }

    /// Stores an object of the process before, unless this node has one of its key, or has removed
    /// any. Blocks on the disk.
    pub fn adopt(&self, object: &LateObject) {
        let Some(disk) = self.objects.disk() else { return };
        let is_here = self.objects.on_disk(&object.key) || self.objects.memory_entry(&object.key).is_some();
        if is_here || !self.exchange.cache().has_invalidated_nothing() {
            return;
        }
        if let Err(error) = store(&**disk, object) {
            tracing::debug!(%error, "an object of the process before is not stored");
        }
        // An invalidation marks first, then removes: one that came during the write found nothing.
        if !self.exchange.cache().has_invalidated_nothing() {
            self.remove_late(&object.key);
        }
    }

    /// Stores objects again that were to be stored while another process had the disks.
    pub fn store_again(&self, objects: Vec<LateObject>) {
        objects.iter().for_each(|object| self.adopt(object));
    }

    /// Removes an object that the process before has removed. Blocks.
    pub fn remove_late(&self, key: &ObjectKey) {
        let _ = super::timers().map(|runtime| runtime.block_on(self.objects.remove(key)));
    }

    /// Makes a purge of the process before. Blocks.
    pub fn apply_change(&self, change: Change) {
        let _ = super::timers().map(|runtime| runtime.block_on(apply_change(&self.exchange, change)));
    }

    /// Waits until no job is about to store, for at most half a second: an object that a client was
    /// told is stored is to be written.
    fn wait_for_disk_jobs(&self) {
        let end = Instant::now() + JOBS_WAIT_MAX;
        while self.objects.pools().any(|pool| pool.is_changing()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn store(disk: &dyn Store, object: &LateObject) -> Result<(), shoal_store::Error> {
    let mut insert = disk.insert(&object.key, &object.metadata, Some(object.body.len() as u64))?;
    insert.append(&object.body)?;
    insert.commit(None)
}

/// Opens the storage, once the process before, if there is one, has let it go. Also returns the
/// addresses of members of the cluster.
pub(super) fn open_storage(
    settings: &Settings,
    metrics: &Arc<Metrics>,
    store: Option<Box<dyn FnOnce() -> Result<StoreRelease, String> + Send>>,
) -> Result<(StorageStack, Vec<String>), NodeError> {
    let failed = |error| match error {
        StorageError::Threads(error) => NodeError::Threads(error),
        StorageError::NoDisk(why) => NodeError::NoDisk(why),
    };
    let Some(store) = store else {
        let stack = StorageStack::open_within(OPEN_PATIENCE, settings, metrics).map_err(failed)?;
        return Ok((stack, Vec::new()));
    };
    let left = store().map_err(NodeError::Handover)?;
    debug_assert!(left.members.len() <= MEMBERS_MAX);
    let stack = StorageStack::open_within(RELEASED_PATIENCE, settings, metrics).map_err(failed)?;
    let states = stack.disks.as_ref().map_or(Vec::new(), |disks| disks.states());
    for disk in states.iter().filter(|disk| left.disks.contains(&disk.path)) {
        if disk.service != ServiceState::InService {
            return Err(NodeError::Handover(format!("{} cannot be taken over: {}", disk.path, disk.why)));
        }
    }
    Ok((stack, left.members))
}

/// Returns the parts of the membership that come from the process before. The sockets that are
/// still left then belong to no setting.
pub(super) fn cluster_inheritance(
    settings: &Settings,
    members: Vec<String>,
    sockets: &mut InheritedSockets,
) -> ClusterInheritance {
    let socket = peer_address(settings)
        .and_then(|address| sockets.take(SocketUse::Gossip, &address.to_string()).pop())
        .map(Into::into);
    tell_left(sockets);
    ClusterInheritance { socket, members }
}

/// Logs the sockets that no setting names. They close, and refuse the clients that wait there.
fn tell_left(sockets: &InheritedSockets) {
    for name in sockets.left() {
        tracing::warn!(
            address = name.bound,
            "a socket was passed to this process, and no setting has its address; it is closed"
        );
    }
}

/// Most members of the cluster that are passed on; they know the others.
const MEMBERS_MAX: usize = 64;

/// Longest wait for the purges before the release.
const PURGES_WAIT_MAX: Duration = Duration::from_secs(3);

/// Longest wait for jobs that store.
const JOBS_WAIT_MAX: Duration = Duration::from_millis(500);

/// Longest wait for disks that another process has just let go.
const RELEASED_PATIENCE: Duration = Duration::from_secs(10);
