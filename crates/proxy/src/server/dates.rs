//! The Date field's value for replies that bring none.

use shoal_core::Timestamp;
use shoal_wire::DateCache;
use std::time::{Instant, SystemTime};

/// The clock behind the Date field, read once a second.
#[derive(Debug, Default)]
pub(super) struct Dates {
    cache: DateCache,
    read: Option<(Instant, Timestamp)>,
}

impl Dates {
    /// The Date value at `now`.
    pub fn at(&mut self, now: Instant) -> &[u8] {
        let since = |read: Instant| now.saturating_duration_since(read);
        let time = match self.read {
            Some((read, time)) if since(read).as_secs() < REREAD_SECONDS => time.plus(since(read)),
            _ => {
                let time = Timestamp::from_system(SystemTime::now());
                self.read = Some((now, time));
                time
            }
        };
        self.cache.at(time)
    }
}

/// The wall clock may be set meanwhile; so long a wrong date may stand.
const REREAD_SECONDS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_follow_the_clock_between_readings() {
        let mut dates = Dates::default();
        let now = Instant::now();
        dates.read = Some((now, Timestamp::from_seconds(784_111_777)));
        assert_eq!(dates.at(now), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(dates.at(now + Duration::from_secs(2)), b"Sun, 06 Nov 1994 08:49:39 GMT");
        assert_ne!(&dates.at(now + Duration::from_secs(60))[12..16], b"1994");
    }
}
