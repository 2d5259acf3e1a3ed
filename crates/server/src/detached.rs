//! Connection loop without listeners, for streams accepted or made by the caller.
//!
//! Tests and measurements run the loop in memory. Only the loop itself then allocates, waits or
//! takes time.

use super::client_io::ClientIo;
use super::connection::{ConnectionContext, ConnectionPermit};
use super::drain::Drain;
use super::idle::{self, IdleConnection, IdleStream};
use super::limits::ConnectionLimits;
use super::socket::BufferedConnection;
use super::{ServerState, http1, http2};
use crate::message::{Client, Handler};
use crate::metrics::Metrics;
use arc_swap::ArcSwap;
use bytes::BytesMut;
use shoal_settings::ClientLimits;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Semaphore;

/// Serves any stream within the caller's runtime.
pub struct StreamServer<H>(pub(super) Arc<ServerState<H>>);

impl<H: Handler> StreamServer<H> {
    /// Creates a server that answers through `handler` and applies `limits` to clients.
    pub fn new(handler: Arc<H>, metrics: Arc<Metrics>, limits: &ClientLimits) -> Self {
        let live = ArcSwap::from_pointee(ConnectionLimits::new(limits, Arc::clone(&metrics)));
        Self(Arc::new(ServerState {
            handler,
            metrics,
            live,
            drain: Drain::default(),
            alt_svc: Default::default(),
        }))
    }

    /// Serves one HTTP/1 connection to its end.
    pub async fn serve<T>(&self, stream: T, client: Client)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let live = self.0.live.load_full();
        let socket = BufferedConnection::new(Foreign(stream), live.head_timeout);
        http1::serve(socket, http1::StartState::New, Arc::clone(&self.0), live, Arc::new(client)).await;
    }

    /// Serves one cleartext connection as a worker does, including waiting without a task. The
    /// future never ends: drop the future to stop.
    pub async fn serve_waiting(&self, stream: std::net::TcpStream, client: Client) {
        self.serve_all_waiting(vec![stream], client).await;
    }

    /// Serves several connections of one client, as [`StreamServer::serve_waiting`] does for one.
    /// Their requests may arrive together.
    pub async fn serve_all_waiting(&self, streams: Vec<std::net::TcpStream>, client: Client) {
        let client = Arc::new(client);
        let admitting = async {
            // The idle set opens first.
            tokio::task::yield_now().await;
            for stream in streams {
                let place = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("nobody else has it");
                let seat = ConnectionPermit::new(Arc::clone(&self.0.metrics), place);
                let live = self.0.live.load_full();
                let due = Instant::now() + live.head_timeout;
                let standing = ConnectionContext { client: Arc::clone(&client), live, _seat: seat };
                let admitted = idle::admit(IdleConnection {
                    stream: IdleStream::new(stream),
                    standing,
                    due,
                    has_spoken: false,
                    awaits: None,
                });
                assert!(admitted.is_ok(), "the room is open, and the kernel takes sockets");
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            _ = idle::serve(Arc::clone(&self.0)) => {}
            () = admitting => {}
        }
    }

    /// Serves one HTTP/2 connection to its end.
    pub async fn serve_http2<T>(&self, stream: T, client: Client)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let live = self.0.live.load_full();
        http2::serve(Foreign(stream), BytesMut::new(), Arc::clone(&self.0), live, Arc::new(client)).await;
    }
}

/// Stream of the caller, used only through its read and write traits.
struct Foreign<T>(T);

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> ClientIo for Foreign<T> {
    /// Does nothing: the stream's own drop decides how a stream ends.
    fn reset_on_close(&self, _: bool) {}
}

impl<T: AsyncRead + Unpin> AsyncRead for Foreign<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Foreign<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
