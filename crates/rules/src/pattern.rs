//! The patterns that conditions are made of: globs, hosts, statuses, fields.

use http::{HeaderName, StatusCode};
use shoal_core::Fields;

/// A text in which `*` stands for any characters, `/` among them.
///
/// Cost of a comparison: one pass without stars, and at most the product of both lengths with
/// several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Box<str>);

impl Glob {
    /// Reads a glob of at most [`Self::BYTES_MAX`] bytes without control characters.
    ///
    /// # Errors
    /// Names the mistake in it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > Self::BYTES_MAX {
            return Err(format!("a pattern has 1 to {} bytes", Self::BYTES_MAX));
        }
        match text.chars().any(char::is_control) {
            true => Err(format!("{text:?} has control characters")),
            false => Ok(Self(text.into())),
        }
    }

    /// Longest pattern.
    pub const BYTES_MAX: usize = 1024;

    /// Returns `true` if the whole of `text` fits.
    pub fn matches(&self, text: &[u8]) -> bool {
        let pattern = self.0.as_bytes();
        debug_assert!(!pattern.is_empty() && pattern.len() <= Self::BYTES_MAX, "a pattern was parsed");
        let (mut at, mut place) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        while place < text.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    retry = Some((at + 1, place));
                    at += 1;
                }
                Some(byte) if *byte == text[place] => {
                    at += 1;
                    place += 1;
                }
                _ => {
                    let Some((after_star, from)) = retry else { return false };
                    debug_assert!(
                        from <= place && pattern[after_star - 1] == b'*',
                        "a star takes one byte more"
                    );
                    retry = Some((after_star, from + 1));
                    at = after_star;
                    place = from + 1;
                }
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }

    /// Returns `true` if the name or value of a query parameter fits, as it is written or as
    /// origins read it.
    pub fn matches_parameter(&self, text: &str) -> bool {
        let is_escaped = text.bytes().any(|byte| byte == b'%' || byte == b'+');
        self.matches(text.as_bytes()) || is_escaped && self.matches(&parameter_text(text))
    }

    /// The text before the first star.
    pub fn literal_prefix(&self) -> &str {
        self.0.split('*').next().unwrap_or_default()
    }
}

/// Status codes, as ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusSet(Vec<(u16, u16)>);

impl StatusSet {
    /// Reads `404`, `500-504` or `5xx` and adds it.
    ///
    /// # Errors
    /// Names the forms of a status.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let wrong = || format!("{text:?} is no status: write 404, 500-504 or 5xx");
        let code = |part: &str| {
            part.trim().parse::<u16>().ok().filter(|code| (100..=599).contains(code)).ok_or_else(wrong)
        };
        let range = if let Some(hundred) = text.strip_suffix("xx") {
            let from = code(&format!("{hundred}00"))?;
            (from, from + 99)
        } else if let Some((from, to)) = text.split_once('-') {
            (code(from)?, code(to)?)
        } else {
            (code(text)?, code(text)?)
        };
        if range.0 > range.1 {
            return Err(wrong());
        }
        debug_assert!((100..=599).contains(&range.0) && range.1 <= 599, "{range:?} are statuses");
        self.0.push(range);
        Ok(())
    }

    /// Returns `true` if no status was named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if `status` is among them.
    pub fn has(&self, status: StatusCode) -> bool {
        self.0.iter().any(|(from, to)| (*from..=*to).contains(&status.as_u16()))
    }
}

/// A field that must be there, with a value that fits if one is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPattern {
    name: HeaderName,
    value: Option<Glob>,
}

impl FieldPattern {
    /// Reads `Name` or `Name: glob`.
    ///
    /// # Errors
    /// Names the mistake in it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = match text.split_once(':') {
            Some((name, value)) => (name, Some(Glob::parse(value.trim())?)),
            None => (text, None),
        };
        Ok(Self { name: field_name(name)?, value })
    }

    /// Returns `true` if one line of `fields` fits.
    pub fn matches(&self, fields: &impl Fields) -> bool {
        let fits = |value: &[u8]| self.value.as_ref().is_none_or(|glob| glob.matches(value));
        fields.values(&self.name).any(fits)
    }
}

/// A query parameter that must be there, with a value that fits if one is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterPattern {
    name: Glob,
    value: Option<Glob>,
}

impl ParameterPattern {
    /// Reads `name` or `name=glob`.
    ///
    /// # Errors
    /// Names the mistake in it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(Glob::parse(value)?)),
            None => (text, None),
        };
        Ok(Self { name: Glob::parse(name)?, value })
    }

    /// Returns `true` if one parameter of `query` fits, as it is written or as origins read it.
    pub fn matches(&self, query: &str) -> bool {
        query.split('&').any(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            self.name.matches_parameter(name)
                && self.value.as_ref().is_none_or(|glob| glob.matches_parameter(value))
        })
    }
}

