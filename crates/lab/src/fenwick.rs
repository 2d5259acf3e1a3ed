//! Counts over positions that can be summed up to a position, and searched by their sum, in O(log
//! positions).
//!
//! Fenwick, *A new data structure for cumulative frequency tables*, Software: Practice and
//! Experience, 1994. 4 bytes a position.

/// A count for each position from 1.
pub(crate) struct Fenwick {
    /// Position `p` holds the sum over `(p - lowbit(p), p]`.
    counts: Vec<u32>,
}

impl Fenwick {
    /// Creates zero counts for positions from 1 to `positions`.
    pub fn new(positions: usize) -> Self {
        Self { counts: vec![0; positions + 1] }
    }

    /// Adds to the count of a position. The count never falls below zero.
    pub fn add(&mut self, position: u32, by: i32) {
        let mut position = position as usize;
        assert!(
            0 < position && position < self.counts.len(),
            "position {position} of {}",
            self.counts.len() - 1
        );
        while position < self.counts.len() {
            debug_assert!(self.counts[position].checked_add_signed(by).is_some(), "a count below zero");
            self.counts[position] = self.counts[position].wrapping_add_signed(by);
            position += position & position.wrapping_neg();
        }
    }

    /// Returns the sum of the counts of positions from 1 to this one.
    pub fn sum_to(&self, position: u32) -> u32 {
        let mut position = position as usize;
        let mut sum = 0;
        while position > 0 {
            sum += self.counts[position];
            position &= position - 1;
        }
        sum
    }

    /// Returns the first position at which the sum reaches `wanted`, which is at least 1 and no
    /// more than the sum of all.
    pub fn position_of(&self, wanted: u32) -> u32 {
        debug_assert!(wanted > 0, "the sum of nothing is 0");
        let mut position = 0;
        let mut left = wanted;
        let mut step = self.counts.len().next_power_of_two();
        while step > 0 {
            if let Some(count) = self.counts.get(position + step)
                && *count < left
            {
                left -= count;
                position += step;
            }
            step /= 2;
        }
        debug_assert!(position + 1 < self.counts.len(), "the sum never reaches {wanted}");
        position as u32 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_searches_are_those_of_a_list() {
        let mut counts = [0u32; 38];
        let mut fenwick = Fenwick::new(37);
        let mut random = shoal_trace::Random::new(1);
        for _ in 0..500 {
            let position = 1 + random.below(37) as usize;
            let by = if counts[position] > 0 && random.below(2) == 0 { -1 } else { 1 };
            counts[position] = counts[position].wrapping_add_signed(by);
            fenwick.add(position as u32, by);
            let sum = |to: usize| counts[..=to].iter().sum::<u32>();
            assert!((0..38).all(|to| fenwick.sum_to(to as u32) == sum(to)));
            for wanted in 1..=sum(37) {
                let first = (0..38).find(|to| sum(*to) >= wanted).unwrap();
                assert_eq!(fenwick.position_of(wanted) as usize, first);
            }
        }
    }
}
