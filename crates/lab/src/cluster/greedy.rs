//! Greedy forwarding: all memories are one cache, and each client looks after its own.
//!
//! Dahlin et al. 1994, section 2.2; also Franklin, Carey and Livny 1992. The server knows the
//! holders of each block, and passes a request on to one of them. A block may have copies
//! everywhere, and its last copy is evicted like any other.

use super::{Cluster, ClusterScheme, ServedFrom};

/// Greedy forwarding.
#[derive(Default)]
pub struct Greedy;

impl ClusterScheme for Greedy {
    fn name(&self) -> &'static str {
        "greedy forwarding"
    }

    fn request(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> ServedFrom {
        if cluster.touch(node, object) {
            return ServedFrom::Local;
        }
        let served = ask(cluster, node, object);
        if cluster.nodes[node].is_full()
            && let Some(evicted) = cluster.nodes[node].oldest()
        {
            cluster.remove(node, evicted);
        }
        cluster.insert(node, object, cluster.now);
        served
    }
}

/// Asks the server. The server has the block, passes the request on to a holder, or reads the disk.
pub(super) fn ask(cluster: &mut Cluster, node: usize, object: u32) -> ServedFrom {
    match cluster.other_holder(node, object).filter(|_| !cluster.server.has(object)) {
        Some(holder) => cluster.pass_on(holder),
        None => cluster.ask_server(object, 2).0,
    }
}
