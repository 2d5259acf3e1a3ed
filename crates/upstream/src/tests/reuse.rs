//! Tests of kept connections: reused, replaced when dead, bounded, and never poisoned.

use super::*;
use std::io::{Read as _, Write as _};
use std::sync::mpsc;

#[tokio::test]
async fn one_connection_carries_many_requests() {
    let origin = RawOrigin::start(vec![[Read, Say(OK)].repeat(5)]).await;
    let asker = Asker::new(&origin);
    for number in 0..5 {
        assert_eq!(asker.get_whole(&format!("/{number}")).await, (200, "ok".into()));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!((origin.connections(), origin.requests().len()), (1, 5));
    assert_eq!((asker.metrics.upstream_reused.value(), asker.metrics.upstream_opened.value()), (4, 1));
}

/// Sends two requests. The origin plays `second` when the second request arrives.
async fn second_request(
    second: Vec<Step>,
    request: impl FnOnce(&Asker) -> UpstreamRequest,
) -> (Result<u16, Cause>, usize, u64) {
    let first = [vec![Read, Say(OK)], second].concat();
    let origin = RawOrigin::start(vec![first, vec![Read, Say(OK)]]).await;
    let asker = Asker::new(&origin);
    asker.get_whole("/").await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let outcome = asker.upstreams.fetch(request(&asker)).await;
    let outcome = outcome.map(|response| response.status.as_u16()).map_err(|error| error.cause);
    (outcome, origin.connections(), asker.metrics.upstream_retries.value())
}

#[tokio::test]
async fn dead_kept_connection_is_replaced_if_safe() {
    let get = |asker: &Asker| asker.request(Method::GET, "/");
    let post = |asker: &Asker| asker.request(Method::POST, "/");
    let put = |asker: &Asker| UpstreamRequest { body: body("data"), ..asker.request(Method::PUT, "/") };
    let delete = |asker: &Asker| asker.request(Method::DELETE, "/");

    assert_eq!(second_request(vec![Read], get).await, (Ok(200), 2, 1));
    assert_eq!(second_request(vec![ReadHead, Reset], get).await, (Ok(200), 2, 1));
    assert_eq!(second_request(vec![Read], delete).await, (Ok(200), 2, 1));
    // Not idempotent: the origin may have acted on the request.
    assert_eq!(second_request(vec![Read], post).await, (Err(Cause::Terminated), 1, 0));
    // The body has been sent.
    assert_eq!(second_request(vec![Read], put).await, (Err(Cause::Terminated), 1, 0));
    // The origin began to answer.
    let partial = vec![Read, Say("HTTP/1.1 200")];
    assert_eq!(second_request(partial, get).await, (Err(Cause::Incomplete), 1, 0));
    let interim = vec![Read, Say("HTTP/1.1 103 Early Hints\r\n\r\n")];
    assert_eq!(second_request(interim, get).await, (Err(Cause::Incomplete), 1, 0));
    // A silent connection is not dead.
    assert_eq!(second_request(vec![Read, Hang], get).await, (Err(Cause::ResponseTimeout), 1, 0));
}

#[tokio::test]
async fn a_fresh_connection_that_dies_is_not_replaced() {
    let origin = RawOrigin::start(vec![vec![Read]]).await;
    let asker = Asker::new(&origin);
    assert!(asker.get("/").await.is_err());
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn a_connection_that_closed_while_kept_is_not_used() {
    let origin = RawOrigin::start(vec![vec![Read, Say(OK)], vec![Read, Say(OK)]]).await;
    let asker = Asker::new(&origin);
    asker.get_whole("/").await;
    asker.has_closed().await;
    // Not idempotent, but safe: the request is never sent on the dead connection.
    let response = asker.upstreams.fetch(asker.request(Method::POST, "/")).await.expect("a response");
    assert_eq!(response.status, 200);
    assert_eq!(asker.metrics.upstream_retries.value(), 0);
}

/// The end of the connection has arrived, but the runtime has not reported it.
#[tokio::test]
async fn post_avoids_a_connection_that_just_ended() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let ((end, is_wanted), (ended, has_ended)) = (mpsc::channel(), mpsc::channel());
    let origin = std::thread::spawn(move || {
        let answer = || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("a request");
                head.extend(byte);
            }
            stream.write_all(OK.as_bytes()).expect("it is read");
            stream
        };
        let first = answer();
        is_wanted.recv().expect("it is said");
        drop(first);
        ended.send(()).expect("it is waited for");
        drop(answer());
    });
    let asker = Asker::with(address, Scheme::Http, |_| ());
    asker.get_whole("/").await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    end.send(()).expect("the origin waits");
    // Blocks everything else on this thread.
    has_ended.recv().expect("it has");
    let response = asker.upstreams.fetch(asker.request(Method::POST, "/")).await.expect("a response");
    assert_eq!(response.status, 200);
    origin.join().expect("no panic");
}

