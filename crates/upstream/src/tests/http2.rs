//! HTTP/2 to origins: by prior knowledge and by ALPN.

use super::*;
use h2::Reason;
use h2::server::{Connection, SendResponse};
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};

type Incoming = (Request<h2::RecvStream>, SendResponse<Bytes>);

/// Serves the requests of one connection, each in a task.
async fn serve<F>(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, each: impl Fn(Incoming) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let Ok(mut connection): Result<Connection<_, Bytes>, _> = h2::server::handshake(stream).await else {
        return;
    };
    while let Some(Ok(request)) = connection.accept().await {
        tokio::spawn(each(request));
    }
}

/// Starts an h2c origin that counts its connections.
async fn h2c_origin<F>(
    each: impl Fn(Incoming) -> F + Copy + Send + Sync + 'static,
) -> (SocketAddr, Arc<AtomicUsize>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            count.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(serve(stream, each));
        }
    });
    (address, connections)
}

async fn reply(mut respond: SendResponse<Bytes>, text: &'static str) {
    let mut stream = respond.send_response(Response::new(()), false).expect("an open stream");
    stream.send_data(Bytes::from_static(text.as_bytes()), true).expect("an open stream");
}

fn h2c(address: SocketAddr) -> Asker {
    Asker::with(address, Scheme::H2c, |_| ())
}

