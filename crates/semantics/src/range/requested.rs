//! Range and If-Range of a request (RFC 9110, sections 13.1.5, 14.1 and 14.2).

use super::ByteRange;
use crate::{EntityTag, date, lists};
use http::header::{DATE, IF_RANGE, LAST_MODIFIED, RANGE};
use shoal_core::{Fields, Timestamp};

/// Ranges that a request asks for, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeSet {
    specs: Vec<RangeSpec>,
}

/// One range as a request writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeSpec {
    /// `first-last`, both inclusive.
    FromTo(u64, u64),
    /// `first-`: from this position to the end.
    From(u64),
    /// `-length`: this number of bytes at the end.
    Suffix(u64),
}

/// Answer to a request's ranges for a representation of known length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeAnswer {
    /// Send the whole: the ranges overlap, or the representation is empty.
    Whole,
    /// Send these ranges, at least one, in the requested order.
    Parts(Vec<ByteRange>),
    /// Send 416: none of the ranges has a byte.
    Unsatisfiable,
}

impl RangeSet {
    /// Returns the ranges of a request. `None` when it has none, or none that this cache obeys; the
    /// whole is sent then.
    pub fn of(request: &impl Fields) -> Option<Self> {
        let mut lines = request.values(&RANGE);
        let line = lines.next()?;
        lines.next().is_none().then(|| Self::parse(line)).flatten()
    }

    /// Reads the ranges of a Range value.
    ///
    /// RFC 9110, section 14.2: "An origin server MUST ignore a Range header field that contains a
    /// range unit it does not understand. […] A server that supports range requests MAY ignore or
    /// reject a Range header field that contains an invalid ranges-specifier (Section 14.1.1), a
    /// ranges-specifier with more than two overlapping ranges, or a set of many small ranges that
    /// are not listed in ascending order, since these are indications of either a broken client or
    /// a deliberate denial-of-service attack".
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (unit, set) = value.split_at_checked("bytes=".len())?;
        if !unit.eq_ignore_ascii_case(b"bytes=") {
            return None;
        }
        let mut specs = Vec::new();
        for member in lists::members(set) {
            if specs.len() == SPECS_MAX {
                return None;
            }
            specs.push(RangeSpec::parse(member)?);
        }
        debug_assert!(specs.len() <= SPECS_MAX);
        (!specs.is_empty()).then_some(Self { specs })
    }

    /// Returns the ranges as written.
    pub fn specs(&self) -> &[RangeSpec] {
        &self.specs
    }

    /// Resolves the ranges for a representation of `length` bytes. Ranges that begin beyond its end
    /// are left out.
    ///
    /// Ranges that overlap or touch one another get the whole. Section 15.3.7.2 would allow
    /// coalescing them, but well-behaved clients do not send such ranges.
    pub fn resolve(&self, length: u64) -> RangeAnswer {
        if length == 0 {
            // 14.1.2: an int-range is satisfiable if its first position is less than the length. No
            // position is here. A suffix-range of at least one byte is satisfiable, and then means
            // the whole.
            let suffix = self.specs.iter().any(|spec| matches!(spec, RangeSpec::Suffix(1..)));
            return if suffix { RangeAnswer::Whole } else { RangeAnswer::Unsatisfiable };
        }
        let parts: Vec<ByteRange> = self.specs.iter().filter_map(|spec| spec.resolve(length)).collect();
        if parts.is_empty() {
            return RangeAnswer::Unsatisfiable;
        }
        debug_assert!(parts.iter().all(|part| part.start < part.end && part.end <= length));
        let mut sorted = parts.clone();
        sorted.sort_unstable();
        match sorted.windows(2).any(|pair| pair[1].start <= pair[0].end) {
            true => RangeAnswer::Whole,
            false => RangeAnswer::Parts(parts),
        }
    }
}

impl RangeSpec {
    fn parse(text: &[u8]) -> Option<Self> {
        let dash = text.iter().position(|byte| *byte == b'-')?;
        let (first, last) = (&text[..dash], &text[dash + 1..]);
        match (first.is_empty(), last.is_empty()) {
            (true, true) => None,
            (true, false) => position(last).map(Self::Suffix),
            (false, true) => position(first).map(Self::From),
            (false, false) => {
                let (first, last) = (position(first)?, position(last)?);
                (first <= last).then_some(Self::FromTo(first, last))
            }
        }
    }

