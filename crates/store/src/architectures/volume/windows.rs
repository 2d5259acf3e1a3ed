//! Neighbourhoods in RAM: bytes around objects that were read, for as long as there is room.
//!
//! A window is a stretch of the disk as it was read. Windows are evicted in the order in which they
//! came. An object that is served from a window moves to the RAM tier on its own. A window may be
//! older than the disk: writers report their changes, and a reader that finds an error in a window
//! reads the disk before it draws conclusions.
//!
//! A window ends at the border of the wanted record's group. The borders in stripes that this
//! process wrote are known. The borders in other stripes come from their contents, which are read
//! once, before the first window in the stripe.

use super::format::VolumeGeometry;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use shoal_policy::GroupBorders;
use shoal_policy::neighbourhood::{GROUP_MAX, NeighbourhoodSizer};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Windows of a volume.
pub(super) struct WindowCache {
    limit_bytes: u64,
    state: Mutex<WindowState>,
}

struct WindowState {
    /// Windows by position.
    windows: BTreeMap<u64, Bytes>,
    order: VecDeque<u64>,
    bytes: u64,
    neighbourhoods: NeighbourhoodSizer,
    borders: GroupBorders,
    counts: WindowCounts,
    /// Reads in progress that become windows.
    reading: Vec<PendingWindow>,
}

/// Window that is being read.
#[derive(Clone)]
struct PendingWindow {
    range: Range<u64>,
    /// Notified when the read has ended or failed.
    arrived: Arc<Condvar>,
}

/// Stretch of the disk that its holder reads. Other readers of the stretch wait until this is
/// dropped.
pub(super) struct WindowReadGuard<'a> {
    windows: &'a WindowCache,
    pub(super) range: Range<u64>,
    /// Window that the read becomes; `None` for a read of the wanted bytes alone.
    coming: Option<PendingWindow>,
}

/// Direction of a window from the wanted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadDirection {
    /// Both directions, for an object.
    Around,
    /// Onward only, for a piece of a body that is read from its beginning.
    Onward,
}

/// Counters of neighbourhood reads since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WindowCounts {
    /// Reads from the disk.
    pub(super) reads: u64,
    /// Reads that a window has saved.
    pub(super) spared: u64,
    /// Bytes read from the disk.
    pub(super) bytes: u64,
}

impl WindowCache {
    /// Makes windows that take `limit_bytes` bytes of memory in total, with the gaps between them.
    pub(super) fn new(limit_bytes: u64, geometry: &VolumeGeometry) -> Self {
        let limit_bytes = limit_bytes - limit_bytes / GAPS_SHARE;
        let largest = GROUP_MAX.min(limit_bytes / 4);
        let state = WindowState {
            windows: BTreeMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            neighbourhoods: NeighbourhoodSizer::new(REGIONS as usize, largest),
            borders: GroupBorders::new(geometry.stripes, geometry.stripe_bytes),
            counts: WindowCounts::default(),
            reading: Vec::new(),
        };
        Self { limit_bytes, state: Mutex::new(state) }
    }

    /// Returns bytes `start..start + length` of the disk, if a window has them all or is about to.
    /// Otherwise returns the read to make: a stretch of whole pages within the stripe.
    pub(super) fn find(
        &self,
        geometry: &VolumeGeometry,
        (start, length): (u64, u64),
        reach: ReadDirection,
    ) -> Result<Bytes, WindowReadGuard<'_>> {
        let mut state = self.state.lock();
        let wanted = start..start + length;
        loop {
            if let Some(found) = state.find(&wanted) {
                state.spared(region_of(geometry, start));
                return Ok(found);
            }
            let has_all = |coming: &&PendingWindow| {
                coming.range.start <= wanted.start && wanted.end <= coming.range.end
            };
            // Each read has its own condition variable, so that other reads prolong no wait.
            let Some(arrived) = state.reading.iter().find(has_all).map(|coming| Arc::clone(&coming.arrived))
            else {
                break;
            };
            if arrived.wait_for(&mut state, WAIT_MAX).timed_out() {
                break;
            }
        }
        let range = state.around(geometry, &wanted, reach);
        let pages = start / PAGE * PAGE..wanted.end.next_multiple_of(PAGE);
        let is_window = range.start < pages.start || range.end > pages.end;
        let coming = is_window.then(|| PendingWindow { range: range.clone(), arrived: Arc::default() });
        state.reading.extend(coming.clone());
        assert!(range.start <= start && wanted.end <= range.end, "less than is wanted");
        Err(WindowReadGuard { windows: self, range, coming })
    }

    /// Returns bytes `start..start + length` of the disk, if a window has them all now.
    pub(super) fn try_find(&self, geometry: &VolumeGeometry, start: u64, length: u64) -> Option<Bytes> {
        let mut state = self.state.lock();
        let found = state.find(&(start..start + length))?;
        state.spared(region_of(geometry, start));
        Some(found)
    }

    /// Drops windows of bytes on disk that have changed, or are in doubt.
    pub(super) fn forget(&self, range: Range<u64>) {
        let mut state = self.state.lock();
        let reach = range.start.saturating_sub(GROUP_MAX + REACH_MARGIN);
        let touched: Vec<u64> = state
            .windows
            .range(reach..range.end)
            .filter(|(start, window)| *start + window.len() as u64 > range.start)
            .map(|(start, _)| *start)
            .collect();
        touched.into_iter().for_each(|start| state.drop_window(start));
        state.reading.retain(|coming| coming.range.end <= range.start || range.end <= coming.range.start);
    }

    /// Forgets the borders of a stripe that is rewritten from its beginning.
    pub(super) fn clear_borders(&self, stripe: u32) {
        self.state.lock().borders.clear(stripe);
    }

    /// Marks offsets of the stripe at which groups, or bytes without a group, begin.
    pub(super) fn mark_borders(&self, stripe: u32, offsets: impl IntoIterator<Item = u64>) {
        self.state.lock().borders.mark(stripe, offsets);
    }

    /// Returns `true` if the borders of the stripe's groups are still to be read.
    pub(super) fn wants_borders(&self, stripe: u32) -> bool {
        self.limit_bytes > 0 && self.state.lock().borders.is_unknown(stripe)
    }

    /// Records the borders of a stripe. No offsets: the stripe does not list its groups.
    pub(super) fn learn_borders(&self, stripe: u32, offsets: &[u64]) {
        self.state.lock().borders.learn(stripe, offsets);
    }

    /// Returns the counters.
    pub(super) fn counts(&self) -> WindowCounts {
        self.state.lock().counts
    }
}

