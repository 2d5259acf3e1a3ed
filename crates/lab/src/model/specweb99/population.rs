//! Requested files: sizes and probabilities, of SPECweb99's file set or of any trace.

use crate::workload::Workload;
use shoal_trace::generate::specweb99::FileSet;

/// Files with fixed probabilities, requested independently.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Population {
    items: Vec<Item>,
}

/// One file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item {
    /// Probability that an access is to this file.
    pub probability: f64,
    /// Size of the file, in bytes.
    pub bytes: f64,
}

impl Population {
    /// Creates a population of any files.
    pub fn of_items(items: Vec<Item>) -> Self {
        Self { items }
    }

    /// Creates SPECweb99's population (Eq. 1.4).
    pub fn of_files(set: &FileSet) -> Self {
        let item = |file| Item { probability: set.probability(file), bytes: file.exact_bytes() };
        Self { items: set.files().map(item).collect() }
    }

    /// Takes a trace's measured part: each object with the frequency of its requests. Objects
    /// without bytes are left out.
    ///
    /// An object requested once in the trace keeps a probability, though no further request comes.
    /// A model over the population therefore hits more than a cache over the trace can. The gap is
    /// the trace's share of new objects, and shows beside the simulation.
    pub fn of_trace(workload: &Workload) -> Self {
        let mut counts = vec![0u64; workload.objects];
        workload.measured().iter().for_each(|request| counts[request.object as usize] += 1);
        let sizes = workload.sizes();
        let asked = counts.iter().zip(&sizes).filter(|(count, bytes)| **count > 0 && **bytes > 0);
        let total: u64 = asked.clone().map(|(count, _)| count).sum();
        let item = |(count, bytes): (&u64, &u64)| Item {
            probability: *count as f64 / total as f64,
            bytes: *bytes as f64,
        };
        Self { items: asked.map(item).collect() }
    }

    /// Creates Zipf-like popularity with lognormal sizes, for populations known by their parameters
    /// alone: `median` bytes, `sigma` of the logarithm. Sizes are the distribution's quantiles. A
    /// fixed permutation deals them to ranks, so that they are independent of popularity.
    pub fn of_distributions(objects: u32, alpha: f64, median: f64, sigma: f64) -> Self {
        let count = objects.max(1);
        let weights: Vec<f64> = (1..=count).map(|rank| f64::from(rank).powf(-alpha)).collect();
        let total: f64 = weights.iter().sum();
        let item = |(rank, weight): (usize, f64)| {
            // multiples of the golden ratio: evenly spread at any length
            let quantile = (0.5 + (rank + 1) as f64 * GOLDEN_RATIO).fract().clamp(1e-9, 1.0 - 1e-9);
            Item { probability: weight / total, bytes: median * (sigma * normal_quantile(quantile)).exp() }
        };
        Self { items: weights.into_iter().enumerate().map(item).collect() }
    }

    /// Returns the files.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Returns the bytes of all files.
    pub fn bytes(&self) -> f64 {
        self.items.iter().map(|item| item.bytes).sum()
    }

    /// Returns the mean size of an access, in bytes.
    pub fn mean_access_bytes(&self) -> f64 {
        self.sum(|item| item.bytes)
    }

    /// Returns the mean of a quantity over accesses.
    pub fn sum(&self, of: impl Fn(&Item) -> f64) -> f64 {
        self.items.iter().map(|item| item.probability * of(item)).sum()
    }
}

/// Returns the normal distribution's quantile (Abramowitz and Stegun 1964, 26.2.23), off by 0.00045
/// at most.
fn normal_quantile(quantile: f64) -> f64 {
    debug_assert!(0.0 < quantile && quantile < 1.0, "{quantile} is no quantile");
    let tail = (-2.0 * quantile.min(1.0 - quantile).ln()).sqrt();
    let above = 2.515_517 + tail * (0.802_853 + tail * 0.010_328);
    let below = 1.0 + tail * (1.432_788 + tail * (0.189_269 + tail * 0.001_308));
    let size = tail - above / below;
    if quantile < 0.5 { -size } else { size }
}

const GOLDEN_RATIO: f64 = 0.618_033_988_749_894_9;
