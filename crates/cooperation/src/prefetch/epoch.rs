//! Epochs: the nodes' knowledge of each other's pages, for some seconds.
//!
//! Voelker 2000, section 4.3.3. At the start of an epoch each node reports its load and a summary
//! of its buffers' values to the coordinator. The coordinator finds the wanted number of least
//! valuable buffers of all nodes; w_i of them are node i's. *MaxValue* is the value of the best
//! among them. Until the epoch ends, nodes evict pages without asking. An evicted page goes to node
//! i with probability w_i / Σw, and prefetches for others go to nodes with w_i > 0. A node with a
//! busy processor gives none. The epoch ends when its time is over, when Σw pages were replaced, or
//! when its knowledge turns out to be wrong.
//!
//! This is the epoch of GMS with values for ages ([`age_weights`] does both), and two additions.
//! The coordinator is chosen by load. The weights are counts that fall as pages are replaced, which
//! acknowledgements report.
//!
//! The text leaves *wrong* open. Here an epoch is wrong when more than a quarter of the replaced
//! buffers, and no fewer than [`LEAST_WRONG`], were worth more than MaxValue. Values are of the
//! start of the epoch. A page needed in three seconds then is needed in two seconds a second later,
//! and is compared as of the start.
//!
//! Planning is O(groups·log groups), everything else O(nodes) or less.

use super::{PrefetchError, Value};
use crate::global_memory::{AgeGroup, age_weights, select};

/// Report of a node at the start of an epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeReport {
    /// Share of its processor that its own programs use, from 0 to 1.
    pub processor: f64,
    /// Buffers by value. Only the least valuable matter: no more of them than an epoch replaces.
    pub buffers: Vec<BufferGroup>,
}

/// Buffers of one node with about one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferGroup {
    /// Value of each buffer.
    pub value: Value,
    /// Number of buffers.
    pub count: u64,
}

/// One epoch, the same at every node.
#[derive(Clone, Debug, PartialEq)]
pub struct Epoch {
    weights: Vec<u64>,
    left: Vec<u64>,
    max_value: Value,
    began_seconds: f64,
    longest_seconds: f64,
    replaced: u64,
    wrong: u64,
    is_balanced: bool,
    is_used_up: bool,
}

impl Default for Epoch {
    /// Makes an epoch that is over: no node knows or gives anything.
    fn default() -> Self {
        Self {
            weights: Vec::new(),
            left: Vec::new(),
            max_value: Value::NEVER,
            began_seconds: 0.0,
            longest_seconds: 0.0,
            replaced: 0,
            wrong: 0,
            is_balanced: false,
            is_used_up: false,
        }
    }
}

/// Reason for the end of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochEnd {
    /// The epoch has lasted as long as an epoch may.
    Elapsed,
    /// As many pages were replaced as planned.
    Replaced,
    /// Pages were worth more than was known.
    Wrong,
}

/// Returns the node that coordinates the next epoch: the one with the least load, the first among
/// equals. `None` without nodes.
pub fn coordinator(loads: &[NodeReport]) -> Option<usize> {
    (0..loads.len()).min_by(|a, b| loads[*a].processor.total_cmp(&loads[*b].processor))
}

/// Plans an epoch that is likely to replace `wanted` pages: the rate of evictions and prefetches
/// times its length.
///
/// # Errors
/// When a load is not from 0 to 1.
///
/// ```
/// use shoal_cooperation::prefetch::{BufferGroup, NodeReport, Value, plan};
///
/// let node = |processor, seconds| NodeReport {
///     processor,
///     buffers: vec![BufferGroup { value: Value::until(seconds), count: 100 }],
/// };
/// // the second node's pages are asked for last, the third's processor has no time
/// let epoch = plan(&[node(0.1, 5.0), node(0.1, 60.0), node(1.0, 90.0)], 150, 0.0, 5.0).unwrap();
/// assert_eq!(epoch.weights(), [50, 100, 0]);
/// assert_eq!(epoch.max_value(0.0), Value::until(5.0));
/// ```
pub fn plan(
    loads: &[NodeReport],
    wanted: u64,
    now_seconds: f64,
    longest_seconds: f64,
) -> Result<Epoch, PrefetchError> {
    if let Some(node) = loads.iter().position(|load| !(0.0..=1.0).contains(&load.processor)) {
        return Err(PrefetchError::Load { node, found: loads[node].processor });
    }
    let group = |of: &BufferGroup| AgeGroup { age: of.value.until_us(), pages: of.count };
    let groups = |load: &NodeReport| {
        let offered: &[BufferGroup] = if load.processor < BUSY { &load.buffers } else { &[] };
        offered.iter().map(group).collect::<Vec<AgeGroup>>()
    };
    let found = age_weights(&loads.iter().map(groups).collect::<Vec<_>>(), wanted);
    let weights = apportioned(&found.of, found.oldest_pages);
    Ok(Epoch {
        left: weights.clone(),
        weights,
        max_value: Value::of_microseconds(if found.oldest_pages == 0 { u64::MAX } else { found.least_age }),
        began_seconds: now_seconds,
        longest_seconds,
        replaced: 0,
        wrong: 0,
        is_balanced: false,
        is_used_up: false,
    })
}

