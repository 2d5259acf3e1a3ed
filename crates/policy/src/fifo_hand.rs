//! First in, first out by a hand: evicts the object at the hand, requested or not.
//!
//! The yardstick of Belady ("A study of replacement algorithms for a virtual-storage computer", IBM
//! Systems Journal, 1966) without a queue. Where numbers are assigned in ascending order, the order
//! of the array is the order of arrival. Where holes are filled out of turn, it is only similar.
//!
//! Fits where a hit must write nothing at all, and where objects should be evicted in their order
//! on disk. Does not fit where some objects stay popular. A hit costs nothing; a victim is the next
//! entry.

use crate::{CyclicPolicy, HandDecision};

/// FIFO by a hand. See the file's head.
#[derive(Clone, Copy, Debug, Default)]
pub struct FifoHand;

impl CyclicPolicy for FifoHand {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn initial_bits(&self, _hand_is_near: bool) -> u8 {
        0
    }

    fn hit(&self, bits: u8) -> u8 {
        bits
    }

    fn on_pass(&self, _bits: u8) -> HandDecision {
        HandDecision::Evict
    }

    fn rounds_max(&self) -> u32 {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_and_hits_write_nothing() {
        for bits in 0..=u8::MAX {
            assert_eq!((FifoHand.hit(bits), FifoHand.on_pass(bits)), (bits, HandDecision::Evict));
        }
    }
}
