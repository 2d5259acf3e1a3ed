//! Age weights: the distribution of the oldest pages over the nodes.
//!
//! Two ways to learn them (Voelker 2000, sections 3.6.1 and 3.6.3):
//!
//! - **By an initiator**, as in GMS (Feeley, Morgan, Pighin, Karlin, Levy, Thekkath, *Implementing
//!   global memory management in a workstation cluster*, SOSP 1995). Each epoch all nodes report
//!   how many pages of each age they hold, and [`age_weights`] finds the nodes of the M oldest.
//!   O(groups), and O(log nodes) for each group of these; a list that does not come oldest first is
//!   sorted before.
//! - **By replies**: each server reports the age of its x-th oldest page, and [`ReportedAges`]
//!   keeps the latest report of each. O(1) a reply. One age says little about the number of pages
//!   that are that old; it vouches for x pages.
//!
//! Ages are in any unit, the same for all nodes.

use std::borrow::Cow;
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
    // Lists come oldest first as a rule, and few of their groups are wanted: those are merged.
    let lists: Vec<Cow<'_, [AgeGroup]>> = nodes.iter().map(|groups| oldest_first(groups)).collect();
    let first = |(node, groups): (usize, &Cow<'_, [AgeGroup]>)| Some((groups.first()?.age, Reverse(node), 0));
    let mut heads: BinaryHeap<(u64, Reverse<usize>, usize)> =
        lists.iter().enumerate().filter_map(first).collect();
    let mut of = vec![0.0; nodes.len()];
    let mut same_age: Vec<(usize, u64)> = Vec::new();
    let (mut taken, mut least_age) = (0u64, 0);
    while taken < oldest_pages
        && let Some((age, ..)) = heads.peek().copied()
    {
        same_age.clear();
        while let Some(mut top) = heads.peek_mut().filter(|top| top.0 == age) {
            let (Reverse(node), at) = (top.1, top.2);
            same_age.push((node, lists[node][at].pages));
            match lists[node].get(at + 1) {
                Some(next) => *top = (next.age, Reverse(node), at + 1),
                None => drop(PeekMut::pop(top)),
            }
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

/// Returns a node's groups, the oldest first.
fn oldest_first(groups: &[AgeGroup]) -> Cow<'_, [AgeGroup]> {
    if groups.is_sorted_by(|older, younger| older.age >= younger.age) {
        return Cow::Borrowed(groups);
    }
    let mut sorted = groups.to_vec();
    sorted.sort_by_key(|group| Reverse(group.age));
    Cow::Owned(sorted)
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
