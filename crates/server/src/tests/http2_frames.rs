//! HTTP/2 frame by frame: clients that break the rules, and the limits of flow control.

use super::{Server, until};
use shoal_http2::hpack::{Decoder, FieldList, encode};
use shoal_http2::{self as http2, *};
use shoal_settings::Settings;
use std::{sync::atomic::Ordering, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Connection that sends the test's bytes.
pub(super) struct Raw {
    pub(super) stream: TcpStream,
    read: Vec<u8>,
    decoder: Decoder,
}

/// Frame from the server.
#[derive(Debug)]
pub(super) struct Came {
    pub(super) head: FrameHead,
    pub(super) payload: Vec<u8>,
}

impl Came {
    pub(super) fn is(&self, kind: FrameKind) -> bool {
        self.head.kind == kind as u8
    }

    fn ends(&self) -> bool {
        (self.is(FrameKind::Data) || self.is(FrameKind::Headers)) && self.head.flags & END_STREAM != 0
    }

    /// Returns the error code of RST_STREAM or GOAWAY.
    pub(super) fn code(&self) -> ErrorCode {
        let code = self.payload.last_chunk().expect("four bytes");
        ErrorCode(u32::from_be_bytes(*code))
    }
}

impl Raw {
    /// Opens a connection with its preface and these settings, by number.
    pub(super) async fn open(server: &Server, settings: &[(u16, u32)]) -> Self {
        let mut raw = Self::silent(server).await;
        let mut payload = Vec::new();
        for (id, value) in settings {
            payload.extend_from_slice(&id.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        raw.send(&[PREFACE, &frame(FrameKind::Settings, 0, 0, &payload)].concat()).await;
        raw
    }

    pub(super) async fn silent(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address()).await.expect("the server listens");
        Self { stream, read: Vec::new(), decoder: Decoder::default() }
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) {
        // The server may have closed the connection; the next read shows that.
        let _ = self.stream.write_all(bytes).await;
    }

    /// Returns the next frame; `None` at the connection's end.
    pub(super) async fn next(&mut self) -> Option<Came> {
        loop {
            if let Some(head) = FrameHead::read(&self.read)
                && let Some(payload) = self.read.get(FRAME_HEAD_BYTES..FRAME_HEAD_BYTES + head.length)
            {
                let payload = payload.to_vec();
                self.read.drain(..FRAME_HEAD_BYTES + head.length);
                return Some(Came { head, payload });
            }
            let read = tokio::time::timeout(Duration::from_secs(10), self.stream.read_buf(&mut self.read));
            if !read.await.expect("something comes").is_ok_and(|bytes| bytes > 0) {
                return None;
            }
        }
    }

    /// Returns the next frame of one type.
    pub(super) async fn next_of(&mut self, kind: FrameKind) -> Came {
        loop {
            let came = self.next().await.unwrap_or_else(|| panic!("the connection ends before {kind:?}"));
            if came.is(kind) {
                return came;
            }
        }
    }

    /// Returns `true` if only SETTINGS and WINDOW_UPDATE arrive for 100 ms.
    async fn is_quiet(&mut self) -> bool {
        let wait = Duration::from_millis(100);
        while let Ok(came) = tokio::time::timeout(wait, self.next()).await {
            if !came.is_some_and(|came| came.is(FrameKind::Settings) || came.is(FrameKind::WindowUpdate)) {
                return false;
            }
        }
        true
    }

    /// Returns the stream and status of the next response.
    pub(super) async fn status(&mut self) -> (u32, String) {
        let came = self.next_of(FrameKind::Headers).await;
        let mut list = FieldList::default();
        self.decoder.decode(&came.payload, &mut list, 1 << 16).expect("a block");
        let (name, value) = list.iter().next().expect("a status");
        assert_eq!(name, b":status");
        (came.head.stream, String::from_utf8_lossy(value).into_owned())
    }

    /// Returns the number of body bytes until a stream ends.
    pub(super) async fn body(&mut self) -> usize {
        let mut bytes = 0;
        loop {
            let came = self.next_of(FrameKind::Data).await;
            bytes += came.payload.len();
            if came.ends() {
                return bytes;
            }
        }
    }

    /// Expects the connection to end with this error.
    pub(super) async fn given_up(mut self, code: ErrorCode, why: &str) {
        let came = self.next_of(FrameKind::GoAway).await;
        assert_eq!(came.code(), code, "{why}");
        assert!(self.next().await.is_none(), "{why}: the connection stays");
    }
}

pub(crate) fn frame(kind: FrameKind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    [&FrameHead::of(kind, flags, stream, payload.len()).to_bytes()[..], payload].concat()
}

pub(super) fn block(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    let head = [(":method", method), (":scheme", "http"), (":authority", "test"), (":path", path)];
    for (name, value) in head.iter().chain(more) {
        encode::field(&mut block, name.as_bytes(), value.as_bytes());
    }
    block
}

pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(FrameKind::Headers, END_HEADERS | END_STREAM, stream, &block("GET", path, &[]))
}

pub(crate) fn post(stream: u32, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    frame(FrameKind::Headers, END_HEADERS, stream, &block("POST", path, more))
}

pub(super) fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    let mut out = Vec::new();
    http2::write_window_update(&mut out, stream, increment);
    out
}

