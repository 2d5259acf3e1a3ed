//! Frames to be written; one call writes as many as there are.
//!
//! Frame heads, field blocks and small bodies are in one buffer. Larger bodies are written from
//! their own memory without a copy. An empty output holds no memory.

use crate::message::Hold;
use bytes::Bytes;
use shoal_http2::hpack::encode::NO_TABLE;
use shoal_http2::{END_HEADERS, END_STREAM, FRAME_HEAD_BYTES, FrameHead, FrameKind};
use shoal_memory::MemoryBody;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// Frames that wait to be written.
#[derive(Default)]
pub(super) struct FrameOutput {
    text: Vec<u8>,
    bodies: VecDeque<BodyChunk>,
    /// Number of bytes of `text` already written.
    written: usize,
    /// Number of bytes still to be written.
    left: usize,
    /// Total response bytes ever added: field blocks and bodies.
    responses: u64,
    /// The first field block was added, and with it the table size update.
    begun: bool,
}

/// Piece of a body, as long as a frame.
struct BodyChunk {
    /// Position in `text` before which the piece comes.
    before: usize,
    /// The whole body, shared: a separate piece would need an allocation.
    body: MemoryBody,
    /// Range of the body still to be written.
    rest: Range<usize>,
    /// Memory charge for the body; held by the body's last piece.
    _hold: Option<Hold>,
}

impl FrameOutput {
    /// Returns `true` if everything was written.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Returns `true` if streams with more data should wait for a write.
    pub fn is_full(&self) -> bool {
        self.left >= FULL_BYTES
    }

    /// Returns `true` if the client's frames should not be read either, since answers would add
    /// more output. The limit is twice that of [`Self::is_full`]: a long reply fills the output
    /// again and again, and must not stop reading.
    pub fn is_clogged(&self) -> bool {
        self.left >= 2 * FULL_BYTES
    }

    /// Returns the total response bytes ever added.
    pub fn response_bytes(&self) -> u64 {
        self.responses
    }

    /// Checks the count of bytes and the places of bodies, in debug builds.
    fn invariants(&self) {
        debug_assert!(self.written <= self.text.len());
        if cfg!(debug_assertions) {
            let bodies: usize = self.bodies.iter().map(|piece| piece.rest.len()).sum();
            assert_eq!(self.left, self.text.len() - self.written + bodies, "bytes that were not written");
            let places = || self.bodies.iter().map(|piece| piece.before);
            assert!(places().is_sorted(), "bodies out of order");
            assert!(places().all(|before| (self.written..=self.text.len()).contains(&before)));
            assert!(self.bodies.iter().all(|piece| piece.rest.end <= piece.body.len()));
        }
    }

    /// Calls `write` to append frames.
    pub fn frames(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let text = self.text();
        let before = text.len();
        write(text);
        debug_assert!(self.text.len() >= before);
        self.left += self.text.len() - before;
        self.invariants();
    }

    /// Appends whole frames and empties `frames`.
    pub fn append(&mut self, frames: &mut Vec<u8>) {
        if !frames.is_empty() {
            self.frames(|text| text.append(frames));
        }
    }

    /// Appends the HEADERS of a stream, cut into frames of at most `frame_bytes_max`. `write`
    /// appends the field block.
    pub fn fields(&mut self, id: u32, end: bool, frame_bytes_max: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let is_first = !std::mem::replace(&mut self.begun, true);
        let text = self.text();
        let start = text.len();
        text.extend_from_slice(&[0; FRAME_HEAD_BYTES]);
        if is_first {
            text.push(NO_TABLE);
        }
        write(text);
        let length = text.len() - start - FRAME_HEAD_BYTES;
        let flags = if end { END_STREAM } else { 0 };
        if length <= frame_bytes_max {
            let head = FrameHead::of(FrameKind::Headers, flags | END_HEADERS, id, length);
            text[start..start + FRAME_HEAD_BYTES].copy_from_slice(&head.to_bytes());
        } else {
            let block = text.split_off(start + FRAME_HEAD_BYTES);
            text.truncate(start);
            let mut kind = (FrameKind::Headers, flags);
            let last = block.len().div_ceil(frame_bytes_max) - 1;
            for (at, piece) in block.chunks(frame_bytes_max).enumerate() {
                let ends = if at == last { END_HEADERS } else { 0 };
                text.extend_from_slice(&FrameHead::of(kind.0, kind.1 | ends, id, piece.len()).to_bytes());
                text.extend_from_slice(piece);
                kind = (FrameKind::Continuation, 0);
            }
        }
        self.left += self.text.len() - start;
        self.responses += length as u64;
        self.invariants();
    }