impl WindowState {
    /// Keeps a window. No window lies inside another: lookups examine only the last one that begins
    /// before the wanted bytes.
    fn keep(&mut self, start: u64, bytes: Bytes, limit_bytes: u64) {
        let length = bytes.len() as u64;
        let end = start + length;
        if length > limit_bytes || self.find(&(start..end)).is_some() {
            return;
        }
        let is_within = |(at, window): &(&u64, &Bytes)| **at + window.len() as u64 <= end;
        let within = self.windows.range(start..end).filter(is_within).map(|(at, _)| *at);
        within.collect::<Vec<_>>().into_iter().for_each(|at| self.drop_window(at));
        self.windows.insert(start, bytes);
        self.order.push_back(start);
        self.bytes += length;
        while self.bytes > limit_bytes {
            let Some(oldest) = self.order.front().copied() else { break };
            self.drop_window(oldest);
        }
        if cfg!(debug_assertions) {
            self.invariants(limit_bytes);
        }
    }

    /// Checks all that is said of the fields.
    fn invariants(&self, limit_bytes: u64) {
        assert!(self.bytes <= limit_bytes);
        let bytes: u64 = self.windows.values().map(|window| window.len() as u64).sum();
        assert_eq!(self.bytes, bytes, "bytes of all windows");
        assert_eq!(self.order.len(), self.windows.len());
        assert!(self.order.iter().all(|start| self.windows.contains_key(start)));
        let ends = self.windows.iter().map(|(start, window)| start + window.len() as u64);
        assert!(ends.is_sorted_by(|one, next| one < next), "a window within another");
        let coming = self.reading.iter().map(|coming| &coming.range);
        assert!(coming.into_iter().all(|range| range.start < range.end));
    }

    fn drop_window(&mut self, start: u64) {
        if let Some(window) = self.windows.remove(&start) {
            assert!(self.bytes >= window.len() as u64);
            self.bytes -= window.len() as u64;
            self.order.retain(|other| *other != start);
        }
    }

    fn spared(&mut self, region: usize) {
        self.neighbourhoods.spared(region);
        self.counts.spared += 1;
    }

    fn find(&self, wanted: &Range<u64>) -> Option<Bytes> {
        let (at, window) = self.windows.range(..=wanted.start).next_back()?;
        let (from, to) = ((wanted.start - at) as usize, (wanted.end - at) as usize);
        debug_assert!(from <= to);
        (to <= window.len()).then(|| window.slice(from..to))
    }

    fn place_of(&self, own: &PendingWindow) -> Option<usize> {
        self.reading.iter().position(|coming| Arc::ptr_eq(&coming.arrived, &own.arrived))
    }

    /// Returns the range to read for these bytes; only their pages when they are outside of all
    /// stripes.
    fn around(&mut self, geometry: &VolumeGeometry, wanted: &Range<u64>, reach: ReadDirection) -> Range<u64> {
        let region = region_of(geometry, wanted.start);
        self.neighbourhoods.read(region);
        let Some(stripe) = geometry.stripe_of(wanted.start) else {
            return wanted.start / PAGE * PAGE..wanted.end.next_multiple_of(PAGE);
        };
        let (at, length) = (geometry.stripe_at(stripe), geometry.stripe_bytes);
        let offsets = wanted.start - at..wanted.end - at;
        // Part that surely belongs to the record: only the class of the size is known.
        let certain = offsets.start..offsets.end - (offsets.end - offsets.start) / 5;
        let group = self.borders.group_of(stripe, &certain);
        let read = match reach {
            ReadDirection::Around => self.neighbourhoods.around(region, length, &offsets, group),
            ReadDirection::Onward => self.neighbourhoods.onward(length, &offsets, group),
        };
        assert!(read.start <= offsets.start, "a window that begins too late");
        assert!(read.end >= offsets.end, "a window that ends too early");
        assert!(read.end <= length, "a window across its stripe's end");
        assert!(read.start.is_multiple_of(PAGE) && read.end.is_multiple_of(PAGE));
        at + read.start..at + read.end
    }
}

