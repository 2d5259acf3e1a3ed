//! Seeds: addresses of `cluster.join`, with DNS names resolved again every 30 seconds.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Addresses of the seeds, as last resolved.
#[derive(Debug, Default)]
pub(super) struct SeedAddresses {
    names: Vec<String>,
    addresses: Vec<SocketAddr>,
    resolved: Option<Instant>,
}

impl SeedAddresses {
    /// Returns the addresses, and resolves the names if that was long ago.
    pub(super) async fn current(&mut self, names: &[String], now: Instant) -> &[SocketAddr] {
        let is_old = self.resolved.is_none_or(|last| now.duration_since(last) >= RESOLVE_PAUSE);
        if is_old || self.addresses.is_empty() || *self.names != *names {
            let mut addresses = Vec::new();
            for name in names {
                match tokio::time::timeout(RESOLVE_TIMEOUT, tokio::net::lookup_host(name.as_str())).await {
                    Ok(Ok(found)) => addresses.extend(found.take(SEEDS_MAX)),
                    Ok(Err(error)) => tracing::warn!("cluster.join: cannot resolve {name}: {error}"),
                    Err(_) => {
                        tracing::warn!("cluster.join: {name} is not resolved within {RESOLVE_TIMEOUT:?}")
                    }
                }
            }
            addresses.sort_unstable();
            addresses.dedup();
            addresses.truncate(SEEDS_MAX);
            *self = Self { names: names.to_vec(), addresses, resolved: Some(now) };
        }
        debug_assert!(self.addresses.len() <= SEEDS_MAX && self.addresses.is_sorted());
        &self.addresses
    }
}

/// Time after which names are resolved again.
const RESOLVE_PAUSE: Duration = Duration::from_secs(30);
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Most addresses that are asked.
const SEEDS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_resolved_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let names = ["127.0.0.1:1".to_owned(), "localhost:2".to_owned(), "no such name".to_owned()];
        let (mut seeds, now) = (SeedAddresses::default(), Instant::now());
        let found = runtime.block_on(seeds.current(&names, now)).to_vec();
        assert!(found.contains(&([127, 0, 0, 1], 1).into()));
        assert!(found.iter().any(|address| address.port() == 2), "{found:?}");
        assert_eq!(runtime.block_on(seeds.current(&names, now)), found);
        assert_eq!(runtime.block_on(seeds.current(&[], now)), []);
    }
}
