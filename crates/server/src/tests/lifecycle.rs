//! Tests of starting, limiting, draining and reloading.

use super::{Server, client::Client, handler::Scripted, wait_until};
use crate::bind;
use crate::metrics::Metrics;
use shoal_settings::{Listen, Settings};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[test]
fn nothing_starts_unless_every_address_can_be_bound() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let free = Listen::forward(([127, 0, 0, 1], 0).into());
    let busy = Listen::forward(taken.local_addr().expect("bound"));
    let settings = Settings { workers: 2, listen: vec![free, busy], ..Settings::default() };
    let error = bind(&settings).err().expect("one address is taken");
    assert!(error.to_string().contains(&taken.local_addr().expect("bound").to_string()), "{error}");
}

#[test]
fn each_worker_calls_the_hook_in_its_runtime() {
    let mut settings = Settings { workers: 3, ..Settings::default() };
    settings.listen = vec![Listen::forward(([127, 0, 0, 1], 0).into())];
    let bound = bind(&settings).expect("loopback is there");
    assert_eq!((bound.workers(), bound.addresses().len()), (3, 1));
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&seen);
    let hook = move |number: usize| {
        let counter = Arc::clone(&counter);
        tokio::spawn(async move { counter.fetch_add(number + 1, Ordering::SeqCst) });
    };
    let running = bound.start(Arc::new(Scripted::default()), Arc::<Metrics>::default(), hook);
    let running = running.expect("threads start");
    wait_until("the hooks", || seen.load(Ordering::SeqCst) == 6);
    running.stop(Duration::ZERO);
}

#[test]
fn connections_beyond_the_limit_wait() {
    let server = Server::with(|settings| settings.max_connections = 2);
    let mut first = server.connect();
    let mut second = server.connect();
    first.get("/memory/1");
    second.get("/memory/1");
    let mut third = server.connect();
    third.send("GET /memory/3 HTTP/1.1\r\nHost: a\r\n\r\n");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(server.metrics.connections.value(), 2);
    assert!(server.metrics.connections_full.value() > 0);
    drop(first);
    assert_eq!(third.response().text(), "mmm");
    assert_eq!(second.get("/memory/1").text(), "m");
}

#[test]
fn drain_finishes_current_requests() {
    let mut server = Server::start();
    let mut idle = server.connect();
    idle.get("/memory/1");
    let mut busy = server.connect();
    busy.send("GET /waits HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the request", || server.handler.begun.load(Ordering::SeqCst) == 2);
    let address = server.address();
    let running = server.running.take().expect("running");
    running.drain(Duration::from_secs(20));
    assert_eq!(idle.rest(), b"", "idle connections end at once");
    wait_until("the listeners' end", || std::net::TcpStream::connect(address).is_err());
    server.handler.gate.notify_one();
    let response = busy.response();
    assert_eq!((response.text(), response.field("connection")), ("waited", Some("close")));
    let start = Instant::now();
    running.join();
    assert!(start.elapsed() < Duration::from_secs(10), "the workers waited for nothing");
}

#[test]
fn draining_cuts_at_the_deadline() {
    let mut server = Server::start();
    let mut client = server.connect();
    client.send("GET /gated HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head();
    let running = server.running.take().expect("running");
    running.stop(Duration::from_millis(100));
    assert_eq!(client.rest(), b"7\r\nbefore,\r\n");
    let records = server.handler.records.lock();
    assert_eq!((records.len(), records[0].aborted), (1, true));
}

#[test]
fn a_reload_changes_limits_for_new_connections() {
    let server = Server::start();
    let mut settings = Settings::default();
    settings.client.target_max = shoal_core::ByteCount(256);
    let long = format!("/memory/1?{}", "x".repeat(300));
    let mut old = server.connect();
    assert_eq!(old.get(&long).status(), 200);
    server.running().reloader().reload(&settings).expect("nothing to read");
    assert_eq!(server.connect().get(&long).status(), 414);
    assert_eq!(old.get(&long).status(), 200);
}

#[test]
fn the_client_is_told_apart_by_listener() {
    let server = Server::with(|settings| settings.listen.push(Listen::forward(([127, 0, 0, 1], 0).into())));
    for (index, address) in server.running().addresses().iter().enumerate() {
        let mut client = Client::connect(*address);
        let seen = client.get("/client");
        let expected = format!(
            "Client {{ address: {}, local: {address}, listener: {index}, tls: false, server_name: None, certificate: None, intercepted: None }}",
            client.stream.local_addr().expect("connected")
        );
        assert_eq!(seen.text(), expected);
    }
}

/// An HTTP/1.0 client takes the end of the connection as the end of a stream, and would not notice
/// a cut.
#[test]
fn http_1_0_stream_cut_at_deadline_is_reset() {
    let mut server = Server::start();
    let mut client = server.connect();
    client.send("GET /gated HTTP/1.0\r\n\r\n");
    client.head();
    assert_eq!(client.exactly(7), b"before,");
    server.running.take().expect("running").stop(Duration::ZERO);
    assert!(client.ends_in_reset());
}
