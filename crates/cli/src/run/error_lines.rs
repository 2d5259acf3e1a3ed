//! Lines of the error log on their way out, by a thread of their own: no reader of the log can hold
//! up who logs.
//!
//! A terminal that is paused, or a pipe whose reader hangs, keeps a writer waiting for as long as
//! it likes. So lines go into a bounded queue, which one thread writes. While it keeps up, who logs
//! waits until the line is out: it stands there before what comes of it, a crash too. When it takes
//! longer than [`PATIENCE`], nobody waits until it has caught up. What does not fit then, or cannot
//! be written, is dropped and counted, and the log says so as soon as it can.

use parking_lot::{Condvar, Mutex};
use shoal_proxy::access_log::escape_invisible;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where lines are put in.
#[derive(Clone)]
pub struct ErrorLines(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// A line has come.
    come: Condvar,
    /// Lines are out.
    gone: Condvar,
}

#[derive(Default)]
struct State {
    pending: Vec<u8>,
    /// Lines that were put in since the start, and those of them that are written or lost.
    put: u64,
    done: u64,
    /// The thread is so late that nobody waits for it.
    is_stuck: bool,
    /// Lines that were lost, and have not been counted; and not been told of in the log.
    uncounted: u64,
    untold: u64,
}

impl ErrorLines {
    /// Starts the thread that writes to `out`, for as long as the process lives.
    ///
    /// # Errors
    /// When it cannot be started.
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

    /// How many lines were lost since this was asked last.
    pub fn lost(&self) -> u64 {
        std::mem::take(&mut self.0.state.lock().uncounted)
    }

    /// Waits until all is out, though not for long.
    pub fn flush(&self, patience: Duration) {
        let mut state = self.0.state.lock();
        let (all, until) = (state.put, Instant::now() + patience);
        while state.done < all && !self.0.gone.wait_until(&mut state, until).timed_out() {}
    }
}

/// Takes a line with each write, as the error log makes them.
impl Write for ErrorLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match line.iter().any(|byte| *byte >= 0x7f) {
            false => self.0.put(line),
            // What clients and origins said may stand in it.
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

    /// Waits for lines and takes all there are. Gives the number of the last.
    fn take(&self, batch: &mut Vec<u8>) -> u64 {
        batch.clear();
        let mut state = self.state.lock();
        while state.pending.is_empty() {
            self.come.wait(&mut state);
        }
        std::mem::swap(&mut state.pending, batch);
        state.put
    }

    /// The lines up to this one are written, or cannot be. Gives how many were lost, when that can
    /// be told.
    fn written(&self, last: u64, is_out: bool) -> u64 {
        let mut state = self.state.lock();
        if !is_out {
            let lost = last - state.done;
            state.lose(lost);
        }
        state.done = last;
        let lost = if is_out { std::mem::take(&mut state.untold) } else { 0 };
        // who tells of them is the thread itself, which must not wait for itself
        state.is_stuck = lost > 0 || (state.is_stuck && !state.pending.is_empty());
        self.gone.notify_all();
        lost
    }
}

impl State {
    fn lose(&mut self, lines: u64) {
        self.uncounted += lines;
        self.untold += lines;
    }
}

/// How long who logs waits for a line to be out.
const PATIENCE: Duration = Duration::from_millis(20);

/// Bytes that may wait to be written; what comes beyond is dropped.
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

    /// What the pipe gives until this is in it.
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
    fn a_line_shows_what_would_not_be_seen() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let lines = ErrorLines::start(writer).expect("a thread");
        line(&lines, "a\u{202e}b\u{9b}c\n");
        assert_eq!(until(&mut reader, "\n"), "a\\u202Eb\\u009Bc\n");
    }

    #[test]
    fn a_reader_that_has_stopped_costs_one_wait_and_then_lines() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let lines = ErrorLines::start(writer).expect("a thread");
        let text = format!("{}\n", "x".repeat(1023));
        let waits: Duration = (0..2000).map(|_| line(&lines, &text)).sum();
        assert!(waits < Duration::from_secs(5), "{waits:?}");
        let began = Instant::now();
        lines.flush(Duration::from_millis(50));
        assert!(began.elapsed() < Duration::from_secs(5), "nor is it waited for in the end");
        // what the pipe took, what the thread had in its hands, and what waits
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
