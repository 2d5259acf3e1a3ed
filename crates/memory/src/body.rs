//! Body that the RAM tier keeps, in any kind of memory.

use super::zero_copy::{LENT_MIN, ZeroCopyBody, room_bytes};
use crate::sys::fill::{BodyMemory, FillBuffer, FilledBody, FilledPart};
use crate::sys::page_arena::ArenaPages;
use crate::sys::span::{Span, SpanSlice};
use bytes::Bytes;
use std::ops::Deref;
use std::sync::Arc;

/// Body kept in RAM that can tell whether others hold it too. [`Bytes`] made from an owner cannot
/// tell.
#[derive(Clone)]
pub struct MemoryBody(BodyStorage);

#[derive(Clone)]
enum BodyStorage {
    /// Without memory, or in the allocator's.
    Bytes(Bytes),
    /// In pages of its own.
    Lent(Arc<ZeroCopyBody>),
    /// In a span shared with other bodies, from which the body can be moved.
    Packed(FilledBody<SpanSlice>),
}

impl MemoryBody {
    pub(super) fn packed(packed: FilledBody<SpanSlice>) -> Self {
        Self(BodyStorage::Packed(packed))
    }

    /// Returns the bytes for another holder.
    pub fn bytes(&self) -> Bytes {
        match &self.0 {
            BodyStorage::Bytes(bytes) => bytes.clone(),
            BodyStorage::Lent(lent) => lent.bytes(),
            BodyStorage::Packed(packed) => Bytes::from_owner(SpanBodyOwner(packed.clone())),
        }
    }

    /// Returns `true` if others hold the body or a part of it. Always `false` for an empty body.
    pub fn is_shared(&self) -> bool {
        match &self.0 {
            BodyStorage::Bytes(bytes) => !bytes.is_empty() && !bytes.is_unique(),
            BodyStorage::Lent(lent) => lent.is_shared(),
            BodyStorage::Packed(packed) => packed.holders() > 1,
        }
    }

    /// Counts a hit. Returns `true` if a copy [in large pages](Self::in_large_pages) has become
    /// worthwhile.
    pub fn hit(&self) -> bool {
        matches!(&self.0, BodyStorage::Lent(lent) if lent.hit())
    }

    /// Resets the count of hits, since the copy was not made.
    pub fn count_hits_anew(&self) {
        if let BodyStorage::Lent(lent) = &self.0 {
            lent.count_hits_anew();
        }
    }

    /// Returns a copy in large pages; `None` if the body has no pages of its own, or there is no
    /// memory. The system may take a while for the copy.
    pub fn in_large_pages(&self) -> Option<Self> {
        let BodyStorage::Lent(lent) = &self.0 else { return None };
        Some(Self(BodyStorage::Lent(lent.in_large_pages()?)))
    }

    /// Returns `true` if the body has pages of its own.
    pub(super) fn is_lent(&self) -> bool {
        matches!(self.0, BodyStorage::Lent(_))
    }

    /// Returns the bytes of memory that the body takes.
    pub fn room_bytes(&self) -> u64 {
        match &self.0 {
            BodyStorage::Lent(lent) => room_bytes(lent.body().len() as u64),
            _ => self.len() as u64,
        }
    }

    /// Returns `true` if the body is in this span.
    pub(super) fn is_in(&self, span: &Arc<Span>) -> bool {
        matches!(&self.0, BodyStorage::Packed(packed) if packed.ground().is_in(span))
    }

    /// Returns `true` if both bodies are the very same bytes in a span.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (BodyStorage::Packed(one), BodyStorage::Packed(other)) => one.is(other),
            _ => false,
        }
    }

    /// Returns the number of holders of a body in a span; 1 for other bodies.
    pub(super) fn holders(&self) -> usize {
        match &self.0 {
            BodyStorage::Packed(packed) => packed.holders(),
            _ => 1,
        }
    }
}

impl From<Bytes> for MemoryBody {
    fn from(bytes: Bytes) -> Self {
        let lent = if bytes.len() < LENT_MIN { None } else { ZeroCopyBody::around(&bytes) };
        Self(match lent {
            Some(lent) if lent.body().len() == bytes.len() => BodyStorage::Lent(lent),
            _ => BodyStorage::Bytes(bytes),
        })
    }
}

impl Deref for MemoryBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            BodyStorage::Bytes(bytes) => bytes,
            BodyStorage::Lent(lent) => lent.body(),
            BodyStorage::Packed(packed) => packed,
        }
    }
}

/// Body that is arriving, in the memory where it will stay.
pub struct IncomingBody(FillTarget);

enum FillTarget {
    Pages(FillBuffer<ArenaPages>),
    Packed(FillBuffer<SpanSlice>),
}

impl IncomingBody {
    pub(super) fn in_pages(room: FillBuffer<ArenaPages>) -> Self {
        Self(FillTarget::Pages(room))
    }

    pub(super) fn packed(room: FillBuffer<SpanSlice>) -> Self {
        Self(FillTarget::Packed(room))
    }

