//! Plain requests: a GET that asks for nothing but the current representation, seen without taking it off the buffer.
//!
//! Most requests to a cache are of this kind, and most of what [`super::HeadParser::parse`] makes of a head (a field
//! map, a parsed URI) serves the others. Here the head is looked at in place: nothing is allocated or copied. Whatever
//! is not plain at first sight, be it faulty, incomplete or only unusual, is [`None`], and the ordinary way decides;
//! so this is never more tolerant than that one, which a test compares.

use super::{Authority, HeadParser, Limits, tokenize};
use crate::http2::Http2Head;
use http::Version;
use shoal_core::alphanumeric_and;

/// A GET without a body, conditions, ranges or directives; in HTTP/1.1 one whose connection is to be kept.
#[derive(Clone, Copy, Debug)]
pub struct PlainGet<'b> {
    /// Host and port: of the target in absolute form, which Host repeats, or else of Host. A registered name or an
    /// IPv4 address.
    pub authority: Authority<'b>,
    /// Path and query, from the first `/` on.
    pub path: &'b str,
    /// Whether the target was in absolute form, with the scheme `http`. In HTTP/2 it has that form always, and this is false.
    pub absolute: bool,
    /// HTTP/1.1 or HTTP/2.
    pub version: Version,
    /// The Referer field.
    pub referer: Option<&'b [u8]>,
    /// The User-Agent field.
    pub user_agent: Option<&'b [u8]>,
    /// Bytes that the head takes in the buffer; 0 for HTTP/2, whose heads were taken out of it.
    pub head_bytes: usize,
}

impl<'b> PlainGet<'b> {
    /// The plain request that a head of HTTP/2 is, if it is one; that it has no body the caller knows.
    pub fn of_http2(head: &Http2Head<'b>, limits: &Limits) -> Option<Self> {
        let (authority, path) = (head.authority()?, head.path()?);
        let fits = authority.len() + path.len() <= limits.target_bytes_max
            && head.field_count() <= limits.fields_max;
        if head.method() != b"GET" || !head.is_http() || !fits {
            return None;
        }
        let mut noted = Fields::default();
        for (name, value) in head.fields() {
            noted.note(name, value)?;
        }
        // A Host beside the authority would have to be compared with it.
        let authority = Authority::plain(authority).filter(|_| noted.host.is_none())?;
        let Fields { referer, user_agent, .. } = noted;
        let path = std::str::from_utf8(path).ok().filter(|path| is_plain(path))?;
        let (absolute, version, head_bytes) = (false, Version::HTTP_2, 0);
        Some(Self { authority, path, absolute, version, referer, user_agent, head_bytes })
    }
}

impl HeadParser {
    /// The plain request at the front of `buffer`, if there is one. The head is then taken off by [`Self::take`], with the
    /// buffer as it is, or by who calls [`Self::forget`].
    pub fn plain<'b>(&mut self, buffer: &'b [u8], limits: &Limits) -> Option<PlainGet<'b>> {
        // A head that trickles in is none of the many.
        if self.attempt_at != 0 || !buffer.starts_with(b"GET ") {
            return None;
        }
        let Ok(Some((seen, target))) = tokenize(buffer, &mut self.fields, limits) else { return None };
        let (version, head_bytes) = (seen.version, seen.head_bytes);
        self.seen = Some(seen);
        if version != Version::HTTP_11 {
            return None;
        }
        let mut fields = Fields::default();
        for field in &self.fields {
            fields.note(&buffer[field.name()], &buffer[field.value()])?;
        }
        let host = fields.host?;
        let (absolute, path) = match target.strip_prefix("http://") {
            None => (false, target),
            // The authority's spelling may differ from Host's in harmless ways; then the ordinary way compares them.
            Some(rest) => {
                (true, rest.as_bytes().strip_prefix(host).map(|path| &rest[rest.len() - path.len()..])?)
            }
        };
        let authority = Authority::plain(host)?;
        let Fields { referer, user_agent, .. } = fields;
        is_plain(path).then_some(PlainGet {
            authority,
            path,
            absolute,
            version,
            referer,
            user_agent,
            head_bytes,
        })
    }

    /// A plain request was answered, and its head is taken off the buffer.
    pub fn forget(&mut self) {
        self.seen = None;
        self.empty_lines = 0;
    }
}

/// What the fields of a plain request say.
#[derive(Default)]
struct Fields<'b> {
    host: Option<&'b [u8]>,
    referer: Option<&'b [u8]>,
    user_agent: Option<&'b [u8]>,
}

