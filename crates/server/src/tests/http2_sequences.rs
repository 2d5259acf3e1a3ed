//! HTTP/2 in any order: random requests, bodies, windows, settings and resets, with a client that
//! checks the server.
//!
//! For any order:
//!
//! - the server stays within the windows,
//! - every stream that is not reset ends with all its bytes once the windows allow,
//! - every request leaves its record.
//!
//! Bytes that are not HTTP/2 end the connection and nothing else.

use super::handler::Scripted;
use crate::StreamServer;
use crate::message::Client;
use crate::metrics::Metrics;
use proptest::prelude::*;
use shoal_http2::hpack::encode;
use shoal_http2::{
    END_HEADERS, END_STREAM, ErrorCode, FRAME_HEAD_BYTES, FrameHead, FrameKind, PREFACE, PeerSettings,
    write_reset, write_settings_ack, write_window_update,
};
use shoal_settings::ClientLimits;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// Next step of the client. A stream is an index into the opened streams, modulo their number.
#[derive(Clone, Debug)]
enum Step {
    /// Request without a body, for this number of bytes: on the fast path if `true`, else by a
    /// task.
    Get(bool, usize),
    /// Request with a body to follow, which is counted, echoed or never answered.
    Post(&'static str),
    /// Part of such a body, in pieces of at most a frame, and possibly its end.
    Data(usize, usize, bool),
    Reset(usize),
    /// Window update on a stream, or on the connection.
    Widen(Option<usize>, u32),
    /// Initial window of streams.
    Window(u32),
    Ping,
    /// Time for the server; the client reads if `true`.
    Pause(bool),
    /// Bytes that are most likely not HTTP/2.
    Junk(Vec<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    let stream = 0usize..8;
    prop_oneof![
        4 => (any::<bool>(), prop_oneof![0usize..3000, 0usize..150_000]).prop_map(|(hit, bytes)| Step::Get(hit, bytes)),
        2 => prop_oneof![Just("/count"), Just("/echo"), Just("/never")].prop_map(Step::Post),
        4 => (stream.clone(), 0usize..60_000, any::<bool>()).prop_map(|(at, bytes, end)| Step::Data(at, bytes, end)),
        1 => stream.clone().prop_map(Step::Reset),
        2 => (prop::option::of(stream), 1u32..100_000).prop_map(|(at, more)| Step::Widen(at, more)),
        2 => prop_oneof![0u32..100_000, 0u32..100].prop_map(Step::Window),
        1 => Just(Step::Ping),
        3 => any::<bool>().prop_map(Step::Pause),
    ]
}

/// Stream as the client sees it.
#[derive(Debug, Default)]
struct Seen {
    path: String,
    /// Bytes that the server may send.
    window: i64,
    received: usize,
    ended: bool,
    /// Bytes that the client may send, and bytes sent.
    room: i64,
    sent: usize,
    sent_end: bool,
    reset: bool,
}

struct Asker {
    io: DuplexStream,
    read: Vec<u8>,
    streams: BTreeMap<u32, Seen>,
    window: i64,
    /// Initial window of streams, and the values that the server has not acknowledged yet.
    initial: i64,
    announced: VecDeque<i64>,
    room: i64,
    room_initial: i64,
    pings: usize,
    /// The server has ended the connection.
    sent_away: bool,
    outbox: Vec<u8>,
}

impl Asker {
    fn new(io: DuplexStream) -> Self {
        let window = 65_535;
        Self {
            io,
            read: Vec::new(),
            streams: BTreeMap::new(),
            window,
            initial: window,
            announced: VecDeque::new(),
            room: window,
            room_initial: window,
            pings: 0,
            sent_away: false,
            outbox: Vec::new(),
        }
    }

    async fn take(&mut self, step: Step) {
        let ids: Vec<u32> = self.streams.keys().copied().collect();
        let at = |at: usize| ids.get(at % ids.len().max(1)).copied();
        match step {
            Step::Get(hit, bytes) => {
                self.ask("GET", &format!("/{}/{bytes}", if hit { "hit" } else { "memory" }))
            }
            Step::Post(path) => self.ask("POST", path),
            Step::Data(stream, bytes, end) => {
                if let Some(id) = at(stream) {
                    self.data(id, bytes, end);
                }
            }
            Step::Reset(stream) => {
                if let Some(id) = at(stream) {
                    self.reset(id);
                }
            }
            Step::Widen(stream, more) => match stream.map(at) {
                None => self.widen(0, more),
                Some(Some(id)) => self.widen(id, more),
                Some(None) => {}
            },
            Step::Window(window) => self.set_window(window),
            Step::Ping => {
                self.frame(FrameKind::Ping, 0, 0, b"12345678");
                self.pings += 1;
            }
            Step::Pause(false) => tokio::time::sleep(PAUSE).await,
            Step::Pause(true) => {
                let hearing = async {
                    while !self.sent_away {
                        self.hear().await;
                    }
                };
                // Bytes read before the timeout are kept.
                let _ = tokio::time::timeout(PAUSE, hearing).await;
            }
            Step::Junk(bytes) => self.outbox.extend_from_slice(&bytes),
        }
        self.flush().await;
    }

    fn ask(&mut self, method: &str, path: &str) {
        let mut block = Vec::new();
        for (name, value) in
            [(":method", method), (":scheme", "http"), (":authority", "test"), (":path", path)]
        {
            encode::field(&mut block, name.as_bytes(), value.as_bytes());
        }
        let id = self.streams.last_key_value().map_or(1, |(id, _)| id + 2);
        let sent_end = method == "GET";
        let flags = END_HEADERS | if sent_end { END_STREAM } else { 0 };
        self.frame(FrameKind::Headers, flags, id, &block);
        let (window, room) = (self.initial, self.room_initial);
        self.streams.insert(id, Seen { path: path.into(), window, room, sent_end, ..Seen::default() });
    }

    fn data(&mut self, id: u32, bytes: usize, end: bool) {
        let stream = self.streams.get_mut(&id).expect("opened");
        if stream.sent_end || stream.reset {
            return;
        }
        let bytes = (bytes as i64).min(stream.room).min(self.room).max(0);
        (stream.room, self.room) = (stream.room - bytes, self.room - bytes);
        (stream.sent, stream.sent_end) = (stream.sent + bytes as usize, end);
        let body = vec![b'b'; bytes as usize];
        let pieces: Vec<&[u8]> = if body.is_empty() { vec![&[]] } else { body.chunks(16_384).collect() };
        for (at, piece) in pieces.iter().enumerate() {
            let ends = end && at + 1 == pieces.len();
            self.frame(FrameKind::Data, if ends { END_STREAM } else { 0 }, id, piece);
        }
    }

    fn reset(&mut self, id: u32) {
        if !std::mem::replace(&mut self.streams.get_mut(&id).expect("opened").reset, true) {
            write_reset(&mut self.outbox, id, ErrorCode::CANCEL);
        }
    }

    fn widen(&mut self, id: u32, more: u32) {
        match id {
            0 => self.window += i64::from(more),
            id => self.streams.get_mut(&id).expect("opened").window += i64::from(more),
        }
        write_window_update(&mut self.outbox, id, more);
    }

    fn set_window(&mut self, window: u32) {
        self.announced.push_back(i64::from(window));
        self.frame(FrameKind::Settings, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat());
    }

    fn frame(&mut self, kind: FrameKind, flags: u8, stream: u32, payload: &[u8]) {
        self.outbox.extend_from_slice(&FrameHead::of(kind, flags, stream, payload.len()).to_bytes());
        self.outbox.extend_from_slice(payload);
    }

    /// Writes pending bytes, and reads meanwhile.
    async fn flush(&mut self) {
        while !self.outbox.is_empty() && !self.sent_away {
            let mut bytes = [0; 8192];
            let (mut reader, mut writer) = tokio::io::split(&mut self.io);
            tokio::select! {
                written = writer.write(&self.outbox) => match written {
                    Ok(count @ 1..) => drop(self.outbox.drain(..count)),
                    _ => self.sent_away = true,
                },
                read = reader.read(&mut bytes) => {
                    let count = read.unwrap_or(0);
                    self.sent_away |= count == 0;
                    self.heard(&bytes[..count]);
                }
            }
        }
    }

    async fn hear(&mut self) {
        let mut bytes = [0; 8192];
        let count = self.io.read(&mut bytes).await.unwrap_or(0);
        self.sent_away |= count == 0;
        self.heard(&bytes[..count]);
    }

    fn heard(&mut self, bytes: &[u8]) {
        self.read.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(head) = FrameHead::read(&self.read[at..])
            && self.read.len() >= at + FRAME_HEAD_BYTES + head.length
        {
            let payload = self.read[at + FRAME_HEAD_BYTES..][..head.length].to_vec();
            at += FRAME_HEAD_BYTES + head.length;
            self.took(head, &payload);
        }
        self.read.drain(..at);
    }

    fn took(&mut self, head: FrameHead, payload: &[u8]) {
        let number = || i64::from(u32::from_be_bytes(*payload.first_chunk().expect("four bytes")));
        let id = head.stream;
        match head.kind {
            0 => {
                self.window -= payload.len() as i64;
                let stream = self.streams.get_mut(&id).expect("opened");
                stream.window -= payload.len() as i64;
                assert!(payload.is_empty() || stream.window >= 0, "{stream:?}: too much by its window");
                assert!(self.window >= 0, "too much by the connection's window");
                assert!(!stream.ended, "{stream:?} goes on after its end");
                stream.received += payload.len();
                stream.ended = head.flags & END_STREAM != 0;
            }
            1 => self.streams.get_mut(&id).expect("opened").ended |= head.flags & END_STREAM != 0,
            3 => {
                let stream = self.streams.get_mut(&id).expect("opened");
                assert!(stream.ended && number() == 0 || stream.reset, "{stream:?}: reset for {}", number());
                stream.reset = true;
            }
            4 if head.flags == 1 => {
                // The first acknowledgement is for the settings of the preface.
                let initial = self.announced.pop_front().expect("announced");
                let more = initial - std::mem::replace(&mut self.initial, initial);
                self.streams.values_mut().for_each(|stream| stream.window += more);
            }
            4 => {
                let initial = PeerSettings::read(payload).expect("sound").initial_window;
                let more = i64::from(initial.expect("said")) - self.room_initial;
                self.room_initial += more;
                self.streams.values_mut().for_each(|stream| stream.room += more);
                write_settings_ack(&mut self.outbox);
            }
            6 => self.pings -= 1,
            7 => self.sent_away = true,
            8 if id == 0 => self.room += number(),
            8 => self.streams.get_mut(&id).expect("opened").room += number(),
            kind => panic!("a frame of type {kind}"),
        }
    }

    /// Lets all streams end, and waits for it.
    async fn finish(&mut self) {
        let ids: Vec<u32> = self.streams.keys().copied().collect();
        for id in ids {
            self.widen(id, 1 << 24);
            self.data(id, 0, true);
            if self.streams[&id].path == "/never" {
                self.reset(id);
            }
        }
        let is_open = |stream: &Seen| !stream.ended && !stream.reset;
        self.flush().await;
        // Only the connection's window holds the streams back now.
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.widen(0, 1 << 28);
        self.flush().await;
        while !self.sent_away && (self.pings > 0 || self.streams.values().any(is_open)) {
            self.hear().await;
            self.flush().await;
        }
        assert!(!self.sent_away, "the connection ends");
        for stream in self.streams.values().filter(|stream| stream.ended) {
            let asked = stream.path.rsplit('/').next().and_then(|bytes| bytes.parse().ok());
            let expected = match &*stream.path {
                "/echo" => stream.sent,
                "/count" => stream.received.max(2),
                _ => asked.expect("a number"),
            };
            assert_eq!(stream.received, expected, "{stream:?}");
        }
    }
}

/// Time for the other side to act.
const PAUSE: Duration = Duration::from_micros(300);

/// Runs a client through `steps`, which ends in order unless the server ends the connection.
fn check(steps: Vec<Step>, in_order: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (near, far) = tokio::io::duplex(20_000);
        let (handler, metrics) = (Arc::new(Scripted::default()), Arc::new(Metrics::default()));
        let server = StreamServer::new(Arc::clone(&handler), metrics, &ClientLimits::default());
        let address = ([127, 0, 0, 1], 1).into();
        let client = Client {
            address,
            local: address,
            listener: 0,
            tls: false,
            server_name: None,
            certificate: None,
            intercepted: None,
        };
        let serving = tokio::spawn(async move { server.serve_http2(far, client).await });
        let asking = async {
            let mut asker = Asker::new(near);
            asker.outbox.extend_from_slice(PREFACE);
            asker.set_window(65_535);
            for step in steps {
                asker.take(step).await;
            }
            if in_order {
                asker.finish().await;
            }
        };
        let limit = Duration::from_secs(20);
        tokio::time::timeout(limit, asking).await.expect("the client is served");
        tokio::time::timeout(limit, serving).await.expect("the connection ends").expect("no panic");
        let settled = || handler.records.lock().len() + handler.dropped.load(Ordering::SeqCst);
        super::until("all records", || settled() == handler.begun.load(Ordering::SeqCst)).await;
    });
}

