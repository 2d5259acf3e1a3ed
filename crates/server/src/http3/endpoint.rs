//! QUIC endpoint of one worker: its keys and limits, and the connections that come in.

use super::handshake::{self, Arrival};
use super::port::{Http3Port, LOOK_EVERY, Rest};
use super::turns::HandshakeTurns;
use super::{SEND_WINDOW, UNI_STREAMS_MAX};
use crate::client_connections::ClientConnections;
use crate::drain::Drain;
use crate::http2::{CONNECTION_WINDOW, STREAM_WINDOW};
use crate::limits::ConnectionLimits;
use crate::message::Handler;
use crate::tls::Tls;
use crate::{Error, ServerState};
use quinn::{
    ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig, IdleTimeout, Incoming, ServerConfig,
    TokioRuntime, TransportConfig, VarInt,
};
use ring::rand::{SecureRandom, SystemRandom};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// HTTP/3 of one listener at one worker.
pub(crate) struct Http3Listener {
    /// Index of the `listen` entry.
    pub index: usize,
    /// Address of the listener; its host may be unspecified.
    pub local: SocketAddr,
    /// Number of the worker.
    pub worker: usize,
    /// Port of all workers.
    pub port: Arc<Http3Port>,
    /// TLS setup of the listener.
    pub tls: Tls,
    /// Connections of each client, over all workers and protocols.
    pub clients: Arc<ClientConnections>,
    /// Keys that all workers share.
    pub keys: Arc<EndpointKeys>,
}

/// Returns HTTP/3 of one listener for each of `workers`. A reload may open its port later.
///
/// # Errors
/// If the system gives no random numbers.
pub(crate) fn listeners(
    index: usize,
    local: SocketAddr,
    (tls, clients): (&Tls, &Arc<ClientConnections>),
    workers: usize,
) -> Result<(Arc<Http3Port>, Vec<Http3Listener>), Error> {
    let keys = EndpointKeys::new().map_err(|source| Error::Listen { address: local, source })?;
    let keys = Arc::new(keys);
    let port = Arc::new(Http3Port::new(local, workers));
    let listener = |worker| {
        let (tls, clients, keys) = (tls.clone(), Arc::clone(clients), Arc::clone(&keys));
        Http3Listener { index, local, worker, port: Arc::clone(&port), tls, clients, keys }
    };
    let listeners = (0..workers).map(listener).collect();
    Ok((port, listeners))
}

/// Keys of a listener's endpoints: any worker recognizes packets for another one.
pub(crate) struct EndpointKeys {
    reset: Arc<ring::hmac::Key>,
    tokens: Arc<ring::hkdf::Prk>,
}

impl EndpointKeys {
    /// Draws new keys.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn new() -> io::Result<Self> {
        let random = SystemRandom::new();
        let failed = |_| io::Error::other("the system gives no random numbers");
        let mut master = [0; 64];
        random.fill(&mut master).map_err(failed)?;
        let reset = ring::hmac::Key::generate(ring::hmac::HMAC_SHA256, &random).map_err(failed)?;
        let tokens = ring::hkdf::Salt::new(ring::hkdf::HKDF_SHA256, &[]).extract(&master);
        Ok(Self { reset: Arc::new(reset), tokens: Arc::new(tokens) })
    }

    fn endpoint(&self) -> EndpointConfig {
        let mut config = EndpointConfig::new(Arc::clone(&self.reset) as Arc<_>);
        config.cid_generator(|| Box::new(RandomConnectionIds));
        config
    }

    /// Returns the setup of one connection under the limits in force.
    fn server(&self, tls: &Tls, live: &ConnectionLimits) -> Option<ServerConfig> {
        let crypto = tls.quic()?.crypto;
        let mut config = ServerConfig::new(crypto, Arc::clone(&self.tokens) as Arc<_>);
        config.transport_config(Arc::new(transport(live)));
        config.max_incoming(INCOMING_MAX);
        config.incoming_buffer_size(INCOMING_BYTES_MAX);
        config.incoming_buffer_size_total(INCOMING_BYTES_ALL);
        Some(config)
    }
}

/// Connection IDs without a meaning. A packet with an unknown one gets a stateless reset, of which
/// QUIC sends one in 20 ms at most, each shorter than the packet.
struct RandomConnectionIds;

impl ConnectionIdGenerator for RandomConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut bytes = [0; CONNECTION_ID_BYTES];
        SystemRandom::new().fill(&mut bytes).expect("the system gave random numbers at the start");
        ConnectionId::new(&bytes)
    }

    fn cid_len(&self) -> usize {
        CONNECTION_ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// Returns the limits of QUIC: those of HTTP/2, where both have them.
fn transport(live: &ConnectionLimits) -> TransportConfig {
    let mut config = TransportConfig::default();
    // A client that is gone is found by its silence. One that waits for a reply sends PINGs.
    let silence = live.keep_alive.max(2 * live.patience.pause).max(SILENCE_MIN);
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(live.h2_streams))
        .max_concurrent_uni_streams(VarInt::from_u32(UNI_STREAMS_MAX))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .send_window(SEND_WINDOW)
        .max_idle_timeout(Some(IdleTimeout::try_from(silence).unwrap_or(VarInt::MAX.into())))
        // No datagrams (RFC 9221), so no WebTransport.
        .datagram_receive_buffer_size(None)
        .datagram_send_buffer_size(0);
    config
}

