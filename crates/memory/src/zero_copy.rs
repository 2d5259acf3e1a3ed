//! Large bodies in pages of their own, which the kernel may send without copying them.
//!
//! A write to a socket copies the bytes into the kernel's memory. `vmsplice` hands over the pages
//! themselves, and the network reads them later, perhaps long after the call. The pages must not
//! change from then on: a reused page would be sent in place of the body.
//!
//! A body here therefore has pages that are never reused. Nothing writes to them once the body is
//! whole. The pages return to the system with the body; the kernel itself keeps those that it still
//! sends.
//!
//! A body that is asked for often is put into large pages, which cost less work to send.
//!
//! [`Bytes`] do not tell where they are. The pages of all such bodies are therefore in a table,
//! which [`lend`] looks into. For a small body all this costs more than the copy; see [`LENT_MIN`].
//! The table has parts, by address, so that workers that send different bodies seldom meet at one
//! lock.

use crate::sys::fill::{FillBuffer, FilledBody};
use crate::sys::page_arena::{ArenaPages, gives_large_pages};
use bytes::Bytes;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::io;
use std::iter;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Body that is put together from pieces, in one stretch of memory.
pub struct BodyBuilder(BuilderMemory);

enum BuilderMemory {
    Heap(Vec<u8>),
    Pages(FillBuffer<ArenaPages>),
}

impl BodyBuilder {
    /// Reserves room for `length` bytes: from [`LENT_MIN`] on in pages of their own, if the system
    /// gives some.
    pub fn with_capacity(length: usize) -> Self {
        Self(
            room(length)
                .map_or_else(|| BuilderMemory::Heap(Vec::with_capacity(length)), BuilderMemory::Pages),
        )
    }

    /// Appends a piece.
    ///
    /// # Panics
    /// If all pieces together exceed the room.
    pub fn push(&mut self, piece: &[u8]) {
        match &mut self.0 {
            BuilderMemory::Heap(bytes) => {
                assert!(piece.len() <= bytes.capacity() - bytes.len(), "room for this piece");
                bytes.extend_from_slice(piece);
            }
            BuilderMemory::Pages(room) => drop(room.push(piece)),
        }
    }

    /// Returns the number of bytes so far.
    pub fn length(&self) -> usize {
        match &self.0 {
            BuilderMemory::Heap(bytes) => bytes.len(),
            BuilderMemory::Pages(room) => room.filled(),
        }
    }

    /// Returns the body.
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            BuilderMemory::Heap(bytes) => bytes.into(),
            BuilderMemory::Pages(room) => ZeroCopyBody::new(room.body()).bytes(),
        }
    }
}

/// Returns the bytes of memory that a body of `length` bytes takes: whole pages if it has its own.
pub fn room_bytes(length: u64) -> u64 {
    let page = crate::sys::page_bytes().filter(|_| length >= LENT_MIN as u64);
    page.and_then(|page| length.checked_next_multiple_of(page as u64)).unwrap_or(length)
}

/// Reserves room for a large body in pages of its own. Returns `None` for a smaller one, or if the
/// system gives no pages.
pub(super) fn room(length: usize) -> Option<FillBuffer<ArenaPages>> {
    (length >= LENT_MIN).then(|| ArenaPages::new(length).ok().map(FillBuffer::new))?
}

/// Has the kernel take as many of these bytes as `pipe` has room for, without copying them. Returns
/// `None` if the bytes are not in pages of their own.
pub fn lend(pipe: BorrowedFd<'_>, bytes: &[u8]) -> Option<io::Result<usize>> {
    ZeroCopyBody::around(bytes).map(|_| crate::sys::splice_to_pipe(pipe, bytes))
}

/// Body in pages of its own, listed in the table.
pub(super) struct ZeroCopyBody {
    body: FilledBody<ArenaPages>,
    /// Hits since the body is here; counted up to [`HITS_FOR_LARGE_PAGES`].
    hits: AtomicU32,
}

impl ZeroCopyBody {
    pub(super) fn new(body: FilledBody<ArenaPages>) -> Arc<Self> {
        Self::after_hits(body, 0)
    }

