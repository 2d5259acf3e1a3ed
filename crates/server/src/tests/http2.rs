//! HTTP/2 with prior knowledge: streams, bodies both ways, interim responses, resets, limits,
//! tunnels, drain.

use super::http2_frames::{Raw, get};
use super::{Server, until};
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Method, Request, StatusCode};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// Client connection with a task that moves its frames.
struct H2Client {
    send: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
}

impl H2Client {
    async fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address()).await.expect("the server listens");
        let (send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        Self { send, connection: tokio::spawn(connection) }
    }

    /// Starts a request. Its body stays open unless `ends` is set.
    async fn start(
        &mut self,
        request: http::request::Builder,
        ends: bool,
    ) -> (ResponseFuture, SendStream<Bytes>) {
        poll_fn(|context| self.send.poll_ready(context)).await.expect("open");
        self.send.send_request(request.body(()).expect("valid"), ends).expect("open")
    }

    async fn get(&mut self, path: &str) -> Answer {
        let (response, _) = self.start(request(path), true).await;
        Answer::read(response).await.expect("an answer")
    }
}

/// Whole response.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    fields: HeaderMap,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
}

impl Answer {
    async fn read(response: ResponseFuture) -> Result<Self, h2::Error> {
        let (parts, mut stream) = response.await?.into_parts();
        let body = read(&mut stream).await?;
        let trailers = stream.trailers().await?;
        Ok(Self { status: parts.status, fields: parts.headers, body, trailers })
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.to_str().ok()
    }
}

async fn read(stream: &mut RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    Ok(body)
}

fn request(path: &str) -> http::request::Builder {
    Request::builder().uri(format!("http://test{path}"))
}

#[tokio::test]
async fn streams_are_answered() {
    let server = Server::start();
    let mut client = H2Client::connect(&server).await;
    for bytes in [0, 10, 1_000_000] {
        let answer = client.get(&format!("/memory/{bytes}")).await;
        assert_eq!((answer.status, answer.body.len()), (StatusCode::OK, bytes));
        assert_eq!(answer.field("content-length"), Some(bytes.to_string().as_str()));
        assert_eq!(answer.field("date").map(str::len), Some(29));
    }
    let stored = client.get("/stored").await;
    assert_eq!((stored.field("age"), stored.field("date")), (Some("17"), Some("then")));
    assert_eq!(stored.field("cache-status"), Some("shoal; hit"));
    assert_eq!(client.get("/204").await.field("content-length"), None);
    let not_modified = client.get("/304").await;
    assert_eq!((not_modified.field("content-length"), not_modified.body.len()), (Some("5"), 0));
    assert_eq!(client.get("/target").await.text(), "http://test/target HTTP/2.0");
    assert_eq!(server.metrics.requests.value(), 7);
    assert_eq!(server.metrics.connections.value(), 1);
}

#[tokio::test]
async fn head_is_logged_with_name_and_value_bytes() {
    let server = Server::start();
    let mut client = H2Client::connect(&server).await;
    let answer = client.get("/memory/10").await;
    let fields = answer.fields.iter().map(|(name, value)| name.as_str().len() + value.len());
    until("the record", || server.handler.records.lock().len() == 1).await;
    let record = &server.handler.records.lock()[0];
    assert_eq!(record.head_bytes, (":status200".len() + fields.sum::<usize>()) as u64);
}

#[tokio::test]
async fn streams_run_side_by_side() {
    let server = Server::start();
    let mut client = H2Client::connect(&server).await;
    let (waiting, _) = client.start(request("/waits"), true).await;
    assert_eq!(client.get("/memory/3").await.text(), "mmm");
    server.handler.gate.notify_one();
    assert_eq!(Answer::read(waiting).await.expect("an answer").text(), "waited");
}

