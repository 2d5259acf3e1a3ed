//! Share of one member: purges that it may send in a burst, and per second after that.

use crate::route::NodeId;
use shoal_core::Timestamp;
use std::collections::BTreeMap;

/// Token buckets, one for each member.
#[derive(Clone, Debug)]
pub struct PurgeShare {
    burst: u64,
    per_second: u64,
    members: BTreeMap<NodeId, Bucket>,
}

/// Purges that a member has left.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    thousandths: u64,
    at: Timestamp,
}

impl PurgeShare {
    /// Creates shares of `burst` purges at once, and `per_second` after that.
    pub fn new(burst: u64, per_second: u64) -> Self {
        Self { burst, per_second, members: BTreeMap::new() }
    }

    /// Takes up to `wanted` purges from the member's share. Returns the number that it may send.
    pub fn take(&mut self, member: NodeId, wanted: u64, now: Timestamp) -> u64 {
        if !self.members.contains_key(&member) && self.members.len() >= MEMBERS_MAX {
            self.members.pop_first();
        }
        let full = self.burst * 1000;
        let bucket = self.members.entry(member).or_insert(Bucket { thousandths: full, at: now });
        let elapsed = u64::try_from(now.since(bucket.at).as_millis()).unwrap_or(u64::MAX);
        let refilled = bucket.thousandths.saturating_add(elapsed.saturating_mul(self.per_second));
        bucket.thousandths = refilled.min(full);
        bucket.at = now;
        let granted = wanted.min(bucket.thousandths / 1000);
        bucket.thousandths -= granted * 1000;
        debug_assert!(granted <= wanted && bucket.thousandths <= full);
        granted
    }
}

/// Most members with a bucket.
const MEMBERS_MAX: usize = 1024;
