//! A proxy with a connection loop fed from memory, for counting a hit's allocations and
//! instructions.
//!
//! Everything is the product's: the loops of both protocols, the exchange, the RAM tier, metrics
//! and access log. Only the client's socket is replaced by [`Script`]. It supplies the same request
//! again and again, one per read, and counts the replies. Alternatively the socket is one of
//! loopback, on which a connection waits without a task. The client's work is then counted too.

use shoal_cache::hybrid_cache::{HybridCache, ObjectSizeLimits};
use shoal_cache::io_pool::IoPool;
use shoal_cache::purge_table::PurgeTable;
use shoal_core::Timestamp;
use shoal_exchange::{CacheEngine, CacheEngineParts, CacheHandler, ExchangeSettings};
use shoal_http2::{self as http2, END_HEADERS, END_STREAM, FrameHead, FrameKind};
use shoal_memory::{MemoryBudget, MemoryTier};
use shoal_message::Client;
use shoal_peers::cluster::ClusterHandle;
use shoal_peers::cluster::shared_memory::CpuTime;
use shoal_server::StreamServer;
use shoal_settings::{Listen, Log, Mirror, MirrorKind, Rule, Settings, Site};
use shoal_telemetry::access_log::AccessLog;
use shoal_telemetry::metrics::Metrics;
use shoal_telemetry::per_core::own_place;
use shoal_upstream::Upstreams;
use std::io::{self, BufRead, BufReader, IoSlice, Write};
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::SystemTime;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

/// A proxy in front of an origin with one constant answer.
pub struct Rig {
    /// Runtime of the connection loops.
    pub runtime: Runtime,
    /// Connection loops of the proxy.
    pub server: Arc<StreamServer<CacheHandler>>,
    /// Counters of the proxy.
    pub metrics: Arc<Metrics>,
    /// Bytes in the body of each reply.
    body_bytes: usize,
}

impl Rig {
    /// Starts a proxy with this log and these rules. Its origin answers with this number of bytes
    /// and this Cache-Control.
    pub fn start(log: Log, answer: (usize, &str), rule: Vec<Rule>) -> Self {
        let mut settings = Settings { log, rule, ..Settings::default() };
        settings.site = vec![Site::to(&format!("http://{}", origin(answer)))];
        Self::with(settings, answer.0)
    }

    /// Starts a proxy with a mirror of this kind at `/m`. Its registry answers with this body of
    /// this content type.
    #[allow(dead_code, reason = "one of the programs with this rig has no mirror")]
    pub fn start_mirror(kind: MirrorKind, log: Log, (content_type, body): (&str, &str)) -> Self {
        let mut settings = Settings { log, ..Settings::default() };
        let registry = origin_of(content_type, "max-age=86400", body.as_bytes().to_vec());
        let upstream = format!("http://{registry}");
        settings.mirror = vec![Mirror { name: Some("m".into()), ..Mirror::of(kind, &upstream) }];
        Self::with(settings, body.len())
    }

    /// Starts a proxy that holds pages of the other nodes of `cluster`, which these settings name.
    #[allow(dead_code, reason = "one of the programs with this rig has no cluster")]
    pub fn start_holder(settings: Settings, cluster: &Arc<ClusterHandle>) -> Self {
        Self::in_cluster(settings, 0, Some(cluster))
    }

    fn with(settings: Settings, body_bytes: usize) -> Self {
        Self::in_cluster(settings, body_bytes, None)
    }

    fn in_cluster(mut settings: Settings, body_bytes: usize, cluster: Option<&Arc<ClusterHandle>>) -> Self {
        // A worker does the same.
        own_place();
        settings.workers = 1;
        settings.listen = vec![Listen::reverse(CLIENT)];
        let metrics = Arc::new(Metrics::default());
        let ledger = MemoryBudget::new(settings.cache.ram.0);
        let memory = MemoryTier::new(Arc::clone(&ledger), 64);
        let pools = vec![Arc::new(IoPool::new(1, 1).expect("a thread"))];
        let limits =
            ObjectSizeLimits { memory_object_max: settings.cache.ram_object_max.0, disk_object_max: 0 };
        let objects =
            Arc::new(HybridCache::new((memory, ledger, None), None, pools, Arc::clone(&metrics), limits));
        if let Some(cluster) = cluster {
            let parts = (&settings, &metrics, Box::new(|| None) as CpuTime);
            cluster.start_memory(&objects, parts).expect("a thread");
        }
        let exchange = CacheEngine::new(CacheEngineParts {
            cluster: cluster.cloned(),
            neighbours: None,
            challenges: Arc::default(),
            live: ExchangeSettings::new(&settings, &[], SEED).expect("valid settings"),
            objects,
            purge_table: Arc::new(PurgeTable::in_memory(shoal_core::Timestamp::from_seconds(10))),
            upstreams: Arc::new(Upstreams::new(&settings, Arc::clone(&metrics)).expect("upstreams")),
            metrics: Arc::clone(&metrics),
            log: AccessLog::open(&settings.log, Arc::clone(&metrics)).expect("the log opens"),
        });
        let server =
            StreamServer::new(Arc::new(CacheHandler(exchange)), Arc::clone(&metrics), &settings.client);
        let server = Arc::new(server);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { runtime, server, metrics, body_bytes }
    }

