//! Starts the part of a node in the purges, the digests and the shared memory of its cluster.

use crate::admin::process;
use crate::cluster::ClusterHandle;
use crate::exchange::prefetch::PrefetchService;
use crate::exchange::{CacheEngine, EngineContents, EngineTarget, HitService};
use crate::hybrid_cache::HybridCache;
use shoal_settings::Settings;
use std::io;
use std::sync::Arc;

/// Starts to take part in the purges, digests and memory of the cluster, if there is one. A node
/// that `has_disks` keeps the journal of purges beside its purge table.
pub(super) fn start(
    cluster: Option<&Arc<ClusterHandle>>,
    exchange: &Arc<CacheEngine>,
    (settings, objects, has_disks): (&Settings, &HybridCache, bool),
) -> io::Result<()> {
    let Some(cluster) = cluster else { return Ok(()) };
    let target = Arc::new(EngineTarget(Arc::downgrade(exchange)));
    let journal = has_disks.then(|| settings.store.directory.join(JOURNAL));
    cluster.start_purges(target, journal.as_deref(), exchange.metrics())?;
    if let Some(purges) = cluster.invalidation() {
        purges.set_validate_after(settings.cluster.validate_after);
    }
    cluster.services().add("objects/", Arc::new(HitService(Arc::downgrade(exchange))));
    cluster.services().add("prefetch/", Arc::new(PrefetchService(Arc::downgrade(exchange))));
    let contents = Arc::new(EngineContents(Arc::downgrade(exchange)));
    cluster.start_digests(contents, (settings, exchange.metrics()))?;
    let cpu = Box::new(|| process::usage().0);
    cluster.start_memory(objects, (settings, exchange.metrics(), cpu))
}

/// File of the cluster's purges.
const JOURNAL: &str = "purges.cluster";
