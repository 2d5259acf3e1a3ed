//! Neighbourhoods in RAM: what stood around objects that were read, for as long as there is room.
//!
//! A window is a stretch of the disk as it was read. Windows are given up in the order in which they came; what is
//! asked for from one moves to the RAM tier as an object of its own. A window may be older than the disk: whoever
//! writes tells, and who finds something wrong in one reads again from the disk before drawing conclusions.

use super::format::Geometry;
use bytes::Bytes;
use parking_lot::Mutex;
use shoal_policy::Neighbourhoods;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// The windows of a volume.
pub(super) struct Windows {
    limit_bytes: u64,
    state: Mutex<State>,
}

struct State {
    /// By where they begin.
    windows: BTreeMap<u64, Bytes>,
    order: VecDeque<u64>,
    bytes: u64,
    neighbourhoods: Neighbourhoods,
    counts: Counts,
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
    /// Windows of so many bytes in all.
    pub(super) fn new(limit_bytes: u64) -> Self {
        let largest = if limit_bytes == 0 { 0 } else { WINDOW_MAX.min(limit_bytes / 4) };
        let state = State {
            windows: BTreeMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            neighbourhoods: Neighbourhoods::new(REGIONS as usize, largest),
            counts: Counts::default(),
        };
        Self { limit_bytes, state: Mutex::new(state) }
    }

    /// Bytes `start..start + length` of the disk, if a window has them all.
    pub(super) fn find(&self, geometry: &Geometry, start: u64, length: u64) -> Option<Bytes> {
        let mut state = self.state.lock();
        let (at, window) = state.windows.range(..=start).next_back()?;
        let from = (start - at) as usize;
        let found =
            (from + length as usize <= window.len()).then(|| window.slice(from..from + length as usize))?;
        state.neighbourhoods.spared(region_of(geometry, start));
        state.counts.spared += 1;
        Some(found)
    }

    /// What to read for bytes `start..start + length`: a stretch of whole pages within the stripe.
    pub(super) fn around(&self, geometry: &Geometry, start: u64, length: u64) -> Range<u64> {
        let window = {
            let mut state = self.state.lock();
            let region = region_of(geometry, start);
            state.neighbourhoods.read(region);
            state.neighbourhoods.window_bytes(region).max(PAGE)
        };
        let stripe = geometry.stripe_of(start).map_or(0..geometry.volume_bytes(), |stripe| {
            geometry.stripe_at(stripe)..geometry.stripe_at(stripe + 1)
        });
        // Windows are aligned within the stripe, so that neighbours agree on where they end.
        let from = (start - stripe.start) / window * window + stripe.start;
        let to = (start + length - stripe.start).next_multiple_of(window) + stripe.start;
        from..to.min(stripe.end)
    }

    /// Something was read from the disk; it is kept if it is more than what was asked for.
    pub(super) fn keep(&self, start: u64, bytes: Bytes, is_window: bool) {
        let length = bytes.len() as u64;
        let mut state = self.state.lock();
        state.counts.reads += 1;
        state.counts.bytes += length;
        if !is_window || length > self.limit_bytes {
            return;
        }
        if let Some(old) = state.windows.insert(start, bytes) {
            state.bytes -= old.len() as u64;
        } else {
            state.order.push_back(start);
        }
        state.bytes += length;
        while state.bytes > self.limit_bytes {
            let Some(oldest) = state.order.pop_front() else { break };
            if let Some(window) = state.windows.remove(&oldest) {
                state.bytes -= window.len() as u64;
            }
        }
    }

    /// These bytes of the disk have changed, or are in doubt.
    pub(super) fn forget(&self, range: Range<u64>) {
        let mut state = self.state.lock();
        let reach = range.start.saturating_sub(WINDOW_MAX + REACH_MARGIN);
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
    }

    /// What reading has done so far.
    pub(super) fn counts(&self) -> Counts {
        self.state.lock().counts
    }
}

/// Regions are equal shares of the disk.
fn region_of(geometry: &Geometry, position: u64) -> usize {
    let stripe = u64::from(geometry.stripe_of(position).unwrap_or(0));
    (stripe * REGIONS / u64::from(geometry.stripes.max(1))) as usize
}

const REGIONS: u64 = 256;
const WINDOW_MAX: u64 = 64 << 10;
/// A window that had to hold a record across its end is longer than others by at most the largest record.
const REACH_MARGIN: u64 = 1 << 20;
const PAGE: u64 = crate::door::PAGE_BYTES as u64;