    fn after_hits(body: FilledBody<ArenaPages>, hits: u32) -> Arc<Self> {
        let lent = Arc::new(Self { body, hits: AtomicU32::new(hits) });
        for address in lent.entries() {
            let before = part(address).write().insert(address, Arc::downgrade(&lent));
            debug_assert!(before.is_none(), "pages of two bodies");
        }
        lent
    }

    /// Returns the body that contains these bytes.
    pub(super) fn around(bytes: &[u8]) -> Option<Arc<Self>> {
        let range = bytes.as_ptr_range();
        let address = range.start.addr();
        let lent = part(address).read().range(..=address).next_back()?.1.upgrade()?;
        debug_assert!(lent.body().as_ptr_range().start <= range.start);
        (range.end <= lent.body().as_ptr_range().end).then_some(lent)
    }

    /// Returns the body's bytes.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns the bytes for another holder.
    pub(super) fn bytes(self: &Arc<Self>) -> Bytes {
        Bytes::from_owner(ZeroCopyOwner(Arc::clone(self)))
    }

    /// Returns `true` if others hold the body, or a part taken before it was whole.
    pub(super) fn is_shared(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1 || self.body.holders() > 1
    }

    /// Counts a hit. Returns `true` at the hit that makes a copy in large pages worthwhile.
    pub(super) fn hit(&self) -> bool {
        let hits = self.hits.load(Relaxed);
        hits < HITS_FOR_LARGE_PAGES
            && self.hits.compare_exchange(hits, hits + 1, Relaxed, Relaxed).is_ok()
            && hits + 1 == HITS_FOR_LARGE_PAGES
            && gives_large_pages()
    }

    /// Resets the count, since the copy was not made.
    pub(super) fn count_hits_anew(&self) {
        self.hits.store(0, Relaxed);
    }

    /// Returns a copy in large pages, if there is memory. Call on a thread that may wait.
    pub(super) fn in_large_pages(&self) -> Option<Arc<Self>> {
        let mut room = FillBuffer::new(ArenaPages::large(self.body.len()).ok()?);
        drop(room.push(&self.body));
        Some(Self::after_hits(room.body(), HITS_FOR_LARGE_PAGES))
    }

    /// Returns the address of the body's start, and of its first byte in each further stretch.
    fn entries(&self) -> impl Iterator<Item = usize> {
        let range = self.body.as_ptr_range();
        let (first, end) = (range.start.addr(), range.end.addr());
        iter::once(first).chain((first / STRETCH + 1..end.div_ceil(STRETCH)).map(|stretch| stretch * STRETCH))
    }
}

impl Drop for ZeroCopyBody {
    fn drop(&mut self) {
        // Before the pages go: another body may have their addresses the next moment.
        for address in self.entries() {
            let entry = part(address).write().remove(&address);
            debug_assert!(entry.is_some(), "pages that were not in the table");
        }
    }
}

/// Holder of a body.
struct ZeroCopyOwner(Arc<ZeroCopyBody>);

impl AsRef<[u8]> for ZeroCopyOwner {
    fn as_ref(&self) -> &[u8] {
        self.0.body()
    }
}

/// Returns the part of the table for this address.
fn part(address: usize) -> &'static RwLock<BTreeMap<usize, Weak<ZeroCopyBody>>> {
    &LENT[address / STRETCH % PARTS].0
}

/// Bodies by the address of their start and of each further stretch. A holder of a slice keeps its
/// body in the table.
static LENT: [Part; PARTS] = [const { Part(RwLock::new(BTreeMap::new())) }; PARTS];

/// One part of the table, alone in its cache lines.
#[repr(align(128))]
struct Part(RwLock<BTreeMap<usize, Weak<ZeroCopyBody>>>);

/// Parts of the table: the likely most workers.
const PARTS: usize = 64;

/// Bytes of addresses for one part. Most bodies are shorter, and so in one part or two.
const STRETCH: usize = 2 << 20;

/// Length in bytes from which lending a body costs less than copying it. Measured in
/// `docs/experiments/hits-notebook.md`.
pub const LENT_MIN: usize = 32 << 10;

