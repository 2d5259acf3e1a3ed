//! Addresses at which nodes of the cluster listen for each other.
//!
//! There a node's address proves that it is a member. A client that gets a node to connect there
//! would therefore speak in the node's name.

use arc_swap::ArcSwap;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

/// Addresses of the members' listeners for peers. A former member stays in the set: its listener
/// may still answer, or answer again, before this node knows.
#[derive(Debug, Default)]
pub struct PeerAddresses(ArcSwap<HashSet<SocketAddr>>);

impl PeerAddresses {
    /// Adds the members of a view.
    pub fn note(&self, members: impl Iterator<Item = SocketAddr> + Clone) {
        let before = self.0.load();
        let canonical = members.map(|member| SocketAddr::new(member.ip().to_canonical(), member.port()));
        if canonical.clone().all(|member| before.contains(&member)) {
            return;
        }
        let mut after: HashSet<SocketAddr> = canonical.clone().collect();
        if before.len() + after.len() <= ADDRESSES_MAX {
            after.extend(before.iter());
        }
        self.0.store(after.into());
    }

    /// Returns `true` if a node listens for peers at this address.
    pub fn listens(&self, address: SocketAddr) -> bool {
        self.0.load().contains(&SocketAddr::new(address.ip().to_canonical(), address.port()))
    }

    /// Returns `true` if a node has this address.
    pub fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.load().iter().any(|member| member.ip() == address)
    }
}

/// Number of addresses above which former members are forgotten.
const ADDRESSES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stay_known_and_are_bounded() {
        let address = |text: &str| -> SocketAddr { text.parse().expect("an address") };
        let peers = PeerAddresses::default();
        peers.note([address("10.0.0.1:3131")].into_iter());
        peers.note([address("10.0.0.2:3131"), address("[::ffff:10.0.0.3]:1")].into_iter());
        for (text, is_there) in [
            ("10.0.0.1:3131", true),
            ("[::ffff:10.0.0.1]:3131", true),
            ("10.0.0.1:80", false),
            ("10.0.0.3:1", true),
            ("10.0.0.4:3131", false),
        ] {
            assert_eq!(peers.listens(address(text)), is_there, "{text}");
        }
        assert!(peers.has(address("10.0.0.1:9").ip()) && !peers.has(address("10.0.0.4:9").ip()));
        let port = |number| SocketAddr::from(([10, 1, 0, 0], number));
        let full = ADDRESSES_MAX as u16 - 10;
        peers.note((0..full).map(port));
        for number in full..full + 20 {
            peers.note([port(number)].into_iter());
            assert!(peers.listens(port(number)) && peers.0.load().len() <= ADDRESSES_MAX);
        }
    }
}
