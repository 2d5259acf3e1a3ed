//! Digest of this node: which URLs it may hold, built now and then.
//!
//! The disk's index holds hashes of keys and no URLs. So the RAM tier is looked at once a minute.
//! The URLs seen there are remembered with their expiry, in a table of bounded size. A digest
//! is built of those that are still fresh and still in RAM or on disk. Objects that never were in
//! RAM when it was looked at are missing; a neighbour then asks elsewhere.

use bytes::Bytes;
use http_body::{Body, Frame};
use shoal_core::{ObjectKey, Timestamp};
use shoal_neighbours::digest::{CacheDigest, DIGEST_HEAD_BYTES, DigestKey};
use std::collections::HashMap;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// A digest that was built.
pub struct OwnDigest {
    /// Bytes of the digest.
    pub bytes: Bytes,
    /// Time at which it was built.
    pub built: Timestamp,
    /// Time of the next one.
    pub expires: Timestamp,
}

/// URLs seen in the RAM tier.
pub(super) struct SeenObjects {
    seen: HashMap<ObjectKey, SeenObject>,
    limit: usize,
}

/// One URL.
#[derive(Clone, Copy)]
pub struct SeenObject {
    /// Key in the digest.
    pub key: DigestKey,
    /// End of its freshness.
    pub fresh_until: Timestamp,
}

impl SeenObjects {
    /// Makes an empty table of at most `limit` URLs.
    pub fn new(limit: usize) -> Self {
        Self { seen: HashMap::new(), limit }
    }

    /// Notes objects that are in RAM now. In a full table known ones are renewed only.
    pub fn note(&mut self, objects: impl IntoIterator<Item = (ObjectKey, SeenObject)>) {
        for (key, object) in objects {
            if self.seen.len() < self.limit || self.seen.contains_key(&key) {
                self.seen.insert(key, object);
            }
        }
        debug_assert!(self.seen.len() <= self.limit, "the table is bounded");
    }

    /// Drops URLs that expire before `until` or are not held any more.
    pub fn keep(&mut self, until: Timestamp, is_held: impl Fn(&ObjectKey) -> bool) {
        self.seen.retain(|key, object| object.fresh_until > until && is_held(key));
    }

    /// Builds the digest of the URLs in the table.
    pub fn digest(&self) -> CacheDigest {
        // Room for a tenth more keeps the share of wrong answers as Squid has it.
        let mut digest = CacheDigest::with_capacity(self.seen.len() + self.seen.len() / 10);
        self.seen.values().for_each(|object| digest.insert(&object.key));
        digest
    }
}

/// Body of a digest: its head, a pause, its mask.
///
/// Squid before version 7 corrupts the mask if it comes in one read with earlier bytes (Squid bug
/// 5510). So the head of the response, the head of the digest and the mask arrive apart.
pub struct PacedBody {
    pieces: VecDeque<Bytes>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl PacedBody {
    /// Makes the body of a digest.
    pub fn new(digest: &Bytes) -> Self {
        let mut mask = digest.clone();
        debug_assert!(mask.len() > DIGEST_HEAD_BYTES, "a digest has a mask");
        let head = mask.split_to(DIGEST_HEAD_BYTES.min(mask.len()));
        Self { pieces: [head, mask].into(), pause: None }
    }
}

impl Body for PacedBody {
    type Data = Bytes;
    type Error = crate::message::BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.pieces.is_empty() {
            return Poll::Ready(None);
        }
        let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(PAUSE)));
        if pause.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.pause = None;
        Poll::Ready(self.pieces.pop_front().map(|piece| Ok(Frame::data(piece))))
    }
}

/// Pause between the pieces, measured on Debian's Squid.
const PAUSE: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_neighbours::digest::digest_key;

    #[test]
    fn table_is_bounded_and_forgets() {
        let object = |number: u64| {
            let url = format!("http://a.test/{number}");
            let seen = SeenObject { key: digest_key(&url), fresh_until: Timestamp::from_seconds(number) };
            (ObjectKey::new(url.into_bytes()), seen)
        };
        let mut table = SeenObjects::new(100);
        table.note((1..=200).map(object));
        assert_eq!(table.digest().entries(), 100);
        table.keep(Timestamp::from_seconds(50), |key| !key.full().ends_with(b"7"));
        assert_eq!(table.digest().entries(), 45);
        let digest = table.digest();
        assert!(digest.contains(&object(51).1.key));
        assert!(!table.seen.contains_key(&object(50).0));
    }
}
