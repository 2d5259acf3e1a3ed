//! A replacement epoch of GMS: weights by the ages of all pages, until M pages are replaced.
//!
//! Feeley et al., SOSP 1995, section 3.2; Voelker 2000, section 3.6.1. An initiator asks all nodes
//! for the ages of their pages and finds the M oldest. Each node hears the share of these on every
//! node, and MinAge, the age of the youngest among them. A page that is older at its eviction is
//! dropped: it would itself be among the next to go. The epoch is over after M replacements.
//!
//! [`Epochs`](super::Epochs) has the epochs of a node that measures itself and hears ages from
//! reports; `prefetch::Epoch` those by values of pages. O(groups) to begin an epoch, and O(log
//! groups) for each of the oldest; O(1) a page.

use super::{AgeGroup, AgeWeights, Frequencies, age_weights, select};

/// Facts that all nodes know in an epoch.
#[derive(Clone, Debug)]
pub struct ReplacementEpoch {
    ages: AgeWeights,
    /// Pages that the epoch still may replace.
    left: u64,
}

impl Default for ReplacementEpoch {
    /// Makes an epoch that is over: no age is known.
    fn default() -> Self {
        Self { ages: AgeWeights { of: Vec::new(), least_age: 0, oldest_pages: 0 }, left: 0 }
    }
}

impl ReplacementEpoch {
    /// Begins an epoch of `pages` replacements by the nodes' reports of their oldest pages. A
    /// report needs no more pages than the epoch replaces.
    pub fn begin(nodes: &[Vec<AgeGroup>], pages: u64) -> Self {
        debug_assert!(pages > 0, "an epoch replaces a page at least");
        Self { ages: age_weights(nodes, pages), left: pages }
    }

    /// Returns the frequencies with which a node selects the others, by target weights at the rate
    /// b within bounds ([`select`]). Where nothing can be selected every page stays unplaced.
    pub fn frequencies(&self, targets: &[f64], b: f64, (bounds, borrowing): (&[f64], &[f64])) -> Frequencies {
        let nobody = Frequencies { of: Vec::new(), unplaced: 1.0 };
        select(targets, &self.ages.of, b, bounds, borrowing).unwrap_or(nobody)
    }

    /// Returns the frequencies without bounds.
    pub fn unbounded(&self, targets: &[f64], b: f64) -> Frequencies {
        let (bounds, borrowing) = (vec![f64::INFINITY; targets.len()], vec![0.0; targets.len()]);
        self.frequencies(targets, b, (&bounds, &borrowing))
    }

    /// Returns `true` if a page of this age is worth putting.
    pub fn is_worth_putting(&self, age: u64) -> bool {
        age <= self.ages.least_age
    }

    /// Counts a replacement. Returns `true` if it was the epoch's last.
    pub fn replaced(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.is_over()
    }

    /// Returns `true` if the epoch has replaced its pages.
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Ends the epoch early, such as when a node is lost.
    pub fn end(&mut self) {
        self.left = 0;
    }
}

/// Returns M, the pages that one epoch replaces: a small part of all that can be replaced.
pub fn epoch_pages(replaceable: &[u64]) -> u64 {
    (replaceable.iter().fold(0u64, |sum, pages| sum.saturating_add(*pages)) / EPOCHS_A_FILL).max(1)
}

/// Divisor of all memory: the part that one epoch replaces, some percent as in GMS.
const EPOCHS_A_FILL: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn group(age: u64, pages: u64) -> AgeGroup {
        AgeGroup { age, pages }
    }

    #[test]
    fn epoch_sends_pages_to_oldest_and_drops_older() {
        let nodes = [vec![group(90, 2), group(10, 50)], vec![group(80, 6)], vec![group(5, 100)]];
        let mut epoch = ReplacementEpoch::begin(&nodes, 8);
        assert_eq!(epoch.unbounded(&[1.0; 3], 0.0).of, [0.25, 0.75, 0.0]);
        assert_eq!(epoch.unbounded(&[0.0, 0.0, 1.0], 1.0).of, [0.0, 0.0, 1.0], "by targets alone");
        assert!(epoch.is_worth_putting(80) && !epoch.is_worth_putting(81));
        assert!((0..7).all(|_| !epoch.replaced()));
        assert!(epoch.replaced() && epoch.is_over());
        assert!(epoch.replaced(), "it stays over");
    }

    #[test]
    fn epoch_without_reports_places_nothing() {
        let epoch = ReplacementEpoch::default();
        assert!(epoch.is_over() && !epoch.is_worth_putting(1));
        assert_eq!(epoch.unbounded(&[], 0.0).choose(0.5), None);
        let mut ended = ReplacementEpoch::begin(&[vec![group(1, 1)]], 100);
        ended.end();
        assert!(ended.is_over());
        assert_eq!(ended.frequencies(&[1.0; 2], 0.0, (&[1.0], &[0.0])).choose(0.5), None, "lists differ");
    }

    #[test]
    fn epoch_replaces_a_small_part_of_memory() {
        assert_eq!((epoch_pages(&[3200, 3200]), epoch_pages(&[3]), epoch_pages(&[])), (200, 1, 1));
        assert_eq!(epoch_pages(&[u64::MAX; 3]), u64::MAX / 32, "no overflow");
    }
}
