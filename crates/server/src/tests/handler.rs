//! Handler that replies by the request's path, and records events.

use crate::message::{
    AccessRecord, BodyError, Client, FastPathOutcome, Handler, HitFields, RamHit, Reply, ReplyBody,
    ReplyForm, ReplyHead, Request, SendProgress, StoredHead, StreamBody,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use shoal_memory::MemoryBody;
use shoal_wire::FastPathRequest;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Replies by path:
///
/// - `/hit/N` N bytes, to plain requests on the fast path; `/hit/panic` a panic; `/hit/slow` half a
///   second's work; `/memory/N` N bytes from memory; `/stored` N bytes with a stored head;
///   `/empty`, `/204`, `/304`
/// - `/frames/a,b,c` a stream of these frames of unknown length; `/long/a,b` announces one byte
///   more than it gives
/// - `/fails/a,b` a stream that fails after these frames; `/resets/8` a stream that its origin has
///   reset with this code; `/trailers` a stream with trailers
/// - `/gated` a stream with a second frame that waits for [`Scripted::gate`]; `/waits` a reply that
///   waits for the gate
/// - `/client` the client's address; `/hints` two interim responses first; `/count` length and
///   trailers of the body
/// - `/first` replies after the body's first frame; `/echo` streams the body back; `/eager` also
///   asks for the body before it replies; `/never` never replies
/// - `/tunnel` and CONNECT become a tunnel to an echo that answers in capitals
#[derive(Default)]
pub struct Scripted {
    /// Records given back.
    pub records: Mutex<Vec<AccessRecord>>,
    /// Number of requests dropped before a reply.
    pub dropped: AtomicUsize,
    /// Number of reply bodies dropped before their end.
    pub bodies_dropped: Arc<AtomicUsize>,
    /// Number of requests begun.
    pub begun: AtomicUsize,
    /// Lets `/gated` and `/waits` continue.
    pub gate: Arc<Notify>,
}

impl Handler for Scripted {
    async fn handle(&self, request: Request) -> Reply {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let mut unfinished = CountOnDrop(&self.dropped, true);
        let mut reply = self.reply(request).await;
        unfinished.1 = false;
        if let ReplyHead::Built(_, fields) = &mut reply.head {
            fields.insert("x-handler", HeaderValue::from_static("scripted"));
        }
        reply
    }

    fn try_fast_path(
        &self,
        plain: &FastPathRequest<'_>,
        _: &Client,
        _: Instant,
        reply: impl FnOnce(&RamHit<'_>) -> SendProgress,
    ) -> FastPathOutcome {
        assert!(plain.path_text() != "/hit/panic", "as asked");
        if plain.path_text() == "/hit/slow" {
            std::thread::sleep(Duration::from_millis(500));
        }
        let Some(bytes) = plain.path_text().strip_prefix("/hit/").and_then(|bytes| bytes.parse().ok()) else {
            return FastPathOutcome::NotTaken;
        };
        self.begun.fetch_add(1, Ordering::SeqCst);
        let own = HitFields::new(b"shoal; hit; ttl=", &HeaderValue::from_static("shoal"));
        let stored = StoredHead::new(StatusCode::OK, &HeaderMap::new());
        let body = MemoryBody::from(Bytes::from(vec![b'h'; bytes]));
        let hit = RamHit::new((&stored, &body), ReplyForm::Whole, (17, 43), (&own, &body));
        let record = Box::new(AccessRecord { url: plain.path_text().into(), ..AccessRecord::default() });
        match reply(&hit) {
            SendProgress::Whole { .. } => {
                self.record_sent(record);
                FastPathOutcome::Sent
            }
            SendProgress::Partly => FastPathOutcome::Sending(Some(record)),
        }
    }

    fn record_sent(&self, record: Box<AccessRecord>) {
        self.records.lock().push(*record);
    }

    fn error_reply(&self, status: StatusCode, reason: &'static str, client: &Client) -> Reply {
        let record =
            AccessRecord { client: Some(client.address), url: reason.into(), ..AccessRecord::default() };
        let body = ReplyBody::Memory(Bytes::from_static(reason.as_bytes()));
        Reply { head: ReplyHead::Built(status, HeaderMap::new()), body, record: Box::new(record) }
    }
}

impl Scripted {
    async fn reply(&self, mut request: Request) -> Reply {
        let path = request.head.uri.path().to_owned();
        if request.head.method == Method::CONNECT && request.head.uri.host() == Some("refused.test") {
            return reply(&path, StatusCode::FORBIDDEN, text("refused"));
        }
        if request.head.method == Method::CONNECT {
            return reply(&path, StatusCode::OK, capitals());
        }
        let (verb, argument) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
        let body = match verb {
            "memory" => filled(b'm', argument),
            "hit" if argument == "slow" => ReplyBody::Empty,
            "hit" => filled(b'h', argument),
            "stored" => return stored(),
            "empty" => ReplyBody::Empty,
            "204" => return reply(&path, StatusCode::NO_CONTENT, ReplyBody::Empty),
            "304" => return reply(&path, StatusCode::NOT_MODIFIED, filled(b'm', "5")),
            "ended" => ReplyBody::Stream {
                frames: http_body_util::Empty::new().map_err(|never| match never {}).boxed_unsync(),
                length: None,
            },
            "frames" => self.stream(frames(argument), None),
            "long" => self.stream(frames(argument), Some(frames(argument).len() as u64 + 1)),
            "short" => self.stream(frames(argument), Some(1)),
            "fails" => {
                let mut frames = frames(argument);
                frames.push_back(Err(BodyError::Cut("as asked".into())));
                self.stream(frames, None)
            }
            "resets" => {
                let code = argument.parse().expect("a code");
                self.stream([Err(BodyError::Reset(code))].into(), None)
            }
            "trailers" => {
                let mut frames = frames("a");
                frames.push_back(Ok(Frame::trailers(HeaderMap::from_iter([(
                    "x-sum".parse().expect("a name"),
                    HeaderValue::from_static("7"),
                )]))));
                self.stream(frames, None)
            }
            "gated" => self.gated(),
            "waits" => {
                self.gate.notified().await;
                text("waited")
            }
            "client" => text(&format!("{:?}", request.client)),
            "fields" => text(&format!("{:?}", request.head.fields.to_map())),
            "target" => text(&format!("{} {:?}", request.head.uri, request.head.version)),
            "hints" => hints(&request),
            "count" => count(request.body.take()).await,
            "first" => first(request.body.take()).await,
            "echo" => match request.body.take() {
                Some(frames) => ReplyBody::Stream { frames, length: None },
                None => ReplyBody::Empty,
            },
            "eager" => eager(request.body.take()).await,
            "ignore" => text("ignored"),
            "never" => std::future::pending().await,
            "tunnel" => {
                let mut switched = reply(&path, StatusCode::SWITCHING_PROTOCOLS, capitals());
                if let ReplyHead::Built(_, fields) = &mut switched.head {
                    fields.insert(http::header::UPGRADE, HeaderValue::from_static("capitals"));
                }
                return switched;
            }
            _ => return reply(&path, StatusCode::NOT_FOUND, text("no such path")),
        };
        reply(&path, StatusCode::OK, body)
    }

    /// Returns a body of these frames.
    pub fn stream(&self, frames: Frames, length: Option<u64>) -> ReplyBody {
        let dropped = Arc::clone(&self.bodies_dropped);
        ReplyBody::Stream { frames: StreamBody::new(ListBody { frames, dropped }), length }
    }

    fn gated(&self) -> ReplyBody {
        let gate = Arc::clone(&self.gate);
        let dropped = Arc::clone(&self.bodies_dropped);
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            let _ = sender.send(Ok(Frame::data(Bytes::from_static(b"before,")))).await;
            tokio::select! {
                () = gate.notified() => {
                    let _ = sender.send(Ok(Frame::data(Bytes::from_static(b"after")))).await;
                }
                () = sender.closed() => { dropped.fetch_add(1, Ordering::SeqCst); }
            }
        });
        ReplyBody::Stream { frames: StreamBody::new(ChannelBody(receiver)), length: None }
    }
}

