//! Disks that change while the node serves: a thread brings the store to the settings.
//!
//! A pure function compares the disks in the settings with those of the store, and names the next
//! step ([`next_action`]). The thread takes it, waits as the settings' rate asks, and compares
//! again. A reload in the middle of a change thus needs no special case: a disk that comes back
//! while its objects are copied away stays.
//!
//! Disks on their way out are listed in a file, for the next process. A step that fails is logged
//! and not repeated until the settings of its disk change.

use super::{purges_at, reopening};
use crate::hybrid_cache::HybridCache;
use crate::io_pool::IoPool;
use crate::leaving;
use crate::purge_table::PurgeTable;
use crate::storage::{attach_purge_table, opener_of, windows_bytes, windows_of};
use parking_lot::{Condvar, Mutex};
use shoal_settings::{Disk, Settings};
use shoal_store::Error;
use shoal_store::disks::{ChangeKind, DiskState, Disks, ServiceState};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Thread that changes the disks; it ends when this is dropped.
pub(super) struct DiskChanges(Arc<ChangeState>);

struct ChangeState {
    disks: Arc<Disks>,
    objects: Arc<HybridCache>,
    purge_table: Arc<PurgeTable>,
    settings: Mutex<Arc<Settings>>,
    /// `true` once the settings changed, until the thread has seen them.
    is_due: Mutex<bool>,
    due: Condvar,
    is_stopped: AtomicBool,
    /// `true` while another process has the disks.
    is_paused: AtomicBool,
}

/// Walk over a disk's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Walk {
    /// Place of the next step; `None` at the end.
    next: Option<u64>,
    /// Bytes of the disk to come; 0 for a disk that leaves.
    to_bytes: u64,
}

/// Step of a change.
#[derive(Clone, Debug, PartialEq)]
enum Action {
    /// Opens a disk of the settings, or keeps one that was leaving.
    Add(Disk),
    /// Stops writes behind the new end of a disk.
    BeginShrinking(Disk),
    /// Opens a disk again with its new size.
    Resize(Disk),
    BeginLeaving(String),
    /// Copies some objects of a disk.
    Copy(String, Walk),
    EndLeaving(String),
    Nothing,
}

/// Memory of the thread.
struct Memory {
    walks: HashMap<String, Walk>,
    /// Bytes of disks after a change that failed.
    failed: HashMap<String, u64>,
    /// RAM of each disk for windows.
    windows: HashMap<PathBuf, u64>,
    /// Folder of the purge table.
    folder: PathBuf,
}

/// Returns the next step from the disks that the store has to those that it should have.
fn next_action(
    wanted: &[Disk],
    states: &[DiskState],
    walks: &HashMap<String, Walk>,
    failed: &HashMap<String, u64>,
) -> Action {
    let state_of = |disk: &Disk| states.iter().find(|state| Path::new(&state.path) == disk.path);
    let may_be_tried = |disk: &&Disk| failed.get(&*disk.path.to_string_lossy()) != Some(&disk.bytes.0);
    let is_leaving =
        |state: &DiskState| state.change.is_some_and(|change| change.kind == ChangeKind::Leaving);
    let tried = || wanted.iter().filter(may_be_tried);
    if let Some(new) = tried().find(|disk| state_of(disk).is_none_or(is_leaving)) {
        return Action::Add(new.clone());
    }
    for disk in tried() {
        let Some(state) = state_of(disk).filter(|state| state.bytes != disk.bytes.0) else { continue };
        let is_smaller = disk.bytes.0 < state.bytes && state.service == ServiceState::InService;
        return match walks.get(&state.path).filter(|walk| walk.to_bytes == disk.bytes.0) {
            Some(walk) if is_smaller && walk.next.is_some() => Action::Copy(state.path.clone(), *walk),
            None if is_smaller => Action::BeginShrinking(disk.clone()),
            _ => Action::Resize(disk.clone()),
        };
    }
    let is_wanted = |state: &&DiskState| wanted.iter().any(|disk| disk.path == Path::new(&state.path));
    let Some(state) = states.iter().find(|state| !is_wanted(state)) else { return Action::Nothing };
    if !is_leaving(state) {
        return Action::BeginLeaving(state.path.clone());
    }
    let walk = walks.get(&state.path).copied().filter(|walk| walk.to_bytes == 0);
    let walk = walk.unwrap_or(Walk { next: Some(0), to_bytes: 0 });
    match walk.next.is_some() && state.service == ServiceState::InService {
        true => Action::Copy(state.path.clone(), walk),
        false => Action::EndLeaving(state.path.clone()),
    }
}

