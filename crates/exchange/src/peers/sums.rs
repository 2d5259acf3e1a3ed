//! Checksums of bodies between nodes: added by the home, checked by the entry.
//!
//! A body in RAM has its sum in the head. Any other body ends with a trailer. The entry holds back
//! the piece that completes a known length until the sum has come and fits. A client therefore
//! never sees a wrong body end well. Cost: one pass of xxh3 on each side.

use crate::cluster::AskInFlight;
use crate::message::{BodyError, StreamBody};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use shoal_cluster::{SUM_FIELD, parse_sum, sum_value};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use xxhash_rust::xxh3::Xxh3;

/// Body on its way to another node, with its sum as a trailer.
pub(super) struct SummedBody {
    frames: StreamBody,
    hasher: Box<Xxh3>,
    /// Bytes still to come, if the length is known.
    left: Option<u64>,
    is_over: bool,
    /// The ask counts as in flight until the body has ended.
    _ask: Option<AskInFlight>,
}

/// Body on its way from another node.
pub(super) struct CheckedBody {
    frames: StreamBody,
    hasher: Box<Xxh3>,
    /// Length that the node has told.
    length: Option<u64>,
    /// Sum that the head has told.
    sum: Option<u64>,
    arrived: u64,
    /// Piece that completes the length.
    last: Option<Bytes>,
    trailers: Option<HeaderMap>,
    state: CheckState,
    /// Called once if the body is wrong.
    told: Option<Box<dyn FnOnce() + Send>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CheckState {
    Arriving,
    Checked,
    Ended,
}

type NextFrame = Option<Result<Frame<Bytes>, BodyError>>;

impl SummedBody {
    /// Wraps the body of an answer to this ask, of this length if it is known.
    pub fn new(frames: StreamBody, length: Option<u64>, ask: Option<AskInFlight>) -> Self {
        Self { frames, hasher: Box::default(), left: length, is_over: false, _ask: ask }
    }