    /// Returns its bytes within a representation of `length` bytes; `None` when there are none.
    pub fn resolve(self, length: u64) -> Option<ByteRange> {
        match self {
            Self::FromTo(first, last) => ByteRange::new(first, last.saturating_add(1).min(length)),
            Self::From(first) => ByteRange::new(first, length),
            Self::Suffix(count) => ByteRange::new(length.saturating_sub(count), length),
        }
    }
}

/// Returns the bytes of a Range value with one range, for a representation of `length` bytes, as
/// [`RangeSet`] resolves them. `None` for any other value.
pub fn only_range(value: &[u8], length: u64) -> Option<ByteRange> {
    let (unit, set) = value.split_at_checked("bytes=".len())?;
    if !unit.eq_ignore_ascii_case(b"bytes=") || set.contains(&b',') {
        return None;
    }
    RangeSpec::parse(lists::trim(set))?.resolve(length)
}

/// Returns `true` if If-Range lets a request's Range count for this stored response. `true` without
/// If-Range.
///
/// RFC 9110, section 13.1.5: "If the validator given is an HTTP-date […]: If the HTTP-date
/// validator provided is not a strong validator in the sense defined by Section 8.8.2.2, the
/// condition is false. If the HTTP-date validator provided exactly matches the Last-Modified field
/// value for the selected representation, the condition is true. Otherwise, the condition is false.
/// If the validator given is an entity-tag: […] exactly matches the ETag field value for the
/// selected representation using the strong comparison function".
pub fn if_range_holds(request: &impl Fields, stored: &impl Fields, now: Timestamp) -> bool {
    let mut lines = request.values(&IF_RANGE);
    let Some(value) = lines.next() else { return true };
    if lines.next().is_some() {
        return false;
    }
    if let Some(asked) = date::parse(value, now) {
        let of = |name| stored.value(name).and_then(|line| date::parse(line, now));
        // 8.8.2.2: compared by a cache, a date is strong when the "cache entry includes a Date
        // value which is at least one second after the Last-Modified value".
        let strong = |modified: u64| of(&DATE).is_some_and(|date| modified < date);
        return of(&LAST_MODIFIED).is_some_and(|modified| modified == asked && strong(modified));
    }
    match (EntityTag::parse(value), EntityTag::of(stored)) {
        (Some(asked), Some(held)) => asked.matches_strongly(held),
        _ => false,
    }
}

/// Reads a position or length: digits only. A number that does not fit becomes the largest number,
/// which is beyond every end.
pub(super) fn position(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    digits.then(|| text.iter().fold(0, add))
}

