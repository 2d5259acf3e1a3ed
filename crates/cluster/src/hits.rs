//! Call `objects/hits`: several asks for fresh responses in RAM, and their answers, in one message.
//!
//! ```text
//!  asks     1, view (8), purges (8), count (2), then for each ask:
//!           parts (1), length of the URL (2), URL, then the parts that there are:
//!            1  host and prefix of the site   2  If-None-Match   4  If-Modified-Since
//!           each text with its length (2) before it
//!  answers  1, load (4), view (8), count (2), then for each answer:
//!           0  not at once
//!           1  key (8), sum (8), length of the head (4), of the body (4), head, body
//!           2  likewise, without a body: the conditions say that the client has the response
//! ```
//!
//! Numbers are little-endian. A home answers from RAM at once or not at all: 0 sends the asker to
//! an ask of its own. A message that deviates anywhere is refused whole.

use std::ops::Range;

/// Asks of one message.
#[derive(Clone, Debug)]
pub struct HitAsks {
    bytes: Vec<u8>,
    count: u16,
}

/// Asks as they stand in a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BorrowedHitAsks<'a> {
    /// Fingerprint of the asker's view.
    pub view: u64,
    /// Hash of the asker's purge vector.
    pub purges: u64,
    count: u16,
    rest: &'a [u8],
}

/// One ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HitAsk<'a> {
    /// Effective URI, in its normal form.
    pub url: &'a [u8],
    /// First host and path prefix of the site; `None` for a client of the forward proxy.
    pub site: Option<(&'a str, &'a str)>,
    /// If-None-Match of the client.
    pub if_none_match: Option<&'a [u8]>,
    /// If-Modified-Since of the client.
    pub if_modified_since: Option<&'a [u8]>,
}

/// Answers of one message.
#[derive(Clone, Debug)]
pub struct HitAnswers {
    bytes: Vec<u8>,
    /// Place of the message's first byte.
    start: usize,
    count: u16,
}

/// Answers as they stand in a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BorrowedHitAnswers<'a> {
    /// Asks that the node has in flight.
    pub load: u32,
    /// Fingerprint of the node's view.
    pub view: u64,
    count: u16,
    rest: &'a [u8],
}

/// One response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HitAnswer<'a> {
    /// Hash of the full key.
    pub key: u64,
    /// Hash of the body's bytes.
    pub sum: u64,
    /// `true` if the client has the response already; the body is empty then.
    pub is_known: bool,
    /// Fields as HTTP/1 lines, each of which ends with CRLF.
    pub head: &'a [u8],
    /// Body.
    pub body: &'a [u8],
}

impl HitAsks {
    /// Begins a message.
    pub fn new(view: u64, purges: u64) -> Self {
        let mut bytes = Vec::with_capacity(512);
        bytes.push(VERSION);
        bytes.extend_from_slice(&view.to_le_bytes());
        bytes.extend_from_slice(&purges.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        Self { bytes, count: 0 }
    }

    /// Adds an ask. Returns `false`, and adds nothing, if a part is too long.
    pub fn push(&mut self, ask: HitAsk<'_>) -> bool {
        let (host, prefix) = ask.site.unwrap_or_default();
        let parts = [
            (SITE, ask.site.is_some().then_some(host.as_bytes())),
            (SITE, ask.site.is_some().then_some(prefix.as_bytes())),
            (IF_NONE_MATCH, ask.if_none_match),
            (IF_MODIFIED_SINCE, ask.if_modified_since),
        ];
        let is_short = (1..=URL_BYTES_MAX).contains(&ask.url.len())
            && parts.iter().all(|(_, text)| text.is_none_or(|text| text.len() <= PART_BYTES_MAX));
        if !is_short || usize::from(self.count) >= HITS_MAX {
            return false;
        }
        debug_assert!(usize::from(self.count) < HITS_MAX, "there is room");
        self.count += 1;
        let kinds = parts.iter().filter(|(_, text)| text.is_some());
        self.bytes.push(kinds.fold(0, |kinds, (kind, _)| kinds | kind));
        for text in [Some(ask.url)].into_iter().chain(parts.map(|(_, text)| text)).flatten() {
            self.bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
            self.bytes.extend_from_slice(text);
        }
        true
    }

    /// Ends the message.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes[COUNT_OF_ASKS].copy_from_slice(&self.count.to_le_bytes());
        self.bytes
    }
}

