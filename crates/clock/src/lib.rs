//! The cache's clock, which counts ages, made from the monotonic clock and the time of day.
//!
//! The cache's clock never goes back and never runs slower than the monotonic clock. If the time of
//! day is set back, the cache's clock continues and is then ahead of the time of day. Otherwise
//! stored responses would stay fresh longer, by the time that the clock was set back. If the time
//! of day is set forward, or the machine has slept, the cache's clock follows: stored responses may
//! be older than counted. The clock's position survives restarts: see [`reading`] and
//! [`go_on_from`]. Dates on the wire are compared with the time of day, [`date_at`].
//!
//! A request needs both clocks: the monotonic one for deadlines and durations, the cache's for
//! ages. Each thread reads the cache's clock once a second and counts on from there. A hit
//! therefore reads one clock once.

#![forbid(unsafe_code)]

use parking_lot::Mutex;
use shoal_core::{Key, Timestamp};
use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

/// State of the clock.
#[derive(Clone, Copy, Debug)]
struct Course {
    /// Instant of the last reading.
    at: Instant,
    /// Time shown at the last reading.
    time: Timestamp,
    /// Lead of the clock over the time of day.
    ahead: Duration,
}

/// A saved reading of the clock, from which another process continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockState {
    /// Time shown, in milliseconds; 0 if unknown.
    pub time_ms: u64,
    /// Identity of the machine's run at the reading.
    pub boot: u64,
    /// Uptime of the machine, in milliseconds, including sleep.
    pub up_ms: u64,
}

/// Returns the current time of the cache's clock, which counts ages. Dates are compared with the
/// time of day ([`date_at`]).
pub fn now() -> Timestamp {
    time_at(Instant::now())
}

/// Returns the cache's time at `now`, an instant read a moment ago.
pub fn time_at(now: Instant) -> Timestamp {
    // Counts on from the last reading for less than `REREAD`. A clock that was set meanwhile cannot
    // mislead for longer.
    if let Some((at, time)) = READ.get()
        && let Some(since) = now.checked_duration_since(at)
        && since < REREAD
    {
        return time.plus(since);
    }
    reread(now)
}

/// Returns the time of day at which the cache's clock shows `time`.
pub fn date_at(time: Timestamp) -> Timestamp {
    time.minus(Duration::from_millis(AHEAD_MS.load(Relaxed)))
}

/// Returns the clock's current reading.
pub fn reading() -> ClockState {
    ClockState { time_ms: time_at(Instant::now()).millis(), boot: *BOOT, up_ms: up_ms() }
}

/// Continues from an earlier process's reading, if the clock would show less. In another run of the
/// machine the time since the reading is unknown. If the time of day is before the reading,
/// everything stored counts as very old.
pub fn go_on_from(earlier: ClockState) {
    let least = least_after(earlier, reading(), Timestamp::from_system(SystemTime::now()));
    let mut course = COURSE.lock();
    course.read(Instant::now(), Timestamp::from_system(SystemTime::now()));
    course.go_on_from(least);
    AHEAD_MS.store(course.ahead.as_millis() as u64, Relaxed);
    drop(course);
    READ.set(None);
}

fn least_after(earlier: ClockState, now: ClockState, date: Timestamp) -> Timestamp {
    let then = Timestamp::from_millis(earlier.time_ms);
    match now.up_ms.checked_sub(earlier.up_ms) {
        _ if earlier == ClockState::default() => Timestamp::from_millis(0),
        Some(since) if now.boot == earlier.boot => then.plus(Duration::from_millis(since)),
        _ if date < then => then.plus(VERY_LONG),
        _ => then,
    }
}

/// Reads all clocks together, since `now` may be long ago.
#[cold]
fn reread(now: Instant) -> Timestamp {
    let mut course = COURSE.lock();
    let at = Instant::now();
    let time = course.read(at, Timestamp::from_system(SystemTime::now()));
    AHEAD_MS.store(course.ahead.as_millis() as u64, Relaxed);
    drop(course);
    READ.set(Some((at, time)));
    match now.checked_duration_since(at) {
        Some(since) => time.plus(since),
        None => time.minus(at.duration_since(now)),
    }
}

impl Course {
    fn begin() -> Self {
        let (at, time) = (Instant::now(), Timestamp::from_system(SystemTime::now()));
        Self { at, time, ahead: Duration::ZERO }
    }

    /// Returns the time at `at`, given the time of day `date`. `at` is not before the last reading.
    fn read(&mut self, at: Instant, date: Timestamp) -> Timestamp {
        let expected = self.time.plus(at.saturating_duration_since(self.at));
        let behind = expected.since(date.plus(self.ahead));
        if behind > NOISE {
            self.ahead += behind;
            tracing::warn!(
                milliseconds = behind.as_millis() as u64,
                "the machine's clock was set back; ages are counted on as if it had not been"
            );
        }
        (self.at, self.time) = (at, expected.max(date.plus(self.ahead)));
        self.time
    }

