//! One accepted connection: PROXY protocol, then TLS, then the protocol chosen by ALPN or the first
//! bytes. A cleartext connection may have waited without a task before ([`super::idle`]), and may
//! return to waiting.
//!
//! The chosen protocol's future is boxed. A connection therefore uses the memory of its own
//! protocol, not of the largest possible one.

use super::client_connections::{ClientConnections, ClientSeat};
use super::client_io::ClientIo;
use super::http1::StartState;
use super::http1::fast_path::FastReply;
use super::idle::{self, IdleConnection, IdleStream};
use super::limits::ConnectionLimits;
use super::reply_guard::ReplyGuard;
use super::socket::BufferedConnection;
use super::tls::{ALPN_H2, Tls};
use super::worker::ListenerContext;
use super::{ServerState, http1, http2, peers, proxied};
use crate::access::{DoorDecision, DoorPlace, PeerDoor};
use crate::clock;
use crate::message::{Client, Handler};
use crate::metrics::Metrics;
use crate::transport::spare::{self, BufferClass};
use crate::transport::{MessageOutput, Rewind};
use bytes::BytesMut;
use shoal_http2::PREFACE;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

/// Newly accepted connection.
pub(super) struct AcceptedConnection {
    /// Client socket.
    pub stream: TcpStream,
    /// Address of the peer.
    pub peer: SocketAddr,
    /// Permit that counts against the connection limit.
    pub seat: ConnectionPermit,
}

/// State of a connection for its whole life.
pub(super) struct ConnectionContext {
    /// Client at the far end.
    pub client: Arc<Client>,
    /// Limits of this connection.
    pub live: Arc<ConnectionLimits>,
    /// Permit that counts against the connection limit.
    pub _seat: ConnectionPermit,
}

/// State of a connection that another loop has already read from.
pub(super) struct ResumeState {
    /// Bytes read but not used.
    input: BytesMut,
    /// Arrival time of the first byte.
    received: Instant,
    /// Rest of a reply.
    output: MessageOutput,
    /// Record of that reply, if there is one.
    glanced: Option<FastReply>,
    /// No request was answered before: the client may still choose another protocol.
    is_new: bool,
    /// The request at the start of `input` cannot be answered at once.
    is_ordinary: bool,
}

impl ResumeState {
    /// Captures the bytes that `guest` has sent.
    pub fn of(input: &[u8], received: Instant, guest: &IdleConnection) -> Self {
        let (input, output) = (spare::filled(BufferClass::Client, input), MessageOutput::default());
        Self { input, received, output, glanced: None, is_new: !guest.has_spoken, is_ordinary: true }
    }

    /// Adds the rest of the reply to an earlier request.
    pub fn answering(self, glanced: FastReply, output: MessageOutput) -> Self {
        Self { output, glanced: Some(glanced), ..self }
    }

    /// Captures bytes that no code has parsed yet.
    fn with(input: BytesMut, is_new: bool) -> Self {
        let (received, output) = (Instant::now(), MessageOutput::default());
        Self { input, received, output, glanced: None, is_new, is_ordinary: false }
    }
}

/// State that a task receives with its connection. If the task ends before its start, as at a
/// shutdown, an unfinished reply counts as cut.
pub(super) struct ResumeGuard<H: Handler>(Option<(ResumeState, Arc<ServerState<H>>)>);

impl<H: Handler> ResumeGuard<H> {
    /// Wraps `begun` for handing over.
    pub fn new(begun: ResumeState, shared: Arc<ServerState<H>>) -> Self {
        Self(Some((begun, shared)))
    }

    fn take(mut self) -> Option<(ResumeState, Arc<ServerState<H>>)> {
        self.0.take()
    }
}

impl<H: Handler> Drop for ResumeGuard<H> {
    fn drop(&mut self) {
        let Some((begun, shared)) = self.0.take() else { return };
        match begun.glanced {
            Some(FastReply::Sending { record, head_bytes }) => {
                let mut account = ReplyGuard::open(&shared, record, begun.received);
                account.head_bytes = head_bytes as u64;
                let before = begun.output.rest.as_ref().map_or(0, |rest| rest.sent);
                account.body_bytes = before + begun.output.data_written() as u64;
            }
            Some(FastReply::Settled) => drop(ReplyGuard::open(&shared, None, begun.received)),
            Some(FastReply::Sent | FastReply::SentLong) | None => {}
        }
    }
}

