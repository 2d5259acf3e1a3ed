//! Lines on their way to the writer thread: one buffer per core, which the writer takes whole.
//!
//! ```text
//!   worker 0 ──► place 0 ─┐
//!   worker 1 ──► place 1 ─┼─► writer ──► file
//!   …                     │     ▲
//!   worker n ──► place n ─┘     └─ woken by the first line, then waits a moment for more
//! ```
//!
//! Only the core and, a few times a second, the writer take a place's lock. The lock is nearly
//! always free, and no core waits for another. Waking a thread costs more than formatting a line.
//! Only the first line therefore wakes the writer, which then lets lines gather. A log without
//! requests wakes no thread. Lines of one core keep the order in which their requests ended. Lines
//! of several cores may be mixed within [`GATHER`].

use crate::per_core::{CacheLine, PLACES, place};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Buffers between the serving threads and the writer thread.
#[derive(Default)]
pub(super) struct Queue {
    places: [CacheLine<Mutex<CoreLines>>; PLACES],
    /// `true` while the writer waits for a first line.
    asleep: AtomicBool,
    /// `true` if a place has enough bytes to be written now.
    urgent: AtomicBool,
    orders: Mutex<WriterCommands>,
    wake: Condvar,
}

/// Lines of one core since the writer's last visit.
#[derive(Default)]
struct CoreLines {
    bytes: Vec<u8>,
    closed: bool,
}

/// An unfinished line. A panic in the formatter removes the line.
struct LineGuard<'q> {
    bytes: &'q mut Vec<u8>,
    start: usize,
    is_whole: bool,
}

impl Drop for LineGuard<'_> {
    fn drop(&mut self) {
        debug_assert!(self.start <= self.bytes.len());
        if !self.is_whole {
            self.bytes.truncate(self.start);
        }
    }
}

/// Commands to the writer.
#[derive(Clone, Copy, Default)]
struct WriterCommands {
    reopen: bool,
    closed: bool,
}

/// The writer's next piece of work.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Whole lines of each place; may be empty.
    pub parts: [Vec<u8>; PLACES],
    /// The writer opens the file again afterwards.
    pub reopen: bool,
    /// This is the last batch.
    pub last: bool,
}

impl Queue {
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a line to the core's buffer by `append`. Returns `false` if too many bytes are
    /// pending, or after [`Queue::close`]. No lock is held while the writer is woken.
    #[inline]
    pub fn push(&self, append: impl FnOnce(&mut Vec<u8>)) -> bool {
        let (first, urgent) = {
            let mut pending = self.places[place()].0.lock();
            let before = pending.bytes.len();
            if pending.closed || before >= PENDING_MAX {
                return false;
            }
            if pending.bytes.capacity() < CAPACITY {
                // Reserves the maximum once. Memory that is never written to is never allocated.
                pending.bytes.reserve_exact(CAPACITY - before);
            }
            let mut line = LineGuard { start: before, bytes: &mut pending.bytes, is_whole: false };
            append(line.bytes);
            debug_assert!(line.bytes.len() >= line.start, "a line that cut another");
            line.is_whole = true;
            drop(line);
            (before == 0, before < URGENT && pending.bytes.len() >= URGENT)
        };
        if urgent {
            self.urgent.store(true, Ordering::Release);
        }
        if urgent || (first && self.asleep.load(Ordering::Acquire)) {
            // Taking the lock ensures that a writer between its check of the places and its wait
            // gets the wake-up.
            drop(self.orders.lock());
            self.wake.notify_one();
        }
        true
    }

    /// Makes the writer open the file again.
    pub fn reopen(&self) {
        self.orders.lock().reopen = true;
        self.wake.notify_one();
    }

    /// Ends the writer after the pending lines.
    pub fn close(&self) {
        self.places.iter().for_each(|place| place.0.lock().closed = true);
        self.orders.lock().closed = true;
        self.wake.notify_one();
    }

    /// Waits for work, then gathers more for a moment. Reuses the buffers in `batch`.
    pub fn take(&self, batch: &mut Batch) {
        let orders = self.wait();
        self.urgent.store(false, Ordering::Release);
        for (place, bytes) in self.places.iter().zip(&mut batch.parts) {
            bytes.clear();
            let mut pending = place.0.lock();
            if pending.bytes.capacity() > bytes.capacity() {
                // The writer reserves the buffer, so that a serving thread allocates only the first
                // time.
                let room = pending.bytes.capacity();
                MutexGuard::unlocked(&mut pending, || bytes.reserve_exact(room));
            }
            std::mem::swap(&mut pending.bytes, bytes);
        }
        (batch.reopen, batch.last) = (orders.reopen, orders.closed);
    }

