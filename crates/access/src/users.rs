//! Users and passwords for Basic proxy authentication (RFC 7617).
//!
//! The file has a line `user:password` for each user; empty lines and lines that begin with `#` are
//! skipped. A password may be written as `$sha256$SALT$HEX`, where HEX is the SHA-256 of salt and
//! password, as `printf %s "$SALT$PASSWORD" | sha256sum` prints it. Only digests are kept in
//! memory.

use crate::settings_file;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{fmt, io};
use subtle::ConstantTimeEq;

/// The users that may use the forward proxy.
#[derive(Debug, Default)]
pub struct Users(HashMap<String, Secret>);

/// A password of which only the digest is stored.
#[derive(Debug)]
struct Secret {
    salt: String,
    digest: [u8; 32],
}

/// An unusable users file.
#[derive(Debug)]
#[non_exhaustive]
pub enum UsersError {
    /// The file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// A line is not `user:password`.
    Line(PathBuf, usize, &'static str),
}

impl Users {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file cannot be read or a line is invalid.
    pub fn read(path: &Path) -> Result<Self, UsersError> {
        let bytes = settings_file::read(path).map_err(|e| UsersError::Unreadable(path.into(), e))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let why = io::Error::new(io::ErrorKind::InvalidData, error.utf8_error());
            UsersError::Unreadable(path.into(), why)
        })?;
        Self::parse(&text).map_err(|(line, what)| UsersError::Line(path.into(), line, what))
    }

    /// Reads lines. The error is the line's number, from 1, and the reason.
    fn parse(text: &str) -> Result<Self, (usize, &'static str)> {
        let mut users = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |what| (index + 1, what);
            let (user, password) = line.split_once(':').ok_or(wrong("expected user:password"))?;
            if user.is_empty() || password.is_empty() {
                return Err(wrong("empty user or password"));
            }
            // Taken as a bare password, a hash would let in each reader of the old file.
            if FOREIGN.iter().any(|mark| password.starts_with(mark)) {
                return Err(wrong("a hash of another kind; expected $sha256$SALT$HEX"));
            }
            let secret = Secret::parse(password).ok_or(wrong("expected $sha256$SALT$64 hex digits"))?;
            if users.insert(user.to_owned(), secret).is_some() {
                return Err(wrong("user named twice"));
            }
        }
        Ok(Self(users))
    }

    /// Returns the user with these credentials. An unknown user takes as long as a wrong password.
    pub fn authenticate(&self, authorization: &[u8]) -> Option<String> {
        let text = std::str::from_utf8(authorization).ok()?;
        let (scheme, encoded) = text.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
        // RFC 7617, 2: "a user-id containing a colon character is invalid, as the first colon in a
        // user-pass string separates user-id and password from one another".
        let (user, password) = decoded.split_once(':')?;
        let nobody = Secret { salt: String::new(), digest: [0; 32] };
        let known = self.0.get(user);
        let matches = known.unwrap_or(&nobody).matches(password);
        (matches && known.is_some()).then(|| user.to_owned())
    }
}

impl Secret {
    fn parse(password: &str) -> Option<Self> {
        let Some(hashed) = password.strip_prefix("$sha256$") else {
            return Some(Self { salt: String::new(), digest: sha256("", password) });
        };
        let (salt, hex) = hashed.rsplit_once('$')?;
        Some(Self { salt: salt.to_owned(), digest: from_hex(hex)? })
    }

    fn matches(&self, password: &str) -> bool {
        sha256(&self.salt, password).ct_eq(&self.digest).into()
    }
}

/// Beginnings of hashes that htpasswd and crypt make.
const FOREIGN: [&str; 12] =
    ["$apr1$", "$1$", "$2$", "$2a$", "$2b$", "$2y$", "$5$", "$6$", "$7$", "$y$", "{SHA}", "{SSHA}"];

fn sha256(salt: &str, password: &str) -> [u8; 32] {
    let hash = digest(&SHA256, format!("{salt}{password}").as_bytes());
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn from_hex(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

impl fmt::Display for UsersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, source) => write!(f, "{}: {source}", path.display()),
            Self::Line(path, line, what) => write!(f, "{}:{line}: {what}", path.display()),
        }
    }
}

impl std::error::Error for UsersError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(user_pass: &str) -> Vec<u8> {
        format!("Basic {}", STANDARD.encode(user_pass)).into_bytes()
    }

    #[test]
    fn passwords_plain_and_hashed() {
        // The digest of "pepper" followed by "open sesame", from sha256sum.
        let text = "# users\nann:s3cret:with colon\n\nbob:$sha256$pepper$\
            1a62cb3bb3ecfcd0e49236c037d100f64ec07a1a3c5964db8d0bfb8a31a221fa\n";
        let users = Users::parse(text).unwrap();
        for (user_pass, user) in [
            ("ann:s3cret:with colon", Some("ann")),
            ("ann:s3cret", None),
            ("ann:", None),
            ("bob:open sesame", Some("bob")),
            ("bob:open", None),
            ("eve:open sesame", None),
            ("", None),
        ] {
            assert_eq!(users.authenticate(&basic(user_pass)).as_deref(), user, "{user_pass}");
        }
    }

    #[test]
    fn other_schemes_and_garbage_are_no_credentials() {
        let users = Users::parse("ann:a").unwrap();
        for value in ["", "Basic", "Bearer YW5uOmE=", "Basic ====", "Basic YW5u"] {
            assert_eq!(users.authenticate(value.as_bytes()), None, "{value}");
        }
        assert_eq!(users.authenticate(b"basic YW5uOmE="), Some("ann".into()));
    }

    #[test]
    fn senseless_lines_are_named() {
        for (text, line) in [
            ("ann", 1),
            ("\n:x", 2),
            ("ann:\n", 1),
            ("ann:a\nann:b", 2),
            ("ann:$sha256$salt$12", 1),
            ("ann:$apr1$a$b", 1),
            ("a:b\nann:{SHA}x", 2),
        ] {
            assert_eq!(Users::parse(text).unwrap_err().0, line, "{text}");
        }
    }
}
