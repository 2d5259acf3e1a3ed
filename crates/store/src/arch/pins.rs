//! Who uses which file number: a number in use is no victim, and is not used anew before it has been let go.
//!
//! An unlinked file takes space until its last handle is closed. So a number that is removed while it is being
//! read stays charged and out of use until then; this is what keeps the limit on disk space a hard one.

use parking_lot::Mutex;
use std::collections::HashMap;

/// The numbers in use.
#[derive(Default)]
pub(super) struct Pins {
    shards: [Mutex<HashMap<u32, Use>>; SHARDS],
}

/// How a number is used.
#[derive(Default)]
struct Use {
    users: u32,
    /// Its file is gone; the last user frees the number. Holds the space measured, where that was needed.
    doomed: Option<Option<u64>>,
}

impl Pins {
    /// One more user.
    pub(super) fn pin(&self, number: u32) {
        self.shard(number).lock().entry(number).or_default().users += 1;
    }

    /// One user fewer. When it was the last and the number is doomed, what it was doomed with: the caller frees it.
    pub(super) fn unpin(&self, number: u32) -> Option<Option<u64>> {
        let mut shard = self.shard(number).lock();
        let used = shard.get_mut(&number)?;
        used.users -= 1;
        if used.users > 0 {
            return None;
        }
        shard.remove(&number)?.doomed
    }

    /// Whether anyone uses the number.
    pub(super) fn in_use(&self, number: u32) -> bool {
        self.shard(number).lock().contains_key(&number)
    }

    /// Leaves freeing the number to its last user. False when there is none: the caller frees it.
    pub(super) fn doom(&self, number: u32, measured: Option<u64>) -> bool {
        match self.shard(number).lock().get_mut(&number) {
            Some(used) => {
                used.doomed = Some(measured);
                true
            }
            None => false,
        }
    }

    fn shard(&self, number: u32) -> &Mutex<HashMap<u32, Use>> {
        &self.shards[number as usize % SHARDS]
    }
}

const SHARDS: usize = 16;