impl Epoch {
    /// Returns w, the number of buffers that each node gives in the epoch.
    pub fn weights(&self) -> &[u64] {
        &self.weights
    }

    /// Returns the number of buffers that each node has left to give, by acknowledgements.
    pub fn left(&self) -> &[u64] {
        &self.left
    }

    /// Returns MaxValue: the present value of the best buffer to be given, as known when the epoch
    /// began. A page worth more is worth fetching; a page worth less is not worth sending.
    pub fn max_value(&self, now_seconds: f64) -> Value {
        self.max_value.later(now_seconds - self.began_seconds)
    }

    /// Balances loads in the epoch: weights follow target weights at the rate b, as selection
    /// frequencies do ([`select`]; Voelker 2000, section 3.6). With b = 0, or weights that
    /// [`select`] refuses, the epoch is unchanged.
    ///
    /// Frames that are given for balance may be worth more than MaxValue, so a higher value no
    /// longer proves the epoch wrong. The replacing node still compares both pages.
    pub fn balanced(mut self, targets: &[f64], b: f64) -> Self {
        let sum: u64 = self.weights.iter().sum();
        let own: Vec<f64> = self.weights.iter().map(|weight| *weight as f64).collect();
        let unbounded = vec![f64::INFINITY; own.len()];
        let Ok(found) = select(targets, &own, b, &unbounded, &vec![0.0; own.len()]) else { return self };
        if b > 0.0 && found.unplaced == 0.0 {
            self.weights = apportioned(&found.of, sum);
            self.left = self.weights.clone();
            self.is_balanced = true;
        }
        self
    }

    /// Returns the node that takes an evicted page of node `own`, by a number drawn uniformly from
    /// 0 up to 1. Any other node is chosen with probability w_i / Σw. `None` when no other node
    /// gives buffers.
    pub fn choose(&self, own: usize, draw: f64) -> Option<usize> {
        let others = || self.weights.iter().enumerate().filter(|(node, weight)| *node != own && **weight > 0);
        let sum: u64 = others().map(|(_, weight)| weight).sum();
        let mut below = (draw * sum as f64) as u64;
        let chosen = others().find(|(_, weight)| {
            let is_it = below < **weight;
            below = below.saturating_sub(**weight);
            is_it
        });
        chosen.or_else(|| others().next_back()).map(|(node, _)| node)
    }

    /// Records that a node gave a buffer of this value for another node's page.
    pub fn replaced(&mut self, node: usize, value: Value, now_seconds: f64) {
        if let Some(left) = self.left.get_mut(node) {
            *left = left.saturating_sub(1);
        }
        self.replaced += 1;
        if value > self.max_value(now_seconds) && !self.is_balanced {
            self.wrong += 1;
        }
    }

    /// Records a node's acknowledgement that it began a request, with the number of its buffers
    /// left after others' requests. A node never gives more than it reported at first.
    pub fn acknowledged(&mut self, node: usize, left: u64) {
        if let Some(known) = self.left.get_mut(node) {
            *known = left.min(self.weights[node]);
            debug_assert!(self.left.len() == self.weights.len(), "a node without a weight");
        }
    }

    /// Records that a node gives no more buffers in this epoch.
    pub fn exhausted(&mut self, node: usize) {
        if let Some(left) = self.left.get_mut(node) {
            *left = 0;
        }
        self.wrong += u64::from(!self.is_balanced);
    }

    /// Returns `true` if all other nodes have given all their buffers. The node's own buffers are
    /// of no use to it, and no reason to wait for the end of the epoch.
    pub fn is_used_up_for(&self, own: usize) -> bool {
        self.left.iter().enumerate().all(|(node, left)| node == own || *left == 0)
    }

