//! A well-behaved resource: validators, conditional requests, ranges.

use super::answer::Answer;
use super::journal::Received;

/// A representation with its validators, answering as RFC 9110 sections 13 and 14 say.
#[derive(Clone)]
pub struct Resource {
    body: Vec<u8>,
    fields: Vec<(String, String)>,
    etag: Option<String>,
    last_modified: Option<String>,
    ranges: bool,
}

impl Resource {
    /// A resource with this body, without validators, that takes range requests.
    pub fn new(body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), fields: Vec::new(), etag: None, last_modified: None, ranges: true }
    }

    /// Adds a field to every answer.
    pub fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// Sets Cache-Control.
    pub fn cache_control(self, value: &str) -> Self {
        self.field("Cache-Control", value)
    }

    /// Sets the entity tag, quotes (and W/) included.
    pub fn etag(mut self, etag: &str) -> Self {
        self.etag = Some(etag.into());
        self
    }

    /// Sets Last-Modified.
    pub fn last_modified(mut self, date: &str) -> Self {
        self.last_modified = Some(date.into());
        self
    }

    /// Ignores Range.
    pub fn without_ranges(mut self) -> Self {
        self.ranges = false;
        self
    }

    /// Its answer to a request.
    pub fn answer(&self, request: &Received) -> Answer {
        if self.not_modified(request) {
            return self.described(Answer::new(304));
        }
        let range = request.fields.first("range").filter(|_| self.ranges && self.range_holds(request));
        match range.map(|range| ranges(range, self.body.len())) {
            Some(Some(ranges)) if ranges.is_empty() => {
                let size = format!("bytes */{}", self.body.len());
                Answer::new(416).field("Content-Range", &size)
            }
            Some(Some(ranges)) if ranges.len() == 1 => {
                let (first, last) = ranges[0];
                let range = format!("bytes {first}-{last}/{}", self.body.len());
                let part = Answer::new(206).piece(&self.body[first..=last]).field("Content-Range", &range);
                self.described(part)
            }
            _ => self.described(Answer::ok(self.body.clone())),
        }
    }

    fn described(&self, mut answer: Answer) -> Answer {
        for (name, value) in &self.fields {
            answer.fields.push(name, value);
        }
        if let Some(etag) = &self.etag {
            answer.fields.push("ETag", etag);
        }
        if let Some(date) = &self.last_modified {
            answer.fields.push("Last-Modified", date);
        }
        answer
    }

    /// RFC 9110 section 13.2.2: If-None-Match goes before If-Modified-Since.
    fn not_modified(&self, request: &Received) -> bool {
        if request.fields.has("if-none-match") {
            let asked = request.fields.joined("if-none-match");
            let weak = |tag: &str| tag.trim().trim_start_matches("W/").to_string();
            let etag = self.etag.as_deref().map(weak);
            return asked == "*" || asked.split(',').any(|tag| Some(weak(tag)) == etag);
        }
        match (request.fields.first("if-modified-since"), &self.last_modified) {
            (Some(since), Some(modified)) => {
                let date = |text: &str| httpdate::parse_http_date(text).ok();
                date(since).zip(date(modified)).is_some_and(|(since, modified)| modified <= since)
            }
            _ => false,
        }
    }

    /// RFC 9110 section 13.1.5: If-Range compares strongly; when it does not hold, Range is
    /// ignored.
    fn range_holds(&self, request: &Received) -> bool {
        let Some(asked) = request.fields.first("if-range") else { return true };
        let strong = self.etag.as_deref().is_some_and(|etag| !etag.starts_with("W/") && etag == asked);
        strong || self.last_modified.as_deref() == Some(asked)
    }
}

/// The satisfiable ranges of a Range field, inclusive; `None` when it is none that this
/// understands.
fn ranges(value: &str, length: usize) -> Option<Vec<(usize, usize)>> {
    let mut satisfiable = Vec::new();
    for spec in value.strip_prefix("bytes=")?.split(',') {
        let (first, last) = spec.trim().split_once('-')?;
        let range = match (first, last) {
            ("", suffix) => {
                let suffix: usize = suffix.parse().ok()?;
                (length.saturating_sub(suffix), length.checked_sub(1)?)
            }
            (first, "") => (first.parse().ok()?, length.checked_sub(1)?),
            (first, last) => (first.parse().ok()?, last.parse::<usize>().ok()?.min(length.checked_sub(1)?)),
        };
        if range.0 <= range.1 && range.0 < length {
            satisfiable.push(range);
        }
    }
    Some(satisfiable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Fields;

    fn asked(fields: &[(&str, &str)]) -> Received {
        let fields = fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Received { fields: Fields(fields), ..Received::default() }
    }

    #[test]
    fn conditions_and_ranges_are_answered() {
        let resource = Resource::new("0123456789").etag("\"a\"");
        type Pairs = &'static [(&'static str, &'static str)];
        let cases: [(Pairs, u16, &str); 7] = [
            (&[], 200, "0123456789"),
            (&[("if-none-match", "\"b\", W/\"a\"")], 304, ""),
            (&[("range", "bytes=2-4")], 206, "234"),
            (&[("range", "bytes=-3")], 206, "789"),
            (&[("range", "bytes=10-")], 416, ""),
            (&[("range", "bytes=0-0"), ("if-range", "\"b\"")], 200, "0123456789"),
            (&[("range", "bytes=0-0"), ("if-range", "\"a\"")], 206, "0"),
        ];
        for (fields, status, body) in cases {
            let answer = resource.answer(&asked(fields));
            assert_eq!((answer.status, answer.body()), (status, body.as_bytes().to_vec()), "{fields:?}");
        }
    }
}
