//! Free times of places: finds the least place that is free during a given time.
//!
//! A free time is a point: its beginning and its end. The free times that contain a given time are
//! the points of a quadrant: they begin no later and end no earlier. The points stand in a binary
//! trie that halves the range of beginnings and the range of ends in turn. Every node knows the
//! least place in it. A search visits the child with the less place first, and skips nodes that
//! cannot be better.
//!
//! ```text
//!   ends │ · ·│·  ·      a quadrant: nodes inside it answer at once, nodes outside are skipped;
//!        │  ┌─┼────      a search visits only nodes on its two edges, at worst O(√points)
//!        │··│ │ ·   ends after the time
//!        └──┴─┴──── begins
//! ```
//!
//! Inserting and removing cost the trie's depth, at most 64.

/// Time in which a place is free: the requests `from..to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Slot that is free.
    pub(super) slot: u32,
    /// Object that has the place before, or [`NOBODY`].
    pub(super) before: u32,
    /// Object that has the place afterwards, or [`NOBODY`].
    pub(super) after: u32,
}

/// No object.
pub(super) const NOBODY: u32 = u32::MAX;

/// Gaps of all places. See the file's head.
#[derive(Debug)]
pub(super) struct Gaps {
    nodes: Vec<GapNode>,
}

#[derive(Debug)]
struct GapNode {
    /// Least slot below the node.
    least: u32,
    below: Below,
}

#[derive(Debug)]
enum Below {
    Gaps(Vec<Gap>),
    /// Nodes of the lower and of the upper half.
    Halves([u32; 2]),
}

/// Part of all possible gaps that a node stands for, by its depth and the bits on the way to it.
#[derive(Clone, Copy)]
struct Area {
    depth: u32,
    from: u32,
    to: u32,
}

impl Default for Gaps {
    fn default() -> Self {
        Self { nodes: vec![GapNode::EMPTY] }
    }
}

impl Gaps {
    pub(super) fn insert(&mut self, gap: Gap) {
        let (mut at, mut area) = (0, Area::ALL);
        loop {
            let node = &mut self.nodes[at];
            node.least = node.least.min(gap.slot);
            match &mut node.below {
                Below::Halves(halves) => {
                    let half = area.half_of(gap);
                    (at, area) = (halves[half] as usize, area.half(half));
                }
                Below::Gaps(gaps) if gaps.len() < LEAF_GAPS || area.depth == Area::DEPTH_MAX => {
                    return gaps.push(gap);
                }
                Below::Gaps(_) => self.split(at, area),
            }
        }
    }

    /// Removes a gap that is present.
    pub(super) fn remove(&mut self, gap: Gap) {
        let (mut at, mut area, mut path) = (0, Area::ALL, Vec::new());
        while let Below::Halves(halves) = &self.nodes[at].below {
            path.push(at);
            let half = area.half_of(gap);
            (at, area) = (halves[half] as usize, area.half(half));
        }
        if let Below::Gaps(gaps) = &mut self.nodes[at].below {
            gaps.retain(|other| *other != gap);
        }
        self.nodes[at].least = self.least_below(at);
        while let Some(at) = path.pop() {
            self.nodes[at].least = self.least_below(at);
        }
    }

    /// Returns the gap of the least slot among the gaps that contain the requests from `first` to
    /// `last`.
    pub(super) fn least_around(&self, first: u32, last: u32) -> Option<Gap> {
        let mut best: Option<Gap> = None;
        let mut waiting = vec![(0, Area::ALL)];
        while let Some((at, area)) = waiting.pop() {
            let node = &self.nodes[at];
            let is_worse = |slot: u32| best.map_or(slot == NONE, |best| slot >= best.slot);
            if is_worse(node.least) || !area.may_contain(first, last) {
                continue;
            }
            match &node.below {
                Below::Gaps(gaps) => {
                    let around = gaps.iter().filter(|gap| gap.from <= first && last < gap.to);
                    let least = around.min_by_key(|gap| gap.slot).filter(|gap| !is_worse(gap.slot));
                    best = least.copied().or(best);
                }
                Below::Halves(halves) => {
                    let [lower, upper] = halves.map(|half| half as usize);
                    let children = [(lower, area.half(0)), (upper, area.half(1))];
                    let lower_is_less = self.nodes[lower].least < self.nodes[upper].least;
                    // The last entry is visited first.
                    waiting.extend(if lower_is_less { [children[1], children[0]] } else { children });
                }
            }
        }
        best
    }