    /// Appends a DATA frame.
    pub fn data(&mut self, id: u32, data: Bytes, end: bool) {
        self.data_head(id, data.len(), end);
        if data.len() <= COPIED_MAX {
            return self.copied(&data);
        }
        let rest = 0..data.len();
        self.shared(data.into(), rest, None);
    }

    /// Appends a whole body that ends the stream, cut into frames. The memory charge is held until
    /// the body is written.
    pub fn body(
        &mut self,
        id: u32,
        (body, place, mut hold): (&MemoryBody, Range<usize>, Option<Hold>),
        frame_bytes_max: usize,
    ) {
        debug_assert!(place.end <= body.len());
        debug_assert!(frame_bytes_max > 0);
        let mut start = place.start;
        while start < place.end {
            let rest = start..place.end.min(start + frame_bytes_max);
            start = rest.end;
            let is_last = start == place.end;
            self.data_head(id, rest.len(), is_last);
            // The pieces behind this one are copied.
            let is_last_shared = place.end - start <= COPIED_MAX;
            match rest.len() <= COPIED_MAX {
                true => self.copied(&body[rest]),
                false => {
                    let hold = if is_last_shared { hold.take() } else { None };
                    self.shared(body.clone(), rest, hold);
                }
            }
        }
        debug_assert!(hold.is_none() || place.len() <= COPIED_MAX, "bytes that are sent and not charged");
        self.invariants();
    }

    fn shared(&mut self, body: MemoryBody, rest: Range<usize>, hold: Option<Hold>) {
        self.left += rest.len();
        self.bodies.push_back(BodyChunk { before: self.text.len(), body, rest, _hold: hold });
    }

    fn data_head(&mut self, id: u32, length: usize, end: bool) {
        let flags = if end { END_STREAM } else { 0 };
        let head = FrameHead::of(FrameKind::Data, flags, id, length).to_bytes();
        self.text().extend_from_slice(&head);
        self.left += FRAME_HEAD_BYTES;
        self.responses += length as u64;
    }

    fn copied(&mut self, data: &[u8]) {
        self.text.extend_from_slice(data);
        self.left += data.len();
    }