    /// Makes the clock show at least `least` from now on.
    fn go_on_from(&mut self, least: Timestamp) {
        let behind = least.since(self.time);
        if behind <= NOISE {
            return;
        }
        self.ahead += behind;
        self.time = self.time.plus(behind);
    }
}

fn up_ms() -> u64 {
    let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    up.tv_sec as u64 * 1000 + up.tv_nsec as u64 / 1_000_000
}

/// Identity of this run of the machine. If the kernel does not report one, each process counts as a
/// run of its own.
static BOOT: LazyLock<u64> = LazyLock::new(|| {
    let id = std::fs::read("/proc/sys/kernel/random/boot_id");
    let id = id.unwrap_or_else(|_| format!("{:?}{}", SystemTime::now(), std::process::id()).into_bytes());
    Key::unkeyed(&id).low().max(1)
});

static COURSE: LazyLock<Mutex<Course>> = LazyLock::new(|| Mutex::new(Course::begin()));
static AHEAD_MS: AtomicU64 = AtomicU64::new(0);

/// Longest time for which a changed clock goes unnoticed.
const REREAD: Duration = Duration::from_secs(1);

/// Largest accepted difference between two clocks read one after the other. The kernel may suspend
/// the thread between the two readings.
const NOISE: Duration = Duration::from_millis(20);

/// Longer than any lifetime.
const VERY_LONG: Duration = Duration::from_secs(1 << 32);

thread_local! {
    static READ: Cell<Option<(Instant, Timestamp)>> = const { Cell::new(None) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_follows_the_monotonic_clock() {
        let now = Instant::now();
        let time = time_at(now);
        let apart = Timestamp::from_system(SystemTime::now()).since(date_at(time));
        assert!(apart < Duration::from_secs(5), "{apart:?} behind the clock");
        let soon = now + Duration::from_millis(900);
        assert!(time_at(soon) == time.plus(Duration::from_millis(900)) || time_at(soon) > time);
        let earlier = time_at(now - Duration::from_secs(3));
        assert!((2900..3100).contains(&time.since(earlier).as_millis()));
    }

    #[test]
    fn clock_ignores_steps_back_and_follows_steps_forward() {
        let seconds = Duration::from_secs;
        let (begin, date) = (Instant::now(), Timestamp::from_seconds(1_700_000_000));
        let mut course = Course { at: begin, time: date, ahead: Duration::ZERO };
        // Each case: instant of the reading, time of day, and time passed by the cache's clock.
        let (year, ten) = (365 * 86_400, 10);
        for (at, shown, passed) in [
            (ten, ten, ten),
            // Set back by a year.
            (2 * ten, 2 * ten - year, 2 * ten),
            (3 * ten, 3 * ten - year, 3 * ten),
            // Set back by another second.
            (4 * ten, 4 * ten - year - 1, 4 * ten),
            // Forward by an hour.
            (5 * ten, 5 * ten - year - 1 + 3600, 5 * ten + 3600),
            // Asleep for a day.
            (6 * ten, 6 * ten - year - 1 + 3600 + 86_400, 6 * ten + 3600 + 86_400),
        ] {
            let now = begin + seconds(at as u64);
            let wall = Timestamp::from_seconds((1_700_000_000 + shown) as u64);
            let time = course.read(now, wall);
            assert_eq!(time.since(date), seconds(passed as u64), "at {at}");
            assert_eq!(time.minus(course.ahead), wall, "at {at}");
        }
    }

    #[test]
    fn another_process_goes_on_where_the_clock_was() {
        let earlier = ClockState { time_ms: 5_000_000, boot: 1, up_ms: 1_000 };
        let least = |boot, up_ms, date| {
            least_after(earlier, ClockState { time_ms: 0, boot, up_ms }, Timestamp::from_millis(date))
                .millis()
        };
        assert_eq!(least(1, 61_000, 0), 5_060_000, "the machine was not started anew: a minute has passed");
        assert_eq!(least(2, 500, 5_000_001), 5_000_000);
        assert!(
            least(2, 500, 4_999_999) > 5_000_000 + 100 * 365 * 86_400_000,
            "nobody knows how long it was"
        );
        assert!(least(1, 999, 4_999_999) > 5_000_000 + 100 * 365 * 86_400_000, "nor here");
        let none = ClockState::default();
        assert_eq!(least_after(none, ClockState { boot: 1, ..none }, Timestamp::from_millis(7)).millis(), 0);
    }
}
