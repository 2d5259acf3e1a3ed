//! Client connection with its read buffer, output and deadline, as the HTTP/1 loop polls it.

use super::client_io::ClientIo;
use super::slow_clients::{ClientProgress, SlowClientPolicy, TooSlow};
use crate::transport::spare::{self, BufferClass};
use crate::transport::{Deadline, MessageOutput, SENT_AT_ONCE};
use bytes::BytesMut;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Connection and its buffers.
pub(super) struct BufferedConnection<T> {
    /// Transport of the connection.
    pub io: T,
    /// Bytes read but not yet used.
    pub input: BytesMut,
    /// Arrival time of the first byte in `input`, if the bytes came before a head was awaited.
    pub begun: Option<Instant>,
    /// Bytes to be sent.
    pub output: MessageOutput,
    /// Time at which waiting ends.
    pub deadline: Deadline,
    /// Speed at which the client takes the reply.
    pub pace: ClientProgress,
    /// Set once the client has ended its sending. Passes when the client counts as gone, unless it
    /// takes bytes.
    ended: Option<Deadline>,
    /// The read buffer is larger than an idle connection may hold.
    enlarged: bool,
    /// The kernel holds back partial segments.
    is_corked: bool,
}

/// Error: the client can no longer be reached.
#[derive(Debug)]
pub(super) struct LostClient;

impl<T: ClientIo> BufferedConnection<T> {
    /// Creates a connection. Its first bytes must arrive within `first`.
    pub fn new(io: T, first: Duration) -> Self {
        Self {
            io,
            input: BytesMut::new(),
            begun: None,
            output: MessageOutput::default(),
            deadline: Deadline::after(first),
            pace: ClientProgress::default(),
            ended: None,
            enlarged: false,
            is_corked: false,
        }
    }

    /// Reads arrived bytes into `input`. Returns `Ok(0)` at the end.
    pub fn poll_fill(&mut self, context: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        if room > INPUT_BYTES && self.input.is_empty() {
            // Bytes of a body, which get a larger buffer as soon as this one is used up.
            if self.input.capacity() < ROOM_MIN {
                self.enlarged = true;
                spare::renew(&mut self.input, room);
            }
        } else if self.input.capacity() == 0 {
            self.input = spare::take(BufferClass::Client);
        }
        if self.input.capacity() - self.input.len() < ROOM_MIN {
            self.enlarged |= room > INPUT_BYTES || self.input.len() >= INPUT_BYTES - ROOM_MIN;
            self.input.reserve(room);
        }
        let filled = pin!(self.io.read_buf(&mut self.input)).poll(context);
        if filled.is_pending() {
            self.spare();
        }
        filled
    }

    /// Gives `input` a buffer with room for `bytes`, for a long message.
    pub fn enlarge(&mut self, bytes: usize) {
        // A buffer without this room would grow for the last bytes.
        let bytes = bytes + ROOM_MIN;
        if self.input.capacity() >= bytes {
            return;
        }
        let mut larger = BytesMut::new();
        spare::renew(&mut larger, bytes);
        larger.extend_from_slice(&self.input);
        let mut before = std::mem::replace(&mut self.input, larger);
        before.clear();
        match std::mem::replace(&mut self.enlarged, true) {
            true => spare::retire(before),
            false if before.capacity() == 0 => {}
            false => spare::give(BufferClass::Client, before),
        }
        debug_assert!(self.input.capacity() >= bytes);
    }

    /// Returns the read buffer to the pool if it is empty.
    pub fn spare(&mut self) {
        if !self.input.is_empty() || self.input.capacity() == 0 {
            return;
        }
        let input = std::mem::take(&mut self.input);
        match std::mem::take(&mut self.enlarged) {
            true => spare::retire(input),
            false => spare::give(BufferClass::Client, input),
        }
    }

    /// Puts bytes that were read elsewhere into `input`, which must be empty.
    pub fn put_back(&mut self, bytes: &[u8]) {
        debug_assert!(self.input.is_empty(), "they come before what is in it");
        if bytes.is_empty() && self.input.capacity() == 0 {
            return;
        }
        self.input = spare::filled(BufferClass::Client, bytes);
    }

