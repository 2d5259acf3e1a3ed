//! Choice of the back-end that answers a request at a front end, by loads, by cache contents, or by
//! both.
//!
//! The six policies of Pai, Aron, Banga, Svendsen, Druschel, Zwaenepoel, Nahum, *Locality-aware
//! request distribution in cluster-based network servers*, ASPLOS 1998; Voelker 2000, section
//! 2.2.3. Bunt, Eager, Oster, Williamson, *Achieving load balance and effective caching in
//! clustered web servers*, WCW 1999, study the same question. Locality needs no knowledge of loads,
//! balance does, and only a policy that uses both has both.
//!
//! | policy | uses | cost of a choice | memory an assignment |
//! |---|---|---|---|
//! | [`RoundRobin`] (WRR) | loads | O(back-ends) | 8 bytes a back-end |
//! | [`Locality`] (LB) | the target, by hash | O(back-ends) | none |
//! | [`GlobalCache`] (LB/GC) | all caches | O(1) on a hit, else O(back-ends) | none |
//! | [`Lard`] (LARD) | the last choice, loads | O(1), else O(back-ends) | 1 byte |
//! | [`LardWithReplication`] (LARD/R) | a set, loads, time | O(set), else O(back-ends) | 16 bytes |
//!
//! WRR/GMS is WRR with back-ends that share their memories as in
//! [`global_memory`](crate::global_memory). All policies choose among back-ends that are in
//! service, and return `None` only when none is. Fits where any back-end can answer any request and
//! the front end sees every request. If the back-ends share one disk, the front end gains only
//! balance.

mod global_cache;
mod lard;
mod lard_replicated;
mod locality;
mod round_robin;

#[cfg(test)]
mod tests;

pub use global_cache::GlobalCache;
pub use lard::{Lard, Thresholds};
pub use lard_replicated::LardWithReplication;
pub use locality::Locality;
pub use round_robin::RoundRobin;

/// Policy that chooses a back-end for each request.
pub trait Distribution {
    /// Returns the back-end that answers a request for `target`, a number that stands for the
    /// requested object. The caller counts the request among that back-end's loads until it is
    /// answered.
    fn choose(&mut self, target: u64, backends: &dyn Backends) -> Option<usize>;
}

/// A front end's view of its back-ends, at most [`MOST_BACKENDS`].
pub trait Backends {
    /// Returns the number of requests that each back-end is answering; [`OUT_OF_SERVICE`] for one
    /// that answers none.
    fn loads(&self) -> &[u32];

    /// Returns the time, in any unit that does not go back.
    fn now(&self) -> u64;

    /// Returns a back-end in service with the target in its cache, if the front end knows cache
    /// contents.
    fn holder(&self, _target: u64) -> Option<usize> {
        None
    }

    /// Returns the time of last use of the object that a back-end would evict next; `None` when it
    /// has room for one more.
    fn next_victim_used(&self, _backend: usize) -> Option<u64> {
        None
    }
}

/// Load of a back-end that answers nothing.
pub const OUT_OF_SERVICE: u32 = u32::MAX;

/// Largest number of back-ends: a number fits into a byte, and a set into 64 bits.
pub const MOST_BACKENDS: usize = 64;

/// Cursor over the back-ends, so that among equal ones none always comes first.
#[derive(Clone, Debug, Default)]
struct Turn(usize);

impl Turn {
    /// Returns the back-end in service with the least load; among several, the next in turn.
    /// O(back-ends).
    fn least_loaded(&mut self, loads: &[u32]) -> Option<usize> {
        self.least_by(loads, |_, load| load)
    }

    /// Returns the least back-end in service by a comparable value of its load.
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
