//! Reuse distances of the groups of a sample, by doublings: enough to tell how far the curves of
//! the groups lie apart, in 5 KB.
//!
//! Chance decides which of the few most popular objects are in a sample, and this is most of its
//! error. The groups differ in their popular objects just so. All groups use the stack of the
//! whole sample, which has less noise than stacks of their own would have.

use super::stack::Distance;
use super::{GROUPS, spread};

/// Weights of requests by group and doubling of the distance in bytes.
#[derive(Clone)]
pub(super) struct GroupDoublings {
    cells: [[f64; CELLS]; GROUPS],
    requests: [f64; GROUPS],
}

impl GroupDoublings {
    /// Adds a request of a group; `distance` is `None` for an object's first.
    pub fn add(&mut self, group: usize, distance: Option<Distance>, weight: f64) {
        debug_assert!(weight > 0.0 && weight.is_finite(), "a request stands for {weight} requests");
        self.requests[group] += weight;
        if let Some(distance) = distance {
            self.cells[group][cell(distance.bytes)] += weight;
        }
    }

    /// Multiplies everything added before by `by`.
    pub fn scale(&mut self, by: f64) {
        self.cells.iter_mut().flatten().chain(&mut self.requests).for_each(|weight| *weight *= by);
    }

    /// Returns the error of the hit ratio near a size, at 95% confidence, for a stream of
    /// `requests` requests. Each group lacks requests or has too many, as the whole sample does.
    pub fn error_at(&self, requests: f64, size: u64) -> f64 {
        let expected = requests / GROUPS as f64;
        if expected <= 0.0 {
            return 0.0;
        }
        let ratio = |(cells, own): (&[f64; CELLS], &f64)| {
            let hits: f64 = cells[..=cell(size)].iter().sum();
            ((hits + expected - own) / expected).clamp(0.0, 1.0)
        };
        let ratios: Vec<f64> = self.cells.iter().zip(&self.requests).map(ratio).collect();
        spread(&ratios)
    }
}

impl Default for GroupDoublings {
    fn default() -> Self {
        Self { cells: [[0.0; CELLS]; GROUPS], requests: [0.0; GROUPS] }
    }
}

/// Returns the cell of a distance or size in bytes.
fn cell(bytes: u64) -> usize {
    (u64::BITS - bytes.leading_zeros()) as usize
}

/// Cells: one for each bit length.
const CELLS: usize = u64::BITS as usize + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_groups_have_no_error_and_unequal_ones_do() {
        let mut doublings = GroupDoublings::default();
        for group in 0..GROUPS {
            doublings.add(group, None, 1.0);
            doublings.add(group, Some(Distance { objects: 1, bytes: 1000 }), 1.0);
        }
        assert!(doublings.error_at(2.0 * GROUPS as f64, 2000) < 1e-9);
        doublings.add(0, Some(Distance { objects: 1, bytes: 1 << 30 }), 1.0);
        assert!(doublings.error_at(2.1 * GROUPS as f64, 2000) > 0.01);
        assert_eq!(GroupDoublings::default().error_at(0.0, u64::MAX), 0.0);
    }
}
