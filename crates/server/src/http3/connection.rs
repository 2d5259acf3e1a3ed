//! Task of one connection: takes its streams, answers hits, and ends it in order.
//!
//! ```text
//!   open ── drain, or idle ──► GOAWAY(all) ── a moment ──► GOAWAY(last) ── no stream ──► closed
//! ```

use super::receive::RequestStream;
use super::send::QuicSender;
use super::uni_streams::{self, ControlSender};
use super::{Http3Context, fast_path, stream};
use crate::message::Handler;
use crate::transport::Deadline;
use quinn::{RecvStream, SendStream, VarInt};
use shoal_http3::ErrorCode;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Stage of a connection's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Requests are taken.
    Open,
    /// The client has been told to send no more; requests on their way are taken.
    Leaving,
    /// Requests are refused.
    Final,
}

struct Http3Connection<H: Handler> {
    context: Arc<Http3Context<H>>,
    control: ControlSender,
    stage: Stage,
    /// Time of the next look at the streams.
    look: Deadline,
    /// Number of the next stream that was not taken.
    next_stream: u64,
    uni_streams: uni_streams::UniStreamCounter,
}

/// Serves a connection to its end.
pub(super) async fn serve<H: Handler>(context: Arc<Http3Context<H>>) {
    let head_bytes_max = context.live.limits.head_bytes_max;
    let control = uni_streams::open_control(&context.connection, head_bytes_max);
    let look = Deadline::after(context.live.keep_alive.max(KEEP_ALIVE_MIN));
    let uni_streams = uni_streams::UniStreamCounter::default();
    let stage = Stage::Open;
    Http3Connection { context, control, stage, look, next_stream: 0, uni_streams }.run().await;
}

impl<H: Handler> Http3Connection<H> {
    async fn run(&mut self) {
        let connection = self.context.connection.clone();
        let mut drain = self.context.shared.drain.watch();
        let mut closing = self.context.period.watch();
        let mut at_once = 0;
        loop {
            tokio::select! {
                biased;
                // First, since a busy client always has another stream.
                () = drain.draining(), if self.stage == Stage::Open => {
                    // The client learns from GOAWAY that its next request is the last.
                    self.leave();
                }
                () = closing.draining(), if self.stage == Stage::Open => self.leave(),
                opened = connection.accept_bi() => match opened {
                    Ok((send, receive)) => self.request(send, receive).await,
                    Err(_) => return,
                },
                opened = connection.accept_uni() => match opened {
                    Ok(receive) => self.uni_streams.take(receive, &self.context),
                    Err(_) => return,
                },
                () = poll_fn(|context| self.look.poll_passed(context)) => {
                    if self.look_around() {
                        return tokio::time::sleep(LAST_WORD_TIME).await;
                    }
                }
            }
            at_once += 1;
            if at_once >= TURNS_MAX {
                at_once = 0;
                tokio::task::yield_now().await;
            }
        }
    }

    /// Answers a new stream, or gives it a task.
    async fn request(&mut self, send: SendStream, receive: RecvStream) {
        let (context, received) = (&self.context, Instant::now());
        let number = u64::from(VarInt::from(send.id()));
        let mut request = RequestStream::new(receive, &context.live.limits, &context.heads);
        let mut sender = QuicSender::new(send);
        if self.stage == Stage::Final {
            context.shared.metrics.h3_streams_refused.increment();
            sender.reset(ErrorCode::REQUEST_REJECTED);
            return request.stop(ErrorCode::REQUEST_REJECTED);
        }
        self.next_stream = self.next_stream.max(number + 4);
        if request.arrived().await {
            sender = match fast_path::answer(context, &request, sender, received) {
                Ok(()) => return,
                Err(sender) => sender,
            };
        }
        let task = context.begin_task();
        tokio::spawn(stream::serve(task, sender, request, received));
    }

    fn leave(&mut self) {
        debug_assert!(self.stage == Stage::Open, "each stage comes once");
        self.stage = Stage::Leaving;
        self.control.goaway(STREAM_MAX);
        // Requests on their way arrive within a moment.
        let moment = (3 * self.context.connection.rtt()).clamp(MOMENT_MIN, LEAVE_TIME);
        self.look.set(Instant::now() + moment);
    }

    /// Ends an idle connection, and a leaving one without streams. Returns `true` at the end.
    fn look_around(&mut self) -> bool {
        let now = Instant::now();
        let is_busy = self.context.tasks.load(Relaxed) > 0;
        let quiet_since = *self.context.quiet_since.lock();
        match self.stage {
            Stage::Open => {
                let keep_alive = self.context.live.keep_alive.max(KEEP_ALIVE_MIN);
                let due = if is_busy { now + keep_alive } else { quiet_since + keep_alive };
                match due <= now {
                    true => self.leave(),
                    false => self.look.set(due),
                }
                false
            }
            Stage::Leaving => {
                self.stage = Stage::Final;
                self.control.goaway(self.next_stream);
                self.look.set(now + MOMENT_MIN);
                false
            }
            // The last reply is on its way: the client closes, or has had its time.
            Stage::Final if is_busy || now < quiet_since + MOMENT_MIN => {
                self.look.set(now + MOMENT_MIN);
                false
            }
            Stage::Final => {
                self.context.close(ErrorCode::NO_ERROR);
                true
            }
        }
    }
}

/// Minimum life of a connection without streams: the first request needs time to arrive.
const KEEP_ALIVE_MIN: Duration = Duration::from_secs(1);

/// Most time between the first GOAWAY and the last.
const LEAVE_TIME: Duration = Duration::from_secs(2);

/// Least time between the steps of an end.
const MOMENT_MIN: Duration = Duration::from_millis(200);

/// Time in which QUIC's task tells the client of the end. The runtime may end with this task.
const LAST_WORD_TIME: Duration = Duration::from_millis(5);

/// Number of a stream in the first GOAWAY: the largest that a client can open.
const STREAM_MAX: u64 = (1 << 62) - 4;

/// Streams taken before other tasks of the thread get their turn.
const TURNS_MAX: u32 = 64;

const _: () = assert!(STREAM_MAX.is_multiple_of(4) && MOMENT_MIN.as_nanos() < LEAVE_TIME.as_nanos());
