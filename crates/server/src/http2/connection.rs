//! Task of one connection: reads, processes frames, writes, and watches timers.

use super::StreamContext;
use super::incoming::{FrameProgress, FrameReader};
use super::monitor::{ConnectionActivity, ConnectionMonitor, LEAVE_TIME, MonitorAction};
use super::output::FrameOutput;
use crate::client_io::ClientIo;
use crate::message::Handler;
use crate::socket::LINGER_BYTES_MAX;
use crate::transport::Deadline;
use crate::transport::spare::{self, BufferClass};
use bytes::BytesMut;
use shoal_http2::{self as http2, ErrorCode, FRAME_BYTES_MAX, FRAME_HEAD_BYTES, Setting, WINDOW_INITIAL};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncReadExt;

/// State of one connection.
pub(super) struct Http2Connection<T, H: Handler> {
    io: T,
    input: BytesMut,
    output: FrameOutput,
    incoming: FrameReader,
    streams: Arc<StreamContext<H>>,
    watch: ConnectionMonitor,
    /// Bytes were written but not flushed.
    unflushed: bool,
    /// The last write or flush had to wait.
    waits: bool,
    /// Bytes read, and bytes written after a wait.
    moved: (u64, u64),
    /// Bytes written in the current turn.
    turn_bytes: usize,
    /// GOAWAY and a ping behind it were sent.
    leaves: bool,
    /// GOAWAY has named the last stream.
    is_final: bool,
    /// Deadline for the client to close, once all output was sent.
    closing: Option<Deadline>,
    /// Bytes read and dropped since `closing` was set.
    thrown_away: usize,
}

impl<T: ClientIo, H: Handler> Http2Connection<T, H> {
    /// Creates a connection. `input` holds bytes already read.
    pub fn new(io: T, input: BytesMut, streams: Arc<StreamContext<H>>) -> Self {
        let live = &streams.live;
        let watch = ConnectionMonitor::new(live, streams.shared.drain.watch());
        let field_bytes_max = u32::try_from(live.limits.head_bytes_max).unwrap_or(u32::MAX);
        let mut output = FrameOutput::default();
        output.frames(|out| {
            let settings = [
                (Setting::StreamsMax, live.h2_streams),
                (Setting::InitialWindow, super::state::STREAM_WINDOW),
                (Setting::FieldBytesMax, field_bytes_max),
            ];
            http2::write_settings(out, &settings);
            http2::write_window_update(out, 0, super::state::CONNECTION_WINDOW - WINDOW_INITIAL);
        });
        let moved = (input.len() as u64, 0);
        Self {
            io,
            input,
            output,
            incoming: FrameReader::default(),
            streams,
            watch,
            unflushed: false,
            waits: false,
            moved,
            turn_bytes: 0,
            leaves: false,
            is_final: false,
            closing: None,
            thrown_away: 0,
        }
    }

