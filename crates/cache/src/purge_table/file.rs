//! The tables' file, written by its own thread.
//!
//! A disk may take long to write, or hang. A thread that marks a purge does not wait for the disk:
//! an origin's response alone can purge a group, on a thread that serves clients. Marks made during
//! a write are written together in the next turn. The pending data therefore never exceeds the
//! tables. A turn begins at least 1 s after the last, unless an operator waits. The disk is thus
//! written once a second, for any number of groups that origins purge.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Handle of the thread. Dropping it lets the thread finish, without waiting for it.
pub(super) struct TableFile(Arc<FileState>);

struct FileState {
    orders: Mutex<Orders>,
    wake: Condvar,
    done: watch::Sender<FileProgress>,
}

/// Contents of the file, in numbered pieces.
pub(super) trait FileContents: Send + Sync {
    /// Returns the offset of a piece, and its current bytes.
    fn bytes(&self, number: u32) -> (u64, Vec<u8>);

    /// Returns the piece that is written every hour, even without an order.
    fn hourly(&self) -> u32;
}

/// Pieces to write.
#[derive(Default)]
struct Orders {
    pieces: BTreeSet<u32>,
    /// `true` if a caller waits.
    is_urgent: bool,
    /// Number of the last order.
    last: u64,
    closed: bool,
}

/// Progress of the thread.
#[derive(Clone, Default)]
struct FileProgress {
    /// Number of the last order processed.
    last: u64,
    /// Reason for which an order up to `last` is not written.
    failure: Option<Arc<str>>,
}

impl TableFile {
    /// Starts the thread, which writes the contents of `tables`.
    pub fn start(file: File, tables: Arc<dyn FileContents>) -> io::Result<Self> {
        let (orders, wake, done) = (Mutex::default(), Condvar::new(), watch::Sender::default());
        let shared = Arc::new(FileState { orders, wake, done });
        let thread = Arc::clone(&shared);
        std::thread::Builder::new().name("purges".into()).spawn(move || thread.work(&file, &*tables))?;
        Ok(Self(shared))
    }

    /// Orders pieces to be written.
    pub fn write(&self, pieces: impl IntoIterator<Item = u32>) {
        let mut pieces = pieces.into_iter().peekable();
        if pieces.peek().is_none() {
            return;
        }
        let mut orders = self.0.orders.lock();
        orders.pieces.extend(pieces);
        orders.last += 1;
        self.0.wake.notify_one();
    }

    /// Waits until all ordered pieces are written, or writing has failed.
    pub fn written(&self) -> impl Future<Output = Result<(), Arc<str>>> + use<> {
        let last = {
            let mut orders = self.0.orders.lock();
            orders.is_urgent = true;
            orders.last
        };
        self.0.wake.notify_one();
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

impl FileState {
    /// Carries out the orders. Pieces that could not be written are tried again with the next
    /// order.
    fn work(&self, file: &File, tables: &dyn FileContents) {
        let mut last = 0;
        while let Some((pieces, ordered)) = self.next(last, tables) {
            last = ordered;
            let result = write(file, tables, &pieces);
            if let Err(error) = &result {
                tracing::warn!(%error, "a purge could not be written down; it holds until the next restart");
                self.orders.lock().pieces.extend(pieces);
            }
            let failure = result.err().map(|error| error.to_string().into());
            self.done.send_replace(FileProgress { last, failure });
            self.rest();
        }
    }

    /// Waits for the next turn, or until a caller waits for an order.
    fn rest(&self) {
        let end = Instant::now() + PAUSE;
        let mut orders = self.orders.lock();
        while !orders.closed && !orders.is_urgent && !self.wake.wait_until(&mut orders, end).timed_out() {}
    }

    /// Waits for an order after `last`, or until the hour is over. Returns `None` when there will
    /// be no more.
    fn next(&self, last: u64, tables: &dyn FileContents) -> Option<(BTreeSet<u32>, u64)> {
        let mut orders = self.orders.lock();
        let end = Instant::now() + HOUR;
        while orders.last == last {
            if orders.closed {
                return None;
            }
            if self.wake.wait_until(&mut orders, end).timed_out() {
                orders.pieces.insert(tables.hourly());
                break;
            }
        }
        orders.is_urgent = false;
        Some((std::mem::take(&mut orders.pieces), orders.last))
    }
}

fn write(file: &File, tables: &dyn FileContents, pieces: &BTreeSet<u32>) -> io::Result<()> {
    for (at, bytes) in pieces.iter().map(|piece| tables.bytes(*piece)) {
        file.write_all_at(&bytes, at)?;
    }
    file.sync_data()
}

/// Pause between two turns without a waiting caller.
const PAUSE: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbers;

    impl FileContents for Numbers {
        fn bytes(&self, number: u32) -> (u64, Vec<u8>) {
            (u64::from(number) * 8, u64::from(number).to_le_bytes().to_vec())
        }

        fn hourly(&self) -> u32 {
            0
        }
    }

    fn table() -> Arc<dyn FileContents> {
        Arc::new(Numbers)
    }

    #[tokio::test]
    async fn ordered_pieces_are_written_and_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("table");
        let file = TableFile::start(File::create(&path).expect("made"), table()).expect("started");
        file.written().await.expect("nothing to write");
        file.write([3]);
        file.write([1]);
        file.written().await.expect("written");
        let words: Vec<u8> = [0, 1, 0, 3u64].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(std::fs::read(&path).expect("there"), words);
    }

    #[tokio::test]
    async fn failed_write_is_reported_without_hanging() {
        let read_only = File::open("/dev/null").expect("there");
        let file = TableFile::start(read_only, table()).expect("started");
        for _ in 0..2 {
            file.write([1]);
            file.written().await.expect_err("it cannot be written");
        }
    }
}