    fn wait(&self) -> WriterCommands {
        let mut orders = self.orders.lock();
        // Set before the places are checked. A line that is pushed later sees the flag, through the
        // lock of its place.
        self.asleep.store(true, Ordering::Release);
        while !orders.reopen && !orders.closed && self.is_empty() {
            self.wake.wait(&mut orders);
        }
        self.asleep.store(false, Ordering::Release);
        let until = Instant::now() + GATHER;
        while !orders.reopen && !orders.closed && !self.urgent.load(Ordering::Acquire) {
            if self.wake.wait_until(&mut orders, until).timed_out() {
                break;
            }
        }
        let taken = *orders;
        orders.reopen = false;
        taken
    }

    fn is_empty(&self) -> bool {
        self.places.iter().all(|place| place.0.lock().bytes.is_empty())
    }
}

/// Limit of pending bytes in one place; further lines are dropped.
const PENDING_MAX: usize = 1 << 20;

/// `PENDING_MAX` and one more line. A line has at most eight fields, clipped to 8 KiB, and a byte
/// may expand to six.
const CAPACITY: usize = PENDING_MAX + (512 << 10);

/// Bytes in one place that are written at once, without waiting for more.
const URGENT: usize = 256 << 10;

/// Gathering time of lines: the delay that `tail -f` sees.
const GATHER: Duration = Duration::from_millis(50);

const _: () = assert!(PENDING_MAX < CAPACITY);

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a batch. Returns its bytes and the two commands.
    fn taken(queue: &Queue) -> (usize, bool, bool) {
        let mut batch = Batch::default();
        queue.take(&mut batch);
        (batch.parts.iter().map(Vec::len).sum(), batch.reopen, batch.last)
    }

    #[test]
    fn pending_bytes_are_bounded() {
        let queue = Queue::new();
        let line = vec![b'x'; 256 << 10];
        assert_eq!(
            (0..6).map(|_| queue.push(|lines| lines.extend_from_slice(&line))).collect::<Vec<_>>(),
            [true, true, true, true, false, false]
        );
        assert_eq!(taken(&queue), (1 << 20, false, false));
        assert!(queue.push(|lines| lines.extend_from_slice(&line)));
    }

    #[test]
    fn nothing_is_left_of_a_line_that_cannot_be_made() {
        let queue = Queue::new();
        queue.push(|lines| lines.extend_from_slice(b"a\n"));
        let fails = || {
            queue.push(|lines| {
                lines.extend_from_slice(b"half");
                panic!("as asked");
            })
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(fails)).is_err());
        assert!(queue.push(|lines| lines.extend_from_slice(b"b\n")));
        assert_eq!(taken(&queue), (4, false, false));
    }

    #[test]
    fn the_last_line_may_be_a_long_one() {
        let queue = Queue::new();
        assert!(queue.push(|lines| lines.resize(PENDING_MAX - 1, b'x')));
        assert!(queue.push(|lines| lines.resize(CAPACITY, b'x')));
        assert!(!queue.push(|lines| lines.push(b'x')));
        assert_eq!(taken(&queue), (CAPACITY, false, false));
    }

    #[test]
    fn close_and_reopen_come_with_pending_lines() {
        let queue = Queue::new();
        queue.push(|lines| lines.extend_from_slice(b"a\n"));
        queue.reopen();
        queue.close();
        assert_eq!(taken(&queue), (2, true, true));
        assert!(!queue.push(|lines| lines.extend_from_slice(b"late\n")), "nobody would write it");
    }

    #[test]
    fn concurrent_pushes_lose_no_line() {
        let queue = Queue::new();
        let (pushed, taken) = std::thread::scope(|scope| {
            let pushers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        (0..20_000).filter(|_| queue.push(|lines| lines.extend_from_slice(b"line\n"))).count()
                    })
                })
                .collect();
            let writer = scope.spawn(|| {
                let mut taken_so_far = 0;
                loop {
                    let (bytes, _, last) = taken(&queue);
                    taken_so_far += bytes;
                    if last {
                        return taken_so_far;
                    }
                }
            });
            let pushed: usize = pushers.into_iter().map(|pusher| pusher.join().expect("pushes")).sum();
            queue.close();
            (pushed, writer.join().expect("takes"))
        });
        assert_eq!(pushed * "line\n".len(), taken);
    }
}
