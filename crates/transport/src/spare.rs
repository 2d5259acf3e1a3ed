//! Read buffers of waiting connections, kept by their thread. An idle connection holds no buffer.
//! The next readable connection reads into memory that is still in the core's cache.

use bytes::BytesMut;
use std::cell::RefCell;

/// Kind of connection that a buffer is for; the kinds differ in size.
#[derive(Clone, Copy)]
pub enum BufferClass {
    /// Clients: larger than most request heads.
    Client,
    /// Origins: a head and a small body. The allocator serves this size from separate pages, so
    /// that a burst of buffers leaves no holes in its heap.
    Origin,
}

impl BufferClass {
    /// Returns the size of a buffer in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Client => 4096,
            Self::Origin => 32 * 1024,
        }
    }
}

/// Returns a buffer, possibly the rest of one from which earlier messages were cut.
pub fn take(side: BufferClass) -> BytesMut {
    let spare = SPARE.with_borrow_mut(|spare| spare[side as usize].pop());
    spare.unwrap_or_else(|| BytesMut::with_capacity(side.bytes()))
}

/// Returns a buffer with `bytes`. An empty one takes no memory.
pub fn filled(side: BufferClass, bytes: &[u8]) -> BytesMut {
    if bytes.is_empty() {
        return BytesMut::new();
    }
    let mut buffer = take(side);
    buffer.extend_from_slice(bytes);
    buffer
}

/// Keeps an empty buffer for the next connection. Drops a buffer with contents, which belongs to
/// another message, and a buffer that was enlarged.
pub fn give(side: BufferClass, buffer: BytesMut) {
    if !buffer.is_empty() || buffer.capacity() > side.bytes() {
        return;
    }
    SPARE.with_borrow_mut(|spare| {
        if spare[side as usize].len() < SPARE_MAX {
            spare[side as usize].push(buffer);
        }
    });
}

/// More than one spare buffer is needed only while connections hold parts of messages.
const SPARE_MAX: usize = 64;

thread_local! {
    static SPARE: RefCell<[Vec<BytesMut>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}
