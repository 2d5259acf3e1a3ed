//! Error log of requests that access rules refuse: one line per setting and interval.
//!
//! The log names the setting, which an operator may have forgotten. A client that is refused often
//! cannot fill the log: omitted lines are counted in the next line.

use crate::access::AccessRefusal;
use std::fmt::Display;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Logs a refused request, unless its setting was logged within the last interval.
pub(super) fn tell(refusal: &AccessRefusal, what: &dyn Display) {
    let Some(setting) = refusal.setting() else { return };
    let Some(line) = LINES.iter().find(|line| line.setting == setting) else { return };
    if let Some(left_out) = line.due(STARTED.elapsed()) {
        tracing::info!(%refusal, %what, setting, left_out, "a request was refused by a setting");
    }
}

/// The log line of one setting.
struct DenialLine {
    setting: &'static str,
    /// Earliest time of the next line, in milliseconds since the start.
    next_ms: AtomicU64,
    left_out: AtomicU64,
}

impl DenialLine {
    const fn of(setting: &'static str) -> Self {
        Self { setting, next_ms: AtomicU64::new(0), left_out: AtomicU64::new(0) }
    }

    /// Returns the number of omitted lines if a line is due.
    fn due(&self, now: Duration) -> Option<u64> {
        let (now_ms, next_ms) = (now.as_millis() as u64, self.next_ms.load(Relaxed));
        let then_ms = now_ms + PAUSE.as_millis() as u64;
        let is_due =
            now_ms >= next_ms && self.next_ms.compare_exchange(next_ms, then_ms, Relaxed, Relaxed).is_ok();
        if !is_due {
            self.left_out.fetch_add(1, Relaxed);
        }
        is_due.then(|| self.left_out.swap(0, Relaxed))
    }
}

/// Interval between lines of one setting.
const PAUSE: Duration = Duration::from_secs(10);

static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

static LINES: [DenialLine; 9] = [
    DenialLine::of("allow_clients"),
    DenialLine::of("forward.connect_ports"),
    DenialLine::of("forward.request_ports"),
    DenialLine::of("forward.deny_destinations"),
    DenialLine::of("forward.allow_private_destinations"),
    DenialLine::of("admin.purge_from"),
    DenialLine::of("users_file"),
    DenialLine::of("allow_certificates"),
    DenialLine::of("client_rate"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_left_out_are_counted() {
        let line = DenialLine::of("x");
        let due = |seconds| line.due(Duration::from_secs(seconds));
        assert_eq!(
            [due(0), due(1), due(9), due(10), due(11), due(30)],
            [Some(0), None, None, Some(2), None, Some(1)]
        );
    }

    #[test]
    fn each_setting_that_refuses_has_a_line() {
        let address = std::net::Ipv4Addr::LOCALHOST.into();
        for refusal in [
            AccessRefusal::Client(address),
            AccessRefusal::Port(1),
            AccessRefusal::RequestPort(1),
            AccessRefusal::Denied(String::new()),
            AccessRefusal::Private(address, "loopback"),
            AccessRefusal::Purge(address),
            AccessRefusal::Unauthorized,
            AccessRefusal::Certificate,
            AccessRefusal::Rate(1),
            AccessRefusal::Guessing(1),
        ] {
            assert!(LINES.iter().any(|line| Some(line.setting) == refusal.setting()), "{refusal:?}");
        }
    }
}
