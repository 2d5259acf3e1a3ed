//! The ideal that global memory approaches: one LRU list over all memory, without copies (Feeley et
//! al., SOSP 1995; Voelker 2000, chapter 3). O(log objects) a request.

use super::{FleetRequest, FleetSettings};
use std::collections::{BTreeMap, HashMap};

/// Returns the disk reads of requests after the warm-up, if all memory was one LRU list.
pub fn ideal_disk_reads(requests: &[FleetRequest], settings: &FleetSettings) -> u64 {
    let all = settings.ram_bytes.saturating_mul(settings.nodes as u64);
    let (mut order, mut known) = (BTreeMap::new(), HashMap::new());
    let (mut used, mut reads) = (0_u64, 0);
    for (number, request) in requests.iter().enumerate() {
        let weight = request.bytes.saturating_add(settings.beside_body);
        let before = known.insert(request.object, number);
        let resident: Option<u64> = before.and_then(|before| order.remove(&before)).map(|(_, weight)| weight);
        reads += u64::from(before.is_some() && resident.is_none() && number >= settings.warm_up);
        used -= resident.unwrap_or(0);
        if request.bytes > settings.ram_object_max || weight > all {
            continue;
        }
        used += weight;
        order.insert(number, (request.object, weight));
        while used > all {
            let Some((_, (_, oldest))) = order.pop_first() else { break };
            used -= oldest;
        }
    }
    debug_assert!(used <= all, "memory has a limit");
    reads
}

#[cfg(test)]
mod tests {
    use super::super::{FleetBalance, FleetSettings};
    use super::*;
    use shoal_core::Key;
    use std::time::Duration;

    #[test]
    fn oldest_object_leaves_first() {
        let settings = FleetSettings {
            nodes: 2,
            ram_bytes: 100,
            beside_body: 0,
            ram_object_max: 100,
            warm_up: 1,
            balance: FleetBalance::Fixed(0.5),
            times: None,
            seed: 1,
        };
        let request = |(node, object): (usize, u64)| FleetRequest {
            time: Duration::ZERO,
            node,
            object: Key::unkeyed(&object.to_le_bytes()),
            bytes: if object == 9 { 101 } else { 100 },
        };
        let reads = |asked: &[(usize, u64)]| {
            ideal_disk_reads(&asked.iter().copied().map(request).collect::<Vec<_>>(), &settings)
        };
        assert_eq!(reads(&[(0, 1), (1, 2), (0, 1), (1, 2)]), 0, "both fit, at any node");
        assert_eq!(reads(&[(0, 1), (0, 2), (0, 1), (0, 3), (0, 1), (0, 2)]), 1, "the second one left");
        assert_eq!(reads(&[(0, 9), (0, 9), (0, 9)]), 2, "too large for RAM");
    }
}
