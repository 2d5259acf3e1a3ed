//! Age weights: the distribution of the oldest pages over the nodes.
//!
//! Two ways to learn them (Voelker 2000, sections 3.6.1 and 3.6.3):
//!
//! - **By an initiator**, as in GMS (Feeley, Morgan, Pighin, Karlin, Levy, Thekkath, *Implementing
//!   global memory management in a workstation cluster*, SOSP 1995). Each epoch all nodes report
//!   how many pages of each age they hold, and [`age_weights`] finds the nodes of the M oldest.
//!   O(groups), and O(log groups) for each group of these.
//! - **By replies**: each server reports the age of its x-th oldest page, and [`ReportedAges`]
//!   keeps the latest report of each. O(1) a reply. One age says little about the number of pages
//!   that are that old; it vouches for x pages.
//!
//! Ages are in any unit, the same for all nodes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Pages of one node with about one age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgeGroup {
    /// Time since their last use.
    pub age: u64,
    /// Number of pages.
    pub pages: u64,
}

/// Distribution of the oldest pages, for one epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct AgeWeights {
    /// Share of the oldest pages that each node holds. The shares sum to one, or are all zero when
    /// there is no page.
    pub of: Vec<f64>,
    /// Age of the youngest among the oldest. A page older than this at its eviction is not worth
    /// putting.
    pub least_age: u64,
    /// Number of pages that the weights stand for. The epoch is over after as many puts. Less than
    /// requested when there are not as many pages.
    pub oldest_pages: u64,
}

/// Finds the nodes of the `oldest_pages` globally oldest pages. Where only some pages of one age
/// are among them, each node has its share of those.
pub fn age_weights(nodes: &[Vec<AgeGroup>], oldest_pages: u64) -> AgeWeights {
    // Only the oldest groups are wanted, so that they come out of a heap and not of a sorted list.
    let groups = nodes.iter().enumerate();
    let groups = groups.flat_map(|(node, groups)| groups.iter().map(move |group| (node, *group)));
    let ranked =
        |(at, (node, group)): (usize, (usize, AgeGroup))| (group.age, Reverse(at), node, group.pages);
    let mut groups: BinaryHeap<(u64, Reverse<usize>, usize, u64)> = groups.enumerate().map(ranked).collect();
    let mut of = vec![0.0; nodes.len()];
    let mut same_age: Vec<(usize, u64)> = Vec::new();
    let (mut taken, mut least_age) = (0u64, 0);
    while taken < oldest_pages
        && let Some((age, ..)) = groups.peek().copied()
    {
        same_age.clear();
        while let Some(top) = groups.peek_mut().filter(|top| top.0 == age) {
            let (_, _, node, pages) = PeekMut::pop(top);
            same_age.push((node, pages));
        }
        let there: u64 = same_age.iter().fold(0, |sum, (_, pages)| sum.saturating_add(*pages));
        if there == 0 {
            continue;
        }
        let part = (oldest_pages - taken).min(there);
        for (node, pages) in &same_age {
            of[*node] += part as f64 * (*pages as f64 / there as f64);
        }
        taken += part;
        debug_assert!(taken <= oldest_pages, "more pages than were asked for");
        least_age = age;
    }
    if taken > 0 {
        of.iter_mut().for_each(|weight| *weight /= taken as f64);
    }
    debug_assert!(of.iter().all(|weight| (0.0..=1.0 + ROUNDING).contains(weight)));
    debug_assert!(taken == 0 || (of.iter().sum::<f64>() - 1.0).abs() <= ROUNDING * (1 + of.len()) as f64);
    AgeWeights { of, least_age, oldest_pages: taken }
}

/// Ages of the servers' x-th oldest pages, from their latest replies.
#[derive(Clone, Debug)]
pub struct ReportedAges {
    /// Age and time of each server's latest report; `None` before its first reply.
    told: Vec<Option<(u64, u64)>>,
}

impl ReportedAges {
    /// Makes reports for `servers` servers, none of which has reported yet.
    pub fn new(servers: usize) -> Self {
        Self { told: vec![None; servers] }
    }

    /// Records a reply: the server's x-th oldest page has this age now. A server that does not
    /// exist is ignored.
    pub fn report(&mut self, server: usize, age: u64, now: u64) {
        if let Some(told) = self.told.get_mut(server) {
            *told = Some((age, now));
        }
    }

    /// Returns the age weights now: each server's age over the sum of all. Pages have aged since
    /// their report. A server without a report counts as the mean of the others.
    ///
    /// The text divides by the sum over the *other* nodes. That gives shares that do not sum to
    /// one, and none for a single server, so this code divides by the sum over all. All weights are
    /// zero when nothing is known.
    pub fn weights(&self, now: u64) -> Vec<f64> {
        let aged = |(age, at): (u64, u64)| age.saturating_add(now.saturating_sub(at)) as f64;
        let ages: Vec<Option<f64>> = self.told.iter().map(|told| told.map(aged)).collect();
        let known = ages.iter().flatten().count();
        let mean = ages.iter().flatten().sum::<f64>() / known.max(1) as f64;
        let sum = mean * ages.len() as f64;
        let weight = |age: &Option<f64>| if sum > 0.0 { age.unwrap_or(mean) / sum } else { 0.0 };
        ages.iter().map(weight).collect()
    }
}

/// As far as sums of shares are from one.
const ROUNDING: f64 = 1e-9;
