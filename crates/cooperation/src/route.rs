//! Whom a node asks next for an object: the way of a request through the caches.
//!
//! In a hierarchy and with homes by hash a request goes along a path that its key and the node
//! where it entered decide. Each cache on the path is asked by the one before, asks the next when
//! it does not hold the object, and keeps a copy of what comes back; the last one asks the origin.
//! Every node computes the same path from the same membership, so that no message tells it.

use shoal_core::Key;

/// A node's name: the same for all nodes, for as long as the node lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u64);

/// What a node that does not hold an object does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteStep {
    /// Ask this node, which answers or goes on in our stead.
    Ask(NodeId),
    /// Ask the origin.
    Origin,
}

/// A rule that gives every request its path.
pub trait Route {
    /// Puts the path of a request that entered at a node into `path`, which is emptied before. It
    /// names no node twice; it is empty when no cache keeps the object.
    fn path(&self, entry: NodeId, key: Key, path: &mut Vec<NodeId>);

    /// A node is gone: paths go round it from now on.
    fn lose(&mut self, gone: NodeId);

    /// What a node does with a request that entered at `entry` and that it cannot answer. Where it
    /// entered at a node that is not on the path, that one hands it to the first that is. Another
    /// node that is not on the path was asked by one that knows other members, and asks the origin:
    /// nodes that have not all heard yet who is gone do not send a request round.
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
