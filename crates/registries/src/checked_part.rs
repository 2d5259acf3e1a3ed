//! A part of a file under a check: its last block waits until the whole has proved to be the
//! promised one.
//!
//! ```text
//!   whole, from the part's start ─► part: all blocks but the last ─► client
//!                                └─ rest: read and dropped ─ end ─► the last block
//! ```
//!
//! A client that takes parts alone would otherwise get wrong bytes, complete.

use crate::message::{BodyError, StreamBody};
use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The first bytes of a body that ends well.
pub struct CheckedPart {
    whole: StreamBody,
    /// Bytes of the part that have not come.
    left: u64,
    held: Option<Bytes>,
}

impl CheckedPart {
    /// Takes `length` bytes of a body, which ends with an error if its check fails.
    pub fn boxed(whole: StreamBody, length: u64) -> StreamBody {
        debug_assert!(length > 0, "a part has bytes");
        Self { whole, left: length, held: None }.boxed_unsync()
    }
}

impl Body for CheckedPart {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            match ready!(Pin::new(&mut self.whole).poll_frame(context)) {
                Some(Ok(frame)) => {
                    let mut block = frame.into_data().unwrap_or_default();
                    block.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
                    self.left -= block.len() as u64;
                    if block.is_empty() {
                        continue;
                    }
                    if let Some(earlier) = self.held.replace(block) {
                        return Poll::Ready(Some(Ok(Frame::data(earlier))));
                    }
                }
                Some(Err(error)) => {
                    self.held = None;
                    return Poll::Ready(Some(Err(error)));
                }
                None if self.left > 0 => {
                    (self.left, self.held) = (0, None);
                    return Poll::Ready(Some(Err(BodyError::Cut("body ended before the part did".into()))));
                }
                None => return Poll::Ready(self.held.take().map(|block| Ok(Frame::data(block)))),
            }
        }
    }
}

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

    /// Returns the bytes that come of the first `length`, and `true` if all do.
    fn part(blocks: &[Result<&'static str, ()>], length: u64) -> (String, bool) {
        let frames = blocks.iter().map(|block| match block {
            Ok(bytes) => Ok(Frame::data(Bytes::from_static(bytes.as_bytes()))),
            Err(()) => Err(BodyError::Malformed("another digest")),
        });
        let whole = Blocks(frames.collect()).boxed_unsync();
        let mut body = CheckedPart::boxed(whole, length);
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut came = Vec::new();
        loop {
            match Pin::new(&mut body).poll_frame(&mut context) {
                Poll::Ready(Some(Ok(frame))) => came.extend(frame.into_data().expect("data")),
                Poll::Ready(end) => return (String::from_utf8(came).expect("text"), end.is_none()),
                Poll::Pending => panic!("all frames are there"),
            }
        }
    }

    #[test]
    fn last_block_of_a_part_waits_for_the_whole() {
        assert_eq!(part(&[Ok("ab"), Ok("cd"), Ok("ef")], 3), ("abc".into(), true));
        assert_eq!(part(&[Ok("ab"), Ok("cd"), Err(())], 3), ("ab".into(), false));
        assert_eq!(part(&[Ok("ab"), Err(())], 2), (String::new(), false));
        assert_eq!(part(&[Ok("ab")], 3), (String::new(), false));
    }
}
