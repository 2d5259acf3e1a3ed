//! Coming events of sources that have at most one each, in blocks of eight: each block's earliest
//! event stands in a block above, and the earliest of all at the top.
//!
//! ```text
//!   first                              earliest of all
//!   [ 0 │ 1 │ 2 │ … │ 7 ]              earliest of each block below
//!   [ sources 0–7 ] [ 8–15 ] …         a place is a source
//! ```
//!
//! An event that is set where there was none costs a comparison for each level. Only the removal of
//! a block's earliest event looks at the block's eight. O(log sources), two levels for 64.
//!
//! An event is one number: its time, its order among events of one time, and its source. The order
//! has few bits and begins again from time to time.

/// Coming events by source.
pub(super) struct Agenda {
    /// Blocks of events, those of the sources first.
    levels: Vec<Vec<[u64; BLOCK]>>,
    first: u64,
    source_bits: u32,
    order_bits: u32,
    /// Order of the latest event that was set.
    order: u64,
}

impl Agenda {
    /// Makes an agenda without events for this number of sources, or more.
    pub(super) fn new(sources: usize) -> Self {
        let sources = sources.next_power_of_two().max(BLOCK);
        let mut levels = vec![vec![[NEVER; BLOCK]; sources / BLOCK]];
        while let Some(below) = levels.last().map(Vec::len).filter(|blocks| *blocks > 1) {
            levels.push(vec![[NEVER; BLOCK]; below.div_ceil(BLOCK)]);
        }
        let source_bits = sources.trailing_zeros();
        let order_bits = ORDER_BITS.max(source_bits + 1);
        Self { levels, first: NEVER, source_bits, order_bits, order: 0 }
    }

    /// Returns the number of sources that there is room for.
    pub(super) fn sources(&self) -> usize {
        1 << self.source_bits
    }

    /// Sets the source's event, in place of the one before. Of two events of one time the one set
    /// first comes first.
    pub(super) fn set(&mut self, source: usize, at_us: u64) {
        self.order += 1;
        if self.order >> self.order_bits != 0 {
            self.number_again();
        }
        let event = self.event(at_us, self.order, source);
        self.put(source, event);
    }

    /// Removes the source's event.
    pub(super) fn clear(&mut self, source: usize) {
        self.put(source, NEVER);
    }

    /// Returns the time and the source of the earliest event.
    pub(super) fn first(&self) -> Option<(u64, usize)> {
        (self.first != NEVER).then(|| self.parts(self.first))
    }

    /// Makes room for twice as many sources.
    pub(super) fn grow(&mut self) {
        let mut events = self.events();
        *self = Self::new(2 * self.sources());
        events.drain(..).for_each(|(at_us, source)| self.set(source, at_us));
    }

    /// Returns all events in their order.
    fn events(&self) -> Vec<(u64, usize)> {
        let all = self.levels.first().into_iter().flatten().flatten();
        let mut events: Vec<u64> = all.copied().filter(|event| *event != NEVER).collect();
        events.sort_unstable();
        events.into_iter().map(|event| self.parts(event)).collect()
    }

    /// Numbers the events that are set from 1 on, in their order. There are fewer than numbers.
    #[cold]
    fn number_again(&mut self) {
        let events = self.events();
        self.order = 0;
        for (at_us, source) in events {
            self.order += 1;
            let event = self.event(at_us, self.order, source);
            self.put(source, event);
        }
        self.order += 1;
    }

    fn event(&self, at_us: u64, order: u64, source: usize) -> u64 {
        let below = self.source_bits + self.order_bits;
        assert!(at_us < 1 << (63 - below), "time {at_us} does not fit beside the order");
        at_us << below | order << self.source_bits | source as u64
    }

    fn parts(&self, event: u64) -> (u64, usize) {
        let source = event & ((1 << self.source_bits) - 1);
        (event >> (self.source_bits + self.order_bits), source as usize)
    }

    fn put(&mut self, source: usize, event: u64) {
        let (mut place, mut event) = (source, event);
        for level in 0..self.levels.len() {
            let block = &mut self.levels[level][place / BLOCK];
            let before = std::mem::replace(&mut block[place % BLOCK], event);
            let block = *block;
            place /= BLOCK;
            let earliest = match self.levels.get(level + 1) {
                Some(above) => above[place / BLOCK][place % BLOCK],
                None => self.first,
            };
            if event > earliest {
                if before != earliest {
                    return;
                }
                event = block.into_iter().fold(NEVER, u64::min);
            }
        }
        self.first = event;
    }
}

/// Event that never comes.
const NEVER: u64 = u64::MAX;
/// Events in a block.
const BLOCK: usize = 8;
/// Bits of an event's order at least.
const ORDER_BITS: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn events_come_in_the_order_they_were_set() {
        for sources in [1, 8, 40, 600] {
            let mut random = shoal_trace::Random::new(7);
            let mut agenda = Agenda::new(3);
            let mut expected: BTreeMap<(u64, u64), usize> = BTreeMap::new();
            let mut set: Vec<Option<(u64, u64)>> = vec![None; sources];
            let mut now = 0;
            for order in 0..8000 {
                let source = random.below(sources as u64) as usize;
                while agenda.sources() <= source {
                    agenda.grow();
                }
                if let Some(before) = set[source].take() {
                    expected.remove(&before);
                }
                if random.below(8) == 0 {
                    agenda.clear(source);
                } else {
                    let at = now + random.below(20);
                    agenda.set(source, at);
                    set[source] = Some((at, order));
                    expected.insert((at, order), source);
                }
                let first = expected.first_key_value().map(|((at, _), source)| (*at, *source));
                assert_eq!(agenda.first(), first, "{sources} sources, step {order}");
                if random.below(3) == 0
                    && let Some((at, source)) = first
                {
                    now = at;
                    expected.pop_first();
                    set[source] = None;
                    agenda.clear(source);
                }
            }
        }
    }
}