impl<'b> Fields<'b> {
    /// Takes note of one field. `None` when it makes the request one that is not plain.
    fn note(&mut self, name: &[u8], value: &'b [u8]) -> Option<()> {
        let is = |lower_case: &str| name.eq_ignore_ascii_case(lower_case.as_bytes());
        // By length and first letter, which spares nearly every comparison of names.
        let telling = match (name.len(), name.first().map(|byte| byte | 0x20)?) {
            (4, b'h') if is("host") => return self.host.replace(value).is_none().then_some(()),
            (7, b'r') if is("referer") => {
                self.referer = self.referer.or(Some(value));
                return Some(());
            }
            (10, b'u') if is("user-agent") => {
                self.user_agent = self.user_agent.or(Some(value));
                return Some(());
            }
            (10, b'c') if is("connection") => return value.eq_ignore_ascii_case(b"keep-alive").then_some(()),
            (2, b't') => is("te"),
            (3, b'v') => is("via"),
            (5, b'r') => is("range"),
            (6, b'e') => is("expect"),
            (6, b'p') => is("pragma"),
            (7, b'u') => is("upgrade"),
            (8, b'i') => is("if-match") || is("if-range"),
            (8, b'c') => is("cdn-loop"),
            (13, b'c') => is("cache-control"),
            (13, b'i') => is("if-none-match"),
            (14, b'c') => is("content-length"),
            (17, b'i') => is("if-modified-since"),
            (17, b't') => is("transfer-encoding"),
            (19, b'i') => is("if-unmodified-since"),
            (19, b'p') => is("proxy-authorization"),
            _ => false,
        };
        // Fields that change what a cache does with a GET, or where the request ends.
        (!telling).then_some(())
    }
}

/// Whether all parsers agree on what the path and query are.
fn is_plain(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| IN_PATH[byte as usize])
}