impl DiskChanges {
    /// Starts the thread, for a node with these settings. Returns `None`, and logs, without one.
    pub fn start(
        disks: &Arc<Disks>,
        objects: &Arc<HybridCache>,
        purge_table: &Arc<PurgeTable>,
        settings: &Settings,
    ) -> Option<Self> {
        let state = Arc::new(ChangeState {
            disks: Arc::clone(disks),
            objects: Arc::clone(objects),
            purge_table: Arc::clone(purge_table),
            settings: Mutex::new(Arc::new(settings.clone())),
            is_due: Mutex::new(true),
            due: Condvar::new(),
            is_stopped: AtomicBool::new(false),
            is_paused: AtomicBool::new(false),
        });
        let (store, windows) = (&settings.store, windows_bytes(settings));
        let windows = store.all_disks().into_iter().map(|disk| {
            let bytes = windows_of(store, &disk, windows);
            (disk.path, bytes)
        });
        let memory = Memory {
            walks: HashMap::new(),
            failed: HashMap::new(),
            windows: windows.collect(),
            folder: store.directory.clone(),
        };
        let work = Arc::clone(&state);
        let started = Builder::new().name("shoal-disks".into()).spawn(move || work.run(memory));
        if let Err(error) = &started {
            tracing::error!(%error, "no thread to change the disks: changed disks wait for the next start");
        }
        started.ok().map(|_| Self(state))
    }

    /// Brings the disks to these settings, in the background.
    pub fn apply(&self, settings: &Settings) {
        *self.0.settings.lock() = Arc::new(settings.clone());
        self.0.ring();
    }

    /// Leaves the disks to another process, or goes on.
    pub fn pause(&self, is_paused: bool) {
        self.0.is_paused.store(is_paused, SeqCst);
        self.0.ring();
    }

    /// Ends the thread. One step may still be in progress.
    pub fn stop(&self) {
        self.0.is_stopped.store(true, SeqCst);
        self.0.ring();
    }
}

impl Drop for DiskChanges {
    fn drop(&mut self) {
        self.stop();
    }
}

impl ChangeState {
    fn ring(&self) {
        *self.is_due.lock() = true;
        self.due.notify_all();
    }

    fn run(self: &Arc<Self>, mut memory: Memory) {
        let mut known = Arc::clone(&*self.settings.lock());
        let mut trim_at = Some(Instant::now() + READERS_WAIT);
        while !self.is_stopped.load(SeqCst) {
            let settings = Arc::clone(&*self.settings.lock());
            if !Arc::ptr_eq(&known, &settings) {
                memory.failed.clear();
                known = Arc::clone(&settings);
            }
            if trim_at.is_some_and(|at| Instant::now() >= at) && !self.is_paused.load(SeqCst) {
                trim_at = None;
                self.disks.trim();
            }
            let pause = match self.is_paused.load(SeqCst) {
                true => PAUSE_IDLE,
                false => {
                    self.move_purges(&settings, &mut memory);
                    self.step(&settings, &mut memory)
                }
            };
            let mut is_due = self.is_due.lock();
            self.due.wait_while_for(&mut is_due, |is_due| !*is_due, pause);
            *is_due = false;
        }
    }

