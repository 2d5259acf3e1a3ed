//! Lines on their way to the writer thread: a buffer for each core, which the writer takes whole.
//!
//! ```text
//!   worker 0 ──► place 0 ─┐
//!   worker 1 ──► place 1 ─┼─► writer ──► file
//!   …                     │     ▲
//!   worker n ──► place n ─┘     └─ woken by the first line, then waits a moment for more
//! ```
//!
//! A place's lock is taken by its core and, a few times a second, by the writer; so it is free as
//! good as always, and no core waits for another. Waking a thread costs more than formatting a
//! line, so the writer is woken by the first line only and then lets lines gather; a log without
//! requests wakes nobody. Lines of one core stand in the order in which its requests ended; those
//! of several may be mixed within [`GATHER`].

use crate::per_core::{CachePadded, PLACES, place};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The buffers between the threads that serve and the one that writes.
#[derive(Default)]
pub(super) struct Queue {
    places: [CachePadded<Mutex<Pending>>; PLACES],
    /// The writer waits for a first line.
    asleep: AtomicBool,
    /// Some place has so much that it should be written now.
    urgent: AtomicBool,
    orders: Mutex<WriterCommands>,
    wake: Condvar,
}

/// What one core has said since the writer came by.
#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    closed: bool,
}

/// A line in the making, of which nothing is left if making it panics.
struct Line<'q> {
    bytes: &'q mut Vec<u8>,
    start: usize,
    is_whole: bool,
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        debug_assert!(self.start <= self.bytes.len());
        if !self.is_whole {
            self.bytes.truncate(self.start);
        }
    }
}

/// What the writer is told beside lines.
#[derive(Clone, Copy, Default)]
struct WriterCommands {
    reopen: bool,
    closed: bool,
}

/// What the writer has to do next.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Whole lines of each place; perhaps none.
    pub parts: [Vec<u8>; PLACES],
    /// Open the file again afterwards.
    pub reopen: bool,
    /// This is the last batch.
    pub last: bool,
}

impl Queue {
    pub fn new() -> Self {
        Self::default()
    }

    /// Has `append` append a line where it will wait; false when too much is pending, or after
    /// [`Queue::close`]. No lock is held while the writer is woken.
    #[inline]
    pub fn push(&self, append: impl FnOnce(&mut Vec<u8>)) -> bool {
        let (first, urgent) = {
            let mut pending = self.places[place()].0.lock();
            let before = pending.bytes.len();
            if pending.closed || before >= PENDING_MAX {
                return false;
            }
            if pending.bytes.capacity() < CAPACITY {
                // Room for all that may come, once; memory that is never written to is never taken.
                pending.bytes.reserve_exact(CAPACITY - before);
            }
            let mut line = Line { start: before, bytes: &mut pending.bytes, is_whole: false };
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
            // Taken so that a writer between its look at the places and its wait is not missed.
            drop(self.orders.lock());
            self.wake.notify_one();
        }
        true
    }

    /// Asks for the file to be opened again.
    pub fn reopen(&self) {
        self.orders.lock().reopen = true;
        self.wake.notify_one();
    }

    /// Lets the writer finish.
    pub fn close(&self) {
        self.places.iter().for_each(|place| place.0.lock().closed = true);
        self.orders.lock().closed = true;
        self.wake.notify_one();
    }

    /// Waits for something to do, and a moment longer for more of it. The buffers in `batch` are
    /// used again.
    pub fn take(&self, batch: &mut Batch) {
        let orders = self.wait();
        self.urgent.store(false, Ordering::Release);
        for (place, bytes) in self.places.iter().zip(&mut batch.parts) {
            bytes.clear();
            let mut pending = place.0.lock();
            if pending.bytes.capacity() > bytes.capacity() {
                // Made here, so that no thread that serves has to make room but the first time.
                let room = pending.bytes.capacity();
                MutexGuard::unlocked(&mut pending, || bytes.reserve_exact(room));
            }
            std::mem::swap(&mut pending.bytes, bytes);
        }
        (batch.reopen, batch.last) = (orders.reopen, orders.closed);
    }

    fn wait(&self) -> WriterCommands {
        let mut orders = self.orders.lock();
        // Said before the places are looked at: a line that comes later finds it, through the lock
        // of its place.
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

/// Where so many bytes are pending in one place, further lines are dropped.
const PENDING_MAX: usize = 1 << 20;

/// These bytes and one more line, of eight fields at most, which are clipped to 8 KiB and whose
/// bytes may take six each.
const CAPACITY: usize = PENDING_MAX + (512 << 10);

/// Bytes of one place that are written at once, without waiting for more.
const URGENT: usize = 256 << 10;

/// How long lines gather: the delay that `tail -f` sees.
const GATHER: Duration = Duration::from_millis(50);

const _: () = assert!(PENDING_MAX < CAPACITY);

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes, and what the writer is told beside them.
    fn taken(queue: &Queue) -> (usize, bool, bool) {
        let mut batch = Batch::default();
        queue.take(&mut batch);
        (batch.parts.iter().map(Vec::len).sum(), batch.reopen, batch.last)
    }

    #[test]
    fn what_is_pending_is_bounded() {
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
    fn close_and_reopen_come_with_what_is_pending() {
        let queue = Queue::new();
        queue.push(|lines| lines.extend_from_slice(b"a\n"));
        queue.reopen();
        queue.close();
        assert_eq!(taken(&queue), (2, true, true));
        assert!(!queue.push(|lines| lines.extend_from_slice(b"late\n")), "nobody would write it");
    }

    #[test]
    fn no_line_is_lost_however_threads_and_the_writer_meet() {
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
