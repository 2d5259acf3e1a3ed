//! LRU stack distances: how many distinct things were asked for since the last time.
//!
//! Mattson, Gecsei, Slutz, Traiger, *Evaluation techniques for storage hierarchies*, IBM Systems Journal 1970: a reference hits in an LRU
//! cache of n entries exactly when its stack distance is at most n. Counted with a Fenwick tree over time in which each thing marks
//! its last use (Bennett and Kruskal, *LRU stack processing*, IBM J. Res. Dev. 1975): O(log requests) a reference, 4 bytes a request and 4 a
//! thing.

use crate::fenwick::Fenwick;

/// Counts stack distances over one stream.
pub struct StackDistances {
    /// Marks the time at which each thing was last asked for.
    marks: Fenwick,
    /// When each thing was last asked for, from 1; 0 for never.
    last: Vec<u32>,
    now: u32,
}

impl StackDistances {
    /// For a stream of at most so many references to things numbered below `things`.
    pub fn new(references: usize, things: usize) -> Self {
        Self { marks: Fenwick::new(references), last: vec![0; things], now: 0 }
    }

    /// The next reference: the distinct things asked for since, and with, the last time; so 1 when it is the same as the one before. `None`
    /// when it was never asked for.
    pub fn next(&mut self, thing: usize) -> Option<u32> {
        self.now += 1;
        let before = std::mem::replace(&mut self.last[thing], self.now);
        let mut distance = None;
        if before > 0 {
            distance = Some(1 + self.marks.sum_to(self.now - 1) - self.marks.sum_to(before));
            self.marks.add(before, -1);
        }
        self.marks.add(self.now, 1);
        distance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_a_list_moved_to_front() {
        let mut state = 1u64;
        let mut distances = StackDistances::new(3000, 40);
        let mut list: Vec<usize> = Vec::new();
        for _ in 0..3000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let thing = ((state >> 33) % 40).min((state >> 50) % 40) as usize;
            let at = list.iter().position(|other| *other == thing);
            assert_eq!(distances.next(thing), at.map(|at| at as u32 + 1));
            list.retain(|other| *other != thing);
            list.insert(0, thing);
        }
    }
}
