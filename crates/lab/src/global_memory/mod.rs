//! Programs over global memory: what it costs them when pages are not replaced in the order of
//! their ages.
//!
//! The simulations of Voelker 2000, sections 3.4.3 and 3.6, over the page references of programs
//! ([`Application`]):
//!
//! | module | question | there |
//! |---|---|---|
//! | [`stack`] | how often is each position of the LRU stack asked for? | Figure 3.5 |
//! | [`suboptimal`] | what if a page other than the oldest is replaced? | Figure 3.6 |
//! | [`joining`] | what if a new idle node is filled at a steady rate instead of at once? | Figure 3.7 |
//! | [`contention`] | which load balancing rate is best, when servers are waited for too? | left open in section 3.6.3 |
//!
//! Pages are private to a program, as in the dissertation, and all have one size.

pub mod application;
pub mod contention;
pub mod joining;
mod recency;
pub mod stack;
pub mod suboptimal;

#[cfg(test)]
mod tests;

pub use application::Application;

/// What a fault costs, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Computing between two global requests, where a quarter of the program's pages are local (Z).
    pub think_seconds: f64,
    /// A page from global memory, when nobody waits there.
    pub getpage_seconds: f64,
    /// A page from disk.
    pub disk_seconds: f64,
}

impl Costs {
    /// Those of section 3.3.2, computing as long as OO7 does (Table 3.1).
    pub const OO7: Self = Self { think_seconds: 5.0e-3, getpage_seconds: 194e-6, disk_seconds: 3.6e-3 };

    /// How long so many faults take, in seconds.
    pub fn stall(&self, faults: &Faults) -> f64 {
        faults.getpages as f64 * self.getpage_seconds + faults.disk as f64 * self.disk_seconds
    }

    /// How long a program computes altogether, in seconds: the think time for each fault that it
    /// would take with a quarter of its pages local, but for the first fault of each page, which
    /// does not depend on memory.
    pub fn computing(&self, application: &Application) -> f64 {
        let local = application.part(1, 4);
        let faults = stack::distances(application).beyond(local);
        faults as f64 * self.think_seconds
    }
}

/// Where faults were served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Faults {
    /// From the memory of another node.
    pub getpages: u64,
    /// From disk.
    pub disk: u64,
}
