//! Virtual network: delay, loss, duplicates and cuts between nodes.

use crate::random::Random;
use std::collections::BTreeMap;
use std::time::Duration;

/// Network between the nodes.
#[derive(Clone, Debug)]
pub struct Network {
    /// Quality of all links.
    pub links: Links,
    /// Added delay of messages from and to a node.
    pub slow: BTreeMap<usize, Duration>,
    /// Directions that are cut, with the time of the cut.
    cuts: BTreeMap<(usize, usize), Duration>,
}

/// Quality of links.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    /// Shortest delay.
    pub least: Duration,
    /// Longest delay of most messages; different delays reorder them.
    pub most: Duration,
    /// Probability that a segment is lost, and comes after a retransmission.
    pub loss: f64,
    /// Probability that a call is repeated.
    pub duplicates: f64,
}

impl Links {
    /// Links of a local network.
    pub const LOCAL: Self = Self {
        least: Duration::from_micros(50),
        most: Duration::from_micros(900),
        loss: 0.0,
        duplicates: 0.0,
    };

    /// Links that lose, repeat and reorder.
    pub const ROUGH: Self = Self {
        least: Duration::from_micros(100),
        most: Duration::from_millis(30),
        loss: 0.05,
        duplicates: 0.2,
    };
}

impl Network {
    /// Makes a network without cuts.
    pub fn new(links: Links) -> Self {
        assert!(links.least <= links.most, "the shortest delay is not the longest");
        assert!(links.loss < 1.0, "a segment arrives at last");
        Self { links, slow: BTreeMap::new(), cuts: BTreeMap::new() }
    }

    /// Returns the delay of a message, or `None` if a cut swallows it.
    pub fn delay(&self, from: usize, to: usize, random: &mut Random) -> Option<Duration> {
        if self.is_cut(from, to) {
            return None;
        }
        let mut delay = random.between(self.links.least, self.links.most);
        while random.chance(self.links.loss) && delay < RETRANSMISSION * 3 {
            delay += RETRANSMISSION;
        }
        for end in [from, to] {
            delay += self.slow.get(&end).map_or(Duration::ZERO, |most| random.between(*most / 2, *most));
        }
        debug_assert!(delay >= self.links.least, "no message is faster than its link");
        Some(delay)
    }

    /// Cuts one direction.
    pub fn cut(&mut self, from: usize, to: usize, now: Duration) {
        self.cuts.entry((from, to)).or_insert(now);
    }

    /// Mends one direction.
    pub fn mend(&mut self, from: usize, to: usize) {
        self.cuts.remove(&(from, to));
    }

    /// Returns `true` if messages in this direction are lost.
    pub fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.contains_key(&(from, to))
    }

    /// Returns `true` if two nodes have not reached each other for `period`.
    pub fn is_cut_for(&self, one: usize, other: usize, period: Duration, now: Duration) -> bool {
        let long = |pair| self.cuts.get(&pair).is_some_and(|since| now.saturating_sub(*since) >= period);
        long((one, other)) || long((other, one))
    }
}

/// Wait of TCP before a lost segment is sent again.
const RETRANSMISSION: Duration = Duration::from_millis(200);