#[tokio::test]
async fn connection_starts_with_the_servers_settings() {
    let server = Server::with(|settings| settings.client.h2_streams = 7);
    let mut raw = Raw::open(&server, &[]).await;
    let settings = raw.next().await.expect("SETTINGS");
    assert!(settings.is(FrameKind::Settings) && settings.head.flags == 0);
    assert!(settings.payload.chunks(6).any(|setting| setting == [0, 3, 0, 0, 0, 7]), "{settings:?}");
    let ack = raw.next_of(FrameKind::Settings).await;
    assert_eq!((ack.head.flags, ack.payload.len()), (1, 0));
    raw.send(&frame(FrameKind::Ping, 0, 0, b"12345678")).await;
    let pong = raw.next_of(FrameKind::Ping).await;
    assert_eq!((pong.head.flags, pong.payload.as_slice()), (1, &b"12345678"[..]));
}

#[tokio::test]
async fn faults_of_a_connection_end_it() {
    let server = Server::start();
    let large = frame(FrameKind::Data, 0, 1, &[0; 16_385]);
    let begun = frame(FrameKind::Headers, 0, 1, &block("GET", "/memory/1", &[]));
    let other = [&begun[..], &frame(FrameKind::Ping, 0, 0, b"12345678")].concat();
    let stranger = [&begun[..], &frame(FrameKind::Continuation, END_HEADERS, 3, b"")].concat();
    let overflow = window_update(0, 0x7fff_ffff);
    for (why, bytes, code) in [
        ("DATA on no stream", frame(FrameKind::Data, 0, 0, b"x"), ErrorCode::PROTOCOL_ERROR),
        ("DATA on a stream that is not open", frame(FrameKind::Data, 0, 1, b"x"), ErrorCode::PROTOCOL_ERROR),
        (
            "a reset of a stream that is not open",
            frame(FrameKind::Reset, 0, 1, b"\0\0\0\0"),
            ErrorCode::PROTOCOL_ERROR,
        ),
        ("room for a stream that is not open", window_update(9, 1), ErrorCode::PROTOCOL_ERROR),
        ("a frame that is too large", large, ErrorCode::FRAME_SIZE_ERROR),
        ("a ping within a block", other, ErrorCode::PROTOCOL_ERROR),
        ("a block that goes on elsewhere", stranger, ErrorCode::PROTOCOL_ERROR),
        ("more of no block", frame(FrameKind::Continuation, END_HEADERS, 1, b""), ErrorCode::PROTOCOL_ERROR),
        ("an even stream", get(2, "/memory/1"), ErrorCode::PROTOCOL_ERROR),
        (
            "a block that is none",
            frame(FrameKind::Headers, END_HEADERS, 1, b"\x80"),
            ErrorCode::COMPRESSION_ERROR,
        ),
        ("too wide a window", overflow, ErrorCode::FLOW_CONTROL_ERROR),
    ] {
        let mut raw = Raw::open(&server, &[]).await;
        raw.send(&bytes).await;
        raw.given_up(code, why).await;
    }
    let mut raw = Raw::silent(&server).await;
    raw.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x01\x04\0\0\0\0\0x").await;
    raw.given_up(ErrorCode::FRAME_SIZE_ERROR, "settings of an impossible size").await;
    assert_eq!(server.handler.begun.load(Ordering::SeqCst), 0);
    assert_eq!(server.metrics.h2_given_up.value(), 12);
}

