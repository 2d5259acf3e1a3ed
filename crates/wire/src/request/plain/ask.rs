//! Asks of another node of a cluster, recognized in place as plain requests are.
//!
//! A node adds fields that make a client's request unusual: Via and CDN-Loop, which the asked node
//! passes on or ignores, and TE with `trailers`, alone or with the mark of a digest. All else is as
//! in a plain request.

use super::noted::RelevantFields;
use super::{FastPathRequest, SectionFacts};
use crate::lines::{Lines, Strictness};
use crate::request::{HeadLimits, HeadParser, RequestLine, tokenize_section};
use http::Version;

impl HeadParser {
    /// Returns the ask at the front of `buffer`, if there is one: a GET with fields of nodes, and
    /// else those of a plain request. The caller goes on as after [`Self::peek_fast_path`].
    pub fn peek_ask<'b>(&mut self, buffer: &'b [u8], limits: &HeadLimits) -> Option<FastPathRequest<'b>> {
        if self.attempt_at != 0 || !buffer.starts_with(b"GET http://") {
            return None;
        }
        let mut lines = Lines::new(buffer, Strictness::Strict);
        let line = RequestLine::read(&mut lines).ok()?.filter(|line| line.version == Version::HTTP_11)?;
        let start = buffer.len() - lines.ahead().len();
        let seen = tokenize_section(&line, &mut lines, &mut self.fields, limits).ok()??;
        let head_bytes = seen.head_bytes;
        self.seen = Some(seen);
        let mut noted = RelevantFields::default();
        for field in &self.fields {
            let (name, value) = (&buffer[field.name()], &buffer[field.value()]);
            if !is_of_nodes(name, value) {
                noted.note(name, value, field.value())?;
            }
        }
        let said = SectionFacts::of(noted, self.fields.len(), buffer, start)?;
        said.plain((false, line.target.as_bytes()), &buffer[start..head_bytes], limits, head_bytes)
    }
}

/// Returns `true` for a field that nodes add to a client's request.
fn is_of_nodes(name: &[u8], value: &[u8]) -> bool {
    match name.len() {
        2 => name.eq_ignore_ascii_case(b"te") && (value == b"trailers" || value == TRAILERS_AND_MARK),
        3 => name.eq_ignore_ascii_case(b"via"),
        8 => name.eq_ignore_ascii_case(b"cdn-loop"),
        _ => false,
    }
}

/// TE of a node that reads the mark of a digest in the answer.
const TRAILERS_AND_MARK: &[u8] = b"trailers, shoal-mark";

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits { head_bytes_max: 8192, target_bytes_max: 4096, fields_max: 100 };

    fn peeked(fields: &str) -> Option<(String, usize)> {
        let head = format!("GET http://a.test/b HTTP/1.1\r\n{fields}\r\n");
        let mut parser = HeadParser::new();
        let ask = parser.peek_ask(head.as_bytes(), &LIMITS)?;
        assert!(ask.absolute && !ask.is_head && ask.head_bytes == head.len());
        let mut fields = 0;
        ask.each_field(|_, _| fields += 1);
        Some((ask.path_text().to_owned(), fields))
    }

    #[test]
    fn asks_are_plain_but_for_fields_of_nodes() {
        let own = "Host: a.test\r\nVia: 1.1 x\r\nCDN-Loop: shoal\r\nShoal-Peer: 1\r\nTE: trailers\r\n";
        assert_eq!(peeked(own), Some(("/b".to_owned(), 5)));
        assert_eq!(peeked("Host: a.test\r\nTE: trailers, shoal-mark\r\n"), Some(("/b".to_owned(), 2)));
        for further in [
            "TE: gzip",
            "TE: trailers, other",
            "Cache-Control: no-cache",
            "Range: bytes=0-1,3-4",
            "Expect: x",
            "Host: b",
        ] {
            assert_eq!(peeked(&format!("{own}{further}\r\n")), None, "{further}");
        }
        assert_eq!(peeked("Host: b.test\r\n"), None);
    }
}