    /// Returns the number of missing bytes.
    pub fn missing(&self) -> usize {
        match &self.0 {
            FillTarget::Pages(room) => room.missing(),
            FillTarget::Packed(room) => room.missing(),
        }
    }

    /// Appends a piece, and returns the piece as it lies in that memory.
    ///
    /// # Panics
    /// If the piece is longer than the missing bytes.
    pub fn push(&mut self, piece: &[u8]) -> Bytes {
        match &mut self.0 {
            FillTarget::Pages(room) => Bytes::from_owner(PieceOwner(room.push(piece))),
            FillTarget::Packed(room) => Bytes::from_owner(PieceOwner(room.push(piece))),
        }
    }

    /// Returns the body if no byte is missing.
    pub fn body(self) -> Option<MemoryBody> {
        (self.missing() == 0).then(|| match self.0 {
            FillTarget::Pages(room) => MemoryBody(BodyStorage::Lent(ZeroCopyBody::new(room.body()))),
            FillTarget::Packed(room) => MemoryBody::packed(room.body()),
        })
    }
}

/// Part of an arriving body.
struct PieceOwner<G>(FilledPart<G>);

impl<G: BodyMemory> AsRef<[u8]> for PieceOwner<G> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Holder of a body in a span.
struct SpanBodyOwner(FilledBody<SpanSlice>);

impl AsRef<[u8]> for SpanBodyOwner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::zero_copy::{self, BodyBuilder};
    use super::*;

    fn whole(length: usize, byte: u8) -> Bytes {
        let mut whole = BodyBuilder::with_capacity(length);
        whole.push(&vec![byte; length]);
        whole.into_bytes()
    }

    fn packed(length: usize, byte: u8) -> MemoryBody {
        let span = Arc::new(Span::new(1 << 20, Arc::default()).expect("memory"));
        let mut room = span.room(length).expect("room");
        drop(room.push(&vec![byte; length]));
        MemoryBody::packed(room.body())
    }

    #[test]
    fn whether_a_body_is_held_is_known_wherever_it_is() {
        for length in [1, LENT_MIN - 1, LENT_MIN, 1 << 20] {
            let arrived = whole(length, 3);
            let body = MemoryBody::from(arrived.clone());
            assert!(body.is_shared() && *body == arrived[..], "who brought it still reads it");
            assert_eq!((body.is_lent(), body.room_bytes()), (length >= LENT_MIN, length as u64));
            drop(arrived);
            holds_and_lets_go(&body);
            holds_and_lets_go(&packed(length, 3));
        }
        assert!(!MemoryBody::from(Bytes::new()).is_shared());
        let part = MemoryBody::from(whole(2 * LENT_MIN, 3).slice(..LENT_MIN));
        assert!(*part == vec![3; LENT_MIN][..], "of a part nothing more is known than what it is");
    }

    fn holds_and_lets_go(body: &MemoryBody) {
        assert!(!body.is_shared());
        let part = body.bytes().slice(body.len() - 1..);
        assert!(part == [3][..] && body.is_shared(), "a part of it keeps all of it");
        drop(part);
        assert!(!body.is_shared());
        let other = body.clone();
        assert!(body.is_shared() && other[..] == body[..]);
    }

    #[test]
    fn a_large_body_is_put_together_where_it_will_stand() {
        let length = 2 * LENT_MIN + 5;
        let room = || IncomingBody::in_pages(zero_copy::room(length).expect("memory"));
        let mut arriving = room();
        let parts: Vec<Bytes> =
            (0_u8..3).map(|byte| arriving.push(&vec![byte; if byte < 2 { LENT_MIN } else { 5 }])).collect();
        assert_eq!(arriving.missing(), 0);
        let body = arriving.body().expect("whole");
        assert_eq!(*body, parts.concat()[..]);
        assert_eq!(body.as_ptr(), parts[0].as_ptr(), "where its parts were");
        assert!(body.is_shared(), "who read it while it came still does");
        let lent = MemoryBody::from(body.bytes());
        let pages = (length as u64).next_multiple_of(rustix::param::page_size() as u64);
        assert!(lent.is_lent() && lent.room_bytes() == pages && pages > length as u64);
        drop((lent, parts));
        assert!(!body.is_shared());
        let mut arriving = room();
        let part = arriving.push(&vec![1; length - 1]);
        assert!(arriving.body().is_none() && *part == vec![1; length - 1][..], "a byte is missing");
        assert!(zero_copy::room(LENT_MIN - 1).is_none());
    }

    #[test]
    fn bodies_in_spans_are_told_from_each_other() {
        let (one, other) = (packed(10, 1), packed(10, 1));
        assert!(one.is_same(&one.clone()) && !one.is_same(&other));
        assert_eq!((one.holders(), one.clone().holders()), (1, 2));
        let apart = MemoryBody::from(Bytes::from_static(b"apart"));
        assert!(!apart.is_same(&apart.clone()) && !one.is_same(&apart));
    }
}