#[tokio::test]
async fn faults_of_a_stream_end_that_alone() {
    let server = Server::start();
    let mut raw = Raw::open(&server, &[]).await;
    let upper =
        frame(FrameKind::Headers, END_HEADERS | END_STREAM, 1, &block("GET", "/memory/1", &[("X", "y")]));
    let late = frame(FrameKind::Headers, END_HEADERS, 5, b"");
    let said = frame(
        FrameKind::Headers,
        END_HEADERS | END_STREAM,
        7,
        &block("POST", "/echo", &[("content-length", "3")]),
    );
    for (why, stream, bytes, code) in [
        ("an upper case name", 1, upper, ErrorCode::PROTOCOL_ERROR),
        (
            "a false length",
            3,
            [post(3, "/count", &[("content-length", "2")]), frame(FrameKind::Data, 0, 3, b"abc")].concat(),
            ErrorCode::PROTOCOL_ERROR,
        ),
        ("trailers that do not end", 5, [post(5, "/count", &[]), late].concat(), ErrorCode::PROTOCOL_ERROR),
        ("a length without a body", 7, said, ErrorCode::PROTOCOL_ERROR),
        (
            "too short a body",
            9,
            [post(9, "/count", &[("content-length", "2")]), frame(FrameKind::Data, END_STREAM, 9, b"a")]
                .concat(),
            ErrorCode::PROTOCOL_ERROR,
        ),
        (
            "too wide a window",
            11,
            [post(11, "/count", &[]), window_update(11, 0x7fff_ffff)].concat(),
            ErrorCode::FLOW_CONTROL_ERROR,
        ),
    ] {
        raw.send(&bytes).await;
        let reset = raw.next_of(FrameKind::Reset).await;
        assert_eq!((reset.head.stream, reset.code()), (stream, code), "{why}");
    }
    assert_eq!((server.metrics.refused.value(), server.metrics.h2_given_up.value()), (6, 0));
    // Frames for closed streams are ignored.
    raw.send(
        &[
            frame(FrameKind::Data, END_STREAM, 3, b"abc"),
            window_update(3, 5),
            frame(FrameKind::Headers, END_HEADERS | END_STREAM, 5, b""),
        ]
        .concat(),
    )
    .await;
    raw.send(&get(21, "/memory/5")).await;
    assert_eq!((raw.status().await, raw.body().await), ((21, "200".into()), 5));
}

#[tokio::test]
async fn unknown_frames_and_paddings_change_nothing() {
    let server = Server::start();
    let mut raw = Raw::open(&server, &[]).await;
    let unknown = FrameHead { length: 3, kind: 77, flags: 0xff, stream: 5 }.to_bytes();
    raw.send(&[&unknown[..], b"abc"].concat()).await;
    let padded = [&b"\x03"[..], &[0, 0, 0, 0, 9], &block("POST", "/count", &[]), b"\0\0\0"].concat();
    let (padding, priority) = (0x8, 0x20);
    raw.send(&frame(FrameKind::Headers, END_HEADERS | padding | priority, 1, &padded)).await;
    raw.send(&frame(FrameKind::Data, padding, 1, b"\x02abc\0\0")).await;
    raw.send(&frame(FrameKind::Data, END_STREAM, 1, b"")).await;
    assert_eq!(raw.status().await, (1, "200".into()));
    assert_eq!(raw.next_of(FrameKind::Data).await.payload, b"3 ");
}

#[tokio::test]
async fn body_that_has_ended_ends_the_stream_with_the_head() {
    let server = Server::start();
    let mut raw = Raw::open(&server, &[]).await;
    for (at, path) in ["/ended", "/empty", "/204", "/304"].into_iter().enumerate() {
        raw.send(&get(2 * at as u32 + 1, path)).await;
        let came = raw.next_of(FrameKind::Headers).await;
        assert!(came.ends(), "{path}");
    }
}

#[tokio::test]
async fn a_block_may_come_in_pieces() {
    let server = Server::start();
    let mut raw = Raw::open(&server, &[]).await;
    let block = block("GET", "/memory/3", &[("x", &"y".repeat(3000))]);
    let (last, pieces) = (block.len() / 100, block.chunks(100));
    for (at, piece) in pieces.enumerate() {
        let (kind, flags) =
            if at == 0 { (FrameKind::Headers, END_STREAM) } else { (FrameKind::Continuation, 0) };
        raw.send(&frame(kind, flags | if at == last { END_HEADERS } else { 0 }, 1, piece)).await;
    }
    assert_eq!((raw.status().await, raw.body().await), ((1, "200".into()), 3));
}

