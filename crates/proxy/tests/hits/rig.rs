//! A proxy whose connection loop is fed from memory: for counting what a hit allocates and how many instructions it takes.
//!
//! Everything is the product's: the HTTP/1 loop, the exchange, the RAM tier, metrics and access log. Only the client's
//! socket is replaced by [`Script`], which hands out the same request again and again, one a read, and counts the replies.

use shoal_core::Timestamp;
use shoal_proxy::access_log::AccessLog;
use shoal_proxy::exchange::shelf::{Limits, Shelf};
use shoal_proxy::exchange::{Epochs, Exchange, Front, Live, Parts};
use shoal_proxy::io_pool::IoPool;
use shoal_proxy::message::Client;
use shoal_proxy::metrics::Metrics;
use shoal_proxy::server::Detached;
use shoal_proxy::upstream::Upstreams;
use shoal_settings::{Listen, Log, Settings, Site};
use shoal_store::memory::{Ledger, MemoryTier};
use std::io::{self, BufRead, BufReader, IoSlice, Write};
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::SystemTime;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Runtime;

/// A proxy in front of an origin whose every answer is the same.
pub struct Rig {
    runtime: Runtime,
    server: Detached<Front>,
    /// The proxy's counters.
    pub metrics: Arc<Metrics>,
}

impl Rig {
    /// A proxy that logs as `log` says, before an origin that answers with so many bytes and this Cache-Control.
    pub fn start(log: Log, answer: (usize, &str)) -> Self {
        let mut settings = Settings { log, workers: 1, ..Settings::default() };
        settings.listen = vec![Listen::reverse(CLIENT)];
        settings.site = vec![Site::to(&format!("http://{}", origin(answer)))];
        let metrics = Arc::new(Metrics::default());
        let ledger = Ledger::new(settings.cache.ram.0);
        let memory = MemoryTier::new(Arc::clone(&ledger), 64, SEED);
        let pools = vec![Arc::new(IoPool::new(1, 1).expect("a thread"))];
        let limits = Limits { memory_object_max: settings.cache.ram_object_max.0, disk_object_max: 0 };
        let exchange = Exchange::new(Parts {
            live: Live::new(&settings, &[], SEED).expect("valid settings"),
            shelf: Arc::new(Shelf::new((memory, ledger, None), None, pools, Arc::clone(&metrics), limits)),
            epochs: Epochs::volatile(),
            upstreams: Arc::new(Upstreams::new(&settings, Arc::clone(&metrics)).expect("upstreams")),
            metrics: Arc::clone(&metrics),
            log: AccessLog::open(&settings.log, Arc::clone(&metrics)).expect("the log opens"),
        });
        let server = Detached::new(Arc::new(Front(exchange)), Arc::clone(&metrics), &settings.client);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { runtime, server, metrics }
    }

    /// Sends `request` so many times on one connection and returns the bytes of the replies.
    pub fn ask(&self, request: &[u8], times: u64) -> u64 {
        let taken = Arc::new(AtomicU64::new(0));
        let script =
            Script { request: request.into(), left: times, unanswered: false, taken: Arc::clone(&taken) };
        let client = Client { address: CLIENT, local: CLIENT, listener: 0, tls: false, server_name: None };
        self.runtime.block_on(self.server.serve(script, client));
        taken.load(Relaxed)
    }
}

/// A client that says the same as soon as it has been answered.
struct Script {
    request: Box<[u8]>,
    left: u64,
    /// A request was read whose reply has not begun.
    unanswered: bool,
    taken: Arc<AtomicU64>,
}

impl Script {
    fn take(&mut self, bytes: usize) -> Poll<io::Result<usize>> {
        self.unanswered = false;
        self.taken.fetch_add(bytes as u64, Relaxed);
        Poll::Ready(Ok(bytes))
    }
}

impl AsyncRead for Script {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Asked while a request is under way, it is a client that says nothing and stays: the reply's task wakes this one.
        if self.unanswered {
            return Poll::Pending;
        }
        if self.left > 0 {
            self.left -= 1;
            self.unanswered = true;
            buffer.put_slice(&self.request);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Script {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.take(bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.take(slices.iter().map(|slice| slice.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Starts an origin on a thread of its own; it ends with the process.
fn origin((body_bytes, cache_control): (usize, &str)) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback is there");
    let address = listener.local_addr().expect("bound");
    let now = SystemTime::now();
    let date = shoal_semantics::date::format(Timestamp::from_system(now));
    let head = format!(
        "HTTP/1.1 200 OK\r\nDate: {}\r\nContent-Type: application/octet-stream\r\nETag: \"{body_bytes}-1\"\r\n\
         Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\nCache-Control: {cache_control}\r\n\
         Content-Length: {body_bytes}\r\n\r\n",
        date.to_str().expect("ASCII"),
    );
    let reply = [head.as_bytes(), &vec![b'x'; body_bytes]].concat();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepted");
            let mut lines = BufReader::new(stream.try_clone().expect("a handle")).lines();
            while lines.by_ref().map_while(Result::ok).any(|line| line.is_empty()) {
                stream.write_all(&reply).expect("the proxy reads");
            }
        }
    });
    address
}

const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 40_000);

/// Fixed, so that every run does the same.
const SEED: u64 = 5;
