//! Large bodies in pages of their own, which the kernel may send without copying them.
//!
//! What is written to a socket is copied into the kernel's memory first. With `vmsplice` the kernel
//! takes the very pages instead, and the network reads them later, perhaps long after the call. So
//! they must not change from then on: a page that were used again for something else would be sent
//! in place of the body. Here a body has pages that nothing else ever uses, nothing writes to them
//! once it is whole, and with it they go back to the system; what the kernel still sends of them it
//! keeps by itself.
//!
//! A body that is asked for often is put into large pages, which are sent with less work.
//!
//! [`Bytes`] do not tell where they are, so the pages of all such bodies stand in a table, which
//! [`lend`] looks into. For a small body all that costs more than the copy; see [`LENT_MIN`]. The
//! table is in parts, by address, so that workers that send different bodies seldom meet at one
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

/// A body that is put together from pieces, in one piece.
pub struct BodyBuilder(Place);

enum Place {
    Heap(Vec<u8>),
    Pages(FillBuffer<ArenaPages>),
}

impl BodyBuilder {
    /// Room for `length` bytes: in pages of their own from [`LENT_MIN`] on, if the system gives
    /// some.
    pub fn with_capacity(length: usize) -> Self {
        Self(room(length).map_or_else(|| Place::Heap(Vec::with_capacity(length)), Place::Pages))
    }

    /// Adds a piece.
    ///
    /// # Panics
    /// When all pieces together are more than there is room for.
    pub fn push(&mut self, piece: &[u8]) {
        match &mut self.0 {
            Place::Heap(bytes) => {
                assert!(piece.len() <= bytes.capacity() - bytes.len(), "room for this piece");
                bytes.extend_from_slice(piece);
            }
            Place::Pages(room) => drop(room.push(piece)),
        }
    }

    /// Bytes so far.
    pub fn length(&self) -> usize {
        match &self.0 {
            Place::Heap(bytes) => bytes.len(),
            Place::Pages(room) => room.filled(),
        }
    }

    /// The body.
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            Place::Heap(bytes) => bytes.into(),
            Place::Pages(room) => ZeroCopyBody::new(room.body()).bytes(),
        }
    }
}

/// Bytes of memory that a body of so many takes: whole pages where it has its own.
pub fn room_bytes(length: u64) -> u64 {
    let page = crate::sys::page_bytes().filter(|_| length >= LENT_MIN as u64);
    page.and_then(|page| length.checked_next_multiple_of(page as u64)).unwrap_or(length)
}

/// Room for a large body in pages of its own. `None` for a smaller one, and when the system gives
/// none.
pub(super) fn room(length: usize) -> Option<FillBuffer<ArenaPages>> {
    (length >= LENT_MIN).then(|| ArenaPages::new(length).ok().map(FillBuffer::new))?
}

/// Has the kernel take as many of these bytes as go into `pipe`, without copying them. `None` when
/// they are not in pages of their own.
pub fn lend(pipe: BorrowedFd<'_>, bytes: &[u8]) -> Option<io::Result<usize>> {
    ZeroCopyBody::around(bytes).map(|_| crate::sys::splice_to_pipe(pipe, bytes))
}

/// A body in pages of its own, in the table.
pub(super) struct ZeroCopyBody {
    body: FilledBody<ArenaPages>,
    /// Hits since it is here; counted up to [`HITS_FOR_LARGE_PAGES`].
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

    /// The body that these bytes are of.
    pub(super) fn around(bytes: &[u8]) -> Option<Arc<Self>> {
        let range = bytes.as_ptr_range();
        let address = range.start.addr();
        let lent = part(address).read().range(..=address).next_back()?.1.upgrade()?;
        debug_assert!(lent.body().as_ptr_range().start <= range.start);
        (range.end <= lent.body().as_ptr_range().end).then_some(lent)
    }

    /// The body.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// For who is to hold it too.
    pub(super) fn bytes(self: &Arc<Self>) -> Bytes {
        Bytes::from_owner(Holder(Arc::clone(self)))
    }

    /// Whether somebody else holds it, or a part that he had before it was whole.
    pub(super) fn is_shared(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1 || self.body.holders() > 1
    }

