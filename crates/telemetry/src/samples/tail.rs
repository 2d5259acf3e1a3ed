//! Tail of the access log for viewers: lines are built only while somebody looks.
//!
//! Each subscription has its conditions, its queue and its share of lines a second. A line beyond
//! these is skipped and counted. Nobody waits for a viewer.

use crate::access_log::LogEntry;
use crate::metrics::RESULTS;
use crate::metrics::result_number;
use parking_lot::Mutex;
use shoal_dashboard::documents::LogLine;
use shoal_dashboard::{LineFilter, shown, shown_bytes};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Subscriptions to the log.
#[derive(Default)]
pub struct LogTail {
    is_watched: AtomicBool,
    subscriptions: Mutex<Vec<Arc<TailSubscription>>>,
}

/// Lines for viewers with equal conditions.
pub struct TailSubscription {
    filter: LineFilter,
    lines_max: usize,
    queue: Mutex<TailQueue>,
}

#[derive(Default)]
struct TailQueue {
    lines: VecDeque<LogLine>,
    /// Lines that may still come this second.
    left: usize,
    skipped: u64,
}

impl LogTail {
    /// Returns `true` while somebody looks.
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.is_watched.load(Relaxed)
    }

    /// Adds a subscription that holds `lines_max` lines. It ends when all its holders but the tail
    /// have dropped it: see [`sweep`](Self::sweep).
    pub fn subscribe(&self, filter: LineFilter, lines_max: usize) -> Arc<TailSubscription> {
        let queue = Mutex::new(TailQueue { left: LINES_A_SECOND, ..TailQueue::default() });
        let subscription = Arc::new(TailSubscription { filter, lines_max, queue });
        let mut subscriptions = self.subscriptions.lock();
        debug_assert!(lines_max > 0, "a subscription holds lines");
        subscriptions.push(Arc::clone(&subscription));
        self.is_watched.store(true, Relaxed);
        subscription
    }

    /// Ends subscriptions that nobody holds, and gives the others their lines for a second.
    pub fn sweep(&self) {
        let mut subscriptions = self.subscriptions.lock();
        subscriptions.retain(|subscription| Arc::strong_count(subscription) > 1);
        subscriptions.iter().for_each(|subscription| subscription.queue.lock().left = LINES_A_SECOND);
        self.is_watched.store(!subscriptions.is_empty(), Relaxed);
    }

    /// Passes a request on to the subscriptions that want it.
    #[cold]
    #[inline(never)]
    pub fn push(&self, entry: &LogEntry<'_>) {
        let result = result_name(entry);
        let mut line = None;
        for subscription in self.subscriptions.lock().iter() {
            if subscription.filter.wants(entry.url, entry.status, result, entry.site) {
                subscription.add(|| line.get_or_insert_with(|| line_of(entry, result)).clone());
            }
        }
    }
}

impl TailSubscription {
    /// Takes the lines, and the number of lines skipped since the last call.
    pub fn take(&self) -> (Vec<LogLine>, u64) {
        let mut queue = self.queue.lock();
        (queue.lines.drain(..).collect(), std::mem::take(&mut queue.skipped))
    }

    /// Returns the lines that `filter` wants, and keeps all.
    pub fn lines(&self, filter: &LineFilter) -> Vec<LogLine> {
        let queue = self.queue.lock();
        queue.lines.iter().filter(|line| filter.wants_line(line)).cloned().collect()
    }

    fn add(&self, make: impl FnOnce() -> LogLine) {
        let mut queue = self.queue.lock();
        if queue.left == 0 {
            queue.skipped += 1;
            return;
        }
        queue.left -= 1;
        if queue.lines.len() >= self.lines_max {
            queue.lines.pop_front();
        }
        queue.lines.push_back(make());
        debug_assert!(queue.lines.len() <= self.lines_max);
    }
}

impl fmt::Debug for LogTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogTail").field("is_watched", &self.is_watched).finish_non_exhaustive()
    }
}

fn result_name(entry: &LogEntry<'_>) -> &'static str {
    let (label, _) = RESULTS[result_number(entry.outcome)];
    label.trim_start_matches("result=").trim_matches('"')
}

fn line_of(entry: &LogEntry<'_>, result: &str) -> LogLine {
    LogLine {
        unix_ms: entry.time.millis(),
        client: entry.client.map(|client| client.ip().to_string()).unwrap_or_default(),
        method: shown(entry.method),
        url: shown_bytes(entry.url),
        status: entry.status,
        bytes: entry.body_bytes,
        result: result.to_owned(),
        reason: shown(reason(entry.cache_status)),
        duration_us: entry.duration_us,
        site: shown(entry.site),
    }
}

/// Returns the reason in a Cache-Status value of this node: `detail`, else `fwd`, else nothing. The
/// node writes the value itself, without quotes in these two.
fn reason(cache_status: &[u8]) -> &str {
    let Ok(text) = std::str::from_utf8(cache_status) else { return "" };
    let parameter = |name: &str| {
        let rest =
            text.split(';').find_map(|part| part.trim_start().strip_prefix(name)?.strip_prefix('='))?;
        Some(rest.trim_matches('"'))
    };
    parameter("detail").or_else(|| parameter("fwd")).unwrap_or("")
}

/// Lines of one subscription in a second.
const LINES_A_SECOND: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::CacheResult;

    fn entry(url: &[u8]) -> LogEntry<'_> {
        LogEntry {
            client: Some(([192, 0, 2, 7], 40_000).into()),
            method: "GET",
            url,
            status: 200,
            outcome: CacheResult::Miss,
            cache_status: b"shoal; fwd=uri-miss; detail=no-store",
            site: "a.test/",
            ..LogEntry::default()
        }
    }

    #[test]
    fn lines_go_to_viewers_that_want_them() {
        let tail = LogTail::default();
        assert!(!tail.is_watched());
        let all = tail.subscribe(LineFilter::default(), 200);
        let some = tail.subscribe(LineFilter { url: "/x".into(), ..LineFilter::default() }, 200);
        assert!(tail.is_watched());
        tail.push(&entry(b"http://a.test/y\x1b"));
        tail.push(&entry(b"http://a.test/x"));
        let (lines, skipped) = all.take();
        assert_eq!((lines.len(), skipped, lines[0].url.as_str()), (2, 0, "http://a.test/y\\u{1B}"));
        assert_eq!((lines[0].reason.as_str(), lines[0].result.as_str()), ("no-store", "miss"));
        assert_eq!(some.take().0, lines[1..]);
        drop((all, some));
        tail.sweep();
        assert!(!tail.is_watched());
    }

    #[test]
    fn lines_a_second_and_lines_held_are_bounded() {
        let tail = LogTail::default();
        let viewer = tail.subscribe(LineFilter::default(), 70);
        (0..60).for_each(|_| tail.push(&entry(b"/")));
        assert_eq!(viewer.lines(&LineFilter::default()).len(), LINES_A_SECOND);
        tail.sweep();
        (0..60).for_each(|_| tail.push(&entry(b"/")));
        let (lines, skipped) = viewer.take();
        assert_eq!((lines.len(), skipped), (70, 20));
    }

    #[test]
    fn reasons_are_found_in_cache_status() {
        for (value, expected) in [
            ("shoal; hit; ttl=5", ""),
            ("shoal; fwd=stale; fwd-status=200", "stale"),
            ("a; detail=x", "x"),
            ("shoal;fwd=uri-miss;detail=no-store", "no-store"),
            ("shoal;hit;detail=coded-br;ttl=5", "coded-br"),
            ("", ""),
        ] {
            assert_eq!(reason(value.as_bytes()), expected);
        }
    }
}