    /// Takes the next step. Returns the pause after it.
    fn step(self: &Arc<Self>, settings: &Settings, memory: &mut Memory) -> Duration {
        let store = &settings.store;
        let action = next_action(&store.all_disks(), &self.disks.states(), &memory.walks, &memory.failed);
        let (path, bytes) = match &action {
            Action::Nothing => return PAUSE_IDLE,
            Action::Add(disk) | Action::BeginShrinking(disk) | Action::Resize(disk) => {
                (disk.path.to_string_lossy().into_owned(), disk.bytes.0)
            }
            Action::BeginLeaving(path) | Action::Copy(path, _) | Action::EndLeaving(path) => {
                (path.clone(), 0)
            }
        };
        debug_assert!(!path.is_empty(), "a step is for a disk");
        let begun = Instant::now();
        match self.take(action, settings, memory) {
            Ok(moved) => {
                let rate = store.move_rate.0;
                // No rate is no limit.
                let wanted = moved.saturating_mul(1000).checked_div(rate).unwrap_or(0);
                let wanted = Duration::from_millis(wanted);
                wanted.saturating_sub(begun.elapsed()).min(PAUSE_IDLE)
            }
            Err(error) => {
                tracing::error!(disk = path, %error, "a change of this disk failed; it is tried again after the next reload");
                memory.failed.insert(path.clone(), bytes);
                // A walk that fails ends: the rest of the objects stays behind.
                if let Some(walk) = memory.walks.get_mut(&path) {
                    walk.next = None;
                }
                PAUSE_AFTER_FAILURE
            }
        }
    }

    /// Takes a step. Returns the bytes that were read and written for it.
    fn take(
        self: &Arc<Self>,
        action: Action,
        settings: &Settings,
        memory: &mut Memory,
    ) -> Result<u64, Error> {
        match action {
            Action::Nothing => {}
            Action::Add(disk) => self.add(&disk, settings, memory)?,
            Action::BeginShrinking(disk) => {
                let path = disk.path.to_string_lossy().into_owned();
                let next = self.disks.begin_shrinking(&path, self.store_bytes(&disk, settings))?;
                memory.walks.insert(path, Walk { next, to_bytes: disk.bytes.0 });
            }
            Action::Resize(disk) => {
                memory.walks.remove(&*disk.path.to_string_lossy());
                let windows = memory.windows.get(&disk.path).copied().unwrap_or(0);
                let (spec, opener) = opener_of(&settings.store, &disk, windows);
                self.disks.resize(&spec, opener, &self.ready(&disk.path, settings))?;
            }
            Action::BeginLeaving(path) => {
                // Listed first: a crash from here on forgets no object.
                self.list_leaving(settings, Some(&path));
                self.disks.begin_leaving(&path)?;
            }
            Action::Copy(path, walk) => {
                assert!(walk.next.is_some(), "a walk that has ended");
                let place = walk.next.unwrap_or_default();
                memory.walks.insert(path.clone(), walk);
                let step = self.disks.drain_step(&path, place)?;
                memory.walks.insert(path, Walk { next: step.next, ..walk });
                return Ok(step.bytes);
            }
            Action::EndLeaving(path) => {
                memory.walks.remove(&path);
                memory.failed.remove(&path);
                memory.windows.remove(Path::new(&path));
                self.end_leaving(path);
            }
        }
        Ok(0)
    }

    fn add(&self, disk: &Disk, settings: &Settings, memory: &mut Memory) -> Result<(), Error> {
        let store = &settings.store;
        let windows = match memory.windows.get(&disk.path) {
            Some(windows) => *windows,
            None => {
                let windows = windows_of(store, disk, windows_bytes(settings));
                // Without the RAM the disk's objects are read alone.
                if self.objects.hold_windows(windows) { windows } else { 0 }
            }
        };
        memory.windows.insert(disk.path.clone(), windows);
        memory.walks.remove(&*disk.path.to_string_lossy());
        let (spec, opener) = opener_of(store, disk, windows);
        let (threads, queue) = (store.io_threads, store.io_queue);
        let prepare = |number: usize| {
            let made = self.objects.add_lane(number, || IoPool::new(threads, queue));
            made.map_err(|error| Error::Unusable(format!("no threads for the disk: {error}")))
        };
        self.disks.add(spec, opener, &self.ready(&disk.path, settings), &prepare)?;
        self.list_leaving(settings, None);
        Ok(())
    }

