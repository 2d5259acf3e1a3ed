//! Neighbourhoods in RAM: what stood around objects that were read, for as long as there is room.
//!
//! A window is a stretch of the disk as it was read. Windows are given up in the order in which they came; what is
//! asked for from one moves to the RAM tier as an object of its own. A window may be older than the disk: whoever
//! writes tells, and who finds something wrong in one reads again from the disk before drawing conclusions.
//!
//! A window ends where the group of the wanted does. Where groups begin is known of what this process wrote, and of
//! other stripes from their contents, which are read once, before the first window in them.

use super::format::Geometry;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use shoal_policy::Borders;
use shoal_policy::neighbourhood::{GROUP_MAX, Neighbourhoods};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

/// The windows of a volume.
pub(super) struct Windows {
    limit_bytes: u64,
    state: Mutex<State>,
    /// A window has been read, or could not be.
    arrived: Condvar,
}

struct State {
    /// By where they begin.
    windows: BTreeMap<u64, Bytes>,
    order: VecDeque<u64>,
    bytes: u64,
    neighbourhoods: Neighbourhoods,
    borders: Borders,
    counts: Counts,
    /// What is being read, to become windows.
    reading: Vec<Range<u64>>,
}

/// A stretch of the disk that its holder reads. Others who want what lies in it wait until this is dropped.
pub(super) struct Reading<'a> {
    windows: &'a Windows,
    pub(super) range: Range<u64>,
    /// It is more than was asked for.
    is_window: bool,
}

/// Which way a window goes from what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Both: of an object.
    Around,
    /// On: of a piece, whose body is being read from its beginning.
    Onward,
}

/// What reading around objects has done, since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Reads from the disk.
    pub(super) reads: u64,
    /// Reads that a window has spared.
    pub(super) spared: u64,
    /// Bytes read from the disk.
    pub(super) bytes: u64,
}

impl Windows {
    /// Windows that take so many bytes of memory in all, with the gaps between them.
    pub(super) fn new(limit_bytes: u64, geometry: &Geometry) -> Self {
        let limit_bytes = limit_bytes - limit_bytes / GAPS_SHARE;
        let largest = GROUP_MAX.min(limit_bytes / 4);
        let state = State {
            windows: BTreeMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            neighbourhoods: Neighbourhoods::new(REGIONS as usize, largest),
            borders: Borders::new(geometry.stripes, geometry.stripe_bytes),
            counts: Counts::default(),
            reading: Vec::new(),
        };
        Self { limit_bytes, state: Mutex::new(state), arrived: Condvar::new() }
    }

    /// Bytes `start..start + length` of the disk, if a window has them all or is about to; otherwise what to read for them:
    /// a stretch of whole pages within the stripe.
    pub(super) fn find(
        &self,
        geometry: &Geometry,
        (start, length): (u64, u64),
        reach: Reach,
    ) -> Result<Bytes, Reading<'_>> {
        let mut state = self.state.lock();
        let wanted = start..start + length;
        let is_coming = |state: &State| {
            state.reading.iter().any(|read| read.start <= wanted.start && wanted.end <= read.end)
        };
        loop {
            if let Some(found) = state.find(&wanted) {
                state.spared(region_of(geometry, start));
                return Ok(found);
            }
            if !is_coming(&state) || self.arrived.wait_for(&mut state, WAIT_MAX).timed_out() {
                break;
            }
        }
        let range = state.around(geometry, &wanted, reach);
        let pages = start / PAGE * PAGE..wanted.end.next_multiple_of(PAGE);
        let is_window = range.start < pages.start || range.end > pages.end;
        if is_window {
            state.reading.push(range.clone());
        }
        Err(Reading { windows: self, range, is_window })
    }

    /// Bytes `start..start + length` of the disk, if a window has them all now.
    pub(super) fn find_at_once(&self, geometry: &Geometry, start: u64, length: u64) -> Option<Bytes> {
        let mut state = self.state.lock();
        let found = state.find(&(start..start + length))?;
        state.spared(region_of(geometry, start));
        Some(found)
    }

    /// These bytes of the disk have changed, or are in doubt.
    pub(super) fn forget(&self, range: Range<u64>) {
        let mut state = self.state.lock();
        let reach = range.start.saturating_sub(GROUP_MAX + REACH_MARGIN);
        let touched: Vec<u64> = state
            .windows
            .range(reach..range.end)
            .filter(|(start, window)| *start + window.len() as u64 > range.start)
            .map(|(start, _)| *start)
            .collect();
        for start in touched {
            if let Some(window) = state.windows.remove(&start) {
                state.bytes -= window.len() as u64;
            }
            state.order.retain(|other| *other != start);
        }
        state.reading.retain(|read| read.end <= range.start || range.end <= read.start);
    }

    /// The stripe is written anew, from its beginning.
    pub(super) fn clear_borders(&self, stripe: u32) {
        self.state.lock().borders.clear(stripe);
    }

    /// Groups begin, or what is of no group, at these offsets of the stripe.
    pub(super) fn mark_borders(&self, stripe: u32, offsets: impl IntoIterator<Item = u64>) {
        self.state.lock().borders.mark(stripe, offsets);
    }

    /// Whether it should be looked at where the stripe's groups begin.
    pub(super) fn wants_borders(&self, stripe: u32) -> bool {
        self.limit_bytes > 0 && self.state.lock().borders.is_unknown(stripe)
    }

    /// The stripe has been looked at. No offsets: it does not say where groups begin.
    pub(super) fn learn_borders(&self, stripe: u32, offsets: &[u64]) {
        self.state.lock().borders.learn(stripe, offsets);
    }

    /// What reading has done so far.
    pub(super) fn counts(&self) -> Counts {
        self.state.lock().counts
    }
}

