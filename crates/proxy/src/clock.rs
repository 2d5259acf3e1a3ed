//! The time of day out of the monotonic clock.
//!
//! A request needs both clocks: the monotonic one for deadlines and durations, the time of day for ages and dates. Each
//! thread reads the latter once a second and counts on from there, so that a hit reads one clock once.

use shoal_core::Timestamp;
use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime};

/// The time of day at `now`, an instant that was read a moment ago.
pub fn time_at(now: Instant) -> Timestamp {
    // Later than the last reading, but not by more than what a clock that was set meanwhile may be wrong for.
    if let Some((at, time)) = READ.get()
        && let Some(since) = now.checked_duration_since(at)
        && since < REREAD
    {
        return time.plus(since);
    }
    reread(now)
}

/// Reads both clocks together, since `now` may be long ago.
#[cold]
fn reread(now: Instant) -> Timestamp {
    let (at, time) = (Instant::now(), Timestamp::from_system(SystemTime::now()));
    READ.set(Some((at, time)));
    match now.checked_duration_since(at) {
        Some(since) => time.plus(since),
        None => time.minus(at.duration_since(now)),
    }
}

/// How long a clock that was set may go unnoticed.
const REREAD: Duration = Duration::from_secs(1);

thread_local! {
    static READ: Cell<Option<(Instant, Timestamp)>> = const { Cell::new(None) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_day_follows_the_monotonic_clock() {
        let now = Instant::now();
        let time = time_at(now);
        let apart = Timestamp::from_system(SystemTime::now()).since(time);
        assert!(apart < Duration::from_secs(5), "{apart:?} behind the clock");
        let soon = now + Duration::from_millis(900);
        assert!(time_at(soon) == time.plus(Duration::from_millis(900)) || time_at(soon) > time);
        let earlier = time_at(now - Duration::from_secs(3));
        assert!((2900..3100).contains(&time.since(earlier).as_millis()));
    }
}
