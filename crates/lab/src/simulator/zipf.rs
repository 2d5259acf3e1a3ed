//! Made requests: independent of one another, with a popularity after Zipf.
//!
//! The object of rank r is requested with a probability in proportion to r^−alpha (Breslau, Cao,
//! Fan, Phillips, Shenker: "Web caching and Zipf-like distributions", INFOCOM 1999). Drawn by the
//! alias method (Walker 1977, in the form of Vose: "A linear algorithm for generating random
//! numbers with a given distribution", IEEE Transactions on Software Engineering, 1991): O(objects)
//! to prepare, O(1) a request. Objects are numbered by rank, from 0.

use super::request::Request;

/// An endless stream of requests.
#[derive(Clone, Debug)]
pub struct ZipfTrace {
    objects: Alias,
    object_bytes: u64,
    state: u64,
}

impl ZipfTrace {
    /// Creates requests for `objects` objects of one size. At least one object, at most 2^32 − 1.
    pub fn new(objects: u32, alpha: f64, object_bytes: u64, seed: u64) -> Self {
        let weights: Vec<f64> = (1..=objects.max(1)).map(|rank| f64::from(rank).powf(-alpha)).collect();
        Self { objects: Alias::new(weights), object_bytes, state: seed }
    }

    /// Draws from splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
    /// OOPSLA 2014).
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Iterator for ZipfTrace {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let drawn = self.draw();
        Some(Request { object: self.objects.choose(drawn) as u64, bytes: self.object_bytes })
    }
}

/// Draws things in proportion to their weights, O(1) a draw.
#[derive(Clone, Debug)]
pub struct Alias(
    /// For each column the part of its own object, out of 2^32, and the object of the rest.
    Vec<(u32, u32)>,
);

impl Alias {
    /// Creates a draw from these weights, one for each thing; at most 2^32 − 1.
    pub fn new(weights: Vec<f64>) -> Self {
        Self(columns(weights))
    }

    /// Returns the thing that 64 random bits choose; 0 where there is none.
    pub fn choose(&self, bits: u64) -> usize {
        let column = ((bits >> 32) * self.0.len() as u64) >> 32;
        let Some((own, other)) = self.0.get(column as usize) else { return 0 };
        if (bits as u32) < *own { column as usize } else { *other as usize }
    }
}

/// Returns columns of one height, each of at most two objects.
fn columns(mut weights: Vec<f64>) -> Vec<(u32, u32)> {
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    weights.iter_mut().for_each(|weight| *weight /= mean);
    let mut columns: Vec<(u32, u32)> = (0..weights.len() as u32).map(|object| (u32::MAX, object)).collect();
    let (mut short, mut tall): (Vec<u32>, Vec<u32>) =
        (0..weights.len() as u32).partition(|object| weights[*object as usize] < 1.0);
    while let (Some(low), Some(high)) = (short.pop(), tall.last().copied()) {
        let part = weights[low as usize];
        columns[low as usize] = ((part * 2_f64.powi(32)) as u32, high);
        weights[high as usize] -= 1.0 - part;
        if weights[high as usize] < 1.0 {
            tall.pop();
            short.push(high);
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_is_asked_for_as_often_as_its_rank_says() {
        let (objects, alpha, requests) = (1000, 0.8, 1_000_000);
        let mut counts = vec![0_u32; objects];
        for request in ZipfTrace::new(objects as u32, alpha, 1, 42).take(requests) {
            counts[request.object as usize] += 1;
        }
        let weight = |rank: usize| (rank as f64).powf(-alpha);
        let sum: f64 = (1..=objects).map(weight).sum();
        for rank in 1..=objects {
            let expected = weight(rank) / sum * requests as f64;
            let off = (f64::from(counts[rank - 1]) - expected).abs();
            assert!(off < 5.0 * expected.sqrt(), "rank {rank}: {} for {expected}", counts[rank - 1]);
        }
    }

    #[test]
    fn the_seed_decides() {
        let first = |seed| ZipfTrace::new(100, 0.8, 1, seed).take(50).map(|r| r.object).collect::<Vec<_>>();
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
        assert_eq!(ZipfTrace::new(0, 0.8, 1, 1).next().map(|request| request.object), Some(0));
    }
}