/// Starts an accepted connection. A cleartext connection waits without a task; any other gets a
/// task at once.
pub(super) fn start<H: Handler>(
    arrival: AcceptedConnection,
    entrance: Arc<ListenerContext>,
    shared: &Arc<ServerState<H>>,
) {
    let mut arrival = arrival;
    if let Some(door) = &entrance.door {
        if !arrival.seat.count_at(door, &entrance, arrival.peer) {
            return;
        }
        match door.judge(arrival.peer.ip()) {
            DoorDecision::Clear => {}
            DoorDecision::Secured(config) => {
                tokio::spawn(peers::serve_secured(arrival, entrance, config, Arc::clone(shared)));
                return;
            }
            DoorDecision::Refused => return shared.metrics.cluster_strangers.increment(),
        }
    }
    let is_counted = entrance.door.is_some() || entrance.is_proxy(arrival.peer.ip());
    if !is_counted && !arrival.seat.count(&entrance, arrival.peer.ip()) {
        return;
    }
    if !entrance.is_plain(arrival.peer.ip()) {
        tokio::spawn(serve(arrival, entrance, Arc::clone(shared)));
        return;
    }
    let AcceptedConnection { stream, peer, seat } = arrival;
    let (client, live) = (Arc::new(entrance.client(&stream, peer)), shared.live.load_full());
    let due = Instant::now() + live.head_timeout;
    let standing = ConnectionContext { client, live, _seat: seat };
    park_or_spawn(stream, standing, due, shared);
}

/// Puts a new connection into the idle set until `due`, or gives it a task.
fn park_or_spawn<H: Handler>(
    stream: TcpStream,
    standing: ConnectionContext,
    due: Instant,
    shared: &Arc<ServerState<H>>,
) {
    if let Some((stream, standing)) = park(stream, standing, due, false) {
        let begun = ResumeState::with(BytesMut::new(), true);
        tokio::spawn(resume(stream, ResumeGuard::new(begun, Arc::clone(shared)), standing));
    }
}

/// Puts a connection into the idle set until `due`. Returns the connection if that fails.
fn park(
    stream: TcpStream,
    standing: ConnectionContext,
    due: Instant,
    has_spoken: bool,
) -> Option<(TcpStream, ConnectionContext)> {
    let guest = IdleConnection {
        stream: IdleStream::new(stream.into_std().ok()?),
        standing,
        due,
        has_spoken,
        awaits: None,
    };
    let IdleConnection { stream, standing, .. } = idle::admit(guest).err()?;
    Some((stream.into_active().ok()?, standing))
}

/// Serves a connection to its end.
async fn serve<H: Handler>(
    arrival: AcceptedConnection,
    entrance: Arc<ListenerContext>,
    shared: Arc<ServerState<H>>,
) {
    let live = shared.live.load_full();
    let AcceptedConnection { mut stream, peer, mut seat } = arrival;
    let mut client = entrance.client(&stream, peer);
    let mut early = BytesMut::new();
    if entrance.is_proxy(peer.ip()) {
        match proxied::read_header(&mut stream, &mut early, live.head_timeout).await {
            Ok(Some(addresses)) => (client.address, client.local) = (addresses.source, addresses.destination),
            Ok(None) => {}
            Err(reason) => {
                shared.metrics.proxy_protocol_refused.increment();
                tracing::debug!(%peer, reason, "connection without a valid PROXY protocol header");
                return;
            }
        }
        if !seat.count(&entrance, client.address.ip()) {
            return;
        }
    }
    let Some(tls) = &entrance.tls else {
        let begun = ResumeState::with(early, true);
        let standing = ConnectionContext { client: Arc::new(client), live, _seat: seat };
        return resume(stream, ResumeGuard::new(begun, shared), standing).await;
    };
    // Boxed: the memory of the handshake is freed at its end.
    let shaking = Box::pin(handshake(Rewind::new(early.freeze(), stream), tls, &mut client, &live));
    let Some(stream) = shaking.await else {
        shared.metrics.tls_failures.increment();
        return;
    };
    let h2 = stream.get_ref().1.alpn_protocol() == Some(ALPN_H2);
    shared.metrics.tls_connections.increment();
    let client = Arc::new(client);
    if h2 {
        Box::pin(http2::serve(stream, BytesMut::new(), shared, live, client)).await;
    } else {
        let socket = BufferedConnection::new(stream, live.head_timeout);
        Box::pin(http1::serve(socket, StartState::New, shared, live, client)).await;
    }
}

/// Performs the TLS handshake within the time limit and returns the stream. The stream is boxed
/// because it is large: a task reserves room for each place that a value moves through.
async fn handshake(
    stream: Rewind<TcpStream>,
    tls: &Tls,
    client: &mut Client,
    live: &ConnectionLimits,
) -> Option<Box<super::tls::Stream>> {
    match tokio::time::timeout(live.head_timeout, tls.accept(stream)).await {
        Ok(Ok((stream, certificate))) => {
            client.certificate = certificate;
            client.server_name = stream.get_ref().1.server_name().map(|name| tls.server_name(name));
            Some(Box::new(stream))
        }
        failed => {
            let reason = match failed {
                Ok(Err(error)) => format!("handshake failed: {error}"),
                _ => "handshake took too long".to_owned(),
            };
            tracing::debug!(client = %client.address, reason, "no TLS");
            None
        }
    }
}

