//! The cache's clock, by which ages are counted, out of the monotonic clock and the time of day.
//!
//! The cache's clock never goes back, and never goes slower than the monotonic one: when the time
//! of day is set back it goes on from where it was, ahead of it by as much. Else what is stored
//! would stay fresh for longer, by the time that the clock was set back. When the time of day is
//! set forward, or the machine has slept, it follows: then what is stored may be older than was
//! counted. Where it was is kept over restarts: see [`reading`] and [`go_on_from`]. Dates on the
//! wire are compared with the time of day, [`date_at`].
//!
//! A request needs both clocks: the monotonic one for deadlines and durations, the cache's for
//! ages. Each thread reads the latter once a second and counts on from there, so that a hit reads
//! one clock once.

use parking_lot::Mutex;
use shoal_core::{Key, Timestamp};
use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

/// How the clock goes.
#[derive(Clone, Copy, Debug)]
struct Course {
    /// When it was read last...
    at: Instant,
    /// ...and what it showed.
    time: Timestamp,
    /// How far it is ahead of the time of day.
    ahead: Duration,
}

/// What the clock showed at some moment, for who goes on from there in another process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// What it showed, in milliseconds; 0 when that is not known.
    pub time_ms: u64,
    /// Which run of the machine that was.
    pub boot: u64,
    /// How long the machine had been up, in milliseconds, sleep included.
    pub up_ms: u64,
}

/// The time now by the cache's clock, by which ages are counted. Dates are compared with the time
/// of day ([`date_at`]).
pub fn now() -> Timestamp {
    time_at(Instant::now())
}

/// The cache's time at `now`, an instant that was read a moment ago.
pub fn time_at(now: Instant) -> Timestamp {
    // Later than the last reading, but not by more than what a clock that was set meanwhile may be
    // wrong for.
    if let Some((at, time)) = READ.get()
        && let Some(since) = now.checked_duration_since(at)
        && since < REREAD
    {
        return time.plus(since);
    }
    reread(now)
}

/// The time of day when the cache's clock shows `time`.
pub fn date_at(time: Timestamp) -> Timestamp {
    time.minus(Duration::from_millis(AHEAD_MS.load(Relaxed)))
}

/// What the clock shows now.
pub fn reading() -> Reading {
    Reading { time_ms: time_at(Instant::now()).millis(), boot: *BOOT, up_ms: up_ms() }
}

/// Goes on from an earlier process's reading, if the clock would show less. In another run of the
/// machine nobody knows how long that was ago: if the time of day is before the reading, everything
/// stored counts as very old.
pub fn go_on_from(earlier: Reading) {
    let least = least_after(earlier, reading(), Timestamp::from_system(SystemTime::now()));
    let mut course = COURSE.lock();
    course.read(Instant::now(), Timestamp::from_system(SystemTime::now()));
    course.go_on_from(least);
    AHEAD_MS.store(course.ahead.as_millis() as u64, Relaxed);
    drop(course);
    READ.set(None);
}

fn least_after(earlier: Reading, now: Reading, date: Timestamp) -> Timestamp {
    let then = Timestamp::from_millis(earlier.time_ms);
    match now.up_ms.checked_sub(earlier.up_ms) {
        _ if earlier == Reading::default() => Timestamp::from_millis(0),
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

    /// What it shows at `at`, which is not before the last reading, when the time of day is `date`.
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

    /// Shows so much at least from now on.
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

/// Which run of the machine this is. Where the kernel does not say, every process is in another
/// one.
static BOOT: LazyLock<u64> = LazyLock::new(|| {
    let id = std::fs::read("/proc/sys/kernel/random/boot_id");
    let id = id.unwrap_or_else(|_| format!("{:?}{}", SystemTime::now(), std::process::id()).into_bytes());
    Key::unkeyed(&id).low().max(1)
});

static COURSE: LazyLock<Mutex<Course>> = LazyLock::new(|| Mutex::new(Course::begin()));
static AHEAD_MS: AtomicU64 = AtomicU64::new(0);

/// How long a clock that was set may go unnoticed.
const REREAD: Duration = Duration::from_secs(1);

/// By so much two clocks may differ that are read one after the other, by a thread that was not let
/// run in between.
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
    fn a_step_back_stops_nothing_and_a_step_forward_is_followed() {
        let seconds = Duration::from_secs;
        let (begin, date) = (Instant::now(), Timestamp::from_seconds(1_700_000_000));
        let mut course = Course { at: begin, time: date, ahead: Duration::ZERO };
        // When it is read, what the time of day is by then, and what passed by the cache's clock.
        let (year, ten) = (365 * 86_400, 10);
        for (at, shown, passed) in [
            (ten, ten, ten),
            // Set back by a year, and on.
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
        let earlier = Reading { time_ms: 5_000_000, boot: 1, up_ms: 1_000 };
        let least = |boot, up_ms, date| {
            least_after(earlier, Reading { time_ms: 0, boot, up_ms }, Timestamp::from_millis(date)).millis()
        };
        assert_eq!(least(1, 61_000, 0), 5_060_000, "the machine was not started anew: a minute has passed");
        assert_eq!(least(2, 500, 5_000_001), 5_000_000);
        assert!(
            least(2, 500, 4_999_999) > 5_000_000 + 100 * 365 * 86_400_000,
            "nobody knows how long it was"
        );
        assert!(least(1, 999, 4_999_999) > 5_000_000 + 100 * 365 * 86_400_000, "nor here");
        let none = Reading::default();
        assert_eq!(least_after(none, Reading { boot: 1, ..none }, Timestamp::from_millis(7)).millis(), 0);
    }
}