/// Serves one listener's HTTP/3 at this worker, each time that its port opens. Ends once the server
/// drains and the last connection has ended.
pub(crate) async fn serve<H: Handler>(
    listening: Http3Listener,
    shared: Arc<ServerState<H>>,
    places: Arc<Semaphore>,
) {
    let Http3Listener { index, local, worker, port, tls, clients, keys } = listening;
    let turns = Arc::new(HandshakeTurns::default());
    let entrance = Arc::new(handshake::Entrance { index, local, tls, clients, places, turns });
    let shaking = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    let mut drain = shared.drain.watch();
    loop {
        let socket = tokio::select! {
            biased;
            () = drain.draining() => return,
            socket = port.socket(worker) => socket,
        };
        tracing::debug!(listener = index, worker, "HTTP/3 is served");
        let config = keys.server(&entrance.tls, &shared.live.load());
        match Endpoint::new(keys.endpoint(), config, socket, Arc::new(TokioRuntime)) {
            Ok(endpoint) => {
                let parts = (&entrance, &*keys, &shaking);
                serve_open((&endpoint, &*port, worker), parts, &shared).await;
            }
            Err(error) => {
                tracing::error!(%error, listener = index, "could not serve HTTP/3");
                while port.rest(worker, 0) != Rest::Close {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
        }
        // The endpoint's own task closes the socket.
        tokio::time::sleep(LOOK_EVERY).await;
        port.closed(worker);
    }
}

/// Takes connections until the port is closed or the server drains, and waits for their end.
async fn serve_open<H: Handler>(
    (endpoint, port, worker): (&Endpoint, &Http3Port, usize),
    (entrance, keys, shaking): (&Arc<handshake::Entrance>, &EndpointKeys, &Arc<Semaphore>),
    shared: &Arc<ServerState<H>>,
) {
    let mut drain = shared.drain.watch();
    loop {
        if let Some(period) = port.period() {
            let (mut closing, mut is_sound) = (period.watch(), true);
            loop {
                tokio::select! {
                    biased;
                    () = drain.draining() => {
                        port.close();
                        break;
                    }
                    () = closing.draining() => break,
                    incoming = endpoint.accept(), if is_sound => match incoming {
                        Some(incoming) => admit(incoming, &period, (entrance, keys, shaking), shared),
                        None => {
                            is_sound = false;
                            tracing::error!(listener = entrance.index, worker, "the socket of HTTP/3 has failed");
                        }
                    }
                }
            }
        }
        // A client that is refused uses another protocol, or comes back.
        loop {
            match port.rest(worker, endpoint.open_connections()) {
                Rest::Open => break,
                Rest::Close => return,
                Rest::Wait => {}
            }
            let pause = tokio::time::sleep(LOOK_EVERY);
            tokio::select! {
                Some(incoming) = endpoint.accept() => incoming.refuse(),
                () = pause => {}
            }
        }
    }
}

/// Decides about a client's first packet, before any state is kept for it.
fn admit<H: Handler>(
    incoming: Incoming,
    period: &Drain,
    (entrance, keys, shaking): (&Arc<handshake::Entrance>, &EndpointKeys, &Arc<Semaphore>),
    shared: &Arc<ServerState<H>>,
) {
    let metrics = &shared.metrics;
    if entrance.places.available_permits() == 0 {
        metrics.connections_full.increment();
        return incoming.refuse();
    }
    // A few handshakes may begin at once. Beyond them a client must show that it gets packets sent
    // to its address (RFC 9000 section 8.1.2).
    let under_way = HANDSHAKES_MAX - shaking.available_permits();
    if !incoming.remote_address_validated() && under_way >= HANDSHAKES_UNPROVEN_MAX {
        metrics.h3_retries.increment();
        // The address is not proven, so a Retry is allowed.
        let _ = incoming.retry();
        return;
    }
    let Ok(place) = Arc::clone(shaking).try_acquire_owned() else {
        metrics.h3_handshakes_refused.increment();
        return match incoming.remote_address_validated() {
            // It is told, so that it uses another protocol at once.
            true => incoming.refuse(),
            false => incoming.ignore(),
        };
    };
    let Some(turn) = entrance.turns.begin(incoming.remote_address().ip()) else {
        metrics.h3_handshakes_refused.increment();
        return incoming.refuse();
    };
    let live = shared.live.load_full();
    let Some(config) = keys.server(&entrance.tls, &live) else { return incoming.refuse() };
    let (config, period) = (Arc::new(config), period.clone());
    let arrival = Arrival { incoming, config, live, place, turn, period };
    tokio::spawn(handshake::run(arrival, Arc::clone(entrance), Arc::clone(shared)));
}

/// Bytes of our connection IDs.
const CONNECTION_ID_BYTES: usize = 8;

/// Most handshakes under way at one worker.
const HANDSHAKES_MAX: usize = 512;

/// Handshakes under way from which on addresses must be proven.
const HANDSHAKES_UNPROVEN_MAX: usize = 32;

/// First packets that wait for [`admit`], and bytes that clients send before it.
const INCOMING_MAX: usize = 1024;
const INCOMING_BYTES_MAX: u64 = 16 * 1024;
const INCOMING_BYTES_ALL: u64 = 1 << 20;

/// Shortest silence after which a client counts as gone.
const SILENCE_MIN: Duration = Duration::from_secs(5);

const _: () = assert!(HANDSHAKES_UNPROVEN_MAX < HANDSHAKES_MAX);
