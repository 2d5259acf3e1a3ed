//! Reuse distances by size, in steps fine enough for a curve: 32 steps to a doubling, so that a
//! cache's size is off by 2% at most.

use super::stack::Distance;

/// Number of returning requests by their reuse distance.
#[derive(Clone, Debug, Default)]
pub struct DistanceHistogram {
    /// Cells by distance in bytes.
    by_bytes: Vec<DistanceCell>,
    /// Cells by distance in objects.
    by_objects: Vec<DistanceCell>,
    requests: f64,
    bytes: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct DistanceCell {
    requests: f64,
    bytes: f64,
}

impl DistanceHistogram {
    /// Adds a request of `bytes` bytes that stands for `weight` requests; `distance` is `None` for
    /// an object's first. The distance is that among all objects.
    pub fn add(&mut self, distance: Option<Distance>, bytes: u64, weight: f64) {
        debug_assert!(weight > 0.0 && weight.is_finite(), "a request stands for {weight} requests");
        let weighed = DistanceCell { requests: weight, bytes: weight * bytes as f64 };
        self.requests += weighed.requests;
        self.bytes += weighed.bytes;
        if let Some(distance) = distance {
            grow(&mut self.by_bytes, distance.bytes, weighed);
            grow(&mut self.by_objects, distance.objects, weighed);
        }
    }

    /// Adds requests that were expected and not sampled, or takes away those too many, at the
    /// smallest distance: SHARDS-adj (Waldspurger et al. 2015, 3.4). Few objects have most
    /// requests, and the presence of these in the sample moves the whole curve.
    pub fn adjust(&mut self, requests: f64, bytes: f64) {
        let missing = DistanceCell { requests: requests - self.requests, bytes: bytes - self.bytes };
        self.requests = requests;
        self.bytes = bytes;
        grow(&mut self.by_bytes, 1, missing);
        grow(&mut self.by_objects, 1, missing);
    }

    /// Multiplies everything added before by `by`.
    pub fn scale(&mut self, by: f64) {
        debug_assert!(by > 0.0 && by.is_finite(), "scaled by {by}");
        let cells = self.by_bytes.iter_mut().chain(&mut self.by_objects);
        cells.for_each(|cell| *cell = DistanceCell { requests: cell.requests * by, bytes: cell.bytes * by });
        self.requests *= by;
        self.bytes *= by;
    }

    /// Returns the bytes of memory taken.
    pub fn memory_bytes(&self) -> usize {
        (self.by_bytes.capacity() + self.by_objects.capacity()) * size_of::<DistanceCell>()
    }

    /// Returns the number of requests, with their weights.
    pub fn requests(&self) -> f64 {
        self.requests
    }

    /// Returns the hit ratio and the byte hit ratio of LRU caches of these growing sizes in bytes.
    pub fn ratios(&self, sizes: &[u64]) -> Vec<(f64, f64)> {
        self.up_to(&self.by_bytes, sizes)
    }

    /// Returns the ratios of caches of these sizes in objects.
    pub fn ratios_by_objects(&self, sizes: &[u64]) -> Vec<(f64, f64)> {
        self.up_to(&self.by_objects, sizes)
    }

    /// Returns the distances in bytes below which these shares of the repeats lie.
    pub fn quantiles(&self, shares: &[f64]) -> Vec<Option<u64>> {
        quantiles(&self.by_bytes, shares)
    }

    /// Returns the distances in objects below which these shares of the repeats lie.
    pub fn quantiles_by_objects(&self, shares: &[f64]) -> Vec<Option<u64>> {
        quantiles(&self.by_objects, shares)
    }

    fn up_to(&self, cells: &[DistanceCell], sizes: &[u64]) -> Vec<(f64, f64)> {
        assert!(sizes.is_sorted(), "sizes grow");
        let ratio = |part: f64, whole: f64| if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 };
        let (mut sum, mut next) = (DistanceCell::default(), 0);
        let mut ratios = Vec::with_capacity(sizes.len());
        for size in sizes {
            // A cell counts when all of it fits.
            while next < cells.len() && upper(next) <= *size {
                sum.requests += cells[next].requests;
                sum.bytes += cells[next].bytes;
                next += 1;
            }
            ratios.push((ratio(sum.requests, self.requests), ratio(sum.bytes, self.bytes)));
        }
        ratios
    }
}

fn quantiles(cells: &[DistanceCell], shares: &[f64]) -> Vec<Option<u64>> {
    assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "shares are from 0 to 1");
    let all: f64 = cells.iter().map(|cell| cell.requests.max(0.0)).sum();
    let place = |share: &f64| {
        let mut sum = 0.0;
        let at = cells.iter().position(|cell| {
            sum += cell.requests.max(0.0);
            sum >= all * share && sum > 0.0
        });
        at.map(upper)
    };
    shares.iter().map(place).collect()
}

fn grow(cells: &mut Vec<DistanceCell>, distance: u64, by: DistanceCell) {
    let index = index(distance);
    debug_assert!(upper(index) >= distance, "cell {index} ends before {distance}");
    if index >= cells.len() {
        cells.resize(index + 1, DistanceCell::default());
    }
    cells[index].requests += by.requests;
    cells[index].bytes += by.bytes;
}

/// Returns the cell of a distance. Numbers below [`STEPS`] have a cell each, and each doubling
/// beyond has [`STEPS`] cells.
fn index(distance: u64) -> usize {
    if distance < STEPS {
        return distance as usize;
    }
    let doubling = distance.ilog2() - STEPS.ilog2();
    let within = (distance >> doubling) - STEPS;
    (STEPS + u64::from(doubling) * STEPS + within) as usize
}

/// Returns the largest distance of a cell.
fn upper(index: usize) -> u64 {
    let index = index as u64;
    if index < STEPS {
        return index;
    }
    let (doubling, within) = ((index - STEPS) / STEPS, (index - STEPS) % STEPS);
    ((STEPS + within + 1) << doubling).wrapping_sub(1)
}

/// Cells to a doubling.
const STEPS: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_follow_one_another() {
        for distance in (0..5000).chain([1 << 40, u64::MAX - 1, u64::MAX]) {
            let at = index(distance);
            assert!(upper(at) >= distance, "{distance}");
            assert!(at == 0 || upper(at - 1) < distance, "{distance}");
            assert!(distance < 32 || upper(at) as f64 <= distance as f64 * 1.04, "{distance}");
        }
    }

    #[test]
    fn ratios_and_quantiles_are_counted() {
        let mut histogram = DistanceHistogram::default();
        for (objects, bytes) in [(1, 10), (2, 1000), (3, 1_000_000)] {
            histogram.add(Some(Distance { objects, bytes }), 100, 1.0);
        }
        histogram.add(None, 700, 1.0);
        assert_eq!(
            histogram.ratios(&[9, 10, 2000, 1 << 21]),
            [(0.0, 0.0), (0.25, 0.1), (0.5, 0.2), (0.75, 0.3)]
        );
        assert_eq!(histogram.ratios_by_objects(&[0, 2]), [(0.0, 0.0), (0.5, 0.2)]);
        assert_eq!(histogram.quantiles_by_objects(&[0.3, 0.5, 1.0]), [Some(1), Some(2), Some(3)]);
        assert_eq!(DistanceHistogram::default().quantiles(&[0.5]), [None]);
        histogram.adjust(8.0, 2000.0);
        assert_eq!(histogram.ratios(&[10]), [(5.0 / 8.0, 1100.0 / 2000.0)]);
        histogram.scale(2.0);
        assert_eq!((histogram.requests(), histogram.ratios(&[10])[0].0), (16.0, 0.625));
    }
}
