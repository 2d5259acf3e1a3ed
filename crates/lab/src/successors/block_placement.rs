//! Placement of small objects that are read together in one block.
//!
//! Eisenman, Naumov, Gardner, Smelyanskiy, Pupyrev, Hazelwood, Cidon, Katti, *Bandana: using
//! non-volatile memory for storing deep learning models*, SysML 2019. A device reads blocks of 4 KB
//! and an embedding vector has 128 bytes, so that a read of one vector wastes the rest. Bandana
//! puts vectors that queries read together into one block, by social hash partitioning (SHP:
//! Kabiljo et al., VLDB 2017). It takes a block's other vectors into RAM if they were read often
//! enough in training. Headline: two to three times the effective bandwidth, which is vectors read
//! from RAM or a block, for each block read.
//!
//! ```text
//!  queries of the first half ─► SHP: halves, quarters, … by swaps that lower Σ blocks a query
//!  queries of the second half ─► LRU of vectors; a miss reads a block
//! ```
//!
//! SHP minimizes probabilistic fan-out at p = 0.5: a query with n vectors in a block is counted
//! 1 − 0.5ⁿ. O(rounds · reads · log blocks).

use super::ByteLru;
use std::cmp::Reverse;

/// Vectors that are read together.
pub type Query = Vec<u32>;

/// Results of a placement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockUse {
    /// Vectors that were read.
    pub reads: u64,
    /// Vectors that were in RAM.
    pub hits: u64,
    /// Blocks that were read.
    pub blocks: u64,
}

impl BlockUse {
    /// Returns the effective bandwidth over another's: the blocks that the other reads for the same
    /// vectors over one's own.
    pub fn bandwidth_over(&self, other: &Self) -> f64 {
        debug_assert_eq!(self.reads, other.reads, "the same queries");
        other.blocks as f64 / self.blocks.max(1) as f64
    }
}

/// Returns vectors in an order in which neighbours are read together: block i has the vectors from
/// i·`block` on. Vectors without queries come last.
pub fn partition(queries: &[Query], vectors: usize, block: usize) -> Vec<u32> {
    let mut queries_of = vec![Vec::new(); vectors];
    for (number, query) in queries.iter().enumerate() {
        query.iter().for_each(|vector| queries_of[*vector as usize].push(number as u32));
    }
    let mut order: Vec<u32> = (0..vectors as u32).collect();
    order.sort_by_key(|vector| queries_of[*vector as usize].is_empty());
    let used = order.partition_point(|vector| !queries_of[*vector as usize].is_empty());
    let mut counts = vec![[0u16; 2]; queries.len()];
    let mut parts = Vec::from([(0, used)]);
    while let Some((start, end)) = parts.pop() {
        let part = start..end;
        if part.len() <= block {
            continue;
        }
        // Both halves are whole blocks, so that no block straddles them.
        let middle = part.start + (part.len().div_ceil(block) / 2).max(1) * block;
        bisect(&mut order[part.clone()], middle - part.start, &queries_of, &mut counts);
        parts.extend([(start, middle), (middle, end)]);
    }
    debug_assert!(order.len() == vectors);
    order
}

/// Divides vectors into the first `left` and the others, so that queries need few halves.
fn bisect(part: &mut [u32], left: usize, queries_of: &[Vec<u32>], counts: &mut [[u16; 2]]) {
    for _ in 0..ROUNDS {
        let queries = |vector: &u32| queries_of[*vector as usize].iter().map(|query| *query as usize);
        part.iter().flat_map(queries).for_each(|query| counts[query] = [0; 2]);
        for (at, vector) in part.iter().enumerate() {
            let side = usize::from(at >= left);
            queries(vector).for_each(|query| counts[query][side] = counts[query][side].saturating_add(1));
        }
        // Gain of a vector that goes to the other half: fall of Σ (2 − 0.5^a − 0.5^b).
        let gain = |vector: &u32, side: usize| -> f64 {
            queries(vector)
                .map(|query| {
                    let here = 0.5f64.powi(i32::from(counts[query][side]));
                    let there = 0.5f64.powi(i32::from(counts[query][1 - side]));
                    here - there / 2.0
                })
                .sum::<f64>()
        };
        let gains = |range: std::ops::Range<usize>, side| {
            let mut found: Vec<(f64, usize)> = range.map(|at| (gain(&part[at], side), at)).collect();
            found.sort_by(|a, b| b.0.total_cmp(&a.0));
            found
        };
        let (from_left, from_right) = (gains(0..left, 0), gains(left..part.len(), 1));
        let worth = |pair: &(&(f64, usize), &(f64, usize))| pair.0.0 + pair.1.0 > 1e-9;
        let swaps: Vec<(usize, usize)> =
            from_left.iter().zip(&from_right).take_while(worth).map(|(a, b)| (a.1, b.1)).collect();
        if swaps.is_empty() {
            return;
        }
        // Not all at once: vectors of one query on both sides would only change places.
        let some = swaps.len().div_ceil(2);
        swaps.into_iter().take(some).for_each(|(a, b)| part.swap(a, b));
    }
}

