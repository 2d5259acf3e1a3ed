//! Notes of objects as they are stored, for the digest of this node.
//!
//! Nothing is noted unless other nodes pull the digest. Notes are made where an object is stored,
//! never on a hit.

use super::HybridCache;
use crate::clock;
use crate::message::target::FORWARD;
use crate::metadata::ObjectMetadata;
use parking_lot::Mutex;
use shoal_core::{Key, ObjectKey};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Notes that the digest has not taken yet.
#[derive(Default)]
pub struct ContentNotes {
    is_on: AtomicBool,
    queue: Mutex<Vec<ContentNote>>,
    /// Set when a note found no room: RAM has to be looked at.
    is_incomplete: AtomicBool,
}

/// An object that was stored.
#[derive(Clone, Debug)]
pub struct ContentNote {
    /// Key of the object.
    pub key: ObjectKey,
    /// End of its freshness, in seconds since the epoch.
    pub fresh_until: u32,
}

impl ContentNote {
    /// Returns the note of an object, if a request for its URL may get it unasked.
    pub fn of(key: &ObjectKey, record: &ObjectMetadata) -> Option<Self> {
        let url = key.full().strip_suffix(FORWARD).unwrap_or(key.full());
        if url.contains(&0) {
            // A variant or a part: its URL's own key leads to it.
            return None;
        }
        let fresh_until = match record {
            ObjectMetadata::Response(head) if head.policy.always_validates() => return None,
            ObjectMetadata::Response(head) => {
                let now = clock::now();
                let left = head.policy.time_to_live(now).max(0).unsigned_abs();
                now.plus(Duration::from_secs(left)).seconds()
            }
            ObjectMetadata::Vary(_) => u64::MAX,
            ObjectMetadata::Parts(_) => return None,
        };
        Some(Self { key: key.clone(), fresh_until: u32::try_from(fresh_until).unwrap_or(u32::MAX) })
    }
}

impl ContentNotes {
    /// Begins or ends to take notes.
    pub fn set(&self, is_on: bool) {
        self.is_on.store(is_on, Relaxed);
        if !is_on {
            self.queue.lock().clear();
        }
    }

    /// Returns the notes since the last call, and `true` if some are missing.
    pub fn take(&self) -> (Vec<ContentNote>, bool) {
        (std::mem::take(&mut *self.queue.lock()), self.is_incomplete.swap(false, Relaxed))
    }

    fn note(&self, key: &ObjectKey, record: &ObjectMetadata) {
        let Some(note) = ContentNote::of(key, record) else { return };
        let mut queue = self.queue.lock();
        match queue.len() < NOTES_MAX {
            true => queue.push(note),
            false => self.is_incomplete.store(true, Relaxed),
        }
    }
}

impl HybridCache {
    /// Returns the notes of stored objects.
    pub fn contents(&self) -> &ContentNotes {
        &self.contents
    }

    /// Notes that the object has been stored.
    pub fn note_stored(&self, key: &ObjectKey, record: &ObjectMetadata) {
        if self.contents.is_on.load(Relaxed) {
            self.contents.note(key, record);
        }
        // An object in RAM has begun a turn of its own, which has ended those before.
        if let Some(shared) = self.shared.get().filter(|_| self.memory.peek(key.hash()).is_none()) {
            shared.end(key.hash());
        }
    }

    /// Returns `true` if RAM or the disk's index has an object with this hash. A disk that hashes
    /// under a secret of its own says no.
    pub fn holds_hash(&self, hash: Key) -> bool {
        let on_disk = |disk: &std::sync::Arc<dyn shoal_store::Store>| {
            disk.may_contain(&ObjectKey::stored(Vec::new(), hash))
        };
        self.memory.peek(hash).is_some() || self.disk.as_ref().is_some_and(on_disk)
    }
}

/// Most notes that wait.
const NOTES_MAX: usize = 65_536;