    fn split(&mut self, at: usize, area: Area) {
        let next = self.nodes.len() as u32;
        let halves = Below::Halves([next, next + 1]);
        if let Below::Gaps(gaps) = std::mem::replace(&mut self.nodes[at].below, halves) {
            let (upper, lower): (Vec<Gap>, Vec<Gap>) =
                gaps.into_iter().partition(|gap| area.half_of(*gap) == 1);
            self.nodes
                .extend([lower, upper].map(|gaps| GapNode { least: least(&gaps), below: Below::Gaps(gaps) }));
        }
    }

    fn least_below(&self, at: usize) -> u32 {
        match &self.nodes[at].below {
            Below::Gaps(gaps) => least(gaps),
            Below::Halves(halves) => {
                halves.map(|half| self.nodes[half as usize].least).into_iter().min().unwrap_or(NONE)
            }
        }
    }
}

impl GapNode {
    const EMPTY: Self = Self { least: NONE, below: Below::Gaps(Vec::new()) };
}

impl Area {
    const ALL: Self = Self { depth: 0, from: 0, to: 0 };
    const DEPTH_MAX: u32 = 64;

    /// Returns the half that holds a gap of this area.
    fn half_of(self, gap: Gap) -> usize {
        let coordinate = if self.depth.is_multiple_of(2) { gap.from } else { gap.to };
        usize::from(coordinate & self.bit() != 0)
    }

    fn half(self, half: usize) -> Self {
        let bit = if half == 1 { self.bit() } else { 0 };
        match self.depth.is_multiple_of(2) {
            true => Self { depth: self.depth + 1, from: self.from | bit, ..self },
            false => Self { depth: self.depth + 1, to: self.to | bit, ..self },
        }
    }

    /// Returns `true` if a gap of this area may contain these requests. The gap that begins first
    /// and ends last would.
    fn may_contain(self, first: u32, last: u32) -> bool {
        let ends_open = u32::MAX.checked_shr(self.depth / 2).unwrap_or(0);
        self.from <= first && last < self.to | ends_open
    }

    /// Returns the bit that distinguishes the halves.
    fn bit(self) -> u32 {
        1 << (31 - self.depth / 2)
    }
}

fn least(gaps: &[Gap]) -> u32 {
    gaps.iter().map(|gap| gap.slot).min().unwrap_or(NONE)
}

/// No slot.
const NONE: u32 = u32::MAX;
/// Gaps that one leaf holds before it is split.
const LEAF_GAPS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn finds_the_least_as_a_list_does() {
        for seed in 0..30 {
            let mut random = Random(seed);
            let (mut gaps, mut list) = (Gaps::default(), Vec::new());
            // Some seeds use a narrow range, so that leaves are deep, others the widest.
            let limit = if seed % 2 == 0 { 64 } else { 1 << 32 };
            for step in 0..1500_u32 {
                let mut times = [random.below(limit) as u32, random.below(limit) as u32];
                times.sort_unstable();
                let [from, to] = times;
                match random.below(4) {
                    0 | 1 => {
                        let gap =
                            Gap { from, to, slot: random.below(50) as u32, before: step, after: NOBODY };
                        gaps.insert(gap);
                        list.push(gap);
                    }
                    2 if !list.is_empty() => {
                        gaps.remove(list.swap_remove(random.below(list.len() as u64) as usize));
                    }
                    _ => {
                        let around = list.iter().filter(|gap| gap.from <= from && to < gap.to);
                        let found = gaps.least_around(from, to);
                        assert_eq!(
                            found.map(|gap| gap.slot),
                            around.map(|gap| gap.slot).min(),
                            "seed {seed}, step {step}"
                        );
                        assert!(
                            found.is_none_or(|gap| list.contains(&gap) && gap.from <= from && to < gap.to)
                        );
                    }
                }
            }
        }
    }
}
