//! The dashboard of a running node: one thread records and fills documents, and viewers share them.
//!
//! ```text
//!   samples of the cores ─► recorder ─┬─► live curve
//!   counters, each second ────────────┼─► rates, heat map, history ─► file in the store's folder
//!                                     └─► documents, one a second for each topic ─► viewers
//! ```
//!
//! Documents are made only while somebody looks. Viewers of one topic share one document and its
//! bytes. A viewer that takes nothing is dropped once its queue is full. The types are those of
//! `shoal_dashboard`; this module reads the node.

mod disk;
mod hub;
mod kept;
mod now;
mod objects;
mod origins;
mod reasons;
mod recorder;
mod view;

pub use hub::{SubscribeError, VIEWERS_MAX};
pub(crate) use kept::KeptHistory;
pub(crate) use view::NodeView;

use bytes::Bytes;
use hub::Hub;
use parking_lot::Mutex;
use recorder::Recorder;
use serde::Serialize;
use shoal_clock as clock;
use shoal_dashboard::documents::{DOCUMENT_BYTES_MAX, LogDocument};
use shoal_dashboard::{CacheSizes, Page, Topic, shown, size_document};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::mpsc;

/// The dashboard. Its thread ends with `stop`.
pub struct Dashboard {
    view: NodeView,
    recorder: Mutex<Recorder>,
    hub: Hub,
    kept: Option<KeptHistory>,
    /// `true` while another process has the history's file.
    is_left: AtomicBool,
    is_over: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Dashboard {
    /// Starts to record a node. The history goes on from the one that is kept.
    ///
    /// # Errors
    /// If the system grants no thread.
    pub(crate) fn start(view: NodeView, kept: Option<KeptHistory>) -> io::Result<Arc<Self>> {
        let history = kept.as_ref().and_then(|kept| kept.read(unix_s())).unwrap_or_default();
        let dashboard = Arc::new(Self {
            recorder: Mutex::new(Recorder::new(&view, history)),
            hub: Hub::default(),
            kept,
            view,
            is_left: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            thread: Mutex::default(),
        });
        let own = Arc::clone(&dashboard);
        let thread = std::thread::Builder::new().name("dashboard".into()).spawn(move || own.work())?;
        *dashboard.thread.lock() = Some(thread);
        Ok(dashboard)
    }

    /// Returns the document of a topic as JSON, for viewers that may change something or not. It is
    /// at most a second old.
    pub fn document(&self, topic: &Topic, may_change: bool) -> Bytes {
        self.hub.document((topic, may_change), || self.with_facts(&self.make(topic), may_change))
    }

    /// Returns the history of the last `seconds` as JSON, in at most `points` steps.
    pub fn history(&self, seconds: u64, points: usize) -> Bytes {
        encoded(&self.recorder.lock().history.document(unix_s(), seconds).in_points(points))
    }

    /// Sends the events of a topic to a new viewer, the document first.
    ///
    /// # Errors
    /// If there are [`VIEWERS_MAX`] viewers, or the node is stopping.
    pub fn subscribe(&self, topic: Topic, may_change: bool) -> Result<mpsc::Receiver<Bytes>, SubscribeError> {
        if self.view.is_draining() {
            return Err(SubscribeError::Ended);
        }
        let first = (topic.page != Page::Log).then(|| self.document(&topic, may_change));
        self.hub.subscribe((topic, may_change), first, &self.view.metrics)
    }

    /// Keeps the history for another process and writes it no more, or takes the file back.
    pub(crate) fn leave_history(&self, is_left: bool) {
        if is_left {
            self.keep_history();
        }
        self.is_left.store(is_left, Relaxed);
    }

    /// Ends all viewers' events, writes the history and ends the thread.
    pub(crate) fn stop(&self) {
        self.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.lock().take() {
            thread.thread().unpark();
            // The panic hook has already reported a thread that panicked.
            let _ = thread.join();
        }
    }

    fn work(&self) {
        let mut ticks = 0_u64;
        let mut due = Instant::now();
        while !self.is_over.load(Relaxed) {
            due += TICK;
            match due.checked_duration_since(Instant::now()) {
                Some(wait) => std::thread::park_timeout(wait),
                // The machine slept: seconds that have passed are not made up for.
                None => due = Instant::now(),
            }
            ticks += 1;
            self.recorder.lock().take_samples(&self.view);
            if ticks.is_multiple_of(TICKS_A_SECOND) {
                self.record_second();
            }
            if ticks.is_multiple_of(TICKS_A_SECOND * KEEP_EVERY_S) {
                self.keep_history();
            }
        }
        self.hub.end(&self.view.metrics);
        self.keep_history();
    }

    fn record_second(&self) {
        self.recorder.lock().record(&self.view, unix_s());
        self.view.metrics.samples.tail.sweep();
        if self.view.is_draining() {
            return self.hub.end(&self.view.metrics);
        }
        self.hub.publish(&self.view.metrics, |topic, may_change| self.document(topic, may_change));
    }

    fn keep_history(&self) {
        let Some(kept) = self.kept.as_ref().filter(|_| !self.is_left.load(Relaxed)) else { return };
        let bytes = self.recorder.lock().history.to_bytes();
        kept.write(bytes);
    }

    /// Puts the facts that every page shows in front of a document.
    fn with_facts(&self, document: &[u8], may_change: bool) -> Bytes {
        let facts = NodeFacts {
            node: shown(&self.view.live().name),
            version: env!("CARGO_PKG_VERSION"),
            uptime_s: self.view.started.elapsed().as_secs(),
            state: self.view.state(),
            may_change,
        };
        let mut bytes = encoded(&facts).to_vec();
        match document.strip_prefix(b"{") {
            Some(b"}") | None => {}
            Some(rest) => {
                bytes.pop();
                bytes.push(b',');
                bytes.extend_from_slice(rest);
            }
        }
        bytes.into()
    }

    fn make(&self, topic: &Topic) -> Bytes {
        let view = &self.view;
        match topic.page {
            Page::Now => now::encoded(view, &self.recorder.lock(), topic.site.as_deref()),
            Page::Reasons => encoded(&reasons::document(view, topic.site.as_deref())),
            Page::Disk => encoded(&disk::document(view, &self.recorder.lock())),
            Page::Size => {
                let recorder = self.recorder.lock();
                let sizes = CacheSizes { measured: view.found_ratio(), ..view.sizes() };
                encoded(&size_document(&recorder.curve, sizes, unix_ms()))
            }
            Page::Origins => encoded(&origins::document(view, &self.recorder.lock())),
            Page::Objects => {
                let document = objects::document(view, topic);
                fitting(document, |document| halve(&mut document.objects))
            }
            Page::Cluster => encoded(&view.cluster_document()),
            Page::Log => {
                let lines = self.hub.recent_lines(&view.metrics, &topic.lines);
                let document = LogDocument { unix_ms: unix_ms(), lines };
                fitting(document, |document| {
                    let half = document.lines.len().div_ceil(2);
                    document.lines.drain(..half);
                })
            }
        }
    }
}

/// Facts that every document begins with.
#[derive(Serialize)]
struct NodeFacts {
    node: String,
    version: &'static str,
    uptime_s: u64,
    state: &'static str,
    may_change: bool,
}

/// Returns a document as JSON.
fn encoded(document: &impl Serialize) -> Bytes {
    // All documents are maps with text keys.
    serde_json::to_vec(document).map(Bytes::from).unwrap_or_else(|_| Bytes::from_static(b"{}"))
}

/// Returns a document as JSON, with fewer rows if all of them take too many bytes.
fn fitting<D: Serialize>(mut document: D, mut shorten: impl FnMut(&mut D)) -> Bytes {
    for _ in 0..8 {
        let bytes = encoded(&document);
        if bytes.len() <= DOCUMENT_BYTES_MAX {
            return bytes;
        }
        shorten(&mut document);
    }
    encoded(&document)
}

fn halve<T>(rows: &mut Vec<T>) {
    rows.truncate(rows.len() / 2);
}

fn unix_ms() -> u64 {
    clock::now().millis()
}

/// Returns the seconds since 1970, by the system's clock.
fn unix_s() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Time between two visits to the cores' samples.
const TICK: Duration = Duration::from_millis(250);

const TICKS_A_SECOND: u64 = 4;

/// Seconds between two writes of the history.
const KEEP_EVERY_S: u64 = 300;

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_dashboard::documents::LogLine;

    #[test]
    fn documents_that_are_too_large_lose_rows() {
        let line = LogLine { url: "\u{1f41f}".repeat(512), ..LogLine::default() };
        let document = LogDocument { unix_ms: 1, lines: vec![line; 200] };
        let bytes = fitting(document, |document| halve(&mut document.lines));
        assert!(bytes.len() <= DOCUMENT_BYTES_MAX, "{}", bytes.len());
        let read: LogDocument = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!((read.unix_ms, read.lines.len()), (1, 100));
    }
}
