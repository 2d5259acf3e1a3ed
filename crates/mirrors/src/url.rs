//! References in documents: relative ones joined to the document's own URL, and files of other
//! hosts as paths below a mirror.
//!
//! ```text
//!   https://files.example/packages/a.whl ─► files/files.example/packages/a.whl
//!   http://files.example/a.whl           ─► files/http~files.example/a.whl   (upstream is https)
//! ```
//!
//! One resource has one spelling here: rules by name, keys and promises compare spellings.

use std::borrow::Cow;

/// Joins a reference to the URL of its document (RFC 3986, section 5.2). Query and fragment of the
/// reference must be cut off before. `None` if the result is no URL over http or https.
pub fn joined(base: &str, reference: &str) -> Option<String> {
    let (scheme, rest) = base.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let url = if let Some((scheme, _)) = reference.split_once("://") {
        let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
        is_web.then(|| reference.to_owned())?
    } else if reference.starts_with("//") {
        format!("{scheme}:{reference}")
    } else {
        let from_root = match reference.strip_prefix('/') {
            Some(_) => reference.to_owned(),
            None => format!("{}/{reference}", path.rsplit_once('/').map_or("", |(folder, _)| folder)),
        };
        format!("{scheme}://{authority}{}", without_dots(&from_root))
    };
    is_sound(&url).then(|| canonical(&url))?
}

/// Returns a URL in the spelling that keys have: scheme and host in lower case, no default port,
/// escapes as [`one_spelling`] has them. `None` if it is no URL.
fn canonical(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (scheme, authority) = (scheme.to_ascii_lowercase(), authority.to_ascii_lowercase());
    let default = if scheme == "https" { ":443" } else { ":80" };
    let authority = authority.strip_suffix(default).unwrap_or(&authority);
    debug_assert!(path.is_empty() || path.starts_with('/'), "the authority ends before the path");
    Some(format!("{scheme}://{authority}{}", one_spelling(path)))
}

/// Returns a path with unreserved characters decoded and other escapes in upper case (RFC 3986,
/// section 6.2.2). A percent sign before anything else stays.
pub fn one_spelling(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let mut made = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, behind)) = rest.split_once('%') {
        made.push_str(before);
        let digits = behind.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        rest = if byte.is_some() { &behind[2..] } else { behind };
        match byte {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => made.push(byte.into()),
            Some(byte) => made.push_str(&format!("%{byte:02X}")),
            None => made.push('%'),
        }
    }
    made.push_str(rest);
    debug_assert!(made.len() <= path.len(), "a spelling adds nothing");
    Cow::Owned(made)
}

/// Returns a path below a mirror in one spelling. `None` if some origin could take it for the path
/// of something else: a segment that is `.` or `..` once escapes, backslashes and parameters
/// (`..;x`) are read. Unless `may_hide` is true, no segment hides a slash or parameters at all.
pub fn plain_path(path: &str, may_hide: bool) -> Option<Cow<'_, str>> {
    if !path.contains(['%', '\\', ';']) && !path.contains("/.") {
        return Some(Cow::Borrowed(path));
    }
    let made = one_spelling(path);
    let mut read = made.replace('\\', "/");
    // An origin may decode twice.
    for (escape, plain) in [("%25", "%"), ("%2E", "."), ("%2e", "."), ("%2F", "/"), ("%2f", "/")] {
        read = read.replace(escape, plain);
    }
    for (escape, plain) in [("%5C", "/"), ("%5c", "/"), ("%3B", ";"), ("%3b", ";")] {
        read = read.replace(escape, plain);
    }
    let is_end = |char: char| matches!(char, ';' | ' ' | '%') || char.is_control();
    let is_dots = |segment: &str| {
        let segment = segment.trim_start_matches(is_end).split(is_end).next().unwrap_or_default();
        matches!(segment, "." | "..")
    };
    let slashes = |path: &str| path.bytes().filter(|byte| *byte == b'/').count();
    let hides = read.contains(';') || slashes(&read) != slashes(&made);
    debug_assert!(slashes(&read) >= slashes(&made), "reading takes no slash away");
    let is_plain = !read.split('/').any(is_dots) && (may_hide || !hides);
    is_plain.then_some(made)
}

/// Removes `.` and `..` from a path.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

