//! Plain requests: a GET or HEAD in the common forms, recognized without taking it off the buffer.
//!
//! Most requests to a cache are plain. Most of the work of [`super::HeadParser::parse`], such as a
//! field map and a parsed URI, serves the others. Here the head is read in place, without
//! allocation or copy. A request that is faulty, incomplete or only unusual gives [`None`], and the
//! ordinary parser decides. So this parser is never more tolerant than the ordinary one; a test
//! compares the two.

mod ask;
mod conditions;
mod noted;
mod read;

pub use conditions::Conditions;

use super::section_cache::{SectionCache, SectionKey};
use super::{Authority, HeadLimits, HeadParser, RequestLine, check_sizes, tokenize_section};
use crate::lines::{Lines, Strictness};
use http::Version;
use noted::RelevantFields;
use read::FieldSource;
use shoal_core::{FieldLine, alphanumeric_and};
use shoal_http2::Http2Head;
use std::cell::RefCell;
use std::num::NonZero;
use std::ops::Range;

/// GET or HEAD without a body, directives, or rare conditions. In HTTP/1.1 its connection is to be
/// kept.
#[derive(Clone, Copy, Debug)]
pub struct FastPathRequest<'b> {
    /// `true` for a HEAD.
    pub is_head: bool,
    /// Host and port, from a target in absolute form, which Host must repeat, or else from Host. A
    /// registered name or an IPv4 address.
    pub authority: Authority<'b>,
    /// Path and query, from the first `/` on: ASCII bytes.
    pub path: &'b [u8],
    /// `true` if the target was in absolute form, with the scheme `http`. Always `false` in HTTP/2,
    /// although its targets have that form.
    pub absolute: bool,
    /// HTTP/1.1 or HTTP/2.
    pub version: Version,
    /// Referer field.
    pub referer: Option<&'b [u8]>,
    /// User-Agent field.
    pub user_agent: Option<&'b [u8]>,
    /// Conditions, from validators that the client already has.
    pub conditions: Conditions<'b>,
    /// Range field: one line, with at most one range.
    pub range: Option<&'b [u8]>,
    /// Accept-Encoding field: one line.
    pub accept_encoding: Option<&'b [u8]>,
    /// Bytes of the head in the buffer; 0 for HTTP/2, since its heads were taken out of the buffer.
    pub head_bytes: usize,
    read: FieldSource<'b>,
}

impl<'b> FastPathRequest<'b> {
    /// Makes a plain request from a head of HTTP/2, if it is one. The caller knows that it has no
    /// body.
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
        let RelevantFields {
            referer,
            user_agent,
            if_none_match,
            if_modified_since,
            range,
            accept_encoding,
            ..
        } = noted;
        let conditions = Conditions { if_none_match, if_modified_since };
        let path = Some(path).filter(|path| is_plain(path))?;
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
            accept_encoding,
            head_bytes: 0,
            read: FieldSource::List(list, pseudo_fields),
        })
    }

    /// Returns path and query as a text. A hit does not need it: the check of a text's bytes takes
    /// longer than a comparison with them.
    pub fn path_text(&self) -> &'b str {
        std::str::from_utf8(self.path).expect("a plain path has ASCII bytes alone")
    }

    /// Calls `taker` with all fields in their order: names, in any case, and values.
    pub fn each_field(&self, taker: impl FnMut(&'b [u8], &'b [u8])) {
        self.read.each(taker);
    }
}

