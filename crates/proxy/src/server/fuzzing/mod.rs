//! What the fuzz targets of connections drive: a whole connection in memory, against a client that
//! keeps account.
//!
//! ```text
//!   bytes ──► script ──► Peer ──► the connection ──► Answers
//!                         │  ◄──     (all of it)
//!                         ▼
//!                      account: what each side has said, and whether it might
//! ```
//!
//! Any bytes are a script: what a sound client says, what is wrong in every way, and bytes of any
//! kind, in reads and writes of any length, with pauses in which the client takes nothing. Whatever
//! comes, the server keeps to the rules of the account, which the modules of the two protocols say;
//! it leaves a record of each request, and comes to an end.

mod answers;
mod http1;
mod http2;
mod input;
mod peer;
mod ways;

use super::Shared;
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

pub use ways::hit_ways;

/// Serves one connection of HTTP/1 to the client that `data` scripts.
///
/// # Panics
/// When the server breaks a rule.
pub fn http1_connection(data: &[u8]) {
    run(http1::Scripted::new(data), async |server, peer, client| server.serve(peer, client).await);
}

/// The same of HTTP/2.
///
/// # Panics
/// When the server breaks a rule.
pub fn http2_connection(data: &[u8]) {
    run(http2::Scripted::new(data), async |server, peer, client| server.serve_http2(peer, client).await);
}

/// Has `serve` serve a connection to `player`.
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
    let Shared { drain, .. } = &*server.0;
    let side = Arc::new(Mutex::new(Side::new(player, Arc::clone(&answers), drain.clone())));
    let address = ([127, 0, 0, 1], 1).into();
    let client = Client { address, local: address, listener: 0, tls: false, server_name: None };
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

/// Small, so that a short script reaches them; and times that never pass.
fn limits() -> ClientLimits {
    ClientLimits {
        head_max: ByteCount(HEAD_MAX as u64),
        target_max: ByteCount(TARGET_MAX as u64),
        fields_max: FIELDS_MAX,
        h2_streams: STREAMS_MAX,
        ..ClientLimits::default()
    }
}

/// Tasks that panic take nobody along; so panics of this thread are counted where they happen.
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

/// Streams that a client of HTTP/2 may have open.
const STREAMS_MAX: u32 = 8;

/// Time for one connection, of which a thousandth is more than enough.
const TIME_MAX: Duration = Duration::from_secs(30);

/// Turns of every task in which something happens, if anything is to.
const TURNS_MAX: u32 = 500;

#[cfg(test)]
mod tests;
