//! Plain requests: accepted ones, others, and agreement with the ordinary parser.

use super::*;
use crate::{BodyFraming, ParseOutcome};
use bytes::BytesMut;
use http::header::{HOST, IF_MODIFIED_SINCE, IF_NONE_MATCH, RANGE};
use http::{Method, Version};
use proptest::prelude::*;
use shoal_core::Fields as _;
use shoal_http2::hpack::{Decoder, FieldList, encode};

const TELLING: [&str; 13] = [
    "TE",
    "Via",
    "Expect",
    "Pragma",
    "Upgrade",
    "If-Match",
    "If-Range",
    "CDN-Loop",
    "Cache-Control",
    "Content-Length",
    "Transfer-Encoding",
    "If-Unmodified-Since",
    "Proxy-Authorization",
];

const LIMITS: HeadLimits = HeadLimits { head_bytes_max: 4096, fields_max: 32, target_bytes_max: 1024 };

#[test]
fn plain_requests_are_seen() {
    let text = b"GET /a/b?c=%20 HTTP/1.1\r\nHost: Example.org:8080\r\nuser-agent: x\r\nConnection: keep-alive\r\n\r\nGET";
    let mut parser = HeadParser::new();
    let get = parser.peek_fast_path(text, &LIMITS).expect("plain");
    assert_eq!((get.authority.host, get.authority.port), (&b"Example.org"[..], Some(8080)));
    assert_eq!((get.path_text(), get.absolute, get.head_bytes), ("/a/b?c=%20", false, text.len() - 3));
    assert_eq!((get.user_agent, get.referer), (Some(&b"x"[..]), None));
    assert_eq!((get.conditions, get.range), (Conditions::default(), None));
    let get =
        parser.peek_fast_path(b"GET http://a.b/ HTTP/1.1\r\nHost: a.b\r\n\r\n", &LIMITS).expect("plain");
    assert_eq!(
        (get.authority.host, get.path_text(), get.absolute, get.is_head),
        (&b"a.b"[..], "/", true, false)
    );
    let head = parser.peek_fast_path(b"HEAD /a HTTP/1.1\r\nHost: a.b\r\n\r\n", &LIMITS).expect("plain");
    assert_eq!((head.authority.host, head.path_text(), head.is_head), (&b"a.b"[..], "/a", true));
}

#[test]
fn plain_request_reports_conditions_and_range() {
    let text = "GET / HTTP/1.1\r\nHost: a\r\nif-none-match: \"a\", \"b\"\r\nIf-Modified-Since: then\r\nRange: bytes=0-1\r\n\r\n";
    let mut remembered = SectionCache::new();
    // Read three times; remembered from the second time on.
    for _ in 0..3 {
        let mut parser = HeadParser::new();
        let get = parser.plain_by(&mut remembered, text.as_bytes(), &LIMITS).expect("plain");
        let conditions =
            Conditions { if_none_match: Some(b"\"a\", \"b\""), if_modified_since: Some(b"then") };
        assert_eq!((get.conditions, get.range), (conditions, Some(&b"bytes=0-1"[..])));
        assert!(get.conditions.values(&IF_NONE_MATCH).eq(get.conditions.if_none_match));
        assert!(get.conditions.values(&IF_MODIFIED_SINCE).eq(get.conditions.if_modified_since));
        assert_eq!((get.conditions.values(&HOST).count(), get.conditions.lines().count()), (0, 2));
    }
}

#[test]
fn plain_requests_of_http_2() {
    let of = |method: &str, uri: &str, fields: &[(&str, &str)]| {
        let (scheme, rest) = uri.split_once("://").unwrap_or(("https", uri));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let mut block = Vec::new();
        let pseudo = [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)];
        // Without an authority, as when Host replaces it.
        let said = pseudo.iter().filter(|(name, value)| *name != ":authority" || !value.is_empty());
        for (name, value) in said.chain(fields) {
            encode::field(&mut block, name.as_bytes(), value.as_bytes());
        }
        let mut list = FieldList::default();
        Decoder::default().decode(&block, &mut list, 1 << 16).expect("a block");
        let head = Http2Head::read(&list).expect("sound");
        FastPathRequest::of_http2(&head, &LIMITS).map(|get| {
            let parts = head.to_parts().expect("the ordinary way takes it");
            assert_eq!((parts.method.as_str(), parts.uri.to_string().as_str()), (method, uri));
            assert_eq!((get.absolute, get.version, get.is_head), (false, Version::HTTP_2, method == "HEAD"));
            let mut read = Vec::new();
            get.each_field(|name, value| read.push((name, value)));
            assert!(
                read.iter()
                    .copied()
                    .eq(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())))
            );
            let user_agent = get.user_agent.map(<[u8]>::to_vec);
            (get.authority.host.to_vec(), get.authority.port, get.path_text().to_owned(), user_agent)
        })
    };
    for method in ["GET", "HEAD"] {
        let plain = of(method, "https://Example.org:8443/a?b", &[("user-agent", "x"), ("cookie", "a=b")]);
        let (host, path) = (b"Example.org".to_vec(), "/a?b".to_owned());
        assert_eq!(plain, Some((host, Some(8443), path, Some(b"x".to_vec()))));
    }
    let long = format!("https://a/{}", "x".repeat(1024));
    for (method, uri, field) in [
        ("POST", "https://a/", ("accept", "*/*")),
        ("HEADER", "https://a/", ("accept", "*/*")),
        ("GET", "/", ("accept", "*/*")),
        ("GET", long.as_str(), ("accept", "*/*")),
        ("GET", "https://u@a/", ("accept", "*/*")),
        ("GET", "https://a/", ("host", "a")),
        ("GET", "ftp://a/", ("accept", "*/*")),
        ("GET", "https://a/#b", ("accept", "*/*")),
        ("GET", "https://a/", ("te", "trailers")),
        ("GET", "https://a/", ("if-range", "\"a\"")),
    ] {
        assert_eq!(of(method, uri, &[field]), None, "{method} {uri} {field:?}");
    }
    let of_a_field = TELLING.map(str::to_ascii_lowercase);
    // These are malformed over HTTP/2, except for TE's one value, tested above.
    let malformed = ["te", "upgrade", "transfer-encoding"];
    for name in of_a_field.into_iter().filter(|name| !malformed.contains(&&**name)) {
        assert_eq!(of("GET", "https://a/", &[(&name, "1")]), None, "{name}");
    }
}

