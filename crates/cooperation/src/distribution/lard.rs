//! Locality-aware request distribution (LARD): every target has a back-end, and another when that
//! one has too much to do.
//!
//! Pai et al. 1998, Figure 2:
//!
//! ```text
//! a target's first request     to the least loaded back-end, which is remembered
//! every further one            to the same, unless
//!   its load > T_high and some back-end's load < T_low, or its load ≥ 2 T_high: to the least loaded, remembered
//! ```
//!
//! Assignments stand in a table of fixed size, found by the target modulo its length: with as many
//! entries as there are targets each has its own, as in the paper, with fewer some share theirs.
//! O(1) a choice, O(back-ends) for a first request and under overload.

use super::{Backends, Distribution, MOST_BACKENDS, OUT_OF_SERVICE, Turn};

/// Loads between which a back-end is well used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// T_low: a back-end with less to do may soon have nothing to do.
    pub low: u32,
    /// T_high: one with more to do makes its clients wait.
    pub high: u32,
}

impl Thresholds {
    /// Those of section 2.4, for servers of the paper's time: 25 and 65 active connections.
    pub const PAI: Self = Self { low: 25, high: 65 };

    /// S: how many requests a front end lets in at once, so that at most n − 2 back-ends can be
    /// above T_high while none is below T_low (section 2.4).
    pub fn admitted(&self, backends: usize) -> usize {
        let others = backends.saturating_sub(1);
        (others * self.high as usize + self.low as usize).saturating_sub(1).max(1)
    }

    /// Whether a back-end with such a load should no longer take what it is remembered for.
    pub(super) fn is_overloaded(&self, load: u32, loads: &[u32]) -> bool {
        // what is out of service has the highest load of all
        load >= self.high.saturating_mul(2)
            || (load > self.high && loads.iter().any(|other| *other < self.low))
    }
}

/// See the file's head.
#[derive(Clone, Debug)]
pub struct Lard {
    thresholds: Thresholds,
    assigned: Vec<u8>,
    turn: Turn,
}

impl Lard {
    /// With so many assignments, at least one.
    pub fn new(thresholds: Thresholds, assignments: usize) -> Self {
        Self { thresholds, assigned: vec![NOBODY; assignments.max(1)], turn: Turn::default() }
    }
}

impl Distribution for Lard {
    fn choose(&mut self, target: u64, backends: &dyn Backends) -> Option<usize> {
        let loads = backends.loads();
        let at = (target % self.assigned.len() as u64) as usize;
        let assigned = usize::from(self.assigned[at]);
        let load = loads.get(assigned).copied().unwrap_or(OUT_OF_SERVICE);
        if load != OUT_OF_SERVICE && !self.thresholds.is_overloaded(load, loads) {
            return Some(assigned);
        }
        let chosen = self.turn.least_loaded(&loads[..loads.len().min(MOST_BACKENDS)])?;
        self.assigned[at] = chosen as u8;
        Some(chosen)
    }
}

/// No back-end has this number.
const NOBODY: u8 = u8::MAX;
