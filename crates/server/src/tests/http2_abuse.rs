//! Tests of HTTP/2 clients that hold resources or send frames in unusual order.

use super::http2_frames::{Came, Raw, block, frame, get, post, window_update};
use super::{Server, until};
use shoal_http2::{END_HEADERS, END_STREAM, ErrorCode, FrameKind, PREFACE};
use shoal_settings::Settings;
use std::time::{Duration, Instant};

/// Starts a server with a short idle timeout.
fn impatient() -> Server {
    Server::with(|settings: &mut Settings| settings.client.idle_timeout = Duration::from_millis(300))
}

/// Opens a connection with large windows, and requests replies of 48 MB. The kernel has taken 15 MB
/// where receive buffers grow.
async fn asks_for_much(server: &Server) -> Raw {
    let mut raw = Raw::open(server, &[(4, 1 << 24)]).await;
    raw.send(&window_update(0, 1 << 30)).await;
    for stream in 0..120 {
        raw.send(&get(2 * stream + 1, "/memory/400000")).await;
    }
    raw
}

/// Unrequested ping answers do not show that a client takes its replies.
#[tokio::test]
async fn client_that_takes_no_bytes_is_closed() {
    let server = impatient();
    let mut raw = asks_for_much(&server).await;
    until("the connection", || server.metrics.connections_open.value() == 1).await;
    let pong = frame(FrameKind::Ping, 1, 0, b"shoal up");
    let start = Instant::now();
    while server.metrics.connections_open.value() > 0 {
        assert!(start.elapsed() < Duration::from_secs(3), "it is borne");
        raw.send(&pong).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(start.elapsed() > Duration::from_millis(250), "given up at once");
}

/// Only the connection waits for bytes already handed over. It must end them after the window was
/// taken back.
#[tokio::test]
async fn stream_held_by_a_closed_window_is_ended() {
    let server = impatient();
    let mut raw = asks_for_much(&server).await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    raw.send(&frame(FrameKind::Settings, 0, 0, &[0, 4, 0, 0, 0, 0])).await;
    let start = Instant::now();
    let reset = loop {
        assert!(start.elapsed() < Duration::from_secs(60), "they are held");
        let came = raw.next().await.expect("the connection stays");
        match came.is(FrameKind::Ping) {
            true => raw.send(&frame(FrameKind::Ping, 1, 0, &came.payload)).await,
            false if came.is(FrameKind::Reset) => break came,
            false => {}
        }
    };
    assert_eq!(reset.code(), ErrorCode::CANCEL);
}

#[tokio::test]
async fn unusable_stream_numbers_end_the_connection() {
    let server = Server::start();
    let data = |stream| frame(FrameKind::Data, 0, stream, b"x");
    let no_room = |stream| frame(FrameKind::WindowUpdate, 0, stream, &[0; 4]);
    let begun = frame(FrameKind::Headers, 0, 7, &block("GET", "/memory/1", &[]));
    for (why, bytes) in [
        ("a request on a stream that was passed over", get(3, "/memory/1")),
        ("a request on a stream that is over", get(1, "/memory/1")),
        ("an even stream below", get(2, "/memory/1")),
        ("DATA on an even stream below", data(2)),
        ("room for an even stream below", window_update(4, 1)),
        ("no room for a stream that is not open", no_room(7)),
        ("a fault of another stream within a block", [&begun[..], &no_room(5)].concat()),
    ] {
        let mut raw = Raw::open(&server, &[]).await;
        for stream in [1, 5] {
            raw.send(&get(stream, "/memory/1")).await;
            assert_eq!((raw.status().await, raw.body().await), ((stream, "200".into()), 1));
        }
        raw.send(&bytes).await;
        raw.given_up(ErrorCode::PROTOCOL_ERROR, why).await;
    }
}

#[tokio::test]
async fn settings_come_first() {
    let server = Server::start();
    for first in [frame(FrameKind::Ping, 0, 0, b"12345678"), frame(FrameKind::Settings, 1, 0, b"")] {
        let mut raw = Raw::silent(&server).await;
        raw.send(&[PREFACE, &first].concat()).await;
        raw.given_up(ErrorCode::PROTOCOL_ERROR, "no settings").await;
    }
}

/// Each frame has its own time limit: a new frame is not late because of an earlier one.
#[tokio::test]
async fn frames_that_are_cut_wherever_reads_end_are_in_time() {
    let server = Server::with(|settings| settings.client.head_timeout = Duration::from_millis(400));
    let mut raw = Raw::open(&server, &[]).await;
    let ping = frame(FrameKind::Ping, 0, 0, b"12345678");
    let shifted = [&ping[12..], &ping[..12]].concat();
    raw.send(&ping[..12]).await;
    for _ in 0..12 {
        tokio::time::sleep(Duration::from_millis(80)).await;
        raw.send(&shifted).await;
    }
    raw.send(&[&ping[12..], &get(1, "/memory/1")].concat()).await;
    assert_eq!(raw.status().await, (1, "200".into()));
}

/// Trickling the bytes of one frame, or the frames of one head, does not extend the time.
#[tokio::test]
async fn trickling_head_keeps_its_timeout() {
    let server = Server::with(|settings| settings.client.head_timeout = Duration::from_millis(300));
    let bytes = get(1, "/memory/1").chunks(1).map(<[u8]>::to_vec).collect();
    let more = frame(FrameKind::Continuation, 0, 1, &[0x10, 1, b'x', 1, b'y']);
    let mut frames = vec![more; 30];
    frames[0] = frame(FrameKind::Headers, 0, 1, &block("GET", "/memory/1", &[]));
    for (name, pieces) in [("bytes", bytes), ("frames", frames)] {
        let pieces: Vec<Vec<u8>> = pieces;
        let mut raw = Raw::open(&server, &[]).await;
        let mut code = None;
        for piece in pieces {
            raw.send(&piece).await;
            let turn = Duration::from_millis(30);
            while let Ok(Some(came)) = tokio::time::timeout(turn, raw.next()).await {
                if came.is(FrameKind::GoAway) {
                    code = Some(came.code());
                }
            }
        }
        assert_eq!(code, Some(ErrorCode::ENHANCE_YOUR_CALM), "{name}");
    }
    assert_eq!(server.metrics.h2_given_up.value(), 2);
}

/// A client without window is not too slow: the server has not read other streams' bytes.
#[tokio::test]
async fn client_without_window_is_not_too_slow() {
    let server = Server::with(|settings| settings.client.idle_timeout = Duration::from_secs(1));
    let mut raw = Raw::open(&server, &[]).await;
    for stream in [1, 3, 5, 7] {
        raw.send(&post(stream, "/never", &[])).await;
        raw.send(&frame(FrameKind::Data, 0, stream, &[0; 16_384]).repeat(8)).await;
    }
    raw.send(&post(9, "/count", &[])).await;
    let waits = Instant::now();
    while waits.elapsed() < Duration::from_millis(1500) {
        let next = tokio::time::timeout(Duration::from_millis(100), raw.next()).await;
        let Ok(came) = next else { continue };
        let came = came.expect("the connection stays");
        assert!(!came.is(FrameKind::Headers) && !came.is(FrameKind::Reset), "{came:?}");
        if came.is(FrameKind::Ping) {
            raw.send(&frame(FrameKind::Ping, 1, 0, &came.payload)).await;
        }
    }
    raw.send(&frame(FrameKind::Reset, 0, 1, &ErrorCode::CANCEL.0.to_be_bytes())).await;
    raw.send(&frame(FrameKind::Reset, 0, 3, &ErrorCode::CANCEL.0.to_be_bytes())).await;
    while raw.next_of(FrameKind::WindowUpdate).await.head.stream != 0 {}
    // The client's time begins when it can send, not at the last look.
    tokio::time::sleep(Duration::from_millis(800)).await;
    raw.send(&frame(FrameKind::Data, END_STREAM, 9, b"abc")).await;
    assert_eq!(raw.status().await, (9, "200".into()));
    assert_eq!(raw.next_of(FrameKind::Data).await.payload, b"3 ");
}

/// A frame may take longer than the longest pause while its bytes arrive at the minimum rate.
#[tokio::test]
async fn a_frame_that_comes_at_its_rate_is_waited_for() {
    let server = Server::with(|settings| {
        settings.client.idle_timeout = Duration::from_millis(300);
        settings.client.rate_min = shoal_core::ByteCount(1000);
    });
    for (bytes_each_time, times, expected) in [(200, 16, "3000 "), (10, 8, "failed: body stalled")] {
        let mut raw = Raw::open(&server, &[]).await;
        let body = frame(FrameKind::Data, END_STREAM, 1, &[0; 3000]);
        raw.send(&post(1, "/count", &[])).await;
        for piece in body.chunks(bytes_each_time).take(times) {
            raw.send(piece).await;
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
        assert_eq!(raw.status().await, (1, "200".into()));
        assert_eq!(raw.next_of(FrameKind::Data).await.payload, expected.as_bytes());
    }
    assert_eq!(server.metrics.clients_slow.value(), 1);
}

/// A client may split a Cookie field (RFC 9113 section 8.2.3). The parts count as one field.
#[tokio::test]
async fn crumbs_count_as_one_field() {
    let server = Server::start();
    let mut raw = Raw::open(&server, &[]).await;
    let crumbs = vec![("cookie", "a=b"); 200];
    let asked = block("GET", "/memory/1", &crumbs);
    raw.send(&frame(FrameKind::Headers, END_HEADERS | END_STREAM, 1, &asked)).await;
    assert_eq!(raw.status().await, (1, "200".into()));
}

/// RFC 9113 section 6.8: "Endpoints SHOULD always send a GOAWAY frame before closing a connection
/// so that the remote peer can know whether a stream has been partially processed or not."
#[tokio::test]
async fn silent_client_gets_goaway_with_last_stream() {
    let server = Server::with(|settings: &mut Settings| settings.client.keep_alive = Duration::from_secs(1));
    let mut raw = Raw::open(&server, &[]).await;
    raw.send(&get(1, "/memory/10")).await;
    let last = |came: &Came| u32::from_be_bytes(*came.payload.first_chunk().expect("a stream"));
    let first = raw.next_of(FrameKind::GoAway).await;
    assert_eq!((last(&first), first.code()), (0x7fff_ffff, ErrorCode::NO_ERROR));
    let second = raw.next_of(FrameKind::GoAway).await;
    assert_eq!(last(&second), 1);
}

/// The client answers the ping that follows GOAWAY, although the server sent neither.
#[tokio::test]
async fn an_answer_to_no_ping_changes_nothing() {
    let server = Server::start();
    let mut raw = Raw::open(&server, &[]).await;
    raw.send(&frame(FrameKind::Ping, 1, 0, b"shoal by")).await;
    for stream in [1, 3] {
        raw.send(&get(stream, "/memory/1")).await;
        assert_eq!(raw.status().await, (stream, "200".into()));
    }
}

#[tokio::test]
async fn errors_of_streams_are_borne_beside_good_ones() {
    let server = Server::start();
    let wrong = |stream| {
        frame(FrameKind::Headers, END_STREAM | END_HEADERS, stream, &block("GET", "/memory/1", &[("X", "y")]))
    };
    let mut raw = Raw::open(&server, &[]).await;
    for pair in 0..700 {
        raw.send(&[wrong(4 * pair + 1), get(4 * pair + 3, "/memory/1")].concat()).await;
        assert_eq!(raw.status().await, (4 * pair + 3, "200".into()));
    }
    let mut raw = Raw::open(&server, &[]).await;
    for stream in 0..700 {
        raw.send(&wrong(2 * stream + 1)).await;
    }
    assert_eq!(raw.next_of(FrameKind::GoAway).await.code(), ErrorCode::ENHANCE_YOUR_CALM);
}
