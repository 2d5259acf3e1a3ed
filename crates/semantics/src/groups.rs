//! Names under which stored responses are invalidated together: cache groups (RFC 9875) and the
//! tags of CDNs.

use crate::invalidation;
use http::{HeaderMap, HeaderName, Method};
use sfv::{BareItem, List, ListEntry, Parser};

/// Cache-Groups (RFC 9875, section 2).
pub const CACHE_GROUPS: HeaderName = HeaderName::from_static("cache-groups");
/// Cache-Group-Invalidation (RFC 9875, section 3).
pub const CACHE_GROUP_INVALIDATION: HeaderName = HeaderName::from_static("cache-group-invalidation");

/// Returns the groups, within its origin, that a response belongs to.
///
/// RFC 9875, section 2: "The Cache-Groups HTTP response header field is a List of Strings […]. Each
/// member of the List is a value that identifies a group that the response belongs to. […]
/// Implementations MUST support at least 32 groups in a field value, with up to at least 32
/// characters in each member."
pub fn cache_groups(response: &HeaderMap) -> Vec<String> {
    strings(response, &CACHE_GROUPS)
}

/// Returns the groups, within the target's origin, that a response invalidates.
///
/// RFC 9875, section 3: "The Cache-Group-Invalidation header field MUST be ignored on responses to
/// requests that have a safe method".
pub fn invalidated_groups(method: &Method, response: &HeaderMap) -> Vec<String> {
    match invalidation::is_safe(method) {
        true => Vec::new(),
        false => strings(response, &CACHE_GROUP_INVALIDATION),
    }
}

/// Returns the tags in these fields of a response, each once, in their order. Commas (Cache-Tag)
/// and blanks (Surrogate-Key) both separate tags. Tags beyond 1024, and tags longer than 1024
/// bytes, are left out.
pub fn tags(response: &HeaderMap, names: &[HeaderName]) -> Vec<String> {
    let mut tags = Vec::new();
    let lines = names.iter().flat_map(|name| response.get_all(name));
    for tag in lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split([',', ' ', '\t'])) {
        if tags.len() == NAMES_MAX {
            break;
        }
        if (1..=NAME_BYTES_MAX).contains(&tag.len()) {
            tags.push(tag.to_owned());
        }
    }
    each_once(tags)
}

/// Returns `true` if a response may carry this tag, as [`tags`] reads tags.
pub fn is_tag(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
}

/// Returns `true` if a response may belong to this group. The name must be a structured string (RFC
/// 9651, section 3.3.3) that [`cache_groups`] takes.
pub fn is_group(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

/// Returns the strings of a structured list; none when the field is no such list. Strings that
/// exceed the limits of [`tags`] are left out.
fn strings(response: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let lines: Vec<&[u8]> = response.get_all(name).iter().map(|line| line.as_bytes()).collect();
    let Ok(members) = Parser::new(&lines.join(&b", "[..])).parse::<List>() else { return Vec::new() };
    let text = |member: &ListEntry| match member {
        ListEntry::Item(item) => match &item.bare_item {
            BareItem::String(text) => Some(text.as_str().to_owned()),
            _ => None,
        },
        ListEntry::InnerList(_) => None,
    };
    // RFC 9651, section 1.2: a field with a member of another type than defined is ignored as a
    // whole.
    let names: Option<Vec<String>> = members.iter().map(text).collect();
    let fitting = names.unwrap_or_default().into_iter().filter(|name| name.len() <= NAME_BYTES_MAX);
    each_once(fitting.take(NAMES_MAX).collect())
}

/// Removes repetitions, in order of first appearance.
fn each_once(names: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    names.into_iter().filter(|name| seen.insert(name.clone())).collect()
}

const NAMES_MAX: usize = 1024;
const NAME_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn fields(name: &HeaderName, lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (name.clone(), HeaderValue::from_str(line).expect("a field value"))).fold(
            HeaderMap::new(),
            |mut fields, (name, value)| {
                fields.append(name, value);
                fields
            },
        )
    }

    #[test]
    fn groups_are_a_list_of_strings() {
        for (lines, groups) in [
            (
                &["\"eurovision-results\", \"eurovision-australia\""][..],
                &["eurovision-results", "eurovision-australia"][..],
            ),
            (&["\"a\"", "\"b\";x=1, \"a\""], &["a", "b"]),
            (&["\"with \\\" quote\""], &["with \" quote"]),
            (&["a"], &[]),
            (&["\"a\", b"], &[]),
            (&["\"a\", (\"b\")"], &[]),
            (&["\"a"], &[]),
            (&[""], &[]),
            (&[], &[]),
        ] {
            assert_eq!(cache_groups(&fields(&CACHE_GROUPS, lines)), groups, "{lines:?}");
        }
    }

    #[test]
    fn at_least_32_groups_of_32_characters() {
        let line = (0..32).map(|it| format!("\"{it:032}\"")).collect::<Vec<_>>().join(", ");
        assert_eq!(cache_groups(&fields(&CACHE_GROUPS, &[&line])).len(), 32);
    }

    #[test]
    fn safe_methods_invalidate_no_group() {
        let response = fields(&CACHE_GROUP_INVALIDATION, &["\"a\""]);
        assert_eq!(invalidated_groups(&Method::POST, &response), ["a"]);
        assert!(invalidated_groups(&Method::GET, &response).is_empty());
    }

    #[test]
    fn tags_of_both_kinds() {
        let names = [HeaderName::from_static("cache-tag"), HeaderName::from_static("surrogate-key")];
        let mut response = fields(&names[0], &["tag1,tag2, tag 3", ",,"]);
        response.extend(fields(&names[1], &["key1 key2  tag1"]));
        assert_eq!(tags(&response, &names), ["tag1", "tag2", "tag", "3", "key1", "key2"]);
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert!(tags(&fields(&names[0], &[&long]), &names).is_empty());
        let many = (0..2000).map(|it| it.to_string()).collect::<Vec<_>>().join(",");
        assert_eq!(tags(&fields(&names[0], &[&many]), &names).len(), NAMES_MAX);
    }

    #[test]
    fn invalid_names_are_no_tag_and_no_group() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for (text, tag, group) in [
            ("product-3", true, true),
            ("a b", false, true),
            ("a,b", false, true),
            ("", false, false),
            ("Größe", false, false),
            (&long, false, false),
        ] {
            assert_eq!((is_tag(text), is_group(text)), (tag, group), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let response = HeaderMap::from_iter([(CACHE_GROUPS, value)]);
                let _ = (cache_groups(&response), tags(&response, &[CACHE_GROUPS]));
            }
        }
    }
}
