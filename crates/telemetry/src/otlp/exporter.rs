//! Thread that sends spans and metrics to a collector.

use super::deadline::{read_until, write_until};
use super::ids::Ids;
use super::messages::{self, Span};
use super::trace::TraceSink;
use crate::metrics::Metrics;
use parking_lot::Mutex;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime};

/// Collector to which the exporter sends.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    /// Host and port.
    pub authority: String,
    /// Path before `/v1/traces`.
    pub path: String,
    /// Name of the service in its messages.
    pub service: String,
    /// Share of requests that are recorded, from 0 to 1. The flag of a trusted caller decides for
    /// its request.
    pub sample: f64,
    /// Interval of the metrics; zero sends none.
    pub metrics_interval: Duration,
}

/// Running exporter. It sends its queue once more and ends when this is dropped.
pub struct Exporter {
    sink: Arc<TraceSink>,
    stop: SyncSender<Vec<Span>>,
    is_ending: Arc<AtomicBool>,
    /// Channel that disconnects when the thread has ended, even by a panic.
    ended: Mutex<Option<Receiver<()>>>,
}

struct Work {
    endpoint: Endpoint,
    spans: Receiver<Vec<Span>>,
    metrics: Arc<Metrics>,
    start_ns: u64,
    /// `true` if the thread is to end after the batch at hand.
    is_ending: Arc<AtomicBool>,
    /// `true` if the last message failed, which has been reported.
    is_failing: bool,
}