    /// Serves the connection. Returns ready at its end.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.streams.link.lock().set_waker(context);
        self.turn_bytes = 0;
        loop {
            if self.closing.is_some() {
                return self.poll_closed(context);
            }
            // A socket error ends the connection. The streams notice when the connection is
            // dropped.
            if self.take_frames(context).is_err() {
                return Poll::Ready(());
            }
            if self.closing.is_none() {
                match self.watch.poll(context, &self.doing()) {
                    Poll::Ready(MonitorAction::Dead) => return Poll::Ready(()),
                    Poll::Ready(MonitorAction::Late) => self.give_up(ErrorCode::ENHANCE_YOUR_CALM),
                    Poll::Ready(MonitorAction::Over) => {
                        self.take_no_more();
                        self.closing = Some(Deadline::after(LEAVE_TIME));
                    }
                    Poll::Ready(MonitorAction::GoAway) => {
                        self.leaves = true;
                        self.output.frames(|out| {
                            http2::write_goaway(out, STREAM_MAX, ErrorCode::NO_ERROR);
                            http2::write_ping(out, LAST_PING, false);
                        });
                    }
                    Poll::Ready(MonitorAction::Look { ping }) => {
                        self.streams.link.lock().end_held(&self.streams.live.patience);
                        if ping {
                            self.output.frames(|out| http2::write_ping(out, ALIVE_PING, false));
                        }
                    }
                    Poll::Pending => {
                        self.rest();
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// Reads frames and writes output until both must wait.
    fn take_frames(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        loop {
            let taken = match self.incoming.take(&mut self.input, &mut self.output, &self.streams) {
                Ok(taken) => taken,
                Err(code) => {
                    self.give_up(code);
                    return Ok(());
                }
            };
            self.answer_pongs();
            let is_written = self.poll_output(context)?.is_ready();
            if is_written && self.is_final && self.is_over() {
                self.closing = Some(Deadline::after(LEAVE_TIME));
                return Ok(());
            }
            match taken {
                // Frames wait for room in the output, or for tasks to end.
                FrameProgress::Blocked if !self.output.is_clogged() && !self.is_crowded() => {}
                FrameProgress::Blocked => return Ok(()),
                FrameProgress::All { .. } if self.output.is_clogged() => return Ok(()),
                FrameProgress::All { wanted } => match self.poll_fill(context, wanted)? {
                    // A client that ends its sending has gone, unlike in HTTP/1: it can neither
                    // acknowledge frames nor open a window. RFC 9113 section 9.1: "it is expected
                    // that clients will not close connections until it is determined that no
                    // further communication with a server is necessary".
                    Poll::Ready(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Poll::Ready(_) => {}
                    Poll::Pending => return Ok(()),
                },
            }
        }
    }

    /// Ends the connection with GOAWAY and the error `code`.
    fn give_up(&mut self, code: ErrorCode) {
        self.streams.shared.metrics.h2_given_up.increment();
        tracing::debug!(client = %self.streams.client.address, ?code, "HTTP/2 connection given up");
        let last = self.incoming.last_stream();
        debug_assert!(last <= STREAM_MAX);
        self.output.frames(|out| http2::write_goaway(out, last, code));
        self.streams.link.lock().close();
        self.closing = Some(Deadline::after(LEAVE_TIME));
    }

    /// Handles answers to our pings: the client is alive, or has seen the first GOAWAY.
    fn answer_pongs(&mut self) {
        for ping in self.incoming.pongs() {
            // An answer to a ping that was not sent is ignored: a later GOAWAY must not name a
            // higher stream (section 6.8).
            if ping == LAST_PING && self.leaves {
                self.take_no_more();
            } else if ping == ALIVE_PING {
                self.watch.pong();
            }
        }
    }

    /// Stops accepting streams and sends GOAWAY with the last accepted one.
    fn take_no_more(&mut self) {
        if !std::mem::replace(&mut self.is_final, true) {
            self.incoming.take_no_more();
            let last = self.incoming.last_stream();
            self.output.frames(|out| http2::write_goaway(out, last, ErrorCode::NO_ERROR));
        }
    }

    /// Frames and writes pending output. Returns ready if nothing is left.
    fn poll_output(&mut self, context: &mut Context<'_>) -> io::Result<Poll<()>> {
        loop {
            self.streams.link.lock().pump(&mut self.output);
            if self.output.is_empty() {
                break;
            }
            if self.turn_bytes >= TURN_BYTES_MAX {
                context.waker().wake_by_ref();
                return Ok(Poll::Pending);
            }
            let written = self.output.poll_write(&mut self.io, context)?;
            self.unflushed = true;
            let waited = std::mem::replace(&mut self.waits, written.is_pending());
            let Poll::Ready(bytes) = written else { return Ok(Poll::Pending) };
            debug_assert!(bytes > 0);
            self.turn_bytes += bytes;
            self.moved.1 += if waited { bytes as u64 } else { 0 };
        }
        if self.unflushed {
            let flushed = Pin::new(&mut self.io).poll_flush(context)?;
            self.waits = flushed.is_pending();
            self.unflushed = self.waits;
            return Ok(flushed);
        }
        Ok(Poll::Ready(()))
    }

    fn poll_fill(&mut self, context: &mut Context<'_>, wanted: usize) -> io::Result<Poll<usize>> {
        if self.input.capacity() == 0 {
            self.input = spare::take(BufferClass::Client);
        }
        let room = wanted.max(ROOM_MIN);
        if self.input.capacity() - self.input.len() < room {
            self.input.reserve(if wanted > ROOM_MIN { FRAME_BYTES_MAX + FRAME_HEAD_BYTES } else { room });
        }
        let filled = pin!(self.io.read_buf(&mut self.input)).poll(context)?;
        if let Poll::Ready(bytes) = filled {
            debug_assert!(bytes <= self.input.len());
            self.moved.0 += bytes as u64;
            self.incoming.filled(bytes);
        }
        Ok(filled)
    }

    /// Frees buffers that are not needed while the connection waits.
    fn rest(&mut self) {
        if self.input.is_empty() && self.input.capacity() > 0 {
            spare::give(BufferClass::Client, std::mem::take(&mut self.input));
        }
        if self.output.is_empty() {
            self.streams.link.lock().shrink();
        }
    }

    fn doing(&self) -> ConnectionActivity {
        let state = self.streams.link.lock();
        ConnectionActivity {
            streams: state.tasks(),
            quiet_since: state.quiet_since(),
            is_pressed: self.waits || !self.output.is_empty() || state.has_ready(),
            begun: self.incoming.begun(&self.input),
            moved: self.moved,
        }
    }

    fn is_over(&self) -> bool {
        let state = self.streams.link.lock();
        state.open_streams() == 0 && !state.has_ready()
    }

    fn is_crowded(&self) -> bool {
        self.incoming.is_crowded(&self.streams)
    }

    /// Writes the last frames and waits for the client to close. Closing a socket with unread bytes
    /// would reset it and destroy replies the client has not read yet.
    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(closing) = &mut self.closing else { return Poll::Ready(()) };
        if closing.poll_passed(context).is_ready() {
            return Poll::Ready(());
        }
        match self.poll_output(context) {
            Ok(written) => ready!(written),
            Err(_) => return Poll::Ready(()),
        }
        if ready!(Pin::new(&mut self.io).poll_shutdown(context)).is_err() {
            return Poll::Ready(());
        }
        while self.thrown_away < LINGER_BYTES_MAX {
            self.input.clear();
            match self.poll_fill(context, 0) {
                Ok(Poll::Ready(bytes @ 1..)) => self.thrown_away += bytes,
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(0)) | Err(_) => break,
            }
        }
        Poll::Ready(())
    }
}

impl<T, H: Handler> Drop for Http2Connection<T, H> {
    fn drop(&mut self) {
        self.streams.link.lock().close();
    }
}

/// Stream number in the first GOAWAY, while streams may still be on the way (RFC 9113 section 6.8).
const STREAM_MAX: u32 = 0x7fff_ffff;

/// Payloads of our pings. One checks that the client is alive, the other follows the first GOAWAY.
const ALIVE_PING: [u8; 8] = *b"shoal up";
const LAST_PING: [u8; 8] = *b"shoal by";

/// Bytes written before other connections of the thread get their turn.
const TURN_BYTES_MAX: usize = 1 << 20;

/// Minimum free bytes in the buffer before a read.
const ROOM_MIN: usize = 1024;

const _: () = {
    assert!(STREAM_MAX % 2 == 1);
    assert!(TURN_BYTES_MAX > FRAME_BYTES_MAX);
    assert!(ROOM_MIN > FRAME_HEAD_BYTES);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StreamServer;
    use crate::http2::state::SharedState;
    use crate::message::Client;
    use crate::metrics::Metrics;
    use crate::tests::handler::Scripted;
    use crate::tests::http2_frames::{frame, get, post};
    use shoal_http2::{END_STREAM, FrameKind, PREFACE};
    use shoal_settings::ClientLimits;
    use std::future::poll_fn;
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn a_connection_that_waits_holds_no_buffer() {
        let server = StreamServer::new(
            Arc::<Scripted>::default(),
            Arc::<Metrics>::default(),
            &ClientLimits::default(),
        );
        let body = frame(FrameKind::Data, END_STREAM, 1, &[0; 16_384]);
        for (what, said) in [
            ("nothing", Vec::new()),
            ("a hit", get(1, "/hit/1000")),
            ("an ordinary request", get(1, "/memory/1000")),
            ("a body", [post(1, "/count", &[]), body].concat()),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback is there");
            let address = listener.local_addr().expect("bound");
            let (far, near) = tokio::join!(TcpStream::connect(address), listener.accept());
            let (mut far, near) = (far.expect("connected"), near.expect("accepted").0);
            let client = Client {
                address,
                local: address,
                listener: 0,
                tls: false,
                server_name: None,
                certificate: None,
                intercepted: None,
            };
            let (shared, live) = (Arc::clone(&server.0), server.0.live.load_full());
            let (link, heads) = (SharedState::new(), Default::default());
            let streams = StreamContext { shared, live, client: Arc::new(client), link, heads };
            let mut connection = Http2Connection::new(near, BytesMut::new(), Arc::new(streams));
            let settings = frame(FrameKind::Settings, 0, 0, &[]);
            far.write_all(&[PREFACE, &settings, &said].concat()).await.expect("it is open");
            let serving = poll_fn(|context| connection.poll(context));
            let waited = tokio::time::timeout(std::time::Duration::from_millis(200), serving).await;
            assert!(waited.is_err(), "the connection stays open");
            let asked = connection.incoming.last_stream();
            assert_eq!(asked, u32::from(!said.is_empty()), "{what}: it was read");
            assert_eq!(
                (connection.input.capacity(), connection.output.is_empty()),
                (0, true),
                "after {what}"
            );
        }
    }
}
