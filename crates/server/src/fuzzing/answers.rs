//! Answers a scripted client by request path, and counts the outcomes.

use super::TURNS_MAX;
use crate::message::{
    AccessRecord, BodyError, Client, FastPathOutcome, Handler, HitFields, RamHit, Reply, ReplyBody,
    ReplyForm, ReplyHead, Request, RequestBody, SendProgress, StoredHead, StreamBody,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body::Frame;
use http_body_util::BodyExt;
use shoal_core::Fields;
use shoal_memory::MemoryBody;
use shoal_wire::FastPathRequest;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

/// Handler of scripted requests. See [`reply`](Self::reply) for the paths.
#[derive(Debug, Default)]
pub(super) struct Answers {
    begun: AtomicUsize,
    /// Number of records given back.
    sent: AtomicUsize,
    /// Number of requests dropped before a reply.
    dropped: AtomicUsize,
    /// Lets one waiting request continue.
    pub gate: Notify,
}

impl Handler for Answers {
    async fn handle(&self, request: Request) -> Reply {
        self.begun.fetch_add(1, Relaxed);
        let mut given_up = GivenUp(&self.dropped, true);
        let reply = self.reply(request).await;
        given_up.1 = false;
        reply
    }

    /// Answers `/hit/N`.
    fn try_fast_path(
        &self,
        plain: &FastPathRequest<'_>,
        _: &Client,
        _: Instant,
        reply: impl FnOnce(&RamHit<'_>) -> SendProgress,
    ) -> FastPathOutcome {
        let Some(body) = plain.path_text().strip_prefix("/hit/").map(body) else {
            return FastPathOutcome::NotTaken;
        };
        self.begun.fetch_add(1, Relaxed);
        let own = HitFields::new(b"shoal; hit; ttl=", &HeaderValue::from_static("shoal"));
        let stored = StoredHead::new(StatusCode::OK, &HeaderMap::new());
        let body = MemoryBody::from(body);
        let hit = RamHit::new((&stored, &body), ReplyForm::Whole, (17, 43), (&own, &body));
        match reply(&hit) {
            SendProgress::Whole { .. } => {
                self.sent.fetch_add(1, Relaxed);
                FastPathOutcome::Sent
            }
            SendProgress::Partly => FastPathOutcome::Sending(Some(Box::default())),
        }
    }

    fn record_sent(&self, _: Box<AccessRecord>) {
        self.sent.fetch_add(1, Relaxed);
    }

    fn error_reply(&self, status: StatusCode, reason: &'static str, _: &Client) -> Reply {
        self.begun.fetch_add(1, Relaxed);
        reply(status, ReplyBody::Memory(reason.into()))
    }
}

impl Answers {
    /// Returns `true` if every request has returned its record or was dropped.
    pub fn are_settled(&self) -> bool {
        self.begun.load(Relaxed) == self.sent.load(Relaxed) + self.dropped.load(Relaxed)
    }

    /// Replies by path:
    ///
    /// - `/hit/N`, `/memory/N`, `/stored/N`: N bytes; `/empty`: none; `/304`: none, with a declared
    ///   length
    /// - `/frames`, `/long`, `/fails`, `/trailers`: a body in frames; one shorter than declared;
    ///   one that fails; one with trailers
    /// - `/hints`: two interim responses first, each after some turns; `/gated`: after
    ///   [`gate`](Self::gate) or many turns; `/never`: later than any client waits. A client that
    ///   pipelines many requests is not read meanwhile, and cannot release a gate.
    /// - `/count`: number of bytes received; `/echo`: the bytes received; `/first`: some turns
    ///   after the first bytes, for which the handler asks explicitly; CONNECT: an echo in a tunnel
    async fn reply(&self, mut request: Request) -> Reply {
        if request.head.method == Method::CONNECT {
            return reply(StatusCode::OK, echo());
        }
        let path = request.head.uri.path().to_owned();
        let path = path.trim_start_matches('/');
        let (verb, argument) = path.split_once('/').unwrap_or((path, ""));
        let body = match verb {
            "hit" | "memory" => ReplyBody::Memory(body(argument)),
            "empty" => ReplyBody::Empty,
            "304" => return reply(StatusCode::NOT_MODIFIED, ReplyBody::Memory(body("500"))),
            "frames" => frames([Ok(data(10)), Ok(data(0)), Ok(data(70_000))], None),
            "long" => frames([Ok(data(10))], Some(11)),
            "fails" => frames([Ok(data(10)), Err(BodyError::Timeout)], None),
            "trailers" => frames([Ok(data(10)), Ok(Frame::trailers(fields("x-sum")))], None),
            "stored" => return stored(body(argument)),
            "hints" => {
                for _ in 0..2 {
                    turns(WAIT_TURNS).await;
                    say(&request, StatusCode::EARLY_HINTS);
                    // An interim response must not switch protocols.
                    say(&request, StatusCode::SWITCHING_PROTOCOLS);
                }
                ReplyBody::Memory(body("5"))
            }
            "gated" => {
                tokio::select! {
                    () = self.gate.notified() => {}
                    () = turns(GATED_TURNS) => {}
                }
                frames([Ok(data(1000))], Some(1000))
            }
            "never" => {
                turns(NEVER_TURNS).await;
                ReplyBody::Empty
            }
            "count" => count(request.body.take()).await,
            "echo" => match request.body.take() {
                Some(frames) => ReplyBody::Stream { frames, length: None },
                None => ReplyBody::Empty,
            },
            "first" => {
                if request.body.is_some() && request.head.fields.value(&header::EXPECT).is_some() {
                    say(&request, StatusCode::CONTINUE);
                }
                if let Some(mut body) = request.body.take() {
                    let _ = body.frame().await;
                }
                turns(WAIT_TURNS).await;
                ReplyBody::Memory(body("5"))
            }
            _ => return reply(StatusCode::NOT_FOUND, ReplyBody::Empty),
        };
        reply(StatusCode::OK, body)
    }
}

/// Sends an interim response, if there is room.
fn say(request: &Request, status: StatusCode) {
    if let Some(sink) = &request.interim {
        let _ = sink.try_send((status, fields("link")));
    }
}

/// Counts a request that is dropped before its reply.
struct GivenUp<'a>(&'a AtomicUsize, bool);

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        if self.1 {
            self.0.fetch_add(1, Relaxed);
        }
    }
}

