//! Proxy with every response of [`origin`] in RAM, and the two paths to ask it.

use super::guest::Guest;
use super::origin::{self, PATHS};
use super::row::{Row, Step};
use parking_lot::Mutex;
use shoal_cache::hybrid_cache::{HybridCache, ObjectSizeLimits};
use shoal_cache::io_pool::IoPool;
use shoal_cache::purge_table::PurgeTable;
use shoal_core::{ByteCount, Timestamp};
use shoal_exchange::{CacheEngine, CacheEngineParts, CacheHandler, ExchangeSettings};
use shoal_memory::{MemoryBudget, MemoryTier};
use shoal_message::Client;
use shoal_server::StreamServer;
use shoal_settings::{Listen, Settings, Site};
use shoal_telemetry::access_log::AccessLog;
use shoal_telemetry::metrics::Metrics;
use shoal_upstream::Upstreams;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Runtime;

/// Proxy under test.
pub(super) struct Rig {
    runtime: Runtime,
    server: StreamServer<CacheHandler>,
    metrics: Arc<Metrics>,
}

/// Counters that must be equal on every path.
pub(super) type Counts = Vec<(&'static str, &'static str, u64)>;

impl Rig {
    /// Starts the proxy and lets it fetch everything.
    pub fn start() -> Self {
        let mut settings = Settings { workers: 1, ..Settings::default() };
        settings.cache.ram = ByteCount::mib(16);
        settings.log.access = "none".into();
        settings.listen = vec![Listen::reverse(CLIENT)];
        settings.site = vec![Site::to(&format!("http://{}", origin::start()))];
        let metrics = Arc::new(Metrics::default());
        let server = StreamServer::new(
            Arc::new(CacheHandler(exchange(&settings, &metrics))),
            Arc::clone(&metrics),
            &settings.client,
        );
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let rig = Self { runtime, server, metrics };
        for given in &PATHS {
            let request = format!("GET {} HTTP/1.1\r\nHost: a.test\r\n\r\n", given.path);
            rig.alone(request.as_bytes());
            rig.alone(request.as_bytes());
        }
        let filled = (rig.metrics.misses.value(), rig.metrics.hits_memory.value());
        assert_eq!(filled, (PATHS.len() as u64, PATHS.len() as u64), "everything is stored");
        rig
    }

    /// Returns the reply to a request on its own connection.
    pub fn alone(&self, request: &[u8]) -> Vec<u8> {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let alone = Alone { words: request.into(), heard: Arc::clone(&heard) };
        self.runtime.block_on(self.server.serve(alone, client()));
        std::mem::take(&mut *heard.lock())
    }

