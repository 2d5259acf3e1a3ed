//! One accepted connection: PROXY protocol, then TLS, then the protocol that its first bytes or ALPN choose.
//!
//! The chosen protocol's future is boxed, so that a connection takes the memory of what it speaks and not of the
//! largest thing that it might have spoken.

use super::client_io::ClientIo;
use super::live::Live;
use super::socket::Socket;
use super::tls::{ALPN_H2, Tls};
use super::worker::Entrance;
use super::{Shared, http1, http2, proxied};
use crate::message::{Client, Handler};
use crate::metrics::Metrics;
use crate::transport::Rewind;
use bytes::BytesMut;
use shoal_wire::http2::PREFACE;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A connection as it was accepted.
pub(super) struct Arrival {
    /// The socket.
    pub stream: TcpStream,
    /// Its far end.
    pub peer: SocketAddr,
}

/// Serves a connection to its end.
pub(super) async fn serve<H: Handler>(arrival: Arrival, entrance: Arc<Entrance>, shared: Arc<Shared<H>>) {
    let _open = Open::count(Arc::clone(&shared.metrics));
    let live = shared.live.load_full();
    let Arrival { mut stream, peer } = arrival;
    let mut client = Client {
        address: peer,
        local: local_address(&stream, &entrance),
        listener: entrance.index,
        tls: entrance.tls.is_some(),
        server_name: None,
    };
    let mut early = BytesMut::new();
    if entrance.is_proxy(peer.ip()) {
        match proxied::read_header(&mut stream, &mut early, live.head_timeout).await {
            Ok(Some(addresses)) => (client.address, client.local) = (addresses.source, addresses.destination),
            Ok(None) => {}
            Err(reason) => {
                shared.metrics.proxy_protocol_refused.count();
                tracing::debug!(%peer, reason, "connection without a valid PROXY protocol header");
                return;
            }
        }
    }
    let Some(tls) = &entrance.tls else { return serve_plain(stream, early, client, live, shared).await };
    // The handshake's memory goes when it is over.
    let shaking = Box::pin(shake_hands(Rewind::new(early.freeze(), stream), tls, &mut client, &live));
    let Some(stream) = shaking.await else {
        shared.metrics.tls_failures.count();
        return;
    };
    let h2 = stream.get_ref().1.alpn_protocol() == Some(ALPN_H2);
    let client = Arc::new(client);
    if h2 {
        Box::pin(http2::serve(stream, BytesMut::new(), shared, live, client)).await;
    } else {
        Box::pin(http1::serve(Socket::new(stream, live.head_timeout), shared, live, client)).await;
    }
}

/// The TLS stream of a client that shakes hands in time. It is large, and a task keeps room for every place that it was
/// ever moved through, hence the box.
async fn shake_hands(
    stream: Rewind<TcpStream>,
    tls: &Tls,
    client: &mut Client,
    live: &Live,
) -> Option<Box<TlsStream<Rewind<TcpStream>>>> {
    match tokio::time::timeout(live.head_timeout, tls.accept(stream)).await {
        Ok(Ok(stream)) => {
            client.server_name = stream.get_ref().1.server_name().map(str::to_owned);
            Some(Box::new(stream))
        }
        failed => {
            let reason = failed.err().map_or("handshake failed", |_| "handshake took too long");
            tracing::debug!(client = %client.address, reason, "no TLS");
            None
        }
    }
}

async fn serve_plain<H: Handler>(
    stream: TcpStream,
    early: BytesMut,
    client: Client,
    live: Arc<Live>,
    shared: Arc<Shared<H>>,
) {
    let client = Arc::new(client);
    let mut socket = Socket::new(stream, live.head_timeout);
    socket.input.unsplit(early);
    if begins_as_http2(&mut socket, &live, &shared).await {
        let Socket { io, input, .. } = socket;
        Box::pin(http2::serve(io, input, shared, live, client)).await;
    } else {
        Box::pin(http1::serve(socket, shared, live, client)).await;
    }
}

/// Whether the client speaks HTTP/2 without being asked (RFC 9113 section 3.3). Reads until its first bytes can be
/// told from HTTP/1; a client that says nothing is left to the HTTP/1 loop.
async fn begins_as_http2<T: ClientIo, H: Handler>(
    socket: &mut Socket<T>,
    live: &Live,
    shared: &Shared<H>,
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
        // Should it not go on, it has the time that a head has.
        let begun = *socket.begun.get_or_insert_with(Instant::now);
        socket.deadline.set(begun + live.head_timeout);
    }
}

/// Where the client connected to; a system call is needed only when the listener takes any local address.
fn local_address(stream: &TcpStream, entrance: &Entrance) -> SocketAddr {
    if entrance.local.ip().is_unspecified() {
        stream.local_addr().unwrap_or(entrance.local)
    } else {
        entrance.local
    }
}

/// Counts a connection as open while it lives.
struct Open(Arc<Metrics>);

impl Open {
    fn count(metrics: Arc<Metrics>) -> Self {
        metrics.connections_open.add(1);
        Self(metrics)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connections_open.subtract(1);
    }
}