    /// Returns the bytes of a disk for its store; the only disk holds the purges too.
    fn store_bytes(&self, disk: &Disk, settings: &Settings) -> u64 {
        let purges = if disk.path == settings.store.directory { PurgeTable::BYTES } else { 0 };
        disk.bytes.0.saturating_sub(purges)
    }

    fn ready(&self, path: &Path, settings: &Settings) -> shoal_store::disks::Ready {
        let folder = purges_at(&settings.store).filter(|folder| folder == path);
        reopening::ready(&self.purge_table, folder)
    }

    /// Closes a disk after its objects have been copied, once the copies are on disk and nobody
    /// reads the originals. Empties it then.
    fn end_leaving(self: &Arc<Self>, path: String) {
        let end = Instant::now() + WRITTEN_WAIT_MAX;
        while self.disks.unwritten() > 0 && Instant::now() < end {
            std::thread::sleep(PAUSE_WRITTEN);
        }
        let change =
            self.disks.states().into_iter().find(|disk| disk.path == path).and_then(|disk| disk.change);
        let (copied, dropped) = change.map_or((0, 0), |change| (change.copied, change.dropped));
        tracing::info!(disk = path, copied, dropped, "the objects of the disk have been copied; it closes");
        let state = Arc::clone(self);
        let work = move || {
            while state.disks.end_leaving(&path).is_err() {
                if state.is_stopped.load(SeqCst) || state.disks.states().iter().any(|disk| disk.path == path)
                {
                    return;
                }
            }
            let emptied = shoal_store::inspect::empty(Path::new(&path));
            let settings = Arc::clone(&*state.settings.lock());
            state.list_leaving(&settings, None);
            match emptied {
                Ok(()) => tracing::info!(disk = path, "the disk is empty and closed: it can be taken out"),
                Err(error) => tracing::warn!(
                    disk = path, %error,
                    "the disk is closed and can be taken out; empty it before it becomes a disk of this store again"
                ),
            }
        };
        if let Err(error) = Builder::new().name("shoal-leave".into()).spawn(work) {
            tracing::error!(%error, "no thread to close a disk that has been removed");
        }
    }

    /// Writes the list of disks on their way out, with one that begins.
    fn list_leaving(&self, settings: &Settings, begins: Option<&str>) {
        let is_leaving = |state: &DiskState| {
            begins == Some(&*state.path)
                || state.change.is_some_and(|change| change.kind == ChangeKind::Leaving)
        };
        let states = self.disks.states();
        let left = states.iter().filter(|state| is_leaving(state)).map(|state| Disk {
            path: PathBuf::from(&state.path),
            bytes: shoal_core::ByteCount(state.bytes),
            endurance: None,
        });
        if let Err(error) = leaving::write(&settings.store.directory, &left.collect::<Vec<_>>()) {
            tracing::warn!(%error, "a restart would forget that disks are on their way out");
        }
    }

    /// Lets the purges be written to another folder, if the settings name one that is no disk's.
    fn move_purges(&self, settings: &Settings, memory: &mut Memory) {
        let folder = &settings.store.directory;
        if *folder == memory.folder {
            return;
        }
        // The only disk brings the purges along.
        if purges_at(&settings.store).is_none()
            && let Err(error) = attach_purge_table(&self.purge_table, folder)
        {
            tracing::error!(%error, "the purges stay in the folder before");
        }
        // The disks that are still leaving are listed in the new folder too.
        let left = leaving::read(&memory.folder);
        if !left.is_empty() && leaving::write(folder, &left).is_ok() {
            let _ = leaving::write(&memory.folder, &[]);
        }
        memory.folder.clone_from(folder);
    }
}

/// Longest pause between two looks at the settings.
const PAUSE_IDLE: Duration = Duration::from_secs(5);
/// Time after the start in which a process before may still read from the disks with their earlier
/// size.
const READERS_WAIT: Duration = Duration::from_secs(600);
/// Pause after a failed step.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Pause between two looks for unwritten copies.
const PAUSE_WRITTEN: Duration = Duration::from_millis(20);
/// Longest wait for the copies to be written.
const WRITTEN_WAIT_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
