//! Consistent hashing with bounded loads.
//!
//! Mirrokni, Thorup, Zadimoghaddam, *Consistent hashing with bounded loads*, SODA 2018; in HAProxy
//! since 2016 (`hash-balance-factor`). A ball goes to the first bin at or after its place on the
//! ring with fewer than ⌈c·m/n⌉ balls. c is 1 + ε. Headline: no bin is above that bound. A bin
//! or ball that comes or goes moves an expected O(1/ε²) balls for each ball that must move.
//!
//! Here balls are objects with a home ([`place`], the paper's setting), or requests under way
//! ([`hand_out`], the load balancer's). A request past its home may miss where the home would hit;
//! the paper does not count that. `shoal_cooperation::bounded_load` is the rule that a node runs.

use crate::cluster::NodeMemory;
use shoal_core::mixed;
use std::collections::VecDeque;

/// Ring with points of bins.
struct BinRing {
    points: Vec<(u64, usize)>,
}

impl BinRing {
    fn new(bins: impl Iterator<Item = usize>) -> Self {
        let points_of =
            |bin: usize| (0..POINTS).map(move |point| (mixed(mixed(bin as u64 + 1) ^ mixed(point + 1)), bin));
        let mut points: Vec<(u64, usize)> = bins.flat_map(points_of).collect();
        points.sort_unstable();
        Self { points }
    }

    /// Returns the first bin from a ball's place on that has room.
    fn find(&self, ball: u64, has_room: impl Fn(usize) -> bool) -> Option<usize> {
        let place = mixed(ball ^ SALT);
        let first = self.points.partition_point(|(point, _)| *point < place);
        let (before, after) = self.points.split_at(first);
        after.iter().chain(before).map(|(_, bin)| *bin).find(|bin| has_room(*bin))
    }
}

/// Returns the bin of each of `balls` balls, put in order into `bins` bins but for a lost one, with
/// at most ⌈c·m/n⌉ in each. An infinite c is plain consistent hashing.
pub fn place(balls: u64, bins: usize, c: f64, lost: Option<usize>) -> Vec<usize> {
    let in_service = bins - usize::from(lost.is_some_and(|lost| lost < bins));
    assert!(in_service > 0 && c >= 1.0, "{in_service} bins, c = {c}");
    let most = (c * balls as f64 / in_service as f64).ceil();
    let ring = BinRing::new((0..bins).filter(|bin| lost != Some(*bin)));
    let mut loads = vec![0u64; bins];
    let bin_of = |ball: u64| {
        // All bins together have room for c·m balls, so that one is found.
        let bin = ring.find(ball, |bin| (loads[bin] as f64) < most).unwrap_or(0);
        loads[bin] += 1;
        bin
    };
    (0..balls).map(bin_of).collect()
}

/// Results of a load balancer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HandedOut {
    /// Share of the requests that hit in the memory of the node that got them.
    pub hit_ratio: f64,
    /// Most requests under way at a node over the mean of the nodes at that time, the largest of
    /// all moments.
    pub peak: f64,
    /// Share of the requests that did not go to their home.
    pub moved: f64,
}

/// Hands requests for objects out to nodes with `frames` frames each, while `under_way` requests
/// are being served at any time.
pub fn hand_out(objects: &[u32], nodes: usize, frames: usize, under_way: usize, c: f64) -> HandedOut {
    let ring = BinRing::new(0..nodes);
    let count = objects.iter().max().map_or(0, |last| *last as usize + 1);
    let mut memories: Vec<NodeMemory> = (0..nodes).map(|_| NodeMemory::new(frames, count)).collect();
    let (mut loads, mut serving) = (vec![0usize; nodes], VecDeque::new());
    let (mut hits, mut moved, mut peak) = (0u64, 0u64, 0.0f64);
    for (now, object) in (0u32..).zip(objects) {
        if serving.len() >= under_way
            && let Some(done) = serving.pop_front()
        {
            loads[done] -= 1;
        }
        let mean = (serving.len() + 1) as f64 / nodes as f64;
        let most = (c * mean).ceil();
        let ball = u64::from(*object);
        let node = ring.find(ball, |node| (loads[node] as f64) < most).unwrap_or(0);
        moved += u64::from(ring.find(ball, |_| true) != Some(node));
        loads[node] += 1;
        serving.push_back(node);
        if serving.len() == under_way {
            peak = peak.max(loads[node] as f64 / mean);
        }
        if memories[node].touch(*object, now) {
            hits += 1;
        } else {
            memories[node].take_in(*object, now);
        }
    }
    let share = |of: u64| of as f64 / objects.len().max(1) as f64;
    debug_assert!(hits + moved <= 2 * objects.len() as u64);
    HandedOut { hit_ratio: share(hits), peak, moved: share(moved) }
}

/// Points of a bin on the ring.
const POINTS: u64 = 100;
/// Number that separates places of balls from those of bins.
const SALT: u64 = 0x5bd1_e995_7b93_1a55;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::ZipfTrace;

    fn most(bins: &[usize], count: usize) -> u64 {
        let mut loads = vec![0; count];
        bins.iter().for_each(|bin| loads[*bin] += 1);
        loads.into_iter().max().unwrap_or(0)
    }

    /// The headline: the bound holds, and few balls move for each of the lost bin's.
    #[test]
    fn no_bin_exceeds_bound_and_few_balls_move() {
        let (balls, bins) = (20_000, 50);
        assert!(most(&place(balls, bins, f64::INFINITY, None), bins) as f64 > 1.15 * 400.0);
        for c in [1.1, 1.25, 2.0] {
            let (before, after) = (place(balls, bins, c, None), place(balls, bins, c, Some(7)));
            assert!(most(&before, bins) <= (c * 400.0).ceil() as u64, "c = {c}");
            assert!(most(&after, bins) <= (c * balls as f64 / 49.0).ceil() as u64, "c = {c}");
            let had_to = before.iter().filter(|bin| **bin == 7).count();
            let moved = before.iter().zip(&after).filter(|(a, b)| a != b).count();
            let for_each = moved as f64 / had_to as f64;
            let epsilon: f64 = c - 1.0;
            assert!(for_each <= 1.0 + 1.0 / epsilon.powi(2), "c = {c}: {for_each}");
        }
    }

    #[test]
    fn hot_objects_spread_and_cost_some_hits() {
        let objects: Vec<u32> =
            ZipfTrace::new(20_000, 1.0, 1, 3).take(60_000).map(|one| one.object as u32).collect();
        let of = |c| hand_out(&objects, 16, 500, 256, c);
        let (plain, bounded) = (of(f64::INFINITY), of(1.25));
        assert!(plain.peak > 1.8 && plain.moved == 0.0, "{plain:?}");
        assert!(bounded.peak <= 1.25 + 1.0 / 16.0 && bounded.moved > 0.0, "{bounded:?}");
        assert!(
            bounded.hit_ratio < plain.hit_ratio && bounded.hit_ratio > plain.hit_ratio - 0.1,
            "{plain:?} {bounded:?}"
        );
    }
}
