//! Compression of text for clients: once, when hot; each coding with a validator of its own.

use flate2::read::GzDecoder;
use shoal_testkit::certificates::Authority;
use shoal_testkit::h2::H2Connection;
use shoal_testkit::{Answer, Origin, Request, Response, Setup, Shoal, wait};
use std::io::Read;

const BROWSER: &str = "gzip, deflate, br, zstd";
const DATE: &str = "Mon, 01 Jan 2024 00:00:00 GMT";

/// A token that changes nothing, but makes the request one that is not plain.
const ORDINARY: (&str, &str) = ("Connection", "keep-alive, x-nothing");

fn page() -> String {
    (0..300).map(|line| format!("<p>This is line {line} of a page.</p>\n")).collect()
}

fn html(body: &str) -> Answer {
    Answer::fresh(body, 600).field("Content-Type", "text/html; charset=utf-8")
}

fn setup(origin: &Origin) -> Setup {
    Setup::to(origin).set_list("compress.codings", &["br", "zstd", "gzip"]).set("compress.after_hits", 2)
}

fn taking(path: &str, codings: &str) -> Request {
    Request::get(path).field("Accept-Encoding", codings)
}

/// Asks until the answer has a coding, and returns that answer.
fn coded(shoal: &Shoal, path: &str, codings: &str) -> Response {
    let mut last = None;
    wait::until("the body is coded", || {
        let answer = shoal.ask(&taking(path, codings));
        let is_coded = answer.field("content-encoding").is_some();
        last = Some(answer);
        is_coded
    });
    last.expect("an answer")
}

fn unzipped(answer: &Response) -> String {
    let mut text = String::new();
    GzDecoder::new(&*answer.body).read_to_string(&mut text).expect("gzip");
    text
}

/// Cache-Status, the access log and `shoal explain` tell the form, on both paths of a hit.
#[test]
fn coded_forms_are_told() {
    let (origin, page) = (Origin::start(), page());
    origin.on("/a", html(&page));
    let shoal = setup(&origin).set("log.template", "{outcome} {coding} {status}").start();
    coded(&shoal, "/a", "br");
    let told = |request: &Request| {
        let answer = shoal.ask(request);
        answer.field("cache-status").expect("Cache-Status").to_owned()
    };
    for form in ["plain", "ordinary"] {
        let request = taking("/a", "br");
        let request = if form == "plain" { request } else { request.field(ORDINARY.0, ORDINARY.1) };
        let status = told(&request);
        assert!(status.contains("hit;detail=coded-br;ttl="), "{form}: {status}");
        let as_it_is = if form == "plain" {
            Request::get("/a")
        } else {
            Request::get("/a").field(ORDINARY.0, ORDINARY.1)
        };
        assert!(!told(&as_it_is).contains("detail"), "{form}");
    }
    let lines = |wanted: &str| shoal.access_log(1).iter().filter(|line| line.contains(wanted)).count();
    wait::until("lines of coded forms", || lines("hit br 200") >= 3);
    assert!(lines("miss - 200") == 1 && lines("hit - 200") >= 2, "{:?}", shoal.access_log(1));
    let asked = serde_json::json!({ "url": "http://site.test/a" });
    let explained = crate::explain::explain(&shoal, asked);
    assert_eq!(explained["stored"]["coded_forms"], serde_json::json!(["br"]), "{explained:#}");
}

#[test]
fn hot_text_is_coded_once_for_each_coding() {
    let (origin, page) = (Origin::start(), page());
    origin.on("/a", html(&page).field("ETag", "\"v1\""));
    let shoal = setup(&origin).start();
    for _ in 0..2 {
        let first = shoal.ask(&taking("/a", BROWSER));
        first.expect_body(&page);
        assert_eq!(first.field("content-encoding"), None, "nothing is coded before its time");
    }
    let mut tags = vec!["\"v1\"".to_owned()];
    for (codings, name) in
        [(BROWSER, "br"), ("zstd", "zstd"), ("gzip", "gzip"), ("gzip;q=1, br;q=0.1", "gzip")]
    {
        let answer = coded(&shoal, "/a", codings);
        answer.expect_status(200).expect_hit();
        wait::until("the wanted coding is there", || {
            shoal.ask(&taking("/a", codings)).field("content-encoding") == Some(name)
        });
        let answer = shoal.ask(&taking("/a", codings));
        assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
        assert_eq!(answer.number("content-length"), Some(answer.body.len() as u64));
        assert!(answer.body.len() * 5 < page.len(), "{name}: {}", answer.body.len());
        if name == "gzip" {
            assert_eq!(unzipped(&answer), page);
        }
        let tag = answer.field("etag").expect("a tag").to_owned();
        assert!(tag.starts_with(&format!("\"{name}-")), "{tag}");
        tags.push(tag);
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 4, "{tags:?}");
    for codings in [None, Some("identity"), Some("br;q=0"), Some("*;q=0"), Some("deflate")] {
        let request = Request::get("/a");
        let request = codings.iter().fold(request, |request, value| request.field("Accept-Encoding", value));
        let answer = shoal.ask(&request);
        answer.expect_body(&page).expect_hit();
        assert_eq!((answer.field("content-encoding"), answer.field("vary")), (None, Some("Accept-Encoding")));
        assert_eq!(answer.field("etag"), Some("\"v1\""));
    }
    assert_eq!(origin.count("/a"), 1);
    assert_eq!(shoal.metric("shoal_compress_made_total", ""), 3);
}

