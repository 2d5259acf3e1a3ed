//! Open connections of each client network on a listener, and their limit.
//!
//! A network has an entry while it has a connection, so that the table is no larger than
//! `max_connections`.

use crate::access::client_network;
use arc_swap::ArcSwap;
use ipnet::IpNet;
use parking_lot::Mutex;
use shoal_settings::Listen;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Connections of the clients of one listener, over all workers.
pub(super) struct ClientConnections {
    rules: ArcSwap<ConnectionRules>,
    open: Mutex<HashMap<IpAddr, usize>>,
    /// Earliest time of the next log line, in milliseconds since the start.
    tells_at_ms: AtomicU64,
    left_out: AtomicU64,
}

/// Limit of a listener.
struct ConnectionRules {
    /// Most connections of a network; `None` means no limit.
    limit: Option<usize>,
    /// Proxies, which carry connections of many clients.
    trusted: Vec<IpNet>,
}

/// Connection that counts for its client until dropped.
pub(super) struct ClientSeat {
    of: Arc<ClientConnections>,
    network: IpAddr,
}

impl ClientConnections {
    /// Creates the table of a listener.
    pub fn new(listen: &Listen) -> Self {
        Self {
            rules: ArcSwap::from_pointee(ConnectionRules::of(listen)),
            open: Mutex::default(),
            tells_at_ms: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
        }
    }

    /// Applies the limit of `listen` to new connections. Connections that began without a limit do
    /// not count.
    pub fn limit(&self, listen: &Listen) {
        self.rules.store(Arc::new(ConnectionRules::of(listen)));
    }

    /// Counts a new connection of `client`; `None` if it has no limit.
    ///
    /// # Errors
    /// The limit, if the client's network has reached it.
    pub fn admit(self: &Arc<Self>, client: IpAddr) -> Result<Option<ClientSeat>, usize> {
        let rules = self.rules.load();
        let Some(limit) = rules.limit else { return Ok(None) };
        let address = client.to_canonical();
        if rules.trusted.iter().any(|network| network.contains(&address)) {
            return Ok(None);
        }
        let network = client_network(client);
        let mut open = self.open.lock();
        let count = open.entry(network).or_default();
        if *count >= limit {
            // With a limit of at least 1, a refused network has an entry already.
            debug_assert!(*count > 0, "a limit is at least 1");
            return Err(limit);
        }
        *count += 1;
        Ok(Some(ClientSeat { of: Arc::clone(self), network }))
    }

    /// Logs a closed connection, at most once in an interval.
    pub fn tell(&self, client: IpAddr, limit: usize) {
        let now_ms = STARTED.elapsed().as_millis() as u64;
        let due_ms = self.tells_at_ms.load(Relaxed);
        let is_due = now_ms >= due_ms
            && self.tells_at_ms.compare_exchange(due_ms, now_ms + PAUSE_MS, Relaxed, Relaxed).is_ok();
        if is_due {
            let left_out = self.left_out.swap(0, Relaxed);
            tracing::info!(%client, limit, left_out, setting = "client_connections", "a connection was closed: its client has too many");
        } else {
            self.left_out.fetch_add(1, Relaxed);
        }
    }
}

impl ConnectionRules {
    fn of(listen: &Listen) -> Self {
        Self { limit: listen.client_connections, trusted: listen.trusted_proxies.clone() }
    }
}

impl Drop for ClientSeat {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.of.open.lock().entry(self.network) {
            assert!(*entry.get() > 0, "a connection ends once");
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// Milliseconds between two log lines.
const PAUSE_MS: u64 = 10_000;

static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

#[cfg(test)]
mod tests {
    use super::*;

    fn table(limit: Option<usize>) -> Arc<ClientConnections> {
        let listen = Listen::reverse(([127, 0, 0, 1], 0).into());
        let trusted_proxies = vec!["192.0.2.128/25".parse().expect("a network")];
        Arc::new(ClientConnections::new(&Listen { client_connections: limit, trusted_proxies, ..listen }))
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn each_network_has_its_own_limit() {
        let table = table(Some(2));
        let admit = |client| table.admit(address(client));
        let held = [admit("192.0.2.1"), admit("192.0.2.1"), admit("192.0.2.2"), admit("2001:db8::1")];
        assert!(held.iter().all(|seat| matches!(seat, Ok(Some(_)))));
        assert!(admit("::ffff:192.0.2.1").is_err(), "the same address");
        let second = admit("2001:db8::2");
        assert!(second.is_ok() && admit("2001:db8::3").is_err(), "a /64 is one client");
        drop((held, second));
        assert!(table.open.lock().is_empty());
        assert!(admit("192.0.2.1").is_ok());
    }

    #[test]
    fn trusted_proxies_have_no_limit() {
        let table = table(Some(1));
        let held: Vec<_> = (0..9).map(|_| table.admit(address("192.0.2.200"))).collect();
        assert!(held.iter().all(|seat| matches!(seat, Ok(None))));
    }

    #[test]
    fn new_limits_hold_for_new_connections() {
        let table = table(None);
        let _early = table.admit(address("192.0.2.1"));
        let listen = Listen::reverse(([127, 0, 0, 1], 0).into());
        table.limit(&Listen { client_connections: Some(1), ..listen });
        let counted = table.admit(address("192.0.2.1"));
        assert!(matches!(counted, Ok(Some(_))) && table.admit(address("192.0.2.1")).is_err());
    }
}