#[tokio::test]
async fn bodies_and_trailers_flow_both_ways() {
    let server = Server::start();
    let mut client = H2Client::connect(&server).await;
    let (response, mut body) = client.start(request("/echo").method(Method::POST), false).await;
    let sent: Vec<u8> = (0..600_000u32).map(|index| (index % 251) as u8).collect();
    let copy = Bytes::from(sent.clone());
    tokio::spawn(async move {
        let mut rest = copy;
        while !rest.is_empty() {
            body.reserve_capacity(rest.len());
            let room = poll_fn(|context| body.poll_capacity(context)).await.expect("open").expect("open");
            body.send_data(rest.split_to(room.min(rest.len())), false).expect("open");
        }
        let trailers =
            HeaderMap::from_iter([("x-sum".parse().expect("a name"), "7".parse().expect("a value"))]);
        body.send_trailers(trailers).expect("open");
    });
    let answer = Answer::read(response).await.expect("an answer");
    assert!(answer.body == sent, "the echo differs");
    assert_eq!(answer.trailers.expect("trailers")["x-sum"], "7");
    let (response, mut body) = client.start(request("/count").method(Method::POST), false).await;
    body.send_data(Bytes::from_static(b"hello"), true).expect("open");
    assert_eq!(Answer::read(response).await.expect("an answer").text(), "5 ");
    assert_eq!(client.get("/frames/abc,de").await.text(), "abcde");
    assert_eq!(client.get("/trailers").await.trailers.expect("trailers")["x-sum"], "7");
}

#[tokio::test]
async fn interim_responses_come_first() {
    let server = Server::start();
    let mut client = H2Client::connect(&server).await;
    let (mut response, _) = client.start(request("/hints"), true).await;
    for link in ["</a.css>", "</b.css>"] {
        let interim =
            poll_fn(|context| response.poll_informational(context)).await.expect("one").expect("sound");
        assert_eq!(
            (interim.status(), &interim.headers()["link"]),
            (StatusCode::EARLY_HINTS, &link.parse().expect("a value"))
        );
    }
    assert_eq!(Answer::read(response).await.expect("an answer").text(), "final");
    let waits = request("/count").method(Method::POST).header("expect", "100-continue");
    let (mut response, mut body) = client.start(waits, false).await;
    let interim = poll_fn(|context| response.poll_informational(context)).await.expect("one").expect("sound");
    assert_eq!(interim.status(), StatusCode::CONTINUE);
    body.send_data(Bytes::from_static(b"abc"), true).expect("open");
    assert_eq!(Answer::read(response).await.expect("an answer").text(), "3 ");
}

#[tokio::test]
async fn a_failed_body_resets_the_stream() {
    let server = Server::start();
    let mut client = H2Client::connect(&server).await;
    for (path, code) in [
        ("/fails/abc", Reason::INTERNAL_ERROR),
        ("/long/abc", Reason::INTERNAL_ERROR),
        ("/short/abc,def", Reason::INTERNAL_ERROR),
        ("/resets/8", Reason::CANCEL),
        ("/resets/11", Reason::ENHANCE_YOUR_CALM),
        // The request was answered, so the client must not repeat it.
        ("/resets/7", Reason::INTERNAL_ERROR),
    ] {
        let (response, _) = client.start(request(path), true).await;
        let error = Answer::read(response).await.expect_err("the body fails");
        assert_eq!(error.reason(), Some(code), "{path}");
    }
    assert_eq!(client.get("/memory/1").await.text(), "m");
    until("the records", || server.handler.records.lock().len() == 7).await;
    let aborted = server.handler.records.lock().iter().filter(|record| record.aborted).count();
    assert_eq!((aborted, server.metrics.responses_cut.value()), (6, 6));
}