#[test]
fn each_form_is_validated_by_its_own_tag() {
    let (origin, page) = (Origin::start(), page());
    origin.on("/a", html(&page).field("ETag", "\"v1\"").field("Last-Modified", DATE));
    let shoal = setup(&origin).start();
    let tag = coded(&shoal, "/a", "br").field("etag").expect("a tag").to_owned();
    for extra in [None, Some(ORDINARY)] {
        let ask = |fields: &[(&str, &str)]| {
            let request = fields
                .iter()
                .chain(&extra)
                .fold(Request::get("/a"), |request, (name, value)| request.field(name, value));
            shoal.ask(&request)
        };
        let br = ("Accept-Encoding", "br");
        let held = ask(&[br, ("If-None-Match", &tag)]);
        held.expect_status(304).expect_hit();
        assert_eq!((held.field("etag"), held.field("vary")), (Some(&*tag), Some("Accept-Encoding")));
        // The client has the form as stored, and takes the other: it may keep it.
        let held = ask(&[br, ("If-None-Match", "\"v1\"")]);
        held.expect_status(304);
        assert_eq!((held.field("etag"), held.field("vary")), (Some("\"v1\""), Some("Accept-Encoding")));
        ask(&[br, ("If-Modified-Since", DATE)]).expect_status(304);
        // The client does not take the form that it names.
        ask(&[("If-None-Match", &tag)]).expect_status(200).expect_body(&page);
        let other = ask(&[br, ("If-None-Match", "\"v2\"")]);
        other.expect_status(200);
        assert_eq!(other.field("content-encoding"), Some("br"));
    }
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn ranges_never_mix_two_forms() {
    let (origin, page) = (Origin::start(), page());
    origin.on("/a", html(&page).field("ETag", "\"v1\"").field("Last-Modified", DATE));
    let shoal = setup(&origin).start();
    let whole = coded(&shoal, "/a", "br");
    let tag = whole.field("etag").expect("a tag").to_owned();
    let ask = |fields: &[(&str, &str)]| {
        let request = taking("/a", "br").field("Range", "bytes=10-19");
        shoal.ask(&fields.iter().fold(request, |request, (name, value)| request.field(name, value)))
    };
    for fields in [&[][..], &[ORDINARY], &[("If-Range", "\"v1\"")], &[("If-Range", DATE)]] {
        let part = ask(fields);
        assert_eq!(part.expect_status(206).body, page.as_bytes()[10..20]);
        assert_eq!((part.field("content-encoding"), part.field("etag")), (None, Some("\"v1\"")));
    }
    let part = ask(&[("If-Range", &tag)]);
    assert_eq!(part.expect_status(206).body, whole.body[10..20]);
    assert_eq!((part.field("content-encoding"), part.field("etag")), (Some("br"), Some(&*tag)));
    ask(&[("If-Range", "\"br-0\"")]).expect_status(200).expect_body(&page);
    let several = shoal.ask(&taking("/a", "br").field("Range", "bytes=0-1,5-6"));
    assert_eq!((several.status, several.field("vary")), (206, Some("Accept-Encoding")));
}

#[test]
fn all_ways_give_one_form() {
    let (origin, page) = (Origin::start(), page());
    origin.on("/a", html(&page).field("Vary", "X-A"));
    let authority = Authority::new();
    let setup = setup(&origin);
    authority.issue(&["a.test"]).write(setup.folder(), "a.test");
    let file = |name: &str| setup.folder().join(name).to_string_lossy().into_owned();
    let pair = format!("{{ certificate = '{}', key = '{}' }}", file("a.test.pem"), file("a.test.key"));
    let shoal = setup.listen("tls", &format!("mode = 'reverse'\ntls = [{pair}]")).start();
    coded(&shoal, "/a", "gzip");
    let host = "a.test";
    let mut connection = shoal.connect();
    let mut h2 = H2Connection::open_tls(shoal.address("tls"), host, authority.client(&["h2"]));
    for method in ["GET", "HEAD"] {
        let request = || Request::new(method, "/a").field("Accept-Encoding", "gzip");
        for _ in 0..20 {
            connection.ask(&request(), host);
            h2.ask(&request(), host);
        }
        wait::until("both schemes have it", || {
            let gzip = Some("gzip");
            connection.ask(&request(), host).field("content-encoding") == gzip
                && h2.ask(&request(), host).field("content-encoding") == gzip
        });
        let short = connection.ask_exactly(&request(), host).timeless();
        let ordinary = request().field(ORDINARY.0, ORDINARY.1);
        connection.ask_exactly(&ordinary, host).timeless().expect_like(short, method);
        let over_h2 = h2.ask(&request(), host);
        let over_h1 = connection.ask(&request(), host);
        assert_eq!(over_h2.body, over_h1.body);
        assert_eq!(over_h2.fields.joined("vary"), "X-A, Accept-Encoding");
        for name in ["content-encoding", "etag", "content-length", "content-type"] {
            assert_eq!(over_h2.field(name), over_h1.field(name), "{name}");
        }
        if method == "HEAD" {
            assert!(over_h1.body.is_empty() && over_h1.number("content-length").is_some_and(|it| it > 0));
        } else {
            assert_eq!(unzipped(&over_h1), page);
        }
    }
}

#[test]
fn what_must_stay_as_it_is_stays() {
    let (origin, page) = (Origin::start(), page());
    let text = || Answer::ok(&*page).field("Content-Type", "text/plain");
    let fresh = "max-age=600";
    origin.on("/no-transform", text().field("Cache-Control", "max-age=600, no-transform"));
    origin.on("/coded", text().field("Cache-Control", fresh).field("Content-Encoding", "deflate"));
    origin.on("/image", Answer::fresh(&*page, 600).field("Content-Type", "image/png"));
    origin.on("/untyped", Answer::fresh(&*page, 600));
    origin.on("/small", Answer::fresh("small", 600).field("Content-Type", "text/plain"));
    origin.on("/private", text().field("Cache-Control", "private, max-age=600"));
    origin.on("/cookie", text().field("Cache-Control", fresh).field("Set-Cookie", "a=b"));
    origin.on("/hot", html(&page));
    let shoal = setup(&origin).start();
    let paths = ["/no-transform", "/coded", "/image", "/untyped", "/small", "/private", "/cookie"];
    for path in paths {
        for _ in 0..6 {
            let answer = shoal.ask(&taking(path, "br"));
            let coding = (path == "/coded").then_some("deflate");
            assert_eq!((answer.field("content-encoding"), answer.field("vary")), (coding, None), "{path}");
        }
    }
    // The thread codes in turn, so nothing of the above waits any more.
    coded(&shoal, "/hot", "br");
    assert_eq!(shoal.metric("shoal_compress_made_total", ""), 1);
}

#[test]
fn a_purge_drops_the_coded_forms() {
    let (origin, page) = (Origin::start(), page());
    origin.on("/a", html(&page).field("Cache-Tag", "pages"));
    let shoal =
        setup(&origin).set("admin.purge_from", toml::Value::Array(vec!["127.0.0.1/32".into()])).start();
    for (number, tool) in ["PURGE", "tag"].into_iter().enumerate() {
        let old = coded(&shoal, "/a", "gzip");
        let new = format!("{page} and more {number}");
        origin.on("/a", html(&new).field("Cache-Tag", "pages"));
        match tool {
            "PURGE" => shoal.ask(&Request::new("PURGE", "/a")).expect_status(200),
            _ => shoal.ask_admin(&Request::new("POST", "/purge?tag=pages")).expect_status(200),
        };
        shoal.ask(&taking("/a", "gzip")).expect_body(&new);
        let coded = coded(&shoal, "/a", "gzip");
        assert_eq!(unzipped(&coded), new);
        assert_ne!(coded.field("etag"), old.field("etag"));
    }
}

#[test]
fn a_validated_response_gets_its_head_anew() {
    let (origin, page) = (Origin::start(), page());
    origin.on_request("/a", move |request| {
        let answer = Answer::ok(&*page).field("Content-Type", "text/html").field("ETag", "\"v1\"");
        match request.fields.first("if-none-match") {
            None => answer.field("Cache-Control", "max-age=1"),
            Some(_) => Answer::new(304).field("ETag", "\"v1\"").field("Cache-Control", "max-age=600, x=new"),
        }
    });
    let shoal = setup(&origin).start();
    for _ in 0..20 {
        shoal.ask(&taking("/a", "gzip"));
    }
    wait::until("it is validated and coded", || {
        let answer = shoal.ask(&taking("/a", "gzip"));
        let is_new = answer.field("cache-control") == Some("max-age=600, x=new");
        is_new && answer.field("content-encoding") == Some("gzip")
    });
    assert_eq!(shoal.metric("shoal_compress_made_total", ""), 1, "the bytes are coded once");
}

#[test]
fn coded_forms_outlive_a_restart() {
    let (origin, page) = (Origin::start(), page());
    origin.on("/a", html(&page));
    let mut shoal = setup(&origin).start();
    let tag = coded(&shoal, "/a", "br").field("etag").expect("a tag").to_owned();
    shoal.wait_until_written();
    shoal.restart_and_find_all();
    assert_eq!(coded(&shoal, "/a", "br").field("etag"), Some(&*tag));
    assert_eq!(shoal.metric("shoal_compress_made_total", ""), 0);
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn nothing_is_coded_by_default() {
    let (origin, page) = (Origin::start(), page());
    origin.on("/a", html(&page));
    let shoal = Setup::to(&origin).start();
    for _ in 0..20 {
        let answer = shoal.ask(&taking("/a", BROWSER));
        answer.expect_body(&page);
        assert_eq!(answer.field("vary"), None);
    }
}