/// RFC 3986 section 3.3 and 3.4: the characters of a path and of a query.
static IN_PATH: [bool; 256] = alphanumeric_and(b"-._~%!$&'()*+,;=:@/?");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::{Decoder, FieldList, encode};
    use crate::{BodyFraming, Parsed};
    use bytes::BytesMut;
    use http::header::HOST;
    use http::{Method, Version};
    use proptest::prelude::*;
    use shoal_core::Fields as _;

    const TELLING: [&str; 16] = [
        "TE",
        "Via",
        "Range",
        "Expect",
        "Pragma",
        "Upgrade",
        "If-Match",
        "If-Range",
        "CDN-Loop",
        "Cache-Control",
        "If-None-Match",
        "Content-Length",
        "If-Modified-Since",
        "Transfer-Encoding",
        "If-Unmodified-Since",
        "Proxy-Authorization",
    ];

    const LIMITS: Limits = Limits { head_bytes_max: 4096, fields_max: 32, target_bytes_max: 1024 };

    #[test]
    fn plain_requests_are_seen() {
        let text = b"GET /a/b?c=%20 HTTP/1.1\r\nHost: Example.org:8080\r\nuser-agent: x\r\nConnection: keep-alive\r\n\r\nGET";
        let mut parser = HeadParser::new();
        let get = parser.plain(text, &LIMITS).expect("plain");
        assert_eq!((get.authority.host, get.authority.port), (&b"Example.org"[..], Some(8080)));
        assert_eq!((get.path, get.absolute, get.head_bytes), ("/a/b?c=%20", false, text.len() - 3));
        assert_eq!((get.user_agent, get.referer), (Some(&b"x"[..]), None));
        let get = parser.plain(b"GET http://a.b/ HTTP/1.1\r\nHost: a.b\r\n\r\n", &LIMITS).expect("plain");
        assert_eq!((get.authority.host, get.path, get.absolute), (&b"a.b"[..], "/", true));
    }

    #[test]
    fn plain_requests_of_http_2() {
        let of = |method: &str, uri: &str, fields: &[(&str, &str)]| {
            let (scheme, rest) = uri.split_once("://").unwrap_or(("https", uri));
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let mut block = Vec::new();
            let pseudo =
                [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)];
            // Without an authority, as when Host stands in for it.
            let said = pseudo.iter().filter(|(name, value)| *name != ":authority" || !value.is_empty());
            for (name, value) in said.chain(fields) {
                encode::field(&mut block, name.as_bytes(), value.as_bytes());
            }
            let mut list = FieldList::default();
            Decoder::default().decode(&block, &mut list, 1 << 16).expect("a block");
            let head = Http2Head::read(&list).expect("sound");
            PlainGet::of_http2(&head, &LIMITS).map(|get| {
                let parts = head.to_parts().expect("the ordinary way takes it");
                assert_eq!((parts.method.as_str(), parts.uri.to_string().as_str()), (method, uri));
                assert_eq!((get.absolute, get.version), (false, Version::HTTP_2));
                let user_agent = get.user_agent.map(<[u8]>::to_vec);
                (get.authority.host.to_vec(), get.authority.port, get.path.to_owned(), user_agent)
            })
        };
        let plain = of("GET", "https://Example.org:8443/a?b", &[("user-agent", "x"), ("cookie", "a=b")]);
        let (host, path) = (b"Example.org".to_vec(), "/a?b".to_owned());
        assert_eq!(plain, Some((host, Some(8443), path, Some(b"x".to_vec()))));
        let long = format!("https://a/{}", "x".repeat(1024));
        for (method, uri, field) in [
            ("HEAD", "https://a/", ("accept", "*/*")),
            ("GET", "/", ("accept", "*/*")),
            ("GET", long.as_str(), ("accept", "*/*")),
            ("GET", "https://u@a/", ("accept", "*/*")),
            ("GET", "https://a/", ("host", "a")),
            ("GET", "ftp://a/", ("accept", "*/*")),
            ("GET", "https://a/#b", ("accept", "*/*")),
            ("GET", "https://a/", ("te", "trailers")),
            ("GET", "https://a/", ("range", "bytes=0-1")),
        ] {
            assert_eq!(of(method, uri, &[field]), None, "{method} {uri} {field:?}");
        }
        let of_a_field = TELLING.map(str::to_ascii_lowercase);
        // These are malformed over HTTP/2, but for TE's one value, which stands above.
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
            "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "GET / HTTP/1.0\r\nHost: a\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n".to_owned(),
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
            assert!(parser.plain(head.as_bytes(), &LIMITS).is_none(), "{head}");
        }
    }

    /// Heads near to plain ones, and mangled.
    fn head() -> impl Strategy<Value = Vec<u8>> {
        let target =
            prop_oneof!["/[a-c#?%\" ]{0,5}", "http://(a|A|b)(:80)?/?[a-c]{0,3}", Just("*".to_owned())];
        let host = prop_oneof!["(a|A|b|a_b)(:80|:|:0[0-9]{1,5})?", "[ab:.@%\\[\\]]{0,4}"];
        let field = prop_oneof![
            "(Accept|cookie|x-[a-c]{1,3}): [ -~]{0,6}",
            "(Connection|Cache-Control|Range|content-length|TE): [a-z0-9,-]{0,10}",
        ];
        let line_end = prop_oneof![9 => Just("\r\n"), 1 => Just("\n")];
        let fields = prop::collection::vec((field, line_end), 0..4);
        let mangle = prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>()));
        (prop_oneof![9 => Just("GET"), 1 => Just("PUT")], target, host, fields, mangle).prop_map(
            |(method, target, host, fields, mangle)| {
                let mut text = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
                fields.iter().for_each(|(field, end)| text.extend([field.as_str(), end]));
                text.push_str("\r\n");
                let mut bytes = text.into_bytes();
                if let Some((at, byte)) = mangle {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
                bytes
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn what_is_plain_the_ordinary_way_reads_alike(bytes in head()) {
            let mut parser = HeadParser::new();
            if let Some(get) = parser.plain(&bytes, &LIMITS) {
                let mut buffer = BytesMut::from(&bytes[..]);
                let Parsed::Head(head) = parser.parse(&mut buffer, &LIMITS) else {
                    panic!("refused: {:?}", String::from_utf8_lossy(&bytes));
                };
                prop_assert_eq!(&head.parts.method, Method::GET);
                prop_assert_eq!(head.parts.version, Version::HTTP_11);
                let mut again = BytesMut::from(&bytes[..]);
                let Parsed::Head(fresh) = HeadParser::new().parse(&mut again, &LIMITS) else { panic!("only when looked at before") };
                prop_assert_eq!(format!("{head:?} {buffer:?}"), format!("{fresh:?} {again:?}"));
                prop_assert_eq!(head.body, BodyFraming::None);
                prop_assert!(head.keep_alive && !head.expects_continue && !head.upgrade && !head.accepts_trailers);
                prop_assert_eq!(head.head_bytes, get.head_bytes);
                let uri = &head.parts.uri;
                prop_assert_eq!(uri.path_and_query().map(|path| path.as_str()), Some(get.path));
                prop_assert_eq!(uri.authority().is_some(), get.absolute);
                let host = head.parts.fields.value(&HOST).expect("one");
                let authority: http::uri::Authority = std::str::from_utf8(host).expect("ASCII").parse().expect("one");
                prop_assert_eq!(authority.host().as_bytes(), get.authority.host);
                prop_assert_eq!(authority.port_u16(), get.authority.port);
                if let Some(named) = uri.authority() {
                    prop_assert_eq!(named.as_str().as_bytes(), host);
                }
            }
        }
    }
}