#[tokio::test]
async fn bytes_after_a_response_end_the_connection() {
    let poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
    for first in [
        vec![Read, Say(made(format!("{OK}{poison}"))), Hang],
        vec![Read, Say(OK), Wait(10), Say(poison), Hang],
    ] {
        let origin = RawOrigin::start(vec![first, vec![Read, Say(OK)]]).await;
        let asker = Asker::new(&origin);
        assert_eq!(asker.get_whole("/").await, (200, "ok".into()));
        asker.has_closed().await;
        assert_eq!(asker.get_whole("/").await, (200, "ok".into()));
        assert_eq!(origin.connections(), 2);
    }
    // An answer to HEAD with a body.
    let origin = RawOrigin::start(vec![vec![Read, Say(OK), Hang], vec![Read, Say(OK)]]).await;
    let asker = Asker::new(&origin);
    let head = asker.upstreams.fetch(asker.request(Method::HEAD, "/")).await.expect("a response");
    assert_eq!((head.length, whole(head).await.expect("nothing")), (Some(0), String::new()));
    asker.has_closed().await;
    assert_eq!(asker.get_whole("/").await, (200, "ok".into()));
    assert_eq!(origin.connections(), 2);
}

const POISON: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";

/// The surplus arrives while nobody runs the keeper, and looks like a response.
#[tokio::test]
async fn unreported_surplus_is_never_a_response() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let ((go, is_wanted), (sent, was_sent)) = (mpsc::channel(), mpsc::channel());
    let origin = std::thread::spawn(move || {
        let answer = || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("a request");
                head.extend(byte);
            }
            stream.write_all(OK.as_bytes()).expect("it is read");
            stream
        };
        let mut first = answer();
        is_wanted.recv().expect("it is said");
        first.write_all(POISON.as_bytes()).expect("it is read");
        sent.send(()).expect("it is waited for");
        drop(answer());
        drop(first);
    });
    let asker = Asker::with(address, Scheme::Http, |_| ());
    asker.get_whole("/").await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    go.send(()).expect("the origin waits");
    // Blocks everything else on this thread.
    was_sent.recv().expect("it has");
    // Even a POST is safe: it was not sent on the connection with the surplus.
    let response = asker.upstreams.fetch(asker.request(Method::POST, "/")).await.expect("a response");
    assert_eq!((response.status.as_u16(), whole(response).await.expect("whole")), (200, "ok".into()));
    assert_eq!(asker.metrics.upstream_surplus.value(), 1);
    origin.join().expect("no panic");
}

/// The surplus comes after the second request: garbage in place of a response.
#[tokio::test]
async fn late_surplus_repeats_safe_requests() {
    let get = |asker: &Asker| asker.request(Method::GET, "/");
    let post = |asker: &Asker| asker.request(Method::POST, "/");
    let delete = |asker: &Asker| asker.request(Method::DELETE, "/");
    let late = || vec![Read, Say(made(format!("surplus of the first{OK}"))), Hang];
    assert_eq!(second_request(late(), get).await, (Ok(200), 2, 1));
    assert_eq!(second_request(late(), post).await, (Err(Cause::Malformed), 1, 0));
    assert_eq!(second_request(late(), delete).await, (Err(Cause::Malformed), 1, 0));
    // A body in error after an interim response is this response's own fault.
    let interim = vec![Read, Say("HTTP/1.1 103 Early Hints\r\n\r\nhello"), Hang];
    assert_eq!(second_request(interim, get).await, (Err(Cause::Malformed), 1, 0));
}

