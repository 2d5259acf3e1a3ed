//! Open challenges: the proofs of serving a name that the authority may come for.
//!
//! Nothing is answered but a challenge that this node has opened itself, for its own name, and only
//! until the order ends. The table is empty nearly always.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Open challenges of a node.
#[derive(Debug, Default)]
pub struct Challenges {
    /// Key authorizations by token, each with its host (http-01, RFC 8555 section 8.3).
    http: Mutex<HashMap<String, (String, String)>>,
    /// Certificates by name (tls-alpn-01, RFC 8737).
    tls: Mutex<HashMap<String, Arc<TlsAnswer>>>,
    answered: AtomicU64,
}

/// Certificate that answers a challenge of TLS, with its key.
#[derive(Debug, PartialEq, Eq)]
pub struct TlsAnswer {
    /// Self-signed certificate, DER.
    pub certificate: Vec<u8>,
    /// Key, PKCS#8.
    pub key: Vec<u8>,
}

impl Challenges {
    /// Path before the token.
    pub const PREFIX: &str = "/.well-known/acme-challenge/";

    /// Opens a challenge of http. Returns `false` for a token that is not base64url, or if too many
    /// are open.
    pub fn open_http(&self, host: &str, token: &str, authorization: &str) -> bool {
        let mut open = self.http.lock();
        let is_room = open.len() < OPEN_MAX && authorization.len() <= AUTHORIZATION_MAX;
        if is_room && is_token(token) {
            open.insert(token.to_owned(), (host.to_ascii_lowercase(), authorization.to_owned()));
            return true;
        }
        false
    }

    /// Opens a challenge of TLS. Returns `false` if too many are open.
    pub fn open_tls(&self, host: &str, answer: TlsAnswer) -> bool {
        let mut open = self.tls.lock();
        let is_room = open.len() < OPEN_MAX;
        if is_room {
            open.insert(host.to_ascii_lowercase(), Arc::new(answer));
        }
        is_room
    }

    /// Closes all challenges.
    pub fn close(&self) {
        self.http.lock().clear();
        self.tls.lock().clear();
    }

    /// Returns `true` if the authority may come with a handshake: a challenge of TLS is open.
    pub fn awaits_handshake(&self) -> bool {
        !self.tls.lock().is_empty()
    }

    /// Returns the body for a request of this host, in lower case, and path.
    pub fn http_answer(&self, host: &str, path: &str) -> Option<String> {
        let token = path.strip_prefix(Self::PREFIX)?;
        let open = self.http.lock();
        let (_, authorization) = open.get(token).filter(|(of, _)| of == host)?;
        self.answered.fetch_add(1, Relaxed);
        Some(authorization.clone())
    }

    /// Returns the certificate for a handshake of ALPN `acme-tls/1` with this server name.
    pub fn tls_answer(&self, name: &str) -> Option<Arc<TlsAnswer>> {
        let answer = self.tls.lock().get(&name.to_ascii_lowercase()).cloned()?;
        self.answered.fetch_add(1, Relaxed);
        Some(answer)
    }

    /// Returns the number of answers given.
    pub fn answered(&self) -> u64 {
        self.answered.load(Relaxed)
    }
}

/// Returns `true` for a token of base64url (RFC 8555 section 8.3).
fn is_token(text: &str) -> bool {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=TOKEN_MAX).contains(&text.len()) && text.bytes().all(is_of_token)
}

/// Most challenges of a kind that are open at once: one for each name of an order.
const OPEN_MAX: usize = 100;
/// Longest token, in bytes.
const TOKEN_MAX: usize = 256;
/// Longest key authorization, in bytes: a token, and the hash of a key.
const AUTHORIZATION_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_open_challenges_are_answered() {
        let challenges = Challenges::default();
        let path = format!("{}t-1_A", Challenges::PREFIX);
        assert_eq!(challenges.http_answer("a.test", &path), None);
        assert!(challenges.open_http("A.test", "t-1_A", "t-1_A.thumb"));
        assert_eq!(challenges.http_answer("a.test", &path).as_deref(), Some("t-1_A.thumb"));
        for (host, path) in [
            ("b.test", path.as_str()),
            ("a.test", "/t-1_A"),
            ("a.test", "/.well-known/acme-challenge/"),
            ("a.test", "/.well-known/acme-challenge/t-1_A?x"),
            ("a.test", "/.well-known/acme-challenge/t-1_B"),
        ] {
            assert_eq!(challenges.http_answer(host, path), None, "{host}{path}");
        }
        let answer = TlsAnswer { certificate: vec![1], key: vec![2] };
        assert!(!challenges.awaits_handshake());
        assert!(challenges.open_tls("a.test", answer));
        assert!(challenges.awaits_handshake());
        assert!(challenges.tls_answer("A.test").is_some() && challenges.tls_answer("b.test").is_none());
        assert_eq!(challenges.answered(), 2);
        challenges.close();
        assert!(challenges.http_answer("a.test", &path).is_none());
        assert!(challenges.tls_answer("a.test").is_none() && !challenges.awaits_handshake());
    }

    #[test]
    fn hostile_tokens_are_refused() {
        let challenges = Challenges::default();
        let long = "a".repeat(257);
        for token in ["", "../admin", "a/b", "a?b", "a.b", "%2e", long.as_str()] {
            assert!(!challenges.open_http("a.test", token, "x"), "{token}");
        }
        assert!(!challenges.open_http("a.test", "t", &"x".repeat(513)));
        for number in 0..300 {
            challenges.open_http("a.test", &number.to_string(), "x");
            challenges.open_tls(&number.to_string(), TlsAnswer { certificate: vec![], key: vec![] });
        }
        assert_eq!((challenges.http.lock().len(), challenges.tls.lock().len()), (OPEN_MAX, OPEN_MAX));
    }
}
