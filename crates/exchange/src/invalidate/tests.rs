//! Invalidations over a disk that hangs.

use crate::access_log::AccessLog;
use crate::hybrid_cache::hanging::{World, key, until};
use crate::purge_table::PurgeTable;
use crate::upstream::Upstreams;
use crate::{CacheEngine, CacheEngineParts, ExchangeSettings};
use shoal_core::Timestamp;
use shoal_settings::Settings;
use std::sync::Arc;
use std::time::Duration;

/// An invalidation completes even if its client leaves while the disk is slow.
#[tokio::test]
async fn an_invalidation_goes_on_without_its_client() {
    let world = World::new(1);
    let exchange = exchange(&world);
    let wanted = key(0, 0);
    let left = tokio::time::timeout(
        Duration::from_millis(100),
        exchange.cache.invalidate_apart(vec![wanted.clone()]),
    )
    .await;
    assert!(left.is_err(), "the disk is waited for");
    world.answer();
    until(|| !world.keys.lock().contains(&wanted.hash())).await;
    world.close();
}

/// An invalidated marker led to objects that a later marker of the same number would find again.
#[test]
fn marker_numbers_are_unique() {
    let numbers: std::collections::HashSet<u64> =
        (0..1000).map(|_| crate::store_plan::generation()).collect();
    assert_eq!(numbers.len(), 1000);
}

fn exchange(world: &World) -> Arc<CacheEngine> {
    let (settings, metrics) = (Settings::default(), &world.metrics);
    CacheEngine::new(CacheEngineParts {
        cluster: None,
        neighbours: None,
        challenges: Arc::default(),
        live: ExchangeSettings::new(&settings, &[], 1).expect("the defaults"),
        objects: Arc::clone(&world.objects),
        purge_table: Arc::new(PurgeTable::in_memory(Timestamp::from_seconds(10))),
        upstreams: Arc::new(Upstreams::new(&settings, Arc::clone(metrics)).expect("the defaults")),
        metrics: Arc::clone(metrics),
        log: AccessLog::open(&settings.log, Arc::clone(metrics)).expect("no log"),
    })
}
