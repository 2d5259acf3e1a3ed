//! Locality-aware request distribution (LARD): every target has one back-end, and changes it when
//! that is overloaded.
//!
//! Pai et al. 1998, Figure 2:
//!
//! ```text
//! a target's first request     to the least loaded back-end, which is remembered
//! every further one            to the remembered one, unless
//!   its load > T_high and some back-end's load < T_low, or its load ≥ 2 T_high:
//!                              to the least loaded, which is remembered
//! ```
//!
//! Assignments stand in a table of fixed size, at the target modulo its length. With at least one
//! entry a target each target has its own, as in the paper; with fewer entries some targets share
//! one. O(1) a choice, O(back-ends) for a first request and under overload.

use super::{Backends, Distribution, MOST_BACKENDS, OUT_OF_SERVICE, Turn};

/// Loads between which a back-end is well used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// T_low: a back-end with a lower load may soon be idle.
    pub low: u32,
    /// T_high: a back-end with a higher load makes its clients wait.
    pub high: u32,
}

impl Thresholds {
    /// Thresholds of section 2.4, for servers of the paper's time: 25 and 65 active connections.
    pub const PAI: Self = Self { low: 25, high: 65 };

    /// Returns S, the number of requests that a front end admits at once (section 2.4). With S
    /// requests at most n − 2 back-ends can be above T_high while none is below T_low.
    pub fn admitted(&self, backends: usize) -> usize {
        let others = backends.saturating_sub(1);
        (others * self.high as usize + self.low as usize).saturating_sub(1).max(1)
    }

    /// Returns `true` if a back-end with this load should lose its assigned targets.
    pub(super) fn is_overloaded(&self, load: u32, loads: &[u32]) -> bool {
        // A back-end out of service has the highest load of all.
        load >= self.high.saturating_mul(2)
            || (load > self.high && loads.iter().any(|other| *other < self.low))
    }
}

/// Policy LARD. See the file's head.
#[derive(Clone, Debug)]
pub struct Lard {
    thresholds: Thresholds,
    assigned: Vec<u8>,
    turn: Turn,
}

impl Lard {
    /// Makes a policy with `assignments` assignments, at least one.
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

/// Number of no back-end.
const NOBODY: u8 = u8::MAX;
