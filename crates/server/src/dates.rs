//! Date field value for replies without one. Each thread formats the value once a second.

use crate::clock;
use shoal_wire::DateCache;
use std::cell::RefCell;
use std::time::Instant;

/// Calls `take` with the Date value at `now`.
pub(super) fn with_date<R>(now: Instant, take: impl FnOnce(&[u8]) -> R) -> R {
    DATE.with_borrow_mut(|date| take(date.at(clock::date_at(clock::time_at(now)))))
}

thread_local! {
    static DATE: RefCell<DateCache> = RefCell::default();
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::Timestamp;
    use shoal_semantics::date as semantics;
    use std::time::{Duration, SystemTime};

    #[test]
    fn dates_follow_the_clock() {
        let now = Instant::now();
        let read = |at| with_date(at, |date| semantics::parse(date, Timestamp::default())).expect("a date");
        let clock = Timestamp::from_system(SystemTime::now()).seconds();
        assert!((clock - 5..=clock).contains(&read(now)), "{} at {clock}", read(now));
        assert!((59..=61).contains(&(read(now + Duration::from_secs(60)) - read(now))));
    }
}