    /// Sends `request` `times` times on one connection and returns the bytes of the replies.
    pub fn ask(&self, request: &[u8], times: u64) -> u64 {
        let (script, taken) = Script::new(request.into(), None, times);
        self.runtime.block_on(self.server.serve(script, client()));
        taken.load(Relaxed)
    }

    /// Sends the requests over a socket; its connection waits without a task. All must be hits.
    pub fn ask_waiting(&self, request: &[u8], times: u64) -> u64 {
        self.ask_together(request, 1, times)
    }

    /// Sends the requests over `callers` sockets, `times` on each. Each time all callers send
    /// before one is answered.
    pub fn ask_together(&self, request: &[u8], callers: usize, times: u64) -> u64 {
        let (near, far): (Vec<_>, Vec<_>) = (0..callers).map(|_| connected()).unzip();
        self.runtime.block_on(async {
            let serving = self.server.serve_all_waiting(near, client());
            let taken = tokio::select! {
                () = serving => panic!("it serves until it is dropped"),
                taken = self.asking(far, request, times) => taken,
            };
            // A connection that needed a task ends with the task.
            while self.metrics.connections_open.value() > 0 {
                tokio::task::yield_now().await;
            }
            taken
        })
    }

    async fn asking(&self, callers: Vec<std::net::TcpStream>, request: &[u8], times: u64) -> u64 {
        let watched = |caller| TcpStream::from_std(caller).expect("a socket");
        let mut callers: Vec<_> = callers.into_iter().map(watched).collect();
        for caller in &callers {
            caller.writable().await.expect("it is open");
        }
        let (mut reply, mut taken) = (Vec::with_capacity(self.body_bytes + 4096), 0);
        // All replies are alike.
        let mut content_bytes = None;
        for _ in 0..times {
            for caller in &callers {
                assert_eq!(caller.try_write(request).ok(), Some(request.len()), "there is room for it");
            }
            for caller in &mut callers {
                reply.clear();
                while !content_bytes.is_some_and(|bytes| is_whole(&reply, bytes)) {
                    assert!(caller.read_buf(&mut reply).await.expect("a reply") > 0, "it goes on");
                    content_bytes = content_bytes.or_else(|| content_bytes_of(&reply, request));
                }
                taken += reply.len() as u64;
            }
        }
        taken
    }

    /// Sends the requests over HTTP/2, each on its own stream. `request` is in the format of
    /// HTTP/1. Its fields are sent like by a client with a field table: in full the first time, and
    /// as one byte each from then on.
    pub fn ask_http2(&self, request: &str, times: u64) -> u64 {
        let fields = fields_of(request);
        // RFC 7541 sections 6.2.1 and 6.1: literals that enter the table, and then their indexes,
        // the newest first.
        let mut full = Vec::new();
        for (name, value) in &fields {
            full.push(0x40);
            for text in [name, value] {
                let length = u8::try_from(text.len()).ok().filter(|length| *length < 127).expect("short");
                full.push(length);
                full.extend_from_slice(text.as_bytes());
            }
        }
        let places: Vec<u8> = (0..fields.len()).rev().map(|place| 0x80 | (62 + place) as u8).collect();
        let begin =
            [http2::PREFACE, &frame(FrameKind::Settings, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff])].concat();
        let mut wide = Vec::new();
        http2::write_window_update(&mut wide, 0, 0x7000_0000);
        let first = [begin, wide, frame(FrameKind::Headers, END_STREAM | END_HEADERS, 1, &full)].concat();
        let again = frame(FrameKind::Headers, END_STREAM | END_HEADERS, 1, &places);
        let (script, taken) = Script::new(first.into(), Some(again), times);
        self.runtime.block_on(self.server.serve_http2(script, client()));
        taken.load(Relaxed)
    }
}

/// Returns two ends of a connection, which never block: the server's and its client's.
pub fn connected() -> (std::net::TcpStream, std::net::TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback is there");
    let far = std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    let (near, _) = listener.accept().expect("it connects");
    for socket in [&near, &far] {
        socket.set_nonblocking(true).expect("a socket");
    }
    (near, far)
}

/// Returns `true` if `reply` is complete, with `body_bytes` bytes of body.
pub fn is_whole(reply: &[u8], body_bytes: usize) -> bool {
    let head = reply.windows(4).position(|window| window == b"\r\n\r\n");
    head.is_some_and(|head| reply.len() >= head + 4 + body_bytes)
}

/// Returns the number of bytes after the head of `reply`, once the head is complete, for this
/// request.
fn content_bytes_of(reply: &[u8], request: &[u8]) -> Option<usize> {
    let head = reply.windows(4).position(|window| window == b"\r\n\r\n")?;
    let mut lines = std::str::from_utf8(&reply[..head]).expect("ASCII").lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    Some(length.filter(|_| !request.starts_with(b"HEAD")).unwrap_or(0))
}