impl HeadParser {
    /// Returns the plain request at the front of `buffer`, if there is one. The caller then takes
    /// the head off: with [`Self::find_head`] and [`Self::take_head`] on the unchanged buffer, or
    /// itself, followed by [`Self::discard_peeked`].
    pub fn peek_fast_path<'b>(
        &mut self,
        buffer: &'b [u8],
        limits: &HeadLimits,
    ) -> Option<FastPathRequest<'b>> {
        // The facts are copied: a request built under the borrow would be moved out of it, which
        // takes more instructions.
        self.plain_with(
            |key, section| REMEMBERED.with_borrow_mut(|remembered| remembered.find(key, section).copied()),
            |key, section, said| {
                REMEMBERED.with_borrow_mut(|remembered| remembered.came(key, section, said));
            },
            buffer,
            limits,
        )
    }

    /// Returns the plain request. `find` returns the facts of a remembered section, which is not
    /// tokenized again; `came` is told of a section that may be remembered.
    #[inline]
    fn plain_with<'b>(
        &mut self,
        find: impl FnOnce(SectionKey, &[u8]) -> Option<SectionFacts>,
        came: impl FnOnce(SectionKey, &[u8], &SectionFacts),
        buffer: &'b [u8],
        limits: &HeadLimits,
    ) -> Option<FastPathRequest<'b>> {
        let is_head = match buffer.first_chunk() {
            Some(b"GET ") => false,
            Some(b"HEAD") if buffer.get(4) == Some(&b' ') => true,
            _ => return None,
        };
        // A head that trickles in is not a common one.
        if self.attempt_at != 0 {
            return None;
        }
        let mut lines = Lines::new(buffer, Strictness::Strict);
        let line = lines.line().ok()??;
        let section = lines.ahead();
        let key = SectionKey::of(section);
        if let Some(said) = key.and_then(|key| find(key, section)) {
            // The places of the fields are unknown here: `find_head` tokenizes the head if the
            // caller takes it.
            self.seen = None;
            let target = plain_target(line, is_head)?;
            check_sizes(target, buffer.len(), limits).ok()?;
            return said.plain((is_head, target), section, limits, buffer.len());
        }
        // The head may be taken by its parts, so the whole line is checked.
        let line = RequestLine::of(line).ok().filter(|line| line.version == Version::HTTP_11)?;
        let seen = tokenize_section(&line, &mut lines, &mut self.fields, limits).ok()??;
        let head_bytes = seen.head_bytes;
        self.seen = Some(seen);
        // Further requests may follow it.
        let section = &section[..section.len() - (buffer.len() - head_bytes)];
        let said = SectionFacts::read(&self.fields, buffer, head_bytes - section.len())?;
        let get = said.plain((is_head, line.target.as_bytes()), section, limits, head_bytes)?;
        if let Some(key) = key.filter(|_| head_bytes == buffer.len()) {
            came(key, section, &said);
        }
        Some(get)
    }

    /// Returns the plain request by these `remembered` sections.
    #[cfg(test)]
    pub(super) fn plain_by<'b>(
        &mut self,
        remembered: &mut SectionCache,
        buffer: &'b [u8],
        limits: &HeadLimits,
    ) -> Option<FastPathRequest<'b>> {
        let remembered = RefCell::new(remembered);
        self.plain_with(
            |key, section| remembered.borrow_mut().find(key, section).copied(),
            |key, section, said| remembered.borrow_mut().came(key, section, said),
            buffer,
            limits,
        )
    }

    /// Forgets a plain request that was answered; the caller has taken its head off the buffer.
    pub fn discard_peeked(&mut self) {
        self.seen = None;
        self.empty_lines = 0;
    }
}

/// Facts that a plain request's field section gives, independent of the request line.
#[derive(Clone, Copy, Debug)]
pub(super) struct SectionFacts {
    field_count: usize,
    host: Part,
    /// Length of the name at the start of Host's value, in bytes.
    name_bytes: usize,
    /// Port behind the name.
    port: Option<u16>,
    referer: Option<Part>,
    user_agent: Option<Part>,
    if_none_match: Option<Part>,
    if_modified_since: Option<Part>,
    range: Option<Part>,
    accept_encoding: Option<Part>,
    /// `true` if the section has an Authorization field.
    pub authorizes: bool,
}

impl SectionFacts {
    /// Reads the facts from these fields of `buffer`; their section begins at `start`. `None` when
    /// a field makes the request not plain.
    fn read(fields: &[FieldLine], buffer: &[u8], start: usize) -> Option<Self> {
        let mut noted = RelevantFields::default();
        for field in fields {
            noted.note(&buffer[field.name()], &buffer[field.value()], field.value())?;
        }
        Self::of(noted, fields.len(), buffer, start)
    }

