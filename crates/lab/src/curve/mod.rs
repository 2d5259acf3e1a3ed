//! Miss-ratio curves: the hits of a cache of any size, from one pass over a trace.
//!
//! | method | policy | cost a request | where |
//! |---|---|---|---|
//! | exact stack distances | LRU | O(log objects) | [`Shards::exact`] |
//! | sampled stack distances, with an error | LRU | a hash; sampled: O(log objects) | [`Shards`] |
//! | small caches over a sample | any | a hash; sampled: one step a size | [`MiniSimulation`] |
//! | RAM before disk | any, before any disk | as above, for each pair of sizes | [`TwoTiers`] |
//!
//! All of them count requests and bytes. The first two are `shoal_policy::curve`, which a running
//! node uses too.

mod simulated;
#[cfg(test)]
mod tests;
mod tiers;

pub use shoal_policy::curve::{
    Curve, Distance, DistanceHistogram, GROUPS, Point, SampledDistances, Shards, Stack, sizes_between, spread,
};
pub use simulated::MiniSimulation;
pub use tiers::{DiskTier, MakeDisk, TierPoint, TwoTiers, Weights};

use shoal_policy::curve::mixed;