/// A body in error that comes late finds no request on its connection.
#[tokio::test]
async fn connection_rests_where_a_body_may_follow() {
    let unasked = |status: &str| made(format!("HTTP/1.1 {status}\r\nContent-Length: 51\r\n\r\n"));
    for (method, head) in [
        (Method::HEAD, unasked("200 OK")),
        (Method::HEAD, "HTTP/1.1 200 OK\r\n\r\n"),
        (Method::GET, unasked("204 No Content")),
        (Method::GET, unasked("304 Not Modified")),
        (Method::GET, "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ] {
        let first = vec![Read, Say(head), Wait(30), Say(POISON), Hang];
        let origin = RawOrigin::start(vec![first, [Read, Say(OK)].repeat(3)]).await;
        let asker = Asker::new(&origin);
        let bodiless = asker.upstreams.fetch(asker.request(method.clone(), "/")).await.expect("a response");
        assert_eq!(whole(bodiless).await.expect("nothing"), "", "{head}");
        assert_eq!(asker.get_whole("/").await, (200, "ok".into()), "{method} {head}");
        assert_eq!(origin.connections(), 2);
        eventually("it is noted", || asker.metrics.upstream_surplus.value() == 1).await;
        asker.get_whole("/").await;
        asker.get_whole("/").await;
        assert_eq!(origin.connections(), 4, "one request a connection");
    }
}

#[tokio::test]
async fn rested_connection_is_used_again() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
    let empty = "HTTP/1.1 204 No Content\r\n\r\n";
    let origin = RawOrigin::start(vec![vec![Read, Say(empty), Read, Say(head), Read, Say(OK)]]).await;
    let asker = Asker::with(origin.address, Scheme::Http, |upstream| upstream.connections_per_origin = 1);
    assert_eq!(asker.get("/").await.expect("a response").status, 204);
    let response = asker.upstreams.fetch(asker.request(Method::HEAD, "/")).await.expect("a response");
    assert_eq!(response.status, 200);
    drop(response);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    asker.get_whole("/").await;
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn connection_close_is_kept_to() {
    let closing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    let origin = RawOrigin::start(vec![vec![Read, Say(closing), Hang]]).await;
    let asker = Asker::new(&origin);
    asker.get_whole("/").await;
    asker.get_whole("/").await;
    assert_eq!(origin.connections(), 2);
}

#[tokio::test]
async fn unused_connections_are_closed_in_time() {
    let origin = RawOrigin::start(vec![vec![Read, Say(OK), Hang]]).await;
    let asker = Asker::with(origin.address, Scheme::Http, |upstream| {
        upstream.keep_alive = Duration::from_millis(500)
    });
    asker.get_whole("/").await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(asker.metrics.upstream_connections.value(), 1, "kept for a while");
    asker.has_closed().await;
    assert!(asker.upstreams.inner.pool.is_empty(), "the origin is forgotten with its last connection");
    asker.get_whole("/").await;
    assert_eq!(origin.connections(), 2);
}

#[tokio::test]
async fn kept_connections_are_bounded() {
    let origin = RawOrigin::start(vec![vec![Read, Wait(50), Say(OK), Hang]]).await;
    let asker = Asker::with(origin.address, Scheme::Http, |upstream| upstream.idle_per_origin = 2);
    tokio::join!(asker.get_whole("/"), asker.get_whole("/"), asker.get_whole("/"), asker.get_whole("/"));
    assert_eq!(origin.connections(), 4);
    eventually("two are kept", || asker.metrics.upstream_connections.value() == 2).await;
}

#[tokio::test]
async fn connections_are_bounded_and_requests_wait_for_one() {
    let origin = RawOrigin::start(vec![[Read, Wait(20), Say(OK)].repeat(3)]).await;
    let asker = Asker::with(origin.address, Scheme::Http, |upstream| upstream.connections_per_origin = 1);
    tokio::join!(asker.get_whole("/"), asker.get_whole("/"), asker.get_whole("/"));
    assert_eq!((origin.connections(), origin.requests().len()), (1, 3));
    assert_eq!(asker.metrics.upstream_waits.value(), 2);
}

#[tokio::test]
async fn waiting_for_a_connection_has_a_deadline() {
    let origin = RawOrigin::start(vec![vec![Read, Hang]]).await;
    let asker = Asker::with(origin.address, Scheme::Http, |upstream| {
        upstream.connections_per_origin = 1;
        upstream.connect_timeout = Duration::from_millis(100);
    });
    let (first, second) = tokio::join!(asker.get("/"), asker.get("/"));
    assert_eq!(first.map(drop).expect_err("silent").cause, Cause::ResponseTimeout);
    let error = second.map(drop).expect_err("no connection");
    assert_eq!((&error.cause, error.status().as_u16()), (&Cause::ConnectionLimit, 503));
    assert!(error.retry_after.is_some());
}

#[tokio::test]
async fn connections_made_under_other_rules_are_not_used() {
    let origin = RawOrigin::start(vec![[Read, Say(OK)].repeat(2)]).await;
    let asker = Asker::new(&origin);
    asker.get_whole("/").await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let rules = Arc::new(ForwardRules::new(&Forward::default(), &[]).expect("sound rules"));
    let error = Asker { rules, ..asker }.get("/").await.map(drop).expect_err("refused");
    assert_eq!(error.proxy_status().as_str(), "destination_ip_prohibited");
}

#[tokio::test]
async fn an_unfinished_upload_ends_the_connection() {
    let early = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno";
    let origin = RawOrigin::start(vec![vec![ReadHead, Say(early), Hang]]).await;
    let asker = Asker::new(&origin);
    let (sender, body) = channel_body();
    sender.send(Ok("first".into())).await.expect("room");
    let request = UpstreamRequest { body, ..asker.request(Method::PUT, "/") };
    let response = asker.upstreams.fetch(request).await.expect("an early response");
    assert_eq!((response.status.as_u16(), whole(response).await.expect("whole")), (413, "no".into()));
    asker.has_closed().await;
}

#[tokio::test]
async fn the_origin_decides_whether_it_wants_the_body() {
    let expect = || [("expect", "100-continue")].into_iter().collect();
    let put = |asker: &Asker| UpstreamRequest {
        fields: expect(),
        body: body("data"),
        ..asker.request(Method::PUT, "/")
    };

    let go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    let wanted = vec![ReadHead, Wait(50), Say(go_on), ReadBytes(4), Say(OK), Read, Say(OK)];
    let origin = RawOrigin::start(vec![wanted]).await;
    let asker = Asker::new(&origin);
    let response = asker.upstreams.fetch(put(&asker)).await.expect("a response");
    assert_eq!(whole(response).await.expect("whole"), "ok");
    tokio::time::sleep(Duration::from_millis(20)).await;
    asker.get_whole("/").await;
    assert_eq!(origin.connections(), 1, "the whole body went out");
    assert!(origin.requests()[0].contains("expect: 100-continue\r\n"));

    let unwanted = "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n";
    let origin = RawOrigin::start(vec![vec![ReadHead, Say(unwanted), Read, Say(OK)]]).await;
    let asker = Asker::new(&origin);
    assert_eq!(asker.upstreams.fetch(put(&asker)).await.expect("a response").status, 417);
    asker.has_closed().await;
    assert_eq!(origin.requests().len(), 1, "no byte of the body went out");

    // An origin that ignores expectations gets the body after a while.
    let origin = RawOrigin::start(vec![vec![Read, Say(OK)]]).await;
    let asker = Asker::new(&origin);
    assert_eq!(asker.upstreams.fetch(put(&asker)).await.expect("a response").status, 200);
    assert!(origin.requests()[0].ends_with("\r\n\r\ndata"));
}

#[test]
fn connections_serve_other_threads_too() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (first, second) = (runtime(), runtime());
    let origin = first.block_on(RawOrigin::start(vec![[Read, Say(OK)].repeat(2)]));
    let asker = Asker::new(&origin);
    first.block_on(asker.get_whole("/"));
    first.block_on(async { tokio::time::sleep(Duration::from_millis(20)).await });
    std::thread::scope(|scope| {
        let stop = Arc::new(tokio::sync::Notify::new());
        let stopped = Arc::clone(&stop);
        // The first runtime drives origin and connection while the second sends a request.
        scope.spawn(move || first.block_on(stopped.notified()));
        assert_eq!(second.block_on(asker.get_whole("/")), (200, "ok".into()));
        stop.notify_one();
    });
    assert_eq!(origin.connections(), 1);
}
