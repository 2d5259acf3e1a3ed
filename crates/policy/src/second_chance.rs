//! CLOCK as first published: first in, first out, with another round for objects requested since
//! the hand last passed.
//!
//! Corbató: "A paging experiment with the Multics system", 1969. One bit an object. This is `clock`
//! in libCacheSim and in the literature since. [`Clock`](crate::Clock), which the index on disk
//! uses, counts hits up to three.
//!
//! Fits where a hit must be nearly free and LRU would be good enough: its hit ratio is at or above
//! LRU's on most web traces (Yang and others, HotOS 2023). Does not fit where one scan of cold
//! objects must not evict warm ones (see `s3_fifo`, `sieve`). A hit is O(1). Finding a victim is
//! O(1) amortised, since a hit has paid for each kept round.

use crate::cyclic::{CyclicPolicy, HandDecision};

/// CLOCK with one bit. See the file's head.
#[derive(Clone, Copy, Debug, Default)]
pub struct SecondChance;

impl CyclicPolicy for SecondChance {
    fn name(&self) -> &'static str {
        "clock"
    }

    fn initial_bits(&self, hand_is_near: bool) -> u8 {
        u8::from(hand_is_near)
    }

    fn hit(&self, _bits: u8) -> u8 {
        1
    }

    fn on_pass(&self, bits: u8) -> HandDecision {
        if bits == 0 { HandDecision::Evict } else { HandDecision::Keep(0) }
    }

    fn rounds_max(&self) -> u32 {
        2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_often_it_was_hit_an_object_is_kept_once() {
        for bits in 1..=u8::MAX {
            assert_eq!(SecondChance.on_pass(bits), HandDecision::Keep(0));
        }
        assert_eq!(SecondChance.on_pass(0), HandDecision::Evict);
        assert_eq!(SecondChance.on_pass(SecondChance.initial_bits(false)), HandDecision::Evict);
        assert_eq!(SecondChance.hit(SecondChance.hit(0)), 1);
    }
}
