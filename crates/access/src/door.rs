//! Door of the peer listener: which addresses are answered, in the clear or by mutual TLS.
//!
//! Loopback and `cluster.trusted_networks` talk in the clear. Every other address needs a
//! certificate under the cluster's key. Without a key such an address is refused.

use crate::{PeerAddresses, PeerPlace, PeerShares, PeerTurn, ShareRefusal};
use arc_swap::ArcSwapOption;
use ipnet::IpNet;
use rustls::{ClientConfig, ServerConfig};
use shoal_core::Timestamp;
use shoal_settings::Settings;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Judge of connections between nodes. The TLS setups may be exchanged while connections are open.
pub struct PeerDoor {
    trusted: Vec<IpNet>,
    server: ArcSwapOption<ServerConfig>,
    client: ArcSwapOption<ClientConfig>,
    members: Arc<PeerAddresses>,
    /// Permits for connections of addresses that are no member's.
    strangers: Arc<Semaphore>,
    shares: Arc<PeerShares>,
}

/// Place of a connection, until dropped.
pub struct DoorPlace {
    /// `true` for an address that is no member's yet.
    pub is_stranger: bool,
    _stranger: Option<OwnedSemaphorePermit>,
    _share: PeerTurn,
}

/// Way to another node.
pub enum DoorWay {
    /// Connections carry requests in the clear.
    Clear,
    /// Both ends must show a certificate.
    Secured(Arc<ClientConfig>),
    /// No connection leads there.
    Closed,
}

/// Decision about a connection that has arrived.
pub enum DoorDecision {
    /// The connection carries requests in the clear.
    Clear,
    /// The far end must show a certificate.
    Secured(Arc<ServerConfig>),
    /// Nobody at this address is answered.
    Refused,
}

impl PeerDoor {
    /// Creates a door that trusts loopback and these networks.
    pub fn new(trusted: Vec<IpNet>) -> Self {
        let members: Arc<PeerAddresses> = Arc::default();
        Self {
            shares: PeerShares::new(Arc::clone(&members)),
            trusted,
            server: ArcSwapOption::empty(),
            client: ArcSwapOption::empty(),
            members,
            strangers: Arc::new(Semaphore::new(STRANGERS_MAX)),
        }
    }

    /// Puts the TLS setups made of the cluster's keys in force, for new connections.
    pub fn secure(&self, server: Arc<ServerConfig>, client: Arc<ClientConfig>) {
        self.server.store(Some(server));
        self.client.store(Some(client));
    }

    /// Decides about a connection from this address.
    pub fn judge(&self, address: IpAddr) -> DoorDecision {
        match self.server.load_full() {
            _ if self.trusts(address) => DoorDecision::Clear,
            Some(config) => DoorDecision::Secured(config),
            None => DoorDecision::Refused,
        }
    }

    /// Returns the way to this address. Without a key, no way leads to addresses that are not
    /// trusted.
    pub fn towards(&self, address: IpAddr) -> DoorWay {
        match self.client.load_full() {
            _ if self.trusts(address) => DoorWay::Clear,
            Some(config) => DoorWay::Secured(config),
            None => DoorWay::Closed,
        }
    }

    /// Returns the addresses of the members' listeners.
    pub fn members(&self) -> &Arc<PeerAddresses> {
        &self.members
    }

    /// Returns the shares of other nodes in this one.
    pub fn shares(&self) -> &Arc<PeerShares> {
        &self.shares
    }

    /// Takes a place for a connection from this address. An address that is no member's takes one
    /// of the places of strangers too.
    ///
    /// # Errors
    /// If the node there has its share of connections, or strangers hold all of their places.
    pub fn place_for(&self, from: SocketAddr, now: Timestamp) -> Result<DoorPlace, ShareRefusal> {
        let is_stranger = !self.members.has(from.ip());
        let stranger = match is_stranger {
            true => Some(Arc::clone(&self.strangers).try_acquire_owned().map_err(|_| NO_PLACE)?),
            false => None,
        };
        let share = self.shares.admit(from, PeerPlace::Connection, now)?;
        Ok(DoorPlace { is_stranger, _stranger: stranger, _share: share })
    }

    fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_loopback() || self.trusted.iter().any(|network| network.contains(&address))
    }
}

/// Returns the address for peers, if the settings put this node into a cluster.
pub fn peer_address(settings: &Settings) -> Option<SocketAddr> {
    settings.cluster.peer.filter(|_| !settings.cluster.name.is_empty())
}

/// Most connections of addresses that are no member's: of nodes that join, and of strangers.
const STRANGERS_MAX: usize = 512;

/// Refusal of a stranger. Others may come from the same address, so that no stranger is set aside.
const NO_PLACE: ShareRefusal = ShareRefusal { sets_aside: false };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_without_a_key_are_refused() {
        let door = PeerDoor::new(vec!["10.1.0.0/16".parse().expect("a network")]);
        for (address, is_clear) in [
            ("127.3.2.1", true),
            ("::1", true),
            ("10.1.2.3", true),
            ("10.2.0.1", false),
            ("::ffff:10.1.0.9", true),
        ] {
            let decision = door.judge(address.parse().expect("an address"));
            assert_eq!(matches!(decision, DoorDecision::Clear), is_clear, "{address}");
            assert_eq!(matches!(decision, DoorDecision::Refused), !is_clear, "{address}");
            let way = door.towards(address.parse().expect("an address"));
            assert_eq!(matches!(way, DoorWay::Clear), is_clear, "{address}");
            assert_eq!(matches!(way, DoorWay::Closed), !is_clear, "nothing leaves in the clear: {address}");
        }
    }

    #[test]
    fn strangers_leave_places_to_members() {
        let door = PeerDoor::new(Vec::new());
        let (member, stranger) = ("10.0.0.1:3131", "10.0.0.2:1");
        let [member, stranger]: [std::net::SocketAddr; 2] =
            [member, stranger].map(|text| text.parse().expect("an address"));
        door.members().note([member].into_iter());
        let open = |from| door.place_for(from, Timestamp::from_seconds(1));
        let places: Vec<_> = (0..STRANGERS_MAX).map(|_| open(stranger)).collect();
        assert!(places.iter().all(|place| place.as_ref().is_ok_and(|place| place.is_stranger)));
        assert!(open(stranger).is_err());
        assert!(open(member).is_ok_and(|place| !place.is_stranger));
        drop(places);
        assert!(open(stranger).is_ok_and(|place| place.is_stranger));
    }
}
