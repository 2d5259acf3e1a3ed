//! While a hit in RAM is written to its client no lock is held, of the RAM tier's, the log's or any: another thread does as it
//! likes meanwhile, with the very same object too.

#[path = "hits/rig.rs"]
mod rig;

use rig::{Rig, client};
use shoal_proxy::exchange::Front;
use shoal_proxy::server::Detached;
use shoal_settings::{Log, LogFormat};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::runtime::{Builder, Handle};

const PLAIN: &str = "GET /a HTTP/1.1\r\nHost: example.org\r\n\r\n";

/// Asks the origin, and has what it says stored in the place of what is.
const ANEW: &str = "GET /a HTTP/1.1\r\nHost: example.org\r\nCache-Control: no-cache\r\n\r\n";

#[test]
fn no_lock_is_held_while_a_hit_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let access = folder.path().join("access.log").display().to_string();
    let rig = Rig::start(Log { access, format: LogFormat::Json, ..Log::default() }, (1024, "max-age=86400"));
    let others = Others { server: Arc::clone(&rig.server), runtime: running() };
    others.ask(PLAIN);
    let meddler = Meddler { others, asks: Some(PLAIN), meddled: false };
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(rig.server.serve(meddler, client()));
    assert_eq!(rig.metrics.hits_memory.value(), 2, "what is written to the meddler, and what it asks for");
    assert_eq!(rig.metrics.misses.value() + rig.metrics.refresh_modified.value(), 2, "it is stored anew");
    rig.ask(PLAIN.as_bytes(), 1);
    rig.ask_http2(PLAIN, 1);
    rig.ask_waiting(PLAIN.as_bytes(), 1);
    assert_eq!(rig.metrics.hits_memory.value(), 5);
}

/// Clients that are served on a thread of their own.
struct Others {
    server: Arc<Detached<Front>>,
    runtime: Handle,
}

impl Others {
    /// Asks, and waits until the reply is there.
    fn ask(&self, request: &'static str) {
        let (told, heard) = mpsc::channel();
        let server = Arc::clone(&self.server);
        self.runtime.spawn(async move {
            let (mut near, far) = tokio::io::duplex(1 << 16);
            let asking = async move {
                near.write_all(request.as_bytes()).await.expect("it is read");
                let mut reply = vec![0; 1 << 16];
                let bytes = near.read(&mut reply).await.expect("a reply");
                reply.truncate(bytes);
                reply
            };
            let reply = tokio::join!(server.serve(far, client()), asking).1;
            told.send(reply).expect("it is waited for");
        });
        let reply = heard.recv_timeout(Duration::from_secs(20));
        let reply = reply.expect("others are served while one is written to");
        assert!(reply.starts_with(b"HTTP/1.1 200 OK"), "{request}");
    }
}

/// A runtime at work on a thread of its own, which ends with the process.
fn running() -> Handle {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
}

/// A client that, while it is written to, has others served.
struct Meddler {
    others: Others,
    asks: Option<&'static str>,
    meddled: bool,
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
        if !std::mem::replace(&mut self.meddled, true) {
            for request in [PLAIN, ANEW] {
                self.others.ask(request);
            }
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
