//! Systems of cooperative caching in a cluster.

use crate::arrays::{counts, same_length};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use shoal_lab::cluster::{Counts, Size, simulate};
use shoal_lab::sweep::kind::{Options, SYSTEMS};

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
    /// How long a request took on average, in milliseconds.
    pub mean_ms: f64,
    /// What the server did: 1 a message, 2 a block.
    pub server_load: u64,
    /// Blocks sent from one node to another to be kept.
    pub forwarded: u64,
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

/// Simulates workstations that share their memories. `nodes` says who asks, `objects` for what; both are numbered from 0.
///
/// Systems: direct, greedy, central, hashed, n_chance, weighted_lru, gms. `node_frames` is one number for all nodes or one for each; the last `idle` nodes
/// lend their memory (direct); `coordinated` is the share of a memory that is (central, hashed); `chances` is n (n_chance); `b` the load balancing rate (gms).
#[pyfunction]
#[pyo3(signature = (system, nodes, objects, *, node_frames, server_frames = 0, idle = 0, coordinated = 0.8, chances = 2, b = 0.0, seed = 1, warm_up = 0))]
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
    b: f64,
    seed: u64,
    warm_up: u64,
) -> PyResult<ClusterCounts> {
    let Some((_, make)) = SYSTEMS.iter().find(|(name, _)| *name == system) else {
        let known: Vec<&str> = SYSTEMS.iter().map(|(name, _)| *name).collect();
        return Err(PyValueError::new_err(format!(
            "there is no system {system:?}; there are: {}",
            known.join(", ")
        )));
    };
    let (asking, objects) = (counts("nodes", nodes)?, counts("objects", objects)?);
    same_length("nodes", asking.len(), objects.len())?;
    let count = asking.iter().max().map_or(1, |node| node + 1) as usize + idle;
    let frames = match node_frames.extract::<usize>() {
        Ok(frames) => vec![frames; count],
        Err(_) => counts("node_frames", node_frames)?.into_iter().map(|frames| frames as usize).collect(),
    };
    let most = objects.iter().max().map_or(0, |object| object + 1);
    if frames.len() != count || count > MOST_NODES || most > MOST_OBJECTS || frames.contains(&0) {
        let why = format!(
            "node_frames: {} values for {count} nodes, of which there are at most {MOST_NODES}, each with a frame, and at most {MOST_OBJECTS} objects",
            frames.len()
        );
        return Err(PyValueError::new_err(why));
    }
    let size = Size { nodes: frames, server: server_frames, objects: most as usize };
    let options = Options { idle, coordinated, chances, b, seed };
    let requests: Vec<(usize, u32)> =
        asking.iter().zip(&objects).map(|(node, object)| (*node as usize, *object as u32)).collect();
    Ok(py.detach(|| told(&simulate(make(&size, &options).as_mut(), &size, requests, warm_up))))
}

fn told(counts: &Counts) -> ClusterCounts {
    ClusterCounts {
        requests: counts.requests,
        local: counts.local,
        remote: counts.remote,
        server: counts.server,
        disk: counts.disk,
        mean_ms: counts.mean_ms(),
        server_load: counts.server_load,
        forwarded: counts.forwarded,
    }
}

const MOST_NODES: usize = 64;
/// Each takes 4 bytes a node.
const MOST_OBJECTS: u64 = 100_000_000;
