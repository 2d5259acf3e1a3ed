//! Bytes of an origin that answer no request: a body after the response to HEAD, more bytes than
//! Content-Length says. They are never part of another response, and cost no client an error.

use shoal_testkit::origin::After;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal};
use std::time::Duration;

const POISON: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nCache-Control: max-age=600\r\n\r\npoison";

fn origin() -> Origin {
    let origin = Origin::start();
    origin.on_request("/good*", |_| Answer::ok("good").field("Cache-Control", "no-store"));
    origin
}

/// An answer with this head; after a pause come bytes that nobody asked for.
fn with_surplus(head: &str, pause: Duration, surplus: &str) -> Answer {
    Answer::raw(head).pause(pause).piece(surplus).then(After::Keep)
}

/// Asks for good pages, with pauses of all lengths between them.
fn expect_good(shoal: &Shoal, name: &str) {
    for (number, pause) in [0, 0, 1, 5, 30, 100].into_iter().enumerate() {
        std::thread::sleep(Duration::from_millis(pause));
        shoal.get(&format!("/good/{name}{number}")).expect_status(200).expect_body("good");
    }
}

#[test]
fn body_after_a_response_without_body_does_no_harm() {
    for status in ["200 OK", "204 No Content", "304 Not Modified"] {
        let origin = origin();
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", POISON.len());
        origin.on_head("/head", with_surplus(&head, Duration::from_millis(60), POISON));
        origin.on("/head", with_surplus(&head, Duration::from_millis(60), POISON));
        let shoal = Setup::to(&origin).start();
        let method = if status == "200 OK" { "HEAD" } else { "GET" };
        shoal.ask(&Request::new(method, "/head").field("If-None-Match", "\"a\""));
        expect_good(&shoal, "a");
        shoal.expect_metric("shoal_upstream_surplus_total", "", 1);
    }
}

#[test]
fn more_bytes_than_announced_cost_no_client_an_error() {
    let origin = origin();
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nCache-Control: no-store\r\n\r\nok";
    for (path, pause) in [("/short0", 0), ("/short40", 40)] {
        origin.on(path, with_surplus(head, Duration::from_millis(pause), "and some more of it"));
    }
    let shoal = Setup::to(&origin).start();
    for path in ["/short0", "/short40"] {
        shoal.get(path).expect_body("ok");
        expect_good(&shoal, path);
    }
    assert!(shoal.metric("shoal_upstream_surplus_total", "") >= 1);
}
