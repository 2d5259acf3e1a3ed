//! LARD with replication (LARD/R): every target has a set of back-ends, which grows under load and
//! shrinks after a rest.
//!
//! Pai et al. 1998, Figure 3:
//!
//! ```text
//! to the least loaded n of the target's set, unless
//!   n's load > T_high and some back-end's load < T_low, or n's load ≥ 2 T_high:
//!     to the least loaded of all, which joins the set
//! a set of several that has not changed for K: its most loaded leaves
//! ```
//!
//! So several back-ends answer a target that is too popular for one. The table is like that of
//! [`Lard`](super::Lard). O(set) a choice, O(back-ends) under overload.

use super::{Backends, Distribution, MOST_BACKENDS, OUT_OF_SERVICE, Thresholds, Turn};

/// Policy LARD/R. See the file's head.
#[derive(Clone, Debug)]
pub struct LardWithReplication {
    thresholds: Thresholds,
    /// K, in the unit of the back-ends' time.
    rest: u64,
    sets: Vec<Set>,
    turn: Turn,
}

/// Back-ends of a target, one bit each, with the time of their last change.
#[derive(Clone, Copy, Debug, Default)]
struct Set {
    members: u64,
    changed: u64,
}

impl LardWithReplication {
    /// Makes a policy with `assignments` assignments, at least one. A set loses a member when it
    /// has not changed for `rest`; the paper's rest is 20 seconds.
    pub fn new(thresholds: Thresholds, assignments: usize, rest: u64) -> Self {
        Self { thresholds, rest, sets: vec![Set::default(); assignments.max(1)], turn: Turn::default() }
    }

    /// Returns the number of back-ends of a target.
    pub fn replicas(&self, target: u64) -> u32 {
        self.sets[self.place(target)].members.count_ones()
    }

    fn place(&self, target: u64) -> usize {
        (target % self.sets.len() as u64) as usize
    }
}

impl Distribution for LardWithReplication {
    fn choose(&mut self, target: u64, backends: &dyn Backends) -> Option<usize> {
        let (loads, now, at) = (backends.loads(), backends.now(), self.place(target));
        let loads = &loads[..loads.len().min(MOST_BACKENDS)];
        let before = self.sets[at];
        let mut set = Set { members: before.members & in_service(before.members, loads), ..before };
        let mut chosen = set.each().min_by_key(|member| loads[*member]);
        if chosen.is_none_or(|member| self.thresholds.is_overloaded(loads[member], loads)) {
            chosen = Some(self.turn.least_loaded(loads)?);
            set.members |= 1 << chosen?;
        }
        if set.members.count_ones() > 1 && now.saturating_sub(set.changed) > self.rest {
            let most =
                set.each().filter(|member| Some(*member) != chosen).max_by_key(|member| loads[*member]);
            set.members &= !most.map_or(0, |member| 1 << member);
        }
        if set.members != before.members {
            set.changed = now;
            self.sets[at] = set;
        }
        chosen
    }
}

impl Set {
    fn each(self) -> impl Iterator<Item = usize> {
        let mut left = self.members;
        std::iter::from_fn(move || {
            let first = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (first < MOST_BACKENDS).then_some(first)
        })
    }
}

/// Returns the members that are in service.
fn in_service(members: u64, loads: &[u32]) -> u64 {
    let serves = |member: &usize| loads.get(*member).is_some_and(|load| *load != OUT_OF_SERVICE);
    Set { members, changed: 0 }.each().filter(serves).fold(0, |set, member| set | 1 << member)
}
