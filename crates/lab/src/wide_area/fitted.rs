//! Rates of change fitted to a stream that shows versions only at requests.
//!
//! Between two requests for an object, t days apart, a log shows at most that the object changed.
//! With changes at rate μ it did with probability 1 − e^−μt. The rate that makes the log most
//! likely solves Σ over changed gaps of t/(e^μt − 1) = Σ over unchanged gaps of t. A count of
//! changes over time would be too low, the more the rarer requests are. O(gaps) for each of some
//! sixty steps.

use super::Stream;
use crate::model::wan::Change;

/// Change processes of a stream: those of the popular objects, and those of the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedChanges {
    /// Changes of the popular objects.
    pub popular: Change,
    /// Changes of the others.
    pub others: Change,
    /// Number of objects that count as popular.
    pub popular_objects: usize,
    /// Gaps between two requests for one object.
    pub gaps: usize,
    /// Gaps in which the object changed.
    pub changed: usize,
}

/// Fits the rates of change of the objects with most requests, a `popular` share of all, and of the
/// others.
pub fn fit_changes(stream: &Stream, popular: f64) -> FittedChanges {
    let mut requests = vec![0u32; stream.objects];
    stream.visits.iter().for_each(|visit| requests[visit.object as usize] += 1);
    let mut order: Vec<usize> = (0..stream.objects).collect();
    order.sort_by_key(|object| std::cmp::Reverse(requests[*object]));
    let count = ((stream.objects as f64 * popular).round() as usize).min(stream.objects);
    let mut is_popular = vec![false; stream.objects];
    order[..count].iter().for_each(|object| is_popular[*object] = true);
    let mut last: Vec<Option<(f64, u32)>> = vec![None; stream.objects];
    let mut gaps = [Gaps::default(), Gaps::default()];
    for visit in &stream.visits {
        let object = visit.object as usize;
        let before = last[object].replace((visit.day, visit.version));
        if let Some((day, version)) = before {
            gaps[usize::from(is_popular[object])].add(visit.day - day, version != visit.version);
        }
    }
    let [others, popular] = gaps;
    FittedChanges {
        gaps: popular.count + others.count,
        changed: popular.changed.len() + others.changed.len(),
        popular: Change::every(popular.mean_days()),
        others: Change::every(others.mean_days()),
        popular_objects: count,
    }
}

/// Gaps between requests.
#[derive(Default)]
struct Gaps {
    count: usize,
    changed: Vec<f64>,
    unchanged_days: f64,
}

impl Gaps {
    fn add(&mut self, days: f64, has_changed: bool) {
        self.count += 1;
        let days = days.max(LEAST_DAYS);
        if has_changed { self.changed.push(days) } else { self.unchanged_days += days }
    }

    /// Returns 1/μ; infinite where nothing changed, 0 where everything did at once.
    fn mean_days(&self) -> f64 {
        if self.changed.is_empty() {
            return f64::INFINITY;
        }
        let excess = |rate: f64| {
            self.changed.iter().map(|days| days / (rate * days).exp_m1()).sum::<f64>() - self.unchanged_days
        };
        let (mut low, mut high) = (1e-9, 1e9);
        if excess(high) > 0.0 {
            return 0.0;
        }
        for _ in 0..STEPS {
            let middle = f64::sqrt(low * high);
            // The sum falls as the rate rises.
            if excess(middle) > 0.0 { low = middle } else { high = middle }
        }
        1.0 / high
    }
}

/// Least gap: a request in the same millisecond.
const LEAST_DAYS: f64 = 1e-8;
const STEPS: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wide_area::ModelStream;

    #[test]
    fn rates_of_made_stream_come_out() {
        let made = ModelStream {
            objects: 2000,
            popular: 100,
            alpha: 0.8,
            clients: 10,
            requests_per_day: 1000.0,
            cacheable: 1.0,
            bytes: 1,
            popular_change: Change::every(0.05),
            unpopular_change: Change::every(2.0),
            requests: 60_000,
        };
        let found = fit_changes(&made.stream(3), 0.05);
        assert_eq!(found.popular_objects, 100);
        // At the border some objects count as the other kind, by chance of their requests.
        assert!((found.popular.mean_days / 0.05 - 1.0).abs() < 0.25, "{found:?}");
        assert!((found.others.mean_days / 2.0 - 1.0).abs() < 0.15, "{found:?}");
        let still = ModelStream {
            unpopular_change: Change::every(f64::INFINITY),
            popular_change: Change::every(f64::INFINITY),
            ..made
        };
        assert_eq!(fit_changes(&still.stream(3), 0.05).others.mean_days, f64::INFINITY);
    }
}