/// Returns the path below a mirror, without a slash in front, under which a file of any host is
/// served. `upstream` is the mirror's.
pub fn file_path(upstream: &str, url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://").filter(|_| is_sound(url))?;
    let own_scheme = upstream.split_once("://")?.0;
    debug_assert!(!rest.contains(['?', '#']), "a path alone");
    Some(match scheme.eq_ignore_ascii_case(own_scheme) {
        true => format!("{FILES}/{rest}"),
        false => format!("{FILES}/{}~{rest}", scheme.to_ascii_lowercase()),
    })
}

/// Returns the URL of the file that a path names: the part behind `/files/`.
pub fn file_url(upstream: &str, behind: &str) -> Option<String> {
    let own_scheme = upstream.split_once("://")?.0;
    let (scheme, rest) =
        behind.split_once('~').filter(|(scheme, _)| WEB.contains(scheme)).unwrap_or((own_scheme, behind));
    let (authority, path) = rest.split_once('/')?;
    // pip escapes the colon before a port.
    let authority = authority.replace("%3A", ":").replace("%3a", ":");
    let has_dots = path.split('/').any(|segment| matches!(segment, "." | ".."));
    let url = format!("{scheme}://{authority}/{path}");
    (is_sound(&url) && !has_dots && !path.is_empty()).then(|| canonical(&url))?
}

/// Returns `true` for a URL with a plain authority and without characters that end it elsewhere.
fn is_sound(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let authority = rest.split('/').next().unwrap_or_default();
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    !authority.is_empty()
        && authority.bytes().all(is_of_host)
        && rest.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}?#".contains(&byte))
}

/// Returns the last segment of a URL's path.
pub fn last_segment(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default().rsplit('/').next().unwrap_or_default()
}

/// Folder of files of other hosts.
pub const FILES: &str = "files";
const WEB: [&str; 2] = ["http", "https"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_join_their_document() {
        let base = "https://index.example/simple/a/";
        for (reference, url) in [
            ("https://files.example/x/a.whl", Some("https://files.example/x/a.whl")),
            ("HTTP://Files.example:80/%7Ex%2b", Some("http://files.example/~x%2B")),
            ("//cdn.example/a", Some("https://cdn.example/a")),
            ("/packages/a", Some("https://index.example/packages/a")),
            ("../../packages/./a", Some("https://index.example/packages/a")),
            ("../../../../a", Some("https://index.example/a")),
            ("a.whl", Some("https://index.example/simple/a/a.whl")),
            ("ftp://files.example/a", None),
            ("https://user@files.example/a", None),
            ("https:///a", None),
            ("a b", None),
        ] {
            assert_eq!(joined(base, reference).as_deref(), url, "{reference}");
        }
    }

    #[test]
    fn hidden_names_have_no_plain_path() {
        for (path, may_hide, made) in [
            ("/%61/b", false, Some("/a/b")),
            ("/@a%2fb/1.0", true, Some("/@a%2Fb/1.0")),
            ("/@a%2fb/1.0", false, None),
            ("/a/%2E%2e/b", true, None),
            ("/a/..%2fb", true, None),
            ("/a/..%252fb", true, None),
            ("/a/..;x/b", true, None),
            ("/a/..%3bx/b", true, None),
            ("/a\\..\\b", true, None),
            ("/a\\b", false, None),
            ("/a;x/b", false, None),
            ("/a..b/...", false, Some("/a..b/...")),
            ("/100%/x%zz", false, Some("/100%/x%zz")),
            ("/é%C3%a9", false, Some("/é%C3%A9")),
        ] {
            assert_eq!(plain_path(path, may_hide).as_deref(), made, "{path}");
        }
    }

    #[test]
    fn files_are_named_by_host_and_back() {
        let upstream = "https://index.example/simple";
        for (url, path) in [
            ("https://files.example/x/a.whl", "files/files.example/x/a.whl"),
            ("http://files.example:8080/a.whl", "files/http~files.example:8080/a.whl"),
        ] {
            assert_eq!(file_path(upstream, url).as_deref(), Some(path));
            assert_eq!(file_url(upstream, &path["files/".len()..]).as_deref(), Some(url));
        }
        let escaped = file_url(upstream, "files.example%3A8080/a%3Ab");
        assert_eq!(escaped.as_deref(), Some("https://files.example:8080/a%3Ab"));
        let spelt = file_url(upstream, "Files.Example:443/%61%2b");
        assert_eq!(spelt.as_deref(), Some("https://files.example/a%2B"));
        for behind in ["", "host", "host/", "host/../x", "a@b/x", "host/a?b", "host/./a", "/x"] {
            assert_eq!(file_url(upstream, behind), None, "{behind}");
        }
    }
}