/// Hits before a copy in large pages. Such pages spare a hit about a tenth of its time, and the
/// copy costs a few times a hit.
const HITS_FOR_LARGE_PAGES: u32 = 16;

const _: () = {
    assert!(LENT_MIN.is_power_of_two());
    assert!(STRETCH.is_power_of_two() && PARTS.is_power_of_two());
    assert!(align_of::<Part>() == 128);
};

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::os::fd::AsFd;

    fn whole(length: usize, byte: u8) -> Bytes {
        let mut whole = BodyBuilder::with_capacity(length);
        for piece in vec![byte; length].chunks(50_000) {
            whole.push(piece);
        }
        assert_eq!(whole.length(), length);
        whole.into_bytes()
    }

    fn read(pipe: impl AsFd, length: usize) -> Vec<u8> {
        let mut taken = vec![0; length];
        let count = rustix::io::read(pipe, &mut taken[..]).expect("bytes are there");
        taken.truncate(count);
        taken
    }

    #[test]
    fn a_body_is_its_pieces_wherever_it_is() {
        for length in [0, 1, LENT_MIN - 1, LENT_MIN, LENT_MIN + 1, 1 << 20] {
            assert_eq!(whole(length, 7), vec![7; length]);
        }
    }

    #[test]
    fn nothing_grows_beyond_its_room() {
        for length in [10, LENT_MIN] {
            let overfull = std::panic::catch_unwind(|| {
                let mut whole = BodyBuilder::with_capacity(length);
                whole.push(&vec![1; length]);
                // As long as the rest of a page, and more than an allocator adds to a request.
                whole.push(&[1; 5000]);
            });
            assert!(overfull.is_err(), "{length}");
        }
    }

    #[test]
    fn lent_bytes_stay_unchanged_after_body_is_gone() {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("a pipe");
        let body = whole(LENT_MIN, 1);
        let lent =
            lend(writer.as_fd(), &body[100..20_000]).expect("in pages of its own").expect("room in the pipe");
        assert_eq!(lent, 19_900);
        drop(body);
        // These could get the same pages of memory if those had been given back too early.
        let others: Vec<Bytes> = (2..10).map(|byte| whole(LENT_MIN, byte)).collect();
        assert_eq!(read(&reader, 30_000), vec![1; 19_900]);
        drop(others);
    }

    #[test]
    fn body_is_found_by_any_slice_while_it_lives() {
        let bodies: Vec<Bytes> =
            [LENT_MIN, STRETCH - 1, 3 * STRETCH + 5, 20 << 20].map(|length| whole(length, 1)).into();
        for body in &bodies {
            let starts = (0..body.len()).step_by(LENT_MIN / 2).chain([body.len() - 1]);
            for slice in starts.map(|start| &body[start..]) {
                let lent = ZeroCopyBody::around(slice).expect("it is there");
                assert_eq!(lent.body().as_ptr_range(), body.as_ptr_range());
            }
        }
        let entries = || LENT.iter().map(|part| part.0.read().clone()).reduce(merged).expect("parts");
        let own: Vec<usize> = bodies
            .iter()
            .flat_map(|body| Vec::from_iter(ZeroCopyBody::around(body).expect("it is").entries()))
            .collect();
        assert!(own.len() > bodies.len() + 10 && own.iter().all(|address| entries().contains_key(address)));
        drop(bodies);
        assert!(!own.iter().any(|address| entries().contains_key(address)), "addresses are used once");
    }

    fn merged<K: Ord, V>(mut one: BTreeMap<K, V>, mut other: BTreeMap<K, V>) -> BTreeMap<K, V> {
        one.append(&mut other);
        one
    }

    #[test]
    fn bytes_without_own_pages_are_not_lent() {
        let (_reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("a pipe");
        let _body = whole(LENT_MIN, 1);
        let small = whole(LENT_MIN - 1, 1);
        assert!(lend(writer.as_fd(), &small).is_none());
        assert!(lend(writer.as_fd(), &vec![1; 1 << 20]).is_none());
        assert!(lend(writer.as_fd(), &Bytes::from_static(b"program")).is_none());
    }
}
