//! Progress of an experiment: a bar on a terminal, else one line a part on stderr.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shoal_lab::progress::{Progress, Silent};
use std::io::IsTerminal;

/// Progress that can be removed from the screen.
pub trait ClearableProgress: Progress {
    /// Removes the progress from the screen at the end.
    fn finish(&self);
}

/// Returns a bar if stderr is a terminal, else a progress that prints nothing.
pub fn on_terminal() -> Box<dyn ClearableProgress> {
    if std::io::stderr().is_terminal() { Box::new(ProgressLine::new()) } else { Box::new(Silent) }
}

impl ClearableProgress for ProgressLine {
    fn finish(&self) {
        ProgressLine::finish(self);
    }
}

impl ClearableProgress for Silent {
    fn finish(&self) {}
}

/// Progress on stderr.
pub struct ProgressLine {
    bar: ProgressBar,
    on_terminal: bool,
    /// Steps done but not yet drawn.
    held_back: u64,
}

impl ProgressLine {
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let shape = "{msg:>24} {wide_bar} {percent:>3}% {elapsed}";
        bar.set_style(ProgressStyle::with_template(shape).unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, on_terminal: std::io::stderr().is_terminal(), held_back: 0 }
    }

    /// Removes the bar from the screen.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for ProgressLine {
    fn begin(&mut self, part: &str, steps: u64) {
        self.held_back = 0;
        if self.on_terminal {
            self.bar.reset();
            self.bar.set_length(steps);
            self.bar.set_message(part.to_owned());
        } else {
            eprintln!("{part}");
        }
    }

    fn done(&mut self, steps: u64) {
        self.held_back += steps;
        if self.held_back >= EVERY {
            self.bar.inc(std::mem::take(&mut self.held_back));
        }
    }
}

/// Steps between two drawings. Drawing more often would cost more than the steps.
const EVERY: u64 = 256;
