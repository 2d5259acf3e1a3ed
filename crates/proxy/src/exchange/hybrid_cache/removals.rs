//! Objects that should be gone from a disk that does not answer: hidden until they are.
//!
//! A removal is never refused, or what was purged would come back. But who asks for one need not
//! wait for a disk that hangs: the key is hidden from lookups, and taken from the disk as soon as
//! that answers. A process that ends before takes the removal with it, as it does with those of its
//! last second anyhow. There is room for so many keys; a disk that still hangs when they are more
//! is out of service, until an operator brings it back without what should be gone.

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

/// Keys that are hidden.
#[derive(Default)]
pub(super) struct PendingRemovals {
    state: Mutex<State>,
    /// As many as there are, so that lookups take no lock while there are none.
    count: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// Each with the number of the latest wish to have it removed.
    keys: HashMap<ObjectKey, u64>,
    wishes: u64,
    /// Somebody removes what is hidden.
    are_seen_to: bool,
}

/// What became of an object that was to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Whether it was somewhere.
    pub was_there: bool,
    /// Whether every disk has been told. Where one has failed, does not answer or is out of
    /// service, the object may be there again after the next start.
    pub lasts: bool,
}

impl Removed {
    /// What became of two of them.
    pub fn and(self, other: Self) -> Self {
        Self { was_there: self.was_there | other.was_there, lasts: self.lasts & other.lasts }
    }
}

/// What hiding a key has come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HideOutcome {
    /// It is hidden, as the first: somebody has to see to the removals from now on.
    First,
    /// It is hidden, and somebody sees to it.
    Another,
    /// There are too many already.
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

    /// Whoever was the first cannot see to the removals: whoever hides another key has to.
    pub(super) fn leave(&self) {
        self.state.lock().are_seen_to = false;
    }

    /// Whether the key is hidden.
    pub(super) fn is_hidden(&self, key: &ObjectKey) -> bool {
        self.count.load(SeqCst) > 0 && self.state.lock().keys.contains_key(key)
    }

    /// One that has to be removed, and for which wish. `None` when nothing is hidden any more.
    pub(super) fn next(&self) -> Option<(ObjectKey, u64)> {
        self.state.lock().keys.iter().next().map(|(key, wish)| (key.clone(), *wish))
    }

    /// It has been removed, and is shown unless that was wished for again meanwhile. True when some
    /// are hidden still.
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
    pub async fn remove(self: &Arc<Self>, key: &ObjectKey) -> Removed {
        let was_there = self.memory.remove(key.hash());
        self.remove_from_disk(key).await.and(Removed { was_there, lasts: true })
    }

    pub(super) async fn remove_from_disk(self: &Arc<Self>, key: &ObjectKey) -> Removed {
        // Also of what the store does not find: a removal holds after a crash, too.
        if self.disk.is_none() {
            return Removed { was_there: false, lasts: true };
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
        let hidden = Removed { was_there: self.on_disk(key), lasts: false };
        match self.removals.hide(key) {
            HideOutcome::Refused => self.remove_without_hiding(key, removal).await.unwrap_or(hidden),
            HideOutcome::First => {
                self.run_removals();
                hidden
            }
            HideOutcome::Another => hidden,
        }
    }

    /// Waits for a disk as long as it does anything. One that does not is given up, which removes
    /// what it has; its keys are others' then, and one of these may have the object too. `None`
    /// when that is not known.
    async fn remove_without_hiding(
        self: &Arc<Self>,
        key: &ObjectKey,
        mut removal: Pin<Box<impl Future<Output = Removed> + Send>>,
    ) -> Option<Removed> {
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

    /// Removes an object from the disk, however long that takes. A removal is not refused: what
    /// should be gone must not stay because the disk is busy.
    async fn removal(self: Arc<Self>, key: ObjectKey) -> Removed {
        let failed = Removed { was_there: self.on_disk(&key), lasts: false };
        let Some(store) = self.disk.clone() else { return failed };
        loop {
            let (theirs, wanted) = (Arc::clone(&store), key.clone());
            match self.disk_queue_for(&key).pool().submit(JobKind::Change, move || theirs.remove(&wanted)) {
                Ok(answer) => {
                    let outcome = self.ok_or_count(answer.await.map_err(|_| DiskJobError::Refused));
                    let lasts = store.removals_last();
                    return outcome.map_or(failed, |was_there| Removed { was_there, lasts });
                }
                Err(_) => tokio::time::sleep(REMOVE_PAUSE).await,
            }
        }
    }

    /// Removes what is hidden, one after the other, as soon as the disks answer: on a thread of its
    /// own, since whoever asked for a removal may be gone by then, with all its tasks.
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

/// Keys hidden at most: some megabytes. A disk from which more should be removed while it hangs is
/// given up.
const HIDDEN_MAX: usize = 1 << 16;
/// Pause before a removal is offered again to a full queue.
const REMOVE_PAUSE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_told_until_it_is_removed() {
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
    fn what_was_wished_for_again_meanwhile_stays_hidden() {
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