impl<'a> BorrowedHitAsks<'a> {
    /// Reads a message. Returns `None` if a byte deviates.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut input = Input(bytes);
        (input.take(1)? == [VERSION]).then_some(())?;
        let (view, purges) = (input.u64()?, input.u64()?);
        let count = input.u16()?;
        let asks = Self { view, purges, count, rest: input.0 };
        let mut rest = Input(asks.rest);
        let are_sound = usize::from(count) <= HITS_MAX && (0..count).all(|_| rest.ask().is_some());
        (are_sound && rest.0.is_empty()).then_some(asks)
    }

    /// Returns the asks in their order.
    pub fn iter(&self) -> impl Iterator<Item = HitAsk<'a>> + use<'a> {
        let mut rest = Input(self.rest);
        (0..self.count).map_while(move |_| rest.ask())
    }
}

impl HitAnswers {
    /// Begins a message.
    pub fn new(load: u32, view: u64) -> Self {
        Self::behind(Vec::with_capacity(4096), load, view)
    }

    /// Begins a message behind these bytes.
    pub fn behind(mut bytes: Vec<u8>, load: u32, view: u64) -> Self {
        let start = bytes.len();
        bytes.push(VERSION);
        bytes.extend_from_slice(&load.to_le_bytes());
        bytes.extend_from_slice(&view.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        Self { bytes, start, count: 0 }
    }

    /// Adds a response. `head` writes its fields as HTTP/1 lines. Without a body the client has the
    /// response already.
    pub fn push(&mut self, (key, sum): (u64, u64), head: impl FnOnce(&mut Vec<u8>), body: Option<&[u8]>) {
        self.count += 1;
        self.bytes.push(if body.is_some() { WHOLE } else { KNOWN });
        debug_assert!(body.is_none_or(|body| !body.is_empty()), "a whole response has a body");
        let body = body.unwrap_or_default();
        self.bytes.extend_from_slice(&key.to_le_bytes());
        self.bytes.extend_from_slice(&sum.to_le_bytes());
        let lengths = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        let start = self.bytes.len();
        head(&mut self.bytes);
        let head_bytes = (self.bytes.len() - start) as u32;
        self.bytes[lengths..lengths + 4].copy_from_slice(&head_bytes.to_le_bytes());
        self.bytes.extend_from_slice(body);
    }

    /// Adds the answer of a node that does not answer at once.
    pub fn push_none(&mut self) {
        self.count += 1;
        self.bytes.push(NOT_AT_ONCE);
    }

    /// Returns the number of the message's bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Returns `true` if there is no answer yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Ends the message. Returns it with the bytes before it.
    pub fn finish(mut self) -> Vec<u8> {
        let place = self.start + COUNT_OF_ANSWERS.start..self.start + COUNT_OF_ANSWERS.end;
        self.bytes[place].copy_from_slice(&self.count.to_le_bytes());
        self.bytes
    }
}

impl<'a> BorrowedHitAnswers<'a> {
    /// Reads the answers to `count` asks. Returns `None` if a byte deviates.
    pub fn parse(bytes: &'a [u8], count: usize) -> Option<Self> {
        let mut input = Input(bytes);
        (input.take(1)? == [VERSION]).then_some(())?;
        let (load, view, told) = (input.u32()?, input.u64()?, input.u16()?);
        let answers = Self { load, view, count: told, rest: input.0 };
        let mut rest = Input(answers.rest);
        let are_sound = usize::from(told) == count && (0..told).all(|_| rest.answer().is_some());
        (are_sound && rest.0.is_empty()).then_some(answers)
    }

