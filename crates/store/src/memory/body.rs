//! A body that the RAM tier keeps, wherever it stands.

use super::lending::{LENT_MIN, Lent};
use crate::sys::span::{Packed, Part, Room, Span};
use bytes::Bytes;
use std::ops::Deref;
use std::sync::Arc;

/// A body that is kept, and of which it can be told whether somebody else holds it: [`Bytes`] of an owner do not tell.
#[derive(Clone)]
pub struct Body(Kept);

#[derive(Clone)]
enum Kept {
    /// Nowhere, or where the allocator put it.
    Bytes(Bytes),
    /// In pages of its own.
    Lent(Arc<Lent>),
    /// In memory that it shares with others, and from which it can be moved.
    Packed(Arc<Packed>),
}

impl Body {
    pub(super) fn packed(packed: Arc<Packed>) -> Self {
        Self(Kept::Packed(packed))
    }

    /// For who is to hold it too.
    pub fn bytes(&self) -> Bytes {
        match &self.0 {
            Kept::Bytes(bytes) => bytes.clone(),
            Kept::Lent(lent) => lent.bytes(),
            Kept::Packed(packed) => Bytes::from_owner(Holder(Arc::clone(packed))),
        }
    }

    /// Whether somebody else holds it, or a part of it. What has no bytes nobody holds.
    pub fn is_shared(&self) -> bool {
        match &self.0 {
            Kept::Bytes(bytes) => !bytes.is_empty() && !bytes.is_unique(),
            Kept::Lent(lent) => Arc::strong_count(lent) > 1,
            Kept::Packed(packed) => Arc::strong_count(packed) > 1,
        }
    }

    /// Whether it stands in this span.
    pub(super) fn is_in(&self, span: &Arc<Span>) -> bool {
        matches!(&self.0, Kept::Packed(packed) if packed.is_in(span))
    }

    /// Whether both are the very same bytes in a span.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Kept::Packed(one), Kept::Packed(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// How many hold it, of those that are in a span.
    pub(super) fn holders(&self) -> usize {
        match &self.0 {
            Kept::Packed(packed) => Arc::strong_count(packed),
            _ => 1,
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        let lent = if bytes.len() < LENT_MIN { None } else { Lent::around(&bytes) };
        Self(match lent {
            Some(lent) if lent.filled().len() == bytes.len() => Kept::Lent(lent),
            _ => Kept::Bytes(bytes),
        })
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kept::Bytes(bytes) => bytes,
            Kept::Lent(lent) => lent.filled(),
            Kept::Packed(packed) => packed,
        }
    }
}

/// A body that arrives, where it will stand.
pub struct Arriving(Room);

impl Arriving {
    pub(super) fn new(room: Room) -> Self {
        Self(room)
    }

    /// Bytes that are still missing.
    pub fn missing(&self) -> usize {
        self.0.missing()
    }

    /// Adds a piece, and returns it as it stands there.
    ///
    /// # Panics
    /// When it is longer than what is missing.
    pub fn push(&mut self, piece: &[u8]) -> Bytes {
        Bytes::from_owner(Piece(self.0.push(piece)))
    }

    /// The body, when nothing of it is missing.
    pub fn body(self) -> Option<Body> {
        self.0.body().map(Body::packed)
    }
}

/// A part of a body that arrives.
struct Piece(Part);

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// One of those that hold a body in a span.
struct Holder(Arc<Packed>);

impl AsRef<[u8]> for Holder {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::lending::Whole;
    use super::*;

    fn whole(length: usize, byte: u8) -> Bytes {
        let mut whole = Whole::with_capacity(length);
        whole.push(&vec![byte; length]);
        whole.into_bytes()
    }

    fn packed(length: usize, byte: u8) -> Body {
        let span = Arc::new(Span::new(1 << 20, Arc::default()).expect("memory"));
        let mut room = span.room(length).expect("room");
        drop(room.push(&vec![byte; length]));
        Body::packed(room.body().expect("whole"))
    }

    #[test]
    fn whether_a_body_is_held_is_known_wherever_it_is() {
        for length in [1, LENT_MIN - 1, LENT_MIN, 1 << 20] {
            let arrived = whole(length, 3);
            let body = Body::from(arrived.clone());
            assert!(body.is_shared() && *body == arrived[..], "who brought it still reads it");
            drop(arrived);
            holds_and_lets_go(&body);
            holds_and_lets_go(&packed(length, 3));
        }
        assert!(!Body::from(Bytes::new()).is_shared());
        let part = Body::from(whole(2 * LENT_MIN, 3).slice(..LENT_MIN));
        assert!(*part == vec![3; LENT_MIN][..], "of a part nothing more is known than what it is");
    }

    fn holds_and_lets_go(body: &Body) {
        assert!(!body.is_shared());
        let part = body.bytes().slice(body.len() - 1..);
        assert!(part == [3][..] && body.is_shared(), "a part of it keeps all of it");
        drop(part);
        assert!(!body.is_shared());
        let other = body.clone();
        assert!(body.is_shared() && other[..] == body[..]);
    }

    #[test]
    fn bodies_in_spans_are_told_from_each_other() {
        let (one, other) = (packed(10, 1), packed(10, 1));
        assert!(one.is_same(&one.clone()) && !one.is_same(&other));
        assert_eq!((one.holders(), one.clone().holders()), (1, 2));
        let apart = Body::from(Bytes::from_static(b"apart"));
        assert!(!apart.is_same(&apart.clone()) && !one.is_same(&apart));
    }
}
