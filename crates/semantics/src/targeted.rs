//! Targeted cache control (RFC 9213): fields such as CDN-Cache-Control, for this kind of cache
//! alone.
//!
//! A targeted field is a structured dictionary, so it is parsed strictly: with one mistake it
//! counts as absent. The first of the configured fields with a valid, non-empty value replaces
//! Cache-Control *and* Expires.

use crate::directives::{Argument, CacheControl};
use crate::{CacheRules, surrogate};
use sfv::{BareItem, Dictionary, ListEntry, Parser};
use shoal_core::Fields;

/// Directives that govern this cache, and their source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveDirectives {
    /// Directives in force.
    pub directives: CacheControl,
    /// `true` if a targeted field gave the directives, so that Expires is ignored.
    pub targeted: bool,
}

/// Returns the directives that govern this response here.
///
/// RFC 9213, section 2.2: "the cache MUST select the first (in target-list order) field with a
/// valid, non-empty value and use its value to determine the caching policy for the response, and
/// it MUST ignore the Cache-Control and Expires header fields in that response, unless no valid,
/// non-empty value is available from the listed header fields."
pub fn effective_directives(response: &impl Fields, rules: &CacheRules) -> EffectiveDirectives {
    let mut governing = said_directives(response, rules);
    rules.overrides.apply(&mut governing.directives);
    governing
}

/// Returns the directives as the origin gave them.
fn said_directives(response: &impl Fields, rules: &CacheRules) -> EffectiveDirectives {
    for name in &rules.targeted {
        let mut lines = response.values(name);
        let Some(first) = lines.next() else { continue };
        let parsed = match lines.next() {
            None => parse(first),
            Some(second) => {
                let all: Vec<&[u8]> = [first, second].into_iter().chain(lines).collect();
                parse(&all.join(&b", "[..]))
            }
        };
        if let Some(directives) = parsed {
            return EffectiveDirectives { directives, targeted: true };
        }
    }
    match rules.surrogate.as_ref().and_then(|device| surrogate::directives(response, device)) {
        Some(directives) => EffectiveDirectives { directives, targeted: true },
        None => EffectiveDirectives { directives: CacheControl::of(response), targeted: false },
    }
}

/// Reads the directives of a targeted field's value. `None` when it is empty or no dictionary.
///
/// RFC 9213, section 2.1: "If a targeted field in a given response is empty, or a parsing error is
/// encountered, that field MUST be ignored by the cache". Directives of an unexpected type are
/// ignored one by one.
pub fn parse(value: &[u8]) -> Option<CacheControl> {
    let members: Dictionary = Parser::new(value).parse().ok()?;
    if members.is_empty() {
        return None;
    }
    let mut directives = CacheControl::default();
    for (name, entry) in &members {
        let ListEntry::Item(item) = entry else { continue };
        let name = name.as_str().as_bytes();
        match &item.bare_item {
            BareItem::Boolean(true) if !takes_seconds(name) => directives.take(name, Argument::None),
            BareItem::Integer(seconds) if takes_seconds(name) => {
                let seconds = i64::from(*seconds).max(0).to_string();
                directives.take(name, Argument::Text(seconds.as_bytes()));
            }
            BareItem::String(fields) if matches!(name, b"private" | b"no-cache") => {
                directives.take(name, Argument::Text(fields.as_str().as_bytes()));
            }
            _ => {}
        }
    }
    Some(directives)
}

fn takes_seconds(name: &[u8]) -> bool {
    matches!(name, b"max-age" | b"s-maxage" | b"stale-while-revalidate" | b"stale-if-error")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directives::Scope;
    use http::{HeaderMap, HeaderName, HeaderValue};
    use proptest::prelude::*;

    fn fields(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut fields = HeaderMap::new();
        for (name, value) in lines {
            fields.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        fields
    }

    #[test]
    fn the_first_valid_field_of_the_list_governs() {
        let rules = CacheRules::default();
        for (lines, max_age, targeted) in [
            (&[("cache-control", "max-age=1")][..], Some(1), false),
            (&[("cache-control", "max-age=1"), ("cdn-cache-control", "max-age=3600")], Some(3600), true),
            (&[("shoal-cache-control", "max-age=5"), ("cdn-cache-control", "max-age=3600")], Some(5), true),
            (&[("shoal-cache-control", "&&"), ("cdn-cache-control", "max-age=3600")], Some(3600), true),
            (&[("cdn-cache-control", ""), ("cache-control", "max-age=1")], Some(1), false),
            (
                &[("cdn-cache-control", "max-age=10000, &&&&&"), ("cache-control", "max-age=1")],
                Some(1),
                false,
            ),
            (&[("cdn-cache-control", "MaX-aGe=3600"), ("cache-control", "max-age=1")], Some(1), false),
            (&[("cdn-cache-control", "max-age =100"), ("cache-control", "max-age=1")], Some(1), false),
            (&[("cdn-cache-control", "max-age=\"10000\""), ("cache-control", "max-age=1")], None, true),
            (&[("cdn-cache-control", "max-age=99999999999")], Some(1 << 31), true),
            (&[("cdn-cache-control", "max-age=-5")], Some(0), true),
            (&[("cdn-cache-control", "max-age=60;x=y, foobar")], Some(60), true),
            (&[("cdn-cache-control", "foobar"), ("cdn-cache-control", "max-age=7")], Some(7), true),
        ] {
            let governing = effective_directives(&fields(lines), &rules);
            assert_eq!((governing.directives.max_age, governing.targeted), (max_age, targeted), "{lines:?}");
        }
    }

    #[test]
    fn directives_have_the_types_that_they_should() {
        let read =
            parse(b"no-store, private=\"a, b\", no-cache=?0, must-revalidate=1").expect("a dictionary");
        assert!(read.no_store);
        assert_eq!(read.private.fields().len(), 2);
        assert_eq!(read.no_cache, Scope::Nothing);
        assert!(!read.must_revalidate);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&bytes);
        }
    }
}
