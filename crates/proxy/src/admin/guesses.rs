//! Wrong passwords that clients of the admin listener may still send, by client network.

use parking_lot::Mutex;
use shoal_access::client_network;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Instant;

/// Networks with wrong passwords. Clients of a Unix socket are one network, and so are all beyond
/// [`NETWORKS_MAX`].
#[derive(Default)]
pub(super) struct GuessLimits(Mutex<HashMap<Option<IpAddr>, Guesses>>);

/// Wrong passwords that are still allowed.
#[derive(Clone, Copy)]
struct Guesses {
    left: f64,
    since: Instant,
}

impl GuessLimits {
    /// Returns `true` if a client may try a password.
    pub fn may_guess(&self, from: Option<IpAddr>, now: Instant) -> bool {
        let table = self.0.lock();
        let own = table.get(&from.map(client_network)).or_else(|| {
            // Of a network that is not there, the full table may have had no place.
            if table.len() < NETWORKS_MAX { None } else { table.get(&None) }
        });
        own.is_none_or(|guesses| guesses.at(now).left >= 1.0)
    }

    /// Counts a wrong password.
    pub fn was_wrong(&self, from: Option<IpAddr>, now: Instant) {
        let mut table = self.0.lock();
        let mut network = from.map(client_network);
        if table.len() >= NETWORKS_MAX && !table.contains_key(&network) {
            table.retain(|_, guesses| guesses.at(now).left < GUESSES);
        }
        if table.len() >= NETWORKS_MAX && !table.contains_key(&network) {
            network = None;
        }
        let full = Guesses { left: GUESSES, since: now };
        let guesses = table.entry(network).or_insert(full);
        *guesses = guesses.at(now);
        guesses.left = (guesses.left - 1.0).max(0.0);
        debug_assert!(table.len() <= NETWORKS_MAX + 1, "the table is bounded");
    }
}

impl Guesses {
    /// Returns the guesses at a time. There is one more each second.
    fn at(self, now: Instant) -> Self {
        let seconds = now.saturating_duration_since(self.since).as_secs_f64();
        let left = (self.left + seconds).min(GUESSES);
        debug_assert!(left <= GUESSES, "guesses have a limit");
        Self { left, since: now }
    }
}

/// Wrong passwords at once.
const GUESSES: f64 = 10.0;

/// Most networks that are counted by themselves.
const NETWORKS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn network(number: u32) -> Option<IpAddr> {
        Some(IpAddr::from((0x0a00_0000 + number).to_be_bytes()))
    }

    #[test]
    fn one_network_locks_out_no_other() {
        let (limits, now) = (GuessLimits::default(), Instant::now());
        (0..20).for_each(|_| limits.was_wrong(network(1), now));
        assert!(!limits.may_guess(network(1), now));
        assert!(limits.may_guess(network(2), now) && limits.may_guess(None, now));
        assert!(limits.may_guess(network(1), now + Duration::from_secs(12)));
    }

    #[test]
    fn networks_beyond_the_limit_share_guesses() {
        let (limits, now) = (GuessLimits::default(), Instant::now());
        (0..5_000).for_each(|number| limits.was_wrong(network(number), now));
        assert!(limits.0.lock().len() <= NETWORKS_MAX + 1);
        assert!(!limits.may_guess(network(6_000), now), "the common guesses are used up");
        limits.was_wrong(network(7), now + Duration::from_secs(3_600));
        assert!(limits.may_guess(network(6_000), now + Duration::from_secs(3_600)));
    }
}
