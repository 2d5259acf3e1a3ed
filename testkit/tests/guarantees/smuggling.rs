//! Request smuggling: no two proxies in a row disagree about where a request ends.
//!
//! Shoal stands before and behind nginx, Squid and itself. Each case is a request that some parsers frame in one way and
//! others in another, with a second request hidden where the disagreement would be. If front and back disagreed, the
//! origin would see a request that the front never answered, or the next client on a shared connection would get the
//! answer to the hidden one.

use shoal_testkit::neighbours::Neighbour;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal};
use std::net::SocketAddr;
use std::time::Duration;

const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: site.test\r\n\r\n";

/// Heads and bodies that parsers have been known to read in different ways, by name.
fn corpus() -> Vec<(&'static str, String)> {
    [lengths(), codings(), chunks(), heads()].concat()
}

fn post(fields: &str, body: &str) -> String {
    format!("POST /a HTTP/1.1\r\nHost: site.test\r\n{fields}\r\n{body}")
}

fn get(fields: &str) -> String {
    format!("GET /a HTTP/1.1\r\nHost: site.test\r\n{fields}\r\n{HIDDEN}")
}

/// A body that ends at once for who reads chunks, and a hidden request after it.
fn last_chunk() -> String {
    format!("0\r\n\r\n{HIDDEN}")
}

/// Lengths that are several, or no numbers, or not quite named.
fn lengths() -> Vec<(&'static str, String)> {
    vec![
        ("two lengths", post(&format!("Content-Length: 0\r\nContent-Length: {}\r\n", HIDDEN.len()), HIDDEN)),
        ("a list of lengths", post(&format!("Content-Length: 0, {}\r\n", HIDDEN.len()), HIDDEN)),
        ("a signed length", post(&format!("Content-Length: +{}\r\n", HIDDEN.len()), HIDDEN)),
        ("a length with leading zeros", post(&format!("Content-Length: 00{}\r\n", HIDDEN.len()), HIDDEN)),
        ("an empty length", post("Content-Length:\r\n", HIDDEN)),
        ("a length that overflows", post("Content-Length: 18446744073709551616\r\n", HIDDEN)),
        ("a length after a space", post(&format!("Content-Length : {}\r\n", HIDDEN.len()), HIDDEN)),
        ("a length behind an underscore", post(&format!("Content_Length: {}\r\n", HIDDEN.len()), HIDDEN)),
    ]
}

