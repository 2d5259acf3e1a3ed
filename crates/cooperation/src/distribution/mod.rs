//! Which back-end answers a request that came to a front end: by how much each has to do, by what
//! each seems to hold, or by both.
//!
//! The six policies of Pai, Aron, Banga, Svendsen, Druschel, Zwaenepoel, Nahum, *Locality-aware
//! request distribution in cluster-based network servers*, ASPLOS 1998; Voelker 2000, section
//! 2.2.3. Bunt, Eager, Oster, Williamson, *Achieving load balance and effective caching in
//! clustered web servers*, WCW 1999, ask the same question: locality needs no knowledge of loads,
//! balance does, and only what heeds both has both.
//!
//! | policy | heeds | cost of a choice | memory |
//! |---|---|---|---|
//! | [`RoundRobin`] (WRR) | loads | O(back-ends) | 8 bytes a back-end |
//! | [`Locality`] (LB) | what is asked for, by hash | O(back-ends) | none |
//! | [`GlobalCache`] (LB/GC) | who holds it, or who gives up least for it | O(1) when held, else O(back-ends) | none |
//! | [`Lard`] (LARD) | who was chosen last, unless that one is overloaded | O(1), else O(back-ends) | a byte an assignment |
//! | [`LardReplicated`] (LARD/R) | a set of those chosen, which grows with load and shrinks with time | O(set), else O(back-ends) | 16 bytes an assignment |
//!
//! WRR/GMS is WRR whose back-ends share their memories as [`global_memory`](crate::global_memory)
//! says. All choose among back-ends that are in service, and `None` only when none is. Fits where
//! any back-end can answer anything and the front end sees every request; a front end whose
//! back-ends share one disk gains balance only.

mod global_cache;
mod lard;
mod lard_replicated;
mod locality;
mod round_robin;

#[cfg(test)]
mod tests;

pub use global_cache::GlobalCache;
pub use lard::{Lard, Thresholds};
pub use lard_replicated::LardReplicated;
pub use locality::Locality;
pub use round_robin::RoundRobin;

/// Chooses a back-end for each request.
pub trait Distribution {
    /// The back-end that answers a request for a target, a number that stands for what is asked
    /// for. The caller counts the request among that back-end's loads until it is answered.
    fn choose(&mut self, target: u64, backends: &dyn Backends) -> Option<usize>;
}

/// What a front end sees of its back-ends, of which there are at most [`MOST_BACKENDS`].
pub trait Backends {
    /// Requests that each is answering; [`OUT_OF_SERVICE`] for one that answers none.
    fn loads(&self) -> &[u32];

    /// The time, in any unit that does not go back.
    fn now(&self) -> u64;

    /// A back-end in service whose cache holds the target, for those who are told.
    fn holder(&self, _target: u64) -> Option<usize> {
        None
    }

    /// When the object was last used that a back-end would give up next; `None` when it has room
    /// for one more.
    fn next_victim_used(&self, _backend: usize) -> Option<u64> {
        None
    }
}

/// The load of a back-end that answers nothing.
pub const OUT_OF_SERVICE: u32 = u32::MAX;

/// A back-end's number fits into a byte, and a set of them into 64 bits.
pub const MOST_BACKENDS: usize = 64;

/// Goes round the back-ends, so that of those that are alike none is always first.
#[derive(Clone, Debug, Default)]
struct Turn(usize);

impl Turn {
    /// The back-end in service with the least load; of several, the next in turn. O(back-ends).
    fn least_loaded(&mut self, loads: &[u32]) -> Option<usize> {
        self.least_by(loads, |_, load| load)
    }

    /// The same, by what makes a load comparable to those of others.
    fn least_by<L: PartialOrd>(
        &mut self,
        loads: &[u32],
        comparable: impl Fn(usize, u32) -> L,
    ) -> Option<usize> {
        let mut least: Option<(usize, L)> = None;
        let first = self.0.min(loads.len());
        for at in (first..loads.len()).chain(0..first) {
            if loads[at] == OUT_OF_SERVICE {
                continue;
            }
            let load = comparable(at, loads[at]);
            if least.as_ref().is_none_or(|(_, lowest)| load < *lowest) {
                least = Some((at, load));
            }
        }
        let (chosen, _) = least?;
        self.0 = chosen + 1;
        Some(chosen)
    }
}