/// Body in frames.
struct Frames(VecDeque<Result<Frame<Bytes>, BodyError>>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Poll::Ready(self.0.pop_front())
    }
}

fn reply(status: StatusCode, body: ReplyBody) -> Reply {
    Reply { head: ReplyHead::Built(status, HeaderMap::new()), body, record: Box::default() }
}

fn stored(body: Bytes) -> Reply {
    let head = ReplyHead::Stored {
        peer_answer: None,
        stored: Arc::new(StoredHead::new(StatusCode::OK, &HeaderMap::new())),
        form: ReplyForm::Whole,
        age_seconds: 17,
        cache_status: Bytes::from_static(b"shoal; hit"),
        proxy_status: HeaderValue::from_static("shoal"),
        varies: false,
    };
    Reply { head, body: ReplyBody::Memory(body), record: Box::default() }
}

fn frames<const N: usize>(all: [Result<Frame<Bytes>, BodyError>; N], length: Option<u64>) -> ReplyBody {
    ReplyBody::Stream { frames: StreamBody::new(Frames(all.into())), length }
}

fn data(bytes: usize) -> Frame<Bytes> {
    Frame::data(Bytes::from_static(&BODY[..bytes]))
}

/// Returns a body of `bytes` bytes, if that is a number.
fn body(bytes: &str) -> Bytes {
    let bytes = bytes.parse().unwrap_or(0);
    Bytes::from_static(&BODY[..bytes.min(BODY_MAX)])
}

fn fields(name: &'static str) -> HeaderMap {
    let mut fields = HeaderMap::new();
    fields.insert(name, HeaderValue::from_static("7"));
    fields
}

async fn count(body: RequestBody) -> ReplyBody {
    let bytes = match body {
        Some(body) => body.collect().await.map(|body| body.to_bytes().len()).unwrap_or(1),
        None => 0,
    };
    ReplyBody::Memory(Bytes::from_static(&BODY[..bytes.min(BODY_MAX)]))
}

/// Yields `count` turns to every task.
async fn turns(count: u32) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

/// Returns a tunnel to an echo.
fn echo() -> ReplyBody {
    let (near, mut far) = tokio::io::duplex(256);
    tokio::spawn(async move {
        let mut bytes = [0; 64];
        while let Ok(count @ 1..) = far.read(&mut bytes).await {
            if far.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    });
    ReplyBody::Tunnel(Box::new(near))
}

/// Turns before a delayed reply.
const WAIT_TURNS: u32 = 3;
/// Turns after which a gated reply comes without a release, and turns before a `/never` reply.
const GATED_TURNS: u32 = 300;
const NEVER_TURNS: u32 = 2 * TURNS_MAX;

/// Common prefix source of all bodies, as long as the longest.
pub(super) static BODY: LazyLock<Vec<u8>> = LazyLock::new(|| (0..BODY_MAX as u64).map(body_byte).collect());

pub(super) const BODY_MAX: usize = 300_000;

/// Returns the byte of a body at `place`. A shifted or exchanged body has other bytes.
pub fn body_byte(place: u64) -> u8 {
    // Half of the mixing of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
    // Generators", OOPSLA 2014).
    let mixed = (place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56) as u8
}
