//! Two nodes in one process call each other.

use crate::node::Node;
use bytes::Bytes;
use shoal_cluster::{CALL_BYTES_MAX, CallError, CallFuture, Caller, PeerService};
use shoal_settings::{Listen, Settings};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Echo;

impl PeerService for Echo {
    fn answer(&self, from: Caller, name: &str, body: Bytes) -> CallFuture<'_> {
        let (name, from) = (name.to_owned(), from.address.ip());
        Box::pin(async move {
            match &*name {
                "echo/refuse" => Err(CallError::Refused("not today".into())),
                "echo/silence" => std::future::pending().await,
                _ => Ok([format!("{from} ").as_bytes(), &body].concat().into()),
            }
        })
    }
}

fn address(ip: [u8; 4]) -> SocketAddr {
    TcpListener::bind((std::net::IpAddr::from(ip), 0)).expect("loopback").local_addr().expect("bound")
}

fn node(own: SocketAddr, others: &[SocketAddr]) -> Node {
    let mut settings = Settings { workers: 1, ..Settings::default() };
    settings.listen = vec![Listen::forward(([127, 0, 0, 1], 0).into())];
    settings.store.directory = Default::default();
    settings.log.access = "none".into();
    settings.cluster.name = "prod".into();
    settings.cluster.peer = Some(own);
    settings.cluster.join = others.iter().map(SocketAddr::to_string).collect();
    settings.cluster.peer_timeout = Duration::from_secs(5);
    Node::start(settings).expect("the node starts")
}

/// Sends bytes to a listener and returns the bytes that come back.
fn exchange(to: SocketAddr, sent: &str) -> String {
    let mut stream = TcpStream::connect(to).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    stream.write_all(sent.as_bytes()).expect("it reads");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn calls_reach_their_service_with_their_sender() {
    let (one, other) = (address([127, 77, 0, 1]), address([127, 77, 0, 2]));
    let nodes = [node(one, &[other]), node(other, &[one])];
    nodes[1].cluster().expect("a cluster").services().add("echo/", Arc::new(Echo));
    let members = || nodes[1].cluster().expect("a cluster").members();
    let began = std::time::Instant::now();
    while !members().has_address(one.ip()) {
        assert!(began.elapsed() < Duration::from_secs(60), "the nodes know each other");
        std::thread::sleep(Duration::from_millis(10));
    }
    let calls = nodes[0].cluster().expect("a cluster").calls();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let call = |name, body: Bytes| runtime.block_on(calls.call(other, name, body));
    let start = Instant::now();
    while call("echo/say", Bytes::new()).is_err() {
        assert!(start.elapsed() < Duration::from_secs(60), "the nodes never know each other");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(call("echo/say", "hello".into()), Ok(Bytes::from("127.77.0.1 hello")));
    assert_eq!(call("echo/say", Bytes::new()), Ok(Bytes::from("127.77.0.1 ")));
    let large = vec![b'x'; CALL_BYTES_MAX - 20];
    assert_eq!(call("echo/say", large.clone().into()).map(|answer| answer.len()), Ok(large.len() + 11));
    assert_eq!(call("echo/refuse", Bytes::new()), Err(CallError::Refused("not today".into())));
    assert_eq!(call("other/say", Bytes::new()), Err(CallError::Unknown));
    // The nodes compare their purges too.
    assert!(nodes[1].metrics().cluster_calls.value() >= 3);
    assert!(matches!(call("echo/silence", Bytes::new()), Err(CallError::Unreachable(_))));
    let gone = address([127, 77, 0, 3]);
    assert!(matches!(
        runtime.block_on(calls.call(gone, "echo/say", Bytes::new())),
        Err(CallError::Unreachable(_))
    ));
    nodes.iter().for_each(|node| node.drain(Duration::ZERO));
}

#[test]
fn others_are_refused_and_counted() {
    let own = address([127, 77, 0, 4]);
    let node = node(own, &[]);
    node.cluster().expect("a cluster").services().add("echo/", Arc::new(Echo));
    let close = "Host: a.test\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    for (request, status) in [
        ("POST /shoal/echo/say HTTP/1.1\r\n", 403),
        ("GET / HTTP/1.1\r\n", 404),
        ("GET http://a.test/ HTTP/1.1\r\n", 404),
        ("GET /shoal/echo/say HTTP/1.1\r\n", 404),
        ("POST http://a.test/shoal/echo/say HTTP/1.1\r\n", 404),
    ] {
        // This test's own address is no member's.
        let answer = exchange(own, &format!("{request}{close}"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
    }
    let metrics = node.metrics();
    assert_eq!((metrics.cluster_no_member.value(), metrics.cluster_malformed.value()), (1, 4));
    assert_eq!(metrics.requests.value(), 0, "clients' requests alone");
    node.drain(Duration::ZERO);
}
