//! HTTP/1 framing, HTTP/2's frames and field blocks, and the PROXY protocol.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH, RANGE};
use shoal_core::Fields;
use shoal_http2::hpack::{Decoder, FieldList, encode};
use shoal_http2::{FRAME_BYTES_MAX, FRAME_HEAD_BYTES, Frame, FrameHead, Http2Head, PeerSettings, trailers};
use shoal_wire::proxy_protocol::{self, Header};
use shoal_wire::{
    BadHead, BodyDecoder, BodyEvent, BodyFraming, FastPathRequest, HeadLimits, HeadParser, MalformedBody,
    ParseOutcome, RESPONSE_FIELDS_MAX, RequestRefusal, ResponseHeadParser, chunk,
};

/// A request head is taken or not, and means the same, however it is cut into reads; it keeps its
/// limits, and holds no byte by which another recipient could see other lines in it. A refusal may
/// come sooner or later.
pub fn request_head(data: &[u8]) {
    let whole = head(data, data.len()).and_then(Result::ok);
    for piece in [1, 7] {
        let pieced = head(data, piece).and_then(Result::ok);
        assert_eq!(pieced, whole, "read in pieces of {piece}");
    }
    check_plain(data, whole.as_ref());
    let Some(head) = whole else { return };
    let bytes = &data[..head.head_bytes];
    assert!(head.head_bytes <= LIMITS.head_bytes_max);
    assert!(head.fields.len() <= LIMITS.fields_max);
    assert!(head.target.len() <= LIMITS.target_bytes_max);
    assert!(!bytes.contains(&0), "a NUL was taken");
    for at in 0..bytes.len() {
        let paired = match bytes[at] {
            b'\r' => bytes.get(at + 1) == Some(&b'\n'),
            b'\n' => at > 0 && bytes[at - 1] == b'\r',
            _ => true,
        };
        assert!(paired, "a bare CR or LF was taken at {at}");
    }
    check_framing(&head);
}

/// What is plain at a glance is taken the ordinary way too, and is the same request.
fn check_plain(data: &[u8], head: Option<&Head>) {
    let Some(get) = HeadParser::new().peek_fast_path(data, &LIMITS) else { return };
    check_remembered(data, &get);
    let head = head.expect("a plain request is a whole head that is taken");
    assert_eq!((&head.method, head.version), (&method(&get), http::Version::HTTP_11));
    assert_eq!(
        (head.body, head.flags, head.head_bytes),
        (BodyFraming::None, [true, false, false, false], get.head_bytes)
    );
    let host = head.fields["host"].to_str().expect("a plain host is ASCII");
    let target =
        if get.absolute { format!("http://{host}{}", get.path_text()) } else { get.path_text().to_owned() };
    assert_eq!(head.target, target);
    check_wants(&get, &head.fields);
}

fn method(get: &FastPathRequest<'_>) -> http::Method {
    if get.is_head { http::Method::HEAD } else { http::Method::GET }
}

/// What it says of what the client has and wants is what the fields say.
fn check_wants(get: &FastPathRequest<'_>, fields: &http::HeaderMap) {
    for name in [&IF_NONE_MATCH, &IF_MODIFIED_SINCE] {
        assert!(Fields::values(fields, name).eq(get.conditions.values(name)), "{name}");
    }
    assert!(Fields::values(fields, &RANGE).eq(get.range));
    let mut read = http::HeaderMap::new();
    get.each_field(|name, value| {
        let name = http::HeaderName::from_bytes(name).expect("a name");
        read.append(name, http::HeaderValue::from_bytes(value).expect("a value"));
    });
    assert_eq!(&read, fields);
}

/// Its field section says the same when it is remembered, also behind another request line and with
/// bytes behind it, and nothing when it is not whole.
fn check_remembered(data: &[u8], get: &FastPathRequest<'_>) {
    let (head, mut parser) = (&data[..get.head_bytes], HeadParser::new());
    for _ in 0..3 {
        let again = parser.peek_fast_path(head, &LIMITS).expect("plain, whatever is behind it");
        assert_eq!(format!("{again:?}"), format!("{get:?}"));
        parser.discard_peeked();
    }
    let line_end = head.iter().position(|&byte| byte == b'\n').expect("a whole head");
    let other = [b"HEAD / HTTP/1.1\r\n", &head[line_end + 1..]].concat();
    let followed = [&other[..], b"G"].concat();
    for bytes in [&other, &followed] {
        let again = parser.peek_fast_path(bytes, &LIMITS).expect("as plain as with its own line");
        let texts = |get: &FastPathRequest<'_>| {
            format!("{:?}", (get.authority, get.referer, get.user_agent, get.conditions, get.range))
        };
        assert_eq!((again.is_head, again.path_text(), again.absolute), (true, "/", false));
        assert_eq!(again.head_bytes, other.len());
        assert_eq!(texts(&again), texts(get));
        parser.discard_peeked();
    }
    assert!(parser.peek_fast_path(&other[..other.len() - 1], &LIMITS).is_none(), "the head is not whole");
}

