//! Objects to remove from a disk that does not answer: hidden until they are removed.
//!
//! A removal is never refused, or a purged object would come back. But the caller need not wait for
//! a disk that hangs. The key is hidden from lookups, and removed from the disk as soon as the disk
//! answers. If the process ends first, the removal is lost, as are the removals of its last second.
//! The number of hidden keys is limited. A disk that still hangs at the limit goes out of service,
//! until an operator brings it back without the removed objects.

use super::HybridCache;
use super::disk_queues::{DiskJobError, PATIENCE};
use crate::io_pool::JobKind;
use parking_lot::Mutex;
use shoal_core::ObjectKey;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::time::timeout;

/// Hidden keys.
#[derive(Default)]
pub(super) struct PendingRemovals {
    state: Mutex<RemovalState>,
    /// Number of hidden keys, so that lookups take no lock if there are none.
    count: AtomicUsize,
}

#[derive(Default)]
struct RemovalState {
    /// Keys, each with the number of the latest request to remove it.
    keys: HashMap<ObjectKey, u64>,
    wishes: u64,
    /// `true` while a thread removes hidden keys.
    are_seen_to: bool,
}

/// Result of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovalResult {
    /// `true` if the object was in RAM or on disk.
    pub was_there: bool,
    /// `true` if every disk has been told. If a disk has failed, does not answer or is out of
    /// service, the object may be back after the next start.
    pub lasts: bool,
}

impl RemovalResult {
    /// Combines the results of two removals.
    pub fn and(self, other: Self) -> Self {
        Self { was_there: self.was_there | other.was_there, lasts: self.lasts & other.lasts }
    }
}

/// Result of hiding a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HideOutcome {
    /// Hidden as the first key: the caller must start the removals.
    First,
    /// Hidden; a thread already runs the removals.
    Another,
    /// Too many keys are hidden.
    Refused,
}

impl PendingRemovals {
    /// Hides a key.
    pub(super) fn hide(&self, key: &ObjectKey) -> HideOutcome {
        let mut state = self.state.lock();
        if state.keys.len() >= HIDDEN_MAX {
            return HideOutcome::Refused;
        }
        let was_seen_to = std::mem::replace(&mut state.are_seen_to, true);
        state.wishes += 1;
        let wish = state.wishes;
        state.keys.insert(key.clone(), wish);
        self.count.store(state.keys.len(), SeqCst);
        if was_seen_to { HideOutcome::Another } else { HideOutcome::First }
    }

    /// Records that the first caller could not start the removals: the next caller to hide a key
    /// must start them.
    pub(super) fn leave(&self) {
        self.state.lock().are_seen_to = false;
    }

    /// Returns `true` if the key is hidden.
    pub(super) fn is_hidden(&self, key: &ObjectKey) -> bool {
        self.count.load(SeqCst) > 0 && self.state.lock().keys.contains_key(key)
    }

    /// Returns a key to remove, with the number of the request. Returns `None` if no key is hidden.
    pub(super) fn next(&self) -> Option<(ObjectKey, u64)> {
        self.state.lock().keys.iter().next().map(|(key, wish)| (key.clone(), *wish))
    }

    /// Records a removal and shows the key, unless a newer request hid it again. Returns `true` if
    /// keys are still hidden.
    pub(super) fn unhide(&self, key: &ObjectKey, wish: u64) -> bool {
        let mut state = self.state.lock();
        if state.keys.get(key) == Some(&wish) {
            state.keys.remove(key);
        }
        self.count.store(state.keys.len(), SeqCst);
        state.are_seen_to = !state.keys.is_empty();
        state.are_seen_to
    }
}

impl HybridCache {
    /// Removes an object everywhere.
    pub async fn remove(self: &Arc<Self>, key: &ObjectKey) -> RemovalResult {
        let was_there = self.memory.remove(key.hash());
        self.end_turns(key);
        self.remove_from_disk(key).await.and(RemovalResult { was_there, lasts: true })
    }

    pub(super) async fn remove_from_disk(self: &Arc<Self>, key: &ObjectKey) -> RemovalResult {
        // This includes objects that the store does not find: a removal holds after a crash, too.
        if self.disk.is_none() {
            return RemovalResult { was_there: false, lasts: true };
        }
        let mut removal = Box::pin(Arc::clone(self).removal(key.clone()));
        if self.disk_queue_for(key).hangs() {
            self.metrics.disk_busy.increment();
        } else {
            if let Ok(removed) = timeout(PATIENCE, &mut removal).await {
                return removed;
            }
            self.metrics.disk_slow.increment();
        }
        let hidden = RemovalResult { was_there: self.on_disk(key), lasts: false };
        match self.removals.hide(key) {
            HideOutcome::Refused => self.remove_without_hiding(key, removal).await.unwrap_or(hidden),
            HideOutcome::First => {
                self.run_removals();
                hidden
            }
            HideOutcome::Another => hidden,
        }
    }

