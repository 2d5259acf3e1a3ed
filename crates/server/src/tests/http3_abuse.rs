//! Tests of HTTP/3 clients that break the protocol or hold resources.

use super::http3_client::{RawClient, connect, frame, head, read, section, serving, trusting};
use super::tls::Authority;
use super::{Server, until};
use shoal_settings::Settings;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

const MESSAGE_ERROR: u64 = 0x10e;
const EXCESSIVE_LOAD: u64 = 0x107;

/// Pseudo-fields and fields that would mean something else to the next recipient.
#[tokio::test]
async fn malformed_heads_end_their_stream() {
    let authority = Authority::new();
    let server = serving(&authority, |_| {});
    let raw = RawClient::connect(&server, &authority).await;
    let get = [(":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", "/memory/1")];
    let with = |field| section(&[&get[..], &[field]].concat());
    for (what, bytes) in [
        ("no path", section(&get[..3])),
        ("no method", section(&get[1..])),
        ("a path twice", with((":path", "/memory/2"))),
        ("an extended CONNECT", with((":protocol", "websocket"))),
        ("a status", with((":status", "200"))),
        ("a pseudo-field behind a field", section(&[&[("x", "y")], &get[..]].concat())),
        (
            "a request line in the method",
            section(&[&[(":method", "GET / HTTP/1.1\r\n")], &get[1..]].concat()),
        ),
        ("a line end in a value", with(("x", "a\r\nb: c"))),
        ("upper case", with(("X", "y"))),
        ("connection", with(("connection", "close"))),
        ("transfer-encoding", with(("transfer-encoding", "chunked"))),
        ("te", with(("te", "gzip"))),
        ("upgrade", with(("upgrade", "h2c"))),
        ("a body that was announced", with(("content-length", "5"))),
    ] {
        assert_eq!(raw.ask(&bytes).await, Err(MESSAGE_ERROR), "{what}");
    }
    // Refused with an answer, as over HTTP/2.
    for (what, bytes, status) in [
        ("another host", with(("host", "b.test")), b"\xff\x04".as_slice()),
        (
            "two lengths",
            section(&[&get[..], &[("content-length", "0"), ("content-length", "0")]].concat()),
            b"\xff\x04",
        ),
    ] {
        let came = raw.ask(&bytes).await.expect(what);
        assert!(came.windows(2).any(|two| two == status), "{what}: 400 in {came:?}");
    }
    assert!(raw.ask(&head("GET", "/memory/1", &[])).await.expect("the connection stays").ends_with(b"m"));
}

#[tokio::test]
async fn frames_out_of_place_end_the_connection() {
    let authority = Authority::new();
    let server = serving(&authority, |_| {});
    let get = head("POST", "/count", &[]);
    for (what, bytes, code) in [
        ("data first", frame(0, b"x"), 0x105),
        ("settings on a request's stream", [&get[..], &frame(4, b"")].concat(), 0x105),
        ("a push promise", [&get[..], &frame(5, b"x")].concat(), 0x105),
        ("half a frame", head("POST", "/count", &[])[..5].to_vec(), 0x106),
        ("a section that needs a table", frame(1, b"\x02\0\x80"), 0x200),
        ("a section of nonsense", frame(1, b"\xff\xff\xff\xff\xff\xff\xff"), 0x200),
        (
            "frames that bring nothing",
            [&head("POST", "/count", &[])[..], &frame(0x21, b"").repeat(2000)].concat(),
            EXCESSIVE_LOAD,
        ),
        (
            "empty data",
            [&head("POST", "/count", &[])[..], &frame(0, b"").repeat(2000)].concat(),
            EXCESSIVE_LOAD,
        ),
    ] {
        let raw = RawClient::connect(&server, &authority).await;
        let (mut send, _receive) = raw.open(&bytes).await;
        let _ = send.finish();
        assert_eq!(raw.closed_for(what).await, code, "{what}");
    }
    for (what, bytes, code) in [
        ("a request on the control stream", &b"\0\x04\0\x01\x01x"[..], 0x105),
        ("no settings", b"\0\x0d\x01\0", 0x10a),
        ("settings of HTTP/2", b"\0\x04\x02\x02\x01", 0x109),
        ("an entry for the table", b"\x02\xc0\x01x", 0x201),
        ("an acknowledgement", b"\x03\x84", 0x202),
        ("a push", b"\x01\0", 0x103),
    ] {
        let raw = RawClient::silent(&server, &authority).await;
        raw.uni(bytes).await;
        assert_eq!(raw.closed_for(what).await, code, "{what}");
    }
    let raw = RawClient::connect(&server, &authority).await;
    raw.uni(b"\0\x04\0").await;
    assert_eq!(raw.closed().await, 0x103, "a second control stream");
}

