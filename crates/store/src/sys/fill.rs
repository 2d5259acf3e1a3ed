//! Room for one body, which is filled from its beginning on. What is in it already may be read
//! meanwhile, and is never written to again.

use std::ops::{Deref, Range};
use std::sync::Arc;

/// Memory that one body has alone.
///
/// # Safety
/// As long as this lives, all its bytes are at the same place, hold something, and may be read and
/// written. Nobody reads or writes them but the one [`FillBuffer`] that is made of it, and those
/// that have it from there.
pub(crate) unsafe trait BodyMemory {
    /// Where it begins.
    fn start(&self) -> *mut u8;

    /// How many bytes it has.
    fn bytes(&self) -> usize;
}

/// Room for one body, which is put in from its beginning on.
pub(crate) struct FillBuffer<G> {
    ground: Arc<G>,
    filled: usize,
}

/// A part of a body that is there, while the rest of it may still be missing.
pub(crate) struct FilledPart<G> {
    ground: Arc<G>,
    range: Range<usize>,
}

/// A body that is there. Each of its clones holds the same.
pub(crate) struct FilledBody<G> {
    ground: Arc<G>,
    length: usize,
}

impl<G: BodyMemory> FillBuffer<G> {
    /// All of `ground`, and nothing in it.
    pub(crate) fn new(ground: G) -> Self {
        Self { ground: Arc::new(ground), filled: 0 }
    }

    /// Bytes that are there.
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    /// Bytes that are still missing.
    pub(crate) fn missing(&self) -> usize {
        self.ground.bytes() - self.filled
    }

    /// Puts the next piece of the body in.
    ///
    /// # Panics
    /// When it is longer than what is missing.
    pub(crate) fn push(&mut self, piece: &[u8]) -> FilledPart<G> {
        assert!(piece.len() <= self.missing(), "room for this piece");
        let range = self.filled..self.filled + piece.len();
        // SAFETY: the range is within the ground, which lives as long as `self`. Nobody reads what
        // is behind `filled`: a part ends before it, and the body can be had only when this is
        // gone. Nobody else writes to it, since only this may, which is borrowed exclusively.
        // `piece` is borrowed memory and hence elsewhere.
        unsafe {
            std::ptr::copy_nonoverlapping(piece.as_ptr(), self.ground.start().add(range.start), piece.len());
        }
        self.filled = range.end;
        assert!(self.filled <= self.ground.bytes());
        FilledPart { ground: Arc::clone(&self.ground), range }
    }

    /// The body, which is what is there.
    pub(crate) fn body(self) -> FilledBody<G> {
        assert!(self.filled <= self.ground.bytes());
        FilledBody { length: self.filled, ground: self.ground }
    }
}

impl<G: BodyMemory> Deref for FilledPart<G> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        debug_assert!(self.range.end <= self.ground.bytes());
        // SAFETY: the range is within the ground, which this holds. It was filled before this could
        // be had, and nobody writes to it again.
        unsafe { std::slice::from_raw_parts(self.ground.start().add(self.range.start), self.range.len()) }
    }
}

impl<G> FilledBody<G> {
    /// What it is in.
    pub(crate) fn ground(&self) -> &G {
        &self.ground
    }

    /// Whether both are the very same.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.ground, &other.ground)
    }

    /// How many hold it, or parts of it.
    pub(crate) fn holders(&self) -> usize {
        Arc::strong_count(&self.ground)
    }
}

impl<G: BodyMemory> Deref for FilledBody<G> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        debug_assert!(self.length <= self.ground.bytes());
        // SAFETY: as with a part of it, above; its room is gone.
        unsafe { std::slice::from_raw_parts(self.ground.start(), self.length) }
    }
}

impl<G> Clone for FilledBody<G> {
    fn clone(&self) -> Self {
        Self { ground: Arc::clone(&self.ground), length: self.length }
    }
}