    /// Returns the facts of a section that begins at `start` of `buffer`.
    #[inline]
    fn of(
        noted: RelevantFields<Range<usize>>,
        field_count: usize,
        buffer: &[u8],
        start: usize,
    ) -> Option<Self> {
        let host = noted.host?;
        let Authority { host: name, port, .. } = Authority::plain(&buffer[host.clone()])?;
        let part = |place: Range<usize>| Part::new(place, start);
        Some(Self {
            field_count,
            host: part(host)?,
            name_bytes: name.len(),
            port,
            referer: noted.referer.and_then(part),
            user_agent: noted.user_agent.and_then(part),
            if_none_match: noted.if_none_match.and_then(part),
            if_modified_since: noted.if_modified_since.and_then(part),
            range: noted.range.and_then(part),
            accept_encoding: noted.accept_encoding.and_then(part),
            authorizes: noted.authorizes,
        })
    }

    /// Returns the plain request that this section belongs to, if it is one. All bytes of the
    /// target are checked: those before the path are equal to Host's.
    #[inline]
    fn plain<'b>(
        &self,
        (is_head, target): (bool, &'b [u8]),
        section: &'b [u8],
        limits: &HeadLimits,
        head_bytes: usize,
    ) -> Option<FastPathRequest<'b>> {
        let host = self.host.of(section);
        let (absolute, path) = match target.strip_prefix(b"http://") {
            None => (false, target),
            // The authority's spelling may differ from Host's in harmless ways. The ordinary parser
            // then compares the two.
            Some(rest) => (true, rest.strip_prefix(host)?),
        };
        if self.field_count > limits.fields_max || !is_plain(path) {
            return None;
        }
        let value = |part: Option<Part>| part.map(|part| part.of(section));
        Some(FastPathRequest {
            is_head,
            authority: Authority {
                host: &host[..self.name_bytes],
                port: self.port,
                digits: host.get(self.name_bytes + 1..).unwrap_or_default(),
            },
            path,
            absolute,
            version: Version::HTTP_11,
            referer: value(self.referer),
            user_agent: value(self.user_agent),
            conditions: Conditions {
                if_none_match: value(self.if_none_match),
                if_modified_since: value(self.if_modified_since),
            },
            range: value(self.range),
            accept_encoding: value(self.accept_encoding),
            head_bytes,
            read: FieldSource::Section(section),
        })
    }
}

/// Place of a value in a field section; a name comes before it, so that the start is never 0.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: NonZero<u32>,
    end: u32,
}

impl Part {
    /// Makes the part at `place` of a buffer; the section begins at `start`.
    fn new(place: Range<usize>, start: usize) -> Option<Self> {
        Some(Self { start: NonZero::new((place.start - start) as u32)?, end: (place.end - start) as u32 })
    }

    #[inline]
    fn of<'b>(&self, section: &'b [u8]) -> &'b [u8] {
        &section[self.start.get() as usize..self.end as usize]
    }
}

thread_local! {
    /// Sections that this thread remembers.
    static REMEMBERED: RefCell<SectionCache> = const { RefCell::new(SectionCache::new()) };
}

/// Returns the target of a request line of GET or HEAD in HTTP/1.1, unchecked.
#[inline]
fn plain_target(line: &[u8], is_head: bool) -> Option<&[u8]> {
    let target = line.strip_suffix(b" HTTP/1.1")?;
    target.get(if is_head { "HEAD ".len() } else { "GET ".len() }..)
}

/// Returns `true` if all parsers agree on the path and query.
#[inline]
fn is_plain(path: &[u8]) -> bool {
    path.first() == Some(&b'/') && path.iter().fold(true, |plain, byte| plain & IN_PATH[usize::from(*byte)])
}

/// Characters of a path and of a query (RFC 3986 section 3.3 and 3.4).
static IN_PATH: [bool; 256] = alphanumeric_and(b"-._~%!$&'()*+,;=:@/?");

#[cfg(test)]
mod tests;