    /// Moves the read bytes to a buffer of their own size. Bytes that wait for their rest then keep
    /// no room for a long message.
    pub fn narrow(&mut self) {
        let mut input = std::mem::take(&mut self.input);
        self.input = spare::filled(BufferClass::Client, &input);
        self.enlarged = self.input.len() > INPUT_BYTES;
        input.clear();
        spare::retire(input);
    }

    /// Frees a read buffer that a large head or body has enlarged, before the connection goes idle.
    pub fn shrink(&mut self) {
        if self.enlarged && self.input.is_empty() {
            spare::retire(std::mem::take(&mut self.input));
            self.enlarged = false;
        }
    }

    /// Returns ready once the client has gone. Bytes that arrive meanwhile stay in `input`. When
    /// `input` is full, reading stops and a closed connection is not noticed.
    ///
    /// A client that ends its sending has either left or waits for its reply. On the wire the two
    /// look alike until bytes are sent. The client therefore counts as gone after [`ENDED_TIME`]
    /// without taking a byte.
    pub fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<LostClient> {
        if let Some(ended) = &mut self.ended {
            ended.set_if_lifted(ENDED_TIME);
            return ended.poll_passed(context).map(|()| LostClient);
        }
        while self.input.len() < READ_AHEAD_MAX {
            match ready!(self.poll_fill(context, INPUT_BYTES)) {
                Ok(0) => {
                    self.ended = Some(Deadline::after(ENDED_TIME));
                    return self.poll_gone(context);
                }
                Err(_) => return Poll::Ready(LostClient),
                Ok(_) => {}
            }
        }
        Poll::Pending
    }

    /// Writes all output. Fails if the client is too slow.
    pub fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        patience: &SlowClientPolicy,
    ) -> Poll<Result<(), LostClient>> {
        // Without the cork, an acknowledgement between two pieces makes the kernel send the first
        // piece's last few bytes as a packet.
        if !self.is_corked && self.output.leaves_in_pieces() {
            self.io.cork(true);
            self.is_corked = true;
        }
        while !self.output.is_written() {
            let lent = self.output.poll_lend(|head, data| self.io.poll_lend(context, head, data));
            match lent.unwrap_or_else(|| self.output.poll_write(&mut self.io, context)) {
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Poll::Ready(Err(LostClient)),
                Poll::Ready(Ok(bytes)) => {
                    self.deadline.lift();
                    self.pace.moved(bytes, patience)?;
                    if let Some(ended) = &mut self.ended {
                        ended.lift();
                    }
                }
                Poll::Pending => return self.poll_stalled(context, patience),
            }
        }
        match Pin::new(&mut self.io).poll_flush(context) {
            Poll::Ready(Ok(())) => {
                if std::mem::take(&mut self.is_corked) {
                    self.io.cork(false);
                }
                let flushed = self.pace.flushed(self.output.length(), patience);
                self.output.clear();
                self.deadline.lift();
                Poll::Ready(flushed.map_err(LostClient::from))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(LostClient)),
            Poll::Pending => self.poll_stalled(context, patience),
        }
    }

    fn poll_stalled(
        &mut self,
        context: &mut Context<'_>,
        patience: &SlowClientPolicy,
    ) -> Poll<Result<(), LostClient>> {
        self.pace.poll_stalled(&mut self.deadline, context, patience).map(|TooSlow| Err(LostClient))
    }

    /// Writes all output and waits until it is written.
    pub async fn send(&mut self, patience: &SlowClientPolicy) -> Result<(), LostClient> {
        poll_fn(|context| self.poll_send(context, patience)).await
    }

    /// Closes the connection in order.
    pub async fn close(mut self) {
        let _ = tokio::time::timeout(LINGER_TIME, self.io.shutdown()).await;
    }

    /// Closes while the client may still be sending. RFC 9112 section 9.6: "If a server performs an
    /// immediate close of a TCP connection, there is a significant risk that the client will not be
    /// able to read the last HTTP response". The write side is therefore closed first. Further
    /// bytes are read and dropped for at most [`LINGER_TIME`].
    pub async fn linger(mut self) {
        let lingering = async {
            self.io.shutdown().await?;
            let mut dropped = 0;
            while dropped < LINGER_BYTES_MAX {
                self.input.clear();
                match poll_fn(|context| self.poll_fill(context, INPUT_BYTES)).await? {
                    0 => break,
                    count => dropped += count,
                }
            }
            io::Result::Ok(())
        };
        let _ = tokio::time::timeout(LINGER_TIME, lingering).await;
    }
}

