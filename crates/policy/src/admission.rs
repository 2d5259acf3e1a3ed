//! Which objects are worth writing to disk: those that somebody has asked for before.
//!
//! Most objects that come to a cache are never asked for again (one-hit wonders), and each costs a write and the space of
//! one that would be. So a newcomer is on probation: it is written when it is asked for a second time, as long as
//! its key is remembered in a list of ghosts, like the small queue of S3-FIFO (Yang et al., SOSP 2023), with RAM as
//! that queue. A store that has room for everything asks nobody: see [`Admission::Always`].
//!
//! Cost: one cache line a question.

use crate::ghost::Ghost;
use shoal_core::Key;

/// When an object may be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// When it first comes.
    Always,
    /// While the store has unused space, when it first comes; from then on, when it is asked for again.
    #[default]
    Probation,
}

/// The keys that are on probation.
#[derive(Debug)]
pub struct Probation {
    ghosts: Ghost,
}

impl Default for Probation {
    fn default() -> Self {
        Self { ghosts: Ghost::new() }
    }
}

impl Probation {
    /// Whether the key was among the last `limit` asked about that have not been admitted; it then is admitted, and
    /// otherwise remembered.
    pub fn admits(&mut self, key: Key, limit: usize) -> bool {
        if self.ghosts.forget(key.high(), limit) {
            return true;
        }
        self.ghosts.remember(key.high(), limit);
        false
    }

    /// Bytes taken from the allocator.
    pub fn memory_bytes(&self) -> usize {
        self.ghosts.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> Key {
        Key::of(&number.to_le_bytes())
    }

    #[test]
    fn the_second_request_is_admitted_and_the_third_begins_anew() {
        let mut probation = Probation::default();
        assert!(!probation.admits(key(1), 100));
        assert!(probation.admits(key(1), 100));
        assert!(!probation.admits(key(1), 100));
    }

    #[test]
    fn who_comes_back_too_late_is_new() {
        let mut probation = Probation::default();
        assert!(!probation.admits(key(0), 50));
        for number in 1..=50 {
            assert!(!probation.admits(key(number), 50));
        }
        assert!(!probation.admits(key(0), 50));
        assert!(probation.admits(key(50), 50));
    }
}
