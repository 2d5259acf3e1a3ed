//! Points in time, as milliseconds since the Unix epoch.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Point in time with millisecond resolution. Callers pass times in; nothing below the proxy reads
/// a clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Returns the time `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Returns the time `seconds` seconds after the epoch.
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Converts a system time; times before the epoch become the epoch.
    pub fn from_system(time: SystemTime) -> Self {
        Self(time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64))
    }

    /// Returns milliseconds since the epoch.
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// Returns whole seconds since the epoch.
    pub const fn seconds(self) -> u64 {
        self.0 / 1000
    }

    /// Converts to a system time.
    pub fn to_system(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0)
    }

    /// Returns the time from `earlier` to `self`; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// Returns this time moved forward, saturating.
    pub const fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by.as_millis() as u64))
    }

    /// Returns this time moved back, saturating.
    pub const fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by.as_millis() as u64))
    }
}