pub type Frames = VecDeque<Result<Frame<Bytes>, BodyError>>;

/// Body that returns its frames in order.
struct ListBody {
    frames: Frames,
    dropped: Arc<AtomicUsize>,
}

impl http_body::Body for ListBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Poll::Ready(self.frames.pop_front())
    }
}

impl Drop for ListBody {
    fn drop(&mut self) {
        if !self.frames.is_empty() {
            self.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Body that returns the frames of a channel.
struct ChannelBody(tokio::sync::mpsc::Receiver<Result<Frame<Bytes>, BodyError>>);

impl http_body::Body for ChannelBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.0.poll_recv(context)
    }
}

struct CountOnDrop<'a>(&'a AtomicUsize, bool);

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        if self.1 {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn reply(path: &str, status: StatusCode, body: ReplyBody) -> Reply {
    let record = AccessRecord { url: path.into(), status: status.as_u16(), ..AccessRecord::default() };
    Reply { head: ReplyHead::Built(status, HeaderMap::new()), body, record: Box::new(record) }
}

fn stored() -> Reply {
    let fields = [
        (http::header::DATE, HeaderValue::from_static("then")),
        (http::header::ETAG, HeaderValue::from_static("\"x\"")),
    ];
    let stored = StoredHead::new(StatusCode::OK, &HeaderMap::from_iter(fields));
    Reply {
        head: ReplyHead::Stored {
            peer_answer: None,
            stored: Arc::new(stored),
            form: ReplyForm::Whole,
            age_seconds: 17,
            cache_status: Bytes::from_static(b"shoal; hit"),
            proxy_status: HeaderValue::from_static("shoal"),
            varies: false,
        },
        body: filled(b'm', "10"),
        record: Box::default(),
    }
}

fn filled(letter: u8, bytes: &str) -> ReplyBody {
    ReplyBody::Memory(Bytes::from(vec![letter; bytes.parse().expect("a number")]))
}

fn text(text: &str) -> ReplyBody {
    ReplyBody::Memory(Bytes::copy_from_slice(text.as_bytes()))
}

fn frames(list: &str) -> Frames {
    let data = |text: &str| Ok(Frame::data(Bytes::copy_from_slice(text.as_bytes())));
    list.split(',').filter(|text| !text.is_empty()).map(data).collect()
}

fn hints(request: &Request) -> ReplyBody {
    let Some(sink) = &request.interim else { return text("no interim") };
    for link in ["</a.css>", "</b.css>"] {
        let fields = HeaderMap::from_iter([(http::header::LINK, HeaderValue::from_static(link))]);
        let _ = sink.try_send((StatusCode::EARLY_HINTS, fields));
    }
    text("final")
}

async fn count(body: Option<StreamBody>) -> ReplyBody {
    let Some(body) = body else { return text("none") };
    match body.collect().await {
        Ok(collected) => {
            let trailers = collected.trailers().map(|map| format!("{map:?}")).unwrap_or_default();
            text(&format!("{} {trailers}", collected.to_bytes().len()))
        }
        Err(error) => text(&format!("failed: {error}")),
    }
}

async fn first(body: Option<StreamBody>) -> ReplyBody {
    let mut body = body.expect("a body");
    let frame = body.frame().await.expect("a frame").expect("no failure");
    // Hold the body for a while, so that the rest is neither wanted nor refused at once.
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(body);
    });
    text(&format!("first {}", frame.into_data().expect("data").len()))
}

async fn eager(body: Option<StreamBody>) -> ReplyBody {
    let mut frames = body.expect("a body");
    let first = std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut frames).poll_frame(context))).await;
    assert!(first.is_pending(), "the client waits for its word");
    ReplyBody::Stream { frames, length: None }
}

/// Returns the near end of a tunnel to an echo in capitals.
fn capitals() -> ReplyBody {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (near, mut far) = tokio::io::duplex(256);
    tokio::spawn(async move {
        let mut bytes = [0; 64];
        while let Ok(count @ 1..) = far.read(&mut bytes).await {
            bytes[..count].make_ascii_uppercase();
            if far.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    });
    ReplyBody::Tunnel(Box::new(near))
}