    /// Counts a hit. True with the one that makes it worth to have it in large pages.
    pub(super) fn hit(&self) -> bool {
        let hits = self.hits.load(Relaxed);
        hits < HITS_FOR_LARGE_PAGES
            && self.hits.compare_exchange(hits, hits + 1, Relaxed, Relaxed).is_ok()
            && hits + 1 == HITS_FOR_LARGE_PAGES
            && gives_large_pages()
    }

    /// Begins to count anew, as nothing came of it.
    pub(super) fn count_hits_anew(&self) {
        self.hits.store(0, Relaxed);
    }

    /// A copy in large pages, if there is memory. To be called where it may take a while.
    pub(super) fn in_large_pages(&self) -> Option<Arc<Self>> {
        let mut room = FillBuffer::new(ArenaPages::large(self.body.len()).ok()?);
        drop(room.push(&self.body));
        Some(Self::after_hits(room.body(), HITS_FOR_LARGE_PAGES))
    }

    /// Where it begins, and where it goes on in another stretch.
    fn entries(&self) -> impl Iterator<Item = usize> {
        let range = self.body.as_ptr_range();
        let (first, end) = (range.start.addr(), range.end.addr());
        iter::once(first).chain((first / STRETCH + 1..end.div_ceil(STRETCH)).map(|stretch| stretch * STRETCH))
    }
}

impl Drop for ZeroCopyBody {
    fn drop(&mut self) {
        // Before the pages go, whose addresses may be somebody else's the next moment.
        for address in self.entries() {
            let entry = part(address).write().remove(&address);
            debug_assert!(entry.is_some(), "pages that were not in the table");
        }
    }
}

/// One of those that hold a body.
struct Holder(Arc<ZeroCopyBody>);

impl AsRef<[u8]> for Holder {
    fn as_ref(&self) -> &[u8] {
        self.0.body()
    }
}

/// The part of the table with the bodies that are where this address is.
fn part(address: usize) -> &'static RwLock<BTreeMap<usize, Weak<ZeroCopyBody>>> {
    &LENT[address / STRETCH % PARTS].0
}

/// Where the pages of bodies begin, and where those that reach into another stretch go on. Who has
/// a slice of them keeps them in the table.
static LENT: [Part; PARTS] = [const { Part(RwLock::new(BTreeMap::new())) }; PARTS];

/// In cache lines that no other part is in.
#[repr(align(128))]
struct Part(RwLock<BTreeMap<usize, Weak<ZeroCopyBody>>>);

/// As many as there may well be workers.
const PARTS: usize = 64;

/// Addresses of which one part tells. Most bodies are shorter, and so in one part, or in two.
const STRETCH: usize = 2 << 20;

/// From this length on it costs less to lend a body than to copy it: measured, see
/// `docs/experiments/hits-notebook.md`.
pub const LENT_MIN: usize = 32 << 10;

/// Large pages spare a hit about a tenth of its time, and to copy a body into them takes a few
/// times that of a hit.
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
                // As long as the rest of a page, and more than an allocator gives beyond what it is
                // asked for.
                whole.push(&[1; 5000]);
            });
            assert!(overfull.is_err(), "{length}");
        }
    }

    #[test]
    fn what_was_lent_stays_as_it_was_when_the_body_is_gone() {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("a pipe");
        let body = whole(LENT_MIN, 1);
        let lent =
            lend(writer.as_fd(), &body[100..20_000]).expect("in pages of its own").expect("room in the pipe");
        assert_eq!(lent, 19_900);
        drop(body);
        // Perhaps in the same pages of memory, were they given back too early.
        let others: Vec<Bytes> = (2..10).map(|byte| whole(LENT_MIN, byte)).collect();
        assert_eq!(read(&reader, 30_000), vec![1; 19_900]);
        drop(others);
    }

    #[test]
    fn a_body_is_found_wherever_it_is_asked_for_as_long_as_it_is_there() {
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
    fn what_is_not_in_pages_of_its_own_is_not_lent() {
        let (_reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("a pipe");
        let _body = whole(LENT_MIN, 1);
        let small = whole(LENT_MIN - 1, 1);
        assert!(lend(writer.as_fd(), &small).is_none());
        assert!(lend(writer.as_fd(), &vec![1; 1 << 20]).is_none());
        assert!(lend(writer.as_fd(), &Bytes::from_static(b"program")).is_none());
    }
}