/// Returns the client of all requests.
pub fn client() -> Client {
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

fn frame(kind: FrameKind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    [&FrameHead::of(kind, flags, stream, payload.len()).to_bytes()[..], payload].concat()
}

/// Returns the HTTP/2 fields of an HTTP/1 request.
fn fields_of(request: &str) -> Vec<(String, String)> {
    let mut lines = request.lines();
    let mut words = lines.next().expect("a request line").split(' ');
    let (method, target) = (words.next().expect("a method"), words.next().expect("a target"));
    let mut fields: Vec<_> = [(":method", method), (":scheme", "http"), (":path", target)]
        .map(|(name, value)| (name.into(), value.into()))
        .into();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        match name.to_ascii_lowercase().as_str() {
            "host" => fields.insert(3, (":authority".into(), value.into())),
            "connection" => {}
            name => fields.push((name.into(), value.into())),
        }
    }
    fields
}

/// A client that repeats its request as soon as the reply has come.
struct Script {
    request: Box<[u8]>,
    /// Frame of the repeated request, without its stream number. HTTP/1 requests are all alike.
    again: Option<Vec<u8>>,
    asked: u32,
    left: u64,
    /// `true` while a request has no reply yet, or in HTTP/2 no complete reply. The client stays
    /// until then.
    unanswered: bool,
    frames: Frames,
    taken: Arc<AtomicU64>,
}

impl Script {
    /// Sends `request` `left` times, or `again` from the second time on. Also returns the counter
    /// of reply bytes.
    fn new(request: Box<[u8]>, again: Option<Vec<u8>>, left: u64) -> (Self, Arc<AtomicU64>) {
        let taken = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&taken);
        let frames = Frames::default();
        (Self { request, again, asked: 0, left, unanswered: false, frames, taken: counted }, taken)
    }

    fn ask(&mut self, buffer: &mut ReadBuf<'_>) {
        match &mut self.again {
            Some(frame) if self.asked > 0 => {
                let stream = 2 * self.asked + 1;
                frame[5..9].copy_from_slice(&stream.to_be_bytes());
                buffer.put_slice(frame);
            }
            _ => buffer.put_slice(&self.request),
        }
        self.asked += 1;
    }

    fn receive(&mut self, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let ended = pieces.iter().filter(|piece| self.frames.take(piece)).count();
        if self.again.is_none() || ended > 0 {
            self.unanswered = false;
        }
        let bytes = pieces.iter().map(|piece| piece.len()).sum();
        self.taken.fetch_add(bytes as u64, Relaxed);
        Poll::Ready(Ok(bytes))
    }
}

/// The frames that a server writes, in pieces of any size.
#[derive(Default)]
struct Frames {
    head: Vec<u8>,
    /// Bytes of payload still to come.
    left: usize,
    /// `true` if a stream ends with this payload.
    ends: bool,
}

impl Frames {
    /// Takes a piece. Returns `true` if a stream ended in it.
    fn take(&mut self, mut piece: &[u8]) -> bool {
        let mut ended = false;
        while !piece.is_empty() {
            if self.left > 0 {
                let payload = piece.len().min(self.left);
                self.left -= payload;
                piece = &piece[payload..];
            } else {
                let (head, rest) = piece.split_at(piece.len().min(9 - self.head.len()));
                self.head.extend_from_slice(head);
                piece = rest;
                let Some(head) = FrameHead::read(&self.head) else { break };
                self.head.clear();
                self.left = head.length;
                self.ends = head.kind <= FrameKind::Headers as u8 && head.flags & END_STREAM != 0;
            }
            ended |= self.left == 0 && std::mem::take(&mut self.ends);
        }
        ended
    }
}

impl AsyncRead for Script {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // During a request, the client sends nothing and stays: the reply's task wakes this one.
        if self.unanswered {
            return Poll::Pending;
        }
        if self.left > 0 {
            self.left -= 1;
            self.unanswered = true;
            self.ask(buffer);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Script {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.receive(&[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.receive(slices)
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

/// Starts an origin on its own thread; it ends with the process.
fn origin((body_bytes, cache_control): (usize, &str)) -> SocketAddr {
    origin_of("application/octet-stream", cache_control, vec![b'x'; body_bytes])
}

fn origin_of(content_type: &str, cache_control: &str, body: Vec<u8>) -> SocketAddr {
    let body_bytes = body.len();
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback is there");
    let address = listener.local_addr().expect("bound");
    let now = SystemTime::now();
    let date = shoal_semantics::date::format(Timestamp::from_system(now));
    let head = format!(
        "HTTP/1.1 200 OK\r\nDate: {}\r\nContent-Type: {content_type}\r\nETag: \"{body_bytes}-1\"\r\n\
         Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\nCache-Control: {cache_control}\r\n\
         Content-Length: {body_bytes}\r\n\r\n",
        date.to_str().expect("ASCII"),
    );
    let reply = [head.as_bytes(), &body].concat();
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

/// Fixed, so that every run is equal.
const SEED: u64 = 5;
