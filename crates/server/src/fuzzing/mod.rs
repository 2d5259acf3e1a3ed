//! Fuzz targets of connections: a whole connection in memory, with a client that records and checks
//! it.
//!
//! ```text
//!   bytes ──► script ──► Peer ──► the connection ──► Answers
//!                         │  ◄──     (all of it)
//!                         ▼
//!                      account: bytes of each side, and checks
//! ```
//!
//! Any bytes are a script. It has steps of a sound client, errors of every kind, and arbitrary
//! bytes. Reads and writes have any length, and pauses stop the client's reading. For any input the
//! server must follow the rules in the modules of the two protocols. It must leave a record of each
//! request, and must end.

mod answers;
mod http1;
mod http2;
pub mod input;
mod peer;

use super::ServerState;
use super::detached::StreamServer;
use crate::message::Client;
use answers::Answers;
use parking_lot::Mutex;
use peer::{Peer, Player, Side};
use shoal_core::ByteCount;
use shoal_settings::ClientLimits;
use std::cell::Cell;
use std::sync::{Arc, Once};
use std::time::Duration;

pub use answers::body_byte;

/// Serves one HTTP/1 connection to the client scripted by `data`.
///
/// # Panics
/// Panics if the server breaks a rule.
pub fn http1_connection(data: &[u8]) {
    run(http1::Http1Player::new(data), async |server, peer, client| server.serve(peer, client).await);
}

/// Serves one HTTP/2 connection likewise.
///
/// # Panics
/// Panics if the server breaks a rule.
pub fn http2_connection(data: &[u8]) {
    run(http2::Http2Player::new(data), async |server, peer, client| server.serve_http2(peer, client).await);
}

/// Runs `serve` on a connection to `player`.
fn run<P: Player>(player: P, serve: impl AsyncFnOnce(&StreamServer<Answers>, Peer<P>, Client)) {
    note_panics();
    let before = PANICS.get();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let played = tokio::time::timeout(TIME_MAX, play(player, serve)).await;
        assert!(played.is_ok(), "the connection does not come to its end");
    });
    drop(runtime);
    assert_eq!(PANICS.get(), before, "a task panicked");
}

async fn play<P: Player>(player: P, serve: impl AsyncFnOnce(&StreamServer<Answers>, Peer<P>, Client)) {
    let answers = Arc::<Answers>::default();
    let server = StreamServer::new(Arc::clone(&answers), Arc::default(), &limits());
    let ServerState { drain, .. } = &*server.0;
    let side = Arc::new(Mutex::new(Side::new(player, Arc::clone(&answers), drain.clone())));
    let address = ([127, 0, 0, 1], 1).into();
    let client = Client {
        address,
        local: address,
        listener: 0,
        tls: false,
        server_name: None,
        certificate: None,
        intercepted: None,
    };
    serve(&server, Peer(Arc::clone(&side)), client).await;
    side.lock().check();
    for _ in 0..TURNS_MAX {
        if answers.are_settled() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("a request leaves no record: {answers:?}");
}

/// Returns limits small enough for a short script to reach, and times that never pass.
fn limits() -> ClientLimits {
    ClientLimits {
        head_max: ByteCount(HEAD_MAX as u64),
        target_max: ByteCount(TARGET_MAX as u64),
        fields_max: FIELDS_MAX,
        h2_streams: STREAMS_MAX,
        ..ClientLimits::default()
    }
}

/// Counts panics of this thread. A panicking task does not end the test by itself.
fn note_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.set(PANICS.get() + 1);
            hook(panic);
        }));
    });
}

thread_local! {
    static PANICS: Cell<u64> = const { Cell::new(0) };
}

/// Limits of a request's head.
const HEAD_MAX: usize = 4096;
const TARGET_MAX: usize = 1024;
const FIELDS_MAX: usize = 32;

/// Maximum number of open streams of an HTTP/2 client.
const STREAMS_MAX: u32 = 8;

/// Maximum time for one connection; a thousandth is enough.
const TIME_MAX: Duration = Duration::from_secs(30);

/// Number of turns within which the server must act.
const TURNS_MAX: u32 = 500;

#[cfg(test)]
mod tests;
