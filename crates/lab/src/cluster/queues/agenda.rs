//! Coming events of sources that have at most one each, as a tournament: each inner place holds the
//! earlier of two events, and the root the earliest of all.
//!
//! ```text
//!              1: earliest of all
//!        2: earlier          3: earlier
//!     4: source 0  5: 1    6: 2      7: 3      places; a leaf is a source
//! ```
//! An event set or replaced costs one comparison for each level, and fewer where it changes
//! nothing above; the earliest event is read at the root. A binary heap of the same events takes
//! twice the instructions: a station that starts its next visit replaces its event here, and a heap
//! takes one out and puts one in.

/// Coming events by source.
pub(super) struct Agenda {
    /// Tree of event times; leaf `places.len() / 2 + source` is a source's own.
    places: Vec<u128>,
    /// Number of events set so far.
    set: u64,
}

impl Agenda {
    /// Makes an agenda without events for this number of sources, or more.
    pub(super) fn new(sources: usize) -> Self {
        Self { places: vec![NEVER; 2 * sources.next_power_of_two().max(2)], set: 0 }
    }

    /// Returns the number of sources that there is room for.
    pub(super) fn sources(&self) -> usize {
        self.places.len() / 2
    }

    /// Sets the source's event, in place of the one before. Of two events of one time the one set
    /// first comes first.
    pub(super) fn set(&mut self, source: usize, at_us: u64) {
        self.set += 1;
        debug_assert!(self.set < 1 << (64 - SOURCE_BITS), "the order fits beside the source");
        let order = self.set << SOURCE_BITS | source as u64;
        self.put(source, u128::from(at_us) << 64 | u128::from(order));
    }

    /// Removes the source's event.
    pub(super) fn clear(&mut self, source: usize) {
        self.put(source, NEVER);
    }

    /// Returns the time and the source of the earliest event.
    pub(super) fn first(&self) -> Option<(u64, usize)> {
        let first = self.places[1];
        let source = first as u64 & ((1 << SOURCE_BITS) - 1);
        (first != NEVER).then_some(((first >> 64) as u64, source as usize))
    }

    /// Makes room for twice as many sources.
    pub(super) fn grow(&mut self) {
        let leaves = self.places.split_off(self.sources());
        self.places = vec![NEVER; 4 * leaves.len()];
        for (source, event) in leaves.into_iter().enumerate() {
            self.put(source, event);
        }
    }

    fn put(&mut self, source: usize, event: u128) {
        let mut place = self.sources() + source;
        let mut earlier = event;
        self.places[place] = event;
        while place > 1 {
            earlier = earlier.min(self.places[place ^ 1]);
            place /= 2;
            let above = &mut self.places[place];
            if *above == earlier {
                break;
            }
            *above = earlier;
        }
    }
}

/// Event that never comes.
const NEVER: u128 = u128::MAX;
/// Bits of a source's number beside the order of its event.
const SOURCE_BITS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    #[test]
    fn events_come_in_the_order_of_a_heap() {
        let mut random = shoal_trace::Random::new(7);
        let mut agenda = Agenda::new(3);
        let mut heap = BinaryHeap::new();
        let mut is_set = [false; 40];
        let (mut now, mut order) = (0, 0);
        for _ in 0..5000 {
            let source = random.below(40) as usize;
            while agenda.sources() <= source {
                agenda.grow();
            }
            if !is_set[source] {
                is_set[source] = true;
                let at = now + random.below(20);
                order += 1;
                agenda.set(source, at);
                heap.push(Reverse((at, order, source)));
            }
            if random.below(3) == 0 {
                let expected = heap.pop().map(|Reverse((at, _, source))| (at, source));
                assert_eq!(agenda.first(), expected);
                if let Some((at, source)) = expected {
                    now = at;
                    is_set[source] = false;
                    agenda.clear(source);
                }
            }
        }
    }
}
