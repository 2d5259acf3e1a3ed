//! Rates of change of objects, as far as sizes tell.
//!
//! A repeat with another size is taken for a change. Errors and aborted transfers look the same, so
//! the rates are bounds from above. A change that leaves the size alone is not seen, which is rare.
//! Popular objects are the most popular 0.3%, as in Wolman et al. (*On the scale and performance of
//! cooperative Web proxy caching*, SOSP 1999). Their model asks for both rates.

use super::popularity::Popularity;
use shoal_trace::Trace;

/// Changes of popular and of other objects.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct ChangeRates {
    /// The most popular 0.3% of the objects.
    pub popular: ChangeClass,
    /// The others.
    pub others: ChangeClass,
}

/// Changes of one class of objects.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct ChangeClass {
    /// Objects with two requests at least.
    pub objects: u64,
    /// Repeats.
    pub repeats: u64,
    /// Repeats with another size than before.
    pub changes: u64,
    /// Days from each request to the next for the same object, added up.
    pub days: f64,
    /// Requests for the class, of all.
    pub request_share: f64,
}

impl ChangeClass {
    /// Returns the upper bound of changes for each object and day; `None` where no time passed.
    pub fn per_day(&self) -> Option<f64> {
        (self.days > 0.0).then(|| self.changes as f64 / self.days)
    }

    /// Returns the share of repeats that differ.
    pub fn of_repeats(&self) -> f64 {
        if self.repeats == 0 { 0.0 } else { self.changes as f64 / self.repeats as f64 }
    }
}

impl ChangeRates {
    /// Counts the changes in a trace.
    pub fn of(trace: &Trace, popularity: &Popularity) -> Self {
        let mut counts = popularity.counts.clone();
        let popular = (counts.len() as f64 * POPULAR).ceil() as usize;
        let least = match popular.checked_sub(1) {
            Some(at) => *counts.select_nth_unstable_by(at, |a, b| b.cmp(a)).1,
            None => u32::MAX,
        };
        // An object with one request is never popular.
        let least = least.max(2);
        let mut last: Vec<(u64, u64)> = vec![(u64::MAX, 0); popularity.counts.len()];
        let mut change = Self::default();
        for request in trace.requests() {
            let count = popularity.counts[request.object as usize];
            let class = if count >= least { &mut change.popular } else { &mut change.others };
            class.request_share += 1.0;
            let before =
                std::mem::replace(&mut last[request.object as usize], (request.time_ms, request.bytes));
            if before.0 != u64::MAX {
                class.repeats += 1;
                class.changes += u64::from(before.1 != request.bytes);
                class.days += request.time_ms.saturating_sub(before.0) as f64 / 86_400_000.0;
            }
        }
        for count in popularity.counts.iter().filter(|count| **count > 1) {
            let class = if *count >= least { &mut change.popular } else { &mut change.others };
            class.objects += 1;
        }
        let requests = trace.requests().len().max(1) as f64;
        change.popular.request_share /= requests;
        change.others.request_share /= requests;
        change
    }
}

const POPULAR: f64 = 0.003;
