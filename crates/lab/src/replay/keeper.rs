//! Replacement by the driver: any policy over any architecture, as in the paper's generators
//! (Maltzahn 1999, 3.6).
//!
//! The store's own replacement does nothing while this one keeps the objects below the store's
//! limit. The cost is the policy's, plus one array access a hit; 4 bytes an object of the trace.

use shoal_policy::{Handle, Replacement};

/// Keeps the weight of objects below a limit.
pub struct DriverReplacement {
    policy: Box<dyn Replacement<u64>>,
    /// Each object's handle plus one, 0 when it is not in.
    handles: Vec<u32>,
    limit_bytes: u64,
    block_bytes: u64,
}

impl DriverReplacement {
    /// Creates a keeper for object numbers below `objects`, with `limit_bytes` of whole blocks
    /// together.
    pub fn new(
        mut policy: Box<dyn Replacement<u64>>,
        objects: usize,
        limit_bytes: u64,
        block_bytes: u64,
    ) -> Self {
        policy.set_capacity(limit_bytes);
        Self { policy, handles: vec![0; objects], limit_bytes, block_bytes: block_bytes.max(1) }
    }

    /// Returns the policy's name.
    pub fn policy(&self) -> &'static str {
        self.policy.name()
    }

    /// Counts a read of the object.
    pub(super) fn hit(&mut self, object: u32) {
        if let Some(handle) = self.handle(object) {
            self.policy.hit(handle);
        }
    }

    /// Makes room for an object of `bytes` bytes that will be written. Returns the objects that
    /// have to go before. `None` when the object is larger than all the room, and then nothing
    /// changes.
    pub(super) fn insert(&mut self, object: u32, bytes: u64) -> Option<Vec<u32>> {
        let weight = bytes.max(1).div_ceil(self.block_bytes) * self.block_bytes;
        if weight > self.limit_bytes || object as usize >= self.handles.len() {
            self.policy.declined(u64::from(object));
            return None;
        }
        if let Some(handle) = self.handle(object) {
            self.policy.remove(handle);
            self.handles[object as usize] = 0;
        }
        let mut victims = Vec::new();
        while self.policy.weight() + weight > self.limit_bytes {
            let Some(victim) = self.policy.evict() else { break };
            let number = victim.key as u32;
            self.handles[number as usize] = 0;
            victims.push(number);
        }
        let handle = self.policy.insert(u64::from(object), weight);
        self.handles[object as usize] = handle.number() + 1;
        Some(victims)
    }

    fn handle(&self, object: u32) -> Option<Handle> {
        let stored = self.handles.get(object as usize)?;
        stored.checked_sub(1).map(Handle::from_number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_policy::ReplacementPolicy;

    #[test]
    fn kept_objects_stay_below_the_limit() {
        for policy in ReplacementPolicy::<u64>::ALL {
            let mut keeper = DriverReplacement::new((policy.construct)(), 100, 40 * 4096, 4096);
            let mut held = [0u64; 100];
            for step in 0..5000u64 {
                let object = (step * step % 101 % 100) as u32;
                let bytes = (step % 7) * 1500;
                if step % 3 == 0 {
                    keeper.hit(object);
                    continue;
                }
                let victims = keeper.insert(object, bytes).expect("it fits");
                for victim in victims {
                    assert!(std::mem::take(&mut held[victim as usize]) > 0, "{}", policy.name);
                }
                held[object as usize] = bytes.max(1).div_ceil(4096) * 4096;
                assert!(held.iter().sum::<u64>() <= 40 * 4096, "{}", policy.name);
                assert_eq!(keeper.policy.weight(), held.iter().sum::<u64>(), "{}", policy.name);
            }
            assert_eq!(keeper.insert(1, 41 * 4096), None);
            assert_eq!(keeper.insert(100, 1), None);
        }
    }
}