/// Queued bytes wait after the client has reduced the window.
#[test]
fn shrunk_window_holds_queued_bytes() {
    let mut steps = vec![Step::Window(100_000)];
    steps.extend([Step::Widen(None, 1 << 20), Step::Pause(true)]);
    steps.extend((0..5).map(|_| Step::Get(false, 95_000)));
    steps.extend([
        Step::Pause(false),
        Step::Window(0),
        Step::Pause(true),
        Step::Pause(true),
        Step::Pause(true),
    ]);
    check(steps, true);
}

/// The server reads a client that takes a long reply slowly.
#[tokio::test]
async fn long_reply_leaves_room_and_is_cut_at_once() {
    let (near, far) = tokio::io::duplex(20_000);
    let server = StreamServer::new(Arc::<Scripted>::default(), Arc::default(), &ClientLimits::default());
    let address = ([127, 0, 0, 1], 1).into();
    let client = Client {
        address,
        local: address,
        listener: 0,
        tls: false,
        server_name: None,
        certificate: None,
        intercepted: None,
    };
    let serving = tokio::spawn(async move { server.serve_http2(far, client).await });
    let mut asker = Asker::new(near);
    asker.outbox.extend_from_slice(PREFACE);
    asker.set_window(1 << 28);
    asker.widen(0, 1 << 28);
    asker.ask("GET", "/memory/50000000");
    asker.flush().await;
    while asker.streams[&1].received < 500_000 {
        asker.hear().await;
    }
    asker.ask("GET", "/hit/1000");
    asker.ask("GET", "/memory/1000");
    asker.flush().await;
    while !(asker.streams[&3].ended && asker.streams[&5].ended) {
        asker.hear().await;
    }
    let before = asker.streams[&1].received;
    assert!(before < 1_000_000, "the others waited for {before} bytes");
    asker.reset(1);
    asker.frame(FrameKind::Ping, 0, 0, b"12345678");
    asker.pings = 1;
    asker.flush().await;
    while asker.pings > 0 {
        asker.hear().await;
    }
    let more = asker.streams[&1].received - before;
    assert!(more < 300_000, "{more} bytes came after the reset");
    drop(asker);
    serving.await.expect("no panic");
}

