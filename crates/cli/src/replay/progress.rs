//! Progress of a replay: a bar with rate and time left, on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress bar.
pub struct Progress(ProgressBar);

impl Progress {
    /// Makes a bar for `requests` requests. Draws nothing if stderr is not a terminal.
    pub fn new(requests: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(requests as u64), ProgressDrawTarget::stderr());
        let shape = "{wide_bar} {human_pos} of {human_len} requests, {per_sec}, {eta} left";
        bar.set_style(ProgressStyle::with_template(shape).unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }

    /// Notes that `requests` requests have begun.
    pub fn at(&self, requests: usize) {
        if requests.is_multiple_of(EVERY) {
            self.0.set_position(requests as u64);
        }
    }

    /// Removes the bar from the screen.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// Number of requests between two drawings. More frequent drawing would distort the measurement.
const EVERY: usize = 256;
