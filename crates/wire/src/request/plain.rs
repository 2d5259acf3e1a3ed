//! Plain requests: a GET or HEAD of the kinds that most clients send, seen without taking it off
//! the buffer.
//!
//! Most requests to a cache are of this kind, and most of what [`super::HeadParser::parse`] makes
//! of a head (a field map, a parsed URI) serves the others. Here the head is looked at in place:
//! nothing is allocated or copied. Whatever is not plain at first sight, be it faulty, incomplete
//! or only unusual, is [`None`], and the ordinary way decides; so this is never more tolerant than
//! that one, which a test compares.

mod conditions;
mod noted;
mod read;

pub use conditions::Conditions;

use super::section_cache::{SectionCache, SectionKey};
use super::{Authority, HeadLimits, HeadParser, RequestLine, tokenize_section};
use crate::http2::Http2Head;
use crate::lines::{Lines, Strictness};
use http::Version;
use noted::RelevantFields;
use read::FieldSource;
use shoal_core::{FieldLine, alphanumeric_and};
use std::cell::RefCell;
use std::num::NonZero;
use std::ops::Range;

/// A GET or HEAD without a body, directives, or conditions of those that few send; in HTTP/1.1 one
/// whose connection is to be kept.
#[derive(Clone, Copy, Debug)]
pub struct FastPathRequest<'b> {
    /// Whether it is a HEAD.
    pub is_head: bool,
    /// Host and port: of the target in absolute form, which Host repeats, or else of Host. A
    /// registered name or an IPv4 address.
    pub authority: Authority<'b>,
    /// Path and query, from the first `/` on.
    pub path: &'b str,
    /// Whether the target was in absolute form, with the scheme `http`. In HTTP/2 it has that form
    /// always, and this is false.
    pub absolute: bool,
    /// HTTP/1.1 or HTTP/2.
    pub version: Version,
    /// The Referer field.
    pub referer: Option<&'b [u8]>,
    /// The User-Agent field.
    pub user_agent: Option<&'b [u8]>,
    /// What the client has already.
    pub conditions: Conditions<'b>,
    /// The Range field, which has one line, and one range if any.
    pub range: Option<&'b [u8]>,
    /// Bytes that the head takes in the buffer; 0 for HTTP/2, whose heads were taken out of it.
    pub head_bytes: usize,
    read: FieldSource<'b>,
}

impl<'b> FastPathRequest<'b> {
    /// The plain request that a head of HTTP/2 is, if it is one; that it has no body the caller
    /// knows.
    pub fn of_http2(head: &Http2Head<'b>, limits: &HeadLimits) -> Option<Self> {
        let (authority, path) = (head.authority()?, head.path()?);
        let fits = authority.len() + path.len() <= limits.target_bytes_max
            && head.field_count() <= limits.fields_max;
        let is_head = match head.method() {
            b"GET" => false,
            b"HEAD" => true,
            _ => return None,
        };
        if !head.is_http() || !fits {
            return None;
        }
        let mut noted = RelevantFields::default();
        for (name, value) in head.fields() {
            noted.note(name, value, value)?;
        }
        // A Host beside the authority would have to be compared with it.
        let authority = Authority::plain(authority).filter(|_| noted.host.is_none())?;
        let RelevantFields { referer, user_agent, if_none_match, if_modified_since, range, .. } = noted;
        let conditions = Conditions { if_none_match, if_modified_since };
        let path = std::str::from_utf8(path).ok().filter(|path| is_plain(path))?;
        let (list, pseudo_fields) = head.list();
        Some(Self {
            is_head,
            authority,
            path,
            absolute: false,
            version: Version::HTTP_2,
            referer,
            user_agent,
            conditions,
            range,
            head_bytes: 0,
            read: FieldSource::List(list, pseudo_fields),
        })
    }

    /// Has `taker` look at all fields in their order: names, in any case, and values.
    pub fn each_field(&self, taker: impl FnMut(&'b [u8], &'b [u8])) {
        self.read.each(taker);
    }
}

impl HeadParser {
    /// The plain request at the front of `buffer`, if there is one. The head is then taken off by
    /// [`Self::find_head`] and [`Self::take_head`], with the buffer as it is, or by who calls
    /// [`Self::discard_peeked`].
    pub fn peek_fast_path<'b>(
        &mut self,
        buffer: &'b [u8],
        limits: &HeadLimits,
    ) -> Option<FastPathRequest<'b>> {
        REMEMBERED.with_borrow_mut(|remembered| self.plain_by(remembered, buffer, limits))
    }

    /// The same, by what is remembered: a field section that is will not be tokenized.
    pub(super) fn plain_by<'b>(
        &mut self,
        remembered: &mut SectionCache,
        buffer: &'b [u8],
        limits: &HeadLimits,
    ) -> Option<FastPathRequest<'b>> {
        // A head that trickles in is none of the many.
        if self.attempt_at != 0 || !(buffer.first_chunk() == Some(b"GET ") || buffer.starts_with(HEAD)) {
            return None;
        }
        let mut lines = Lines::new(buffer, Strictness::Strict);
        let line = RequestLine::read(&mut lines).ok()?.filter(|line| line.version == Version::HTTP_11)?;
        let section = lines.ahead();
        let key = SectionKey::of(section);
        if let Some(said) = key.and_then(|key| remembered.find(key, section)) {
            // It has no places of fields: who takes the head tokenizes it.
            self.seen = None;
            line.check_sizes(buffer.len(), limits).ok()?;
            return said.plain(&line, section, limits, buffer.len());
        }
        let seen = tokenize_section(&line, &mut lines, &mut self.fields, limits).ok()??;
        let head_bytes = seen.head_bytes;
        self.seen = Some(seen);
        // Others may come behind it.
        let section = &section[..section.len() - (buffer.len() - head_bytes)];
        let said = SectionFacts::read(&self.fields, buffer, head_bytes - section.len())?;
        let get = said.plain(&line, section, limits, head_bytes)?;
        if let Some(key) = key.filter(|_| head_bytes == buffer.len()) {
            remembered.came(key, section, &said);
        }
        Some(get)
    }

    /// A plain request was answered, and its head is taken off the buffer.
    pub fn discard_peeked(&mut self) {
        self.seen = None;
        self.empty_lines = 0;
    }
}

