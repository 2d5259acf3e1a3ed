//! Destination of an evicted page: the memory server with the oldest pages, or the one with the
//! least load.
//!
//! The family of replacement algorithms of Voelker, *Cooperative Caching in Local-Area and
//! Wide-Area Networks*, dissertation, University of Washington, 2000, section 3.6. Its notation
//! (Table 3.3), with the code for each symbol:
//!
//! - M_i, G_i: memory of node i; its pages that can be replaced without harm to local jobs.
//!   [`target_weights`] takes G.
//! - w_i: target weight: G_i / ΣG, the share that balances load by memory. [`target_weights`].
//! - a_i: age weight: the share of the globally oldest pages that node i holds. [`AgeWeights`],
//!   [`ReportedAges`].
//! - b: load balancing rate: 0 follows ages alone, as GMS does, 1 weights alone. [`select`],
//!   [`Tuner`].
//! - f_i: selection frequency, b·w_i + (1 − b)·a_i within bounds (Equation 3.1). [`Frequencies`].
//! - T_j, N_g, S: time between global requests of this node; global nodes; service time.
//!   [`RequestRate`].
//! - U*_i, U_e,i: largest utilization of node i by global requests; its unused part.
//!   [`RequestRate::bound`], [`RequestRate::borrowed`].
//!
//! ```text
//!   epoch ──► age weights ─┐
//!   G of servers ─► target ┼─► select ─► frequencies ─► choose(draw) ─► server, or none
//!   U*, U_e, T, N, S ► bounds┘
//! ```
//!
//! A node that runs estimates the symbols itself: [`TierAge`] its age, [`Reports`] those of others
//! and N_g, [`Epochs`] T and b, [`most_for_others`] its U*. A memory server without membership
//! counts N_g by [`AskerCount`] and smooths its U* by [`SpareTime`]. [`PutPlan`] joins them into
//! the decision about a page that leaves RAM, [`PageCosts`] decides about a miss. [`PageRoom`]
//! decides on the memory that a page takes at its server, [`PutReserve`] on that of the pages on
//! their way.
//!
//! GMS finds pages by three directories (Feeley et al. 1995), and replaces them by epochs:
//!
//! | | by name, for any page | in a node that runs |
//! |---|---|---|
//! | page-frame directory | [`FrameKind`] of each frame | [`GuestPages`], and the RAM tier |
//! | page-ownership directory | [`PageOwners`] | the identity: a page is its evictor's |
//! | global-cache directory | [`GlobalCachePart`] of each node | [`PlacedPages`] |
//! | the same, of numbered pages | [`HolderTable`] of all nodes | |
//! | the last two, for private pages | [`PrivatePages`] | [`PlacedPages`] |
//! | ages and epochs | [`ReplacementEpoch`] | [`Reports`], [`Epochs`] |

mod ages;
mod bounds;
mod epochs;
mod estimates;
mod global_cache;
mod guests;
mod holder_table;
mod page_cost;
mod page_frames;
mod page_owners;
mod page_room;
mod placed;
mod put_plan;
mod put_reserve;
mod replacement_epoch;
mod reports;
mod select;
mod tier_age;
mod tuner;

#[cfg(test)]
mod tests;

pub use ages::{AgeGroup, AgeWeights, ReportedAges, age_weights};
pub use bounds::{RequestRate, unused};
pub use epochs::{EPOCH, Epochs};
pub use estimates::{ASKERS_MAX, AskerCount, SpareTime, most_for_others};
pub use global_cache::{GlobalCachePart, HOLDERS_MAX};
pub use guests::{GuestPages, GuestRefusal};
pub use holder_table::HolderTable;
pub use page_cost::{CostMeter, PageCosts, PeerSwitch, SwitchChange, cpu_price};
pub use page_frames::{FrameKind, PagePlace, PrivatePages};
pub use page_owners::{PAGE_BUCKETS, PageOwners};
pub use page_room::{PageRoom, RoomChoice};
pub use placed::{Place, PlacedPages};
pub use put_plan::{OwnRate, PutPlan};
pub use put_reserve::PutReserve;
pub use replacement_epoch::{ReplacementEpoch, epoch_pages};
pub use reports::{REPORT_LIFE, Reports, Role, SERVERS_MAX, ServerReport, spare_bytes};
pub use select::{Frequencies, select};
pub use tier_age::{AGE_MAX, TierAge};
pub use tuner::Tuner;

/// Returns the target weights of servers: each one's share of the pages that can be replaced
/// without harm (section 3.6.1). All zero when there are none.
///
/// O(servers).
pub fn target_weights(replaceable_pages: &[u64]) -> Vec<f64> {
    let sum: f64 = replaceable_pages.iter().map(|pages| *pages as f64).sum();
    let sum = if sum > 0.0 { sum } else { 1.0 };
    replaceable_pages.iter().map(|pages| *pages as f64 / sum).collect()
}

/// Reason why no frequencies can be computed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum FrequencyError {
    /// The lists are not of one length.
    Lengths {
        /// Number of target weights.
        weights: usize,
        /// Number of age weights.
        ages: usize,
        /// Number of bounds.
        bounds: usize,
        /// Number of amounts to borrow.
        borrowing: usize,
    },
    /// A weight or a bound is negative or no number.
    NotAWeight {
        /// Name of the list.
        what: &'static str,
        /// Server, from 0.
        server: usize,
        /// Value found.
        found: f64,
    },
    /// The load balancing rate is not from 0 to 1.
    BalancingRate {
        /// Value found.
        found: f64,
    },
    /// A time or a number of nodes for a rate is zero, negative or no number.
    NoPace {
        /// Name of the quantity.
        what: &'static str,
    },
}

impl std::fmt::Display for FrequencyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lengths { weights, ages, bounds, borrowing } => write!(
                f,
                "{weights} target weights, {ages} age weights, {bounds} bounds and {borrowing} amounts to borrow do not \
                 belong to the same servers"
            ),
            Self::NotAWeight { what, server, found } => {
                write!(
                    f,
                    "the {what} of server {} is {found}, where a number from 0 up is needed",
                    server + 1
                )
            }
            Self::BalancingRate { found } => {
                write!(f, "the load balancing rate is {found}, where one from 0 to 1 is needed")
            }
            Self::NoPace { what } => write!(f, "{what} must be more than zero"),
        }
    }
}

impl std::error::Error for FrequencyError {}