impl From<TooSlow> for LostClient {
    fn from(_: TooSlow) -> Self {
        Self
    }
}

/// Size of the read buffer: more than most request heads need.
pub(super) const INPUT_BYTES: usize = BufferClass::Client.bytes();

/// Minimum free bytes. Below, the buffer grows or its used part is reclaimed.
const ROOM_MIN: usize = 1024;

/// Maximum number of pipelined bytes read while an earlier request is answered.
const READ_AHEAD_MAX: usize = 16 * 1024;

/// Time without a taken byte after which a client that has ended its sending counts as gone.
const ENDED_TIME: Duration = Duration::from_secs(2);

/// Maximum bytes read and dropped from a client that keeps sending after its last response.
pub(super) const LINGER_BYTES_MAX: usize = 256 * 1024;

/// Maximum time for dropping those bytes, and for an orderly close.
const LINGER_TIME: Duration = Duration::from_secs(2);

const _: () = {
    assert!(ROOM_MIN <= INPUT_BYTES && INPUT_BYTES <= READ_AHEAD_MAX);
    assert!(SENT_AT_ONCE <= LINGER_BYTES_MAX);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_io::ClientIo;
    use rustix::net::sockopt::tcp_cork;
    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
    use tokio::net::{TcpListener, TcpStream};

    /// Takes every byte. Its first flush waits, as with TLS when the kernel does not take all
    /// records at once.
    struct SlowFlush(usize);

    impl ClientIo for SlowFlush {
        fn reset_on_close(&self, _: bool) {}
    }

    impl AsyncRead for SlowFlush {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for SlowFlush {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.0 += 1;
            if self.0 == 1 {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn time_after_a_flush_is_not_the_clients() {
        let pause = Duration::from_millis(100);
        let patience = SlowClientPolicy { pause, rate_min: 1_000_000, metrics: Default::default() };
        let mut socket = BufferedConnection::new(SlowFlush(0), pause);
        for _ in 0..2 {
            socket.output.head.extend_from_slice(b"a reply");
            socket.send(&patience).await.expect("the client took all of it");
            // Nothing is being sent: the loop waits for the origin or the next request.
            tokio::time::sleep(pause * 2).await;
        }
        assert_eq!(patience.metrics.clients_slow.value(), 0);
    }

    #[tokio::test]
    async fn large_body_is_corked_until_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (pause, mut far) = (Duration::from_secs(10), far.expect("accepted").0);
        let patience = SlowClientPolicy { pause, rate_min: 0, metrics: Default::default() };
        let mut socket = BufferedConnection::new(near.expect("connected"), pause);
        let is_corked = |socket: &BufferedConnection<TcpStream>| tcp_cork(&socket.io).expect("a socket");
        for (length, waits) in [(SENT_AT_ONCE, false), (16 << 20, true), (1, false)] {
            socket.output.set_data(vec![7; length].into(), false);
            let first = poll_fn(|context| Poll::Ready(socket.poll_send(context, &patience))).await;
            assert_eq!((first.is_pending(), is_corked(&socket)), (waits, waits), "{length}");
            let mut taken = vec![0; length];
            let rest = async {
                if waits {
                    socket.send(&patience).await.expect("the client is there");
                }
            };
            let (all, ()) = tokio::join!(far.read_exact(&mut taken), rest);
            assert!(all.is_ok() && taken == vec![7; length] && !is_corked(&socket), "{length}");
        }
    }
}
