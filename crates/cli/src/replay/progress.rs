//! How far a replay is: a bar with rate and time left, on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The bar.
pub struct Progress(ProgressBar);

impl Progress {
    /// For so many requests. Where stderr is no terminal, nothing is drawn.
    pub fn new(requests: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(requests as u64), ProgressDrawTarget::stderr());
        let shape = "{wide_bar} {human_pos} of {human_len} requests, {per_sec}, {eta} left";
        bar.set_style(ProgressStyle::with_template(shape).unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }

    /// So many requests have begun.
    pub fn at(&self, requests: usize) {
        if requests.is_multiple_of(EVERY) {
            self.0.set_position(requests as u64);
        }
    }

    /// Takes the bar off the screen.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// Drawing more often would be measured too.
const EVERY: usize = 256;