#[tokio::test]
async fn heads_have_a_limit() {
    let server = Server::with(|settings| settings.client.head_max = shoal_core::ByteCount(4096));
    let mut raw = Raw::open(&server, &[]).await;
    let large = block("GET", "/memory/1", &[("x", &"y".repeat(5000))]);
    raw.send(&frame(FrameKind::Headers, END_HEADERS | END_STREAM, 1, &large)).await;
    assert_eq!(raw.status().await, (1, "431".into()));
    raw.send(&get(3, "/memory/2")).await;
    assert_eq!(raw.status().await, (3, "200".into()));
    for piece in [&[0; 1000][..], &[]] {
        let mut raw = Raw::open(&server, &[]).await;
        raw.send(&frame(FrameKind::Headers, END_STREAM, 1, &block("GET", "/memory/1", &[]))).await;
        for _ in 0..100 {
            raw.send(&frame(FrameKind::Continuation, 0, 1, piece)).await;
        }
        raw.given_up(ErrorCode::ENHANCE_YOUR_CALM, "a block without end").await;
    }
}

#[tokio::test]
async fn frames_that_ask_for_nothing_are_borne_for_a_while() {
    let server = Server::start();
    for useless in [
        frame(FrameKind::Settings, 0, 0, &[]),
        frame(FrameKind::Ping, 1, 0, b"12345678"),
        window_update(0, 1),
        frame(FrameKind::Data, 0, 1, b""),
    ] {
        let mut raw = Raw::open(&server, &[]).await;
        raw.send(&post(1, "/count", &[])).await;
        let many = useless.repeat(9 * (1 << 20) / useless.len());
        let (mut reader, mut writer) = raw.stream.into_split();
        let writing = tokio::spawn(async move { writer.write_all(&many).await });
        let mut said = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(20), reader.read_to_end(&mut said)).await;
        // The reset of the TCP connection may overtake GOAWAY.
        let goaway = frame(FrameKind::GoAway, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 11]);
        let is_told = said.windows(goaway.len()).any(|window| window == goaway);
        assert!(is_told || read.expect("an end").is_err(), "{useless:?} was borne");
        writing.abort();
    }
}

/// The server stops reading pings of a client that reads no answers, and they take no memory.
#[tokio::test]
async fn client_that_reads_no_answers_is_not_read() {
    let server = Server::start();
    let mut raw = Raw::open(&server, &[]).await;
    let pings = frame(FrameKind::Ping, 0, 0, b"12345678").repeat(1000);
    let mut sent = 0;
    while sent < 64 << 20 {
        match tokio::time::timeout(Duration::from_secs(1), raw.stream.write(&pings)).await {
            Ok(Ok(written)) => sent += written,
            // The write waits for room, or the server has closed the connection.
            Ok(Err(_)) | Err(_) => break,
        }
    }
    assert!(sent < 64 << 20, "{sent} bytes of pings were taken");
}

#[tokio::test]
async fn windows_hold_bodies_back() {
    let server = Server::start();
    let mut raw = Raw::open(&server, &[(4, 10)]).await;
    raw.send(&get(1, "/memory/25")).await;
    assert_eq!(raw.status().await.1, "200");
    assert_eq!(raw.next_of(FrameKind::Data).await.payload.len(), 10);
    assert!(raw.is_quiet().await, "more than the window was sent");
    raw.send(&window_update(1, 5)).await;
    assert_eq!(raw.next_of(FrameKind::Data).await.payload.len(), 5);
    // A smaller window, which makes this stream's window negative.
    raw.send(&frame(FrameKind::Settings, 0, 0, &[0, 4, 0, 0, 0, 1])).await;
    raw.send(&window_update(1, 9)).await;
    assert!(raw.is_quiet().await, "the window is at zero");
    raw.send(&window_update(1, 3)).await;
    assert_eq!(raw.next_of(FrameKind::Data).await.payload.len(), 3);
    raw.send(&frame(FrameKind::Settings, 0, 0, &[0, 4, 0, 0, 1, 0])).await;
    assert_eq!(raw.body().await, 7);
    // The rest of the connection's window of 65,535 remains.
    raw.send(&frame(FrameKind::Settings, 0, 0, &[0, 4, 0, 1, 0, 0])).await;
    for stream in [3, 5] {
        raw.send(&get(stream, "/memory/60000")).await;
    }
    let mut bytes = 0;
    while bytes < 65_535 - 25 {
        bytes += raw.next_of(FrameKind::Data).await.payload.len();
    }
    assert_eq!(bytes, 65_535 - 25);
    assert!(raw.is_quiet().await, "more than the window was sent");
    raw.send(&window_update(0, 100_000)).await;
    while bytes < 120_000 {
        bytes += raw.next_of(FrameKind::Data).await.payload.len();
    }
    assert_eq!(bytes, 120_000);
}

