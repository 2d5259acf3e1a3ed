//! Parses a client's bytes as a whole, and checks the server's bytes against them.

use crate::fuzzing::answers::{BODY, BODY_MAX};
use crate::fuzzing::{FIELDS_MAX, HEAD_MAX, TARGET_MAX};
use bytes::BytesMut;
use http::{Method, StatusCode, Version, header};
use shoal_core::Fields;
use shoal_wire::{
    BodyDecoder, BodyEvent, BodyFraming, HeadLimits, HeadParser, ParseOutcome, ResponseHead,
    ResponseHeadParser, response,
};

/// Request sent by the client.
#[derive(Debug)]
pub(super) struct SentRequest {
    method: Method,
    path: String,
    version: Version,
    expects_continue: bool,
    /// Bytes of the body sent so far.
    body_bytes: usize,
    /// The whole request was sent.
    is_whole: bool,
}

/// Reason for which the client's bytes end.
#[derive(Debug, PartialEq)]
enum End {
    /// Between two requests, or within one.
    Open,
    /// At bytes that are not a request.
    Refused,
    /// At a malformed body.
    Malformed,
    /// At the bytes of a tunnel.
    Tunnel,
}

/// All bytes of the client: the requests, their end, and the rest.
#[derive(Debug)]
pub(super) struct ClientBytes {
    asked: Vec<SentRequest>,
    end: End,
    rest: Vec<u8>,
}

impl ClientBytes {
    /// Parses all bytes of the client at once.
    pub fn read(bytes: &[u8]) -> Self {
        let limits =
            HeadLimits { head_bytes_max: HEAD_MAX, fields_max: FIELDS_MAX, target_bytes_max: TARGET_MAX };
        let (mut parser, mut buffer) = (HeadParser::new(), BytesMut::from(bytes));
        let mut said = Self { asked: Vec::new(), end: End::Open, rest: Vec::new() };
        while said.end == End::Open {
            let head = match parser.parse(&mut buffer, &limits) {
                ParseOutcome::Head(head) => head,
                ParseOutcome::Incomplete => break,
                ParseOutcome::Refused(_) => {
                    said.end = End::Refused;
                    break;
                }
            };
            let mut asked = SentRequest {
                path: head.parts.uri.path().to_owned(),
                version: head.parts.version,
                expects_continue: head.expects_continue,
                body_bytes: 0,
                is_whole: false,
                method: head.parts.method,
            };
            match asked.read_body(head.body, &mut buffer) {
                Ok(()) if asked.method == Method::CONNECT => said.end = End::Tunnel,
                Ok(()) => {}
                Err(()) => said.end = End::Malformed,
            }
            said.asked.push(asked);
            if buffer.is_empty() {
                break;
            }
        }
        said.rest = buffer.to_vec();
        said
    }

    /// Checks all bytes of the server. `has_ended` means that the server closed the connection by
    /// itself, perhaps because it `is_draining`.
    pub fn check(&self, heard: &[u8], has_ended: bool, is_draining: bool) {
        let mut buffer = BytesMut::from(heard);
        let mut answered = 0;
        let mut goes_on = true;
        while let Some(head) = head(&mut buffer, self.asked.get(answered)) {
            assert!(goes_on, "after the last response: {head:?}");
            let asked = self.asked.get(answered);
            if asked.is_none() {
                let is_error = head.status.is_client_error() || head.status.is_server_error();
                let refuses = self.end == End::Refused && is_error && says(&head, "close");
                assert!(refuses, "nobody asked for {head:?}");
            }
            if head.status.is_success() && asked.is_some_and(|asked| asked.method == Method::CONNECT) {
                assert!(self.rest.starts_with(&buffer), "a tunnel of other bytes");
                return;
            }
            let is_whole = body(asked, &head, &mut buffer, has_ended);
            goes_on = is_whole && !says(&head, "close");
            answered += 1;
        }
        if goes_on && !is_draining {
            self.check_rest(answered);
        }
    }

