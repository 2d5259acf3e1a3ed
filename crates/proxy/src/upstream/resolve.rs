//! Names to addresses.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Looks names up. What it answers is not trusted: addresses are judged before they are connected to.
pub trait Resolve: Send + Sync + 'static {
    /// The addresses of `host`, in order of preference. Also takes hosts that are written as addresses.
    fn resolve<'a>(&'a self, host: &'a str) -> Lookup<'a>;
}

/// A lookup under way.
pub type Lookup<'a> = Pin<Box<dyn Future<Output = io::Result<Arc<[IpAddr]>>> + Send + 'a>>;

/// The system's resolver (getaddrinfo, on the runtime's pool of blocking threads), with a short memory:
/// getaddrinfo does not say how long an answer holds.
pub struct SystemResolver {
    recent: Mutex<HashMap<Box<str>, Answer>>,
    /// A slow name server must not take all blocking threads.
    lookups: Arc<Semaphore>,
}

struct Answer {
    addresses: Arc<[IpAddr]>,
    expires: Instant,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { recent: Mutex::default(), lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> Lookup<'a> {
        Box::pin(async move {
            if let Ok(address) = host.parse::<IpAddr>() {
                return Ok([address].into());
            }
            if let Some(addresses) = self.remembered(host) {
                return Ok(addresses);
            }
            let permit = Arc::clone(&self.lookups).acquire_owned().await.map_err(io::Error::other)?;
            // Others may have waited for the same answer.
            if let Some(addresses) = self.remembered(host) {
                return Ok(addresses);
            }
            let name = host.to_owned();
            let lookup = move || {
                // Held until getaddrinfo returns, also when nobody waits for it any longer.
                let _permit = permit;
                let found = (name, 0).to_socket_addrs()?;
                Ok::<Arc<[IpAddr]>, io::Error>(found.map(|address| address.ip()).collect())
            };
            let addresses = tokio::task::spawn_blocking(lookup).await.map_err(io::Error::other)??;
            self.remember(host, &addresses);
            Ok(addresses)
        })
    }
}

impl SystemResolver {
    fn remembered(&self, host: &str) -> Option<Arc<[IpAddr]>> {
        let recent = self.recent.lock();
        let answer = recent.get(host).filter(|answer| answer.expires > Instant::now())?;
        Some(Arc::clone(&answer.addresses))
    }

    fn remember(&self, host: &str, addresses: &Arc<[IpAddr]>) {
        let now = Instant::now();
        let mut recent = self.recent.lock();
        if recent.len() >= NAMES_MAX {
            recent.retain(|_, answer| answer.expires > now);
        }
        if recent.len() < NAMES_MAX {
            let answer = Answer { addresses: Arc::clone(addresses), expires: now + MEMORY };
            recent.insert(host.into(), answer);
        }
    }
}

/// Lookups at once.
const LOOKUPS_MAX: usize = 64;
/// Names remembered.
const NAMES_MAX: usize = 4096;
/// How long: short against the time that operators wait after a change of DNS, long against a burst of misses.
const MEMORY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_and_names_are_resolved() {
        let resolver = SystemResolver::default();
        for (host, address) in [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("2130706433", "127.0.0.1")] {
            let found = resolver.resolve(host).await.expect(host);
            assert_eq!(*found, [address.parse::<IpAddr>().expect("an address")], "{host}");
        }
        let localhost = resolver.resolve("localhost").await.expect("localhost");
        assert!(localhost.iter().all(IpAddr::is_loopback));
        assert!(Arc::ptr_eq(&localhost, &resolver.resolve("localhost").await.expect("localhost")));
        assert!(resolver.resolve("no.such.name.invalid").await.is_err());
    }
}