#[tokio::test]
async fn a_reset_takes_the_request_along() {
    let server = Server::start();
    let mut client = H2Client::connect(&server).await;
    let (response, mut body) = client.start(request("/never"), false).await;
    until("the request", || server.handler.begun.load(Ordering::SeqCst) == 1).await;
    body.send_reset(Reason::CANCEL);
    drop((response, body));
    until("the drop", || server.handler.dropped.load(Ordering::SeqCst) == 1).await;
    let (response, body) = client.start(request("/gated"), true).await;
    let mut stream = response.await.expect("a head").into_body();
    assert_eq!(stream.data().await.expect("data").expect("sound"), "before,");
    drop((stream, body));
    until("the body's drop", || server.handler.bodies_dropped.load(Ordering::SeqCst) == 1).await;
    assert_eq!(client.get("/memory/1").await.text(), "m");
}

#[tokio::test]
async fn a_lost_connection_drops_every_stream() {
    let server = Server::start();
    let mut client = H2Client::connect(&server).await;
    let first = client.start(request("/never"), true).await;
    let second = client.start(request("/never"), true).await;
    until("the requests", || server.handler.begun.load(Ordering::SeqCst) == 2).await;
    client.connection.abort();
    drop((client, first, second));
    until("the drops", || server.handler.dropped.load(Ordering::SeqCst) == 2).await;
}

/// The client can then neither acknowledge frames nor open a window. It still gets replies that
/// are ready at once.
#[tokio::test]
async fn a_client_that_ends_its_sending_has_gone() {
    let server = Server::start();
    let mut raw = Raw::open(&server, &[]).await;
    raw.send(&get(1, "/never")).await;
    until("the request", || server.handler.begun.load(Ordering::SeqCst) == 1).await;
    raw.send(&get(3, "/hit/5")).await;
    raw.stream.shutdown().await.expect("it is open");
    let ended = Instant::now();
    until("the drop", || server.handler.dropped.load(Ordering::SeqCst) == 1).await;
    assert!(ended.elapsed() < Duration::from_secs(1), "after {:?}", ended.elapsed());
    assert_eq!(raw.status().await, (3, "200".into()));
    assert_eq!(raw.body().await, 5);
    assert!(raw.next().await.is_none(), "the connection ends");
}

#[tokio::test]
async fn heads_are_refused_as_in_http_1() {
    let server = Server::with(|settings| settings.client.target_max = shoal_core::ByteCount(300));
    let mut client = H2Client::connect(&server).await;
    let long = client.get(&format!("/memory/1?{}", "x".repeat(400))).await;
    assert_eq!((long.status, long.text()), (StatusCode::URI_TOO_LONG, "request target too long"));
    let (response, _) = client.start(request("/memory/1").header("host", "other"), true).await;
    assert_eq!(Answer::read(response).await.expect("an answer").status, StatusCode::BAD_REQUEST);
    assert_eq!(server.metrics.refused.value(), 2);
    assert_eq!(client.get("/memory/1").await.text(), "m");
}

#[tokio::test]
async fn the_number_of_streams_is_bounded() {
    let server = Server::with(|settings| settings.client.h2_streams = 2);
    let mut client = H2Client::connect(&server).await;
    client.get("/memory/1").await;
    assert_eq!(client.send.current_max_send_streams(), 2);
}

#[tokio::test]
async fn a_client_that_opens_no_window_is_given_up() {
    let server = Server::with(|settings| settings.client.idle_timeout = Duration::from_millis(300));
    let mut client = H2Client::connect(&server).await;
    let (response, _) = client.start(request("/memory/1000000"), true).await;
    let mut stream = response.await.expect("a head").into_body();
    let mut read = 0;
    let error = loop {
        match stream.data().await.expect("no orderly end") {
            Ok(data) => read += data.len(),
            Err(error) => break error,
        }
    };
    assert_eq!(error.reason(), Some(Reason::CANCEL));
    assert!(read < 1_000_000);
    until("the record", || server.handler.records.lock().len() == 1).await;
    assert!(server.handler.records.lock()[0].aborted);
}

