//! Systems of cooperative caching in a cluster.

use crate::arrays::{WarmUp, counts, same_length};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use shoal_lab::cluster::{
    Access, ClusterSize, RunPlan, SYSTEMS, SchemeOptions, ServiceTimes, ThroughputResult, named, serve,
    simulate_with,
};

/// Where the requests of a cluster were served.
#[pyclass(frozen, get_all, module = "shoal")]
pub struct ClusterCounts {
    /// Requests that count.
    pub requests: u64,
    /// Served from the node's own memory.
    pub local: u64,
    /// From another node's memory.
    pub remote: u64,
    /// From the server's memory.
    pub server: u64,
    /// From disk.
    pub disk: u64,
    /// Writes that brought nothing in (dodo…).
    pub written_through: u64,
    /// How long a request took on average, in milliseconds.
    pub mean_ms: f64,
    /// What the server did: 1 a message, 2 a block.
    pub server_load: u64,
    /// Blocks sent from one node to another to be kept.
    pub forwarded: u64,
    /// Blocks written to disk.
    pub disk_writes: u64,
    /// Blocks sent to rebuild what a lost node held.
    pub rebuilt: u64,
    /// Changed blocks of which no good copy is left.
    pub lost: u64,
    /// Requests answered a second; none where nobody waits.
    pub throughput: Option<f64>,
    /// From a request's beginning to its answer, in milliseconds; none where nobody waits.
    pub delay_ms: Option<f64>,
    /// Requests that each node answered; empty where nobody waits.
    pub answered: Vec<u64>,
}

#[pymethods]
impl ClusterCounts {
    fn __repr__(&self) -> String {
        let Self { requests, local, remote, server, disk, .. } = self;
        format!(
            "<shoal.ClusterCounts: {requests} requests, {local} local, {remote} remote, {server} server, {disk} disk>"
        )
    }
}

/// Simulates nodes that share their memories, or a front end that hands requests to them. `nodes`
/// says who asks, `objects` for what; both are numbered from 0.
///
/// Systems: direct, greedy, central, hashed, n_chance, weighted_lru, gms, pager, pager_mirroring,
/// pager_parity, pager_parity_logging, dodo, dodo_first_in, wrr, wrr_gms, lb, lb_gc, lard,
/// lard_replicated. `node_frames` is one number for all nodes or one for each; the last `idle`
/// nodes ask for nothing and lend their memory (direct, pager…, dodo…); `coordinated` is the share
/// of a memory that is (central, hashed); `chances` is n and `searched` the oldest blocks that
/// a receiver searches for a duplicate, 0 for all (n_chance); `b` the load balancing rate (gms);
/// `region` the pages of a region (dodo…). `writes` says which requests change what they ask
/// for. With `outstanding` above 0 that many requests are under way at once and wait for processors
/// and disks, and there are throughput and delay. After `lose_after` requests the node `lose` is
/// lost.
#[pyfunction]
#[pyo3(signature = (system, nodes, objects, *, node_frames, server_frames = 0, idle = 0, coordinated = 0.8, chances = 2, searched = 0, b = 0.0, region = 16, seed = 1, warm_up = WarmUp::NONE, writes = None, outstanding = 0, lose = None, lose_after = 0))]
pub fn simulate_cluster(
    py: Python<'_>,
    system: &str,
    nodes: &Bound<'_, PyAny>,
    objects: &Bound<'_, PyAny>,
    node_frames: &Bound<'_, PyAny>,
    server_frames: usize,
    idle: usize,
    coordinated: f64,
    chances: u8,
    searched: usize,
    b: f64,
    region: usize,
    seed: u64,
    warm_up: WarmUp,
    writes: Option<&Bound<'_, PyAny>>,
    outstanding: usize,
    lose: Option<usize>,
    lose_after: u64,
) -> PyResult<ClusterCounts> {
    if !SYSTEMS.iter().any(|(name, _)| *name == system) {
        let known: Vec<&str> = SYSTEMS.iter().map(|(name, _)| *name).collect();
        return Err(PyValueError::new_err(format!(
            "there is no system {system:?}; there are: {}",
            known.join(", ")
        )));
    }
    if outstanding > MOST_OUTSTANDING {
        return Err(PyValueError::new_err(format!(
            "outstanding: at most {MOST_OUTSTANDING} requests are under way"
        )));
    }
    let requests = accesses(nodes, objects, writes)?;
    let size = cluster_size(&requests, node_frames, server_frames, idle)?;
    let options = SchemeOptions { idle, coordinated, chances, searched, b, region, seed };
    let warm_up = warm_up.of(requests.len())? as u64;
    let plan = RunPlan { warm_up, failure: lose.map(|node| (lose_after, node)) };
    let outcome = py.detach(|| {
        let mut system = named(system, &size, &options)?;
        if outstanding == 0 {
            let counts = simulate_with(system.as_mut(), &size, requests, plan);
            return Some(ThroughputResult { counts, ..ThroughputResult::default() });
        }
        let service = ServiceTimes { outstanding, ..ServiceTimes::pai(size.nodes.len()) };
        Some(serve(system.as_mut(), &size, &service, requests, plan))
    });
    outcome
        .map(|outcome| cluster_counts(&outcome, outstanding > 0))
        .ok_or_else(|| PyValueError::new_err("the system is not known"))
}

