//! Requests that select one variant.

use super::*;
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

fn fields(lines: &[(&str, &str)]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a field name");
        fields.append(name, HeaderValue::from_str(value).expect("a field value"));
    }
    fields
}

fn vary(lines: &[&str]) -> Vary {
    nominated(&fields(&lines.iter().map(|line| ("vary", *line)).collect::<Vec<_>>()))
}

fn key(nominated: &str, request: &[(&str, &str)]) -> Vec<u8> {
    match vary(&[nominated]) {
        Vary::Fields(names) => secondary_key(&names, &fields(request)),
        other => panic!("{nominated} nominates {other:?}"),
    }
}

#[test]
fn nominated_fields_are_sorted_and_unique() {
    let names =
        |names: &[&'static str]| Vary::Fields(names.iter().map(|it| HeaderName::from_static(it)).collect());
    for (lines, expected) in [
        (&[][..], Vary::Nothing),
        (&[""], Vary::Nothing),
        (&[" , "], Vary::Nothing),
        (&["Foo"], names(&["foo"])),
        (&["Foo, bar"], names(&["bar", "foo"])),
        (&["Foo", "bar, FOO"], names(&["bar", "foo"])),
        (&["*"], Vary::Any),
        (&["*, *"], Vary::Any),
        (&["*", "*"], Vary::Any),
        (&[", *"], Vary::Any),
        (&["", "*"], Vary::Any),
        (&["*, Foo"], Vary::Any),
        (&["Foo, *"], Vary::Any),
        (&["Foo bar"], Vary::Any),
        (&["\"foo\""], Vary::Any),
    ] {
        assert_eq!(vary(lines), expected, "{lines:?}");
    }
}

#[test]
fn too_many_fields_match_nothing() {
    let line = (0..=NAMES_MAX).map(|it| format!("f{it}")).collect::<Vec<_>>().join(",");
    assert_eq!(vary(&[&line]), Vary::Any);
}

#[test]
fn requests_that_match() {
    for (vary, one, other) in [
        ("Foo", &[("foo", "1")][..], &[("foo", "1")][..]),
        ("Foo", &[("foo", "1"), ("other", "2")], &[("foo", "1"), ("other", "3")]),
        ("Foo, Bar, Baz", &[("foo", "1"), ("baz", "789")], &[("baz", "789"), ("foo", "1")]),
        ("Foo", &[("foo", "1, 2")], &[("foo", "1"), ("foo", "2")]),
        ("Foo", &[("foo", "1,2")], &[("foo", " 1, 2 ")]),
        ("Accept-Language", &[("accept-language", "en, de")], &[("accept-language", "de, en")]),
        ("Accept-Language", &[("accept-language", "en, de")], &[("accept-language", "eN, De")]),
        ("Accept-Language", &[("accept-language", "en, de")], &[("accept-language", " en ,   de")]),
        (
            "Accept-Language",
            &[("accept-language", "en;q=1.0, de;q=0.50")],
            &[("accept-language", "de;Q=0.5,en")],
        ),
        (
            "Accept-Encoding",
            &[("accept-encoding", "gzip, br")],
            &[("accept-encoding", "br"), ("accept-encoding", "GZIP")],
        ),
        ("Accept-Encoding", &[("accept-encoding", "gzip;q=0")], &[("accept-encoding", "gzip ; q=0.000")]),
        ("Accept", &[("accept", "Text/html;level=1;q=1")], &[("accept", "text/HTML;level=1")]),
        ("Cookie", &[("cookie", "a=1")], &[("cookie", " a=1 ")]),
    ] {
        assert_eq!(key(vary, one), key(vary, other), "{vary}: {one:?} and {other:?}");
    }
}

#[test]
fn requests_that_do_not_match() {
    for (vary, one, other) in [
        ("Foo", &[("foo", "1")][..], &[("foo", "2")][..]),
        ("Foo", &[("foo", "1")], &[]),
        ("Foo", &[("foo", "")], &[]),
        ("Foo, Bar", &[("foo", "1"), ("bar", "abc")], &[("foo", "2"), ("bar", "abc")]),
        ("Foo, Bar", &[("foo", "1")], &[("bar", "1")]),
        ("Foo", &[("foo", "1, 2")], &[("foo", "2, 1")]),
        ("Foo", &[("foo", "a")], &[("foo", "A")]),
        ("Foo", &[("foo", "\"1,2\"")], &[("foo", "\"1, 2\"")]),
        ("User-Agent", &[("user-agent", "a,b")], &[("user-agent", "a, b")]),
        ("Accept-Language", &[("accept-language", "en, de;q=0.5")], &[("accept-language", "de, en;q=0.5")]),
        ("Accept-Language", &[("accept-language", "en, de")], &[("accept-language", "fr;q=0.5, de;q=1.0")]),
        ("Accept", &[("accept", "a/b;x=\"1;q=1\"")], &[("accept", "a/b;x=\"1\"")]),
        ("Accept", &[("accept", "a/b;x=A")], &[("accept", "a/b;x=a")]),
        ("Accept-Encoding", &[("accept-encoding", "gzip;q=2")], &[("accept-encoding", "gzip")]),
        ("Accept-Encoding", &[("accept-encoding", "gzip;q=1.001")], &[("accept-encoding", "gzip")]),
    ] {
        assert_ne!(key(vary, one), key(vary, other), "{vary}: {one:?} and {other:?}");
    }
}

/// Normal form of preferences by its definition, step by step: keys of stored variants hold this
/// form.
fn defined_preferences(value: &str) -> Vec<u8> {
    let weight = |parameter: &str| {
        let number = parameter.strip_prefix("q=").or(parameter.strip_prefix("Q="))?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let fits = fraction.len() <= 3 && fraction.bytes().all(|byte| byte.is_ascii_digit());
        let fraction = fraction.trim_end_matches('0');
        match (whole, fraction) {
            _ if !fits => None,
            ("1", "") => Some(String::new()),
            ("0", "") => Some(";q=0".into()),
            ("0", _) => Some(format!(";q=0.{fraction}")),
            _ => None,
        }
    };
    let choice = |member: &str| {
        let mut parts = member.split(';').map(str::trim).filter(|part| !part.is_empty());
        let first = parts.next().unwrap_or_default().to_ascii_lowercase();
        parts.fold(first, |choice, part| choice + &weight(part).unwrap_or_else(|| format!(";{part}")))
    };
    let members = value.split(',').map(str::trim).filter(|member| !member.is_empty());
    let choices: std::collections::BTreeSet<String> = members.map(choice).collect();
    choices.into_iter().collect::<Vec<_>>().join(",").into()
}

proptest! {
    #[test]
    fn preferences_are_in_the_form_that_is_defined(value in "((gzip|GZIP|br|A/b|\\*)?( ?; ?(q=[01]|Q=[012]\\.[0-9]{0,4}|q=x|level=1|))?( ?, ?|)){0,20}") {
        let expected = [b"accept-encoding\x01", &*defined_preferences(&value), b"\x02"].concat();
        prop_assert_eq!(key("Accept-Encoding", &[("accept-encoding", &value)]), expected);
    }

    /// The key keeps at least this much of unknown fields: presence, and every byte except blanks
    /// and commas.
    #[test]
    fn different_values_have_different_keys(one in "[a-c]{0,3}", other in "[a-c]{0,3}", bar in "[a-c]{0,2}") {
        let with = |foo: &str| key("Foo, Bar", &[("foo", foo), ("bar", &bar)]);
        prop_assert_eq!(with(&one) == with(&other), one == other);
    }

    #[test]
    fn order_of_preferences_never_matters(mut choices in proptest::collection::vec("[a-c]{1,2}(;q=(0\\.[0-9]{1,3}|1))?", 1..5)) {
        let before = key("Accept-Language", &[("accept-language", &choices.join(", "))]);
        choices.reverse();
        let after = key("Accept-Language", &[("accept-language", &choices.join(","))]);
        prop_assert_eq!(before, after);
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..48)) {
        if let Ok(value) = HeaderValue::from_bytes(&bytes) {
            let mut request = HeaderMap::new();
            for name in [ACCEPT, COOKIE, VARY] {
                request.append(&name, value.clone());
                let _ = secondary_key(&[name], &request);
            }
            let _ = nominated(&request);
        }
    }
}

#[test]
fn key_is_described_by_field() {
    let described = described(&key("a, accept-encoding, b", &[("a", "1"), ("accept-encoding", "GZIP, br")]));
    let field = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
    let expected = [field("a", Some("1")), field("accept-encoding", Some("br,gzip")), field("b", None)];
    assert_eq!(described, expected);
}
