//! Distribution of sizes: over requests in their order, and over objects at their last size.

use shoal_trace::Trace;

/// The sizes of a trace.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct SizeSpreads {
    /// Spread over requests.
    pub of_requests: Spread,
    /// Spread over objects.
    pub of_objects: Spread,
    /// Size classes by powers of two.
    pub classes: Vec<SizeClass>,
    /// Bytes of all objects.
    pub unique_bytes: u64,
    /// Share of requests of at most 8 KB: Maltzahn's small objects.
    pub small_requests: f64,
}

/// Spread of a set of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Spread {
    /// Mean of the numbers.
    pub mean: f64,
    /// Quantiles at 10, 50, 90, 99 and 100%.
    pub quantiles: [u64; 5],
}

/// Requests and objects with a size above half of `to` and up to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct SizeClass {
    /// Largest size of the class, a power of two; 0 for empty objects.
    pub to: u64,
    /// Requests.
    pub requests: u64,
    /// Objects.
    pub objects: u64,
    /// Bytes requested.
    pub bytes: u64,
}

impl SizeSpreads {
    /// Computes the sizes of a trace.
    pub fn of(trace: &Trace) -> Self {
        let mut last: Vec<u64> = vec![0; trace.objects().len()];
        let mut classes = vec![SizeClass::default(); CLASSES];
        for (class, at) in classes.iter_mut().zip(0..) {
            class.to = upper(at);
        }
        let mut sizes: Vec<u64> = Vec::with_capacity(trace.requests().len());
        for request in trace.requests() {
            last[request.object as usize] = request.bytes;
            let class = &mut classes[class_of(request.bytes)];
            class.requests += 1;
            class.bytes += request.bytes;
            sizes.push(request.bytes);
        }
        last.iter().for_each(|bytes| classes[class_of(*bytes)].objects += 1);
        while classes.last().is_some_and(|class| class.requests == 0) {
            classes.pop();
        }
        let small = sizes.iter().filter(|bytes| **bytes <= 8192).count() as f64;
        Self {
            small_requests: small / sizes.len().max(1) as f64,
            unique_bytes: last.iter().sum(),
            of_requests: Spread::of(&mut sizes),
            of_objects: Spread::of(&mut last),
            classes,
        }
    }
}

impl Spread {
    /// Computes the spread of numbers; the order of `values` changes.
    pub fn of(values: &mut [u64]) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let mean = values.iter().map(|value| *value as f64).sum::<f64>() / values.len() as f64;
        let last = values.len() - 1;
        let at = |share: f64| (last as f64 * share).round() as usize;
        let quantiles = [0.1, 0.5, 0.9, 0.99, 1.0].map(|share| *values.select_nth_unstable(at(share)).1);
        Self { mean, quantiles }
    }
}

/// Returns the class of a size: 0, 1, 2, 3–4, 5–8, …
fn class_of(bytes: u64) -> usize {
    if bytes == 0 { 0 } else { (u64::BITS - (bytes - 1).leading_zeros()) as usize + 1 }
}

fn upper(class: usize) -> u64 {
    class.checked_sub(1).map_or(0, |power| 1u64.checked_shl(power as u32).unwrap_or(u64::MAX))
}

/// Number of classes: powers of two up to 2^64, and zero.
const CLASSES: usize = 66;
