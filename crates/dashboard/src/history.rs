//! The last 24 hours of a node in a fixed memory: fine steps for the last minutes, coarser ones
//! before.
//!
//! ```text
//!   sample a second ─► 2 s × 300 (10 min), 15 s × 480 (2 h), 60 s × 1440 (24 h)
//! ```
//!
//! A level keeps means a second of the counted series and of levels, and the largest `p99_us`. A
//! value is unknown (`null`) where no sample came. Steps are those of the wall clock. After a step
//! of the clock backwards, later entries are dropped; after one forwards, a gap stays. The memory
//! is 2,220 entries of 56 bytes, 124 KB.

mod bytes;
#[cfg(test)]
mod tests;

pub use bytes::HistoryFileError;

use crate::documents::HistoryDocument;
use std::collections::VecDeque;

/// Names of the series, in their order within a sample.
pub const SERIES: [&str; 14] = [
    "requests",
    "hits",
    "hit_bytes",
    "bytes",
    "origin_bytes",
    "disk_reads",
    "disk_writes",
    "disk_read_bytes",
    "disk_write_bytes",
    "cpu_ms",
    "rss_bytes",
    "p50_us",
    "p99_us",
    "errors",
];

/// Values of one second, in the order of [`SERIES`]; NaN where nothing is known.
pub type Sample = [f32; SERIES.len()];

/// The history.
#[derive(Debug, PartialEq)]
pub struct History {
    levels: [Level; STEPS.len()],
}

/// Entries of one step length.
#[derive(Debug, PartialEq)]
struct Level {
    step_s: u64,
    kept: usize,
    /// Number of the newest whole entry's step, since 1970.
    newest: u64,
    entries: VecDeque<Sample>,
    /// Step that is being filled.
    open: Option<OpenStep>,
}

/// Samples of a step that has not ended.
#[derive(Debug, PartialEq)]
struct OpenStep {
    number: u64,
    sums: [f64; SERIES.len()],
    counts: [u32; SERIES.len()],
}

impl History {
    /// Adds the sample of the second `unix_s`.
    pub fn record(&mut self, unix_s: u64, sample: &Sample) {
        self.levels.iter_mut().for_each(|level| level.record(unix_s, sample));
    }

    /// Returns the last `seconds` before `unix_s`, in the finest steps that reach so far.
    pub fn document(&self, unix_s: u64, seconds: u64) -> HistoryDocument {
        let reaches = |level: &&Level| level.step_s * level.kept as u64 >= seconds;
        let [.., coarsest] = &self.levels;
        let level = self.levels.iter().find(reaches).unwrap_or(coarsest);
        let count = seconds.div_ceil(level.step_s).clamp(1, level.kept as u64);
        debug_assert!(count <= level.kept as u64, "a level has a limit");
        let end = unix_s / level.step_s;
        let first = end.saturating_sub(count);
        let series = SERIES.iter().enumerate().map(|(number, name)| {
            let values = (first..end).map(|step| level.entry(step).and_then(|entry| known(entry[number])));
            (*name, values.collect())
        });
        HistoryDocument { start: first * level.step_s, step_s: level.step_s, series: series.collect() }
    }

    /// Returns sums of series over the last `seconds` before `unix_s`, in units of the samples
    /// times seconds. `None` if nothing is known.
    pub fn sums<const N: usize>(&self, unix_s: u64, seconds: u64, series: [&str; N]) -> [Option<f64>; N] {
        let document = self.document(unix_s, seconds);
        series.map(|name| {
            let mut values = document.series.get(name)?.iter().flatten().peekable();
            values.peek()?;
            Some(values.sum::<f64>() * document.step_s as f64)
        })
    }

    /// Returns the bytes of memory taken.
    pub fn memory_bytes(&self) -> usize {
        let entries: usize = self.levels.iter().map(|level| level.entries.capacity()).sum();
        size_of::<Self>() + entries * size_of::<Sample>()
    }

    /// Checks the levels.
    pub fn invariants(&self) {
        for (level, (step_s, kept)) in self.levels.iter().zip(STEPS) {
            assert_eq!((level.step_s, level.kept), (step_s, kept), "the levels are fixed");
            assert!(level.entries.len() <= level.kept, "a level has a limit");
            assert!(level.entries.len() as u64 <= level.newest + 1, "no entry is before 1970");
            let open = level.open.as_ref().map(|open| open.number);
            let follows = open.is_none_or(|open| open > level.newest || level.entries.is_empty());
            assert!(follows, "the open step follows");
        }
    }
}

