//! Bearer tokens of image registries: the challenge of a 401, and the answer of the token server.
//!
//! ```text
//!   401  WWW-Authenticate: Bearer realm="https://auth.example/token",service="images",scope="..."
//!   GET  https://auth.example/token?service=images&scope=...   {"token": "...", "expires_in": 300}
//! ```

use crate::json::{Path, Visitor, Walk, text};

/// A challenge: the token server, and the rights to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// URL of the token server.
    pub realm: String,
    /// Name of the registry there.
    pub service: Option<String>,
    /// Rights that are asked for.
    pub scope: Option<String>,
}

impl Challenge {
    /// Reads the first Bearer challenge of a WWW-Authenticate field.
    pub fn parse(value: &str) -> Option<Self> {
        let lower = value.to_ascii_lowercase();
        let start = lower.find("bearer ").filter(|at| *at == 0 || lower[..*at].ends_with([' ', ',']))?;
        let mut rest = value[start + "bearer ".len()..].trim_start();
        let (mut realm, mut service, mut scope) = (None, None, None);
        while let Some((name, behind)) = rest.split_once('=') {
            let behind = behind.trim_start();
            let (value, behind) = match behind.strip_prefix('"') {
                Some(quoted) => quoted_string(quoted)?,
                None => {
                    let end = behind.find([',', ' ']).unwrap_or(behind.len());
                    (behind[..end].to_owned(), &behind[end..])
                }
            };
            match name.trim().to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value),
                "service" => service = Some(value),
                "scope" => scope = Some(value),
                // Another challenge begins.
                name if name.contains(' ') => break,
                _ => {}
            }
            rest = behind.trim_start_matches([',', ' ']);
        }
        Some(Self { realm: realm?, service, scope })
    }

    /// Returns the URL that a token is asked for with.
    pub fn url(&self) -> String {
        let mut url = self.realm.clone();
        for (name, value) in [("service", &self.service), ("scope", &self.scope)] {
            if let Some(value) = value {
                url.push(if url.contains('?') { '&' } else { '?' });
                url.push_str(name);
                url.push('=');
                value.bytes().for_each(|byte| push_escaped(&mut url, byte));
            }
        }
        url
    }
}

/// Reads a quoted string behind its first quote. Returns the text and the rest.
fn quoted_string(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((text, &quoted[at + 1..])),
            '\\' => text.push(chars.next()?.1),
            char => text.push(char),
        }
    }
    None
}

fn push_escaped(url: &mut String, byte: u8) {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b':' | b',' => {
            url.push(char::from(byte));
        }
        _ => url.push_str(&format!("%{byte:02X}")),
    }
}

/// A token, and the seconds for which it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Value behind `Bearer `.
    pub value: String,
    /// Seconds from its issue on.
    pub lifetime_seconds: u64,
}

impl Token {
    /// Reads a token server's answer. Without `expires_in` a token holds for 60 s.
    pub fn parse(answer: &[u8]) -> Option<Self> {
        let mut walk = Walk::new(Members::default());
        let mut unread = Vec::new();
        walk.push(answer, &mut unread).ok()?;
        walk.finish(&mut unread).ok()?;
        let Members { token, access_token, expires_in } = walk.visitor;
        let value = token.or(access_token)?;
        let is_sound = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic());
        is_sound.then(|| Self { value, lifetime_seconds: expires_in.unwrap_or(LIFETIME_SECONDS) })
    }
}

#[derive(Default)]
struct Members {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

impl Visitor for Members {
    fn wants(&mut self, path: &Path) -> bool {
        path.depth() == 1 && matches!(path.key(0), "token" | "access_token" | "expires_in")
    }

    fn scalar(&mut self, path: &Path, raw: &[u8], _: &mut Vec<u8>) {
        match path.key(0) {
            "token" => self.token = text(raw).filter(|token| !token.is_empty()),
            "access_token" => self.access_token = text(raw),
            _ => self.expires_in = std::str::from_utf8(raw).ok().and_then(|number| number.parse().ok()),
        }
    }
}

/// Lifetime of a token if the answer has none.
const LIFETIME_SECONDS: u64 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let whole = r#"Bearer realm="https://auth.example/token",service="images.example",scope="repository:a/b:pull,push""#;
        let challenge = Challenge::parse(whole).expect("a challenge");
        assert_eq!(
            challenge.url(),
            "https://auth.example/token?service=images.example&scope=repository:a/b:pull,push"
        );
        let two = r#"Basic realm="x", bearer realm="https://a.example/t?x=1" , scope = "a \"b\"", Digest realm="y""#;
        let challenge = Challenge::parse(two).expect("the second");
        assert_eq!(challenge.url(), "https://a.example/t?x=1&scope=a%20%22b%22");
        for text in ["Basic realm=\"x\"", "Bearer service=\"a\"", "Bearer realm=\"a", "", "Xbearer realm=a"] {
            assert_eq!(Challenge::parse(text), None, "{text}");
        }
    }

    #[test]
    fn tokens_are_read() {
        let token = |value: &str, lifetime_seconds| Some(Token { value: value.into(), lifetime_seconds });
        for (answer, read) in [
            (r#"{"token":"abc","expires_in":300,"x":{"token":"no"}}"#, token("abc", 300)),
            (r#"{"access_token":"abc"}"#, token("abc", 60)),
            (r#"{"token":"","access_token":"abc"}"#, token("abc", 60)),
            (r#"{"token":"a b"}"#, None),
            (r#"{"token":"a\nb"}"#, None),
            (r#"{"token":"abc""#, None),
            ("[]", None),
        ] {
            assert_eq!(Token::parse(answer.as_bytes()), read, "{answer}");
        }
    }
}
