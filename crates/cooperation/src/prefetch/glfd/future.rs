//! When each page is asked for next, for every reference: one walk from the end.

use super::Reference;
use std::collections::HashMap;

/// When a page is asked for after a reference to it, as a place in the list of references;
/// [`NEVER`] for not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Uses {
    /// By any node.
    pub by_anyone: u64,
    /// By the node of the reference.
    pub by_this: u64,
}

pub(super) const NEVER: u64 = u64::MAX;

/// The next uses after each reference. O(references).
pub(super) fn uses(references: &[Reference], nodes: usize) -> Vec<Uses> {
    let mut by_anyone: HashMap<u32, u64> = HashMap::new();
    let mut by_node: Vec<HashMap<u32, u64>> = vec![HashMap::new(); nodes];
    let mut uses = vec![Uses { by_anyone: NEVER, by_this: NEVER }; references.len()];
    for (place, reference) in references.iter().enumerate().rev() {
        let now = place as u64;
        let Reference { node, page } = *reference;
        uses[place].by_anyone = by_anyone.insert(page, now).unwrap_or(NEVER);
        uses[place].by_this = by_node[node].insert(page, now).unwrap_or(NEVER);
    }
    uses
}