impl Exporter {
    /// Starts the thread. `seed` differs between processes.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(endpoint: Endpoint, seed: u64, metrics: &Arc<Metrics>) -> io::Result<Self> {
        let (sender, spans) = sync_channel(QUEUE_MAX);
        let threshold = (endpoint.sample.clamp(0.0, 1.0) * u64::MAX as f64) as u64;
        let sink =
            TraceSink { spans: sender.clone(), ids: Ids::new(seed), threshold, metrics: Arc::clone(metrics) };
        let metrics = Arc::clone(metrics);
        let is_ending = Arc::new(AtomicBool::new(false));
        let work = Work {
            endpoint,
            spans,
            metrics,
            start_ns: now_ns(),
            is_ending: Arc::clone(&is_ending),
            is_failing: false,
        };
        let (ends, ended) = mpsc::channel();
        std::thread::Builder::new().name("shoal-otlp".into()).spawn(move || {
            let _ends_with_the_thread: mpsc::Sender<()> = ends;
            work.run();
        })?;
        Ok(Self { sink: Arc::new(sink), stop: sender, is_ending, ended: Mutex::new(Some(ended)) })
    }

    /// Returns the receiver of finished requests.
    pub fn sink(&self) -> &Arc<TraceSink> {
        &self.sink
    }

    /// Ends the thread, which sends its queue once more. Waits for it, at most `END_WAIT_MAX` if
    /// the collector is slow.
    pub fn stop(&self) {
        self.stop_within(END_WAIT_MAX);
    }

    pub(super) fn stop_within(&self, wait_max: Duration) {
        let Some(ended) = self.ended.lock().take() else { return };
        self.is_ending.store(true, SeqCst);
        // An empty list wakes the thread. With a full queue it is awake, and sees the flag.
        let _ = self.stop.try_send(Vec::new());
        // The panic hook has reported a thread that panicked.
        if ended.recv_timeout(wait_max) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the collector is too slow; its last traces are lost");
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Work {
    fn run(mut self) {
        let interval = self.endpoint.metrics_interval;
        let mut metrics_at = Instant::now() + interval;
        let mut batch: Vec<Span> = Vec::new();
        let mut send_at = Instant::now() + GATHER;
        loop {
            let until = if interval > Duration::ZERO { send_at.min(metrics_at) } else { send_at };
            let mut is_over = match self.spans.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(spans) if spans.is_empty() => true,
                Ok(spans) => {
                    batch.extend(spans);
                    false
                }
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            if self.is_ending.load(SeqCst) {
                is_over = true;
                batch.extend(self.spans.try_iter().take(QUEUE_MAX).flatten());
            }
            let now = Instant::now();
            if !batch.is_empty() && (is_over || batch.len() >= BATCH_MAX || now >= send_at) {
                self.send_spans(&std::mem::take(&mut batch));
            }
            if interval > Duration::ZERO && (is_over || now >= metrics_at) {
                self.send_metrics();
                metrics_at = now + interval;
            }
            if now >= send_at {
                send_at = now + GATHER;
            }
            if is_over {
                return;
            }
        }
    }

    fn send_spans(&mut self, spans: &[Span]) {
        assert!(!spans.is_empty(), "a message about nothing");
        let body = messages::traces(&self.endpoint.service, spans);
        let sent = post(&self.endpoint, "/v1/traces", &body, Instant::now() + POST_MAX);
        match &sent {
            Ok(()) => self.metrics.spans_sent.add(spans.len() as u64),
            Err(_) => self.metrics.spans_dropped.add(spans.len() as u64),
        }
        self.report(sent);
    }

    fn send_metrics(&mut self) {
        let rows = self.metrics.rows();
        let body = messages::metrics(&self.endpoint.service, &rows, (self.start_ns, now_ns()));
        let sent = post(&self.endpoint, "/v1/metrics", &body, Instant::now() + POST_MAX);
        self.report(sent);
    }

    /// Reports a failure once until sending works again.
    fn report(&mut self, sent: io::Result<()>) {
        match sent {
            Ok(()) if self.is_failing => tracing::info!("the collector takes traces and metrics again"),
            Ok(()) => {}
            Err(error) if !self.is_failing => {
                tracing::warn!(collector = self.endpoint.authority, %error, "the collector takes nothing; traces are dropped");
                self.is_failing = true;
                return;
            }
            Err(_) => return,
        }
        self.is_failing = false;
    }
}

/// Sends a message, and reads the status of the answer, until the deadline.
pub(super) fn post(endpoint: &Endpoint, path: &str, body: &[u8], until: Instant) -> io::Result<()> {
    let address = endpoint.authority.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
    let mut stream = TcpStream::connect_timeout(&address, WAIT_MAX)?;
    stream.set_write_timeout(Some(WAIT_MAX))?;
    stream.set_read_timeout(Some(WAIT_MAX))?;
    let head = format!(
        "POST {}{path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/x-protobuf\r\ncontent-length: {}\r\n\
         connection: close\r\nuser-agent: shoal/{}\r\n\r\n",
        endpoint.path,
        endpoint.authority,
        body.len(),
        env!("CARGO_PKG_VERSION"),
    );
    write_until(&mut stream, head.as_bytes(), until)?;
    write_until(&mut stream, body, until)?;
    // `HTTP/1.1 200`. The rest of the answer says nothing, and its end may never come.
    let mut answer = [0; 12];
    read_until(&mut stream, &mut answer, until)?;
    let status = answer.get(9..).filter(|_| answer.starts_with(b"HTTP/1."));
    match status {
        Some([b'2', ..]) => Ok(()),
        Some(status) => Err(io::Error::other(format!("it answers {}", String::from_utf8_lossy(status)))),
        None => Err(io::Error::other("its answer is no HTTP/1")),
    }
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Most requests with spans that wait.
const QUEUE_MAX: usize = 2048;
/// Spans that are sent at once, without waiting for more.
const BATCH_MAX: usize = 512;
/// Longest time for which spans gather.
const GATHER: Duration = Duration::from_secs(1);
/// Longest wait for the collector, for each system call.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Time after which a message is given up.
const POST_MAX: Duration = Duration::from_secs(3 * WAIT_MAX.as_secs());
/// Longest wait for the thread at the end.
const END_WAIT_MAX: Duration = Duration::from_secs(5);
