//! What gRPC asks of HTTP/2, passed on from both sides: heads that end a stream, trailers, streams
//! that flow both ways, resets.

use bytes::Bytes;
use h2::client::SendRequest;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use shoal_testkit::{Answer, Origin, Setup, Shoal};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A site of which `origin` is the upstream, over HTTP/2 without TLS.
fn before(origin: SocketAddr) -> Shoal {
    Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .site(&format!("hosts = ['*']\nupstreams = [{{ url = 'http://{origin}', h2c = true }}]\n"))
        .start()
}

/// A client's connection.
async fn connect(shoal: &Shoal) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(shoal.address("reverse")).await.expect("the server accepts");
    let (sender, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    sender
}

/// An origin that hands every request to `answer`.
async fn origin<F>(
    answer: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> F + Send + 'static,
) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback address");
    let address = listener.local_addr().expect("a bound socket");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
            while let Some(Ok((request, respond))) = connection.accept().await {
                tokio::spawn(answer(request, respond));
            }
        }
    });
    address
}

fn call(method: &str, path: &str) -> Request<()> {
    let uri = format!("http://site.test{path}");
    let request = Request::builder().method(method).uri(uri).header("te", "trailers");
    request.header("content-type", "application/grpc").body(()).expect("a request")
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("it comes in time")
}

/// The response to a request without a body, once its head is there.
async fn ask(sender: &SendRequest<Bytes>, request: Request<()>) -> Response<RecvStream> {
    let mut sender = sender.clone().ready().await.expect("the connection takes streams");
    let (response, _) = sender.send_request(request, true).expect("a stream");
    in_time(response).await.expect("a head")
}

/// A client of gRPC takes an empty frame of data after a head with `grpc-status` for a response
/// without trailers.
#[tokio::test(flavor = "multi_thread")]
async fn head_that_ends_the_stream_leaves_as_such() {
    let (http1, http2) = (Origin::start(), Origin::start_h2c());
    for origin in [&http1, &http2] {
        origin.on("/call", Answer::new(200).field("grpc-status", "12"));
        origin.on("/kept", Answer::new(200).field("grpc-status", "12").field("cache-control", "max-age=60"));
        origin.on("/empty", Answer::new(204).field("grpc-status", "12"));
    }
    let over_http1 = Setup::to(&http1).start();
    for (name, shoal) in [("http/1.1", &over_http1), ("h2c", &before(http2.address()))] {
        let sender = connect(shoal).await;
        let asked =
            [("POST", "/call"), ("GET", "/call"), ("GET", "/kept"), ("GET", "/kept"), ("GET", "/empty")];
        for (method, path) in asked {
            let response = ask(&sender, call(method, path)).await;
            assert_eq!(response.headers()["grpc-status"], "12", "{name} {method} {path}");
            assert!(response.body().is_end_stream(), "{name} {method} {path}: {:?}", response.headers());
        }
    }
}

/// Half of a stream that is begun, and the head that answers it.
async fn begin(
    sender: &SendRequest<Bytes>,
    request: Request<()>,
) -> (h2::client::ResponseFuture, SendStream<Bytes>) {
    let mut sender = sender.clone().ready().await.expect("the connection takes streams");
    sender.send_request(request, false).expect("a stream")
}

async fn next(body: &mut RecvStream) -> Option<Bytes> {
    let data = in_time(body.data()).await?.expect("data");
    body.flow_control().release_capacity(data.len()).expect("received");
    Some(data)
}

fn fields(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &str)| {
        (http::HeaderName::from_static(name), value.parse().expect("a field value"))
    };
    pairs.iter().map(pair).collect()
}