/// Largest number of ranges of one request that this cache obeys.
const SPECS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue};
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_795_000_000);

    fn resolve(value: &str, length: u64) -> Option<RangeAnswer> {
        RangeSet::parse(value.as_bytes()).map(|set| set.resolve(length))
    }

    fn parts(parts: &[(u64, u64)]) -> Option<RangeAnswer> {
        let range = |&(start, end)| ByteRange::new(start, end).expect("not empty");
        Some(RangeAnswer::Parts(parts.iter().map(range).collect()))
    }

    #[test]
    fn ranges_of_ten_bytes() {
        for (value, resolved) in [
            ("bytes=0-1", parts(&[(0, 2)])),
            ("BYTES=0-1", parts(&[(0, 2)])),
            ("bytes=1-", parts(&[(1, 10)])),
            ("bytes=-1", parts(&[(9, 10)])),
            ("bytes=-20", parts(&[(0, 10)])),
            ("bytes=5-100", parts(&[(5, 10)])),
            ("bytes=9-99999999999999999999999", parts(&[(9, 10)])),
            ("bytes= 0-1 , , 4-4", parts(&[(0, 2), (4, 5)])),
            ("bytes=8-8,0-1", parts(&[(8, 9), (0, 2)])),
            ("bytes=0-1,20-30", parts(&[(0, 2)])),
            ("bytes=0-", parts(&[(0, 10)])),
            ("bytes=0-4,4-5", Some(RangeAnswer::Whole)),
            ("bytes=0-4,5-6", Some(RangeAnswer::Whole)),
            ("bytes=0-,-1", Some(RangeAnswer::Whole)),
            ("bytes=10-", Some(RangeAnswer::Unsatisfiable)),
            ("bytes=10-11,20-", Some(RangeAnswer::Unsatisfiable)),
            ("bytes=-0", Some(RangeAnswer::Unsatisfiable)),
            ("bytes=5-4", None),
            ("bytes=0-1,x", None),
            ("bytes=-", None),
            ("bytes=", None),
            ("bytes=0", None),
            ("bytes=-1-2", None),
            ("bytes =0-1", None),
            ("items=0-1", None),
            ("", None),
        ] {
            assert_eq!(resolve(value, 10), resolved, "{value}");
        }
    }

    #[test]
    fn ranges_of_nothing() {
        assert_eq!(resolve("bytes=0-", 0), Some(RangeAnswer::Unsatisfiable));
        assert_eq!(resolve("bytes=-5", 0), Some(RangeAnswer::Whole));
        assert_eq!(resolve("bytes=-0", 0), Some(RangeAnswer::Unsatisfiable));
    }

    #[test]
    fn too_many_ranges_are_not_obeyed() {
        let set = |count: u64| {
            (0..count).map(|at| format!("{}-{}", at * 10, at * 10)).collect::<Vec<_>>().join(",")
        };
        assert!(RangeSet::parse(format!("bytes={}", set(64)).as_bytes()).is_some());
        assert!(RangeSet::parse(format!("bytes={}", set(65)).as_bytes()).is_none());
    }

    #[test]
    fn two_range_lines_are_not_obeyed() {
        let mut request = HeaderMap::new();
        request.append(RANGE, HeaderValue::from_static("bytes=0-1"));
        assert!(RangeSet::of(&request).is_some());
        request.append(RANGE, HeaderValue::from_static("bytes=3-4"));
        assert!(RangeSet::of(&request).is_none());
    }

    #[test]
    fn if_range_needs_a_strong_validator() {
        let stored = |tag| {
            HeaderMap::from_iter([
                (http::header::ETAG, HeaderValue::from_static(tag)),
                (LAST_MODIFIED, HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT")),
                (DATE, HeaderValue::from_static("Sun, 06 Nov 1994 08:50:00 GMT")),
            ])
        };
        for (asked, tag, holds) in [
            ("\"a\"", "\"a\"", true),
            ("\"b\"", "\"a\"", false),
            ("W/\"a\"", "W/\"a\"", false),
            ("W/\"a\"", "\"a\"", false),
            ("a", "a", false),
            ("Sun, 06 Nov 1994 08:49:37 GMT", "\"a\"", true),
            ("Sunday, 06-Nov-94 08:49:37 GMT", "\"a\"", true),
            ("Sun, 06 Nov 1994 08:49:38 GMT", "\"a\"", false),
            ("", "\"a\"", false),
        ] {
            let request = HeaderMap::from_iter([(IF_RANGE, HeaderValue::from_static(asked))]);
            assert_eq!(if_range_holds(&request, &stored(tag), NOW), holds, "{asked} {tag}");
        }
        assert!(if_range_holds(&HeaderMap::new(), &stored("\"a\""), NOW));
    }

    #[test]
    fn a_date_of_the_same_second_is_weak() {
        let date = HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT");
        let stored = HeaderMap::from_iter([(LAST_MODIFIED, date.clone()), (DATE, date.clone())]);
        let request = HeaderMap::from_iter([(IF_RANGE, date)]);
        assert!(!if_range_holds(&request, &stored, NOW));
    }

    proptest! {
        #[test]
        fn parts_lie_within_and_apart(value in "bytes=([0-9]{0,2}-[0-9]{0,2},?){1,6}", length in 0_u64..120) {
            if let Some(RangeAnswer::Parts(mut parts)) = resolve(&value, length) {
                parts.sort_unstable();
                prop_assert!(parts.iter().all(|part| part.end <= length));
                prop_assert!(parts.windows(2).all(|pair| pair[0].end < pair[1].start));
            }
        }

        #[test]
        fn the_only_range_is_that_of_the_set(
            value in "(bytes|Bytes|lines)= ?([0-9]{0,2}|[0-9]{18,30})-?([0-9]{0,2}|[0-9]{18,30}) ?(,[0-9]-)?",
            length in prop_oneof![0_u64..120, Just(u64::MAX)],
        ) {
            let set = resolve(&value, length);
            match only_range(value.as_bytes(), length) {
                Some(range) => prop_assert_eq!(set, Some(RangeAnswer::Parts(vec![range]))),
                None if value.contains(',') => {}
                None => prop_assert!(!matches!(set, Some(RangeAnswer::Parts(_)))),
            }
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40), length in any::<u64>()) {
            let with_unit = [b"bytes=", &bytes[..]].concat();
            for value in [&bytes, &with_unit] {
                if let Some(set) = RangeSet::parse(value) {
                    let _ = set.resolve(length);
                }
            }
        }
    }
}
