//! Tunnels: copy bytes both ways, uninspected, until both sides end or the tunnel is idle for too
//! long. Once the far side has ended, a short time without a byte is too long.

use crate::transport::Rewind;
use bytes::Bytes;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes};
use tokio::sync::Notify;

/// Byte counts of a finished tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TunnelTotals {
    /// Bytes to the client.
    pub to_client: u64,
    /// Bytes from the client.
    pub from_client: u64,
}

/// Copies bytes between `client` and `far`. `read_early` holds bytes already read from `client`.
pub(super) async fn run<C, F>(client: C, read_early: Bytes, mut far: F, idle: Duration) -> TunnelTotals
where
    C: AsyncRead + AsyncWrite + Unpin,
    F: AsyncRead + AsyncWrite + Unpin,
{
    let carried = Counts::default();
    let mut near = CountingStream { io: Rewind::new(read_early, client), counts: &carried };
    let copying = copy_bidirectional_with_sizes(&mut near, &mut far, BUFFER_BYTES, BUFFER_BYTES);
    tokio::select! {
        result = copying => {
            if let Err(error) = result {
                tracing::debug!(%error, "tunnel ended");
            }
        }
        () = carried.stalled(idle) => tracing::debug!("tunnel idle for too long"),
    }
    TunnelTotals {
        to_client: carried.written.load(Ordering::Relaxed),
        from_client: carried.read.load(Ordering::Relaxed),
    }
}

#[derive(Default)]
struct Counts {
    read: AtomicU64,
    written: AtomicU64,
    /// `true` once the far side's end has been passed on.
    ended: AtomicBool,
    end: Notify,
}

impl Counts {
    /// Returns after the tunnel has carried nothing for `idle`, or up to a quarter longer. After
    /// the end of the far side, for [`HALF_CLOSED_IDLE`] if that is shorter.
    async fn stalled(&self, idle: Duration) {
        tokio::select! {
            () = self.quiet_for(idle) => return,
            () = self.end.notified() => {}
        }
        self.quiet_for(idle.min(HALF_CLOSED_IDLE)).await;
    }

    async fn quiet_for(&self, idle: Duration) {
        let mut seen = self.sum();
        let mut quiet = 0;
        while quiet < LOOKS {
            tokio::time::sleep(idle / LOOKS).await;
            let sum = self.sum();
            quiet = if sum == seen { quiet + 1 } else { 0 };
            seen = sum;
        }
    }

    fn sum(&self) -> u64 {
        self.read.load(Ordering::Relaxed) + self.written.load(Ordering::Relaxed)
    }
}

/// Stream that counts the bytes read and written.
struct CountingStream<'a, T> {
    io: T,
    counts: &'a Counts,
}

impl<T: AsyncRead + Unpin> AsyncRead for CountingStream<'_, T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(context, buffer))?;
        self.counts.read.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for CountingStream<'_, T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(context, bytes))?;
        self.counts.written.fetch_add(written as u64, Ordering::Relaxed);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write_vectored(context, slices))?;
        self.counts.written.fetch_add(written as u64, Ordering::Relaxed);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.counts.ended.swap(true, Ordering::Relaxed) {
            self.counts.end.notify_one();
        }
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

/// Bytes of each of a tunnel's two buffers, one per direction.
const BUFFER_BYTES: usize = 16 * 1024;

/// Maximum time without a byte once the far side has ended. A client that has nothing more to send
/// would keep the tunnel for its idle time, and a stopping node for its drain.
const HALF_CLOSED_IDLE: Duration = Duration::from_secs(5);

/// Number of checks of a tunnel within its idle time.
const LOOKS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test]
    async fn both_ways_and_half_closes_are_carried() {
        let ((near, mut client), (far, mut server)) = (duplex(64), duplex(64));
        let tunnel = tokio::spawn(run(near, Bytes::from_static(b"early "), far, Duration::from_secs(60)));
        client.write_all(b"late").await.expect("room");
        client.shutdown().await.expect("open");
        let mut text = String::new();
        server.read_to_string(&mut text).await.expect("the client's end");
        assert_eq!(text, "early late");
        server.write_all(b"answer").await.expect("room");
        drop(server);
        let mut text = String::new();
        client.read_to_string(&mut text).await.expect("the server's end");
        assert_eq!(text, "answer");
        assert_eq!(tunnel.await.expect("no panic"), TunnelTotals { to_client: 6, from_client: 10 });
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_tunnel_ends_and_a_busy_one_does_not() {
        let ((near, mut client), (far, _server)) = (duplex(64), duplex(64));
        let start = tokio::time::Instant::now();
        let tunnel = tokio::spawn(run(near, Bytes::new(), far, Duration::from_secs(40)));
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_secs(30)).await;
            client.write_all(b"x").await.expect("open");
        }
        assert_eq!(tunnel.await.expect("no panic").from_client, 5);
        let seconds = start.elapsed().as_secs();
        assert!((190..=205).contains(&seconds), "ended after {seconds} s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_may_send_after_the_far_end_but_not_wait() {
        let ((near, mut client), (far, server)) = (duplex(64), duplex(64));
        let start = tokio::time::Instant::now();
        let tunnel = tokio::spawn(run(near, Bytes::new(), far, Duration::from_secs(600)));
        let (mut read, mut write) = tokio::io::split(server);
        write.shutdown().await.expect("open");
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_secs(3)).await;
            client.write_all(b"x").await.expect("open");
        }
        let mut text = String::new();
        read.read_to_string(&mut text).await.expect("the tunnel's end");
        assert_eq!(text, "xxxxx");
        assert_eq!(tunnel.await.expect("no panic").from_client, 5);
        let seconds = start.elapsed().as_secs();
        assert!((19..=22).contains(&seconds), "ended after {seconds} s");
    }
}