    /// Returns the bytes that each guest of `row` receives, with the guests' connections in the
    /// idle set. `owed` gives the expected number of bytes for each. Also returns the number of
    /// connections with a task at the end.
    pub fn together(&self, row: &Row, owed: &[usize]) -> (Vec<Vec<u8>>, usize) {
        let (mut near, mut guests) = (Vec::new(), Vec::new());
        for (asked, owed) in row.asked().iter().zip(owed) {
            let ends = row.ends || asked.last().is_some_and(|ask| ask.is_last());
            let (one, other) = pair(row.has_small_buffers);
            near.push(one);
            guests.push(Guest::new(other, (*owed, ends)));
        }
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.server.serve_all_waiting(near, client()) => unreachable!("it serves until it is dropped"),
                () = visit(row, &mut guests) => {}
            }
        });
        let tasks = self.runtime.metrics().num_alive_tasks();
        (guests.into_iter().map(Guest::into_heard).collect(), tasks)
    }

    /// Returns the counters' current values.
    pub fn counts(&self) -> Counts {
        let rows = self.metrics.rows().into_iter().filter(|(_, name, ..)| COUNTED.contains(name));
        rows.map(|(_, name, labels, _, value)| (name, labels, value)).collect()
    }

    /// Checks that the counters have grown by `expected` since `begun`. Tasks count after writing,
    /// so the check waits for some turns.
    pub fn expect_counts(&self, begun: &Counts, expected: &Counts) {
        let is_counted = || since(&self.counts(), begun) == *expected;
        self.runtime.block_on(async {
            for _ in 0..QUIET_TURNS {
                if is_counted() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(&since(&self.counts(), begun), expected, "counted otherwise than alone");
    }
}

/// Returns the counters' growth from `begun` to `counts`.
pub(super) fn since(counts: &Counts, begun: &Counts) -> Counts {
    let pairs = counts.iter().zip(begun);
    pairs.map(|((name, labels, now), (.., before))| (*name, *labels, now - before)).collect()
}

/// Lets guests act as `row` says, until they are content or nothing more happens.
async fn visit(row: &Row, guests: &mut [Guest]) {
    // The connections are admitted first.
    turns(2).await;
    for step in &row.steps {
        match step {
            Step::Ask(guest, ask) => {
                guests[*guest].asks(&ask.words());
                continue;
            }
            Step::Deafen(guest) => {
                guests[*guest].deafen();
                continue;
            }
            Step::Turn => guests.iter_mut().for_each(|guest| _ = guest.say(usize::MAX)),
            Step::Cut(guest, bytes) => _ = guests[*guest].say(*bytes),
        }
        turns(2).await;
        guests.iter_mut().for_each(|guest| _ = guest.hear());
    }
    guests.iter_mut().for_each(Guest::listen);
    let mut quiet = 0;
    while quiet < QUIET_TURNS && !guests.iter().all(Guest::is_content) {
        quiet += 1;
        for guest in &mut *guests {
            let has_said = guest.say(usize::MAX);
            if row.ends {
                guest.end();
            }
            if guest.hear() || has_said {
                quiet = 0;
            }
        }
        turns(1).await;
    }
    turns(3).await;
    guests.iter_mut().for_each(|guest| _ = guest.hear());
}

async fn turns(count: u32) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

fn exchange(settings: &Settings, metrics: &Arc<Metrics>) -> Arc<CacheEngine> {
    let ledger = MemoryBudget::new(settings.cache.ram.0);
    let memory = MemoryTier::new(Arc::clone(&ledger), 64);
    let pools = vec![Arc::new(IoPool::new(1, 1).expect("a thread"))];
    let limits = ObjectSizeLimits { memory_object_max: settings.cache.ram_object_max.0, disk_object_max: 0 };
    CacheEngine::new(CacheEngineParts {
        cluster: None,
        neighbours: None,
        live: ExchangeSettings::new(settings, &[], SEED).expect("valid settings"),
        objects: Arc::new(HybridCache::new((memory, ledger, None), None, pools, Arc::clone(metrics), limits)),
        challenges: Arc::default(),
        purge_table: Arc::new(PurgeTable::in_memory(Timestamp::from_seconds(10))),
        upstreams: Arc::new(Upstreams::new(settings, Arc::clone(metrics)).expect("upstreams")),
        metrics: Arc::clone(metrics),
        log: AccessLog::open(&settings.log, Arc::clone(metrics)).expect("no log"),
    })
}

/// Returns a connection's two ends. A Unix socket pair occupies no address, and behaves like any
/// stream for code that has only its descriptor.
fn pair(has_small_buffers: bool) -> (TcpStream, UnixStream) {
    let (near, far) = UnixStream::pair().expect("descriptors are left");
    for end in [&near, &far] {
        end.set_nonblocking(true).expect("a socket");
    }
    if has_small_buffers {
        socket2::SockRef::from(&near).set_send_buffer_size(SMALL_BUFFER).expect("a socket");
    }
    (OwnedFd::from(near).into(), far)
}

fn client() -> Client {
    Client {
        address: CLIENT,
        local: CLIENT,
        listener: 0,
        tls: false,
        server_name: None,
        certificate: None,
        intercepted: None,
    }
}

/// Stream of a client that sends one request, takes all bytes at once, and ends its half after the
/// reply.
struct Alone {
    words: Box<[u8]>,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl AsyncRead for Alone {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let words = std::mem::take(&mut self.words);
        if words.is_empty() && self.heard.lock().is_empty() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        buffer.put_slice(&words);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Alone {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.heard.lock().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 40_000);

/// Fixed seed, so that every run is the same.
const SEED: u64 = 5;

/// Approximate number of reply bytes that the kernel buffers.
const SMALL_BUFFER: usize = 5000;

/// Number of silent turns after which no more bytes are expected.
const QUIET_TURNS: u32 = 200;

/// Counters that must agree.
const COUNTED: [&str; 5] = [
    "shoal_requests_total",
    "shoal_requests_refused_total",
    "shoal_responses_total",
    "shoal_responses_cut_total",
    "shoal_response_body_bytes_total",
];