/// Reads queries' vectors through a RAM cache of `cached` vectors. A block's other vectors are
/// taken in if they were read more than `threshold` times in training (`trained` by vector); none
/// are with `None`.
pub fn read(
    queries: &[Query],
    order: &[u32],
    block: usize,
    cached: usize,
    (trained, threshold): (&[u32], Option<u32>),
) -> BlockUse {
    let mut place_of = vec![0usize; order.len()];
    order.iter().enumerate().for_each(|(place, vector)| place_of[*vector as usize] = place);
    let mut ram = ByteLru::new(cached as u64);
    let mut used = BlockUse { reads: 0, hits: 0, blocks: 0 };
    let mut last_blocks: Vec<usize> = Vec::new();
    for query in queries {
        last_blocks.clear();
        for vector in query {
            used.reads += 1;
            if ram.touch(*vector) {
                used.hits += 1;
                continue;
            }
            let number = place_of[*vector as usize] / block;
            // A query reads a block once.
            if !last_blocks.contains(&number) {
                last_blocks.push(number);
                used.blocks += 1;
            }
            ram.insert(*vector, 1);
            let Some(threshold) = threshold else { continue };
            let others = &order[number * block..order.len().min((number + 1) * block)];
            others
                .iter()
                .filter(|other| trained[**other as usize] > threshold)
                .for_each(|other| ram.insert(*other, 1));
        }
    }
    debug_assert!(used.hits + used.blocks <= used.reads);
    used
}

/// Returns the number of reads of each vector.
pub fn read_counts(queries: &[Query], vectors: usize) -> Vec<u32> {
    let mut counts = vec![0; vectors];
    queries.iter().flatten().for_each(|vector| counts[*vector as usize] += 1);
    counts
}

/// Returns the threshold of admission that reads fewest blocks of the training queries, by
/// simulation, as Bandana chooses it.
pub fn best_threshold(queries: &[Query], order: &[u32], block: usize, cached: usize) -> Option<u32> {
    let trained = read_counts(queries, order.len());
    let tried = THRESHOLDS.map(|threshold| {
        let found = read(queries, order, block, cached, (&trained, threshold));
        (found.blocks, Reverse(threshold))
    });
    tried.into_iter().min().and_then(|(_, Reverse(threshold))| threshold)
}

/// Rounds of swaps of a bisection.
const ROUNDS: usize = 16;
/// Thresholds that are tried.
const THRESHOLDS: [Option<u32>; 6] = [None, Some(0), Some(2), Some(5), Some(10), Some(20)];

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_trace::Random;

    /// Queries of eight vectors out of a hidden group of 32, a tenth of them from anywhere.
    fn made(count: usize, seed: u64) -> Vec<Query> {
        let mut random = Random::new(seed);
        let mut names: Vec<u32> = (0..VECTORS as u32).collect();
        // The names say nothing of the groups, in training and after it alike.
        let mut shuffle = Random::new(99);
        (1..names.len()).for_each(|at| names.swap(at, shuffle.below(at as u64 + 1) as usize));
        let query = |random: &mut Random| {
            let groups = VECTORS as u64 / 32;
            // Popular groups: the product of two draws is often small.
            let group = random.below(groups) * random.below(groups) / groups;
            let vector = |random: &mut Random| match random.below(10) {
                0 => random.below(VECTORS as u64),
                _ => group * 32 + random.below(32),
            };
            let mut query: Query = (0..8).map(|_| names[vector(random) as usize]).collect();
            query.sort_unstable();
            query.dedup();
            query
        };
        (0..count).map(|_| query(&mut random)).collect()
    }

    const VECTORS: usize = 4096;

    /// The headline: two to three times the vectors for each block read.
    #[test]
    fn placement_doubles_effective_bandwidth() {
        let (training, later) = (made(6000, 1), made(6000, 2));
        let order = partition(&training, VECTORS, 32);
        let cached = VECTORS / 20;
        let trained = read_counts(&training, VECTORS);
        let names: Vec<u32> = (0..VECTORS as u32).collect();
        let baseline = read(&later, &names, 32, cached, (&trained, None));
        let threshold = best_threshold(&training, &order, 32, cached);
        let placed = read(&later, &order, 32, cached, (&trained, threshold));
        let times = placed.bandwidth_over(&baseline);
        assert!((2.0..5.0).contains(&times), "{times}: {placed:?} {baseline:?}");
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, names, "each vector has one place");
    }

    #[test]
    fn queries_without_structure_gain_nothing() {
        let mut random = Random::new(5);
        let mut draw = |count: usize| -> Vec<Query> {
            (0..count).map(|_| (0..8).map(|_| random.below(VECTORS as u64) as u32).collect()).collect()
        };
        let (training, later) = (draw(2000), draw(2000));
        let order = partition(&training, VECTORS, 32);
        let trained = read_counts(&training, VECTORS);
        let names: Vec<u32> = (0..VECTORS as u32).collect();
        let of = |order: &[u32]| read(&later, order, 32, 200, (&trained, None));
        let times = of(&order).bandwidth_over(&of(&names));
        assert!((0.95..1.1).contains(&times), "{times}");
    }
}