/// Serves a cleartext connection to its end, or until it returns to the idle set.
pub(super) async fn resume<H: Handler>(
    mut stream: TcpStream,
    handover: ResumeGuard<H>,
    mut standing: ConnectionContext,
) {
    let Some((mut begun, shared)) = handover.take() else { return };
    loop {
        let (client, live) = (Arc::clone(&standing.client), Arc::clone(&standing.live));
        let keep_alive = live.keep_alive;
        let ResumeState { input, received, output, glanced, is_new, is_ordinary } = begun;
        let mut socket = BufferedConnection::new(stream, if is_new { live.head_timeout } else { keep_alive });
        let start = match glanced {
            Some(glanced) => {
                socket.deadline.lift();
                StartState::Answering(glanced, received)
            }
            None => {
                socket.begun = (!input.is_empty()).then_some(received);
                if is_ordinary { StartState::Asking } else { StartState::New }
            }
        };
        (socket.input, socket.output) = (input, output);
        if is_new
            && !matches!(start, StartState::Answering(..))
            && begins_as_http2(&mut socket, &live, &shared).await
        {
            let BufferedConnection { io, input, .. } = socket;
            return Box::pin(http2::serve(io, input, shared, live, client)).await;
        }
        let serving = Box::pin(http1::serve(socket, start, Arc::clone(&shared), live, client));
        let Some(rested) = serving.await else { return };
        match park(rested, standing, Instant::now() + keep_alive, true) {
            Some(back) => (stream, standing) = back,
            None => return,
        }
        begun = ResumeState::with(BytesMut::new(), false);
    }
}

/// Returns `true` if the client starts HTTP/2 with prior knowledge (RFC 9113 section 3.3). Reads
/// until the first bytes differ from HTTP/1. A silent client is left to the HTTP/1 loop.
async fn begins_as_http2<T: ClientIo, H: Handler>(
    socket: &mut BufferedConnection<T>,
    live: &ConnectionLimits,
    shared: &ServerState<H>,
) -> bool {
    let mut drain = shared.drain.watch();
    loop {
        if !PREFACE.starts_with(&socket.input[..socket.input.len().min(PREFACE.len())]) {
            return false;
        }
        if socket.input.len() >= PREFACE.len() {
            return true;
        }
        let read_more = poll_fn(|context| {
            if let Poll::Ready(filled) = socket.poll_fill(context, super::socket::INPUT_BYTES) {
                return Poll::Ready(filled.is_ok_and(|count| count > 0));
            }
            let over =
                socket.deadline.poll_passed(context).is_ready() || drain.poll_draining(context).is_ready();
            if over { Poll::Ready(false) } else { Poll::Pending }
        });
        if !read_more.await {
            return false;
        }
        // A client that stops within the preface has the time limit of a head.
        let begun = *socket.begun.get_or_insert_with(Instant::now);
        socket.deadline.set(begun + live.head_timeout);
    }
}

/// Permit of an open connection. Dropping it frees the place.
pub(super) struct ConnectionPermit {
    metrics: Arc<Metrics>,
    _place: OwnedSemaphorePermit,
    /// Count of the client's connections, if the listener limits them.
    client: Option<Box<ClientSeat>>,
    /// Place at the listener for peers.
    at_door: Option<Box<DoorPlace>>,
}

impl ConnectionPermit {
    /// Takes `place` and counts the connection as open.
    pub fn new(metrics: Arc<Metrics>, place: OwnedSemaphorePermit) -> Self {
        metrics.connections_open.add(1);
        Self { metrics, _place: place, client: None, at_door: None }
    }

    /// Counts a connection at the listener for peers. Returns `false` if the node there has its
    /// share, or if its network, or all strangers together, have too many.
    fn count_at(&mut self, door: &PeerDoor, entrance: &ListenerContext, peer: SocketAddr) -> bool {
        let place = match door.place_for(peer, clock::now()) {
            Ok(place) => place,
            Err(_) => {
                let is_member = door.members().has(peer.ip());
                let refused = [&self.metrics.cluster_strangers, &self.metrics.cluster_over_share];
                refused[usize::from(is_member)].increment();
                return false;
            }
        };
        let is_stranger = place.is_stranger;
        self.at_door = Some(Box::new(place));
        let is_counted = !is_stranger || self.count(entrance, peer.ip());
        if !is_counted {
            self.metrics.cluster_strangers.increment();
        }
        is_counted
    }

    /// Counts the connection for its client. Returns `false` if the client has too many.
    fn count(&mut self, entrance: &ListenerContext, client: IpAddr) -> bool {
        self.count_for(&entrance.clients, client)
    }

    /// Counts the connection in `clients` likewise.
    pub fn count_for(&mut self, clients: &Arc<ClientConnections>, client: IpAddr) -> bool {
        match clients.admit(client) {
            Ok(seat) => {
                self.client = seat.map(Box::new);
                true
            }
            Err(limit) => {
                self.metrics.limited_connections.increment();
                clients.tell(client, limit);
                false
            }
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.metrics.connections_open.subtract(1);
    }
}