#[test]
fn everything_else_goes_the_ordinary_way() {
    let mut parser = HeadParser::new();
    let mut heads = vec![
        "POST / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "HEADER / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "head / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET / HTTP/1.0\r\nHost: a\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\nrange: bytes=3-4\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1,3-4\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"a\"\r\nIf-None-Match: \"b\"\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a\r\nIf-Modified-Since: then\r\nIf-Modified-Since: now\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a\r\n".to_owned(),
        "GET / HTTP/1.1\nHost: a\n\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n".to_owned(),
        "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET * HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET http://ab/ HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET http://a HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a:\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, upgrade\r\n\r\n".to_owned(),
        format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(LIMITS.target_bytes_max)),
        format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(LIMITS.head_bytes_max)),
        format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(LIMITS.fields_max)),
    ];
    let telling = TELLING.iter().map(|name| format!("GET / HTTP/1.1\r\nHost: a\r\n{name}: 0\r\n\r\n"));
    heads.extend(telling);
    for head in heads {
        assert!(parser.peek_fast_path(head.as_bytes(), &LIMITS).is_none(), "{head}");
    }
}

/// Makes heads, nearly plain and mangled.
fn head() -> impl Strategy<Value = Vec<u8>> {
    let target = prop_oneof!["/[a-c#?%\" ]{0,5}", "http://(a|A|b)(:80)?/?[a-c]{0,3}", Just("*".to_owned())];
    let host = prop_oneof!["(a|A|b|a_b)(:80|:|:0[0-9]{1,5})?", "[ab:.@%\\[\\]]{0,4}"];
    let field = prop_oneof![
        "(Accept|cookie|x-[a-c]{1,3}): [ -~]{0,6}",
        "(Connection|Cache-Control|Range|content-length|TE|If-None-Match|if-modified-since): [a-z0-9,-]{0,10}",
    ];
    let line_end = prop_oneof![9 => Just("\r\n"), 1 => Just("\n")];
    let fields = prop::collection::vec((field, line_end), 0..4);
    let mangle = prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>()));
    (prop_oneof![6 => Just("GET"), 3 => Just("HEAD"), 1 => Just("PUT")], target, host, fields, mangle)
        .prop_map(|(method, target, host, fields, mangle)| {
            let mut text = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
            fields.iter().for_each(|(field, end)| text.extend([field.as_str(), end]));
            text.push_str("\r\n");
            let mut bytes = text.into_bytes();
            if let Some((at, byte)) = mangle {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn plain_request_equals_ordinary_parse(bytes in head()) {
        let mut parser = HeadParser::new();
        if let Some(get) = parser.peek_fast_path(&bytes, &LIMITS) {
            let mut buffer = BytesMut::from(&bytes[..]);
            let ParseOutcome::Head(head) = parser.parse(&mut buffer, &LIMITS) else {
                panic!("refused: {:?}", String::from_utf8_lossy(&bytes));
            };
            prop_assert_eq!(&head.parts.method, if get.is_head { Method::HEAD } else { Method::GET });
            prop_assert_eq!(head.parts.version, Version::HTTP_11);
            let mut again = BytesMut::from(&bytes[..]);
            let ParseOutcome::Head(fresh) = HeadParser::new().parse(&mut again, &LIMITS) else { panic!("only when looked at before") };
            prop_assert_eq!(format!("{head:?} {buffer:?}"), format!("{fresh:?} {again:?}"));
            prop_assert_eq!(head.body, BodyFraming::None);
            prop_assert!(head.keep_alive && !head.expects_continue && !head.upgrade && !head.accepts_trailers);
            prop_assert_eq!(head.head_bytes, get.head_bytes);
            let uri = &head.parts.uri;
            prop_assert_eq!(uri.path_and_query().map(|path| path.as_str()), Some(get.path_text()));
            prop_assert_eq!(uri.authority().is_some(), get.absolute);
            let host = head.parts.fields.value(&HOST).expect("one");
            let authority: http::uri::Authority = std::str::from_utf8(host).expect("ASCII").parse().expect("one");
            prop_assert_eq!(authority.host().as_bytes(), get.authority.host);
            prop_assert_eq!(authority.port_u16(), get.authority.port);
            let fields = &head.parts.fields;
            prop_assert!(fields.values(&RANGE).eq(get.range));
            for name in [&IF_NONE_MATCH, &IF_MODIFIED_SINCE] {
                prop_assert!(fields.values(name).eq(get.conditions.values(name)));
            }
            let mut read = Vec::new();
            get.each_field(|name, value| read.push((name.to_ascii_lowercase(), value.to_vec())));
            let lines: Vec<_> = fields.lines().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
            prop_assert_eq!(read, lines);
            if let Some(named) = uri.authority() {
                prop_assert_eq!(named.as_str().as_bytes(), host);
            }
        }
    }
}