    /// Adds the sum to these trailers.
    fn end(&mut self, mut trailers: HeaderMap) -> NextFrame {
        self.is_over = true;
        let sum = sum_value(self.hasher.digest());
        let value = HeaderValue::try_from(sum).expect("digits are a field value");
        trailers.insert(HeaderName::from_static(SUM_FIELD), value);
        Some(Ok(Frame::trailers(trailers)))
    }
}

impl Body for SummedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<NextFrame> {
        let this = &mut *self;
        if this.is_over {
            return Poll::Ready(None);
        }
        let frame = match ready!(Pin::new(&mut this.frames).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                this.is_over = true;
                return Poll::Ready(Some(Err(error)));
            }
            None => return Poll::Ready(this.end(HeaderMap::new())),
        };
        Poll::Ready(match frame.into_data() {
            Ok(data) => {
                this.hasher.update(&data);
                // A longer body is none of this length. Its reader says so.
                this.left = this.left.and_then(|left| left.checked_sub(data.len() as u64));
                Some(Ok(Frame::data(data)))
            }
            Err(frame) => this.end(frame.into_trailers().unwrap_or_default()),
        })
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl CheckedBody {
    /// Wraps a body of which the node has told this length and sum. `told` is called if the body is
    /// another one.
    pub fn new(
        frames: StreamBody,
        (length, sum): (Option<u64>, Option<u64>),
        told: impl FnOnce() + Send + 'static,
    ) -> Self {
        let (last, trailers, state) = (None, None, CheckState::Arriving);
        Self {
            frames,
            hasher: Box::default(),
            length,
            sum,
            arrived: 0,
            last,
            trailers,
            state,
            told: Some(Box::new(told)),
        }
    }

    /// Takes a piece. Returns the piece if it may go on now.
    fn take(&mut self, data: Bytes) -> Result<Option<Bytes>, BodyError> {
        self.arrived += data.len() as u64;
        self.hasher.update(&data);
        match self.length {
            Some(length) if self.arrived > length => Err(self.wrong("more bytes than announced")),
            Some(length) if self.arrived == length && !data.is_empty() => {
                self.last = Some(data);
                match self.sum {
                    Some(sum) => self.check(sum).map(|()| self.last.take()),
                    None => Ok(None),
                }
            }
            _ => Ok(Some(data)),
        }
    }

    /// Compares the sum at the end of the body.
    fn check(&mut self, sum: u64) -> Result<(), BodyError> {
        if self.length.is_some_and(|length| length != self.arrived) {
            return Err(self.wrong("fewer bytes than announced"));
        }
        if self.hasher.digest() != sum {
            return Err(self.wrong("the checksum differs"));
        }
        self.state = CheckState::Checked;
        Ok(())
    }

    fn wrong(&mut self, what: &'static str) -> BodyError {
        self.state = CheckState::Ended;
        if let Some(told) = self.told.take() {
            told();
        }
        BodyError::Malformed(what)
    }

    /// Takes the end of the body, with its trailers.
    fn finish(&mut self, mut trailers: HeaderMap) -> Result<(), BodyError> {
        let told = trailers.remove(SUM_FIELD).and_then(|value| parse_sum(value.as_bytes()));
        self.trailers = Some(trailers).filter(|trailers| !trailers.is_empty());
        if self.state == CheckState::Checked {
            return Ok(());
        }
        match self.sum.or(told) {
            Some(sum) => self.check(sum),
            None => Err(self.wrong("the checksum is missing")),
        }
    }
}

impl Body for CheckedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<NextFrame> {
        let this = &mut *self;
        loop {
            if this.state == CheckState::Ended {
                let rest = this.last.take().map(Frame::data);
                return Poll::Ready(rest.or_else(|| this.trailers.take().map(Frame::trailers)).map(Ok));
            }
            let frame = match ready!(Pin::new(&mut this.frames).poll_frame(context)) {
                Some(Ok(frame)) => frame.into_data(),
                Some(Err(error)) => {
                    (this.state, this.last) = (CheckState::Ended, None);
                    // A node that dies cuts its answer, and one with a slow origin does so in time.
                    // One that keeps silent, or breaks its framing, is at fault itself.
                    if matches!(error, BodyError::Timeout | BodyError::Malformed(_))
                        && let Some(told) = this.told.take()
                    {
                        told();
                    }
                    return Poll::Ready(Some(Err(error)));
                }
                None => Err(Frame::trailers(HeaderMap::new())),
            };
            let taken = match frame {
                Ok(data) => this.take(data),
                Err(frame) => {
                    let finished = this.finish(frame.into_trailers().unwrap_or_default());
                    finished.map(|()| this.state = CheckState::Ended).map(|()| None)
                }
            };
            match taken {
                Ok(Some(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(None) => {}
                Err(error) => {
                    (this.last, this.trailers) = (None, None);
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.state == CheckState::Ended && self.last.is_none() && self.trailers.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Body that yields these pieces and trailers, one a poll.
    struct Pieces(Vec<NextFrame>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<NextFrame> {
            Poll::Ready(if self.0.is_empty() { None } else { self.0.remove(0) })
        }
    }

    fn pieces(texts: &[&'static str]) -> StreamBody {
        let frames = texts.iter().map(|text| Some(Ok(Frame::data(Bytes::from_static(text.as_bytes())))));
        Pieces(frames.collect()).boxed_unsync()
    }

    async fn checked(body: StreamBody, told: (Option<u64>, Option<u64>)) -> (Result<Bytes, String>, usize) {
        let lies = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&lies);
        let checked = CheckedBody::new(body, told, move || {
            count.fetch_add(1, Relaxed);
        });
        let collected =
            checked.collect().await.map(|body| body.to_bytes()).map_err(|error| error.to_string());
        (collected, lies.load(Relaxed))
    }

    #[tokio::test]
    async fn summed_bodies_are_checked_and_pass() {
        for length in [None, Some(5)] {
            let summed = SummedBody::new(pieces(&["he", "llo"]), Some(5), None).boxed_unsync();
            assert_eq!(summed.size_hint().exact(), Some(5), "as the server asks");
            assert_eq!(checked(summed, (length, None)).await, (Ok("hello".into()), 0));
        }
        let sum = xxhash_rust::xxh3::xxh3_64(b"hello");
        assert_eq!(checked(pieces(&["hello"]), (Some(5), Some(sum))).await, (Ok("hello".into()), 0));
        let empty = SummedBody::new(pieces(&[]), None, None).boxed_unsync();
        assert_eq!(checked(empty, (Some(0), None)).await, (Ok(Bytes::new()), 0));
    }

    #[tokio::test]
    async fn wrong_bodies_end_in_an_error() {
        let sum = Some(xxhash_rust::xxh3::xxh3_64(b"hello"));
        for (texts, told) in [
            (&["hellO"][..], (Some(5), sum)),
            (&["hello"], (Some(4), sum)),
            (&["hello"], (Some(6), sum)),
            (&["hello"], (Some(5), None)),
            (&["hello", "!"], (Some(5), sum)),
        ] {
            let (body, lies) = checked(pieces(texts), told).await;
            assert!(body.is_err() && lies == 1, "{texts:?} {told:?}: {body:?}");
        }
    }

    #[tokio::test]
    async fn node_is_at_fault_for_a_body_that_stalls() {
        for (error, faults) in
            [(BodyError::Timeout, 1), (BodyError::Malformed("a chunk"), 1), (BodyError::Cut("x".into()), 0)]
        {
            let frames = vec![Some(Ok(Frame::data(Bytes::from_static(b"he")))), Some(Err(error))];
            let (body, lies) = checked(Pieces(frames).boxed_unsync(), (Some(5), None)).await;
            assert!(body.is_err() && lies == faults, "{body:?} {lies}");
        }
    }

    #[tokio::test]
    async fn last_piece_waits_for_the_sum() {
        let trailers: HeaderMap =
            [(HeaderName::from_static(SUM_FIELD), HeaderValue::from_static("0000000000000000"))]
                .into_iter()
                .collect();
        let frames = vec![
            Some(Ok(Frame::data(Bytes::from_static(b"he")))),
            Some(Ok(Frame::data(Bytes::from_static(b"llo")))),
            Some(Ok(Frame::trailers(trailers))),
        ];
        let mut body = CheckedBody::new(Pieces(frames).boxed_unsync(), (Some(5), None), || {});
        let first = body.frame().await.expect("a frame").expect("sound so far");
        assert_eq!(first.into_data().ok(), Some(Bytes::from_static(b"he")));
        assert!(body.frame().await.is_some_and(|frame| frame.is_err()), "the last piece does not come");
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn trailers_of_the_origin_pass() {
        let trailers: HeaderMap =
            [(HeaderName::from_static("x-a"), HeaderValue::from_static("b"))].into_iter().collect();
        let frames = vec![
            Some(Ok(Frame::data(Bytes::from_static(b"hi")))),
            Some(Ok(Frame::trailers(trailers.clone()))),
        ];
        let summed = SummedBody::new(Pieces(frames).boxed_unsync(), None, None).boxed_unsync();
        let collected = CheckedBody::new(summed, (None, None), || {}).collect().await.expect("sound");
        assert_eq!(collected.trailers(), Some(&trailers));
    }
}
