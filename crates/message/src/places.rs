//! Places of intercepted connections, shared out among clients.

use parking_lot::Mutex;
use shoal_access::client_network;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

/// Intercepted connections open now, by client network.
#[derive(Default)]
pub struct Places(Mutex<PlaceCounts>);

#[derive(Default)]
struct PlaceCounts {
    all: usize,
    by_network: HashMap<IpAddr, usize>,
}

/// ConnectionPlace that is free again when dropped.
pub struct ConnectionPlace {
    of: Arc<Places>,
    network: IpAddr,
}

impl Places {
    /// Takes a place for `client`; `None` if `limit` places are taken, or the client's network has
    /// [`SHARE`] places for each free one.
    pub fn take(self: &Arc<Self>, client: IpAddr, limit: usize) -> Option<ConnectionPlace> {
        let network = client_network(client);
        let mut taken = self.0.lock();
        let free = limit.saturating_sub(taken.all);
        let own = taken.by_network.get(&network).copied().unwrap_or_default();
        if free == 0 || own >= SHARE * free {
            return None;
        }
        taken.all += 1;
        *taken.by_network.entry(network).or_default() += 1;
        Some(ConnectionPlace { of: Arc::clone(self), network })
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut taken = self.of.0.lock();
        assert!(taken.all > 0, "a place is given back once");
        taken.all -= 1;
        if let Entry::Occupied(mut entry) = taken.by_network.entry(self.network) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// Most places of a client network for each free place, as with connections to origins.
const SHARE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_leaves_places_to_others() {
        let places = Arc::new(Places::default());
        let take = |client: &str| places.take(client.parse().expect("an address"), 10);
        let held: Vec<_> = std::iter::from_fn(|| take("192.0.2.1")).collect();
        assert_eq!(held.len(), 8);
        let other = [take("192.0.2.2"), take("192.0.2.2")];
        assert!(other.iter().all(Option::is_some) && take("192.0.2.3").is_none());
        drop((held, other));
        let taken = places.0.lock();
        assert!(taken.all == 0 && taken.by_network.is_empty());
    }
}