    /// Writes some of the output and returns the number of bytes.
    pub fn poll_write<T: AsyncWrite + Unpin>(
        &mut self,
        io: &mut T,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let written = match self.bodies.is_empty() {
            true => ready!(Pin::new(io).poll_write(context, &self.text[self.written..]))?,
            false => ready!(self.poll_write_pieces(io, context))?,
        };
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.advance(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_pieces<T: AsyncWrite + Unpin>(
        &self,
        io: &mut T,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        let mut from = self.written;
        for BodyChunk { before, body, rest, .. } in self.bodies.iter().take(SLICES_MAX / 2 - 1) {
            if *before > from {
                slices[count] = IoSlice::new(&self.text[from..*before]);
                count += 1;
                from = *before;
            }
            slices[count] = IoSlice::new(&body[rest.clone()]);
            count += 1;
        }
        let until = self.bodies.get(SLICES_MAX / 2 - 1).map_or(self.text.len(), |piece| piece.before);
        if until > from {
            slices[count] = IoSlice::new(&self.text[from..until]);
            count += 1;
        }
        debug_assert!(count > 0, "nothing to write");
        debug_assert!(slices[..count].iter().map(|slice| slice.len()).sum::<usize>() <= self.left);
        Pin::new(io).poll_write_vectored(context, &slices[..count])
    }

    fn advance(&mut self, mut count: usize) {
        debug_assert!(count <= self.left, "more was written than there was");
        self.left -= count;
        if self.left == 0 {
            return self.clear();
        }
        while count > 0 {
            let until = self.bodies.front().map_or(self.text.len(), |piece| piece.before);
            let text = count.min(until - self.written);
            self.written += text;
            count -= text;
            if let Some(BodyChunk { rest, .. }) = self.bodies.front_mut()
                && count > 0
            {
                let taken = count.min(rest.len());
                rest.start += taken;
                count -= taken;
            }
            if self.bodies.front().is_some_and(|piece| piece.before == self.written && piece.rest.is_empty())
            {
                self.bodies.pop_front();
            }
        }
        // Without this, the text would grow forever for a client that takes a few bytes at a time.
        if self.written > TEXT_BYTES_KEPT {
            self.text.drain(..self.written);
            self.bodies.iter_mut().for_each(|piece| piece.before -= self.written);
            self.written = 0;
        }
        self.invariants();
    }

    fn clear(&mut self) {
        self.written = 0;
        let (mut text, mut bodies) = (std::mem::take(&mut self.text), std::mem::take(&mut self.bodies));
        text.clear();
        bodies.clear();
        if text.capacity() <= TEXT_BYTES_KEPT && bodies.capacity() <= BODIES_KEPT {
            SPARE.with_borrow_mut(|spare| {
                if spare.len() < SPARE_MAX {
                    spare.push((text, bodies));
                }
            });
        }
    }

    /// Returns the text to append to. An empty output reuses a buffer that another connection has
    /// freed.
    fn text(&mut self) -> &mut Vec<u8> {
        if self.text.capacity() == 0 {
            (self.text, self.bodies) = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        }
        &mut self.text
    }
}

/// Number of waiting bytes above which streams are not framed further.
const FULL_BYTES: usize = 64 * 1024;

/// Maximum size of bodies that are copied behind their head. For the kernel and TLS one piece is
/// less work than two, which outweighs the copy.
pub(super) const COPIED_MAX: usize = 4096;

/// Maximum number of pieces in one call.
const SLICES_MAX: usize = 64;

/// Maximum capacity of a text that is kept for reuse.
const TEXT_BYTES_KEPT: usize = 32 * 1024;

/// Maximum capacity of the body queue that is kept with a text.
const BODIES_KEPT: usize = 64;

/// Maximum number of texts kept by a thread. Several are in use only while clients keep the server
/// waiting.
const SPARE_MAX: usize = 16;

/// Buffers of an output.
type Spare = (Vec<u8>, VecDeque<BodyChunk>);

thread_local! {
    static SPARE: RefCell<Vec<Spare>> = const { RefCell::new(Vec::new()) };
}

const _: () = {
    assert!(COPIED_MAX < FULL_BYTES);
    // Each body takes a slice and the text before it another, and the rest of the text one.
    assert!(SLICES_MAX >= 4);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::narrow::ThrottledStream;
    use proptest::prelude::*;

    /// Appends the frames in the expected order.
    fn expected(out: &mut Vec<u8>, id: u32, body: &[u8], frame_bytes_max: usize) {
        let pieces: Vec<&[u8]> = body.chunks(frame_bytes_max).collect();
        for (at, piece) in pieces.iter().enumerate() {
            let flags = if at + 1 == pieces.len() { END_STREAM } else { 0 };
            out.extend_from_slice(&FrameHead::of(FrameKind::Data, flags, id, piece.len()).to_bytes());
            out.extend_from_slice(piece);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn partial_writes_lose_nothing(
            bodies in prop::collection::vec((1usize..40_000, any::<bool>()), 1..12),
            frame_bytes_max in 5000usize..20_000,
            step in 1000usize..60_000,
        ) {
            let (mut output, mut all) = (FrameOutput::default(), Vec::new());
            let mut narrow = ThrottledStream { taken: Vec::new(), step };
            let mut context = Context::from_waker(std::task::Waker::noop());
            for (at, (length, write)) in bodies.into_iter().enumerate() {
                let (id, body) = (at as u32, MemoryBody::from(Bytes::from(vec![at as u8; length])));
                output.body(id, (&body, 0..body.len(), None), frame_bytes_max);
                expected(&mut all, id, &body, frame_bytes_max);
                if write {
                    prop_assert!(output.poll_write(&mut narrow, &mut context).is_ready());
                }
                prop_assert_eq!(output.left, all.len() - narrow.taken.len());
            }
            while !output.is_empty() {
                prop_assert!(output.poll_write(&mut narrow, &mut context).is_ready());
            }
            prop_assert!(narrow.taken == all, "other bytes were written");
            prop_assert_eq!(output.text.capacity() + output.bodies.capacity(), 0);
        }
    }

    #[test]
    fn a_long_block_is_cut_into_frames() {
        let mut output = FrameOutput::default();
        output.fields(3, true, 10, |block| block.extend_from_slice(&[7; 24]));
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut narrow = ThrottledStream { taken: Vec::new(), step: usize::MAX };
        assert!(output.poll_write(&mut narrow, &mut context).is_ready());
        let mut frames = Vec::new();
        for (kind, flags, piece) in [
            (FrameKind::Headers, END_STREAM, &[&[NO_TABLE][..], &[7; 9]].concat()[..]),
            (FrameKind::Continuation, 0, &[7; 10]),
            (FrameKind::Continuation, END_HEADERS, &[7; 5]),
        ] {
            frames.extend_from_slice(&FrameHead::of(kind, flags, 3, piece.len()).to_bytes());
            frames.extend_from_slice(piece);
        }
        assert_eq!(narrow.taken, frames);
        assert_eq!(output.response_bytes(), 25);
    }
}