/// RFC 9112 section 6.3: both Transfer-Encoding and Content-Length, or lengths that differ, are
/// never taken.
fn check_framing(head: &Head) {
    let coded = head.fields.contains_key("transfer-encoding");
    let lengths: Vec<_> = head.fields.get_all("content-length").iter().collect();
    assert!(!coded || lengths.is_empty(), "Transfer-Encoding with Content-Length");
    match head.body {
        BodyFraming::Chunked => assert!(coded, "chunked without Transfer-Encoding"),
        BodyFraming::Length(length) => {
            let texts: Vec<&str> = lengths.iter().filter_map(|value| value.to_str().ok()).collect();
            assert!(texts.iter().all(|text| text.trim().parse() == Ok(length)), "{texts:?} is not {length}");
        }
        BodyFraming::None => assert!(!coded, "Transfer-Encoding without a body"),
    }
}

/// What stands in a head that was taken.
#[derive(Debug, PartialEq)]
struct Head {
    method: http::Method,
    target: String,
    version: http::Version,
    fields: HeaderMap,
    body: BodyFraming,
    flags: [bool; 4],
    head_bytes: usize,
}

/// The first head in `data`, which arrives in pieces of `piece` bytes; `None` when it is not whole.
fn head(data: &[u8], piece: usize) -> Option<Result<Head, RequestRefusal>> {
    let mut parser = HeadParser::new();
    let mut buffer = BytesMut::new();
    for piece in data.chunks(piece.max(1)) {
        buffer.extend_from_slice(piece);
        match parser.parse(&mut buffer, &LIMITS) {
            ParseOutcome::Incomplete => {}
            ParseOutcome::Refused(refusal) => return Some(Err(refusal)),
            ParseOutcome::Head(head) => {
                return Some(Ok(Head {
                    method: head.parts.method,
                    target: head.parts.uri.to_string(),
                    version: head.parts.version,
                    fields: head.parts.fields.to_map(),
                    body: head.body,
                    flags: [head.keep_alive, head.expects_continue, head.accepts_trailers, head.upgrade],
                    head_bytes: head.head_bytes,
                }));
            }
        }
    }
    None
}

pub(crate) const LIMITS: HeadLimits =
    HeadLimits { head_bytes_max: 8192, fields_max: 64, target_bytes_max: 2048 };

/// A response head is taken or not, and means the same, however it is cut into reads, but that a
/// refusal may come sooner or later; it keeps its limits, and no value holds a line end.
pub fn response_head(data: &[u8]) {
    let whole = response(data, data.len());
    for piece in [1, 7] {
        let pieced = response(data, piece).ok().flatten();
        assert_eq!(pieced, whole.clone().ok().flatten(), "read in pieces of {piece}");
    }
    let Ok(Some((status, _, fields, left))) = whole else { return };
    assert!((100..1000).contains(&status), "status {status}");
    assert!(data.len() - left <= LIMITS.head_bytes_max && fields.len() <= RESPONSE_FIELDS_MAX);
    let is_one_line =
        |value: &http::HeaderValue| !value.as_bytes().iter().any(|byte| b"\r\n\0".contains(byte));
    assert!(fields.values().all(is_one_line), "{fields:?}");
}

/// Status, version, fields and the number of bytes behind the head.
type ResponseParts = (u16, http::Version, HeaderMap, usize);

fn response(data: &[u8], piece: usize) -> Result<Option<ResponseParts>, BadHead> {
    let (mut parser, mut buffer) = (ResponseHeadParser::default(), BytesMut::new());
    let mut read = 0;
    for piece in data.chunks(piece.max(1)) {
        buffer.extend_from_slice(piece);
        read += piece.len();
        if let Some(head) = parser.parse(&mut buffer, LIMITS.head_bytes_max)? {
            let left = buffer.len() + data.len() - read;
            return Ok(Some((head.status.as_u16(), head.version, head.fields.to_map(), left)));
        }
    }
    Ok(None)
}

/// A chunked body means the same however it is cut into reads, and what was decoded reads back from
/// what we would send for it.
pub fn chunked(data: &[u8]) {
    let whole = body(data, data.len());
    for piece in [1, 5] {
        assert_eq!(body(data, piece), whole, "read in pieces of {piece}");
    }
    let Ok(Body { content, end: Some((trailers, _)) }) = whole else { return };
    let mut sent = Vec::new();
    for part in content.chunks(1000) {
        chunk::size_line(&mut sent, part.len());
        sent.extend_from_slice(part);
        sent.extend_from_slice(b"\r\n");
    }
    chunk::last(&mut sent, trailers.as_ref());
    let again = body(&sent, sent.len()).expect("what we send is well formed");
    assert_eq!(again, Body { content, end: Some((trailers, 0)) });
}

