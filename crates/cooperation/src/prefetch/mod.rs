//! Cooperative prefetching: which page goes where before anybody asks for it, and what gives way.
//!
//! The algorithm of Voelker, *Cooperative Caching in Local-Area and Wide-Area Networks*,
//! dissertation, University of Washington, 2000, chapter 4 (PGMS; first in Voelker, Anderson,
//! Kimbrel, Feeley, Chase, Karlin, Levy, *Implementing cooperative prefetching and caching in a
//! globally-managed memory system*, SIGMETRICS 1998). It is careful with the memory of the node
//! that runs a program, and lavish with that of the others:
//!
//! ```text
//!               Aggressive, B at once, round robin                 Forestall: as late as may be
//!   disks of ───────────────────────────────────► global memory ───────────────────────────────► local memory
//!   all nodes     only over what is worth less      of others        when the predicate is true     of the node
//!                          than MaxValue                                    ▲
//!   disk of the node ───────────────────────────────────────────────────────┘
//! ```
//!
//! | module | decides | section |
//! |---|---|---|
//! | [`hints`] | what a program will ask for next, as it said and as it kept to it | 4.2.2, 4.4.3 |
//! | [`value`] | what a page is worth: the time until it is asked for | 4.3.3 |
//! | [`predicate`] | whether a page must be fetched to local memory now, to spare a stall | 4.2.2 |
//! | [`requests`] | which page another node's disk is to read, who is asked, and in which order he obeys | 4.3.3 |
//! | [`epoch`] | how many pages each node gives up until all look again, and how valuable they may be | 4.3.3 |
//! | [`glfd`] | the idealized replacement over three levels, with its bound | 4.2.3 |

pub mod epoch;
pub mod glfd;
pub mod hints;
pub mod predicate;
pub mod requests;
pub mod value;

pub use epoch::{BufferGroup, Epoch, EpochEnd, NodeReport, coordinator, plan};
pub use hints::{HintMatch, Hints};
pub use predicate::{Forestall, MissingPage, is_due, slack};
pub use requests::{PrefetchQueue, PrefetchRequest, PrefetchRequester};
pub use value::{Stride, Value};

/// What a reference costs, in seconds, by where the page is: F_L, F_G and F_D.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccessTimes {
    local_seconds: f64,
    global_seconds: f64,
    disk_seconds: f64,
}

impl AccessTimes {
    /// The testbed of section 4.4: a page from global memory in 370 µs, from disk in 13 ms. A local
    /// hit counts for nothing.
    pub const TESTBED: Self = Self { local_seconds: 0.0, global_seconds: 370e-6, disk_seconds: 13e-3 };

    /// These times.
    ///
    /// # Errors
    /// Unless 0 ≤ F_L < F_G < F_D, all of them finite: without that order there are no three
    /// levels.
    pub fn new(local_seconds: f64, global_seconds: f64, disk_seconds: f64) -> Result<Self, Error> {
        let is_ordered =
            0.0 <= local_seconds && local_seconds < global_seconds && global_seconds < disk_seconds;
        if !is_ordered || !disk_seconds.is_finite() {
            return Err(Error::Times { local_seconds, global_seconds, disk_seconds });
        }
        Ok(Self { local_seconds, global_seconds, disk_seconds })
    }

    /// F_L.
    pub fn local_seconds(&self) -> f64 {
        self.local_seconds
    }

    /// F_G.
    pub fn global_seconds(&self) -> f64 {
        self.global_seconds
    }

    /// F_D.
    pub fn disk_seconds(&self) -> f64 {
        self.disk_seconds
    }

    /// How many times the least possible cost the replacement of [`glfd`] costs at most: 1 + 3 F_G
    /// / F_D (section 4.2.3).
    pub fn bound(&self) -> f64 {
        1.0 + 3.0 * self.global_seconds / self.disk_seconds
    }
}

/// Why something cannot be decided.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The times are not those of three levels.
    Times {
        /// F_L.
        local_seconds: f64,
        /// F_G.
        global_seconds: f64,
        /// F_D.
        disk_seconds: f64,
    },
    /// A node's load is not from 0 to 1.
    Load {
        /// Which node, from 0.
        node: usize,
        /// What it is.
        found: f64,
    },
    /// A reference names a node that there is not, or that has no memory.
    Node {
        /// Which node, from 0.
        node: usize,
    },
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Times { local_seconds, global_seconds, disk_seconds } => write!(
                f,
                "local, global and disk times of {local_seconds}, {global_seconds} and {disk_seconds} seconds do not rise from level to level"
            ),
            Self::Load { node, found } => {
                write!(f, "the load of node {} is {found}, where one from 0 to 1 is needed", node + 1)
            }
            Self::Node { node } => write!(f, "node {} has no memory to bring a page into", node + 1),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_levels_or_none() {
        let times = AccessTimes::new(1e-6, 370e-6, 13e-3).expect("rising");
        assert!((times.bound() - 1.0854).abs() < 1e-4);
        for (local, global, disk) in [
            (0.0, 0.0, 1.0),
            (0.0, 2.0, 1.0),
            (-1.0, 1.0, 2.0),
            (0.0, 1.0, f64::INFINITY),
            (f64::NAN, 1.0, 2.0),
        ] {
            assert!(matches!(AccessTimes::new(local, global, disk), Err(Error::Times { .. })));
        }
    }
}