    /// Records a node's report that it needs more pages and no node gives any.
    pub fn used_up(&mut self) {
        self.is_used_up = true;
    }

    /// Returns the number of replaced pages.
    pub fn replaced_pages(&self) -> u64 {
        self.replaced
    }

    /// Returns the start of the epoch, in seconds.
    pub fn began_seconds(&self) -> f64 {
        self.began_seconds
    }

    /// Returns the reason if the epoch is over. An epoch without buffers to give lasts its time.
    pub fn ending(&self, now_seconds: f64) -> Option<EpochEnd> {
        let planned: u64 = self.weights.iter().sum();
        if now_seconds - self.began_seconds >= self.longest_seconds {
            return Some(EpochEnd::Elapsed);
        }
        if planned > 0 && (self.replaced >= planned || (self.is_used_up && self.replaced >= LEAST_WRONG)) {
            return Some(EpochEnd::Replaced);
        }
        (self.wrong >= LEAST_WRONG && self.wrong * 4 > self.replaced).then_some(EpochEnd::Wrong)
    }
}

/// Turns shares that sum to one into counts that sum to `whole`. Each is rounded down, and the rest
/// goes to the largest fractions (Hamilton's method). O(shares·log shares).
fn apportioned(shares: &[f64], whole: u64) -> Vec<u64> {
    let exact = |share: &f64| share * whole as f64;
    let mut counts: Vec<u64> = shares.iter().map(|share| exact(share) as u64).collect();
    let mut by_fraction: Vec<usize> = (0..shares.len()).filter(|at| shares[*at] > 0.0).collect();
    let fraction = |at: usize| exact(&shares[at]).fract();
    by_fraction.sort_by(|a, b| fraction(*b).total_cmp(&fraction(*a)).then(a.cmp(b)));
    let left = whole.saturating_sub(counts.iter().sum());
    for at in by_fraction.into_iter().take(left as usize) {
        counts[at] += 1;
    }
    debug_assert_eq!(counts.len(), shares.len());
    counts
}

/// Load from which a processor is too busy to give buffers.
pub const BUSY: f64 = 0.95;
/// Least number of wrong buffers that end an epoch, and of replaced ones that end a used-up epoch.
pub const LEAST_WRONG: u64 = 16;

