//! The table's file, written by a thread of its own.
//!
//! A disk may take long to write, or hang. Who marks a slot does not wait for it: an origin's word alone can mark one, on a thread that
//! serves clients. Slots that are marked while the file is being written are written together in the next turn, so no more than the
//! table itself can be pending.

use super::{Slot, WORD};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// The way to the thread. Dropping it lets the thread finish; nobody waits for that.
pub(super) struct TableFile(Arc<Shared>);

struct Shared {
    orders: Mutex<Orders>,
    wake: Condvar,
    done: watch::Sender<Done>,
}

/// What is to be written.
#[derive(Default)]
struct Orders {
    slots: BTreeSet<u16>,
    /// Counts the orders.
    last: u64,
    closed: bool,
}

/// How far the thread is.
#[derive(Clone, Default)]
struct Done {
    /// The last order that was dealt with.
    last: u64,
    /// Why something up to it is not written down.
    failure: Option<Arc<str>>,
}

impl TableFile {
    /// Starts the thread; it writes what stands in `table`.
    pub fn start(file: File, table: Arc<[AtomicU64]>) -> io::Result<Self> {
        let (orders, wake, done) = (Mutex::default(), Condvar::new(), watch::Sender::default());
        let shared = Arc::new(Shared { orders, wake, done });
        let thread = Arc::clone(&shared);
        std::thread::Builder::new().name("purges".into()).spawn(move || thread.work(&file, &table))?;
        Ok(Self(shared))
    }

    /// Has the slot written down.
    pub fn write(&self, slot: Slot) {
        let mut orders = self.0.orders.lock();
        orders.slots.insert(slot.0);
        orders.last += 1;
        self.0.wake.notify_one();
    }

    /// Waits until all that was ordered is written down, or could not be.
    pub fn written(&self) -> impl Future<Output = Result<(), Arc<str>>> + use<> {
        let last = self.0.orders.lock().last;
        let shared = Arc::clone(&self.0);
        async move {
            let mut done = shared.done.subscribe();
            let reached = done.wait_for(|done| done.last >= last).await.expect("this holds the sender");
            reached.failure.clone().map_or(Ok(()), Err)
        }
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        self.0.orders.lock().closed = true;
        self.0.wake.notify_one();
    }
}

impl Shared {
    /// Does what is ordered. What could not be written is tried again with the next order.
    fn work(&self, file: &File, table: &[AtomicU64]) {
        let mut last = 0;
        while let Some((slots, ordered)) = self.next(last) {
            last = ordered;
            let result = write(file, table, &slots);
            if let Err(error) = &result {
                tracing::warn!(%error, "a purge could not be written down; it holds until the next restart");
                self.orders.lock().slots.extend(slots);
            }
            let failure = result.err().map(|error| error.to_string().into());
            self.done.send_replace(Done { last, failure });
        }
    }

    /// Waits for more than the `last` order; `None` when there will be none.
    fn next(&self, last: u64) -> Option<(BTreeSet<u16>, u64)> {
        let mut orders = self.orders.lock();
        while orders.last == last {
            if orders.closed {
                return None;
            }
            self.wake.wait(&mut orders);
        }
        Some((std::mem::take(&mut orders.slots), orders.last))
    }
}

fn write(file: &File, table: &[AtomicU64], slots: &BTreeSet<u16>) -> io::Result<()> {
    for slot in slots {
        let time = table[usize::from(*slot)].load(Ordering::Acquire);
        file.write_all_at(&time.to_le_bytes(), u64::from(*slot) * WORD as u64)?;
    }
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Arc<[AtomicU64]> {
        (0..4).map(AtomicU64::new).collect()
    }

    #[tokio::test]
    async fn what_was_marked_is_written_and_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("table");
        let file = TableFile::start(File::create(&path).expect("made"), table()).expect("started");
        file.written().await.expect("nothing to write");
        file.write(Slot(3));
        file.write(Slot(1));
        file.written().await.expect("written");
        let words: Vec<u8> = [0, 1, 0, 3u64].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(std::fs::read(&path).expect("there"), words);
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_told_and_nobody_hangs() {
        let read_only = File::open("/dev/null").expect("there");
        let file = TableFile::start(read_only, table()).expect("started");
        for _ in 0..2 {
            file.write(Slot(1));
            file.written().await.expect_err("it cannot be written");
        }
    }
}