/// Clients send unknown frames so that servers learn to skip them: they are no body.
#[tokio::test]
async fn unknown_frames_are_no_body() {
    let authority = Authority::new();
    let server = serving(&authority, |_| {});
    let raw = RawClient::connect(&server, &authority).await;
    let bytes = [&head("GET", "/count", &[])[..], &frame(0x21, b"grease"), &frame(0, b"")].concat();
    assert!(raw.ask(&bytes).await.expect("a response").ends_with(b"none"));
    let (mut send, receive) = raw.open(&bytes).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    send.finish().expect("open");
    assert!(read(receive).await.expect("a response").ends_with(b"none"), "the end comes later");
    assert_eq!(server.handler.records.lock().len(), 2);
}

#[tokio::test]
async fn lengths_that_lie_are_no_whole_requests() {
    let authority = Authority::new();
    let server = serving(&authority, |_| {});
    let raw = RawClient::connect(&server, &authority).await;
    for (length, body) in [("5", &b"abc"[..]), ("2", b"abc"), ("0", b"abc"), ("4", b"")] {
        let bytes = [&head("POST", "/count", &[("content-length", length)])[..], &frame(0, body)].concat();
        let came = raw.ask(&bytes).await;
        let is_failed = came.as_ref().is_ok_and(|came| came.windows(6).any(|six| six == b"failed"));
        assert!(is_failed || came == Err(MESSAGE_ERROR), "{length}: {came:?}");
    }
    let bytes = [&head("POST", "/count", &[("content-length", "3")])[..], &frame(0, b"abc")].concat();
    assert!(raw.ask(&bytes).await.expect("a response").ends_with(b"3 "));
}

#[tokio::test]
async fn huge_heads_get_431() {
    let authority = Authority::new();
    let server = serving(&authority, |_| {});
    let raw = RawClient::connect(&server, &authority).await;
    let limit = Settings::default().client.head_max.0 as usize;
    // `:status` 431 as a literal.
    let is_431 = |came: &[u8]| came.windows(3).any(|three| three == b"431");
    for size in [limit + 1, 3 * limit] {
        let came = raw.ask(&head("GET", "/memory/1", &[("x", &"x".repeat(size))])).await;
        assert!(is_431(&came.expect("a response")), "{size}");
    }
    let indexed = [&b"\0\0"[..], &[0xd1; 60_000]].concat();
    let mut bytes = vec![1, 0x80, 0, 0xea, 0x62];
    bytes.extend_from_slice(&indexed);
    assert!(is_431(&raw.ask(&bytes).await.expect("a response")), "fields of one byte");
    let fields: Vec<(&str, &str)> = vec![("x", "y"); 1000];
    assert!(is_431(&raw.ask(&head("GET", "/memory/1", &fields)).await.expect("a response")), "many fields");
}

