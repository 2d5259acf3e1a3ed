//! The fetcher: asks origins for requests that the cache cannot answer, and remembers what their
//! answers teach about the next request.
//!
//! A fetch ([`super::fetch`]) may be a task of its own or a part of its request. A validation
//! ([`super::renewal`]) is a fetch that brings a stored response along.

use super::abandoned::Abandoned;
use super::cache::Cache;
use super::hit_for_miss::HitForMissTable;
use super::moments::Moments;
use crate::metrics::Metrics;
use crate::upstream::Upstreams;
use std::sync::Arc;

/// The way to origins, with what they have taught.
pub(super) struct Fetcher {
    /// Stored responses.
    pub cache: Arc<Cache>,
    /// Connections to origins.
    pub upstreams: Arc<Upstreams>,
    /// Requests whose responses could not be stored lately.
    pub passes: HitForMissTable,
    /// URLs whose origin asked not to be asked for a while.
    pub resting: Moments,
    /// Keys whose stored responses are not fresh for any time.
    pub unshared: Moments,
    /// Keys that a reload has fetched or validated lately.
    pub reloaded: Moments,
    /// Fetches that go on after all their clients have left.
    pub abandoned: Arc<Abandoned>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

impl Fetcher {
    /// A fetcher that stores into `cache` and has learnt nothing yet.
    pub fn new(cache: Arc<Cache>, upstreams: Arc<Upstreams>, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            cache,
            passes: HitForMissTable::default(),
            resting: Moments::default(),
            unshared: Moments::default(),
            reloaded: Moments::default(),
            abandoned: Abandoned::new(upstreams.connections_per_origin()),
            upstreams,
            metrics,
        })
    }
}