#[tokio::test]
async fn frames_are_as_large_as_the_client_takes_them() {
    let server = Server::start();
    for (allowed, largest) in [(16_384, 16_384), (40_000, 40_000), (1 << 20, 65_536)] {
        let mut raw = Raw::open(&server, &[(4, 1 << 20), (5, allowed)]).await;
        raw.send(&window_update(0, 1 << 20)).await;
        raw.send(&get(1, "/memory/200000")).await;
        let (mut bytes, mut most) = (0, 0);
        while bytes < 200_000 {
            let length = raw.next_of(FrameKind::Data).await.payload.len();
            (bytes, most) = (bytes + length, most.max(length));
        }
        assert_eq!((bytes, most), (200_000, largest));
    }
}

#[tokio::test]
async fn data_beyond_the_window_resets_the_stream() {
    let server = Server::start();
    let mut raw = Raw::open(&server, &[]).await;
    // "/never" reads nothing.
    raw.send(&post(1, "/never", &[])).await;
    for _ in 0..9 {
        raw.send(&frame(FrameKind::Data, 0, 1, &[0; 16_384])).await;
    }
    let reset = raw.next_of(FrameKind::Reset).await;
    assert_eq!((reset.head.stream, reset.code()), (1, ErrorCode::FLOW_CONTROL_ERROR));
    until("the drop", || server.handler.dropped.load(Ordering::SeqCst) == 1).await;
    // Discarded bytes count as read, so the connection's window is whole again.
    for stream in (3..60).step_by(2) {
        raw.send(&post(stream, "/count", &[])).await;
        raw.send(&frame(FrameKind::Data, END_STREAM, stream, &[0; 16_384])).await;
        assert_eq!(raw.status().await, (stream, "200".into()));
    }
}

#[tokio::test]
async fn streams_beyond_the_limit_are_refused() {
    let server = Server::with(|settings| settings.client.h2_streams = 2);
    let mut raw = Raw::open(&server, &[]).await;
    for stream in [1, 3, 5] {
        raw.send(&get(stream, "/never")).await;
    }
    let reset = raw.next_of(FrameKind::Reset).await;
    assert_eq!((reset.head.stream, reset.code()), (5, ErrorCode::REFUSED_STREAM));
    assert_eq!((server.metrics.h2_streams_refused.value(), server.metrics.refused.value()), (1, 0));
    raw.send(&frame(FrameKind::Reset, 0, 1, &ErrorCode::CANCEL.0.to_be_bytes())).await;
    raw.send(&get(7, "/memory/1")).await;
    assert_eq!(raw.status().await, (7, "200".into()));
}

/// An ended stream does not count while its request's body is still held ("/first" holds one).
#[tokio::test]
async fn streams_that_have_ended_make_room() {
    let server = Server::with(|settings| settings.client.h2_streams = 1);
    let mut raw = Raw::open(&server, &[]).await;
    for stream in [1, 3] {
        raw.send(&post(stream, "/first", &[])).await;
        raw.send(&frame(FrameKind::Data, END_STREAM, stream, b"abc")).await;
        assert_eq!((raw.status().await, raw.body().await), ((stream, "200".into()), 7));
    }
    assert_eq!(server.metrics.h2_streams_refused.value(), 0);
}

#[tokio::test]
async fn a_reply_before_the_body_asks_for_no_more() {
    let server = Server::start();
    let mut raw = Raw::open(&server, &[]).await;
    raw.send(&post(1, "/memory/1", &[])).await;
    assert_eq!((raw.status().await, raw.body().await), ((1, "200".into()), 1));
    let reset = raw.next_of(FrameKind::Reset).await;
    assert_eq!((reset.head.stream, reset.code()), (1, ErrorCode::NO_ERROR));
}

#[tokio::test]
async fn unfinished_frame_ends_the_connection_in_time() {
    let slow = |settings: &mut Settings| settings.client.head_timeout = Duration::from_millis(300);
    let server = Server::with(slow);
    let request = get(1, "/memory/1");
    let begun = frame(FrameKind::Headers, 0, 1, &block("GET", "/memory/1", &[]));
    for (late, part) in [&request[..3], &request[..20], &begun[..]].into_iter().enumerate() {
        let mut raw = Raw::open(&server, &[]).await;
        raw.send(part).await;
        let start = std::time::Instant::now();
        raw.given_up(ErrorCode::ENHANCE_YOUR_CALM, "a frame that does not end").await;
        assert!(start.elapsed() > Duration::from_millis(250), "given up at once");
        assert_eq!(server.metrics.h2_given_up.value(), late as u64 + 1);
    }
    let mut raw = Raw::open(&server, &[]).await;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        raw.send(&frame(FrameKind::Ping, 0, 0, b"12345678")).await;
    }
    raw.send(&request).await;
    assert_eq!(raw.status().await, (1, "200".into()), "an idle connection lives");
}
