//! A registry's body on its way in: its last block is held back until the body has proved to be the
//! promised one.
//!
//! ```text
//!   origin ─► push: digest, length ─► held: one block ─► store and clients
//!                                          └─ end: agrees ─► the block; else the body breaks off
//! ```
//!
//! A body that breaks off is kept nowhere, and each client sees a cut connection.

use super::derived::malformed;
use super::inflated::Inflater;
use crate::message::{BodyError, StreamBody};
use crate::metrics::Metrics;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use shoal_mirrors::{Checker, Digest, Promise, Rewriter};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The check of a body.
pub enum BodyCheck {
    /// A file has this digest and size.
    File {
        /// Checks of the digests; all must agree.
        checkers: Vec<Checker>,
        /// Promised length.
        size: Option<u64>,
        /// Bytes so far.
        taken: u64,
    },
    /// A document can be read to its end.
    Document {
        /// Decoder of the document.
        inflater: Inflater,
        /// Reader of the document.
        rewriter: Box<dyn Rewriter + Send>,
        /// Output that nobody reads.
        unread: Vec<u8>,
    },
}

/// Reason for which a body is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// Another digest than promised.
    Digest,
    /// Another length than promised.
    Length,
    /// A malformed document.
    Document,
}

impl BodyCheck {
    /// Creates the check of a file. `None` if nothing is promised.
    pub fn of_file(promise: &Promise) -> Option<Self> {
        Self::of_digests(promise.digest.iter(), promise.size)
    }

    /// Creates the check of a file with these digests and this size. `None` if nothing is promised.
    pub fn of_digests<'d>(digests: impl Iterator<Item = &'d Digest>, size: Option<u64>) -> Option<Self> {
        let checkers: Vec<Checker> = digests.map(Digest::checker).collect();
        let promises = !checkers.is_empty() || size.is_some();
        promises.then_some(Self::File { checkers, size, taken: 0 })
    }

    /// Takes the next bytes of the body.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Mismatch> {
        match self {
            Self::File { checkers, size, taken } => {
                *taken += bytes.len() as u64;
                if size.is_some_and(|size| *taken > size) {
                    return Err(Mismatch::Length);
                }
                checkers.iter_mut().for_each(|checker| checker.push(bytes));
                Ok(())
            }
            Self::Document { inflater, rewriter, unread } => {
                let read = inflater.push(bytes, |plain| {
                    for piece in plain.chunks(STEP) {
                        unread.clear();
                        rewriter.push(piece, unread).map_err(malformed)?;
                    }
                    Ok(())
                });
                read.map_err(|_| Mismatch::Document)
            }
        }
    }

    /// Takes the end of the body.
    pub fn finish(self) -> Result<(), Mismatch> {
        match self {
            Self::File { size, taken, .. } if size.is_some_and(|size| size != taken) => Err(Mismatch::Length),
            Self::File { checkers, .. } => match checkers.into_iter().all(Checker::agrees) {
                true => Ok(()),
                false => Err(Mismatch::Digest),
            },
            Self::Document { mut inflater, mut rewriter, mut unread } => {
                let last = inflater.finish(|plain| rewriter.push(plain, &mut unread).map_err(malformed));
                last.and_then(|()| rewriter.finish(&mut unread).map_err(malformed))
                    .map_err(|_| Mismatch::Document)
            }
        }
    }
}

impl Mismatch {
    /// Counts the mismatch, and logs it.
    pub fn report(self, url: &str, metrics: &Metrics) {
        let (counter, what) = match self {
            Self::Digest => (&metrics.mirror_digest, "another digest than the index promises"),
            Self::Length => (&metrics.mirror_length, "another length than the index promises"),
            Self::Document => (&metrics.mirror_document, "a document that cannot be read to its end"),
        };
        counter.increment();
        tracing::warn!(url, "a registry sent {what}; nothing of it is kept");
    }

    /// Returns the mismatch in words.
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::Digest => "the body has another digest than its index promises",
            Self::Length => "the body has another length than its index promises",
            Self::Document => "the document is malformed",
        }
    }
}

/// A body under a check.
pub struct VerifiedBody {
    source: StreamBody,
    check: Option<BodyCheck>,
    held: Option<Bytes>,
    trailers: Option<HeaderMap>,
    url: Arc<str>,
    metrics: Arc<Metrics>,
}

