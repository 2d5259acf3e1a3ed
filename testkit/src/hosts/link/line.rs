//! One direction of a link: decides what becomes of each frame, by time and seed.
//!
//! Frames keep their order unless they are to be reordered: then one overtakes those that wait, as
//! netem does it. Cost: a heap's, logarithmic in the frames under way.

use crate::seeded::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Properties of one direction. Shares are of frames, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// Time that each frame takes.
    pub delay: Duration,
    /// Most that is added to the delay, evenly distributed.
    pub jitter: Duration,
    /// Share that vanishes.
    pub loss: f64,
    /// Share that arrives twice.
    pub duplicates: f64,
    /// Share that takes no time, and so overtakes others.
    pub reordered: f64,
}

/// Frames of one direction by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that arrived at the link.
    pub taken: u64,
    /// Frames that were lost on purpose.
    pub lost: u64,
    /// Frames that were doubled.
    pub duplicated: u64,
    /// Frames that overtook others.
    pub reordered: u64,
    /// Frames that were dropped since too many were under way.
    pub overflowed: u64,
}

/// One direction with the frames under way. Time is what has passed since the link began.
#[derive(Debug)]
pub(super) struct Line {
    quality: Quality,
    random: Random,
    waiting: BinaryHeap<Reverse<(Duration, u64, Vec<u8>)>>,
    last_due: Duration,
    counts: Counts,
}

impl Line {
    pub(super) fn new(seed: u64) -> Self {
        let (quality, counts) = (Quality::default(), Counts::default());
        let waiting = BinaryHeap::new();
        Self { quality, random: Random::new(seed), waiting, last_due: Duration::ZERO, counts }
    }

    pub(super) fn set(&mut self, quality: Quality) {
        for share in [quality.loss, quality.duplicates, quality.reordered] {
            assert!((0.0..=1.0).contains(&share), "a share is from 0 to 1, not {share}");
        }
        self.quality = quality;
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes a frame in.
    pub(super) fn take(&mut self, now: Duration, frame: Vec<u8>) {
        self.counts.taken += 1;
        // All numbers are drawn whatever the quality is, so that a change moves no later one.
        let [lost, doubled, overtakes] = [self.quality.loss, self.quality.duplicates, self.quality.reordered]
            .map(|share| self.hits(share));
        let late = self.quality.jitter.mul_f64(self.fraction());
        if lost {
            self.counts.lost += 1;
            return;
        }
        if self.waiting.len() >= WAITING_MAX {
            self.counts.overflowed += 1;
            return;
        }
        let due = if overtakes {
            self.counts.reordered += u64::from(!self.waiting.is_empty());
            now
        } else {
            // A frame never arrives before one that came earlier.
            self.last_due = self.last_due.max(now + self.quality.delay + late);
            self.last_due
        };
        if doubled {
            self.counts.duplicated += 1;
            self.waiting.push(Reverse((due, self.counts.taken, frame.clone())));
        }
        self.waiting.push(Reverse((due, self.counts.taken, frame)));
    }

    /// Gives the next frame that has arrived by now.
    pub(super) fn arrived(&mut self, now: Duration) -> Option<Vec<u8>> {
        if self.next_due()? > now {
            return None;
        }
        self.waiting.pop().map(|Reverse((_, _, frame))| frame)
    }

    /// Time at which the next frame arrives.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.waiting.peek().map(|Reverse((due, _, _))| *due)
    }

    fn hits(&mut self, share: f64) -> bool {
        self.fraction() < share
    }

    /// A number from 0 to below 1: 53 bits, the size of a double's fraction.
    fn fraction(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Most frames under way: 100 ms of 1 Gbit/s in full frames.
const WAITING_MAX: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// Sends a thousand frames, one each millisecond, and gives the numbers that arrive.
    fn sent(seed: u64, quality: Quality) -> (Vec<u16>, Counts) {
        let mut line = Line::new(seed);
        line.set(quality);
        let mut arrived = Vec::new();
        for now in 0..2000 {
            if now < 1000 {
                line.take(ms(now), (now as u16).to_be_bytes().to_vec());
            }
            while let Some(frame) = line.arrived(ms(now)) {
                arrived.push(u16::from_be_bytes([frame[0], frame[1]]));
            }
        }
        (arrived, line.counts())
    }

    #[test]
    fn delayed_frames_keep_their_order() {
        let mut line = Line::new(1);
        line.set(Quality { delay: ms(10), jitter: ms(5), ..Quality::default() });
        line.take(ms(0), vec![1]);
        assert_eq!(line.arrived(ms(9)), None);
        line.take(ms(1), vec![2]);
        assert_eq!(line.arrived(ms(15)), Some(vec![1]));
        let (arrived, _) = sent(7, Quality { delay: ms(20), jitter: ms(30), ..Quality::default() });
        assert!(arrived.is_sorted() && arrived.len() == 1000);
    }

    #[test]
    fn shares_are_kept_and_follow_from_the_seed() {
        let quality =
            Quality { delay: ms(5), loss: 0.1, duplicates: 0.05, reordered: 0.02, ..Quality::default() };
        let (arrived, counts) = sent(3, quality);
        assert!((60..140).contains(&counts.lost), "{counts:?}");
        assert!((25..80).contains(&counts.duplicated), "{counts:?}");
        assert!((5..45).contains(&counts.reordered), "{counts:?}");
        assert!(!arrived.is_sorted());
        assert_eq!(arrived.len() as u64, 1000 - counts.lost + counts.duplicated);
        assert_eq!(sent(3, quality), (arrived, counts));
    }

    #[test]
    fn line_holds_a_bounded_number_of_frames() {
        let mut line = Line::new(1);
        line.set(Quality { delay: ms(10), ..Quality::default() });
        (0..WAITING_MAX + 5).for_each(|_| line.take(ms(0), vec![0]));
        assert_eq!(line.counts().overflowed, 5);
    }
}
