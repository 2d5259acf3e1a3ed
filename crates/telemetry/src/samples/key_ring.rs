//! Ring of one core's watched requests: one thread puts in, the dashboard's thread takes out.
//!
//! The owner of a place writes without a locked instruction. Threads that share a place take turns,
//! and lose a sample when another one has the turn. Cells are atomics, so that no memory is shared
//! unsafely; the release of `head` publishes a cell, that of `tail` frees it.

use crate::per_core::OWNED;
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Ring of samples. Its cells are allocated with the first sample.
#[derive(Debug, Default)]
pub struct KeyRing {
    /// Samples put in.
    head: AtomicU32,
    /// Samples taken out.
    tail: AtomicU32,
    lost: AtomicU64,
    cells: OnceLock<Box<Cells>>,
    /// Turn of threads that share the place.
    turn: Mutex<()>,
}

/// A watched request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySample {
    /// Keyed hash of the object.
    pub hash: u64,
    /// Bytes of the body; `None` if nothing may store the response.
    pub bytes: Option<u64>,
}

#[derive(Debug)]
struct Cells {
    hashes: [AtomicU64; LENGTH],
    sizes: [AtomicU32; LENGTH],
}

impl KeySample {
    /// Size in a cell of a response that nothing may store.
    pub const UNSTORABLE: u32 = u32::MAX;

    /// Returns the size in a cell of a body of this length. A body of 4 GiB and more counts as
    /// 4 GiB.
    #[inline]
    pub fn bytes(bytes: u64) -> u32 {
        u32::try_from(bytes).unwrap_or(Self::UNSTORABLE).min(Self::UNSTORABLE - 1)
    }
}

impl KeyRing {
    /// Adds a sample at `place`, the calling thread's.
    #[inline]
    pub fn push(&self, place: usize, hash: u64, size: u32) {
        match self.cells.get() {
            Some(cells) if place < OWNED => self.put(cells, hash, size),
            _ => self.push_in_turn(hash, size),
        }
    }

    /// Takes all samples. Returns the number of those lost since the last call.
    pub fn take(&self, taker: &mut impl FnMut(KeySample)) -> u64 {
        if let Some(cells) = self.cells.get() {
            let head = self.head.load(Acquire);
            let mut tail = self.tail.load(Relaxed);
            debug_assert!(head.wrapping_sub(tail) as usize <= LENGTH, "a ring has a limit");
            while tail != head {
                let at = tail as usize % LENGTH;
                let (hash, size) = (cells.hashes[at].load(Relaxed), cells.sizes[at].load(Relaxed));
                let bytes = (size != KeySample::UNSTORABLE).then(|| u64::from(size));
                taker(KeySample { hash, bytes });
                tail = tail.wrapping_add(1);
            }
            self.tail.store(tail, Release);
        }
        self.lost.swap(0, Relaxed)
    }

    /// Allocates the cells, or takes the turn of a shared place.
    #[cold]
    #[inline(never)]
    fn push_in_turn(&self, hash: u64, size: u32) {
        let cells = self.cells.get_or_init(Cells::new);
        match self.turn.try_lock() {
            Some(_turn) => self.put(cells, hash, size),
            None => self.lose(),
        }
    }

    #[inline]
    fn put(&self, cells: &Cells, hash: u64, size: u32) {
        let head = self.head.load(Relaxed);
        if head.wrapping_sub(self.tail.load(Acquire)) as usize >= LENGTH {
            return self.lose();
        }
        let at = head as usize % LENGTH;
        cells.hashes[at].store(hash, Relaxed);
        cells.sizes[at].store(size, Relaxed);
        self.head.store(head.wrapping_add(1), Release);
    }

    #[cold]
    fn lose(&self) {
        self.lost.fetch_add(1, Relaxed);
    }
}

impl Cells {
    fn new() -> Box<Self> {
        Box::new(Self {
            hashes: [const { AtomicU64::new(0) }; LENGTH],
            sizes: [const { AtomicU32::new(0) }; LENGTH],
        })
    }
}

/// Samples that a ring holds.
const LENGTH: usize = 512;

/// Bytes of a ring's cells.
pub const RING_BYTES: usize = size_of::<Cells>();

const _: () = assert!(LENGTH.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::per_core::{ALL_PLACES, OWNED};

    fn taken(ring: &KeyRing) -> (Vec<KeySample>, u64) {
        let mut samples = Vec::new();
        let lost = ring.take(&mut |sample| samples.push(sample));
        (samples, lost)
    }

    #[test]
    fn samples_come_out_in_order_and_surplus_is_lost() {
        let ring = KeyRing::default();
        assert_eq!(taken(&ring), (Vec::new(), 0));
        for round in 0..3 {
            for number in 0..LENGTH as u64 + 5 {
                ring.push(0, number, KeySample::bytes(round));
            }
            let (samples, lost) = taken(&ring);
            assert_eq!((samples.len(), lost), (LENGTH, 5));
            let is_sample = |(at, sample): (usize, &KeySample)| {
                *sample == KeySample { hash: at as u64, bytes: Some(round) }
            };
            assert!(samples.iter().enumerate().all(is_sample));
        }
        ring.push(0, 1, KeySample::UNSTORABLE);
        ring.push(0, 2, KeySample::bytes(u64::MAX));
        let sizes: Vec<_> = taken(&ring).0.iter().map(|sample| sample.bytes).collect();
        assert_eq!(sizes, [None, Some(u64::from(u32::MAX) - 1)]);
    }

    #[test]
    fn each_sample_comes_once_or_is_counted_as_lost() {
        let _alone = ALL_PLACES.lock();
        let ring = KeyRing::default();
        let (mut samples, mut lost) = (Vec::new(), 0);
        std::thread::scope(|scope| {
            let pushing: Vec<_> = (0..3_u64)
                .map(|thread| {
                    let ring = &ring;
                    scope.spawn(move || (0..COUNT).for_each(|n| ring.push(OWNED, thread * COUNT + n, 7)))
                })
                .collect();
            while !pushing.iter().all(|thread| thread.is_finished()) {
                let (more, gone) = taken(&ring);
                samples.extend(more);
                lost += gone;
            }
        });
        let (more, gone) = taken(&ring);
        samples.extend(more);
        assert_eq!(samples.len() as u64 + lost + gone, 3 * COUNT);
        let distinct: std::collections::HashSet<u64> = samples.iter().map(|sample| sample.hash).collect();
        assert_eq!(distinct.len(), samples.len());
    }

    const COUNT: u64 = 20_000;
}
