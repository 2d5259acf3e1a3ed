//! Route of a request through the caches: the next node to ask for an object.
//!
//! In a hierarchy, and with homes by hash, a request follows a path that depends on its key and its
//! entry node. Each cache on the path gets the request from the one before, and asks the next when
//! it does not hold the object. It keeps a copy of the reply. The last cache asks the origin. Every
//! node computes the same path from the same membership, so that no message carries it.

use shoal_core::Key;

/// Name of a node: the same for all nodes, for as long as the node lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u64);

/// Next step of a node that does not hold an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteStep {
    /// Ask this node, which answers or asks further on behalf of the asking node.
    Ask(NodeId),
    /// Ask the origin.
    Origin,
}

/// Rule that gives every request its path.
pub trait Route {
    /// Writes the path of a request that entered at a node into `path`, which is emptied first. It
    /// names no node twice; it is empty when no cache keeps the object.
    fn path(&self, entry: NodeId, key: Key, path: &mut Vec<NodeId>);

    /// Removes a node that is gone from all paths.
    fn lose(&mut self, gone: NodeId);

    /// Returns a node's next step for a request that entered at `entry` and that the node cannot
    /// answer. If the entry node is not on the path, it hands the request to the first node that
    /// is. Any other node off the path was asked by a node with another membership, and asks the
    /// origin. Nodes with different memberships therefore do not send a request in circles.
    fn next(&self, here: NodeId, entry: NodeId, key: Key) -> RouteStep {
        let mut path = Vec::new();
        self.path(entry, key, &mut path);
        let after = match path.iter().position(|node| *node == here) {
            Some(at) => at + 1,
            None if here == entry => 0,
            None => return RouteStep::Origin,
        };
        path.get(after).map_or(RouteStep::Origin, |node| RouteStep::Ask(*node))
    }
}