/// Requests out of arrays of the same length.
fn accesses(
    nodes: &Bound<'_, PyAny>,
    objects: &Bound<'_, PyAny>,
    writes: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Access>> {
    let (nodes, objects) = (counts("nodes", nodes)?, counts("objects", objects)?);
    same_length("nodes", nodes.len(), objects.len())?;
    let writes = writes.map(|writes| counts("writes", writes)).transpose()?;
    if let Some(writes) = &writes {
        same_length("writes", writes.len(), objects.len())?;
    }
    if objects.iter().any(|object| *object >= MOST_OBJECTS) {
        return Err(PyValueError::new_err(format!("objects: there are at most {MOST_OBJECTS}")));
    }
    let is_write = |at: usize| writes.as_ref().is_some_and(|writes| writes[at] != 0);
    let access = |(at, (node, object)): (usize, (&u64, &u64))| Access {
        node: *node as usize,
        object: *object as u32,
        is_write: is_write(at),
    };
    Ok(nodes.iter().zip(&objects).enumerate().map(access).collect())
}

/// As many nodes as ask, and the idle ones, each with as many frames as were given.
fn cluster_size(
    requests: &[Access],
    node_frames: &Bound<'_, PyAny>,
    server: usize,
    idle: usize,
) -> PyResult<ClusterSize> {
    let asking = requests.iter().map(|request| request.node).max().map_or(1, |node| node.saturating_add(1));
    let count = asking.saturating_add(idle);
    let nodes = match node_frames.extract::<usize>() {
        Ok(frames) => vec![frames; count.min(MOST_NODES + 1)],
        Err(_) => counts("node_frames", node_frames)?.into_iter().map(|frames| frames as usize).collect(),
    };
    if nodes.len() != count || count > MOST_NODES || nodes.contains(&0) {
        return Err(PyValueError::new_err(format!(
            "node_frames: {} values for {count} nodes, of which there are at most {MOST_NODES}, each with a frame",
            nodes.len()
        )));
    }
    let objects = requests.iter().map(|request| request.object as usize + 1).max().unwrap_or(0);
    Ok(ClusterSize { nodes, server, objects })
}

fn cluster_counts(outcome: &ThroughputResult, waits: bool) -> ClusterCounts {
    let counts = &outcome.counts;
    ClusterCounts {
        requests: counts.requests,
        local: counts.local,
        remote: counts.remote,
        server: counts.server,
        disk: counts.disk,
        written_through: counts.written_through,
        mean_ms: counts.mean_ms(),
        server_load: counts.server_load,
        forwarded: counts.forwarded,
        disk_writes: counts.disk_writes,
        rebuilt: counts.rebuilt,
        lost: counts.lost,
        throughput: waits.then(|| outcome.throughput()),
        delay_ms: waits.then_some(outcome.delay_ms),
        answered: outcome.nodes.iter().map(|node| node.requests).collect(),
    }
}

const MOST_NODES: usize = 64;
/// Each takes 4 bytes a node.
const MOST_OBJECTS: u64 = 100_000_000;
/// Each takes about a hundred bytes.
const MOST_OUTSTANDING: usize = 100_000;