#[tokio::test]
async fn reset_flood_ends_the_connection() {
    let authority = Authority::new();
    let server = serving(&authority, |settings| settings.client.h2_streams = 10);
    let raw = RawClient::connect(&server, &authority).await;
    for _ in 0..1000 {
        let Ok((mut send, mut receive)) = raw.0.open_bi().await else { break };
        let _ = send.write_all(&head("GET", "/never", &[])).await;
        tokio::task::yield_now().await;
        let _ = (send.reset(0x10c_u32.into()), receive.stop(0x10c_u32.into()));
    }
    assert_eq!(raw.closed().await, EXCESSIVE_LOAD);
    assert_eq!(server.metrics.h3_given_up.value(), 1);
    until("the handlers", || server.handler.dropped.load(SeqCst) == server.handler.begun.load(SeqCst)).await;
    assert!(server.handler.begun.load(SeqCst) <= 40);
}

#[tokio::test]
async fn error_flood_ends_the_connection() {
    let authority = Authority::new();
    let server = serving(&authority, |_| {});
    let raw = RawClient::connect(&server, &authority).await;
    for _ in 0..2000 {
        let Ok((mut send, _receive)) = raw.0.open_bi().await else { break };
        let _ = send.write_all(&section(&[(":method", "GET")])).await;
        let _ = send.finish();
    }
    assert_eq!(raw.closed().await, EXCESSIVE_LOAD);
}

/// Streams beyond the limit wait at the client: it has no credit for them.
#[tokio::test]
async fn streams_beyond_the_limit_wait() {
    let authority = Authority::new();
    let server = serving(&authority, |settings| settings.client.h2_streams = 5);
    let raw = RawClient::connect(&server, &authority).await;
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(raw.open(&head("GET", "/waits", &[])).await);
        held.last_mut().expect("pushed").0.finish().expect("open");
    }
    until("the requests", || server.handler.begun.load(SeqCst) == 5).await;
    let sixth = tokio::time::timeout(Duration::from_millis(200), raw.0.open_bi()).await;
    assert!(sixth.is_err(), "a sixth stream");
    server.handler.gate.notify_waiters();
    for (_, receive) in held {
        read(receive).await.expect("a response");
    }
    assert!(raw.ask(&head("GET", "/hit/1", &[])).await.is_ok());
}

#[tokio::test]
async fn unidirectional_flood_ends_the_connection() {
    let authority = Authority::new();
    let server = serving(&authority, |_| {});
    let raw = RawClient::connect(&server, &authority).await;
    for _ in 0..200 {
        let Ok(mut stream) = raw.0.open_uni().await else { break };
        let _ = stream.write_all(b"\x21grease").await;
        let _ = stream.finish();
    }
    assert_eq!(raw.closed().await, EXCESSIVE_LOAD);
}

