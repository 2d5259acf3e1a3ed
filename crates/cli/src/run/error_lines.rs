//! Lines of the error log, written by a thread of their own: no reader of the log can block the
//! threads that log.
//!
//! A paused terminal, or a pipe with a reader that hangs, blocks its writer without limit. Lines
//! therefore go into a bounded queue, which one thread writes. While the writing thread keeps up,
//! the logging thread waits until the line is out. The line is then written before its
//! consequences, even before a crash. If a write takes longer than [`PATIENCE`], no thread waits
//! until the writing thread has caught up. Lines that do not fit then, or cannot be written, are
//! dropped and counted. The log reports their number as soon as it can.

use parking_lot::{Condvar, Mutex};
use shoal_telemetry::access_log::escape_invisible;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Input end of the queue of lines.
#[derive(Clone)]
pub struct ErrorLines(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<LineState>,
    /// Signals that a line has arrived.
    come: Condvar,
    /// Signals that lines are written or lost.
    gone: Condvar,
}

#[derive(Default)]
struct LineState {
    pending: Vec<u8>,
    /// Lines put into the queue since the start. `done` counts those written or lost.
    put: u64,
    done: u64,
    /// The writing thread is late, so that no thread waits for it.
    is_stuck: bool,
    /// Lost lines not yet counted. `untold` counts those not yet reported in the log.
    uncounted: u64,
    untold: u64,
}

impl ErrorLines {
    /// Starts the thread that writes to `out` until the process ends.
    ///
    /// # Errors
    /// Fails when the thread cannot be started.
    pub fn start(mut out: impl Write + Send + 'static) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let taken = Arc::clone(&queue);
        std::thread::Builder::new().name("error-log".into()).spawn(move || {
            let mut batch = Vec::new();
            loop {
                let last = taken.take(&mut batch);
                let written = out.write_all(&batch).and_then(|()| out.flush());
                let lost = taken.written(last, written.is_ok());
                if lost > 0 {
                    tracing::warn!(
                        lines = lost,
                        "the error log took nothing for a while; lines of it are lost"
                    );
                }
            }
        })?;
        Ok(Self(queue))
    }

    /// Returns the number of lines lost since the last call.
    pub fn lost(&self) -> u64 {
        std::mem::take(&mut self.0.state.lock().uncounted)
    }

    /// Waits until all lines are out, for at most `patience`.
    pub fn flush(&self, patience: Duration) {
        let mut state = self.0.state.lock();
        let (all, until) = (state.put, Instant::now() + patience);
        while state.done < all && !self.0.gone.wait_until(&mut state, until).timed_out() {}
    }
}

/// Takes one line with each write, as the error log writes them.
impl Write for ErrorLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match line.iter().any(|byte| *byte >= 0x7f) {
            false => self.0.put(line),
            // The line may contain text of clients and origins.
            true => {
                let mut shown = line.to_vec();
                escape_invisible(&mut shown, 0);
                self.0.put(&shown);
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Queue {
    fn put(&self, line: &[u8]) {
        let mut state = self.state.lock();
        if state.pending.len() + line.len() > PENDING_MAX {
            state.lose(1);
            return;
        }
        state.pending.extend_from_slice(line);
        state.put += 1;
        let (this, until) = (state.put, Instant::now() + PATIENCE);
        self.come.notify_one();
        while state.done < this && !state.is_stuck {
            state.is_stuck = self.gone.wait_until(&mut state, until).timed_out() && state.done < this;
        }
    }

    /// Waits for lines and takes all of them. Returns the number of the last line.
    fn take(&self, batch: &mut Vec<u8>) -> u64 {
        batch.clear();
        let mut state = self.state.lock();
        while state.pending.is_empty() {
            self.come.wait(&mut state);
        }
        std::mem::swap(&mut state.pending, batch);
        state.put
    }

    /// Marks the lines up to `last` as written, or as lost. Returns the number of lines to report
    /// as lost.
    fn written(&self, last: u64, is_out: bool) -> u64 {
        let mut state = self.state.lock();
        if !is_out {
            let lost = last - state.done;
            state.lose(lost);
        }
        state.done = last;
        let lost = if is_out { std::mem::take(&mut state.untold) } else { 0 };
        // The report comes from the writing thread itself, which must not wait for itself.
        state.is_stuck = lost > 0 || (state.is_stuck && !state.pending.is_empty());
        self.gone.notify_all();
        lost
    }
}

impl LineState {
    fn lose(&mut self, lines: u64) {
        self.uncounted += lines;
        self.untold += lines;
    }
}

/// Longest time that a logging thread waits for its line to be out.
const PATIENCE: Duration = Duration::from_millis(20);

/// Largest number of bytes that wait to be written. Lines beyond the limit are dropped.
const PENDING_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeReader, Read};

    fn line(lines: &ErrorLines, text: &str) -> Duration {
        let began = Instant::now();
        lines.clone().write_all(text.as_bytes()).expect("never fails");
        began.elapsed()
    }

    /// Returns the pipe's text up to and including `text`.
    fn until(reader: &mut PipeReader, text: &str) -> String {
        let (mut all, mut part) = (String::new(), [0; 4096]);
        while !all.contains(text) {
            let read = reader.read(&mut part).expect("readable");
            assert!(read > 0, "ended without {text}");
            all.push_str(std::str::from_utf8(&part[..read]).expect("ASCII"));
        }
        all
    }

    #[test]
    fn a_line_is_out_when_it_has_been_logged() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let lines = ErrorLines::start(writer).expect("a thread");
        for text in ["one\n", "two\n"] {
            line(&lines, text);
            lines.flush(Duration::from_secs(10));
            let mut read = [0; 4];
            reader.read_exact(&mut read).expect("there");
            assert_eq!(std::str::from_utf8(&read), Ok(text));
        }
        assert_eq!(lines.lost(), 0);
    }

    #[test]
    fn invisible_characters_are_escaped() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let lines = ErrorLines::start(writer).expect("a thread");
        line(&lines, "a\u{202e}b\u{9b}c\n");
        assert_eq!(until(&mut reader, "\n"), "a\\u202Eb\\u009Bc\n");
    }

    #[test]
    fn stopped_reader_costs_one_wait_then_lines() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let lines = ErrorLines::start(writer).expect("a thread");
        let text = format!("{}\n", "x".repeat(1023));
        let waits: Duration = (0..2000).map(|_| line(&lines, &text)).sum();
        assert!(waits < Duration::from_secs(5), "{waits:?}");
        let began = Instant::now();
        lines.flush(Duration::from_millis(50));
        assert!(began.elapsed() < Duration::from_secs(5), "nor is it waited for in the end");
        // Room for 1024 lines: in the pipe, in the writing thread's hands, and in the queue.
        let lost = lines.lost();
        assert!((1..2000 - 1024).contains(&lost), "{lost} lost");
        assert_eq!(lines.lost(), 0, "counted once");
        let all = 1024 * (2000 - lost as usize);
        let mut read = vec![0; all];
        reader.read_exact(&mut read).expect("all that was taken");
        lines.flush(Duration::from_secs(10));
        line(&lines, "at last\n");
        assert!(until(&mut reader, "at last\n").ends_with("at last\n"));
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let lines = ErrorLines::start(writer).expect("a thread");
        (0..3).for_each(|_| {
            line(&lines, "nobody reads this\n");
        });
        lines.flush(Duration::from_secs(10));
        assert_eq!(lines.lost(), 3);
    }
}
