//! Who uses which file number: a number in use is no victim, and is not used anew before it has
//! been let go.
//!
//! An unlinked file takes space until its last handle is closed. So a number that is removed while
//! it is being read stays charged and out of use until then; this is what keeps the limit on disk
//! space a hard one.

use parking_lot::Mutex;
use std::collections::HashMap;

/// The numbers in use, and what becomes of them.
pub(super) struct NumberPins<F = AfterUnpin> {
    shards: [Mutex<HashMap<u64, Use<F>>>; SHARDS],
}

/// How a number is used.
struct Use<F> {
    users: u32,
    /// What its last user does with it.
    fate: Option<F>,
}

/// What becomes of a number when its last user has let go of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterUnpin {
    /// Its file is gone, and the number is freed; with the space measured, where that was needed.
    Free(Option<u64>),
    /// Its file waits to be overwritten.
    Release,
}

impl<F> Default for NumberPins<F> {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl<F> NumberPins<F> {
    /// One more user.
    pub(super) fn pin(&self, number: impl Into<u64>) {
        let number = number.into();
        self.shard(number).lock().entry(number).or_insert(Use { users: 0, fate: None }).users += 1;
    }

    /// One user fewer. When it was the last and the number's fate was left to it, that: the caller
    /// sees to it.
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

    /// Whether anyone uses the number.
    pub(super) fn in_use(&self, number: impl Into<u64>) -> bool {
        let number = number.into();
        self.shard(number).lock().contains_key(&number)
    }

    /// Leaves the number to its last user. False when there is none: the caller sees to it.
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
