//! Lines on their way to the writer thread: a buffer that threads append to and the writer takes whole.
//!
//! Waking a thread costs more than formatting a line, so the writer is woken by the first line only and then lets
//! lines gather for a moment; a log without requests wakes nobody.

use parking_lot::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// The buffer between the threads that serve and the one that writes.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    pending: Vec<u8>,
    lines: u64,
    reopen: bool,
    closed: bool,
}

/// What the writer has to do next.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    /// Whole lines; perhaps none.
    pub bytes: Vec<u8>,
    /// How many.
    pub lines: u64,
    /// Open the file again afterwards.
    pub reopen: bool,
    /// This is the last batch.
    pub last: bool,
}

impl Queue {
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a line; false when too much is pending, or after [`Queue::close`].
    pub fn push(&self, line: &[u8]) -> bool {
        let mut state = self.state.lock();
        if state.closed || state.pending.len() + line.len() > PENDING_MAX {
            return false;
        }
        let first = state.pending.is_empty();
        let before = state.pending.len();
        state.pending.extend_from_slice(line);
        state.lines += 1;
        let urgent = before < URGENT && state.pending.len() >= URGENT;
        drop(state);
        if first || urgent {
            self.wake.notify_one();
        }
        true
    }

    /// Asks for the file to be opened again.
    pub fn reopen(&self) {
        self.state.lock().reopen = true;
        self.wake.notify_one();
    }

    /// Lets the writer finish.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.wake.notify_one();
    }

    /// Waits for something to do, and a moment longer for more of it. `spare` becomes the next buffer.
    pub fn take(&self, mut spare: Vec<u8>) -> Batch {
        let mut state = self.state.lock();
        while state.pending.is_empty() && !state.reopen && !state.closed {
            self.wake.wait(&mut state);
        }
        let until = Instant::now() + GATHER;
        while state.pending.len() < URGENT && !state.reopen && !state.closed {
            if self.wake.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        spare.clear();
        Batch {
            bytes: std::mem::replace(&mut state.pending, spare),
            lines: std::mem::take(&mut state.lines),
            reopen: std::mem::take(&mut state.reopen),
            last: state.closed,
        }
    }
}

/// Bytes that may be pending; more are dropped.
const PENDING_MAX: usize = 4 << 20;

/// Bytes that are written at once, without waiting for more.
const URGENT: usize = 256 << 10;

/// How long lines gather: the delay that `tail -f` sees.
const GATHER: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pending_is_bounded() {
        let queue = Queue::new();
        let line = vec![b'x'; 1 << 20];
        assert_eq!(
            (0..6).map(|_| queue.push(&line)).collect::<Vec<_>>(),
            [true, true, true, true, false, false]
        );
        let batch = queue.take(Vec::new());
        assert_eq!((batch.bytes.len(), batch.lines), (4 << 20, 4));
        assert!(queue.push(&line));
    }

    #[test]
    fn close_and_reopen_come_with_what_is_pending() {
        let queue = Queue::new();
        queue.push(b"a\n");
        queue.reopen();
        queue.close();
        let expected = Batch { bytes: b"a\n".to_vec(), lines: 1, reopen: true, last: true };
        assert_eq!(queue.take(Vec::new()), expected);
        assert!(!queue.push(b"late\n"), "nobody would write it");
    }
}
