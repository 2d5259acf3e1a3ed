//! Read buffers of waiting connections, kept by their thread. An idle connection holds no buffer.
//! The next readable connection reads into memory that is still in the core's cache.
//!
//! Large bodies are read into larger buffers. Their parts are passed on, and the memory is used
//! again once all of them are gone. The allocator would return it to the kernel, which clears each
//! page at its next use.

use bytes::BytesMut;
use std::cell::RefCell;
use std::collections::VecDeque;

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
#[inline]
pub fn take(side: BufferClass) -> BytesMut {
    let spare = SPARE.with_borrow_mut(|spare| spare[side as usize].pop());
    spare.unwrap_or_else(|| BytesMut::with_capacity(side.bytes()))
}

/// Returns a buffer with `bytes`. An empty one takes no memory.
#[inline]
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
#[inline]
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

/// Gives `buffer`, which must be empty, room for `bytes`: its own memory, or that of an earlier
/// buffer, if no part of it is in use; else new memory.
pub fn renew(buffer: &mut BytesMut, bytes: usize) {
    debug_assert!(buffer.is_empty(), "bytes that belong to a message");
    if buffer.try_reclaim(bytes) {
        return;
    }
    retire(std::mem::take(buffer));
    let earlier = USED.with_borrow_mut(|used| {
        let at = used.iter_mut().position(|earlier| earlier.try_reclaim(bytes))?;
        used.remove(at)
    });
    *buffer = earlier.unwrap_or_else(|| BytesMut::with_capacity(bytes));
    debug_assert!(buffer.is_empty() && buffer.capacity() >= bytes);
}

/// Keeps an empty buffer for [`renew`], although parts of it may still be in use.
pub fn retire(buffer: BytesMut) {
    if !buffer.is_empty() {
        return;
    }
    USED.with_borrow_mut(|used| {
        if used.len() == USED_BUFFERS_MAX {
            used.pop_front();
        }
        used.push_back(buffer);
    });
}

/// Size of a buffer for a large body: the bytes read at once, and thus buffered for a slow client.
pub const BODY_BYTES: usize = 64 * 1024;

/// Used buffers kept by a thread: as many as two large bodies have under way.
const USED_BUFFERS_MAX: usize = 8;

/// More than one spare buffer is needed only while connections hold parts of messages.
const SPARE_MAX: usize = 64;

thread_local! {
    /// Used buffers of large bodies, oldest first.
    static USED: RefCell<VecDeque<BytesMut>> = const { RefCell::new(VecDeque::new()) };

    static SPARE: RefCell<[Vec<BytesMut>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(buffer: &mut BytesMut, fill: u8) -> bytes::Bytes {
        buffer.extend_from_slice(&[fill; BODY_BYTES]);
        buffer.split().freeze()
    }

    #[test]
    fn memory_is_used_again_once_its_parts_are_gone() {
        let mut buffer = BytesMut::new();
        renew(&mut buffer, BODY_BYTES);
        let first = part(&mut buffer, 1);
        let at = first.as_ptr();
        renew(&mut buffer, BODY_BYTES);
        let second = part(&mut buffer, 2);
        assert_ne!(second.as_ptr(), at, "the first part is in use");
        assert!(first.iter().all(|byte| *byte == 1));
        drop(first);
        renew(&mut buffer, BODY_BYTES);
        assert_eq!(part(&mut buffer, 3).as_ptr(), at);
        assert!(second.iter().all(|byte| *byte == 2));
    }

    #[test]
    fn few_used_buffers_are_kept() {
        let parts: Vec<bytes::Bytes> = (0..3 * USED_BUFFERS_MAX)
            .map(|_| {
                let mut buffer = BytesMut::with_capacity(BODY_BYTES);
                let part = part(&mut buffer, 1);
                retire(buffer);
                part
            })
            .collect();
        assert_eq!(USED.with_borrow(VecDeque::len), USED_BUFFERS_MAX);
        drop(parts);
        let mut unread = BytesMut::from(&b"a message"[..]);
        unread.reserve(BODY_BYTES);
        retire(unread);
        assert!(USED.with_borrow(|used| used.iter().all(BytesMut::is_empty)));
    }
}