/// Slower than `rate_min`, though never silent for `idle_timeout`, in either direction.
#[tokio::test]
async fn a_client_that_trickles_is_given_up() {
    let server = Server::with(|settings| {
        settings.client.idle_timeout = Duration::from_millis(300);
        settings.client.rate_min = shoal_core::ByteCount(10_000_000);
    });
    let mut client = H2Client::connect(&server).await;
    let (response, _) = client.start(request("/memory/20000000"), true).await;
    let mut stream = response.await.expect("a head").into_body();
    let error = loop {
        match stream.data().await.expect("no orderly end") {
            Ok(data) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let _ = stream.flow_control().release_capacity(data.len());
            }
            Err(error) => break error,
        }
    };
    assert_eq!(error.reason(), Some(Reason::CANCEL));
    let (response, mut body) = client.start(request("/count").method(Method::POST), false).await;
    let trickle = tokio::spawn(async move {
        while body.send_data(Bytes::from_static(b"a few bytes"), false).is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let answered = tokio::time::timeout(Duration::from_secs(5), Answer::read(response)).await;
    assert!(answered.is_ok_and(|answer| answer.is_ok_and(|answer| answer.text() != "")), "kept waiting");
    trickle.abort();
    assert_eq!(server.metrics.clients_slow.value(), 2);
}

#[tokio::test]
async fn connect_streams_are_tunnels() {
    let server = Server::start();
    let mut client = H2Client::connect(&server).await;
    let connect = Request::builder().method(Method::CONNECT).uri("example.org:443");
    let (response, mut near) = client.start(connect, false).await;
    let response = response.await.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    assert!(!response.headers().contains_key("content-length"));
    near.send_data(Bytes::from_static(b"hello "), false).expect("open");
    near.send_data(Bytes::from_static(b"there"), true).expect("open");
    let heard = read(&mut response.into_body()).await.expect("an orderly end");
    assert_eq!(heard, b"HELLO THERE");
    until("the record", || server.handler.records.lock().len() == 1).await;
    assert_eq!(server.handler.records.lock()[0].body_bytes, 11);
}

#[tokio::test]
async fn idle_connections_are_sent_away() {
    let server = Server::with(|settings| settings.client.keep_alive = Duration::from_secs(1));
    let mut client = H2Client::connect(&server).await;
    client.get("/memory/1").await;
    let ended = tokio::time::timeout(Duration::from_secs(8), client.connection).await;
    assert!(ended.expect("an end").expect("no panic").is_ok(), "GOAWAY without error");
}

#[tokio::test]
async fn draining_finishes_streams_and_sends_goaway() {
    let mut server = Server::start();
    let mut client = H2Client::connect(&server).await;
    let (waiting, _) = client.start(request("/waits"), true).await;
    until("the request", || server.handler.begun.load(Ordering::SeqCst) == 1).await;
    let address = server.address();
    let running = server.running.take().expect("running");
    running.drain(Duration::from_secs(20));
    until("the listeners' end", || std::net::TcpStream::connect(address).is_err()).await;
    server.handler.gate.notify_one();
    assert_eq!(Answer::read(waiting).await.expect("an answer").text(), "waited");
    assert!(client.connection.await.expect("no panic").is_ok());
    tokio::task::spawn_blocking(|| running.join()).await.expect("the workers end");
}

/// Every stream has ended for the server, which has passed all bytes to the connection. The client
/// takes the bytes late.
#[tokio::test]
async fn drain_waits_for_a_slow_client() {
    let mut server = Server::start();
    let stream = TcpStream::connect(server.address()).await.expect("the server listens");
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(1 << 20).initial_connection_window_size(1 << 25);
    let (mut send, connection) = builder.handshake::<_, Bytes>(stream).await.expect("HTTP/2");
    let mut connection = std::pin::pin!(connection);
    let (first, _) = send.send_request(request("/memory/1").body(()).expect("valid"), true).expect("open");
    tokio::select! {
        answer = Answer::read(first) => assert_eq!(answer.expect("an answer").text(), "m"),
        _ = &mut connection => panic!("ended"),
    }
    let mut answers = Vec::new();
    for _ in 0..SLOW_STREAMS {
        let asked = send.send_request(request("/memory/120000").body(()).expect("valid"), true);
        answers.push(asked.expect("open").0);
    }
    drop(send);
    poll_fn(|context| std::task::Poll::Ready(connection.as_mut().poll(context).is_pending())).await;
    until("the replies", || server.handler.records.lock().len() == SLOW_STREAMS + 1).await;
    let running = server.running.take().expect("running");
    running.drain(Duration::from_secs(20));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let reading = async {
        for answer in answers {
            assert_eq!(Answer::read(answer).await.expect("all of it").body.len(), 120_000);
        }
    };
    let (_, ended) = tokio::join!(reading, connection);
    assert!(ended.is_ok(), "GOAWAY without error");
    tokio::task::spawn_blocking(|| running.join()).await.expect("the workers end");
}

/// A ping waits behind the kernels' buffers. Such a client needs longer for these than the ping
/// interval.
#[tokio::test]
async fn a_client_that_takes_its_time_is_not_taken_for_dead() {
    let server = Server::with(|settings| settings.client.idle_timeout = Duration::from_millis(600));
    let stream = TcpStream::connect(server.address()).await.expect("the server listens");
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(1 << 25).initial_connection_window_size(1 << 25).max_frame_size(1 << 20);
    let (mut send, connection) = builder.handshake::<_, Bytes>(Slow::new(stream)).await.expect("HTTP/2");
    let connection = tokio::spawn(connection);
    let asked = send.send_request(request("/memory/30000000").body(()).expect("valid"), true);
    let answer = Answer::read(asked.expect("open").0).await;
    assert_eq!(answer.map_err(|error| error.to_string()).map(|answer| answer.body.len()), Ok(30_000_000));
    drop(send);
    assert!(connection.await.expect("no panic").is_ok());
}

/// Connection that is read at 10 MB/s on average. After a delay on a busy machine the reader
/// catches up.
struct Slow {
    io: TcpStream,
    since: Instant,
    taken: u64,
    pause: Pin<Box<tokio::time::Sleep>>,
}

impl Slow {
    fn new(io: TcpStream) -> Self {
        Self { io, since: Instant::now(), taken: 0, pause: Box::pin(tokio::time::sleep(Duration::ZERO)) }
    }
}

impl AsyncRead for Slow {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        while self.since.elapsed().as_micros() as u64 * 10 < self.taken {
            std::task::ready!(self.pause.as_mut().poll(context));
            self.pause.as_mut().reset(tokio::time::Instant::now() + Duration::from_millis(5));
        }
        let mut bytes = [0; 60_000];
        let room = buffer.remaining().min(bytes.len());
        let mut some = ReadBuf::new(&mut bytes[..room]);
        std::task::ready!(Pin::new(&mut self.io).poll_read(context, &mut some))?;
        buffer.put_slice(some.filled());
        self.taken += some.filled().len() as u64;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Slow {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

/// Number of 120 kB replies that exceeds the kernel's buffers.
const SLOW_STREAMS: usize = 90;

#[tokio::test]
async fn rapid_resets_end_the_connection() {
    let server = Server::start();
    let mut client = H2Client::connect(&server).await;
    let mut refused = false;
    for _ in 0..50 {
        // All opened and reset in one flight, before the server can accept any.
        for _ in 0..100 {
            if poll_fn(|context| client.send.poll_ready(context)).await.is_err() {
                refused = true;
                break;
            }
            let Ok((_, mut body)) =
                client.send.send_request(request("/never").body(()).expect("valid"), false)
            else {
                refused = true;
                break;
            };
            body.send_reset(Reason::CANCEL);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(refused, "five thousand resets were borne");
    let error = client.connection.await.expect("no panic").expect_err("sent away");
    // The reset of the TCP connection may overtake GOAWAY.
    assert!(error.is_io() || error.reason() == Some(Reason::ENHANCE_YOUR_CALM), "{error}");
}
