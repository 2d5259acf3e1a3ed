//! Last refusal of another node: the log tells each once in ten minutes, not at each try.

use std::net::IpAddr;
use std::time::Duration;

/// Last refusal that was told.
#[derive(Debug, Default)]
pub(super) struct LastRefusal {
    last: Option<(IpAddr, String, Duration)>,
}

impl LastRefusal {
    /// Notes a refusal, and returns `true` if the log should tell it.
    pub(super) fn is_news(&mut self, from: IpAddr, why: &str, now: Duration) -> bool {
        // A reason may name seconds, which differ from try to try.
        let kind = |why: &str| why.replace(|char: char| char.is_ascii_digit(), "");
        let is_known = self.last.as_ref().is_some_and(|(ip, told, at)| {
            let is_same = *ip == from && kind(told) == kind(why);
            now.saturating_sub(*at) < if is_same { TOLD_AGAIN_AFTER } else { PAUSE }
        });
        if !is_known {
            self.last = Some((from, why.to_owned(), now));
        }
        !is_known
    }
}

/// Pause between two lines, since strangers could send refused messages without end.
const PAUSE: Duration = Duration::from_secs(5);

/// Time after which the log tells a refusal again.
const TOLD_AGAIN_AFTER: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_is_told_once_in_ten_minutes() {
        let (mut last, one) = (LastRefusal::default(), IpAddr::from([10, 0, 0, 1]));
        let at = Duration::from_secs;
        assert!(last.is_news(one, "clocks 400 s apart", at(1)));
        assert!(!last.is_news(one, "clocks 401 s apart", at(2)));
        assert!(!last.is_news(one, "another name", at(5)), "too early for another line");
        assert!(last.is_news(one, "another name", at(6)), "another reason");
        assert!(last.is_news([10, 0, 0, 2].into(), "another name", at(11)), "another node");
        assert!(!last.is_news([10, 0, 0, 2].into(), "another name", at(610)));
        assert!(last.is_news([10, 0, 0, 2].into(), "another name", at(611)));
    }
}
