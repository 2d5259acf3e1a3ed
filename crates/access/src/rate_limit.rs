//! Rate of requests by client network, in a table of fixed size.
//!
//! The generic cell rate algorithm (ITU-T I.371, 1996) keeps one number for a client: the time at
//! which its bucket is full again. A request moves this time by the interval of one request, and is
//! refused if the time would be further ahead than the burst. The time is an argument.
//!
//! The table is a set-associative array. A client belongs to one set of eight places, chosen by a
//! hash under a secret of the table. A new client takes the place with the earliest time, and
//! inherits that time, as in Space-Saving (Metwally, Agrawal and El Abbadi, ICDT 2005). It holds:
//!
//! - No client gets more than its rate and burst, for any requests of others. A client that lost
//!   its place finds a time no earlier than its own: the earliest time of a set never goes back.
//! - A client that had a place with a later time keeps this place.
//! - A new client is refused too early only if all eight places of its set have unpaid requests.
//!   For this, others must send more than the rate times the number of places.
//!
//! Cost: one lock of a set and eight comparisons for a request.

use crate::client_network::client_network;
use parking_lot::Mutex;
use shoal_rules::ClientRate;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Buckets of client networks.
#[derive(Debug)]
pub struct RateLimiter {
    rate: ClientRate,
    /// Nanoseconds that one request costs.
    interval: u64,
    /// Nanoseconds that a client may be ahead.
    burst: u64,
    sets: Box<[Mutex<[ClientBucket; WAYS]>]>,
    secret: RandomState,
}

/// ClientBucket of one client network.
#[derive(Clone, Copy, Debug, Default)]
struct ClientBucket {
    /// Keyed hash of the network.
    client: u64,
    /// Time at which the bucket is full again; 0 in an unused place.
    full_at: u64,
}

impl RateLimiter {
    /// Creates a table of at least `places` places.
    pub fn new(rate: ClientRate, places: usize) -> Self {
        assert!(rate.per_second > 0.0, "settings have a least rate");
        let interval = ((1e9 / rate.per_second) as u64).max(1);
        let sets = places.div_ceil(WAYS).max(1);
        Self {
            rate,
            interval,
            burst: interval.saturating_mul(u64::from(rate.burst.max(1))),
            sets: (0..sets).map(|_| Mutex::default()).collect(),
            secret: RandomState::new(),
        }
    }

    /// Returns the rate.
    pub fn rate(&self) -> ClientRate {
        self.rate
    }

    /// Counts a request of `client` at `now`.
    ///
    /// # Errors
    /// The time until a request would be served, if this one is beyond the rate. It is then not
    /// counted.
    pub fn take(&self, client: IpAddr, now: u64) -> Result<(), Duration> {
        self.judge(client, now, true)
    }

    /// Judges a request like [`Self::take`] without counting it.
    ///
    /// # Errors
    /// As for [`Self::take`].
    pub fn check(&self, client: IpAddr, now: u64) -> Result<(), Duration> {
        self.judge(client, now, false)
    }

    fn judge(&self, client: IpAddr, now: u64, counts: bool) -> Result<(), Duration> {
        let hash = self.secret.hash_one(client_network(client));
        let mut set = self.sets[(hash % self.sets.len() as u64) as usize].lock();
        let known = set.iter().position(|bucket| bucket.client == hash && bucket.full_at > 0);
        let earliest = || {
            let places = set.iter().enumerate();
            places.min_by_key(|(_, bucket)| bucket.full_at).map_or(0, |(place, _)| place)
        };
        let place = known.unwrap_or_else(earliest);
        let before = set[place].full_at;
        let full_at = next_full(before, now, self.interval, self.burst)?;
        if counts {
            assert!(full_at >= before, "a bucket fills by time alone");
            set[place] = ClientBucket { client: hash, full_at };
        }
        Ok(())
    }
}

/// Returns the time at which a bucket is full again after a request at `now`.
///
/// # Errors
/// The time to wait, if the bucket is empty.
fn next_full(full_at: u64, now: u64, interval: u64, burst: u64) -> Result<u64, Duration> {
    let next = full_at.max(now).saturating_add(interval);
    match next.saturating_sub(now).checked_sub(burst) {
        Some(beyond) if beyond > 0 => Err(Duration::from_nanos(beyond)),
        _ => Ok(next),
    }
}