impl Default for History {
    fn default() -> Self {
        Self { levels: STEPS.map(|(step_s, kept)| Level::new(step_s, kept)) }
    }
}

impl Level {
    fn new(step_s: u64, kept: usize) -> Self {
        Self { step_s, kept, newest: 0, entries: VecDeque::with_capacity(kept), open: None }
    }

    fn record(&mut self, unix_s: u64, sample: &Sample) {
        let number = unix_s / self.step_s;
        if let Some(open) = self.open.take_if(|open| open.number != number)
            && open.number < number
        {
            self.push(open.number, open.entry());
        }
        self.forget_from(number);
        let open = self.open.get_or_insert_with(|| OpenStep::new(number));
        open.add(sample);
    }

    /// Drops entries of the step `number` and later ones: the clock went back.
    fn forget_from(&mut self, number: u64) {
        while !self.entries.is_empty() && self.newest >= number {
            self.entries.pop_back();
            self.newest = self.newest.saturating_sub(1);
        }
    }

    /// Adds the entry of a whole step, after unknown ones where steps are missing.
    fn push(&mut self, number: u64, entry: Sample) {
        self.forget_from(number);
        let missing = if self.entries.is_empty() { 0 } else { number - self.newest - 1 };
        if missing >= self.kept as u64 {
            self.entries.clear();
        } else {
            (0..missing).for_each(|_| self.push_back([f32::NAN; SERIES.len()]));
        }
        self.push_back(entry);
        debug_assert!(number >= self.newest || self.entries.len() == 1, "steps go on");
        self.newest = number;
    }

    fn push_back(&mut self, entry: Sample) {
        if self.entries.len() == self.kept {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// Returns the entry of a step.
    fn entry(&self, number: u64) -> Option<&Sample> {
        let back = self.newest.checked_sub(number)?;
        let at = (self.entries.len() as u64).checked_sub(back + 1)?;
        self.entries.get(usize::try_from(at).ok()?)
    }
}

impl OpenStep {
    fn new(number: u64) -> Self {
        Self { number, sums: [0.0; SERIES.len()], counts: [0; SERIES.len()] }
    }

    fn add(&mut self, sample: &Sample) {
        for (number, value) in sample.iter().enumerate() {
            let Some(value) = known(*value) else { continue };
            let sum = &mut self.sums[number];
            *sum = if SERIES[number] == LARGEST { sum.max(value) } else { *sum + value };
            self.counts[number] = self.counts[number].saturating_add(1);
        }
    }

    fn entry(&self) -> Sample {
        std::array::from_fn(|number| match self.counts[number] {
            0 => f32::NAN,
            _ if SERIES[number] == LARGEST => self.sums[number] as f32,
            count => (self.sums[number] / f64::from(count)) as f32,
        })
    }
}

impl HistoryDocument {
    /// Returns the document in at most `points` steps, several of them joined.
    pub fn in_points(self, points: usize) -> Self {
        let steps = self.series.values().next().map_or(0, Vec::len);
        let joined = steps.div_ceil(points.max(1)).max(1);
        // The first steps that fill no whole one are left out, so that the last one ends now.
        let skipped = steps % joined;
        let join = |name: &str, values: &[Option<f64>]| -> Vec<Option<f64>> {
            let whole = values[skipped..].chunks(joined);
            whole.map(|values| join(values.iter().copied().flatten(), name == LARGEST)).collect()
        };
        let series = self.series.iter().map(|(name, values)| (*name, join(name, values))).collect();
        let start = self.start + skipped as u64 * self.step_s;
        Self { start, step_s: self.step_s * joined as u64, series }
    }
}

/// Returns the mean of known values, or the largest one.
fn join(values: impl Iterator<Item = f64>, is_largest: bool) -> Option<f64> {
    let (mut sum, mut largest, mut count) = (0.0, 0.0_f64, 0);
    for value in values {
        (sum, largest, count) = (sum + value, largest.max(value), count + 1);
    }
    (count > 0).then(|| if is_largest { largest } else { sum / f64::from(count) })
}

/// Returns a value that may be shown.
fn known(value: f32) -> Option<f64> {
    (value.is_finite() && value >= 0.0).then(|| f64::from(value))
}

/// Step lengths in seconds, and entries kept.
const STEPS: [(u64, usize); 3] = [(2, 300), (15, 480), (60, 1440)];

/// Series of which a step keeps the largest value.
const LARGEST: &str = "p99_us";

const _: () = {
    let (step_s, kept) = STEPS[STEPS.len() - 1];
    assert!(step_s * kept as u64 == 24 * 60 * 60, "the coarsest level has a day");
};
