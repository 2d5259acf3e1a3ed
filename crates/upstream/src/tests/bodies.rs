//! Tests of bodies that stall, are cut, or differ from their framing.

use super::*;

async fn fetch_body(script: Vec<Step>) -> Result<String, BodyError> {
    let origin = RawOrigin::start(vec![script]).await;
    let asker = Asker::new(&origin);
    let outcome = whole(asker.get("/").await.expect("a head")).await;
    if outcome.is_err() {
        eventually("the connection is closed", || asker.metrics.upstream_connections.value() == 0).await;
    }
    outcome
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
const TEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
const UNTIL_CLOSE: &str = "HTTP/1.1 200 OK\r\n\r\n";

#[tokio::test]
async fn whole_bodies() {
    for (head, body, expected) in [
        (TEN, "0123456789", "0123456789"),
        (CHUNKED, "3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", "abc0123456789"),
        (UNTIL_CLOSE, "as long as it takes", "as long as it takes"),
        ("HTTP/1.0 200 OK\r\n\r\n", "old", "old"),
    ] {
        let outcome = fetch_body(vec![Read, Say(head), Wait(10), Say(body)]).await;
        assert_eq!(outcome.expect("whole"), expected);
    }
}

#[tokio::test]
async fn cut_bodies() {
    for (head, body) in [
        (TEN, "0123"),
        (TEN, ""),
        (CHUNKED, "5\r\nhel"),
        (CHUNKED, "5\r\nhello\r\n"),
        (CHUNKED, "5\r\nhello\r\n0\r\n"),
        (CHUNKED, ""),
    ] {
        for ending in [vec![], vec![Reset]] {
            let script = [vec![Read, Say(head), Say(body), Wait(30)], ending].concat();
            let outcome = fetch_body(script).await;
            assert!(matches!(outcome, Err(BodyError::Cut(_))), "{body:?}: {outcome:?}");
        }
    }
    // Without a length, only an orderly close shows that the body is whole.
    let outcome = fetch_body(vec![Read, Say(UNTIL_CLOSE), Say("part"), Wait(30), Reset]).await;
    assert!(matches!(outcome, Err(BodyError::Cut(_))), "{outcome:?}");
}

#[tokio::test]
async fn malformed_chunks() {
    for body in [
        "x\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloo\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
        "\r\n5\r\nhello\r\n0\r\n\r\n",
        "5\nhello\n0\n\n",
        "5\rhello\r\n0\r\n\r\n",
        "FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nbad trailer\r\n\r\n",
    ] {
        let outcome = fetch_body(vec![Read, Say(CHUNKED), Say(body), Hang]).await;
        assert!(matches!(outcome, Err(BodyError::Malformed(_))), "{body:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn endless_chunk_extensions_and_trailers_are_refused() {
    let extension = format!("{CHUNKED}5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(200_000));
    let outcome = fetch_body(vec![Read, Say(made(extension)), Hang]).await;
    assert!(matches!(outcome, Err(BodyError::Malformed(_))), "{outcome:?}");
    let trailers = format!("{CHUNKED}0\r\n{}\r\n", "x: y\r\n".repeat(40_000));
    let outcome = fetch_body(vec![Read, Say(made(trailers)), Hang]).await;
    assert!(matches!(outcome, Err(BodyError::Malformed(_))), "{outcome:?}");
}

#[tokio::test]
async fn stalled_bodies() {
    for (head, body) in [(TEN, "0123"), (CHUNKED, "5\r\nhel"), (UNTIL_CLOSE, "part")] {
        let outcome = fetch_body(vec![Read, Say(head), Say(body), Hang]).await;
        assert!(matches!(outcome, Err(BodyError::Timeout)), "{outcome:?}");
    }
    // Each frame restarts the pause.
    let slow = [vec![Read, Say(TEN)], [Wait(150), Say("01"), Wait(150), Say("0")].repeat(3)].concat();
    assert_eq!(fetch_body([slow, vec![Say("9")]].concat()).await.expect("slow but whole").len(), 10);
}

/// An origin may answer early, and send the rest only after the whole request.
#[tokio::test]
async fn body_waiting_for_the_request_is_not_stalled() {
    // Five chunks of one byte and the last chunk.
    let script = vec![ReadHead, Say(TEN), ReadBytes(5 * 6 + 5), Say("0123456789")];
    let origin = RawOrigin::start(vec![script]).await;
    let asker = Asker::new(&origin);
    let (sender, body) = channel_body();
    tokio::spawn(async move {
        for _ in 0..5 {
            let _ = sender.send(Ok(Bytes::from_static(b"x"))).await;
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    });
    let request = UpstreamRequest { body, ..asker.request(Method::POST, "/") };
    let response = asker.upstreams.fetch(request).await.expect("a head");
    assert_eq!(whole(response).await.expect("whole"), "0123456789");
}

#[tokio::test]
async fn a_slow_reader_is_no_stall() {
    let origin = RawOrigin::start(vec![vec![Read, Say(TEN), Say("01234"), Wait(500), Say("56789")]]).await;
    let response = Asker::new(&origin).get("/").await.expect("a head");
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(whole(response).await.expect("whole"), "0123456789");
}

#[tokio::test]
async fn trailers_come_last_and_clean() {
    let sent = "3\r\nabc\r\n0\r\nX-Checksum: 7\r\nContent-Length: 99\r\nTransfer-Encoding: gzip\r\n\r\n";
    let origin = RawOrigin::start(vec![vec![Read, Say(CHUNKED), Say(sent), Hang]]).await;
    let response = Asker::new(&origin).get("/").await.expect("a head");
    let collected = response.body.collect().await.expect("whole");
    let trailers = collected.trailers().expect("trailers").clone();
    assert_eq!(trailers.len(), 1, "{trailers:?}");
    assert_eq!(trailers["x-checksum"], "7");
    assert_eq!(collected.to_bytes(), "abc");
}

#[tokio::test]
async fn a_response_that_nobody_reads_frees_its_connection() {
    let origin = RawOrigin::start(vec![vec![Read, Say(TEN), Say("01234"), Hang]]).await;
    let asker = Asker::new(&origin);
    drop(asker.get("/").await.expect("a head"));
    eventually("the connection is closed", || asker.metrics.upstream_connections.value() == 0).await;
}
