//! Programs over global memory: the cost of replacing pages out of the order of their ages.
//!
//! The simulations of Voelker 2000, sections 3.4.3 and 3.6, over the page references of programs
//! ([`Application`]):
//!
//! | module | question | there |
//! |---|---|---|
//! | [`stack`] | how often is each position of the LRU stack used? | Figure 3.5 |
//! | [`suboptimal`] | what if a page other than the oldest is replaced? | Figure 3.6 |
//! | [`joining`] | what if a new node is filled at a steady rate, not at once? | Figure 3.7 |
//! | [`contention`] | which load balancing rate is best with queues? | open in section 3.6.3 |
//! | [`hardware`] | when is another node's memory worth it? | beyond |
//!
//! Pages are private to a program, as in the dissertation, and all have one size.

pub mod application;
pub mod contention;
pub mod hardware;
pub mod joining;
mod recency;
pub mod stack;
pub mod suboptimal;

#[cfg(test)]
mod tests;

pub use application::Application;

/// Costs of a fault, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultCosts {
    /// Computing time between two global requests, where a quarter of the program's pages are local
    /// (Z).
    pub think_seconds: f64,
    /// Time of a page from global memory without a queue.
    pub getpage_seconds: f64,
    /// Time of a page from disk.
    pub disk_seconds: f64,
}

impl FaultCosts {
    /// Costs of section 3.3.2, with the computing time of OO7 (Table 3.1).
    pub const OO7: Self = Self { think_seconds: 5.0e-3, getpage_seconds: 194e-6, disk_seconds: 3.6e-3 };

    /// Returns the time of these faults, in seconds.
    pub fn stall(&self, faults: &Faults) -> f64 {
        faults.getpages as f64 * self.getpage_seconds + faults.disk as f64 * self.disk_seconds
    }

    /// Returns a program's whole computing time, in seconds: the think time for each fault that it
    /// would take with a quarter of its pages local. The first fault of each page is left out,
    /// since it does not depend on memory.
    pub fn computing(&self, application: &Application) -> f64 {
        let local = application.part(1, 4);
        let faults = stack::distances(application).beyond(local);
        faults as f64 * self.think_seconds
    }
}

/// Faults by the place that served them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Faults {
    /// From the memory of another node.
    pub getpages: u64,
    /// From disk.
    pub disk: u64,
}
