//! Viewers and their topics: one document a second for each topic, shared by all its viewers.

use crate::metrics::Metrics;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::json;
use shoal_dashboard::documents::LogLine;
use shoal_dashboard::{LineFilter, Page, Topic};
use shoal_telemetry::samples::TailSubscription;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Viewers, and documents that are fresh.
#[derive(Default)]
pub(super) struct Hub {
    viewers: Mutex<Vec<Viewer>>,
    /// Fresh documents by topic, at most [`DOCUMENTS_MAX`].
    documents: Mutex<Vec<FreshDocument>>,
    /// Lines of the log for `GET /ui/data/log`, with the time of the last such request.
    recent: Mutex<Option<(Arc<TailSubscription>, Instant)>>,
}

/// Reason why a viewer gets no events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscribeError {
    /// There are [`VIEWERS_MAX`] viewers.
    Full,
    /// The node is stopping.
    Ended,
}

struct Viewer {
    topic: Topic,
    may_change: bool,
    events: mpsc::Sender<Bytes>,
    /// Lines of the log; viewers of one topic share them.
    lines: Option<Arc<TailSubscription>>,
}

struct FreshDocument {
    topic: Topic,
    may_change: bool,
    made: Instant,
    bytes: Bytes,
}

impl Hub {
    /// Returns the document of a topic for viewers that may change something or not. `make` makes
    /// the document if there is none of the last second.
    pub fn document(&self, (topic, may_change): (&Topic, bool), make: impl FnOnce() -> Bytes) -> Bytes {
        // Held while the document is made, so that it is made once.
        let mut documents = self.documents.lock();
        documents.retain(|document| document.made.elapsed() < FRESH_FOR);
        let is_it = |document: &&FreshDocument| document.may_change == may_change && document.topic == *topic;
        if let Some(fresh) = documents.iter().find(is_it) {
            return fresh.bytes.clone();
        }
        let bytes = make();
        if documents.len() == DOCUMENTS_MAX {
            documents.remove(0);
        }
        debug_assert!(documents.len() < DOCUMENTS_MAX, "fresh documents have a limit");
        let (topic, made) = (topic.clone(), Instant::now());
        documents.push(FreshDocument { topic, may_change, made, bytes: bytes.clone() });
        bytes
    }

    /// Adds a viewer. `first` is the document that it gets at once.
    pub fn subscribe(
        &self,
        (topic, may_change): (Topic, bool),
        first: Option<Bytes>,
        metrics: &Metrics,
    ) -> Result<mpsc::Receiver<Bytes>, SubscribeError> {
        let mut viewers = self.viewers.lock();
        retain_open(&mut viewers, metrics);
        if viewers.len() >= VIEWERS_MAX {
            metrics.dashboard_refused.increment();
            return Err(SubscribeError::Full);
        }
        let (events, receiver) = mpsc::channel(QUEUE);
        if let Some(first) = first {
            // The queue is empty.
            let _ = events.try_send(event(topic.page.name(), &first));
        }
        let lines = (topic.page == Page::Log).then(|| {
            let shared = viewers.iter().find(|viewer| viewer.topic == topic);
            let shared = shared.and_then(|viewer| viewer.lines.clone());
            shared.unwrap_or_else(|| metrics.samples.tail.subscribe(topic.lines.clone(), LINES_HELD))
        });
        debug_assert!(viewers.len() < VIEWERS_MAX, "viewers have a limit");
        viewers.push(Viewer { topic, may_change, events, lines });
        metrics.dashboard_viewers.increment();
        Ok(receiver)
    }

