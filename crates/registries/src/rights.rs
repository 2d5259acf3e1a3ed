//! The registry's word about clients: each client and package that it has let in, for a time.
//!
//! ```text
//!   client, package ─► let in lately ─────────► stored answer
//!                   └► not, or long ago ─► HEAD at the registry with the client's Authorization
//! ```
//!
//! The table has a keyed hash of 128 bits of each credential, never the credential. A full table
//! forgets its old entries first, then all: the registry is asked again.

use parking_lot::Mutex;
use shoal_core::Timestamp;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Clients that a registry has let in.
#[derive(Default)]
pub struct Rights {
    let_in: Mutex<HashMap<(u64, u64), Timestamp>>,
    secrets: (RandomState, RandomState),
}

/// A client's right to one package.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Right((u64, u64));

impl Rights {
    /// Names the right of a client with these credentials to a package. Without credentials, it is
    /// that of all clients without them.
    pub fn right(&self, credentials: Option<&[u8]>, package: &str) -> Right {
        let named = (credentials, package);
        Right((self.secrets.0.hash_one(named), self.secrets.1.hash_one(named)))
    }

    /// Remembers that the registry has let the client in.
    pub fn let_in(&self, right: Right, now: Timestamp) {
        let mut table = self.let_in.lock();
        if table.len() >= RIGHTS_MAX {
            table.retain(|_, since| now < since.plus(KEPT_WHEN_FULL));
        }
        if table.len() >= RIGHTS_MAX {
            table.clear();
        }
        table.insert(right.0, now);
        debug_assert!(table.len() <= RIGHTS_MAX);
    }

    /// Forgets a right: the registry has refused the client.
    pub fn forget(&self, right: Right) {
        self.let_in.lock().remove(&right.0);
    }

    /// Returns `true` if the registry has let the client in within this time.
    pub fn holds(&self, right: Right, lifetime: Duration, now: Timestamp) -> bool {
        self.let_in.lock().get(&right.0).is_some_and(|since| now < since.plus(lifetime))
    }
}

/// Most rights of one mirror.
const RIGHTS_MAX: usize = 65_536;
/// Age up to which a full table keeps its rights.
const KEPT_WHEN_FULL: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_of_one_client_and_package_for_a_time() {
        let (rights, now) = (Rights::default(), Timestamp::from_millis(1_000_000));
        let lifetime = Duration::from_secs(60);
        let right = rights.right(Some(b"Bearer a"), "x");
        rights.let_in(right, now);
        assert!(rights.holds(right, lifetime, now.plus(Duration::from_secs(59))));
        assert!(!rights.holds(right, lifetime, now.plus(lifetime)));
        for other in [(Some(&b"Bearer b"[..]), "x"), (Some(b"Bearer a"), "y"), (None, "x")] {
            assert!(!rights.holds(rights.right(other.0, other.1), lifetime, now), "{other:?}");
        }
        rights.forget(right);
        assert!(!rights.holds(right, lifetime, now));
    }

    #[test]
    fn table_is_bounded() {
        let (rights, now) = (Rights::default(), Timestamp::from_millis(1_000_000));
        for number in 0..RIGHTS_MAX + 10 {
            rights.let_in(rights.right(None, &number.to_string()), now);
        }
        assert!(rights.let_in.lock().len() <= RIGHTS_MAX);
    }
}
