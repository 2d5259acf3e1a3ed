//! Memory that many bodies share: pages cut into rooms for bodies, from their start on, once.
//!
//! A room belongs to one body until the body is dropped. A room is reused only once the span has no
//! body left: its one owner may then fill it again ([`Span::clear`]). Before that, pages without
//! bodies may return to the system ([`Span::return_dead_pages`]).
//!
//! A count of bodies for each page tells which pages those are. The count rises under the lock
//! under which rooms are cut. A count found at zero under the lock therefore stays at zero while
//! the lock is held.

use super::fill::{BodyMemory, FillBuffer};
use memmap2::{MmapMut, MmapRaw};
use parking_lot::Mutex;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU16, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Stretch of memory for bodies.
pub(crate) struct Span {
    map: MmapRaw,
    page_bytes: usize,
    /// Number of bodies with a part in each page.
    touching: Box<[AtomicU16]>,
    live_bytes: AtomicU64,
    /// Sum over all spans.
    all_live_bytes: Arc<AtomicU64>,
    cut: Mutex<Cut>,
}

struct Cut {
    /// Bytes that have been cut off.
    bytes: usize,
    /// `true` for each page that was returned to the system.
    returned: Box<[bool]>,
}

/// Memory for a body in a span.
pub(crate) struct SpanSlice {
    span: Arc<Span>,
    start: u32,
    length: u32,
}

impl Span {
    /// Maps `bytes` bytes, whole pages. Live bytes of the span are added to `all_live_bytes` too.
    pub(crate) fn new(bytes: usize, all_live_bytes: Arc<AtomicU64>) -> io::Result<Self> {
        let page_bytes = super::page_bytes().ok_or(io::ErrorKind::Unsupported)?;
        if !bytes.is_multiple_of(page_bytes) || u32::try_from(bytes).is_err() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let pages = bytes / page_bytes;
        Ok(Self {
            map: MmapMut::map_anon(bytes)?.into(),
            page_bytes,
            touching: (0..pages).map(|_| AtomicU16::new(0)).collect(),
            live_bytes: AtomicU64::new(0),
            all_live_bytes,
            cut: Mutex::new(Cut { bytes: 0, returned: vec![false; pages].into() }),
        })
    }

    /// Returns the span's length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.map.len()
    }

    /// Returns the bytes of room that live bodies have.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Relaxed)
    }

    /// Reserves room for a body of `length` bytes, at least one. Returns `None` if the span has
    /// less left.
    pub(crate) fn room(self: &Arc<Self>, length: usize) -> Option<FillBuffer<SpanSlice>> {
        let mut cut = self.cut.lock();
        let start = cut.bytes;
        if length == 0 || length > self.bytes() - start {
            return None;
        }
        cut.bytes += room_bytes(length);
        assert!(cut.bytes <= self.bytes(), "room behind the span's end");
        assert!(start.is_multiple_of(ALIGNMENT));
        let packed = SpanSlice { span: Arc::clone(self), start: start as u32, length: length as u32 };
        for page in packed.pages() {
            self.touching[page].fetch_add(1, Relaxed);
            cut.returned[page] = false;
        }
        drop(cut);
        self.live_bytes.fetch_add(packed.room_bytes(), Relaxed);
        self.all_live_bytes.fetch_add(packed.room_bytes(), Relaxed);
        Some(FillBuffer::new(packed))
    }

    /// Returns the bytes that are not cut off yet.
    pub(crate) fn left_bytes(&self) -> usize {
        self.bytes() - self.cut.lock().bytes
    }

    /// Empties the span for reuse. `&mut self` proves that no body has a part of it.
    pub(crate) fn clear(&mut self) {
        assert_eq!(*self.live_bytes.get_mut(), 0, "a span is cleared that has bodies");
        debug_assert!(self.touching.iter_mut().all(|count| *count.get_mut() == 0));
        let cut = self.cut.get_mut();
        cut.bytes = 0;
        cut.returned.fill(false);
    }

    /// Returns pages without bodies to the system; the next room may begin in the last of them.
    /// Returns the number of bytes given back since the span was cleared.
    pub(crate) fn return_dead_pages(&self) -> u64 {
        let mut cut = self.cut.lock();
        for page in 0..cut.bytes.div_ceil(self.page_bytes) {
            if !cut.returned[page] && self.touching[page].load(Acquire) == 0 {
                // SAFETY: the page lies in the mapping, which is anonymous and lives as long as
                // `self`. No body has a part of the page: earlier readers are done with it, as
                // `Acquire` sees. No new body can come while the lock is held under which the count
                // rises. So the page is written before it is read again.
                let done = unsafe {
                    let start = self.map.as_mut_ptr().add(page * self.page_bytes);
                    libc::madvise(start.cast(), self.page_bytes, libc::MADV_DONTNEED)
                };
                cut.returned[page] = done == 0;
            }
        }
        cut.returned.iter().filter(|returned| **returned).count() as u64 * self.page_bytes as u64
    }
}

impl SpanSlice {
    /// Returns `true` if the body is in this span.
    pub(crate) fn is_in(&self, span: &Arc<Span>) -> bool {
        Arc::ptr_eq(&self.span, span)
    }

    fn pages(&self) -> Range<usize> {
        let (start, end) = (self.start as usize, (self.start + self.length) as usize);
        start / self.span.page_bytes..end.div_ceil(self.span.page_bytes)
    }

    fn room_bytes(&self) -> u64 {
        room_bytes(self.length as usize) as u64
    }
}

// SAFETY: the body lies in the mapping, which is anonymous and lives as long as the span, which
// this holds. The room was cut off for this body alone. Its pages are not given away before this is
// dropped: their counts are above zero, and clearing the span needs its only reference.
unsafe impl BodyMemory for SpanSlice {
    fn start(&self) -> *mut u8 {
        self.span.map.as_mut_ptr().wrapping_add(self.start as usize)
    }

