//! Next use of each page after every reference: one walk from the end.

use super::Reference;
use std::collections::HashMap;

/// Next uses of a page after a reference to it, as places in the list of references; [`NEVER`] for
/// none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Uses {
    /// Next use by any node.
    pub by_anyone: u64,
    /// Next use by the node of the reference.
    pub by_this: u64,
}

pub(super) const NEVER: u64 = u64::MAX;

/// Returns the next uses after each reference. O(references).
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
