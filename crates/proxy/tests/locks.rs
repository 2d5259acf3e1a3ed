//! While a hit in RAM is written to its client, no lock is held that other threads need.
//!
//! Other threads are served the same object and store a new one in its place, and the access log's
//! writer takes earlier lines. The locks in question belong to the RAM tier, to the ledger, and to
//! a place of the log.
//!
//! A client in memory starts the others while the connection loop writes to it. On a blocking
//! socket, a thread is kept within the system call that sends. The hits are copied ones and ones
//! with lent bodies.

#[path = "hits/rig.rs"]
mod rig;

use rig::{Rig, client, connected, is_whole};
use shoal_exchange::CacheHandler;
use shoal_memory::LENT_MIN;
use shoal_server::StreamServer;
use shoal_settings::{Log, LogFormat};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::runtime::{Builder, Handle};

const PLAIN: &str = "GET /a HTTP/1.1\r\nHost: example.org\r\n\r\n";

/// Asks the origin, and has its answer stored in place of the old one.
const ANEW: &str = "GET /a HTTP/1.1\r\nHost: example.org\r\nCache-Control: no-cache\r\n\r\n";

#[test]
fn no_lock_is_held_while_a_hit_is_written() {
    let (rig, others) = start(1024);
    let metrics = Arc::clone(&rig.metrics);
    let meddler = Meddler { others, asks: Some(PLAIN.repeat(2)), written: 0 };
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(rig.server.serve(meddler, client()));
    assert_eq!(metrics.hits_memory.value(), 3, "two that are written to the meddler, and what it asks for");
    assert_eq!(metrics.misses.value() + metrics.refresh_modified.value(), 2, "it is stored anew");
    rig.ask(PLAIN.as_bytes(), 1);
    rig.ask_http2(PLAIN, 1);
    rig.ask_waiting(PLAIN.as_bytes(), 1);
    assert_eq!(metrics.hits_memory.value(), 6);
}

/// The cases are a small hit, the longest body that is copied, the shortest that is lent, and a
/// body that a task lends. The small hit waits until others' hits are sent. In the last two cases
/// the head waits for room while the body is already in the pipe.
#[test]
fn no_lock_is_held_in_send() {
    for body_bytes in [8192, LENT_MIN - 1, LENT_MIN, 100_000] {
        let (rig, others) = start(body_bytes);
        let (near, mut far) = connected();
        far.set_nonblocking(false).expect("a socket");
        let mut server_end = near.try_clone().expect("a handle");
        let (server, thread) = (Arc::clone(&rig.server), running());
        thread.spawn(async move { server.serve_waiting(near, client()).await });
        let ask = |far: &mut TcpStream| far.write_all(PLAIN.as_bytes()).expect("it is read");
        ask(&mut far);
        read_reply(&mut far, body_bytes);
        // From here on the thread stays within the sending call until the client reads.
        let mut filled = fill(&mut server_end);
        server_end.set_nonblocking(false).expect("a socket");
        ask(&mut far);
        let until = Instant::now() + PATIENCE;
        while !is_stuck_while(&thread, || others.meddle(2)) {
            assert!(Instant::now() < until, "it is kept in the call");
        }
        while filled > 0 {
            let room = &mut [0; 4096];
            let most = room.len().min(filled);
            filled -= far.read(&mut room[..most]).expect("what it was filled with");
        }
        read_reply(&mut far, body_bytes);
        assert_eq!(rig.metrics.log_lines_dropped.value(), 0);
    }
}

/// Starts a proxy with a log and bodies of this size, and other clients. One of them has been
/// answered once, so that the response is in RAM.
fn start(body_bytes: usize) -> (Rig, Others) {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    let access = log.display().to_string();
    let rig = Rig::start(
        Log { access, format: LogFormat::Json, ..Log::default() },
        (body_bytes, "max-age=86400"),
        Vec::new(),
    );
    let others =
        Others { server: Arc::clone(&rig.server), runtime: running(), body_bytes, log, _folder: folder };
    others.ask(PLAIN);
    (rig, others)
}

/// Writes until there is no more room. Returns the number of bytes.
fn fill(socket: &mut TcpStream) -> usize {
    let (mut filled, mut last) = (0, Instant::now());
    // Data that has arrived meanwhile may have made room.
    while last.elapsed() < Duration::from_millis(250) {
        match socket.write(&[0; 1 << 16]) {
            Ok(count) => (filled, last) = (filled + count, Instant::now()),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    filled
}

fn read_reply(far: &mut TcpStream, body_bytes: usize) {
    let mut reply = Vec::new();
    while !is_whole(&reply, body_bytes) {
        let mut piece = [0; 1 << 16];
        let count = far.read(&mut piece).expect("a reply");
        assert!(count > 0, "it goes on");
        reply.extend_from_slice(&piece[..count]);
    }
    assert!(reply.starts_with(b"HTTP/1.1 200 OK"));
}

/// Returns `true` if a thread made no progress from before `doing` until after it. Returns `false`
/// if the thread was not blocked at the start.
fn is_stuck_while(thread: &Handle, doing: impl FnOnce()) -> bool {
    let other = thread.spawn(async {});
    std::thread::sleep(Duration::from_millis(100));
    if other.is_finished() {
        return false;
    }
    doing();
    !other.is_finished()
}

/// Clients served on another thread, and the log.
struct Others {
    server: Arc<StreamServer<CacheHandler>>,
    runtime: Handle,
    body_bytes: usize,
    log: PathBuf,
    _folder: TempDir,
}

impl Others {
    /// Uses the locks: asks for the object, has it stored anew, and reads the log. The log has
    /// `lines` lines, or will have them.
    fn meddle(&self, lines: usize) {
        for request in [PLAIN, ANEW] {
            self.ask(request);
        }
        let until = Instant::now() + PATIENCE;
        // The log has the lines of these two requests too.
        while std::fs::read_to_string(&self.log).expect("a log").lines().count() < lines + 2 {
            assert!(Instant::now() < until, "the log is written while a hit is");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks, and waits until the reply is complete.
    fn ask(&self, request: &'static str) {
        let (told, heard) = mpsc::channel();
        let (server, body_bytes) = (Arc::clone(&self.server), self.body_bytes);
        self.runtime.spawn(async move {
            let (mut near, far) = tokio::io::duplex(1 << 16);
            let asking = async move {
                near.write_all(request.as_bytes()).await.expect("it is read");
                let mut reply = Vec::new();
                while !is_whole(&reply, body_bytes) {
                    assert!(near.read_buf(&mut reply).await.expect("a reply") > 0, "it goes on");
                }
                reply
            };
            let reply = tokio::join!(server.serve(far, client()), asking).1;
            told.send(reply).expect("it is waited for");
        });
        let reply = heard.recv_timeout(PATIENCE);
        let reply = reply.expect("others are served while one is written to");
        assert!(reply.starts_with(b"HTTP/1.1 200 OK"), "{request}");
    }
}

/// Starts a runtime on its own thread, which ends with the process.
fn running() -> Handle {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
}

/// A client that sends several requests at once. While the second reply is written to it, other
/// clients are served.
struct Meddler {
    others: Others,
    asks: Option<String>,
    written: u32,
}

impl AsyncRead for Meddler {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(request) = self.asks.take() {
            buffer.put_slice(request.as_bytes());
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Meddler {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.written += 1;
        if self.written == 2 {
            // The line of the request that stored the object, and the line of the first reply.
            self.others.meddle(2);
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Longer than any step here takes.
const PATIENCE: Duration = Duration::from_secs(20);
