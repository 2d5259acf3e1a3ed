//! Handshakes under way at one worker, by the client's network: one that begins many and ends none
//! leaves places to others.

use crate::access::client_network;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

/// Handshakes by network. There is an entry for each network with one.
#[derive(Default)]
pub(super) struct HandshakeTurns(Mutex<HashMap<IpAddr, usize>>);

/// Handshake that counts for its network until dropped.
pub(super) struct HandshakeTurn {
    turns: Arc<HandshakeTurns>,
    network: IpAddr,
}

impl HandshakeTurns {
    /// Counts a handshake of `client`. Returns `None` if its network has enough under way.
    pub fn begin(self: &Arc<Self>, client: IpAddr) -> Option<HandshakeTurn> {
        let network = client_network(client);
        let mut turns = self.0.lock();
        let count = turns.entry(network).or_default();
        if *count >= OF_NETWORK_MAX {
            return None;
        }
        *count += 1;
        Some(HandshakeTurn { turns: Arc::clone(self), network })
    }
}

impl Drop for HandshakeTurn {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.turns.0.lock().entry(self.network) {
            assert!(*entry.get() > 0, "a handshake ends once");
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// Most handshakes of one network under way at a worker: an eighth of all.
const OF_NETWORK_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_has_its_share_and_gets_it_back() {
        let turns = Arc::new(HandshakeTurns::default());
        let one: IpAddr = "192.0.2.1".parse().expect("an address");
        let other: IpAddr = "192.0.2.2".parse().expect("an address");
        let held: Vec<_> = (0..OF_NETWORK_MAX).map(|_| turns.begin(one)).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(turns.begin(one).is_none());
        assert!(turns.begin(other).is_some(), "another network has its own");
        drop(held);
        assert!(turns.begin(one).is_some());
        assert!(turns.0.lock().is_empty());
    }
}
