//! Caches in levels: a miss goes to the parent, and every cache on the way keeps a copy.
//!
//! Chankhunthod et al., *A hierarchical Internet object cache*, USENIX 1996; the hierarchical
//! scheme of Voelker 2000, section 5.3. Fits where distance grows with the level. The top receives
//! the misses of all others, and is the first to be overloaded. A lookup takes one step a level.

use crate::route::{NodeId, Route};
use shoal_core::Key;
use std::collections::BTreeMap;

/// Parent of each node. At most [`MOST_LEVELS`] levels.
#[derive(Clone, Debug, Default)]
pub struct Hierarchy {
    parents: BTreeMap<NodeId, Option<NodeId>>,
}

/// Reason why a set of parents is no hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HierarchyError {
    /// A parent is no node of the hierarchy.
    UnknownParent {
        /// Missing parent.
        parent: NodeId,
    },
    /// A node's ancestors form a cycle, or more than [`MOST_LEVELS`] levels.
    TooDeep {
        /// Node with these ancestors.
        node: NodeId,
    },
}

impl std::fmt::Display for HierarchyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownParent { parent } => {
                write!(f, "the parent {} is no node of the hierarchy", parent.0)
            }
            Self::TooDeep { node } => {
                write!(
                    f,
                    "the ancestors of node {} go round, or on for more than {MOST_LEVELS} levels",
                    node.0
                )
            }
        }
    }
}

impl std::error::Error for HierarchyError {}

impl Hierarchy {
    /// Makes a hierarchy of nodes with their parents; a node without a parent is a top.
    ///
    /// # Errors
    /// When a parent is missing or ancestors form a cycle.
    pub fn new(parents: impl IntoIterator<Item = (NodeId, Option<NodeId>)>) -> Result<Self, HierarchyError> {
        let hierarchy = Self { parents: parents.into_iter().collect() };
        for (node, parent) in &hierarchy.parents {
            if let Some(parent) = parent.filter(|parent| !hierarchy.parents.contains_key(parent)) {
                return Err(HierarchyError::UnknownParent { parent });
            }
            let ancestors = std::iter::successors(Some(*node), |node| hierarchy.parent(*node));
            if ancestors.take(MOST_LEVELS + 1).count() > MOST_LEVELS {
                return Err(HierarchyError::TooDeep { node: *node });
            }
        }
        Ok(hierarchy)
    }

    /// Returns the parent of a node; `None` for a top and for unknown nodes.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.parents.get(&node).copied().flatten()
    }
}

impl Route for Hierarchy {
    fn path(&self, entry: NodeId, _key: Key, path: &mut Vec<NodeId>) {
        path.clear();
        let entry = Some(entry).filter(|entry| self.parents.contains_key(entry));
        path.extend(std::iter::successors(entry, |node| self.parent(*node)));
    }

    /// Connects the lost node's children to its parent.
    fn lose(&mut self, gone: NodeId) {
        let Some(grandparent) = self.parents.remove(&gone) else { return };
        for parent in self.parents.values_mut().filter(|parent| **parent == Some(gone)) {
            *parent = grandparent;
        }
    }
}

/// Largest number of levels, beyond any real hierarchy.
pub const MOST_LEVELS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::RouteStep;

    const KEY: fn() -> Key = || Key::unkeyed(b"http://a/");

    fn three_levels() -> Hierarchy {
        let parents = [(1, None), (2, Some(1)), (3, Some(1)), (4, Some(2)), (5, Some(3))];
        let nodes = parents.map(|(node, parent): (u64, Option<u64>)| (NodeId(node), parent.map(NodeId)));
        Hierarchy::new(nodes).expect("a hierarchy")
    }

    #[test]
    fn a_miss_goes_up_and_from_the_top_to_the_origin() {
        let hierarchy = three_levels();
        let next = |here| hierarchy.next(NodeId(here), NodeId(4), KEY());
        assert_eq!(next(4), RouteStep::Ask(NodeId(2)));
        assert_eq!(next(2), RouteStep::Ask(NodeId(1)));
        assert_eq!(next(1), RouteStep::Origin);
        assert_eq!(
            hierarchy.next(NodeId(9), NodeId(9), KEY()),
            RouteStep::Origin,
            "a stranger has no parent"
        );
    }

    #[test]
    fn node_off_path_asks_origin() {
        // 4 asked 3 by a membership that 3 does not share. If 3 handed the request to the path's
        // first node, 4, the request would loop.
        let hierarchy = three_levels();
        assert_eq!(hierarchy.next(NodeId(3), NodeId(4), KEY()), RouteStep::Origin);
        assert_eq!(hierarchy.next(NodeId(3), NodeId(3), KEY()), RouteStep::Ask(NodeId(1)));
    }

    #[test]
    fn children_of_a_lost_node_ask_its_parent() {
        let mut hierarchy = three_levels();
        hierarchy.lose(NodeId(2));
        assert_eq!(hierarchy.next(NodeId(4), NodeId(4), KEY()), RouteStep::Ask(NodeId(1)));
        hierarchy.lose(NodeId(1));
        hierarchy.lose(NodeId(1));
        assert_eq!(hierarchy.next(NodeId(4), NodeId(4), KEY()), RouteStep::Origin);
    }

    #[test]
    fn circles_and_strangers_are_refused() {
        let of = |pairs: &[(u64, u64)]| {
            Hierarchy::new(pairs.iter().map(|(node, parent)| (NodeId(*node), Some(NodeId(*parent)))))
        };
        assert!(matches!(of(&[(1, 2), (2, 1)]), Err(HierarchyError::TooDeep { .. })));
        assert!(matches!(of(&[(1, 2)]), Err(HierarchyError::UnknownParent { parent: NodeId(2) })));
        let chain = (0..17).map(|node| (NodeId(node), node.checked_sub(1).map(NodeId)));
        assert!(matches!(Hierarchy::new(chain), Err(HierarchyError::TooDeep { .. })));
    }
}
