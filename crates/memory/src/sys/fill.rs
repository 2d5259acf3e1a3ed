//! Memory of one body, filled from its start on. The filled part may be read meanwhile, and is
//! never written again.

use std::ops::{Deref, Range};
use std::sync::Arc;

/// Memory that belongs to one body alone.
///
/// # Safety
/// As long as this lives, all its bytes stay at one address, are initialized, and may be read and
/// written. Only the one [`FillBuffer`] made of it, and the parts and bodies made by that buffer,
/// read or write them.
pub(crate) unsafe trait BodyMemory {
    /// Returns the address of the first byte.
    fn start(&self) -> *mut u8;

    /// Returns the number of bytes.
    fn bytes(&self) -> usize;

    /// Called before these bytes are written for the first time.
    fn prepare(&self, _range: &Range<usize>) {}
}

/// Room for one body, filled from its start on.
pub(crate) struct FillBuffer<G> {
    ground: Arc<G>,
    filled: usize,
}

/// Filled part of a body; the rest of the body may still be missing.
pub(crate) struct FilledPart<G> {
    ground: Arc<G>,
    range: Range<usize>,
}

/// Filled body. All its clones hold the same memory.
pub(crate) struct FilledBody<G> {
    ground: Arc<G>,
    length: usize,
}

impl<G: BodyMemory> FillBuffer<G> {
    /// Makes an empty buffer of all of `ground`.
    pub(crate) fn new(ground: G) -> Self {
        Self { ground: Arc::new(ground), filled: 0 }
    }

    /// Returns the number of bytes filled.
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    /// Returns the number of bytes missing.
    pub(crate) fn missing(&self) -> usize {
        self.ground.bytes() - self.filled
    }

    /// Appends the next piece of the body.
    ///
    /// # Panics
    /// If the piece is longer than the missing bytes.
    pub(crate) fn push(&mut self, piece: &[u8]) -> FilledPart<G> {
        assert!(piece.len() <= self.missing(), "room for this piece");
        let range = self.filled..self.filled + piece.len();
        self.ground.prepare(&range);
        // SAFETY: the range is within the ground, which lives as long as `self`. No reader has
        // bytes behind `filled`: a part ends before it, and the body exists only once `self` is
        // gone. Only `self`, borrowed exclusively here, writes to the ground. `piece` is borrowed
        // memory and hence elsewhere.
        unsafe {
            std::ptr::copy_nonoverlapping(piece.as_ptr(), self.ground.start().add(range.start), piece.len());
        }
        self.filled = range.end;
        assert!(self.filled <= self.ground.bytes());
        FilledPart { ground: Arc::clone(&self.ground), range }
    }

    /// Returns the body: the bytes filled so far.
    pub(crate) fn body(self) -> FilledBody<G> {
        assert!(self.filled <= self.ground.bytes());
        FilledBody { length: self.filled, ground: self.ground }
    }
}

impl<G: BodyMemory> Deref for FilledPart<G> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        debug_assert!(self.range.end <= self.ground.bytes());
        // SAFETY: the range is within the ground, which this holds. The range was filled before
        // this part existed, and is never written again.
        unsafe { std::slice::from_raw_parts(self.ground.start().add(self.range.start), self.range.len()) }
    }
}

impl<G> FilledBody<G> {
    /// Returns the memory that the body is in.
    pub(crate) fn ground(&self) -> &G {
        &self.ground
    }

    /// Returns `true` if both are the very same body.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.ground, &other.ground)
    }

    /// Returns the number of holders of the body or parts of it.
    pub(crate) fn holders(&self) -> usize {
        Arc::strong_count(&self.ground)
    }
}

impl<G: BodyMemory> Deref for FilledBody<G> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        debug_assert!(self.length <= self.ground.bytes());
        // SAFETY: as for `FilledPart`, above; the buffer is gone.
        unsafe { std::slice::from_raw_parts(self.ground.start(), self.length) }
    }
}

impl<G> Clone for FilledBody<G> {
    fn clone(&self) -> Self {
        Self { ground: Arc::clone(&self.ground), length: self.length }
    }
}