/// Returns the time of a limiter at `at`, in nanoseconds.
pub fn limiter_time(at: Instant) -> u64 {
    // An hour ahead, so that no bucket of a used place is full at time 0.
    let since = at.saturating_duration_since(*STARTED) + Duration::from_secs(3600);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the seconds of a Retry-After field for this time to wait.
pub fn retry_after_seconds(wait: Duration) -> u64 {
    wait.as_millis().div_ceil(1000).max(1) as u64
}

static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Places of a set.
const WAYS: usize = 8;

const _: () = assert!(WAYS.is_power_of_two() && size_of::<ClientBucket>() == 16);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const SECOND: u64 = 1_000_000_000;

    fn limiter(per_second: f64, burst: u32, places: usize) -> RateLimiter {
        RateLimiter::new(ClientRate { per_second, burst }, places)
    }

    fn client(number: u32) -> IpAddr {
        IpAddr::V4((0xc000_0200 + number).into())
    }

    #[test]
    fn burst_then_rate() {
        let limiter = limiter(2.0, 3, 64);
        let taken = |now| limiter.take(client(1), now).is_ok();
        let now = 5 * SECOND;
        assert_eq!([taken(now), taken(now), taken(now), taken(now)], [true, true, true, false]);
        assert_eq!(limiter.take(client(1), now), Err(Duration::from_millis(500)));
        assert!(limiter.take(client(2), now).is_ok(), "another client has its own");
        let later = now + SECOND / 2;
        assert_eq!([taken(later), taken(later)], [true, false]);
        let rested = later + 60 * SECOND;
        assert_eq!((0..9).filter(|_| taken(rested)).count(), 3, "rest does not add up");
    }

    #[test]
    fn refused_requests_do_not_count() {
        let limiter = limiter(1.0, 1, 64);
        assert!(limiter.check(client(1), SECOND).is_ok());
        assert!(limiter.take(client(1), SECOND).is_ok());
        for _ in 0..100 {
            assert!(limiter.take(client(1), SECOND).is_err());
        }
        assert!(limiter.take(client(1), 2 * SECOND).is_ok());
    }

    #[test]
    fn time_that_goes_back_gives_nothing() {
        let limiter = limiter(1.0, 1, 64);
        assert!(limiter.take(client(1), 9 * SECOND).is_ok());
        assert!(limiter.take(client(1), SECOND).is_err());
        assert!(limiter.take(client(1), u64::MAX).is_ok());
        assert!(limiter.take(client(1), u64::MAX).is_ok(), "saturated");
    }

    #[test]
    fn others_free_no_clients_limit() {
        let limiter = limiter(0.001, 2, 8);
        let now = SECOND;
        assert!((0..2).all(|_| limiter.take(client(0), now).is_ok()));
        for number in 1..100_000 {
            let _ = limiter.take(client(number), now);
        }
        assert!(limiter.take(client(0), now).is_err());
    }

    #[test]
    fn newcomers_are_served_while_places_are_paid() {
        let limiter = limiter(100.0, 1, 8);
        // 400 clients a second in a table of 8 places at 100 a second each.
        for number in 0..4000_u32 {
            let now = SECOND + u64::from(number) * SECOND / 400;
            assert!(limiter.take(client(number), now).is_ok(), "{number}");
        }
    }

    #[test]
    fn waits_are_whole_seconds() {
        for (wait, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (61_500, 62)] {
            assert_eq!(retry_after_seconds(Duration::from_millis(wait)), seconds);
        }
    }

    proptest! {
        /// No client gets more than a bucket of its own would give, for any requests of others.
        #[test]
        fn table_is_never_more_lenient(
            steps in proptest::collection::vec((0u32..40, 0u64..400_000_000), 1..400),
        ) {
            let limiter = limiter(5.0, 3, 8);
            let mut own: HashMap<u32, u64> = HashMap::new();
            let mut now = SECOND;
            for (number, pause) in steps {
                now += pause;
                if limiter.take(client(number), now).is_ok() {
                    let full_at = own.entry(number).or_default();
                    let next = next_full(*full_at, now, limiter.interval, limiter.burst);
                    prop_assert!(next.is_ok(), "client {number} at {now}");
                    *full_at = next.unwrap_or_default();
                }
            }
        }
    }
}