/// A connection that takes all bytes does not keep the thread to itself.
#[tokio::test]
async fn many_replies_at_once_leave_others_their_turns() {
    let (near, far) = tokio::io::duplex(64 << 20);
    let handler = Arc::<Scripted>::default();
    let server = StreamServer::new(Arc::clone(&handler), Arc::default(), &ClientLimits::default());
    let address = ([127, 0, 0, 1], 1).into();
    let client = Client {
        address,
        local: address,
        listener: 0,
        tls: false,
        server_name: None,
        certificate: None,
        intercepted: None,
    };
    let mut asker = Asker::new(near);
    asker.outbox.extend_from_slice(PREFACE);
    asker.set_window(1 << 28);
    asker.widen(0, 1 << 28);
    (0..100).for_each(|_| asker.ask("GET", "/hit/100000"));
    asker.flush().await;
    let serving = tokio::spawn(async move { server.serve_http2(far, client).await });
    // A task that is always ready, as that of a busy connection.
    let mut turns = 0;
    let other = tokio::spawn(poll_fn(move |context| {
        if handler.begun.load(Ordering::SeqCst) == 100 {
            return Poll::Ready(turns);
        }
        turns += 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }));
    let turns = other.await.expect("no panic");
    assert!((8..50).contains(&turns), "{turns} turns for ten megabytes");
    drop(asker);
    serving.await.expect("no panic");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_order_windows_hold_and_streams_end(steps in prop::collection::vec(step(), 0..60)) {
        check(steps, true);
    }

    #[test]
    fn invalid_bytes_end_only_the_connection(
        mut steps in prop::collection::vec(step(), 0..20),
        junk in prop::collection::vec(any::<u8>(), 1..200),
    ) {
        steps.push(Step::Junk(junk));
        check(steps, false);
    }
}
