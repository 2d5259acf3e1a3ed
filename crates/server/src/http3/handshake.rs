//! Handshake of one connection: its time limit, the client's certificate, and its place.

use super::turns::{HandshakeTurn, HandshakeTurns};
use super::{Http3Context, connection};
use crate::ServerState;
use crate::client_connections::ClientConnections;
use crate::connection::ConnectionPermit;
use crate::drain::Drain;
use crate::limits::ConnectionLimits;
use crate::message::{Client, Handler};
use crate::tls::Tls;
use quinn::crypto::rustls::HandshakeData;
use quinn::{Connection, Incoming, ServerConfig, VarInt};
use rustls::pki_types::CertificateDer;
use shoal_http3::ErrorCode;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// First packet of a client, with the setup of its connection.
pub(super) struct Arrival {
    /// The packet.
    pub incoming: Incoming,
    /// Setup of the connection.
    pub config: Arc<ServerConfig>,
    /// Limits of the connection.
    pub live: Arc<ConnectionLimits>,
    /// Permit of a handshake.
    pub place: OwnedSemaphorePermit,
    /// The same, of its network.
    pub turn: HandshakeTurn,
    /// Signal to leave when the port is closed.
    pub period: Drain,
}

/// State shared by the connections of one listener at one worker.
pub(super) struct Entrance {
    /// Index of the `listen` entry.
    pub index: usize,
    /// Address of the listener; its host may be unspecified.
    pub local: SocketAddr,
    /// TLS setup.
    pub tls: Tls,
    /// Connections of each client.
    pub clients: Arc<ClientConnections>,
    /// Permits for open connections, shared with the other protocols.
    pub places: Arc<Semaphore>,
    /// Handshakes under way, by network.
    pub turns: Arc<HandshakeTurns>,
}

/// Performs the handshake and serves the connection to its end.
pub(super) async fn run<H: Handler>(arrival: Arrival, entrance: Arc<Entrance>, shared: Arc<ServerState<H>>) {
    let Arrival { incoming, config, live, place, turn, period } = arrival;
    let address = incoming.remote_address();
    let Some((connection, client)) = shake(incoming, config, &live, &entrance).await else {
        shared.metrics.tls_failures.increment();
        return tracing::debug!(client = %address, "no handshake over QUIC");
    };
    drop((place, turn));
    let full = || connection.close(VarInt::from_u32(ErrorCode::EXCESSIVE_LOAD.0), b"");
    // The address is proven now: nobody can use up the places of another.
    let Ok(permit) = Arc::clone(&entrance.places).try_acquire_owned() else {
        shared.metrics.connections_full.increment();
        return full();
    };
    let mut seat = ConnectionPermit::new(Arc::clone(&shared.metrics), permit);
    if !seat.count_for(&entrance.clients, client.address.ip()) {
        return full();
    }
    shared.metrics.connections.increment();
    shared.metrics.tls_connections.increment();
    shared.metrics.h3_connections.increment();
    let context = Arc::new(Http3Context::new(shared, live, (connection, client), period));
    connection::serve(context).await;
    drop(seat);
}

/// Performs the handshake within the time limit of a head.
async fn shake(
    incoming: Incoming,
    config: Arc<ServerConfig>,
    live: &ConnectionLimits,
    entrance: &Entrance,
) -> Option<(Connection, Client)> {
    let judge = entrance.tls.quic()?;
    // The handshake proves this address, and no other.
    let address = incoming.remote_address();
    let connecting = incoming.accept_with(config).ok()?;
    let connection = tokio::time::timeout(live.head_timeout, connecting).await.ok()?.ok()?;
    let data = connection.handshake_data()?.downcast::<HandshakeData>().ok()?;
    let chain = connection.peer_identity().and_then(|chain| chain.downcast::<Vec<CertificateDer<'_>>>().ok());
    let certificate = match judge.proven(chain.as_deref().map(Vec::as_slice)) {
        Ok(certificate) => certificate,
        Err(error) => {
            tracing::debug!(client = %address, %error, "certificate not accepted");
            connection.close(VarInt::from_u32(ErrorCode::REQUEST_REJECTED.0), b"");
            return None;
        }
    };
    let mut local = entrance.local;
    if let Some(ip) = connection.local_ip().filter(|_| local.ip().is_unspecified()) {
        local.set_ip(ip.to_canonical());
    }
    let client = Client {
        address,
        local,
        listener: entrance.index,
        tls: true,
        server_name: data.server_name.as_deref().map(|name| entrance.tls.server_name(name)),
        certificate,
        intercepted: None,
    };
    Some((connection, client))
}