    /// Returns the answers in the order of the asks; `None` where the node does not answer at once.
    pub fn iter(&self) -> impl Iterator<Item = Option<HitAnswer<'a>>> + use<'a> {
        let mut rest = Input(self.rest);
        (0..self.count).map_while(move |_| rest.answer())
    }
}

impl HitAnswer<'_> {
    /// Returns `true` if the head is fields alone: it ends no head early, and has no field that
    /// frames a message. Nothing else is read: a member is trusted with names and values.
    pub fn has_plain_head(&self) -> bool {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', self.head) {
            let Some(line) = self.head[start..end].strip_suffix(b"\r") else { return false };
            if !is_plain_line(line) {
                return false;
            }
            start = end + 1;
        }
        start == self.head.len()
    }
}

/// Returns `true` for a line with a field that frames no message.
fn is_plain_line(line: &[u8]) -> bool {
    let may_frame = line.first().is_some_and(|first| matches!(first | 0x20, b'c' | b'k' | b't'));
    let frames = |name: &[u8]| {
        line.len() > name.len() && line[name.len()] == b':' && line[..name.len()].eq_ignore_ascii_case(name)
    };
    line.first().is_some_and(|first| first.is_ascii_graphic() && *first != b':')
        && memchr::memchr2(b'\r', 0, line).is_none()
        && memchr::memchr(b':', line).is_some_and(|end| memchr::memchr(b' ', &line[..end]).is_none())
        && !(may_frame && FRAMING.iter().any(|name| frames(name)))
}

/// Bytes that are still to be read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Takes a text with its length before it.
    fn text(&mut self, most: usize) -> Option<&'a [u8]> {
        let length = usize::from(self.u16()?);
        self.take(length).filter(|_| length <= most)
    }

    fn ask(&mut self) -> Option<HitAsk<'a>> {
        let kinds = self.take(1)?[0];
        if kinds & !(SITE | IF_NONE_MATCH | IF_MODIFIED_SINCE) != 0 {
            return None;
        }
        let url = self.text(URL_BYTES_MAX).filter(|url| !url.is_empty())?;
        let mut part = |kind: u8| match kinds & kind {
            0 => Some(None),
            _ => self.text(PART_BYTES_MAX).map(Some),
        };
        let (host, prefix) = (part(SITE)?, part(SITE)?);
        let (if_none_match, if_modified_since) = (part(IF_NONE_MATCH)?, part(IF_MODIFIED_SINCE)?);
        let site = match (host, prefix) {
            (Some(host), Some(prefix)) => {
                Some((std::str::from_utf8(host).ok()?, std::str::from_utf8(prefix).ok()?))
            }
            _ => None,
        };
        Some(HitAsk { url, site, if_none_match, if_modified_since })
    }

    fn answer(&mut self) -> Option<Option<HitAnswer<'a>>> {
        let kind = self.take(1)?[0];
        if kind == NOT_AT_ONCE {
            return Some(None);
        }
        let (key, sum) = (self.u64()?, self.u64()?);
        let (head, body) = (self.u32()? as usize, self.u32()? as usize);
        let answer =
            HitAnswer { key, sum, is_known: kind == KNOWN, head: self.take(head)?, body: self.take(body)? };
        let is_sound = kind == WHOLE && !answer.body.is_empty() || kind == KNOWN && answer.body.is_empty();
        is_sound.then_some(Some(answer))
    }
}

/// Most asks of one message.
pub const HITS_MAX: usize = 64;

/// Most bytes of a URL that is asked for in this way.
const URL_BYTES_MAX: usize = 4096;

/// Most bytes of another part of an ask.
const PART_BYTES_MAX: usize = 768;

const VERSION: u8 = 1;
const COUNT_OF_ASKS: Range<usize> = 17..19;
const COUNT_OF_ANSWERS: Range<usize> = 13..15;

/// Parts of an ask.
const SITE: u8 = 1;
const IF_NONE_MATCH: u8 = 2;
const IF_MODIFIED_SINCE: u8 = 4;

/// Kinds of an answer.
const NOT_AT_ONCE: u8 = 0;
const WHOLE: u8 = 1;
const KNOWN: u8 = 2;