const _: () = assert!(BUSY > 0.0 && BUSY < 1.0 && LEAST_WRONG > 0);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn load(processor: f64, buffers: &[(f64, u64)]) -> NodeReport {
        let buffers = buffers
            .iter()
            .map(|(seconds, count)| BufferGroup { value: Value::until(*seconds), count: *count });
        NodeReport { processor, buffers: buffers.collect() }
    }

    #[test]
    fn the_least_valuable_buffers_are_given_up() {
        let loads = [load(0.0, &[(100.0, 3), (1.0, 50)]), load(0.0, &[(10.0, 4), (2.0, 50)])];
        let epoch = plan(&loads, 7, 0.0, 5.0).expect("loads");
        assert_eq!(epoch.weights(), [3, 4]);
        assert_eq!(epoch.max_value(0.0), Value::until(10.0));
        assert_eq!(
            epoch.max_value(4.0),
            Value::until(6.0),
            "four seconds on, it is asked for that much sooner"
        );
        assert_eq!(coordinator(&loads), Some(0));
    }

    #[test]
    fn a_busy_node_gives_nothing_and_nobody_gives_nothing() {
        let loads = [load(1.0, &[(100.0, 9)]), load(0.2, &[])];
        let epoch = plan(&loads, 10, 3.0, 5.0).expect("loads");
        assert_eq!((epoch.weights(), epoch.choose(1, 0.5)), ([0, 0].as_slice(), None));
        assert_eq!(epoch.max_value(3.0), Value::NEVER, "no page is worth fetching");
        assert_eq!((epoch.ending(4.0), epoch.ending(8.0)), (None, Some(EpochEnd::Elapsed)));
        assert_eq!(coordinator(&loads), Some(1));
        assert_eq!(coordinator(&[]), None);
        for found in [f64::NAN, -0.1, 1.1] {
            assert!(matches!(
                plan(&[load(found, &[])], 1, 0.0, 5.0),
                Err(PrefetchError::Load { node: 0, .. })
            ));
        }
    }

    #[test]
    fn epoch_ends_when_replaced_or_wrong() {
        let epoch = || plan(&[load(0.0, &[]), load(0.0, &[(60.0, 20)])], 20, 0.0, 5.0).expect("loads");
        let mut right = epoch();
        (0..20).for_each(|_| right.replaced(1, Value::until(70.0), 1.0));
        assert_eq!((right.ending(1.0), right.left()), (Some(EpochEnd::Replaced), [0, 0].as_slice()));
        let mut wrong = epoch();
        (0..15).for_each(|_| wrong.replaced(1, Value::until(1.0), 1.0));
        assert_eq!(wrong.ending(1.0), None);
        wrong.replaced(1, Value::until(1.0), 1.0);
        assert_eq!(wrong.ending(1.0), Some(EpochEnd::Wrong));
        let mut later = epoch();
        (0..16).for_each(|_| later.replaced(1, Value::until(57.5), 3.0));
        assert_eq!(later.ending(3.0), None, "57.5 s off after 3 s is 60.5 s off at the start");
    }

    #[test]
    fn own_buffers_do_not_delay_epoch_end() {
        let loads = [load(0.0, &[(60.0, 100)]), load(0.0, &[(60.0, 20)])];
        let mut epoch = plan(&loads, 120, 0.0, 5.0).expect("loads");
        (0..20).for_each(|_| epoch.replaced(1, Value::until(60.0), 0.0));
        assert!(epoch.is_used_up_for(0) && !epoch.is_used_up_for(1));
        assert_eq!(epoch.ending(0.0), None);
        epoch.used_up();
        assert_eq!(epoch.ending(0.0), Some(EpochEnd::Replaced));
    }

    #[test]
    fn acknowledgement_reports_remaining_buffers() {
        let mut epoch = plan(&[load(0.0, &[]), load(0.0, &[(60.0, 20)])], 20, 0.0, 5.0).expect("loads");
        epoch.acknowledged(1, 7);
        assert_eq!(epoch.left(), [0, 7], "others took thirteen");
        epoch.acknowledged(1, 90);
        epoch.acknowledged(9, 1);
        assert_eq!((epoch.left(), epoch.weights()), ([0, 20].as_slice(), [0, 20].as_slice()));
    }

    #[test]
    fn many_nodes_give_a_few_buffers_together() {
        let loads: Vec<NodeReport> = (0..10).map(|_| load(0.0, &[(60.0, 100)])).collect();
        let given = |wanted| plan(&loads, wanted, 0.0, 5.0).expect("loads").weights().iter().sum::<u64>();
        assert_eq!((given(4), given(5), given(1007)), (4, 5, 1000));
        let even = plan(&loads, 4, 0.0, 5.0).expect("loads").balanced(&[1.0; 10], 0.5);
        assert_eq!(even.weights().iter().sum::<u64>(), 4);
    }

    #[test]
    fn balance_spreads_weights_of_one_node() {
        let epoch =
            || plan(&[load(0.0, &[(9.0, 90)]), load(0.0, &[(1.0, 90)])], 60, 0.0, 5.0).expect("loads");
        assert_eq!(epoch().balanced(&[0.5, 0.5], 0.0).weights(), [60, 0]);
        assert_eq!(epoch().balanced(&[0.5, 0.5], 0.5).weights(), [45, 15]);
        assert_eq!(epoch().balanced(&[0.5, 0.5], 1.0).weights(), [30, 30]);
        assert_eq!(epoch().balanced(&[0.5], 1.0).weights(), [60, 0], "targets of other nodes change nothing");
    }

    proptest! {
        #[test]
        fn weights_are_the_wanted_buffers_or_all(
            nodes in proptest::collection::vec((0.0..1.0f64, proptest::collection::vec((0.0..100.0f64, 0u64..50), 0..6)), 0..8),
            wanted in 0u64..300,
            draw in 0.0..1.0f64,
        ) {
            let loads: Vec<NodeReport> = nodes.iter().map(|(processor, buffers)| load(*processor, buffers)).collect();
            let epoch = plan(&loads, wanted, 0.0, 5.0).expect("loads");
            let offered = |load: &NodeReport| if load.processor < BUSY { load.buffers.iter().map(|of| of.count).sum() } else { 0 };
            let all: u64 = loads.iter().map(offered).sum();
            let sum: u64 = epoch.weights().iter().sum();
            prop_assert_eq!(sum, wanted.min(all));
            for (load, weight) in loads.iter().zip(epoch.weights()) {
                prop_assert!(*weight <= offered(load));
            }
            if let Some(node) = epoch.choose(0, draw) {
                prop_assert!(node != 0 && epoch.weights()[node] > 0);
            }
        }
    }
}