/// What the field section of a plain request says, whatever its request line.
#[derive(Clone, Copy, Debug)]
pub(super) struct SectionFacts {
    field_count: usize,
    host: Part,
    /// How much of Host's value is its name, which stands first,
    name_bytes: usize,
    /// and the port behind it.
    port: Option<u16>,
    referer: Option<Part>,
    user_agent: Option<Part>,
    if_none_match: Option<Part>,
    if_modified_since: Option<Part>,
    range: Option<Part>,
    /// Whether it has an Authorization field.
    pub authorizes: bool,
}

impl SectionFacts {
    /// What these fields of `buffer` say, whose section begins at `start`. `None` when they make
    /// the request one that is not plain.
    fn read(fields: &[FieldLine], buffer: &[u8], start: usize) -> Option<Self> {
        let mut noted = RelevantFields::default();
        for field in fields {
            noted.note(&buffer[field.name()], &buffer[field.value()], field.value())?;
        }
        let host = noted.host?;
        let Authority { host: name, port, .. } = Authority::plain(&buffer[host.clone()])?;
        let part = |place: Range<usize>| Part::new(place, start);
        Some(Self {
            field_count: fields.len(),
            host: part(host)?,
            name_bytes: name.len(),
            port,
            referer: noted.referer.and_then(part),
            user_agent: noted.user_agent.and_then(part),
            if_none_match: noted.if_none_match.and_then(part),
            if_modified_since: noted.if_modified_since.and_then(part),
            range: noted.range.and_then(part),
            authorizes: noted.authorizes,
        })
    }

    /// The plain request that this section is part of, if it is one.
    #[inline]
    fn plain<'b>(
        &self,
        line: &RequestLine<'b>,
        section: &'b [u8],
        limits: &HeadLimits,
        head_bytes: usize,
    ) -> Option<FastPathRequest<'b>> {
        let host = self.host.of(section);
        let (absolute, path) = match line.target.strip_prefix("http://") {
            None => (false, line.target),
            // The authority's spelling may differ from Host's in harmless ways; then the ordinary
            // way compares them.
            Some(rest) => {
                (true, rest.as_bytes().strip_prefix(host).map(|path| &rest[rest.len() - path.len()..])?)
            }
        };
        let value = |part: Option<Part>| part.map(|part| part.of(section));
        (self.field_count <= limits.fields_max && is_plain(path)).then(|| FastPathRequest {
            is_head: line.method_bytes != "GET".len(),
            authority: Authority {
                host: &host[..self.name_bytes],
                port: self.port,
                digits: host.get(self.name_bytes + 1..).unwrap_or_default(),
            },
            path,
            absolute,
            version: line.version,
            referer: value(self.referer),
            user_agent: value(self.user_agent),
            conditions: Conditions {
                if_none_match: value(self.if_none_match),
                if_modified_since: value(self.if_modified_since),
            },
            range: value(self.range),
            head_bytes,
            read: FieldSource::Section(section),
        })
    }
}

/// A value's place in a field section, which a name comes before.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: NonZero<u32>,
    end: u32,
}

impl Part {
    /// What is at `place` of a buffer in which the section begins at `start`.
    fn new(place: Range<usize>, start: usize) -> Option<Self> {
        Some(Self { start: NonZero::new((place.start - start) as u32)?, end: (place.end - start) as u32 })
    }

    #[inline]
    fn of<'b>(&self, section: &'b [u8]) -> &'b [u8] {
        &section[self.start.get() as usize..self.end as usize]
    }
}

const HEAD: &[u8] = b"HEAD ";

thread_local! {
    /// What this thread remembers.
    static REMEMBERED: RefCell<SectionCache> = const { RefCell::new(SectionCache::new()) };
}

/// Whether all parsers agree on what the path and query are.
fn is_plain(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| IN_PATH[byte as usize])
}

/// RFC 3986 section 3.3 and 3.4: the characters of a path and of a query.
static IN_PATH: [bool; 256] = alphanumeric_and(b"-._~%!$&'()*+,;=:@/?");

#[cfg(test)]
mod tests;