impl WindowReadGuard<'_> {
    /// Ends a read and keeps its window.
    pub(super) fn done(self, bytes: &Bytes) {
        debug_assert_eq!(bytes.len() as u64, self.range.end - self.range.start);
        let mut state = self.windows.state.lock();
        state.counts.reads += 1;
        state.counts.bytes += bytes.len() as u64;
        // Bytes that were overwritten meanwhile do not match the disk.
        if self.coming.as_ref().is_some_and(|own| state.place_of(own).is_some()) {
            state.keep(self.range.start, bytes.clone(), self.windows.limit_bytes);
        }
    }
}

impl Drop for WindowReadGuard<'_> {
    fn drop(&mut self) {
        let Some(own) = &self.coming else { return };
        let mut state = self.windows.state.lock();
        if let Some(at) = state.place_of(own) {
            state.reading.swap_remove(at);
        }
        drop(state);
        own.arrived.notify_all();
    }
}

/// Returns the region of a position; regions are equal shares of the disk.
fn region_of(geometry: &VolumeGeometry, position: u64) -> usize {
    let stripe = u64::from(geometry.stripe_of(position).unwrap_or(0));
    let region = stripe * REGIONS / u64::from(geometry.stripes.max(1));
    debug_assert!(region < REGIONS);
    region as usize
}

const REGIONS: u64 = 256;
/// Share of the RAM set aside for the gaps that windows of various lengths leave. This costs no
/// reads: a tenth of RAM saves as many as a sixteenth.
const GAPS_SHARE: u64 = 4;
/// Margin for a window that had to hold a record across its end: it exceeds other windows by at
/// most the largest record.
const REACH_MARGIN: u64 = 1 << 20;
const PAGE: u64 = crate::fs::PAGE_BYTES as u64;
/// Longest wait for another reader's read, before the waiter reads itself.
const WAIT_MAX: Duration = Duration::from_millis(500);

const _: () = assert!(GAPS_SHARE > 1);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_window_is_not_hidden_by_one_that_lies_in_it() {
        let geometry = VolumeGeometry { id: 1, stripe_bytes: 1 << 20, stripes: 64, buckets: 64, oldest: 0 };
        let windows = WindowCache::new(1 << 20, &geometry);
        let mut state = windows.state.lock();
        let pages = |count: usize| Bytes::from(vec![count as u8; count * 4096]);
        for (start, count) in [(10, 2), (12, 4), (15, 3), (10, 7), (12, 2)] {
            state.keep(start * PAGE, pages(count), 1 << 20);
        }
        let found = |from: u64, to: u64| state.find(&(from * PAGE..to * PAGE)).map(|bytes| bytes[0]);
        assert_eq!([found(10, 12), found(14, 15), found(16, 18)], [Some(7), Some(7), Some(3)]);
        assert_eq!((state.bytes / PAGE, state.windows.len(), state.order.len()), (10, 2, 2));
    }

    /// Like one slow place of a disk beside others.
    #[test]
    fn waiter_for_slow_read_ignores_other_reads() {
        let geometry = VolumeGeometry { id: 1, stripe_bytes: 1 << 20, stripes: 64, buckets: 64, oldest: 0 };
        let windows = WindowCache::new(1 << 20, &geometry);
        let read = |stripe: u32| {
            windows.find(&geometry, (geometry.stripe_at(stripe) + 500_000, 1000), ReadDirection::Around).err()
        };
        let slow = read(0).expect("nothing has been read there");
        let (stop, stopped) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let others = scope.spawn(move || {
                let rest = Duration::from_millis(20);
                (1..200)
                    .take_while(|turn| {
                        drop(read(1 + turn % 60));
                        stopped.recv_timeout(rest) == Err(mpsc::RecvTimeoutError::Timeout)
                    })
                    .count()
            });
            assert!(read(0).is_some(), "it reads for itself");
            drop(stop);
            assert!(others.join().expect("no panic") < 100, "it waited for as long as others read");
        });
        drop(slow);
    }

    #[test]
    fn windows_leave_room_for_the_gaps_between_them() {
        let geometry = VolumeGeometry { id: 1, stripe_bytes: 1 << 20, stripes: 64, buckets: 64, oldest: 0 };
        let windows = WindowCache::new(1 << 20, &geometry);
        for stripe in 0..64 {
            let wanted = (geometry.stripe_at(stripe) + 500_000, 1000);
            let Err(reading) = windows.find(&geometry, wanted, ReadDirection::Around) else {
                panic!("nothing has been read there");
            };
            let bytes = vec![0; (reading.range.end - reading.range.start) as usize];
            reading.done(&bytes.into());
        }
        let kept = windows.state.lock().bytes;
        assert!((600 << 10..=768 << 10).contains(&kept), "{kept}");
    }
}
