//! A front end that hands requests to back-ends, each with a memory and a disk of its own.
//!
//! Pai et al. 1998; Voelker 2000, section 2.2.3. [`shoal_cooperation::distribution`] selects the
//! back-end. WRR/GMS is weighted round robin over back-ends that share their memories by [`Gms`]. A
//! back-end replaces by LRU, where the paper takes GreedyDual-Size. Objects are of one size here;
//! both policies then differ only in the inflation of GreedyDual-Size's clock.

use super::{Cluster, ClusterScheme, DiskPlacement, Gms, ServedFrom};
use shoal_cooperation::distribution::{
    Distribution, GlobalCache, Lard, LardWithReplication, Locality, RoundRobin, Thresholds,
};

/// A front end with its policy.
pub struct FrontEnd {
    name: &'static str,
    rule: Box<dyn Distribution>,
    /// Sharing of the back-ends' memories, if any.
    shared: Option<Gms>,
}

impl FrontEnd {
    fn of(name: &'static str, rule: impl Distribution + 'static) -> Self {
        Self { name, rule: Box::new(rule), shared: None }
    }

    /// Creates WRR: weighted round robin.
    pub fn wrr() -> Self {
        Self::of("wrr", RoundRobin::default())
    }

    /// Creates WRR/GMS: weighted round robin over back-ends that share their memories. `seed` is
    /// for their random draws.
    pub fn wrr_gms(seed: u64) -> Self {
        Self {
            shared: Some(Gms::new(0.0, seed, DiskPlacement::Own)),
            ..Self::of("wrr/gms", RoundRobin::default())
        }
    }

    /// Creates LB: each object has one back-end.
    pub fn lb() -> Self {
        Self::of("lb", Locality)
    }

    /// Creates LB/GC: a request goes to the back-end that holds the object, or evicts least for it.
    pub fn lb_gc() -> Self {
        Self::of("lb/gc", GlobalCache::default())
    }

    /// Creates LARD, with an assignment for each object.
    pub fn lard(objects: usize) -> Self {
        Self::of("lard", Lard::new(Thresholds::PAI, objects))
    }

    /// Creates LARD/R, with a set for each object that rests for 20 seconds.
    pub fn lard_replicated(objects: usize) -> Self {
        Self::of("lard/r", LardWithReplication::new(Thresholds::PAI, objects, REST_US))
    }
}

impl ClusterScheme for FrontEnd {
    fn name(&self) -> &'static str {
        self.name
    }

    fn answers(&mut self, cluster: &Cluster, _client: usize, object: u32) -> Option<usize> {
        self.rule.choose(u64::from(object), cluster)
    }

    fn request(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> ServedFrom {
        if let Some(gms) = &mut self.shared {
            return gms.request(cluster, node, object);
        }
        if cluster.touch(node, object) {
            return ServedFrom::Local;
        }
        if cluster.nodes[node].is_full()
            && let Some(evicted) = cluster.nodes[node].oldest()
        {
            cluster.remove(node, evicted);
        }
        cluster.insert(node, object, cluster.now);
        ServedFrom::OwnDisk
    }

    fn written(&mut self, cluster: &mut Cluster, node: usize, object: u32) {
        match &mut self.shared {
            Some(gms) => gms.written(cluster, node, object),
            None => cluster.written(node, object),
        }
    }

    fn lost(&mut self, cluster: &mut Cluster, node: usize) {
        if let Some(gms) = &mut self.shared {
            gms.lost(cluster, node);
        }
    }
}

/// K of section 2.5, in microseconds.
const REST_US: u64 = 20_000_000;
