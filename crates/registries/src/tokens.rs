//! Bearer tokens that a registry has given this node, by repository.
//!
//! A token is kept for nine tenths of its lifetime, so that none ends on its way.

use parking_lot::Mutex;
use shoal_mirrors::bearer::Token;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Tokens of one mirror.
#[derive(Default)]
pub struct Tokens(Mutex<HashMap<String, (String, Instant)>>);

impl Tokens {
    /// Returns the token of a repository, unless it ends soon.
    pub fn of(&self, repository: &str, now: Instant) -> Option<String> {
        let tokens = self.0.lock();
        tokens.get(repository).filter(|(_, until)| *until > now).map(|(token, _)| token.clone())
    }

    /// Keeps a token.
    pub fn keep(&self, repository: &str, token: &Token, now: Instant) {
        let lifetime = Duration::from_secs(token.lifetime_seconds.min(LIFETIME_SECONDS_MAX)) * 9 / 10;
        let mut tokens = self.0.lock();
        if tokens.len() >= TOKENS_MAX {
            tokens.retain(|_, (_, until)| *until > now);
        }
        if tokens.len() >= TOKENS_MAX {
            tokens.clear();
        }
        tokens.insert(repository.to_owned(), (token.value.clone(), now + lifetime));
        debug_assert!(tokens.len() <= TOKENS_MAX);
    }

    /// Forgets a token that the registry has refused.
    pub fn forget(&self, repository: &str) {
        self.0.lock().remove(repository);
    }
}

/// Most repositories with a token.
const TOKENS_MAX: usize = 1024;
/// Longest time for which a token is believed.
const LIFETIME_SECONDS_MAX: u64 = 3600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_end_early_and_are_bounded() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        let token = |lifetime_seconds| Token { value: "t".into(), lifetime_seconds };
        tokens.keep("a", &token(100), now);
        assert_eq!(tokens.of("a", now + Duration::from_secs(89)).as_deref(), Some("t"));
        assert_eq!(tokens.of("a", now + Duration::from_secs(91)), None);
        tokens.keep("b", &token(u64::MAX), now);
        assert_eq!(tokens.of("b", now + Duration::from_secs(3600)), None);
        tokens.forget("a");
        assert_eq!(tokens.of("a", now), None);
        for number in 0..5000 {
            tokens.keep(&number.to_string(), &token(1000), now);
        }
        assert!(tokens.0.lock().len() <= TOKENS_MAX);
    }
}
