//! Users of each file number: a number in use is no victim, and is not reused before its last user
//! has let go of it.
//!
//! An unlinked file takes space until its last handle is closed. A number that is removed while it
//! is being read therefore stays charged and out of use until then. This keeps the limit on disk
//! space a hard one.

use parking_lot::Mutex;
use std::collections::HashMap;

/// Numbers in use, with their fates.
pub(super) struct NumberPins<F = AfterUnpin> {
    shards: [Mutex<HashMap<u64, Use<F>>>; SHARDS],
}

/// Use of one number.
struct Use<F> {
    users: u32,
    /// Action that the number's last user takes.
    fate: Option<F>,
}

/// Fate of a number when its last user has let go of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterUnpin {
    /// The number is freed; its file is gone. Carries the measured blocks where measuring was
    /// needed.
    Free(Option<u64>),
    /// The file waits to be overwritten.
    Release,
}

impl<F> Default for NumberPins<F> {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl<F> NumberPins<F> {
    /// Adds a user of the number.
    pub(super) fn pin(&self, number: impl Into<u64>) {
        let number = number.into();
        self.shard(number).lock().entry(number).or_insert(Use { users: 0, fate: None }).users += 1;
    }

    /// Removes a user of the number. Returns the number's fate if this was the last user and a fate
    /// was left to it; the caller then carries the fate out.
    pub(super) fn unpin(&self, number: impl Into<u64>) -> Option<F> {
        let number = number.into();
        let mut shard = self.shard(number).lock();
        let used = shard.get_mut(&number)?;
        used.users -= 1;
        if used.users > 0 {
            return None;
        }
        shard.remove(&number)?.fate
    }

    /// Returns `true` if the number has a user.
    pub(super) fn in_use(&self, number: impl Into<u64>) -> bool {
        let number = number.into();
        self.shard(number).lock().contains_key(&number)
    }

    /// Leaves the number's fate to its last user. Returns `false` if there is no user: the caller
    /// then carries the fate out.
    pub(super) fn leave_to_last_user(&self, number: impl Into<u64>, fate: F) -> bool {
        let number = number.into();
        match self.shard(number).lock().get_mut(&number) {
            Some(used) => {
                used.fate = Some(fate);
                true
            }
            None => false,
        }
    }

    fn shard(&self, number: u64) -> &Mutex<HashMap<u64, Use<F>>> {
        &self.shards[number as usize % SHARDS]
    }
}

const SHARDS: usize = 16;
