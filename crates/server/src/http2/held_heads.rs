//! Memory limits on request heads until their reply, and on trailers until they are read.
//!
//! HPACK can expand a few bytes that name table entries into a head of 64 KiB (RFC 7541, section
//! 7.3). A stream keeps its head while an origin is asked. One connection may therefore hold
//! [`OF_CONNECTION`] bytes of heads, and all connections together [`OF_ALL`]. Requests beyond
//! either limit are refused. Hits on the fast path hold no head.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes held by the streams of one connection.
#[derive(Clone, Default)]
pub(crate) struct HeldHeads(Arc<AtomicUsize>);

/// Share of one stream, released when dropped.
pub(crate) struct HeldHead {
    connection: Arc<AtomicUsize>,
    bytes: usize,
}

impl HeldHeads {
    /// Reserves memory for a head with `text_bytes` bytes of names and values. Returns `None` if a
    /// limit is reached.
    pub fn hold(&self, text_bytes: usize) -> Option<HeldHead> {
        let held = HeldHead { connection: Arc::clone(&self.0), bytes: text_bytes };
        // Counted first; dropping `held` releases a share that exceeds a limit.
        let of_connection = self.0.fetch_add(text_bytes, Relaxed) + text_bytes;
        let of_all = ALL.fetch_add(text_bytes, Relaxed) + text_bytes;
        (of_connection <= OF_CONNECTION && of_all <= OF_ALL).then_some(held)
    }
}

impl Drop for HeldHead {
    fn drop(&mut self) {
        let of_connection = self.connection.fetch_sub(self.bytes, Relaxed);
        debug_assert!(of_connection >= self.bytes);
        let of_all = ALL.fetch_sub(self.bytes, Relaxed);
        debug_assert!(of_all >= self.bytes, "more is given back than was held");
    }
}

/// Bytes held by all streams of the process.
static ALL: AtomicUsize = AtomicUsize::new(0);

/// Limit per connection: 16 of the largest heads by default, or the heads of 1,700 browsers.
const OF_CONNECTION: usize = 1 << 20;

/// Limit of the process: 64 times a connection's limit.
const OF_ALL: usize = 64 << 20;

const _: () = assert!(OF_CONNECTION <= OF_ALL);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_holds_its_share_and_gets_it_back() {
        let (one, other) = (HeldHeads::default(), HeldHeads::default());
        let held: Vec<_> = (0..16).map(|_| one.hold(OF_CONNECTION / 16)).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(one.hold(1).is_none() && one.hold(OF_ALL + 1).is_none());
        assert!(other.hold(OF_CONNECTION).is_some(), "another connection has its own");
        drop(held);
        assert!(one.hold(OF_CONNECTION).is_some());
        assert_eq!(one.0.load(Relaxed), 0);
    }
}
