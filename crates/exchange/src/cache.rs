//! The stored responses of the exchange: RAM over disk, purges that hide responses, and current
//! fetches.
//!
//! Lookups ([`super::lookup`]), the plan of storing ([`super::store_plan`]) and invalidation
//! ([`super::invalidate`]) work on it.

use super::flight::Flights;
use super::hybrid_cache::HybridCache;
use super::invalidations::Invalidations;
use super::purge_table::PurgeTable;
use std::sync::Arc;

/// Stored responses, and the fetches that will store more.
pub struct Cache {
    /// RAM over disk.
    pub(super) objects: Arc<HybridCache>,
    /// Times at which tags, hosts, groups and everything were purged.
    pub(super) purge_table: Arc<PurgeTable>,
    /// URLs invalidated during a fetch or read of their objects.
    pub(super) invalidations: Arc<Invalidations>,
    /// Fetches that several requests share.
    pub(super) flights: Arc<Flights>,
}

impl Cache {
    /// Creates a cache over `objects`, without current fetches.
    pub(super) fn new(objects: Arc<HybridCache>, purge_table: Arc<PurgeTable>) -> Arc<Self> {
        Arc::new(Self { objects, purge_table, invalidations: Invalidations::new(), flights: Flights::new() })
    }
}