    /// Sends each viewer the event of this second. A viewer with a full queue, or that has left, is
    /// dropped.
    pub fn publish(&self, metrics: &Metrics, document: impl Fn(&Topic, bool) -> Bytes) {
        let is_old = |(_, asked): &mut (_, Instant)| asked.elapsed() > RECENT_FOR;
        let _ = self.recent.lock().take_if(is_old);
        let topics: Vec<(Topic, bool, Option<Arc<TailSubscription>>)> = {
            let mut viewers = self.viewers.lock();
            retain_open(&mut viewers, metrics);
            let mut topics: Vec<(Topic, bool, _)> = Vec::new();
            for viewer in viewers.iter() {
                if !topics.iter().any(|(topic, may_change, _)| viewer.is_of(topic, *may_change)) {
                    topics.push((viewer.topic.clone(), viewer.may_change, viewer.lines.clone()));
                }
            }
            topics
        };
        // No lock is held while documents are made.
        for (topic, may_change, lines) in topics {
            let bytes = match lines {
                Some(lines) => line_events(&lines),
                None => event(topic.page.name(), &document(&topic, may_change)),
            };
            self.send((&topic, may_change), &bytes, metrics);
        }
    }

    /// Sends all viewers the last event, and drops them.
    pub fn end(&self, metrics: &Metrics) {
        for viewer in self.viewers.lock().drain(..) {
            let _ = viewer.events.try_send(event("ended", b"{}"));
            metrics.dashboard_viewers.subtract(1);
        }
        *self.recent.lock() = None;
    }

    /// Returns the lines since somebody asked for them, of those that `filter` wants. Lines are
    /// gathered for a while after each call.
    pub fn recent_lines(&self, metrics: &Metrics, filter: &LineFilter) -> Vec<LogLine> {
        let mut recent = self.recent.lock();
        let (lines, asked) = recent.get_or_insert_with(|| {
            (metrics.samples.tail.subscribe(LineFilter::default(), LINES_RECENT), Instant::now())
        });
        *asked = Instant::now();
        lines.lines(filter)
    }

    fn send(&self, (topic, may_change): (&Topic, bool), bytes: &Bytes, metrics: &Metrics) {
        self.viewers.lock().retain(|viewer| {
            if !viewer.is_of(topic, may_change) {
                return true;
            }
            let outcome = viewer.events.try_send(bytes.clone());
            if outcome.is_err() {
                metrics.dashboard_viewers.subtract(1);
            }
            if let Err(mpsc::error::TrySendError::Full(_)) = outcome {
                metrics.dashboard_dropped.increment();
            }
            outcome.is_ok()
        });
    }
}

impl Viewer {
    /// Returns `true` if the viewer gets these events. All viewers of the log share them.
    fn is_of(&self, topic: &Topic, may_change: bool) -> bool {
        self.topic == *topic && (self.may_change == may_change || self.lines.is_some())
    }
}

/// Drops the viewers that have left.
fn retain_open(viewers: &mut Vec<Viewer>, metrics: &Metrics) {
    let before = viewers.len();
    viewers.retain(|viewer| !viewer.events.is_closed());
    metrics.dashboard_viewers.subtract((before - viewers.len()) as u64);
}

/// Returns a server-sent event. The data has no line end: JSON escapes them.
fn event(name: &str, data: &[u8]) -> Bytes {
    debug_assert!(!data.contains(&b'\n'), "an event's data is one line");
    [b"event: ", name.as_bytes(), b"\ndata: ", data, b"\n\n"].concat().into()
}

/// Returns the events of the lines that came, of those that were skipped, and one that tells that
/// the node is there.
fn line_events(lines: &TailSubscription) -> Bytes {
    let (lines, skipped) = lines.take();
    let mut events = Vec::new();
    for line in lines {
        let data = serde_json::to_vec(&line).unwrap_or_default();
        events.extend_from_slice(&event("line", &data));
    }
    if skipped > 0 {
        events.extend_from_slice(&event("skipped", json!({ "skipped": skipped }).to_string().as_bytes()));
    }
    events.extend_from_slice(&event("tick", b"{}"));
    events.into()
}

/// Most viewers of live events at a time.
pub const VIEWERS_MAX: usize = 64;

/// Events that wait for a viewer; each has at most the bytes of a document.
const QUEUE: usize = 2;