/// Returns the name or value of a parameter as origins read it: `%61` is `a`, a plus a blank. An
/// escape that cannot be read stays.
fn parameter_text(text: &str) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digit = |place: usize| char::from(*after.get(place)?).to_digit(16);
        let code = digit(0).zip(digit(1)).filter(|_| *first == b'%');
        rest = if code.is_some() { &after[2..] } else { after };
        plain.push(match (first, code) {
            (_, Some((high, low))) => (high << 4 | low) as u8,
            (b'+', None) => b' ',
            (byte, None) => *byte,
        });
    }
    debug_assert!(plain.len() <= text.len(), "an escape gets shorter");
    plain
}

/// Reads the name of a field.
///
/// # Errors
/// Says that it is none.
pub fn field_name(text: &str) -> Result<HeaderName, String> {
    HeaderName::from_bytes(text.trim().as_bytes()).map_err(|_| format!("{text:?} is no field name"))
}

/// Returns `true` if each host that fits `inner` fits `outer`; both are names, `*.suffix` or `*`.
pub fn host_within(inner: &str, outer: &str) -> bool {
    match outer.strip_prefix('*') {
        Some(suffix) => inner.len() > suffix.len() && ends_with(inner, suffix),
        None => inner.eq_ignore_ascii_case(outer),
    }
}

/// Returns `true` if a host fits both patterns.
pub fn hosts_meet(one: &str, other: &str) -> bool {
    host_within(one, other) || host_within(other, one)
}

fn ends_with(text: &str, suffix: &str) -> bool {
    let start = text.len() - suffix.len();
    text.as_bytes()[start..].eq_ignore_ascii_case(suffix.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn glob(pattern: &str, text: &str) -> bool {
        Glob::parse(pattern).expect("a pattern").matches(text.as_bytes())
    }

    #[test]
    fn globs_match_whole_texts() {
        for (pattern, text, fits) in [
            ("/a", "/a", true),
            ("/a", "/ab", false),
            ("/a/*", "/a/", true),
            ("/a/*", "/a/b/c", true),
            ("*.js", "/x/y.js", true),
            ("*.js", "/x/y.js.map", false),
            ("/*/x/*", "/a/b/x/y", true),
            ("a*b*c", "aXbYbZc", true),
            ("a**c", "ac", true),
            ("*", "", true),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
        }
        assert!(Glob::parse("").is_err() && Glob::parse("a\nb").is_err());
        assert_eq!(Glob::parse("/a/*.js").expect("a pattern").literal_prefix(), "/a/");
    }

    /// The slow and obvious matcher.
    fn slow(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.first(), text.first()) {
            (None, None) => true,
            (Some(b'*'), _) => slow(&pattern[1..], text) || !text.is_empty() && slow(pattern, &text[1..]),
            (Some(a), Some(b)) => a == b && slow(&pattern[1..], &text[1..]),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn globs_agree_with_the_slow_matcher(pattern in "[ab*]{1,8}", text in "[ab]{0,10}") {
            prop_assert_eq!(glob(&pattern, &text), slow(pattern.as_bytes(), text.as_bytes()));
        }
    }

    #[test]
    fn statuses_are_read() {
        let mut set = StatusSet::default();
        for text in ["404", "500-502", "3xx"] {
            set.add(text).expect("a status");
        }
        let has = |code: u16| set.has(StatusCode::from_u16(code).expect("a status"));
        assert_eq!(
            [404, 500, 502, 301, 399, 200, 503].map(has),
            [true, true, true, true, true, false, false]
        );
        for text in ["", "600", "9xx", "502-500", "x", "4x4"] {
            assert!(StatusSet::default().add(text).is_err(), "{text}");
        }
    }

    #[test]
    fn fields_and_parameters_fit_by_value() {
        let fields: http::HeaderMap =
            [(http::header::ACCEPT, http::HeaderValue::from_static("text/html"))].into_iter().collect();
        for (text, fits) in
            [("accept", true), ("Accept: text/*", true), ("accept: image/*", false), ("cookie", false)]
        {
            assert_eq!(FieldPattern::parse(text).expect("a pattern").matches(&fields), fits, "{text}");
        }
        for (text, fits) in [("a", true), ("a=1", true), ("a=2", false), ("b", true), ("c", false)] {
            assert_eq!(ParameterPattern::parse(text).expect("a pattern").matches("a=1&b"), fits, "{text}");
        }
        assert!(FieldPattern::parse("no name: x").is_err());
    }

    #[test]
    fn parameters_fit_in_any_spelling() {
        let pattern = ParameterPattern::parse("do it=delete*").expect("a pattern");
        for (query, fits) in [
            ("do%20it=%64elete", true),
            ("do+it=delete%", true),
            ("%64o%20%69t=delete%2", true),
            ("do it=%2564elete", false),
            ("do%20it=%D", false),
        ] {
            assert_eq!(pattern.matches(query), fits, "{query}");
        }
        assert!(ParameterPattern::parse("a%62").expect("a pattern").matches("a%62"), "as written");
    }
}