impl State {
    fn keep(&mut self, start: u64, bytes: Bytes, limit_bytes: u64) {
        let length = bytes.len() as u64;
        if length > limit_bytes {
            return;
        }
        if let Some(old) = self.windows.insert(start, bytes) {
            self.bytes -= old.len() as u64;
        } else {
            self.order.push_back(start);
        }
        self.bytes += length;
        while self.bytes > limit_bytes {
            let Some(oldest) = self.order.pop_front() else { break };
            if let Some(window) = self.windows.remove(&oldest) {
                self.bytes -= window.len() as u64;
            }
        }
    }

    fn spared(&mut self, region: usize) {
        self.neighbourhoods.spared(region);
        self.counts.spared += 1;
    }

    fn find(&self, wanted: &Range<u64>) -> Option<Bytes> {
        let (at, window) = self.windows.range(..=wanted.start).next_back()?;
        let (from, to) = ((wanted.start - at) as usize, (wanted.end - at) as usize);
        (to <= window.len()).then(|| window.slice(from..to))
    }

    /// What to read for these bytes; alone when they are of no stripe.
    fn around(&mut self, geometry: &Geometry, wanted: &Range<u64>, reach: Reach) -> Range<u64> {
        let region = region_of(geometry, wanted.start);
        self.neighbourhoods.read(region);
        let Some(stripe) = geometry.stripe_of(wanted.start) else {
            return wanted.start / PAGE * PAGE..wanted.end.next_multiple_of(PAGE);
        };
        let (at, length) = (geometry.stripe_at(stripe), geometry.stripe_bytes);
        let offsets = wanted.start - at..wanted.end - at;
        // What surely is of the record: its size is known by class.
        let certain = offsets.start..offsets.end - (offsets.end - offsets.start) / 5;
        let group = self.borders.group_of(stripe, &certain);
        let read = match reach {
            Reach::Around => self.neighbourhoods.around(region, length, &offsets, group),
            Reach::Onward => self.neighbourhoods.onward(length, &offsets, group),
        };
        at + read.start..at + read.end
    }
}

impl Reading<'_> {
    /// It was read; a window is kept.
    pub(super) fn done(self, bytes: &Bytes) {
        let mut state = self.windows.state.lock();
        state.counts.reads += 1;
        state.counts.bytes += bytes.len() as u64;
        // What was written over meanwhile is not what is there.
        if self.is_window && state.reading.contains(&self.range) {
            state.keep(self.range.start, bytes.clone(), self.windows.limit_bytes);
        }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if self.is_window {
            let mut state = self.windows.state.lock();
            if let Some(at) = state.reading.iter().position(|range| *range == self.range) {
                state.reading.swap_remove(at);
            }
            drop(state);
            self.windows.arrived.notify_all();
        }
    }
}

/// Regions are equal shares of the disk.
fn region_of(geometry: &Geometry, position: u64) -> usize {
    let stripe = u64::from(geometry.stripe_of(position).unwrap_or(0));
    (stripe * REGIONS / u64::from(geometry.stripes.max(1))) as usize
}

const REGIONS: u64 = 256;
/// Windows are of all lengths and leave gaps in memory, for which so large a part is set aside. It is worth no reads: a tenth of RAM spares
/// as many as a sixteenth.
const GAPS_SHARE: u64 = 4;
/// A window that had to hold a record across its end is longer than others by at most the largest record.
const REACH_MARGIN: u64 = 1 << 20;
const PAGE: u64 = crate::door::PAGE_BYTES as u64;
/// Who waits longer than this for another's read begins one of its own.
const WAIT_MAX: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_leave_room_for_the_gaps_between_them() {
        let geometry = Geometry { id: 1, stripe_bytes: 1 << 20, stripes: 64, buckets: 64 };
        let windows = Windows::new(1 << 20, &geometry);
        for stripe in 0..64 {
            let wanted = (geometry.stripe_at(stripe) + 500_000, 1000);
            let Err(reading) = windows.find(&geometry, wanted, Reach::Around) else {
                panic!("nothing has been read there");
            };
            let bytes = vec![0; (reading.range.end - reading.range.start) as usize];
            reading.done(&bytes.into());
        }
        let kept = windows.state.lock().bytes;
        assert!((600 << 10..=768 << 10).contains(&kept), "{kept}");
    }
}
