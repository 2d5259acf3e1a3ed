//! Links to the other nodes of the cluster: connections from this node's own address, with mutual
//! TLS where the network is not trusted.
//!
//! Nodes know each other by address, so no name is looked up and no rule of forward mode applies.

use super::error::Cause;
use super::exchanged::{Origin, Scheme};
use super::pool::{OriginPoolHandle, OriginPoolKey, Pool, ThreadUse};
use super::socket::OriginStream;
use super::tls::cause_of;
use super::{Gate, Inner, Names, SetupError, SystemResolver, TrustStore, Upstreams};
use crate::access::{DoorWay, PeerDoor};
use crate::message::TunnelIo;
use crate::metrics::Metrics;
use rustls::pki_types::ServerName;
use shoal_settings::{Settings, Upstream};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

/// Another node as a destination of requests.
pub struct PeerTarget {
    address: SocketAddr,
    pub(super) origin: Origin,
    place: OnceLock<OriginPoolHandle>,
}

/// Way to open connections to other nodes.
pub(super) struct PeerLinks {
    /// This node's address, by which the others know it.
    source: IpAddr,
    door: Arc<PeerDoor>,
}

impl PeerTarget {
    /// Returns the node that listens at this address.
    pub fn new(address: SocketAddr) -> Self {
        let origin = Origin::new(Scheme::Http, &address.ip().to_string(), address.port());
        Self { address, origin, place: OnceLock::new() }
    }

    /// Returns the address of the node for its peers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the pool of connections to the node. Nodes are asked through one `pool` alone.
    pub(super) fn place(&self, pool: &Arc<Pool>) -> &OriginPoolHandle {
        let place = self.place.get_or_init(|| {
            pool.place(&OriginPoolKey { origin: self.origin.clone(), rules: 0, is_check: false })
        });
        debug_assert!(place.is_of(pool), "one pool for all peers");
        place
    }
}

impl Upstreams {
    /// Creates the access to other nodes, from the address `source`.
    ///
    /// # Errors
    /// None with these settings: no file is read.
    pub fn to_peers(
        settings: &Settings,
        source: IpAddr,
        door: Arc<PeerDoor>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, SetupError> {
        let own = Upstream {
            connect_timeout: settings.cluster.peer_timeout,
            // A home that waits for its origin says again and again that it is at work.
            first_byte_timeout: settings.cluster.peer_timeout,
            // The home gives up first, and says so.
            idle_timeout: settings.upstream.idle_timeout + PAUSE_MARGIN,
            keep_alive: KEEP_ALIVE,
            idle_per_origin: CONNECTIONS_KEPT,
            connections_per_origin: CONNECTIONS_MAX,
            ca_file: None,
            pinned_certificates: None,
            ..settings.upstream.clone()
        };
        let pool = Pool::new(&own, ThreadUse::Apart, Arc::clone(&metrics));
        let names = Names::new(Arc::new(SystemResolver), own.connect_timeout, Arc::clone(&metrics));
        let (trust, tunnels) = (TrustStore::new(&own, Vec::new())?, Gate::new(1, 0));
        let links = Some(PeerLinks { source, door });
        Ok(Self { inner: Arc::new(Inner { settings: own, names, trust, pool, tunnels, metrics, links }) })
    }
}

impl Upstreams {
    /// Opens a connection to another node, for messages of its caller's own.
    ///
    /// # Errors
    /// If the node cannot be reached, in a line.
    pub async fn open_link(&self, target: &PeerTarget) -> Result<Box<dyn TunnelIo>, String> {
        let links = self.inner.links.as_ref().ok_or("no way to other nodes")?;
        let deadline = Instant::now() + self.inner.settings.connect_timeout;
        let opened = links.open(&target.origin, deadline).await;
        let (stream, _) = opened.map_err(|(_, why)| why)?;
        Ok(Box::new(stream))
    }
}

impl PeerLinks {
    /// Connects to a node before `deadline`. Returns the address reached.
    pub async fn open(
        &self,
        origin: &Origin,
        deadline: Instant,
    ) -> Result<(OriginStream, SocketAddr), (Cause, String)> {
        let ip: IpAddr = origin.host.parse().map_err(|_| (Cause::DnsError, "no address".to_owned()))?;
        let address = SocketAddr::new(ip, origin.port);
        let late = |_| (Cause::ConnectTimeout, "connecting took too long".to_owned());
        let way = self.door.towards(ip);
        if let DoorWay::Closed = way {
            let why = "no key for an address beyond loopback and cluster.trusted_networks";
            return Err((Cause::Unreachable, why.to_owned()));
        }
        let connecting = async {
            let socket = if ip.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            socket.bind(SocketAddr::new(self.source, 0))?;
            let stream = socket.connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let stream = timeout_at(deadline, connecting).await.map_err(late)?;
        let stream = stream.map_err(|error: std::io::Error| match error.kind() {
            std::io::ErrorKind::ConnectionRefused => (Cause::ConnectionRefused, error.to_string()),
            _ => (Cause::Unreachable, error.to_string()),
        })?;
        let DoorWay::Secured(config) = way else { return Ok((OriginStream::Plain(stream), address)) };
        let handshake = TlsConnector::from(config).connect(ServerName::IpAddress(ip.into()), stream);
        let stream = timeout_at(deadline, handshake).await.map_err(late)?;
        let stream = stream.map_err(|error| cause_of(&error))?;
        Ok((OriginStream::Tls(Box::new(stream)), address))
    }
}

/// Longest time that an unused connection to a node is kept: less than the node keeps it.
const KEEP_ALIVE: Duration = Duration::from_secs(55);

/// Most connections to one node. Each carries one ask.
const CONNECTIONS_MAX: usize = 1024;

/// Unused connections kept to one node.
const CONNECTIONS_KEPT: usize = 128;

/// Time after the home's own time-out within which its cut reaches the entry.
const PAUSE_MARGIN: Duration = Duration::from_secs(5);

const _: () = assert!(CONNECTIONS_KEPT <= CONNECTIONS_MAX);