/// A body as far as it has come.
#[derive(Debug, PartialEq)]
struct Body {
    content: Vec<u8>,
    /// At the end: the trailers, and how many bytes follow the body.
    end: Option<(Option<HeaderMap>, usize)>,
}

fn body(data: &[u8], piece: usize) -> Result<Body, MalformedBody> {
    let mut decoder = BodyDecoder::new(BodyFraming::Chunked);
    let mut buffer = BytesMut::new();
    let mut body = Body { content: Vec::new(), end: None };
    let mut arrived = 0;
    for piece in data.chunks(piece.max(1)) {
        arrived += piece.len();
        buffer.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut buffer)? {
                BodyEvent::NeedMore => break,
                BodyEvent::Data(more) => {
                    assert!(!more.is_empty(), "a piece of data is never empty");
                    body.content.extend_from_slice(&more);
                }
                BodyEvent::End(trailers) => {
                    assert!(decoder.is_ended());
                    body.end = Some((trailers, data.len() - arrived + buffer.len()));
                    return Ok(body);
                }
            }
        }
    }
    Ok(body)
}

/// A PROXY header has one length: nothing shorter is whole, and what follows changes nothing.
pub fn proxy_protocol(data: &[u8]) {
    let whole = proxy_protocol::parse(data);
    let Header::Complete { length, .. } = whole else { return };
    assert!(length <= data.len().min(proxy_protocol::HEADER_BYTES_MAX));
    assert_eq!(proxy_protocol::parse(&data[..length]), whole);
    for shorter in 0..length {
        assert_eq!(
            proxy_protocol::parse(&data[..shorter]),
            Header::Incomplete,
            "{shorter} of {length} bytes"
        );
    }
    let followed: Bytes = [&data[..length], b"\r\nGET / HTTP/1.1\r\n\r\n"].concat().into();
    assert_eq!(proxy_protocol::parse(&followed), whole);
}

/// Frames one behind the other, as a connection reads them: what is taken keeps its limits; a
/// request means the same at a glance as in full, and reads back from what would be written for it.
pub fn http2(mut data: &[u8]) {
    let (mut decoder, mut list) = (Decoder::default(), FieldList::default());
    while let Some(head) = FrameHead::read(data)
        && head.length <= FRAME_BYTES_MAX
        && let Some(payload) = data.get(FRAME_HEAD_BYTES..FRAME_HEAD_BYTES + head.length)
    {
        assert_eq!(FrameHead::read(&head.to_bytes()), Some(head));
        data = &data[FRAME_HEAD_BYTES + head.length..];
        match Frame::read(head, payload) {
            Ok(Frame::Headers { block, .. }) => {
                if decoder.decode(block, &mut list, LIMITS.head_bytes_max).is_err() {
                    return;
                }
                assert!(list.text().len() <= LIMITS.head_bytes_max);
                check_fields(&list);
            }
            Ok(Frame::Settings(payload)) => {
                let Ok(settings) = PeerSettings::read(payload) else { return };
                assert!(settings.initial_window.is_none_or(|window| window < 1 << 31));
                assert!(
                    settings.frame_bytes_max.is_none_or(|bytes| (FRAME_BYTES_MAX..1 << 24).contains(&bytes))
                );
            }
            Ok(Frame::Data { data, .. }) => assert!(data.len() <= payload.len()),
            Ok(Frame::WindowUpdate { increment, .. }) => assert!((1..1 << 31).contains(&increment)),
            Ok(_) => {}
            Err(fault) => assert!(fault.stream.is_none_or(|stream| stream == head.stream && stream != 0)),
        }
    }
}

pub(crate) fn check_fields(list: &FieldList) {
    let mut block = vec![encode::NO_TABLE];
    list.iter().for_each(|(name, value)| encode::field(&mut block, name, value));
    let mut again = FieldList::default();
    Decoder::default().decode(&block, &mut again, u32::MAX as usize).expect("what is written is read");
    assert!(again.iter().eq(list.iter()));
    if let Ok(map) = trailers(list) {
        assert!(map.keys().all(|name| !name.as_str().starts_with(':')));
    }
    let Ok(head) = Http2Head::read(list) else { return };
    let is_one_line = |(_, value): (&[u8], &[u8])| !value.iter().any(|byte| b"\r\n\0".contains(byte));
    assert!(head.fields().all(is_one_line), "a value of several lines");
    let parts = head.to_parts();
    if let Some(get) = FastPathRequest::of_http2(&head, &LIMITS) {
        let parts = parts.expect("a plain request is taken the ordinary way too");
        assert_eq!(parts.method, method(&get));
        assert_eq!(parts.uri.path_and_query().map(|path| path.as_str()), Some(get.path_text()));
        assert_eq!(parts.uri.host().map(str::as_bytes), Some(get.authority.host));
        assert_eq!(parts.uri.port_u16(), get.authority.port);
        assert!(parts.headers.get("content-length").is_none());
        check_wants(&get, &parts.headers);
    }
}