#[tokio::test]
async fn trickling_head_is_late() {
    let authority = Authority::new();
    let server = serving(&authority, |settings| settings.client.head_timeout = Duration::from_millis(300));
    let raw = RawClient::connect(&server, &authority).await;
    let begun = Instant::now();
    let (mut send, receive) = raw.open(&[]).await;
    let trickle = tokio::spawn(async move {
        for byte in head("GET", "/memory/1", &[]) {
            if send.write_all(&[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    assert_eq!(read(receive).await, Err(0x10d));
    assert!(begun.elapsed() < Duration::from_secs(2));
    trickle.await.expect("no panic");
}

/// A client that opens no window holds no reply for longer than `idle_timeout`.
#[tokio::test]
async fn client_that_takes_no_bytes_is_given_up() {
    let authority = Authority::new();
    let server = serving(&authority, |settings| settings.client.idle_timeout = Duration::from_millis(300));
    let raw = RawClient::connect(&server, &authority).await;
    let mut held = Vec::new();
    for path in ["/hit/3000000", "/memory/3000000"] {
        let (mut send, receive) = raw.open(&head("GET", path, &[])).await;
        send.finish().expect("open");
        held.push(receive);
    }
    until("the cut", || server.metrics.responses_cut.value() == 2).await;
    assert_eq!(server.metrics.clients_slow.value(), 2);
    drop(held);
    assert!(raw.ask(&head("GET", "/hit/1", &[])).await.is_ok(), "the connection stays");
}

/// An upload that stops is given up; the handler learns of it.
#[tokio::test]
async fn upload_that_stops_is_given_up() {
    let authority = Authority::new();
    let server = serving(&authority, |settings| settings.client.idle_timeout = Duration::from_millis(300));
    let raw = RawClient::connect(&server, &authority).await;
    let (send, receive) = raw.open(&[&head("POST", "/count", &[])[..], b"\0\x05ab"].concat()).await;
    assert!(read(receive).await.expect("a response").windows(12).any(|text| text == b"body stalled"));
    drop(send);
}

/// Uploads that the server does not read fill the window of their connection. Another upload waits
/// for room, so its client is not slow; its time begins when it can send.
#[tokio::test]
async fn client_without_room_is_not_too_slow() {
    let authority = Authority::new();
    let server = serving(&authority, |settings| settings.client.idle_timeout = Duration::from_secs(1));
    let raw = RawClient::connect(&server, &authority).await;
    let (mut send, receive) = raw.open(&[&head("POST", "/count", &[])[..], b"\0\x40\x64a"].concat()).await;
    let mut held = Vec::new();
    for _ in 0..4 {
        let (mut send, receive) = raw.open(&head("POST", "/waits", &[])).await;
        let filling = tokio::spawn(async move { send.write_all(&whole_frame(1 << 20)).await });
        held.push((filling, receive));
    }
    until("the requests", || server.handler.begun.load(SeqCst) == 5).await;
    tokio::time::sleep(Duration::from_millis(2300)).await;
    assert_eq!(server.metrics.clients_slow.value(), 0);
    assert!(held.iter().all(|(filling, _)| !filling.is_finished()), "the window is full");
    for (filling, receive) in held {
        filling.abort();
        drop(receive);
    }
    tokio::time::sleep(Duration::from_millis(850)).await;
    send.write_all(&[b'b'; 99]).await.expect("the stream stays");
    send.write_all(b"\0\x01c").await.expect("the stream stays");
    send.finish().expect("open");
    let came = read(receive).await.expect("a response");
    assert!(came.windows(4).any(|text| text == b"101 "), "{:?}", String::from_utf8_lossy(&came));
    assert_eq!(server.metrics.clients_slow.value(), 0);
    // A client that could send and does not is given up as before.
    let (send, receive) = raw.open(&[&head("POST", "/count", &[])[..], b"\0\x05ab"].concat()).await;
    assert!(read(receive).await.expect("a response").windows(12).any(|text| text == b"body stalled"));
    drop(send);
}

/// Requests that may hold bytes excuse a silent upload for some pauses, and no longer.
#[tokio::test]
async fn silent_upload_beside_idle_requests_is_given_up() {
    let authority = Authority::new();
    let server = serving(&authority, |settings| settings.client.idle_timeout = Duration::from_millis(300));
    let raw = RawClient::connect(&server, &authority).await;
    let mut idle = Vec::new();
    for _ in 0..4 {
        idle.push(raw.open(&head("POST", "/waits", &[])).await);
    }
    until("the requests", || server.handler.begun.load(SeqCst) == 4).await;
    let (send, receive) = raw.open(&[&head("POST", "/count", &[])[..], b"\0\x05ab"].concat()).await;
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(server.metrics.clients_slow.value(), 0, "it may have no room");
    let answer = tokio::time::timeout(Duration::from_secs(20), read(receive)).await.expect("it ends");
    assert!(answer.expect("a response").windows(12).any(|text| text == b"body stalled"));
    drop((send, idle));
}

/// Returns a DATA frame of `bytes` bytes, at least 16,384.
fn whole_frame(bytes: u32) -> Vec<u8> {
    let mut frame = vec![0];
    frame.extend_from_slice(&(bytes | 0x8000_0000).to_be_bytes());
    frame.resize(frame.len() + bytes as usize, b'x');
    frame
}

/// Relay between clients and the server, which lets no packet of the server pass.
struct DeafRelay {
    address: std::net::SocketAddr,
    to_server: Arc<AtomicU64>,
    from_server: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl DeafRelay {
    fn start(server: &Server) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        let far = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        far.connect(server.address()).expect("loopback is there");
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(Duration::from_millis(5))).expect("a timeout");
        }
        let relay = Self {
            address: near.local_addr().expect("bound"),
            to_server: Arc::default(),
            from_server: Arc::default(),
            is_over: Arc::default(),
        };
        let counts = (Arc::clone(&relay.to_server), Arc::clone(&relay.from_server));
        let is_over = Arc::clone(&relay.is_over);
        std::thread::spawn(move || {
            let mut packet = [0; 65_536];
            while !is_over.load(SeqCst) {
                if let Ok(bytes) = near.recv(&mut packet) {
                    counts.0.fetch_add(bytes as u64, SeqCst);
                    far.send(&packet[..bytes]).expect("loopback is there");
                }
                while let Ok(bytes) = far.recv(&mut packet) {
                    counts.1.fetch_add(bytes as u64, SeqCst);
                }
            }
        });
        relay
    }
}

impl Drop for DeafRelay {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
    }
}

/// RFC 9000 section 8.1: "prior to validating the client address, servers MUST NOT send more than
/// three times as many bytes as the number of bytes they have received".
#[tokio::test]
async fn unproven_address_gets_three_times_its_bytes() {
    let authority = Authority::new();
    let server = serving(&authority, |_| {});
    let relay = DeafRelay::start(&server);
    let connecting = connect(relay.address, trusting(&authority), "a.test");
    assert!(tokio::time::timeout(Duration::from_secs(3), connecting).await.is_err(), "nothing comes back");
    let (sent, came) = (relay.to_server.load(SeqCst), relay.from_server.load(SeqCst));
    assert!(sent >= 1200 && came >= 1200, "{sent} bytes there, {came} back");
    assert!(came <= 3 * sent, "{sent} bytes there, {came} back");
}

/// Addresses must be proven once many handshakes are under way, and clients still get in.
#[tokio::test]
async fn half_open_flood_keeps_no_client_out() {
    let authority = Authority::new();
    let server = serving(&authority, |settings| {
        settings.workers = 1;
        settings.client.head_timeout = Duration::from_secs(2);
    });
    let relays: Vec<DeafRelay> = (0..60).map(|_| DeafRelay::start(&server)).collect();
    let floods: Vec<_> = relays
        .iter()
        .map(|relay| tokio::spawn(connect(relay.address, trusting(&authority), "a.test")))
        .collect();
    until("the flood", || server.metrics.h3_retries.value() > 0).await;
    let raw = RawClient::connect(&server, &authority).await;
    assert!(raw.ask(&head("GET", "/hit/1", &[])).await.is_ok());
    assert_eq!(server.metrics.connections_open.value(), 1, "half-open connections take no place");
    floods.iter().for_each(tokio::task::JoinHandle::abort);
    until("the end of the flood", || server.metrics.tls_failures.value() >= 32).await;
}

#[tokio::test]
async fn garbage_packets_change_nothing() {
    let authority = Authority::new();
    let server = serving(&authority, |_| {});
    let raw = RawClient::connect(&server, &authority).await;
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let (mut seed, mut sent) = (1_u64, 0);
    for round in 0..2000 {
        let mut packet = vec![0; round % 1500];
        for byte in &mut packet {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (seed >> 56) as u8;
        }
        sent += packet.len();
        let _ = socket.send_to(&packet, server.address());
    }
    let (mut buffer, mut came) = ([0; 2048], 0);
    while let Ok(bytes) = socket.recv(&mut buffer) {
        came += bytes;
    }
    assert!(came < sent / 10, "{came} bytes for {sent}");
    assert!(raw.ask(&head("GET", "/hit/1", &[])).await.is_ok());
    RawClient::connect(&server, &authority).await;
}
