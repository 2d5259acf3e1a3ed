//! TLS inside a CONNECT to a listed host, and the requests inside it.

use super::ServerState;
use super::client_io::ClientIo;
use super::http1::{self, StartState};
use super::http2;
use super::socket::BufferedConnection;
use super::tls::ALPN_H2;
use crate::message::{Client, Handler};
use crate::message::{ConnectionPlace, InnerServer, ServerInside};
use bytes::BytesMut;
use rustls::ServerConfig;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Instant;
use tokio::io::DuplexStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, rustls::server::Acceptor};

/// Lets the handler give CONNECTs to this server.
pub(super) fn join<H: Handler>(shared: &Arc<ServerState<H>>) {
    let server: Weak<ServerState<H>> = Arc::downgrade(shared);
    shared.handler.join_server(ServerInside(server));
}

impl<H: Handler> InnerServer for ServerState<H> {
    fn serve_inside(
        self: Arc<Self>,
        stream: DuplexStream,
        tls: Arc<ServerConfig>,
        client: Client,
        open: ConnectionPlace,
    ) {
        tokio::spawn(async move {
            self.metrics.intercepted_open.increment();
            let _open = OpenConnection { shared: Arc::clone(&self), _place: open };
            let live = self.live.load_full();
            // Boxed: the memory of the handshake is freed at its end.
            let shaking = Box::pin(handshake(stream, tls, &client));
            let stream = match tokio::time::timeout(live.head_timeout, shaking).await {
                Ok(Ok(stream)) => Box::new(stream),
                Ok(Err(failure)) => return failure.note(&self, &client),
                Err(_) => return HandshakeFailure::Slow.note(&self, &client),
            };
            let is_h2 = stream.get_ref().1.alpn_protocol() == Some(ALPN_H2);
            let client = Arc::new(client);
            if is_h2 {
                Box::pin(http2::serve(stream, BytesMut::new(), Arc::clone(&self), live, client)).await;
            } else {
                let socket = BufferedConnection::new(stream, live.head_timeout);
                Box::pin(http1::serve(socket, StartState::New, Arc::clone(&self), live, client)).await;
            }
        });
    }
}

/// OuterConnect connection that counts as open until dropped.
struct OpenConnection<H: Handler> {
    shared: Arc<ServerState<H>>,
    _place: ConnectionPlace,
}

impl<H: Handler> Drop for OpenConnection<H> {
    fn drop(&mut self) {
        self.shared.metrics.intercepted_open.subtract(1);
    }
}

/// Reason for which no TLS came about.
enum HandshakeFailure {
    /// The client asked for this other name, or for none.
    Name(Option<String>),
    /// The handshake failed, as for a client that does not trust the authority.
    Tls(io::Error),
    /// The handshake took too long.
    Slow,
}

/// Performs the handshake. A client that asks for another host than the CONNECT's gets an alert.
async fn handshake(
    stream: DuplexStream,
    tls: Arc<ServerConfig>,
    client: &Client,
) -> Result<TlsStream<DuplexStream>, HandshakeFailure> {
    let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await.map_err(HandshakeFailure::Tls)?;
    let name = hello.client_hello().server_name().map(str::to_owned);
    let host = client.intercepted.as_ref().map(|connect| &*connect.host);
    let is_own = host.zip(name.as_deref()).is_some_and(|(host, name)| host.eq_ignore_ascii_case(name));
    // The settings have no certificate for another name, so that the handshake fails with an alert.
    match hello.into_stream(tls).await {
        Ok(stream) if is_own => Ok(stream),
        Err(error) if is_own => Err(HandshakeFailure::Tls(error)),
        _ => Err(HandshakeFailure::Name(name)),
    }
}

impl HandshakeFailure {
    /// Counts the failure and logs it, one line in an interval.
    fn note<H: Handler>(self, shared: &ServerState<H>, client: &Client) {
        let (counter, why) = match self {
            Self::Name(name) => {
                let name =
                    name.map_or_else(|| "no server name".to_owned(), |name| format!("server name {name:?}"));
                (&shared.metrics.intercept_refused_name, format!("the client asked for {name}"))
            }
            Self::Tls(error) => {
                (&shared.metrics.intercept_refused_handshake, format!("handshake failed: {error}"))
            }
            Self::Slow => (&shared.metrics.intercept_refused_handshake, "handshake took too long".to_owned()),
        };
        counter.increment();
        let host = client.intercepted.as_ref().map_or("", |connect| &connect.host);
        if let Some(left_out) = due() {
            tracing::info!(client = %client.address, host, why, left_out, "an intercepted connection was refused; does the client trust root.pem?");
        }
    }
}

/// Returns the number of lines left out if one is due.
fn due() -> Option<u64> {
    let now_ms = STARTED.elapsed().as_millis() as u64;
    let due_ms = TELLS_AT_MS.load(Relaxed);
    let is_due =
        now_ms >= due_ms && TELLS_AT_MS.compare_exchange(due_ms, now_ms + PAUSE_MS, Relaxed, Relaxed).is_ok();
    if !is_due {
        LEFT_OUT.fetch_add(1, Relaxed);
    }
    is_due.then(|| LEFT_OUT.swap(0, Relaxed))
}

impl ClientIo for DuplexStream {
    /// Does nothing: without TLS's own end, the client knows that a response was cut.
    fn reset_on_close(&self, _: bool) {}
}

/// Milliseconds between two log lines.
const PAUSE_MS: u64 = 1_000;

static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);
static TELLS_AT_MS: AtomicU64 = AtomicU64::new(0);
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);
