//! The fetcher asks origins for responses that the cache lacks, and learns from their answers.
//!
//! A fetch ([`super::fetch`]) may be a task of its own or a part of its request. A validation
//! ([`super::renewal`]) is a fetch with a stored response to validate.

use super::abandoned::OrphanFetches;
use super::cache::Cache;
use super::hit_for_miss::HitForMissTable;
use super::moments::Moments;
use crate::metrics::Metrics;
use crate::neighbours::NeighbourCaches;
use crate::upstream::Upstreams;
use std::sync::Arc;

/// Access to origins, with the lessons from their answers.
pub(super) struct Fetcher {
    /// Stored responses.
    pub cache: Arc<Cache>,
    /// Connections to origins.
    pub upstreams: Arc<Upstreams>,
    /// Requests with responses that recently could not be stored.
    pub passes: HitForMissTable,
    /// URLs of origins that asked for a pause.
    pub resting: Moments,
    /// Keys with stored responses that are never fresh.
    pub unshared: Moments,
    /// Keys that a reload has fetched or validated recently.
    pub reloaded: Moments,
    /// Fetches that continue after all their clients have left.
    pub abandoned: Arc<OrphanFetches>,
    /// Neighbours that are asked before the origin.
    pub neighbours: Option<Arc<NeighbourCaches>>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

impl Fetcher {
    /// Creates a fetcher that stores into `cache` and has learnt nothing yet.
    pub fn new(
        cache: Arc<Cache>,
        upstreams: Arc<Upstreams>,
        metrics: Arc<Metrics>,
        neighbours: Option<Arc<NeighbourCaches>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            cache,
            passes: HitForMissTable::default(),
            resting: Moments::default(),
            unshared: Moments::default(),
            reloaded: Moments::default(),
            abandoned: OrphanFetches::new(upstreams.connections_per_origin()),
            upstreams,
            neighbours,
            metrics,
        })
    }
}
