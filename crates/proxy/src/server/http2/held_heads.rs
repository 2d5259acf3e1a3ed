//! Memory of request heads that streams hold until they are answered, and of trailers until they
//! are read: bounded for a connection and for all.
//!
//! HPACK makes a head of 64 KiB out of the few bytes that name entries of a table (RFC 7541,
//! section 7.3), and a stream keeps its head while an origin is asked. So a connection may hold
//! [`OF_CONNECTION`] of them, and all together [`OF_ALL`]; a request beyond that is refused. Hits
//! that are answered where they were read hold none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What the streams of one connection hold.
#[derive(Default)]
pub(super) struct HeldHeads(Arc<AtomicUsize>);

/// The share of one stream; it is given back when dropped.
pub(super) struct HeldHead {
    connection: Arc<AtomicUsize>,
    bytes: usize,
}

impl HeldHeads {
    /// A share for a head whose names and values have so many bytes; `None` when a limit is
    /// reached.
    pub fn hold(&self, text_bytes: usize) -> Option<HeldHead> {
        let held = HeldHead { connection: Arc::clone(&self.0), bytes: text_bytes };
        // Counted first, and given back by the drop of what is too much.
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

/// What all streams of the process hold.
static ALL: AtomicUsize = AtomicUsize::new(0);

/// Sixteen of the largest heads by default, or those of 1,700 browsers.
const OF_CONNECTION: usize = 1 << 20;

/// A connection's share 64 times.
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
