//! Cache-Control, well-formed and mangled: the meaning of each directive, and any bytes read
//! without harm.

use super::*;
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

fn response(lines: &[&str]) -> CacheControl {
    CacheControl::parse(lines.iter().map(|line| line.as_bytes()))
}

fn request(name: HeaderName, value: &'static str) -> RequestDirectives {
    RequestDirectives::of(&HeaderMap::from_iter([(name, HeaderValue::from_static(value))]))
}

fn names(names: &[&'static str]) -> Scope {
    Scope::Fields(names.iter().map(|name| HeaderName::from_static(name)).collect())
}

#[test]
fn max_age_in_all_its_spellings() {
    for (line, seconds) in [
        ("max-age=3600", Some(3600)),
        ("MaX-aGe=3600", Some(3600)),
        ("foobar, max-age=3600", Some(3600)),
        ("foobar=\"x, y\" , max-age=3600", Some(3600)),
        ("max-age=003600", Some(3600)),
        ("max-age=\"3600\"", Some(3600)),
        ("max-age=99999999999", Some(1 << 31)),
        ("max-age=1800, max-age=1", Some(1800)),
        ("max-age=1, max-age=1800", Some(1)),
        ("extension=\"max-age=3600\", max-age=1", Some(1)),
        ("max-age=1, extension=\"max-age=3600\"", Some(1)),
        ("max-age='3600'", Some(0)),
        ("max-age=-3600", Some(0)),
        ("max-age=3600.0", Some(0)),
        ("max-age=a3600", Some(0)),
        ("max-age=3600a", Some(0)),
        ("max-age =3600", Some(0)),
        ("max-age= 3600", Some(0)),
        ("max-age=", Some(0)),
        ("max-age", Some(0)),
        ("xmax-age=1", None),
        ("", None),
    ] {
        assert_eq!(response(&[line]).max_age, seconds, "{line}");
    }
}

#[test]
fn flags_are_read_from_every_line() {
    let read = response(&["No-StOrE, PUBLIC", "must-revalidate,proxy-revalidate", "s-maxage=5, immutable"]);
    assert!(read.no_store && read.public && read.must_revalidate && read.proxy_revalidate && read.immutable);
    assert!(!read.must_understand && !read.no_transform);
    assert_eq!(read.s_maxage, Some(5));
    assert!(read.forbids_stale());
    let read = response(&["must-understand, no-transform, stale-while-revalidate=7, stale-if-error=8"]);
    assert!(read.must_understand && read.no_transform && !read.forbids_stale());
    assert_eq!((read.stale_while_revalidate, read.stale_if_error), (Some(7), Some(8)));
}

#[test]
fn a_flag_with_an_argument_is_still_that_flag() {
    assert!(response(&["no-store=\"x\""]).no_store);
    assert!(response(&["no-store = x"]).no_store);
}

#[test]
fn private_and_no_cache_reach_as_far_as_they_say() {
    for (line, scope) in [
        ("max-age=1", Scope::Nothing),
        ("private", Scope::Response),
        ("private=\"set-cookie\"", names(&["set-cookie"])),
        ("private=Set-Cookie", names(&["set-cookie"])),
        ("private=\"A, b\", private=\"c\"", names(&["a", "b", "c"])),
        ("private=\"a\", private", Scope::Response),
        ("private, private=\"a\"", Scope::Response),
        ("private=\"\"", Scope::Response),
        ("private=\"a b\"", Scope::Response),
        ("private=\"a", Scope::Response),
        ("private = \"a\"", Scope::Response),
    ] {
        assert_eq!(response(&[line]).private, scope, "{line}");
        assert_eq!(response(&[&line.replace("private", "no-cache")]).no_cache, scope, "no-cache of {line}");
    }
}

#[test]
fn request_directives() {
    let plain = RequestDirectives::default();
    for (value, read) in [
        ("nothing-to-see-here", plain),
        ("no-cache", RequestDirectives { no_cache: true, ..plain }),
        ("NO-STORE, only-if-cached", RequestDirectives { no_store: true, only_if_cached: true, ..plain }),
        ("max-age=0", RequestDirectives { max_age: Some(0), ..plain }),
        ("max-age=x", RequestDirectives { max_age: Some(0), ..plain }),
        ("min-fresh=20", RequestDirectives { min_fresh: Some(20), ..plain }),
        ("min-fresh=x", RequestDirectives { min_fresh: Some(1 << 31), ..plain }),
        ("max-stale", RequestDirectives { max_stale: Some(u32::MAX), ..plain }),
        ("max-stale=1000", RequestDirectives { max_stale: Some(1000), ..plain }),
        ("max-stale=x", RequestDirectives { max_stale: Some(0), ..plain }),
        ("stale-if-error=60", RequestDirectives { stale_if_error: Some(60), ..plain }),
    ] {
        assert_eq!(request(CACHE_CONTROL, value), read, "{value}");
    }
}

#[test]
fn pragma_counts_only_without_cache_control() {
    assert!(request(PRAGMA, "No-Cache").no_cache);
    assert!(!request(PRAGMA, "unrecognised-extension").no_cache);
    let mut both = HeaderMap::new();
    both.insert(PRAGMA, HeaderValue::from_static("no-cache"));
    both.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=5"));
    assert!(!RequestDirectives::of(&both).no_cache);
}

proptest! {
    #[test]
    fn restrictions_survive_whatever_stands_around_them(before in "[ -~]{0,20}", after in "[ -~]{0,20}") {
        // A quote that opens before and closes after may legitimately swallow the directive.
        prop_assume!(!before.contains('"') || !after.contains('"'));
        let line = format!("{before}, no-store, private, no-cache, {after}");
        let read = response(&[&line]);
        prop_assert!(read.no_store || before.matches('"').count() > 1, "{}", line);
        if !before.contains('"') {
            prop_assert!(read.no_store && read.always_validate() && read.private == Scope::Response);
        }
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = CacheControl::parse([&bytes[..]]);
        if let Ok(value) = HeaderValue::from_bytes(&bytes) {
            let _ = RequestDirectives::of(&HeaderMap::from_iter([(CACHE_CONTROL, value)]));
        }
    }
}