/// Fields that a node writes itself, or that end with the connection.
const FRAMING: [&[u8]; 5] =
    [b"content-length", b"transfer-encoding", b"connection", b"keep-alive", b"trailer"];

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: HitAsk<'_> =
        HitAsk { url: b"http://a.test/1", site: None, if_none_match: None, if_modified_since: None };

    const RICH: HitAsk<'_> = HitAsk {
        url: b"http://b.test/2",
        site: Some(("*.b.test", "/")),
        if_none_match: Some(b"\"e\""),
        if_modified_since: Some(b"yesterday"),
    };

    fn asks() -> Vec<u8> {
        let mut asks = HitAsks::new(3, 4);
        assert!(asks.push(PLAIN) && asks.push(RICH));
        asks.finish()
    }

    fn answers() -> Vec<u8> {
        let mut answers = HitAnswers::new(7, 8);
        answers.push((1, 2), |out| out.extend_from_slice(b"a: b\r\n"), Some(b"body"));
        answers.push_none();
        answers.push((3, 4), |out| out.extend_from_slice(b"c: d\r\n"), None);
        answers.finish()
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let bytes = asks();
        let read = BorrowedHitAsks::parse(&bytes).expect("sound");
        assert_eq!((read.view, read.purges), (3, 4));
        assert_eq!(read.iter().collect::<Vec<_>>(), [PLAIN, RICH]);
        let bytes = answers();
        let read = BorrowedHitAnswers::parse(&bytes, 3).expect("sound");
        let whole = HitAnswer { key: 1, sum: 2, is_known: false, head: b"a: b\r\n", body: b"body" };
        let known = HitAnswer { key: 3, sum: 4, is_known: true, head: b"c: d\r\n", body: b"" };
        let answers: Vec<_> = read.iter().collect();
        assert_eq!((read.load, read.view, answers), (7, 8, vec![Some(whole), None, Some(known)]));
        assert!(BorrowedHitAnswers::parse(&bytes, 2).is_none(), "another number of answers");
    }

    #[test]
    fn cut_and_longer_messages_are_refused() {
        for (bytes, is_sound) in [
            (asks(), (|bytes| BorrowedHitAsks::parse(bytes).is_some()) as fn(&[u8]) -> bool),
            (answers(), |bytes| BorrowedHitAnswers::parse(bytes, 3).is_some()),
        ] {
            assert!(is_sound(&bytes) && (0..bytes.len()).all(|end| !is_sound(&bytes[..end])));
            assert!(!is_sound(&[&bytes[..], b"x"].concat()));
            assert!(!is_sound(&[&[2], &bytes[1..]].concat()), "another version");
        }
    }

    #[test]
    fn too_long_and_too_many_asks_are_not_taken() {
        let mut asks = HitAsks::new(0, 0);
        assert!(!asks.push(HitAsk { url: &[b'x'; URL_BYTES_MAX + 1], ..PLAIN }));
        assert!(!asks.push(HitAsk { url: b"", ..PLAIN }));
        assert!(!asks.push(HitAsk { if_none_match: Some(&[b'x'; PART_BYTES_MAX + 1]), ..PLAIN }));
        assert!((0..HITS_MAX).all(|_| asks.push(PLAIN)));
        assert!(!asks.push(PLAIN));
        let mut bytes = asks.finish();
        bytes[COUNT_OF_ASKS].copy_from_slice(&u16::MAX.to_le_bytes());
        assert!(BorrowedHitAsks::parse(&bytes).is_none());
    }

    #[test]
    fn heads_that_frame_messages_are_not_plain() {
        let is_plain =
            |head: &[u8]| HitAnswer { key: 0, sum: 0, is_known: false, head, body: b"" }.has_plain_head();
        assert!(is_plain(b"a: b\r\ncontent-type: text/html\r\n") && is_plain(b""));
        for head in [
            &b"a: b\r\n\r\n"[..],
            b"a: b\n",
            b"a: b\rc: d\r\n",
            b"a: b",
            b"no colon\r\n",
            b": b\r\n",
            b"a b: c\r\n",
            b"Content-Length: 3\r\n",
            b"a: b\r\ntransfer-encoding: chunked\r\n",
            b"a: \0\r\n",
        ] {
            assert!(!is_plain(head), "{:?}", String::from_utf8_lossy(head));
        }
    }
}
