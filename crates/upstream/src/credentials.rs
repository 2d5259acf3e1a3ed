//! Credentials of this node at an upstream, from a file of one line.
//!
//! A line `user:password` becomes a value of the Basic scheme (RFC 7617). A line that begins with a
//! word and a blank is a whole value, such as `Bearer abc`. Values are marked as sensitive, so that
//! no text of this process shows them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Credentials that were read from a file.
pub struct Credentials {
    /// Value of Authorization.
    pub value: HeaderValue,
    /// `true` if every user of this machine may read the file.
    pub is_exposed: bool,
}

impl Credentials {
    /// Reads the file. The reason for a failure holds nothing of the file's contents.
    ///
    /// # Errors
    /// If the file cannot be read, or is not one line of credentials.
    pub fn read(path: &Path) -> Result<Self, String> {
        let failed = |why: String| format!("{}: {why}", path.display());
        // Opening a pipe would wait for its other end.
        let data = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
        if !data.is_file() {
            return Err(failed("it is no file".into()));
        }
        let file = File::open(path).map_err(|error| failed(error.to_string()))?;
        let mut text = Vec::new();
        file.take(FILE_MAX + 1).read_to_end(&mut text).map_err(|error| failed(error.to_string()))?;
        let value = authorization(&text).map_err(|why| failed(why.into()))?;
        Ok(Self { value, is_exposed: data.permissions().mode() & OTHERS_READ != 0 })
    }
}

/// Returns the value of Authorization for the text of a file.
fn authorization(text: &[u8]) -> Result<HeaderValue, &'static str> {
    if text.len() as u64 > FILE_MAX {
        return Err("longer than 8 KiB");
    }
    let text = std::str::from_utf8(text).map_err(|_| "not UTF-8")?;
    let line = text.strip_suffix('\n').unwrap_or(text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.chars().any(char::is_control) {
        return Err("expected one line without control characters");
    }
    let end = line.find([':', ' ']).ok_or("expected user:password, or a whole value such as Bearer abc")?;
    let (first, rest) = (&line[..end], &line[end + 1..]);
    if first.is_empty() || rest.trim().is_empty() {
        return Err("expected user:password, or a whole value such as Bearer abc");
    }
    let value = match line.as_bytes()[end] {
        b':' => format!("Basic {}", STANDARD.encode(line)),
        _ => line.trim_end().to_owned(),
    };
    let mut value = HeaderValue::try_from(value).map_err(|_| "not a value that a field can have")?;
    value.set_sensitive(true);
    debug_assert!(!value.is_empty(), "credentials say something");
    Ok(value)
}

/// Most bytes of the file.
const FILE_MAX: u64 = 8192;
/// Mode bit by which users other than owner and group read a file.
const OTHERS_READ: u32 = 0o004;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_values() {
        for (text, value) in [
            ("ann:s3cret\n", Some("Basic YW5uOnMzY3JldA==")),
            ("ann:with : colon", Some("Basic YW5uOndpdGggOiBjb2xvbg==")),
            ("Bearer abc:def\r\n", Some("Bearer abc:def")),
            ("Bearer abc \n", Some("Bearer abc")),
            ("", None),
            ("\n", None),
            ("abc", None),
            (":x", None),
            ("ann:", None),
            ("Bearer ", None),
            ("ann:a\nbob:b\n", None),
            ("ann:a\0b", None),
        ] {
            let read = authorization(text.as_bytes());
            assert_eq!(read.as_ref().ok().map(HeaderValue::as_bytes), value.map(str::as_bytes), "{text:?}");
        }
        assert!(authorization(&[b'a'; 9000]).is_err() && authorization(b"a:\xff").is_err());
    }

    #[test]
    fn secrets_are_not_shown() {
        let value = authorization(b"ann:s3cret").expect("credentials");
        assert!(!format!("{value:?}").contains("YW5u"));
        let error = authorization(b"only-a-s3cret").expect_err("no credentials");
        assert!(!error.contains("s3cret"));
    }
}