#[tokio::test]
async fn many_requests_share_one_connection() {
    let (address, connections) = h2c_origin(|(request, respond)| async move {
        assert_eq!(request.version(), http::Version::HTTP_2);
        tokio::time::sleep(Duration::from_millis(20)).await;
        reply(respond, "ok").await;
    })
    .await;
    let asker = Arc::new(h2c(address));
    let mut requests = tokio::task::JoinSet::new();
    for number in 0..20 {
        let asker = Arc::clone(&asker);
        requests.spawn(async move { asker.get_whole(&format!("/{number}")).await });
    }
    for outcome in requests.join_all().await {
        assert_eq!(outcome, (200, "ok".into()));
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
    assert_eq!(asker.metrics.upstream_reused.value(), 19);
}

#[tokio::test]
async fn https_negotiates_http2() {
    let acceptor = super::tls::acceptor("127.0.0.1", true, &["h2", "http/1.1"]);
    let address = super::tls::origin(acceptor, |stream| {
        serve(stream, |(request, respond)| async move {
            assert_eq!(request.uri().scheme_str(), Some("https"));
            assert!(!request.headers().contains_key("host"));
            reply(respond, "ok").await;
        })
    })
    .await;
    let asker = super::tls::trusting(address);
    let response = asker.get("/a?b").await.expect("a response");
    assert_eq!(response.version, http::Version::HTTP_2);
    assert_eq!(whole(response).await.expect("whole"), "ok");
}

#[tokio::test]
async fn options_of_the_whole_server() {
    let (address, _) = h2c_origin(|(request, respond)| async move {
        assert_eq!((request.method(), request.uri().path()), (&Method::OPTIONS, "*"));
        reply(respond, "ok").await;
    })
    .await;
    let asker = h2c(address);
    let response = asker.upstreams.fetch(asker.request(Method::OPTIONS, "*")).await.expect("a response");
    assert_eq!(whole(response).await.expect("whole"), "ok");
}

#[tokio::test]
async fn heads_interim_responses_and_trailers_pass() {
    let (address, _) = h2c_origin(|(request, mut respond)| async move {
        let uri = request.uri();
        assert_eq!((uri.authority().map(|a| a.as_str()), uri.path()), (Some("site.example:81"), "/a"));
        let hints = Response::builder().status(103).header("link", "</a>").body(()).expect("a head");
        respond.send_informational(hints).expect("an open stream");
        let mut body = request.into_body();
        let mut received = 0;
        while let Some(data) = body.data().await {
            let data = data.expect("data");
            received += data.len();
            body.flow_control().release_capacity(data.len()).expect("received");
        }
        let trailers = body.trailers().await.expect("an open stream").expect("trailers");
        let head = Response::builder().header("x-received", received).body(()).expect("a head");
        let mut stream = respond.send_response(head, false).expect("an open stream");
        stream.send_data("ok".into(), false).expect("an open stream");
        stream.send_trailers(trailers).expect("an open stream");
    })
    .await;
    let asker = h2c(address);
    let (sink, mut interim) = tokio::sync::mpsc::channel(4);
    let trailers: HeaderMap =
        [("x-sum".parse().expect("a name"), HeaderValue::from_static("9"))].into_iter().collect();
    // Four times the initial window, so that the origin's flow control sets the pace.
    let data = Full::new(Bytes::from(vec![b'x'; 262_140])).map_err(|never| match never {});
    let request = UpstreamRequest {
        host: Some(HeaderValue::from_static("site.example:81")),
        interim: Some(sink),
        body: Some(data.with_trailers(async move { Some(Ok(trailers)) }).boxed_unsync()),
        ..asker.request(Method::PUT, "/a")
    };
    let response = asker.upstreams.fetch(request).await.expect("a response");
    assert_eq!(response.fields.to_map()["x-received"], "262140");
    let collected = response.body.collect().await.expect("whole");
    assert_eq!(collected.trailers().expect("trailers")["x-sum"], "9");
    let (status, fields) = interim.recv().await.expect("the 103");
    assert_eq!((status.as_u16(), &fields["link"]), (103, &HeaderValue::from_static("</a>")));
}

#[tokio::test]
async fn a_large_body_comes_through_the_windows() {
    let (address, _) = h2c_origin(|(_, mut respond)| async move {
        let mut stream = respond.send_response(Response::new(()), false).expect("an open stream");
        for _ in 0..64 {
            stream.reserve_capacity(65_536);
            let mut left = 65_536;
            while left > 0 {
                let capacity = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
                let part = capacity.expect("open").expect("open").min(left);
                stream.send_data(Bytes::from(vec![b'y'; part]), false).expect("capacity");
                left -= part;
            }
        }
        stream.send_data(Bytes::new(), true).expect("an open stream");
    })
    .await;
    assert_eq!(h2c(address).get_whole("/").await.1.len(), 64 * 65_536);
}

/// Unread responses wait in their own streams' windows.
#[tokio::test]
async fn responses_that_nobody_reads_leave_room_for_others() {
    let (address, connections) = h2c_origin(|(_, mut respond)| async move {
        let mut stream = respond.send_response(Response::new(()), false).expect("an open stream");
        // The data is queued here and sent as the windows allow.
        stream.send_data(Bytes::from(vec![b'z'; 1 << 20]), true).expect("an open stream");
        std::future::poll_fn(|cx| stream.poll_reset(cx)).await.ok();
    })
    .await;
    let asker = h2c(address);
    asker.get_whole("/").await;
    let mut unread = Vec::new();
    for _ in 0..16 {
        unread.push(asker.get("/").await.expect("a head"));
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(asker.get_whole("/").await.1.len(), 1 << 20);
    assert_eq!(connections.load(Ordering::Relaxed), 1);
    drop(unread);
}

/// RFC 9113, 5.1.2: "An endpoint ... MUST NOT exceed the limit set by their peer". A request that
/// would have to wait for a stream takes another connection.
#[tokio::test]
async fn connection_without_streams_gets_a_second_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            tokio::spawn(async move {
                let mut builder = h2::server::Builder::new();
                builder.max_concurrent_streams(1);
                let mut connection: Connection<_, Bytes> = builder.handshake(stream).await.expect("HTTP/2");
                while let Some(Ok((request, respond))) = connection.accept().await {
                    tokio::spawn(async move {
                        if request.uri().path() == "/slow" {
                            tokio::time::sleep(Duration::from_millis(300)).await;
                        }
                        reply(respond, "ok").await;
                    });
                }
            });
        }
    });
    let asker = Arc::new(Asker::with(address, Scheme::H2c, |upstream| {
        upstream.first_byte_timeout = Duration::from_secs(5);
    }));
    asker.get_whole("/").await;
    let slow = tokio::spawn({
        let asker = Arc::clone(&asker);
        async move { asker.get_whole("/slow").await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    asker.get_whole("/").await;
    assert!(!slow.is_finished(), "it did not wait for the other");
    assert_eq!(slow.await.expect("no panic"), (200, "ok".into()));
}

#[tokio::test]
async fn streams_that_fail() {
    for (reason, cause) in [
        (Reason::INTERNAL_ERROR, Cause::Terminated),
        (Reason::PROTOCOL_ERROR, Cause::Malformed),
        (Reason::REFUSED_STREAM, Cause::Terminated),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("a connection");
            serve(stream, |(_, mut respond)| async move { respond.send_reset(reason) }).await;
        });
        let error = h2c(address).get("/").await.map(drop).expect_err("reset");
        assert_eq!(error.cause, cause, "{error}");
    }
}