impl VerifiedBody {
    /// Puts a body under a check; `url` is for the log.
    pub fn boxed(source: StreamBody, check: BodyCheck, url: Arc<str>, metrics: &Arc<Metrics>) -> StreamBody {
        let metrics = Arc::clone(metrics);
        Self { source, check: Some(check), held: None, trailers: None, url, metrics }.boxed_unsync()
    }

    fn fail(&mut self, mismatch: Mismatch) -> BodyError {
        (self.check, self.held) = (None, None);
        mismatch.report(&self.url, &self.metrics);
        BodyError::Malformed(mismatch.explanation())
    }
}

impl Body for VerifiedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        while self.check.is_some() {
            let Some(frame) = ready!(Pin::new(&mut self.source).poll_frame(context)) else {
                if let Some(Err(mismatch)) = self.check.take().map(BodyCheck::finish) {
                    return Poll::Ready(Some(Err(self.fail(mismatch))));
                }
                break;
            };
            let data = match frame.map(Frame::into_data) {
                Ok(Ok(data)) if data.is_empty() => continue,
                Ok(Ok(data)) => data,
                Ok(Err(frame)) => {
                    self.trailers = frame.into_trailers().ok();
                    continue;
                }
                Err(error) => return Poll::Ready(Some(Err(error))),
            };
            // A failed push leaves no check, so that nothing follows.
            if let Some(Err(mismatch)) = self.check.as_mut().map(|check| check.push(&data)) {
                return Poll::Ready(Some(Err(self.fail(mismatch))));
            }
            debug_assert!(!data.is_empty(), "an empty block holds nothing back");
            if let Some(block) = self.held.replace(data) {
                return Poll::Ready(Some(Ok(Frame::data(block))));
            }
        }
        debug_assert!(self.check.is_none(), "the last block goes after the check");
        let last = self.held.take().map(Frame::data);
        Poll::Ready(last.or_else(|| self.trailers.take().map(Frame::trailers)).map(Ok))
    }
}

/// Bytes of a document read at a time.
const STEP: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// A body of blocks that have arrived.
    struct Blocks(VecDeque<Result<Frame<Bytes>, BodyError>>);

    impl Body for Blocks {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            Poll::Ready(self.0.pop_front())
        }
    }

    /// Returns the bytes that come through, and the counts of both mismatches if the body breaks
    /// off.
    fn through(blocks: &[&'static str], promise: &Promise) -> (String, Option<[u64; 2]>) {
        let frame = |block: &&'static str| Ok(Frame::data(Bytes::from_static(block.as_bytes())));
        let source = Blocks(blocks.iter().map(frame).collect()).boxed_unsync();
        let metrics = Arc::new(Metrics::default());
        let check = BodyCheck::of_file(promise).expect("a promise");
        let mut body = VerifiedBody::boxed(source, check, "http://a.test/".into(), &metrics);
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut came = Vec::new();
        loop {
            match Pin::new(&mut body).poll_frame(&mut context) {
                Poll::Ready(Some(Ok(frame))) => came.extend(frame.into_data().expect("data")),
                Poll::Ready(end) => {
                    let counts = [metrics.mirror_digest.value(), metrics.mirror_length.value()];
                    return (String::from_utf8(came).expect("text"), end.map(|_| counts));
                }
                Poll::Pending => panic!("all frames are there"),
            }
        }
    }

    fn promise(digest: Option<&str>, size: Option<u64>) -> Promise {
        let digest = digest.and_then(Digest::from_named_hex);
        Promise { digest, size, published: None, is_withdrawn: false }
    }

    const ABC: &str = "sha1:a9993e364706816aba3e25717850c26c9cd0d89d";

    #[test]
    fn last_block_waits_for_the_digest() {
        let right = promise(Some(ABC), Some(3));
        assert_eq!(through(&["a", "", "bc"], &right), ("abc".into(), None));
        assert_eq!(through(&["abc"], &right), ("abc".into(), None));
        assert_eq!(through(&["a", "b", "d"], &right), ("ab".into(), Some([1, 0])));
        assert_eq!(through(&["abd"], &right), (String::new(), Some([1, 0])));
    }

    #[test]
    fn another_length_is_cut() {
        let right = promise(None, Some(3));
        assert_eq!(through(&["ab"], &right), (String::new(), Some([0, 1])));
        assert_eq!(through(&["ab", "cd", "e"], &right), (String::new(), Some([0, 1])));
        assert_eq!(through(&["ab", "c"], &right), ("abc".into(), None));
    }
}
