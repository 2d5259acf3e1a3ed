//! Surrogate-Control (Edge Architecture Specification 1.0, W3C Note 2001), the forerunner of RFC
//! 9213.
//!
//! Origins that were written for Akamai, Fastly or Varnish still send it. The field governs
//! surrogates, caches that work for the origin, and overrides Cache-Control and Expires there. Each
//! directive may name its surrogate: `max-age=3600;north`. `max-age=600+60` allows a stale response
//! for 60 seconds more.

use crate::directives::{Argument, CacheControl};
use crate::lists;
use http::HeaderName;
use shoal_core::Fields;

/// Surrogate-Control.
pub const SURROGATE_CONTROL: HeaderName = HeaderName::from_static("surrogate-control");

/// Request field by which a surrogate announces itself.
pub const SURROGATE_CAPABILITY: HeaderName = HeaderName::from_static("surrogate-capability");

/// Returns the caching directives for the surrogate `device`; `None` when there are none. A field
/// that only names processing (`content="ESI/1.0"`) leaves Cache-Control in force, which may mark
/// the response as private.
///
/// Section 2.2: "If a target is present, the directive only applies to the surrogate whose device
/// token matches".
///
/// A directive for this device overrides one for all.
pub fn directives(response: &impl Fields, device: &str) -> Option<CacheControl> {
    let mut read = None;
    let mut for_all = Vec::new();
    for member in lists::field_members(response, &SURROGATE_CONTROL) {
        let mut parts = member.split(|byte| *byte == b';');
        let directive = lists::trim(parts.next().unwrap_or_default());
        match parts.next().map(lists::trim) {
            None => for_all.push(directive),
            Some(target) if target.eq_ignore_ascii_case(device.as_bytes()) => {
                take(read.get_or_insert_default(), directive);
            }
            Some(_) => {}
        }
    }
    for directive in for_all {
        take(read.get_or_insert_default(), directive);
    }
    read.filter(|read| *read != CacheControl::default())
}

/// Returns the value of Surrogate-Capability for the surrogate `device`.
pub fn capability(device: &str) -> String {
    format!("{device}=\"Surrogate/1.0\"")
}

fn take(read: &mut CacheControl, directive: &[u8]) {
    let (name, argument) = match directive.iter().position(|byte| *byte == b'=') {
        Some(equals) => (&directive[..equals], Argument::Text(&directive[equals + 1..])),
        None => (directive, Argument::None),
    };
    if !name.eq_ignore_ascii_case(b"max-age") {
        return read.take(name, argument);
    }
    let Argument::Text(value) = argument else { return read.take(name, argument) };
    let mut numbers = value.splitn(2, |byte| *byte == b'+');
    read.take(name, Argument::Text(numbers.next().unwrap_or_default()));
    if let Some(stale) = numbers.next() {
        read.take(b"stale-while-revalidate", Argument::Text(stale));
        read.take(b"stale-if-error", Argument::Text(stale));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue};
    use proptest::prelude::*;

    fn read(value: &str) -> Option<CacheControl> {
        let value = HeaderValue::from_str(value).expect("a field value");
        directives(&HeaderMap::from_iter([(SURROGATE_CONTROL, value)]), "north")
    }

    #[test]
    fn directives_reach_the_surrogate_that_they_name() {
        for (value, max_age) in [
            ("max-age=3600", Some(3600)),
            ("MaX-aGe=3600", Some(3600)),
            ("max-age=3600;north", Some(3600)),
            ("max-age=60;North, max-age=10", Some(60)),
            ("max-age=10, max-age=60;north", Some(60)),
            ("foobar, max-age=5", Some(5)),
            ("max-age=99999999999", Some(1 << 31)),
        ] {
            assert_eq!(read(value).and_then(|read| read.max_age), max_age, "{value}");
        }
        assert_eq!(read("max-age=3600;south"), None);
        assert!(read("no-store").is_some_and(|read| read.no_store));
        assert_eq!(directives(&HeaderMap::new(), "north"), None);
    }

    #[test]
    fn a_second_number_allows_stale_responses() {
        let read = read("max-age=600+60").expect("directives");
        assert_eq!(
            (read.max_age, read.stale_while_revalidate, read.stale_if_error),
            (Some(600), Some(60), Some(60))
        );
    }

    proptest! {
        #[test]
        fn no_value_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let _ = directives(&HeaderMap::from_iter([(SURROGATE_CONTROL, value)]), "north");
            }
        }
    }
}