/// Documents of the last second that are kept.
const DOCUMENTS_MAX: usize = 16;

/// Time for which a document is shared.
const FRESH_FOR: Duration = Duration::from_millis(900);

/// Lines that wait for a viewer of the log.
const LINES_HELD: usize = 100;

/// Lines that `GET /ui/data/log` tells.
const LINES_RECENT: usize = 200;

/// Time after a request for the log in which lines are gathered.
const RECENT_FOR: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(page: &str) -> Topic {
        Topic::parse(page, &[]).expect("a topic")
    }

    fn text(receiver: &mut mpsc::Receiver<Bytes>) -> Option<String> {
        receiver.try_recv().ok().map(|bytes| String::from_utf8(bytes.to_vec()).expect("UTF-8"))
    }

    #[test]
    fn viewers_share_documents() {
        let (hub, metrics) = (Hub::default(), Metrics::default());
        let mut viewers: Vec<_> = (0..50)
            .map(|_| hub.subscribe((topic("now"), true), Some("1".into()), &metrics).expect("room"))
            .collect();
        let mut other = hub.subscribe((topic("disk"), true), None, &metrics).expect("room");
        let made = std::cell::Cell::new(0);
        hub.publish(&metrics, |topic, _| {
            made.set(made.get() + 1);
            Bytes::from(format!("{:?}", topic.page))
        });
        assert_eq!((made.get(), metrics.dashboard_viewers.value()), (2, 51));
        for viewer in &mut viewers {
            assert_eq!(text(viewer).as_deref(), Some("event: now\ndata: 1\n\n"));
            assert_eq!(text(viewer).as_deref(), Some("event: now\ndata: Now\n\n"));
        }
        assert_eq!(text(&mut other).as_deref(), Some("event: disk\ndata: Disk\n\n"));
    }

    #[test]
    fn viewer_that_takes_nothing_is_dropped() {
        let (hub, metrics) = (Hub::default(), Metrics::default());
        let mut idle = hub.subscribe((topic("now"), true), None, &metrics).expect("room");
        for _ in 0..QUEUE + 1 {
            hub.publish(&metrics, |_, _| "1".into());
        }
        assert_eq!((metrics.dashboard_viewers.value(), metrics.dashboard_dropped.value()), (0, 1));
        let events = std::iter::from_fn(|| text(&mut idle)).count();
        assert_eq!((events, idle.is_closed()), (QUEUE, true));
    }

    #[test]
    fn viewers_are_bounded_and_ended() {
        let (hub, metrics) = (Hub::default(), Metrics::default());
        let all: Vec<_> = (0..VIEWERS_MAX)
            .map(|_| hub.subscribe((topic("size"), true), None, &metrics).expect("room"))
            .collect();
        assert_eq!(hub.subscribe((topic("size"), true), None, &metrics).err(), Some(SubscribeError::Full));
        assert_eq!(metrics.dashboard_refused.value(), 1);
        drop(all);
        let mut last = hub.subscribe((topic("size"), true), None, &metrics).expect("room again");
        hub.end(&metrics);
        assert_eq!(text(&mut last).as_deref(), Some("event: ended\ndata: {}\n\n"));
        assert!(last.is_closed());
    }

    #[test]
    fn document_is_made_once_a_second() {
        let hub = Hub::default();
        let documents: Vec<Bytes> =
            (0..3).map(|n| hub.document((&topic("now"), true), || Bytes::from(format!("{n}")))).collect();
        assert_eq!(documents, ["0", "0", "0"]);
        assert_eq!(hub.document((&topic("disk"), true), || "x".into()), "x");
        for number in 0..2 * DOCUMENTS_MAX {
            let topic = Topic { part: number.to_string(), ..topic("objects") };
            hub.document((&topic, true), Bytes::new);
        }
        assert_eq!(hub.documents.lock().len(), DOCUMENTS_MAX);
    }
}
