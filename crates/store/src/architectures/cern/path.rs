//! Mapping from a full key to its URL folder: URL components become folders, as in CERN httpd.
//!
//! `http://www.example/a/b.html?q=/x` has the folder `urls/http/www.example/a/b.html%3Fq=%2Fx`. A
//! component keeps letters, digits and some marks. Every other byte is written `%XX`, and so is a
//! leading dot. Names thus never equal `.`, `..` or the store's own files, which begin with `#`.
//! The query, and the part of a variant's key after its URL, belong to the last component,
//! regardless of their bytes. Every URL has its own folder, so one URL may be a prefix of another.
//!
//! A keyed hash replaces a component that is too long, and all components beyond a depth. Two keys
//! may then share a folder; the full key in the metadata file decides between them.

use shoal_core::Key;

/// Folder above all URL folders.
pub(super) const ROOT: &str = "urls";

/// Returns the folder of a full key.
pub(super) fn folder_of(full_key: &[u8]) -> String {
    let mut folder = String::from(ROOT);
    let components = components_of(full_key);
    let whole = components.len().min(DEPTH_MAX);
    for component in &components[..whole] {
        folder.push('/');
        folder.push_str(&encoded(component));
    }
    if whole < components.len() {
        folder.push_str(&format!("/%+{:032x}", folder_hash(full_key)));
    }
    folder
}

/// Returns the hash that stands for a name that is too long. The hash is keyed, so that no outsider
/// can find a collision.
fn folder_hash(bytes: &[u8]) -> u128 {
    u128::from_le_bytes(Key::of(bytes).to_bytes())
}

/// Returns scheme, host with port, and the path's components. The last component includes the query
/// and the rest of the key.
fn components_of(full_key: &[u8]) -> Vec<&[u8]> {
    let end_of_path =
        full_key.iter().position(|byte| matches!(byte, b'?' | b'#' | 0)).unwrap_or(full_key.len());
    let (scheme, rest) = match full_key[..end_of_path].windows(3).position(|part| part == b"://") {
        Some(at) => (&full_key[..at], at + 3),
        None => (&b"%"[..], 0),
    };
    let mut components = vec![scheme];
    let mut from = rest;
    while let Some(length) = full_key[from..end_of_path].iter().position(|byte| *byte == b'/') {
        components.push(&full_key[from..from + length]);
        from += length + 1;
    }
    components.push(&full_key[from..]);
    components
}

/// Returns a folder's name for a component: never empty, at most 200 bytes.
fn encoded(component: &[u8]) -> String {
    if component.is_empty() {
        return "%".to_owned();
    }
    let mut name = String::with_capacity(component.len());
    for (at, byte) in component.iter().enumerate() {
        match byte {
            b'.' if at > 0 => name.push('.'),
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'-'
            | b'_'
            | b'~'
            | b'='
            | b'&'
            | b','
            | b'+'
            | b':'
            | b'@' => {
                name.push(char::from(*byte));
            }
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    if name.len() > NAME_MAX {
        name.truncate(NAME_KEPT);
        name.push_str(&format!("%+{:032x}", folder_hash(component)));
    }
    name
}

/// Longest name; file systems take 255 bytes.
const NAME_MAX: usize = 200;
/// Bytes of a longer name that stay in front of its hash.
const NAME_KEPT: usize = 128;
/// Depth limit of a path: 16 components of at most 200 bytes stay below the 4096 bytes that a path
/// may have.
const DEPTH_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(key: &str, folder: &str) {
        assert_eq!(folder_of(key.as_bytes()), folder);
    }

    #[test]
    fn components_are_folders() {
        check("http://www.example/", "urls/http/www.example/%");
        check("http://www.example/a/b.html", "urls/http/www.example/a/b.html");
        check("http://www.example/a/b.html/c", "urls/http/www.example/a/b.html/c");
        check("https://www.example:8443//a", "urls/https/www.example:8443/%/a");
        check("http://h/a?q=/x/../y", "urls/http/h/a%3Fq=%2Fx%2F..%2Fy");
        check("http://h/a/\0variant/\u{1}", "urls/http/h/a/%00variant%2F%01");
        check("no url", "urls/%25/no%20url");
    }

    #[test]
    fn nothing_leads_elsewhere() {
        check("http://h/../../etc/passwd", "urls/http/h/%2E./%2E./etc/passwd");
        check("http://h/./a", "urls/http/h/%2E/a");
        check("http://h/#lock", "urls/http/h/%23lock");
        check("http://h/%2E", "urls/http/h/%252E");
        check("../x://h/", "urls/%2E.%2Fx/h/%");
    }

    #[test]
    fn long_and_deep_ones_are_cut_and_told_apart() {
        let long = |end: &str| folder_of(format!("http://h/{}{end}", "x".repeat(5000)).as_bytes());
        assert_ne!(long("a"), long("b"));
        let deep = |end: &str| folder_of(format!("http://h{}{end}", "/x".repeat(500)).as_bytes());
        assert_ne!(deep("a"), deep("b"));
        assert!(deep("a").len() < 200);
    }

    proptest! {
        #[test]
        fn every_key_has_a_folder_that_a_file_system_takes(key: Vec<u8>) {
            let folder = folder_of(&key);
            prop_assert!(folder.len() < 3800 && folder.starts_with("urls/"));
            for name in folder.split('/') {
                prop_assert!((1..=200).contains(&name.len()));
                prop_assert!(!name.starts_with('.') && !name.starts_with('#'));
            }
        }

        #[test]
        fn short_keys_have_folders_of_their_own(one in "[a-z/.?%#:]{0,40}", other in "[a-z/.?%#:]{0,40}") {
            let depth = |key: &str| components_of(key.as_bytes()).len();
            prop_assume!(one != other && depth(&one) <= DEPTH_MAX && depth(&other) <= DEPTH_MAX);
            prop_assert_ne!(folder_of(one.as_bytes()), folder_of(other.as_bytes()));
        }
    }
}
