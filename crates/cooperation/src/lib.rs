//! Cooperation: joint decisions of caches that act as one, as functions of values.
//!
//! No sockets, no clock, no randomness: ages, loads, times and draws are arguments, so that the
//! live cluster and the lab's simulations call the same code.
//!
//! | module | decision |
//! |---|---|
//! | [`global_memory`] | node with memory for an evicted object |
//! | [`hash`] | home node of a key |
//! | [`distribution`] | back-end that answers a request at a front end |
//! | [`directory`] | probable holders of a key, by digests that nodes exchange |
//! | [`hierarchy`] | parent that a cache asks |
//! | [`ParentRule`] | parents that a node of a live hierarchy asks |
//! | [`View`] | members of a live cluster, and the ordered homes of a key |
//! | [`invalidation`] | purges that a node lacks, and bodies that may be older than a purge |
//! | [`MissSteps`] | next peer to ask for a missing object, or the origin |
//! | [`HomeHistory`] | previous home of a key after a change of the members |
//! | [`PeerHealth`] | time-out for a peer, or whether to leave it out |
//! | [`BoundedLoad`] | number of asks from which a home says that it is busy |
//! | [`Heat`] | objects popular enough for copies, and for how long |
//! | [`prefetch`] | page to fetch early, node that gets it, and page that it replaces |

#![forbid(unsafe_code)]

mod bounded_load;
pub mod directory;
pub mod distribution;
pub mod global_memory;
pub mod hash;
mod heat;
pub mod hierarchy;
mod home_history;
pub mod invalidation;
mod levels;
mod peer_health;
pub mod prefetch;
mod route;
mod steps;
mod view;

pub use bounded_load::{BoundedLoad, LOAD_FACTOR};
pub use heat::{Heat, LEASE_MAX, LEASE_MIN};
pub use home_history::{HomeHistory, PREVIOUS_HOME_ASKED};
pub use levels::{LEVEL_MAX, ParentRule};
pub use peer_health::{PeerAdmission, PeerCounts, PeerHealth, PeerStatus, SkipReason};
pub use route::{NodeId, Route, RouteStep};
pub use steps::{ASK_TIME_MIN, Ask, AskKind, AskResult, HOPS_MAX, Miss, MissSteps, Part, Step};
pub use view::{HOMES_MAX, Homes, Member, MemberState, View};