#[tokio::test]
async fn refused_stream_is_retried_for_any_method() {
    static REQUESTS: AtomicUsize = AtomicUsize::new(0);
    let (address, connections) = h2c_origin(|(_, mut respond)| async move {
        match REQUESTS.fetch_add(1, Ordering::Relaxed) {
            1 => respond.send_reset(Reason::REFUSED_STREAM),
            _ => reply(respond, "ok").await,
        }
    })
    .await;
    let asker = h2c(address);
    asker.get_whole("/").await;
    let response = asker.upstreams.fetch(asker.request(Method::POST, "/")).await.expect("a response");
    assert_eq!(whole(response).await.expect("whole"), "ok");
    assert_eq!((connections.load(Ordering::Relaxed), asker.metrics.upstream_retries.value()), (2, 1));
}

#[tokio::test]
async fn bodies_that_fail() {
    let (address, _) = h2c_origin(|(request, mut respond)| async move {
        let head = Response::builder().header("content-length", 10).body(()).expect("a head");
        let mut stream = respond.send_response(head, false).expect("an open stream");
        let whole = request.uri().path() == "/short";
        stream.send_data("01234".into(), whole).expect("an open stream");
        // Data queued at the reset of a stream is not sent.
        tokio::time::sleep(Duration::from_millis(20)).await;
        match request.uri().path() {
            "/reset" => stream.send_reset(Reason::CANCEL),
            "/stall" => std::future::pending().await,
            _ => {}
        }
    })
    .await;
    let asker = h2c(address);
    let mut outcomes = Vec::new();
    for path in ["/short", "/reset", "/stall"] {
        outcomes.push(whole(asker.get(path).await.expect("a head")).await);
    }
    assert!(
        matches!(
            &outcomes[..],
            [Err(BodyError::Malformed(_)), Err(BodyError::Reset(8)), Err(BodyError::Timeout)]
        ),
        "{outcomes:?}"
    );
}

#[tokio::test]
async fn an_origin_that_speaks_something_else() {
    let origin = RawOrigin::start(vec![vec![Say("HTTP/1.1 400 Bad Request\r\n\r\n"), Hang]]).await;
    let error = h2c(origin.address).get("/").await.map(drop).expect_err("no HTTP/2");
    assert_eq!((&error.cause, error.status().as_u16()), (&Cause::Malformed, 502), "{error}");
    let origin = RawOrigin::start(vec![vec![Hang]]).await;
    let error = h2c(origin.address).get("/").await.map(drop).expect_err("no HTTP/2");
    assert_eq!(error.cause, Cause::ResponseTimeout, "{error}");
}

#[tokio::test]
async fn idle_is_closed_dropped_request_leaves_it_open() {
    let (address, connections) = h2c_origin(|(request, respond)| async move {
        if request.uri().path() == "/slow" {
            std::future::pending::<()>().await;
        }
        reply(respond, "ok").await;
    })
    .await;
    let asker =
        Asker::with(address, Scheme::H2c, |upstream| upstream.keep_alive = Duration::from_millis(100));
    asker.get_whole("/").await;
    let slow = tokio::time::timeout(Duration::from_millis(20), asker.get("/slow")).await;
    assert!(slow.is_err(), "given up by the caller");
    asker.get_whole("/").await;
    assert_eq!(connections.load(Ordering::Relaxed), 1);
    eventually("the connection is closed", || asker.metrics.upstream_connections.value() == 0).await;
    asker.get_whole("/").await;
    assert_eq!(connections.load(Ordering::Relaxed), 2);
}