    /// Checks the end after `answered` replies. If the server stays silent or closes without a
    /// reply, there must be a reason.
    fn check_rest(&self, answered: usize) {
        let is_late = |asked: &SentRequest| asked.path.starts_with("/never") || !asked.is_whole;
        let left = self.asked.get(answered);
        let before = answered.checked_sub(1).and_then(|at| self.asked.get(at));
        let is_large = before.is_some_and(|asked| asked.body_bytes > UNWANTED_MAX);
        assert!(left.is_none_or(is_late) || is_large, "no answer to {left:?}, after {before:?}");
        // The server parses a trickling head again only at its end.
        let has_end = self.rest.windows(3).any(|three| three == b"\n\r\n" || three[..2] == *b"\n\n");
        let is_owed = left.is_none() && self.end == End::Refused && has_end;
        assert!(!is_owed, "what is no request is not refused");
    }
}

impl SentRequest {
    fn read_body(&mut self, framing: BodyFraming, buffer: &mut BytesMut) -> Result<(), ()> {
        let mut decoder = BodyDecoder::new(framing);
        loop {
            match decoder.decode(buffer) {
                Ok(BodyEvent::Data(data)) => self.body_bytes += data.len(),
                Ok(BodyEvent::NeedMore) => return Ok(()),
                Ok(BodyEvent::End(_)) => {
                    self.is_whole = true;
                    return Ok(());
                }
                Err(_) => return Err(()),
            }
        }
    }

    /// Returns the requested length of the body, if known.
    fn wanted(&self) -> Option<usize> {
        let number =
            ["/hit/", "/memory/", "/stored/"].iter().find_map(|verb| self.path.strip_prefix(verb))?;
        Some(number.parse::<usize>().ok()?.min(BODY_MAX))
    }
}

/// Takes the head of the next final response, and checks the interim ones before it.
fn head(buffer: &mut BytesMut, asked: Option<&SentRequest>) -> Option<ResponseHead> {
    while !buffer.is_empty() {
        let head = ResponseHeadParser::default().parse(buffer, 1 << 16).expect("a head");
        let head = head.expect("a whole head: all that is written is taken");
        if !head.status.is_informational() {
            return Some(head);
        }
        let asked = asked.expect("who sent no request gets no interim response");
        let is_due = match head.status {
            StatusCode::CONTINUE => asked.expects_continue,
            StatusCode::EARLY_HINTS => asked.path == "/hints",
            _ => false,
        };
        assert!(is_due && asked.version != Version::HTTP_10, "{head:?} to {asked:?}");
    }
    None
}

/// Takes a response's body from the buffer. Returns `true` if it is whole.
fn body(asked: Option<&SentRequest>, head: &ResponseHead, buffer: &mut BytesMut, has_ended: bool) -> bool {
    let method = asked.map_or(&Method::GET, |asked| &asked.method);
    let length = head.fields.value(&header::CONTENT_LENGTH).map(number);
    let coding = head.fields.value(&header::TRANSFER_ENCODING);
    assert!(coding.is_none() || length.is_none(), "two framings: {head:?}");
    let framing = match (*method == Method::HEAD || response::is_bodiless(head.status), coding, length) {
        (true, ..) => BodyFraming::None,
        (_, Some(coding), _) => {
            assert_eq!(coding, b"chunked", "{head:?}");
            BodyFraming::Chunked
        }
        (_, None, Some(length)) => BodyFraming::Length(length),
        (_, None, None) => {
            assert!(
                asked.is_some_and(|asked| asked.version == Version::HTTP_10) && says(head, "close"),
                "{head:?}"
            );
            buffer.clear();
            return has_ended;
        }
    };
    let wanted = asked.and_then(SentRequest::wanted).filter(|_| head.status == StatusCode::OK);
    let (mut decoder, mut bytes) = (BodyDecoder::new(framing), 0);
    loop {
        match decoder.decode(buffer).expect("a body") {
            BodyEvent::Data(data) => {
                let is_due = wanted.is_none() || BODY[bytes..].starts_with(&data);
                assert!(is_due, "{asked:?}: other bytes behind the first {bytes}");
                bytes += data.len();
            }
            BodyEvent::NeedMore => return false,
            BodyEvent::End(_) => break,
        }
    }
    if let Some(wanted) = wanted.filter(|_| framing != BodyFraming::None) {
        assert_eq!(bytes, wanted, "{asked:?}");
    }
    true
}

fn number(digits: &[u8]) -> u64 {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).expect("a number")
}

fn says(head: &ResponseHead, what: &str) -> bool {
    head.fields.value(&header::CONNECTION).is_some_and(|value| value == what.as_bytes())
}

/// Maximum bytes of an unwanted body that the server reads to keep the connection.
const UNWANTED_MAX: usize = 65_536;