    fn bytes(&self) -> usize {
        self.length as usize
    }
}

impl Drop for SpanSlice {
    fn drop(&mut self) {
        for page in self.pages() {
            let before = self.span.touching[page].fetch_sub(1, Release);
            debug_assert!(before > 0, "a page without bodies");
        }
        let before = self.span.live_bytes.fetch_sub(self.room_bytes(), Relaxed);
        debug_assert!(before >= self.room_bytes());
        self.span.all_live_bytes.fetch_sub(self.room_bytes(), Relaxed);
    }
}

/// Returns the bytes of a span that a body takes.
fn room_bytes(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}

/// Alignment of bodies in bytes, so that they are copied in whole words. It divides a page, and so
/// also the bytes left of a span.
const ALIGNMENT: usize = 8;

const _: () = assert!(ALIGNMENT.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::super::fill::{FilledBody, FilledPart};
    use super::*;

    const PAGE: usize = 4096;

    fn span(pages: usize) -> (Arc<Span>, Arc<AtomicU64>) {
        let live = Arc::new(AtomicU64::new(0));
        let bytes = pages * rustix::param::page_size();
        (Arc::new(Span::new(bytes, Arc::clone(&live)).expect("memory")), live)
    }

    fn packed(span: &Arc<Span>, body: &[u8]) -> Option<FilledBody<SpanSlice>> {
        let mut room = span.room(body.len())?;
        drop(room.push(body));
        Some(room.body())
    }

    #[test]
    fn bodies_stand_beside_each_other_until_it_is_full() {
        let (span, live) = span(4);
        let bodies: Vec<FilledBody<SpanSlice>> =
            (0_u8..).map_while(|byte| packed(&span, &[byte; 1001])).collect();
        assert_eq!(bodies.len(), span.bytes() / 1008);
        for (byte, body) in bodies.iter().enumerate() {
            assert_eq!(body[..], [byte as u8; 1001]);
        }
        assert_eq!(span.live_bytes(), bodies.len() as u64 * 1008);
        assert_eq!(live.load(Relaxed), span.live_bytes());
        assert!(packed(&span, &vec![7; span.left_bytes()]).is_some(), "to the last byte");
        assert_eq!(span.left_bytes(), 0);
        assert!(packed(&span, &[]).is_none() && packed(&span, &[1]).is_none());
        drop(bodies);
        assert_eq!((span.live_bytes(), live.load(Relaxed)), (0, 0));
    }

    #[test]
    fn parts_are_there_before_the_body_is_whole() {
        let (span, live) = span(2);
        let mut room = span.room(300).expect("room");
        let parts: Vec<FilledPart<SpanSlice>> =
            (0..3).map(|byte| room.push(&[byte; 100][..100 - byte as usize])).collect();
        assert_eq!(room.missing(), 3);
        for (byte, part) in parts.iter().enumerate() {
            assert_eq!(part[..], vec![byte as u8; 100 - byte][..]);
        }
        let last = room.push(&[3; 3]);
        let body = room.body();
        assert_eq!(body[..], [&[0; 100][..], &[1; 99], &[2; 98], &[3; 3]].concat());
        drop((body, parts));
        assert_eq!((live.load(Relaxed), &last[..]), (304, &[3; 3][..]), "a part keeps all of it");
        drop(last);
        assert_eq!(live.load(Relaxed), 0);
        let mut room = span.room(300).expect("room");
        drop(room.push(&[1; 299]));
        let body = room.body();
        assert_eq!((live.load(Relaxed), &body[..]), (304, &[1; 299][..]), "what is there");
        drop(body);
        assert_eq!(live.load(Relaxed), 0);
    }

    #[test]
    fn it_begins_anew_when_nobody_has_any_of_it() {
        let (mut span, _) = span(1);
        let body = packed(&span, &[1; 4000]).expect("room");
        assert!(Arc::get_mut(&mut span).is_none(), "a body is there");
        drop(body);
        Arc::get_mut(&mut span).expect("nobody has any of it").clear();
        assert_eq!(packed(&span, &[2; 4000]).expect("room again")[..], [2; 4000]);
    }

    #[test]
    fn pages_without_bodies_go_back_and_others_stay() {
        if rustix::param::page_size() != PAGE {
            return;
        }
        let (mut span, _) = span(8);
        let mut bodies: Vec<_> = (0..5).map(|byte| packed(&span, &[byte; 6000])).collect();
        assert_eq!(span.return_dead_pages(), 0);
        // The second body shares page 1 with the first and page 2 with the third.
        bodies[1] = None;
        assert_eq!(span.return_dead_pages(), 0);
        bodies[2] = None;
        assert_eq!(span.return_dead_pages(), 2 * PAGE as u64);
        assert_eq!(span.return_dead_pages(), 2 * PAGE as u64, "once");
        bodies[4] = None;
        assert_eq!(span.return_dead_pages(), 4 * PAGE as u64, "the last of them has room still");
        for at in [0, 3] {
            assert_eq!(bodies[at].as_ref().expect("it stays")[..], [at as u8; 6000]);
        }
        let last = packed(&span, &[9; 2700]).expect("room");
        assert_eq!(last[..], [9; 2700]);
        drop((bodies, last));
        Arc::get_mut(&mut span).expect("nobody has any of it").clear();
        assert_eq!(span.return_dead_pages(), 0);
    }

    #[test]
    fn lengths_that_are_no_pages_are_refused() {
        for bytes in [1, 4095, 5 << 30] {
            assert!(Span::new(bytes, Arc::default()).is_err(), "{bytes}");
        }
    }
}
