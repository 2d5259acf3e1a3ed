//! What gRPC asks of HTTP/2, passed on from both sides: heads that end a stream, trailers, streams that flow both ways, resets.

use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use http::{Request, Response};
use shoal_testkit::{Answer, Origin, Setup, Shoal};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;

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

/// A client of gRPC takes an empty frame of data after a head with `grpc-status` for a response without trailers.
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
