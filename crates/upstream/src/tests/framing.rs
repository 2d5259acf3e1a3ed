//! Tests of odd heads and framings from origins: refused, repaired or accepted.

use super::*;
use http::header::CONTENT_LENGTH;

async fn fetch(sent: &str) -> Result<UpstreamResponse, UpstreamError> {
    let origin = RawOrigin::start(vec![vec![Read, Say(made(sent.into()))]]).await;
    Asker::new(&origin).get("/").await
}

#[tokio::test]
async fn ambiguous_framing_is_refused() {
    for (head, cause) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Cause::Malformed),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", Cause::Malformed),
        ("Content-Length: 5\r\nContent-Length: 6\r\n", Cause::Malformed),
        ("Content-Length: 5, 6\r\n", Cause::Malformed),
        ("Content-Length: -5\r\n", Cause::Malformed),
        ("Content-Length: +5\r\n", Cause::Malformed),
        ("Content-Length: 0x5\r\n", Cause::Malformed),
        ("Content-Length: 5 5\r\n", Cause::Malformed),
        ("Content-Length:\r\n", Cause::Malformed),
        ("Content-Length: 99999999999999999999\r\n", Cause::Malformed),
        ("Content-Length : 5\r\ncontent-length: 6\r\n", Cause::Malformed),
        ("Transfer-Encoding: gzip, chunked\r\n", Cause::TransferCoding),
        ("Transfer-Encoding: gzip\r\n", Cause::TransferCoding),
        ("Transfer-Encoding: identity\r\n", Cause::TransferCoding),
        ("Transfer-Encoding: xchunked\r\n", Cause::TransferCoding),
        ("Transfer-Encoding: chunked, chunked\r\n", Cause::TransferCoding),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Cause::TransferCoding),
        ("Transfer-Encoding:\r\n chunked, gzip\r\n", Cause::TransferCoding),
    ] {
        let outcome = fetch(&format!("HTTP/1.1 200 OK\r\n{head}\r\n5\r\nhello\r\n0\r\n\r\n")).await;
        let error = outcome.map(|response| response.status).expect_err(head);
        assert_eq!((&error.cause, error.status().as_u16()), (&cause, 502), "{head}");
    }
    let outcome = fetch("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").await;
    assert_eq!(outcome.map(drop).expect_err("HTTP/1.0 has no chunks").cause, Cause::Malformed);
}

#[tokio::test]
async fn repeated_equal_lengths_become_one() {
    for head in ["Content-Length: 5\r\nContent-Length: 5\r\n", "Content-Length: 5, 5\r\n"] {
        let response = fetch(&format!("HTTP/1.1 200 OK\r\n{head}\r\nhello")).await.expect(head);
        assert_eq!(response.length, Some(5));
        let lengths: Vec<_> = response.fields.values(&CONTENT_LENGTH).collect();
        assert_eq!(lengths, [b"5"]);
        assert_eq!(whole(response).await.expect("whole"), "hello");
    }
}

#[tokio::test]
async fn obsolete_forms_are_mended() {
    for (sent, name, value) in [
        ("x: a\r\n  b\r\n\tc\r\n", "x", "a b c"),
        ("cache-control: max-age=5\r\n , private\r\n", "cache-control", "max-age=5 , private"),
        ("x : a\r\n", "x", "a"),
        ("x\t: a\r\n", "x", "a"),
        ("x: a \t \r\n", "x", "a"),
        ("x:\r\n", "x", ""),
    ] {
        let response =
            fetch(&format!("HTTP/1.1 200 OK\r\n{sent}Content-Length: 0\r\n\r\n")).await.expect(sent);
        assert_eq!(response.fields.to_map()[name], value, "{sent:?}");
    }
    let bare_lf = fetch("HTTP/1.1 200 OK\nContent-Length: 2\nx: a\n\nok").await.expect("bare LF");
    assert_eq!(bare_lf.fields.to_map()["x"], "a");
    assert_eq!(whole(bare_lf).await.expect("whole"), "ok");
}

#[tokio::test]
async fn a_head_that_begins_with_a_fold_is_refused() {
    let outcome = fetch("HTTP/1.1 200 OK\r\n x: a\r\nContent-Length: 0\r\n\r\n").await;
    assert_eq!(outcome.map(drop).expect_err("nothing to fold onto").cause, Cause::Malformed);
}

#[tokio::test]
async fn no_content_has_no_length_and_no_body() {
    let response = fetch("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello").await.expect("204");
    assert_eq!((response.length, response.fields.value(&CONTENT_LENGTH)), (Some(0), None));
    assert_eq!(whole(response).await.expect("nothing"), "");
    let response = fetch("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n").await.expect("304");
    assert_eq!((response.length, response.fields.value(&CONTENT_LENGTH)), (Some(0), Some(&b"5"[..])));
    assert_eq!(whole(response).await.expect("nothing"), "");
}

#[tokio::test]
async fn interim_responses_go_to_the_sink() {
    let origin = RawOrigin::start(vec![vec![
        Read,
        Say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"),
        Wait(20),
        Say("HTTP/1.1 102 Processing\r\n\r\n"),
        Say(OK),
    ]])
    .await;
    let asker = Asker::new(&origin);
    let (sink, mut interim) = tokio::sync::mpsc::channel(8);
    let request = UpstreamRequest { interim: Some(sink), ..asker.request(Method::GET, "/") };
    let response = asker.upstreams.fetch(request).await.expect("a final response");
    assert_eq!(response.status, 200);
    let (status, fields) = interim.recv().await.expect("the 103");
    assert_eq!((status.as_u16(), &fields["link"]), (103, &HeaderValue::from_static("</style.css>")));
    assert_eq!(interim.recv().await.expect("the 102").0, 102);
    assert_eq!(whole(response).await.expect("whole"), "ok");
    assert!(interim.recv().await.is_none(), "100 is not passed on");
}

#[tokio::test]
async fn request_is_sent_with_the_expected_head() {
    let origin = RawOrigin::start(vec![vec![Read, Say(OK), Read, Say(OK), Read, Say(OK)]]).await;
    let asker = Asker::new(&origin);
    let request = UpstreamRequest {
        fields: [("accept", "*/*")].into_iter().collect(),
        ..asker.request(Method::GET, "/a?b")
    };
    whole(asker.upstreams.fetch(request).await.expect("a response")).await.expect("whole");
    let request = UpstreamRequest {
        host: Some(HeaderValue::from_static("site.example")),
        ..asker.request(Method::OPTIONS, "*")
    };
    whole(asker.upstreams.fetch(request).await.expect("a response")).await.expect("whole");
    let request = asker.request(Method::POST, "/");
    whole(asker.upstreams.fetch(request).await.expect("a response")).await.expect("whole");
    let requests = origin.requests();
    assert_eq!(requests[0], format!("GET /a?b HTTP/1.1\r\nhost: {}\r\naccept: */*\r\n\r\n", origin.address));
    assert_eq!(requests[1], "OPTIONS * HTTP/1.1\r\nhost: site.example\r\n\r\n");
    assert!(requests[2].ends_with("content-length: 0\r\n\r\n"), "{}", requests[2]);
}
