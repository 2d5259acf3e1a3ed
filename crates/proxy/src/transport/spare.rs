//! Read buffers of connections that wait, kept by their thread: an idle connection holds none, and
//! the next one that becomes readable reads into memory that is still in the core's cache.

use bytes::BytesMut;
use std::cell::RefCell;

/// Whose connections a buffer is for: they differ in size.
#[derive(Clone, Copy)]
pub(crate) enum BufferClass {
    /// Clients: more than most request heads take.
    Client,
    /// Origins: a head and a small body. As large as what the allocator gives pages of its own, so
    /// that a burst of them leaves no holes in its heap.
    Origin,
}

impl BufferClass {
    /// Bytes of a buffer.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Client => 4096,
            Self::Origin => 32 * 1024,
        }
    }
}

/// A buffer, or what is left of one that earlier messages were cut from.
pub(crate) fn take(side: BufferClass) -> BytesMut {
    let spare = SPARE.with_borrow_mut(|spare| spare[side as usize].pop());
    spare.unwrap_or_else(|| BytesMut::with_capacity(side.bytes()))
}

/// A buffer that holds `bytes`; none is taken for nothing.
pub(crate) fn filled(side: BufferClass, bytes: &[u8]) -> BytesMut {
    if bytes.is_empty() {
        return BytesMut::new();
    }
    let mut buffer = take(side);
    buffer.extend_from_slice(bytes);
    buffer
}

/// Keeps an empty buffer for the next taker. One that holds anything is another message's, and
/// goes; so does one that was made larger.
pub(crate) fn give(side: BufferClass, buffer: BytesMut) {
    if !buffer.is_empty() || buffer.capacity() > side.bytes() {
        return;
    }
    SPARE.with_borrow_mut(|spare| {
        if spare[side as usize].len() < SPARE_MAX {
            spare[side as usize].push(buffer);
        }
    });
}

/// More than one is needed only while connections hold parts of messages.
const SPARE_MAX: usize = 64;

thread_local! {
    static SPARE: RefCell<[Vec<BytesMut>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}