    /// Waits for a disk while it makes progress. A disk without progress is taken out of service,
    /// which removes its objects. Other disks then have its keys, and one of these may have the
    /// object too. Returns `None` if this is unknown.
    async fn remove_without_hiding(
        self: &Arc<Self>,
        key: &ObjectKey,
        mut removal: Pin<Box<impl Future<Output = RemovalResult> + Send>>,
    ) -> Option<RemovalResult> {
        let disk = self.disk.as_ref()?;
        loop {
            let lane = disk.disk_index(key.hash());
            if self.disk_queue(lane).hangs() && disk.fail_disk(lane, key) {
                let other = self.disk_queue_for(key);
                let removal = Arc::clone(self).removal(key.clone());
                return if other.hangs() { None } else { timeout(PATIENCE, removal).await.ok() };
            }
            if let Ok(removed) = timeout(PATIENCE, &mut removal).await {
                return Some(removed);
            }
        }
    }

    /// Removes an object from the disk, in any time. A removal is never refused: a busy disk must
    /// not keep a removed object.
    async fn removal(self: Arc<Self>, key: ObjectKey) -> RemovalResult {
        let failed = RemovalResult { was_there: self.on_disk(&key), lasts: false };
        let Some(store) = self.disk.clone() else { return failed };
        loop {
            let (theirs, wanted) = (Arc::clone(&store), key.clone());
            match self.disk_queue_for(&key).pool().submit(JobKind::Change, move || theirs.remove(&wanted)) {
                Ok(answer) => {
                    let outcome = self.ok_or_count(answer.await.map_err(|_| DiskJobError::Refused));
                    let lasts = store.removals_last();
                    return outcome.map_or(failed, |was_there| RemovalResult { was_there, lasts });
                }
                Err(_) => tokio::time::sleep(REMOVE_PAUSE).await,
            }
        }
    }

    /// Removes hidden keys one by one, as soon as the disks answer. Runs on its own thread, since
    /// the caller and its tasks may be gone by then.
    fn run_removals(self: &Arc<Self>) {
        let Some(store) = self.disk.clone() else { return };
        let objects = Arc::clone(self);
        let work = move || {
            while let Some((key, wish)) = objects.removals.next() {
                let _ = store.remove(&key).inspect_err(|error| objects.count_failure(error));
                if !objects.removals.unhide(&key, wish) {
                    return;
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("shoal-removals".into()).spawn(work) {
            tracing::warn!(%error, "what is removed from a disk that hangs stays hidden for the time being");
            self.removals.leave();
        }
    }
}

/// Maximum hidden keys: some megabytes. A disk with more pending removals is taken out of service
/// if it hangs.
const HIDDEN_MAX: usize = 1 << 16;
/// Pause before a removal is offered again to a full queue.
const REMOVE_PAUSE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_keys_are_listed_until_removed() {
        let removals = PendingRemovals::default();
        let (one, other) = (ObjectKey::new(*b"one"), ObjectKey::new(*b"other"));
        assert_eq!((removals.hide(&one), removals.hide(&other)), (HideOutcome::First, HideOutcome::Another));
        assert!(removals.is_hidden(&one) && removals.is_hidden(&other));
        let (next, wish) = removals.next().expect("two are hidden");
        assert!(removals.unhide(&next, wish) && !removals.is_hidden(&next));
        let (next, wish) = removals.next().expect("one is left");
        assert!(!removals.unhide(&next, wish) && removals.next().is_none());
        assert_eq!(removals.hide(&one), HideOutcome::First, "somebody has to begin anew");
        removals.leave();
        assert_eq!(removals.hide(&other), HideOutcome::First, "who cannot is not counted on");
    }

    #[test]
    fn rehidden_key_stays_hidden() {
        let removals = PendingRemovals::default();
        let key = ObjectKey::new(*b"key");
        removals.hide(&key);
        let (next, wish) = removals.next().expect("it is hidden");
        removals.hide(&key);
        assert!(removals.unhide(&next, wish) && removals.is_hidden(&key));
    }

    #[test]
    fn there_is_a_limit() {
        let removals = PendingRemovals::default();
        for number in 0..HIDDEN_MAX {
            removals.hide(&ObjectKey::new(number.to_le_bytes()));
        }
        assert_eq!(removals.hide(&ObjectKey::new(*b"one more")), HideOutcome::Refused);
    }
}
