//! Checks the memory of a connection with a task that waits for a request: no read buffer after any
//! kind of request.

use super::*;
use crate::StreamServer;
use crate::metrics::Metrics;
use crate::tests::handler::Scripted;
use shoal_settings::ClientLimits;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(super) async fn connection(server: &StreamServer<Scripted>) -> (Connection<TcpStream>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback is there");
    let address = listener.local_addr().expect("bound");
    let (far, near) = tokio::join!(TcpStream::connect(address), listener.accept());
    let client = Client {
        address,
        local: address,
        listener: 0,
        tls: false,
        server_name: None,
        certificate: None,
        intercepted: None,
    };
    let connection = Connection {
        socket: BufferedConnection::new(near.expect("accepted").0, Duration::from_secs(10)),
        live: server.0.live.load_full(),
        client: Arc::new(client),
        drain: server.0.drain.watch(),
        parser: HeadParser::new(),
        interim: Interim::default(),
        deferred: None,
        has_long_messages: false,
    };
    (connection, far.expect("connected"))
}

/// Answers one request.
async fn answer(connection: &mut Connection<TcpStream>, server: &StreamServer<Scripted>) {
    let next = match connection.next_head(&server.0, false).await {
        Ok(NextRequest::Head(received)) => connection.exchange(&server.0, received).await,
        Ok(NextRequest::Glanced(glanced, received)) => {
            connection.finish_glanced(&server.0, glanced, received).await
        }
        Err(_) => panic!("a request was sent"),
    };
    assert!(matches!(next, AfterReply::Keep), "the connection goes on");
}

/// Returns the capacity of the read buffer after a poll for the next request, which finds none.
async fn held(connection: &mut Connection<TcpStream>, server: &StreamServer<Scripted>) -> usize {
    let mut waiting = Box::pin(connection.next_head(&server.0, false));
    assert!(poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending())).await);
    drop(waiting);
    connection.socket.input.capacity()
}

#[tokio::test]
async fn a_connection_that_waits_holds_no_read_buffer() {
    let server =
        StreamServer::new(Arc::<Scripted>::default(), Arc::<Metrics>::default(), &ClientLimits::default());
    let with = |line: &str, more: &str| format!("{line} HTTP/1.1\r\nHost: a\r\n{more}\r\n");
    let large = |line: &str| with(line, &format!("X: {}\r\n", "x".repeat(12_000)));
    let body =
        |bytes: usize| with("POST /count", &format!("Content-Length: {bytes}\r\n")) + &"b".repeat(bytes);
    for (what, said, requests) in [
        ("nothing", String::new(), 0),
        ("a hit", with("GET /hit/1", ""), 1),
        ("a hit that is not sent at once", with("GET /hit/300000", ""), 1),
        ("an ordinary request", with("GET /memory/1", ""), 1),
        (
            "several in one packet",
            with("GET /hit/1", "") + &with("GET /memory/1", "") + &with("GET /hit/1", ""),
            3,
        ),
        ("a large head", large("GET /memory/1"), 1),
        ("a hit after a large head", large("GET /memory/1") + &with("GET /hit/1", ""), 2),
        ("a small body", body(10), 1),
        ("a large body", body(200_000), 1),
        ("a body that nobody wants", body(50_000).replace("/count", "/ignore"), 1),
    ] {
        let (mut connection, mut far) = connection(&server).await;
        let (mut replies, mut taken) = far.split();
        let serving = async {
            for _ in 0..requests {
                answer(&mut connection, &server).await;
            }
            held(&mut connection, &server).await
        };
        let mut reply = [0; 4096];
        let serving = async {
            tokio::select! {
                held = serving => held,
                () = async { while replies.read(&mut reply).await.is_ok() {} } => unreachable!("it stays open"),
            }
        };
        let (held, said) = tokio::join!(serving, taken.write_all(said.as_bytes()));
        said.expect("the server reads");
        assert_eq!(held, 0, "after {what}");
    }
    // Nor does a part of a head keep the buffer of messages.
    let (mut of_node, mut far) = connection(&server).await;
    of_node.has_long_messages = true;
    far.write_all(b"GET / HT").await.expect("it is open");
    tokio::time::sleep(Duration::from_millis(50)).await;
    let kept = held(&mut of_node, &server).await;
    assert!((8..=crate::socket::INPUT_BYTES).contains(&kept), "{kept} bytes");
    // A partial head is kept.
    let (mut connection, mut far) = connection(&server).await;
    far.write_all(b"GET / HT").await.expect("it is open");
    far.flush().await.expect("it is open");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(held(&mut connection, &server).await > 0);
}
