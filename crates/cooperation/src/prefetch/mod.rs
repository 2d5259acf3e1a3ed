//! Cooperative prefetching: the page to fetch early, its destination, and the page that it
//! replaces.
//!
//! The algorithm is PGMS of Voelker, *Cooperative Caching in Local-Area and Wide-Area Networks*,
//! dissertation, University of Washington, 2000, chapter 4. First publication: Voelker, Anderson,
//! Kimbrel, Feeley, Chase, Karlin, Levy, *Implementing cooperative prefetching and caching in a
//! globally-managed memory system*, SIGMETRICS 1998. PGMS saves the memory of the node that runs a
//! program, and uses that of the others freely:
//!
//! ```text
//!              Aggressive: B at once,                 Forestall:
//!                   round robin                  as late as possible
//!   disks of ────────────────────► global memory ───────────────────► local memory
//!   all nodes  only over pages       of others     when the predicate  of the node
//!               worth less than                        is true ▲
//!                   MaxValue                                   │
//!   disk of the node ──────────────────────────────────────────┘
//! ```
//!
//! | module | decision | section |
//! |---|---|---|
//! | [`hints`] | the pages that a program will need next | 4.2.2, 4.4.3 |
//! | [`value`] | the value of a page: the time until its next use | 4.3.3 |
//! | [`predicate`] | if a page must be fetched to local memory now, to spare a stall | 4.2.2 |
//! | [`requests`] | the page that another node's disk reads, the node, and the order | 4.3.3 |
//! | [`epoch`] | the pages that each node gives until the next epoch, and their value | 4.3.3 |
//! | [`replicas`] | the nodes with a file on disk, and its name there | 4.3.2 |
//! | [`page_site`] | the place of a page, its moves, and the step at a fault | 4.2, 4.3 |
//! | [`victim`] | the page that goes for a prefetched one | 4.2.2 |
//! | [`glfd`] | the idealized replacement over three levels, with its bound | 4.2.3 |
//!
//! A program of the paper has right hints, and a disk of its own. A node needs more:
//!
//! | module | decision |
//! |---|---|
//! | [`list`] | the next request of a list of hints, and the time for it |
//! | [`sources`] | the number of prefetches that a source of hints may cost; mutes |
//! | [`origin_pace`] | the time of a fetch at an origin, and pauses after overload |
//! | [`runs`] | the ranges after those that a client has read |
//! | [`successors`] | the URL that clients ask for after another one |
//! | [`messages`] | requests, acknowledgements and epochs between nodes, as bytes |

pub mod epoch;
pub mod glfd;
pub mod hints;
pub mod list;
pub mod messages;
pub mod origin_pace;
pub mod page_site;
pub mod predicate;
pub mod replicas;
pub mod requests;
pub mod runs;
pub mod sources;
pub mod successors;
pub mod value;
pub mod victim;

pub use epoch::{BufferGroup, Epoch, EpochEnd, NodeReport, coordinator, plan};
pub use hints::{HintMatch, Hints};
pub use list::HintedList;
pub use messages::PrefetchMessage;
pub use origin_pace::OriginPace;
pub use page_site::{FaultStep, PageSite};
pub use predicate::{Forestall, MissingPage, is_due, slack};
pub use replicas::{FileAliases, FileCopy};
pub use requests::{PrefetchQueue, PrefetchRequest, PrefetchRequester};
pub use runs::{RangeRuns, RangesAhead};
pub use sources::{HintSource, SourceAccount, SourceCounts, SourceHold, SourceRules};
pub use successors::Successors;
pub use value::{Stride, Value};
pub use victim::VictimDecision;

/// Cost of a reference in seconds, by the level of the page: F_L, F_G and F_D.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccessTimes {
    local_seconds: f64,
    global_seconds: f64,
    disk_seconds: f64,
}

impl AccessTimes {
    /// Times of the testbed of section 4.4: a page from global memory in 370 µs, from disk in 13
    /// ms. A local hit counts for nothing.
    pub const TESTBED: Self = Self { local_seconds: 0.0, global_seconds: 370e-6, disk_seconds: 13e-3 };

    /// Makes access times.
    ///
    /// # Errors
    /// Unless 0 ≤ F_L < F_G < F_D, all of them finite: without that order there are no three
    /// levels.
    pub fn new(local_seconds: f64, global_seconds: f64, disk_seconds: f64) -> Result<Self, PrefetchError> {
        let is_ordered =
            0.0 <= local_seconds && local_seconds < global_seconds && global_seconds < disk_seconds;
        if !is_ordered || !disk_seconds.is_finite() {
            return Err(PrefetchError::Times { local_seconds, global_seconds, disk_seconds });
        }
        Ok(Self { local_seconds, global_seconds, disk_seconds })
    }

    /// Returns F_L.
    pub fn local_seconds(&self) -> f64 {
        self.local_seconds
    }

    /// Returns F_G.
    pub fn global_seconds(&self) -> f64 {
        self.global_seconds
    }

    /// Returns F_D.
    pub fn disk_seconds(&self) -> f64 {
        self.disk_seconds
    }

    /// Returns the bound of [`glfd`]'s cost as a multiple of the least possible cost: 1 + 3 F_G /
    /// F_D (section 4.2.3).
    pub fn bound(&self) -> f64 {
        1.0 + 3.0 * self.global_seconds / self.disk_seconds
    }
}

/// Reason why a decision is impossible.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum PrefetchError {
    /// The times are not those of three levels.
    Times {
        /// Local time: F_L.
        local_seconds: f64,
        /// Global time: F_G.
        global_seconds: f64,
        /// Disk time: F_D.
        disk_seconds: f64,
    },
    /// A node's load is not from 0 to 1.
    Load {
        /// Node, from 0.
        node: usize,
        /// Value found.
        found: f64,
    },
    /// A reference names a node that does not exist or has no memory.
    Node {
        /// Node, from 0.
        node: usize,
    },
}

impl std::fmt::Display for PrefetchError {
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

impl std::error::Error for PrefetchError {}

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
            assert!(matches!(AccessTimes::new(local, global, disk), Err(PrefetchError::Times { .. })));
        }
    }
}