/// Answers with a head, then with each piece of the request as it comes, then with the trailers
/// that came.
async fn echo(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let (head, mut body) = request.into_parts();
    let mut response = Response::new(());
    response.headers_mut().extend(
        head.headers
            .iter()
            .filter(|(name, _)| name.as_str().starts_with("x-"))
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    response.headers_mut().insert("te-was", head.headers["te"].clone());
    let mut stream = respond.send_response(response, false).expect("an open stream");
    while let Some(data) = next(&mut body).await {
        stream.send_data(data, false).expect("an open stream");
    }
    let trailers =
        body.trailers().await.expect("an open stream").unwrap_or_else(|| fields(&[("grpc-status", "0")]));
    stream.send_trailers(trailers).expect("an open stream");
}

/// Trailers after a head that announces no bytes pass, also where the response may be stored, and
/// for those who share it.
#[tokio::test(flavor = "multi_thread")]
async fn trailers_of_an_empty_stored_body_pass() {
    let origin = Origin::start_h2c();
    let answer = Answer::ok("").field("content-length", "0").field("cache-control", "max-age=60");
    origin.on("/a", answer.trailer("x-sum", "42"));
    let shoal = before(origin.address());
    let mut body = ask(&connect(&shoal).await, call("GET", "/a")).await.into_body();
    while let Some(data) = next(&mut body).await {
        assert!(data.is_empty(), "{data:?}");
    }
    let trailers = in_time(body.trailers()).await.expect("an open stream").expect("trailers");
    assert_eq!(trailers["x-sum"], "42");
    assert_eq!(origin.count("/a"), 1);
}

/// A stream's parts pass one by one, in either direction, while the other is open: none waits for
/// another.
#[tokio::test(flavor = "multi_thread")]
async fn stream_flows_both_ways_at_once() {
    let shoal = before(origin(echo).await);
    let sender = connect(&shoal).await;
    let large = "m".repeat(8000);
    let mut request = call("POST", "/echo");
    request.headers_mut().insert("x-large-bin", large.parse().expect("a field value"));
    let (response, mut stream) = begin(&sender, request).await;
    let response = in_time(response).await.expect("a head before the request's body");
    assert_eq!(
        (&response.headers()["x-large-bin"], &response.headers()["te-was"]),
        (&large.parse().expect("a field value"), &"trailers".parse().expect("a field value"))
    );
    let mut body = response.into_body();
    for piece in ["a", "bc", "d"] {
        stream.send_data(piece.into(), false).expect("an open stream");
        assert_eq!(next(&mut body).await.expect("it comes back"), piece);
    }
    stream.send_trailers(fields(&[("grpc-status", "7"), ("x-details-bin", &large)])).expect("an open stream");
    assert_eq!(next(&mut body).await, None);
    let trailers = in_time(body.trailers()).await.expect("an open stream").expect("trailers");
    assert_eq!(
        (&trailers["grpc-status"], trailers["x-details-bin"].len()),
        (&"7".parse().expect("a field value"), large.len())
    );
}

/// gRPC has an empty frame of data end a request without messages, and there are servers that wait
/// for it for ever.
#[tokio::test(flavor = "multi_thread")]
async fn request_without_bytes_ends_as_the_client_ends_it() {
    let how = |request: Request<RecvStream>, respond: SendResponse<Bytes>| async move {
        let ends = if request.body().is_end_stream() { "head" } else { "data" };
        let (mut head, body) = request.into_parts();
        head.headers.insert("x-ends-with", http::HeaderValue::from_static(ends));
        echo(Request::from_parts(head, body), respond).await;
    };
    let shoal = before(origin(how).await);
    let sender = connect(&shoal).await;
    for (method, ends) in [("POST", "data"), ("POST", "head"), ("PUT", "data"), ("GET", "head")] {
        let mut sender = sender.clone().ready().await.expect("the connection takes streams");
        let (response, mut stream) =
            sender.send_request(call(method, "/echo"), ends == "head").expect("a stream");
        if ends == "data" {
            stream.send_data(Bytes::new(), true).expect("an open stream");
        }
        let response = in_time(response).await.expect("a head");
        assert_eq!(response.headers()["x-ends-with"], ends, "{method}");
        let mut body = response.into_body();
        assert_eq!(next(&mut body).await, None);
        let trailers = in_time(body.trailers()).await.expect("an open stream").expect("trailers");
        assert_eq!(trailers["grpc-status"], "0");
    }
}

/// What a client gives up, the origin is told to give up.
#[tokio::test(flavor = "multi_thread")]
async fn reset_reaches_the_origin() {
    let (told, mut resets) = mpsc::unbounded_channel();
    let answering = move |request: Request<RecvStream>, mut respond: SendResponse<Bytes>| {
        let told = told.clone();
        async move {
            // Nobody reads the request's body, but to drop it would reset the stream.
            let (head, _body) = request.into_parts();
            told.send(None).expect("the test waits");
            let reset = if head.uri.path() == "/before" {
                poll_fn(|context| respond.poll_reset(context)).await
            } else {
                let mut stream = respond.send_response(Response::new(()), false).expect("an open stream");
                poll_fn(|context| stream.poll_reset(context)).await
            };
            told.send(Some(reset.expect("a reset"))).expect("the test waits");
        }
    };
    let shoal = before(origin(answering).await);
    let sender = connect(&shoal).await;
    for (path, has_body) in [("/before", false), ("/before", true), ("/after", false), ("/after", true)] {
        let mut sender = sender.clone().ready().await.expect("the connection takes streams");
        let (response, mut stream) = sender.send_request(call("POST", path), !has_body).expect("a stream");
        assert_eq!(in_time(resets.recv()).await, Some(None), "the origin is asked for {path}");
        if path == "/after" {
            in_time(response).await.expect("a head");
        }
        stream.send_reset(Reason::CANCEL);
        assert_eq!(in_time(resets.recv()).await, Some(Some(Reason::CANCEL)), "{path} {has_body}");
    }
}
