//! Times and limits of the membership.

use super::suspicion::WITNESSES_MAX;
use crate::keys::{DATAGRAM_BYTES_MAX, SEAL_BYTES};
use foca::{Config, PeriodicParams};
use std::num::{NonZeroU8, NonZeroU32, NonZeroUsize};
use std::time::Duration;

/// Returns foca's settings for a number of nodes: those for a local network, with these changes.
pub(super) fn config(nodes: usize) -> Config {
    let count = NonZeroU32::new(nodes as u32).unwrap_or(NonZeroU32::MIN);
    let periodic = |seconds, members| {
        let num_members = NonZeroUsize::new(members).unwrap_or(NonZeroUsize::MIN);
        Some(PeriodicParams { frequency: Duration::from_secs(seconds), num_members })
    };
    Config {
        max_packet_size: NonZeroUsize::new(MESSAGE_BYTES_MAX).unwrap_or(NonZeroUsize::MIN),
        remove_down_after: Some(Duration::from_secs(60 * 60)),
        // Digests find and repair differences for fewer bytes.
        periodic_announce: None,
        max_transmissions: transmissions(nodes),
        // One dead node is asked every two seconds, so that a cut that heals is noticed soon.
        periodic_announce_to_down_members: periodic(2, 1),
        ..Config::new_lan(count)
    }
}

/// Returns how often a node sends each update: half as often again as foca's default.
fn transmissions(nodes: usize) -> NonZeroU8 {
    let count = (nodes as f64 + 1.0).log10() * 6.0;
    NonZeroU8::new(count.clamp(6.0, 60.0) as u8).unwrap_or(NonZeroU8::MIN)
}

/// Returns the shortest wait of a suspicion, and the witnesses that it takes.
pub(super) fn suspicion(nodes: usize) -> (Duration, usize) {
    let logarithm = (nodes as f64).log10().max(1.0);
    (Duration::from_secs(4).mul_f64(logarithm), nodes.saturating_sub(2).min(WITNESSES_MAX))
}

/// Most bytes of a message: a datagram without its seal.
pub(super) const MESSAGE_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - SEAL_BYTES;

/// Most members that are kept, those that left or died within the last hour among them.
pub const MEMBERS_MAX: usize = 10_000;

/// Most members in one message: an identity has 26 bytes at least, and 3 follow.
#[cfg(any(test, debug_assertions))]
pub(super) const PACKET_MEMBERS_MAX: usize = MESSAGE_BYTES_MAX / 29;

/// Largest difference of two nodes' clocks at a join.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(5 * 60);

/// Delay at which this node doubts itself.
pub(super) const LATE: Duration = Duration::from_secs(1);

/// Longest wait before seeds are asked at first, and again when the last member is gone.
pub(super) const FIRST_ASK_JITTER_MS: u64 = 200;

/// Mean wait between two rounds of questions of a node without members; doubles up to 32 s.
pub(super) const ALONE_ASK_MS: u64 = 1_000;
pub(super) const ALONE_DOUBLINGS: u32 = 5;

/// Mean wait between two rounds of questions to seeds that are no members.
pub(super) const STRANGERS_ASK_MS: u64 = 30_000;

/// Mean wait between two digests of a settled cluster, and after a difference.
pub(super) const DIGEST_MS: u64 = 10_000;
pub(super) const UNSETTLED_DIGEST_MS: u64 = 1_000;

/// Shortest time between two exchanges of lists.
pub(super) const SYNC_PAUSE: Duration = Duration::from_millis(500);
