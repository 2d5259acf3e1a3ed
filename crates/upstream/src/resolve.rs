//! Resolves host names to addresses.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;

/// Resolver of host names. Its answers are not trusted: addresses are checked before a connection.
pub trait Resolve: Send + Sync + 'static {
    /// Returns the addresses of `host` in order of preference. Also accepts hosts written as
    /// addresses. The future may hold resources such as a thread until it ends, so callers must
    /// limit the number of lookups.
    fn resolve<'a>(&'a self, host: &'a str) -> Lookup<'a>;
}

/// Lookup under way.
pub type Lookup<'a> = Pin<Box<dyn Future<Output = io::Result<Arc<[IpAddr]>>> + Send + 'a>>;

/// The system's resolver: getaddrinfo, on the runtime's pool of blocking threads.
#[derive(Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> Lookup<'a> {
        Box::pin(async move {
            let name = host.to_owned();
            let lookup = move || {
                let found = (name, 0).to_socket_addrs()?;
                Ok::<Arc<[IpAddr]>, io::Error>(found.map(|address| address.ip()).collect())
            };
            tokio::task::spawn_blocking(lookup).await.map_err(io::Error::other)?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_and_names_are_resolved() {
        let resolver = SystemResolver;
        for (host, address) in [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("2130706433", "127.0.0.1")] {
            let found = resolver.resolve(host).await.expect(host);
            assert_eq!(*found, [address.parse::<IpAddr>().expect("an address")], "{host}");
        }
        let localhost = resolver.resolve("localhost").await.expect("localhost");
        assert!(localhost.iter().all(IpAddr::is_loopback));
        assert!(resolver.resolve("no.such.name.invalid").await.is_err());
    }
}