/// Codings beside a length, or hidden from some.
fn codings() -> Vec<(&'static str, String)> {
    let chunked = last_chunk();
    let length = chunked.len();
    let both = format!("Content-Length: {length}\r\nTransfer-Encoding");
    let hex = format!("{:x}", HIDDEN.len());
    vec![
        ("length before coding", post(&format!("{both}: chunked\r\n"), &chunked)),
        (
            "coding before length",
            post(&format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"), &chunked),
        ),
        (
            "short length, whole chunk",
            post(
                "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
                &format!("{hex}\r\n{HIDDEN}\r\n0\r\n\r\n"),
            ),
        ),
        ("a coding after a space", post(&format!("{both} : chunked\r\n"), &chunked)),
        ("a coding behind a tab", post(&format!("{both}:\tchunked\r\n"), &chunked)),
        ("a coding behind a vertical tab", post(&format!("{both}: \u{b}chunked\r\n"), &chunked)),
        ("a coding in capitals", post(&format!("{both}: CHUNKED\r\n"), &chunked)),
        ("an unknown coding", post(&format!("{both}: xchunked\r\n"), &chunked)),
        ("chunked not last", post(&format!("{both}: chunked, identity\r\n"), &chunked)),
        ("chunked twice", post(&format!("{both}: chunked\r\nTransfer-Encoding: chunked\r\n"), &chunked)),
        ("a quoted coding", post(&format!("{both}: \"chunked\"\r\n"), &chunked)),
        ("a folded coding", post(&format!("{both}:\r\n chunked\r\n"), &chunked)),
        (
            "a coding in a fold",
            post(&format!("X-A: b\r\n Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"), &chunked),
        ),
        (
            "a coding in HTTP/1.0",
            post("Transfer-Encoding: chunked\r\n", &chunked).replacen("HTTP/1.1", "HTTP/1.0", 1),
        ),
        (
            "a bare CR before the coding",
            post(&format!("X-A: b\rTransfer-Encoding: chunked\r\nContent-Length: {length}\r\n"), &chunked),
        ),
        (
            "a bare LF before the coding",
            post(&format!("X-A: b\nTransfer-Encoding: chunked\r\nContent-Length: {length}\r\n"), &chunked),
        ),
        (
            "bare LFs throughout",
            format!("POST /a HTTP/1.1\nHost: site.test\nContent-Length: {}\n\n{HIDDEN}", HIDDEN.len()),
        ),
        ("a NUL before the coding", post(&format!("X-A: b\0\r\n{both}\0: chunked\r\n"), &chunked)),
    ]
}

/// Chunks whose size or end can be read in two ways.
fn chunks() -> Vec<(&'static str, String)> {
    let chunked = last_chunk();
    vec![
        ("a chunk extension", post("Transfer-Encoding: chunked\r\n", &format!("1;a=b\r\nx\r\n{chunked}"))),
        (
            "a chunk extension with a bare LF",
            post("Transfer-Encoding: chunked\r\n", &format!("1;a\nx\r\n{chunked}")),
        ),
        ("a chunk size ended by LF", post("Transfer-Encoding: chunked\r\n", &format!("1\nx\r\n{chunked}"))),
        ("a chunk ended by LF", post("Transfer-Encoding: chunked\r\n", &format!("1\r\nx\n{chunked}"))),
        ("a signed chunk size", post("Transfer-Encoding: chunked\r\n", &format!("+1\r\nx\r\n{chunked}"))),
        ("a chunk size with 0x", post("Transfer-Encoding: chunked\r\n", &format!("0x1\r\nx\r\n{chunked}"))),
        (
            "a chunk size with spaces",
            post("Transfer-Encoding: chunked\r\n", &format!(" 1 \r\nx\r\n{chunked}")),
        ),
        (
            "a chunk size that overflows",
            post("Transfer-Encoding: chunked\r\n", &format!("10000000000000001\r\nx\r\n{chunked}")),
        ),
        (
            "a last chunk of many zeros",
            post("Transfer-Encoding: chunked\r\n", &format!("0000000\r\n\r\n{HIDDEN}")),
        ),
        (
            "a trailer that frames",
            post(
                "Transfer-Encoding: chunked\r\n",
                &format!("0\r\nContent-Length: {}\r\n\r\n{HIDDEN}", HIDDEN.len()),
            ),
        ),
    ]
}

/// Request lines and fields around the framing.
fn heads() -> Vec<(&'static str, String)> {
    let chunked = last_chunk();
    vec![
        ("a GET with a length", get(&format!("Content-Length: {}\r\n", HIDDEN.len()))),
        ("a GET with a coding", get("Transfer-Encoding: chunked\r\n").replace(HIDDEN, &chunked)),
        ("a GET with Expect", get("Expect: 100-continue\r\n")),
        ("a GET with an unknown upgrade", get("Connection: upgrade\r\nUpgrade: nothing\r\n")),
        ("two hosts", get("Host: other.test\r\n")),
        ("a host after a fold", get("X-A: b\r\n Host: other.test\r\n")),
        (
            "absolute form with another host",
            format!("GET http://other.test/a HTTP/1.1\r\nHost: site.test\r\n\r\n{HIDDEN}"),
        ),
        ("a space before the first field", format!("GET /a HTTP/1.1\r\n Host: site.test\r\n\r\n{HIDDEN}")),
        ("two spaces in the request line", format!("GET  /a HTTP/1.1\r\nHost: site.test\r\n\r\n{HIDDEN}")),
        ("a tab in the request line", format!("GET\t/a HTTP/1.1\r\nHost: site.test\r\n\r\n{HIDDEN}")),
        ("a second version", format!("GET /a HTTP/1.1 HTTP/1.1\r\nHost: site.test\r\n\r\n{HIDDEN}")),
        ("HTTP/0.9", format!("GET /a\r\n\r\n{HIDDEN}")),
        ("an empty line first", format!("\r\nGET /a HTTP/1.1\r\nHost: site.test\r\n\r\n{HIDDEN}")),
        (
            "connection names the length",
            post(&format!("Connection: content-length\r\nContent-Length: {}\r\n", HIDDEN.len()), HIDDEN),
        ),
        (
            "connection names the coding",
            post("Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n", &chunked),
        ),
    ]
}

/// An origin whose answers name what was asked and are not stored.
fn naming_origin() -> Origin {
    let origin = Origin::start();
    origin.on_request("/*", |request| {
        Answer::ok(format!("{} of {}", request.method, request.path())).field("Cache-Control", "no-store")
    });
    origin
}

fn shoal_before(next: SocketAddr, origin: &Origin) -> Shoal {
    let site = format!("hosts = ['*']\nupstreams = [{{ url = 'http://{next}' }}]");
    let setup = Setup::to(origin).without_sites().site(&site);
    setup.set("client.head_timeout", "2s").set("client.idle_timeout", "2s").start()
}

/// Sends every case to `front`; whatever the chain makes of it, requests seen are requests answered.
fn check(pair: &str, front: SocketAddr, origin: &Origin) {
    let mut forwarded = 0;
    for (number, (name, bytes)) in corpus().iter().enumerate() {
        let before = origin.total();
        let mut attacker = Connection::open(front);
        attacker.limit(Duration::from_millis(300));
        attacker.send(bytes);
        let mut answered = 0;
        while let Ok(response) = attacker.try_response("GET") {
            answered += usize::from(response.complete());
            if answered > 3 {
                break;
            }
        }
        let victim = format!("/victim-{number}");
        for _ in 0..2 {
            let response = Connection::open(front).ask(&Request::get(&victim), "site.test");
            assert_eq!(response.text(), format!("GET of {victim}"), "{pair}: {name}: another's answer");
        }
        drop(attacker);
        let seen = origin.total() - before - 2;
        assert!(
            seen <= answered,
            "{pair}: {name}: {seen} requests reached the origin, {answered} were answered"
        );
        forwarded += usize::from(seen > 0);
    }
    // Sound requests are among the cases, and unsound ones.
    assert!((1..corpus().len() - 10).contains(&forwarded), "{pair}: {forwarded} cases reached the origin");
}

#[test]
fn shoal_before_itself() {
    let origin = naming_origin();
    let back = Setup::to(&origin).start();
    let front = shoal_before(back.address("reverse"), &origin);
    check("Shoal before Shoal", front.address("reverse"), &origin);
}

#[test]
fn shoal_and_nginx() {
    let origin = naming_origin();
    let back = Setup::to(&origin).start();
    let Some(front) = Neighbour::nginx(back.address("reverse")) else {
        return eprintln!("skipped: nginx is not installed");
    };
    check("nginx before Shoal", front.address(), &origin);
    let nginx = Neighbour::nginx(origin.address()).expect("started above");
    let front = shoal_before(nginx.address(), &origin);
    check("Shoal before nginx", front.address("reverse"), &origin);
}

#[test]
fn shoal_and_squid() {
    let origin = naming_origin();
    let back = Setup::to(&origin).start();
    let Some(front) = Neighbour::squid(back.address("reverse")) else {
        return eprintln!("skipped: squid is not installed");
    };
    check("Squid before Shoal", front.address(), &origin);
    let squid = Neighbour::squid(origin.address()).expect("started above");
    let front = shoal_before(squid.address(), &origin);
    check("Shoal before Squid", front.address("reverse"), &origin);
}
