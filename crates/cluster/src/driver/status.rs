//! State of the cluster as an operator sees it, and the counters behind it.

use crate::keys::DatagramFault;
use crate::membership::MemberStatus;
use serde::Serialize;
use shoal_cooperation::MemberState;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// State of the cluster as this node sees it.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterStatus {
    /// Name of the cluster.
    pub cluster: String,
    /// Name of this node.
    pub node: String,
    /// Address for peers.
    pub address: SocketAddr,
    /// State of this node.
    pub state: &'static str,
    /// Number of this start.
    pub life: u64,
    /// Number of the key that seals, in hexadecimal; `none` without keys.
    pub key: String,
    /// Fingerprint of the view, in hexadecimal: equal on nodes that agree.
    pub view: String,
    /// Last reason for which this node was refused, while it is alone.
    pub refused: Option<String>,
    /// All nodes that are known.
    pub members: Vec<MemberRow>,
    /// Datagrams.
    pub datagrams: DatagramStatus,
}

/// One node in the status.
#[derive(Clone, Debug, Serialize)]
pub struct MemberRow {
    /// Name of the node.
    pub name: String,
    /// Address for peers.
    pub address: SocketAddr,
    /// State: `joining`, `in`, `draining`, `out`, or `suspect` if it does not answer.
    pub state: &'static str,
    /// Share of the keys, 0 to 1.
    pub share: f64,
    /// Level in a hierarchy.
    pub level: u8,
    /// Number of its start.
    pub life: u64,
    /// Milliseconds since its last message.
    pub last_contact_ms: Option<u64>,
}

/// Counts of datagrams.
#[derive(Clone, Debug, Serialize)]
pub struct DatagramStatus {
    /// Datagrams that were sent.
    pub sent: u64,
    /// Their bytes, seals with them.
    pub sent_bytes: u64,
    /// Datagrams that were opened.
    pub received: u64,
    /// Bytes of all that arrived.
    pub received_bytes: u64,
    /// Datagrams sent a second, lately.
    pub sent_per_second: f64,
    /// Bytes sent a second, lately.
    pub sent_bytes_per_second: f64,
    /// Datagrams that the system did not take.
    pub not_sent: u64,
    /// Nodes that were refused when they asked to join.
    pub joins_refused: u64,
    /// Dropped datagrams by reason.
    pub dropped: BTreeMap<&'static str, u64>,
}

/// Counters of one node.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub sent: AtomicU64,
    pub sent_bytes: AtomicU64,
    pub received: AtomicU64,
    pub received_bytes: AtomicU64,
    pub not_sent: AtomicU64,
    pub joins_refused: AtomicU64,
    /// Messages and bytes a second, times 1,000.
    pub rates: [AtomicU64; 2],
    dropped: [AtomicU64; DatagramFault::ALL.len()],
}

/// Measure of the rates, over some seconds each.
#[derive(Debug)]
pub(super) struct RateMeter {
    since: Duration,
    sent: u64,
    bytes: u64,
}

impl Counters {
    pub(super) fn drop(&self, fault: DatagramFault) {
        self.dropped[fault as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn status(&self) -> DatagramStatus {
        let rate = |at: usize| self.rates[at].load(Relaxed) as f64 / 1000.0;
        let count = |fault: &DatagramFault| (fault.name(), self.dropped[*fault as usize].load(Relaxed));
        DatagramStatus {
            sent: self.sent.load(Relaxed),
            sent_bytes: self.sent_bytes.load(Relaxed),
            received: self.received.load(Relaxed),
            received_bytes: self.received_bytes.load(Relaxed),
            sent_per_second: rate(0),
            sent_bytes_per_second: rate(1),
            not_sent: self.not_sent.load(Relaxed),
            joins_refused: self.joins_refused.load(Relaxed),
            dropped: DatagramFault::ALL.iter().map(count).filter(|(_, count)| *count > 0).collect(),
        }
    }
}

impl RateMeter {
    pub(super) fn new(now: Duration) -> Self {
        Self { since: now, sent: 0, bytes: 0 }
    }

    /// Takes the rates if the last time is long enough ago.
    pub(super) fn measure(&mut self, now: Duration, counters: &Counters) {
        let span = now.saturating_sub(self.since);
        if span < RATE_SPAN {
            return;
        }
        let (sent, bytes) = (counters.sent.load(Relaxed), counters.sent_bytes.load(Relaxed));
        for (at, difference) in [(0, sent - self.sent), (1, bytes - self.bytes)] {
            debug_assert!(!span.is_zero(), "a rate needs a span");
            let rate = difference as f64 * 1000.0 / span.as_secs_f64();
            counters.rates[at].store(rate as u64, Relaxed);
        }
        *self = Self { since: now, sent, bytes };
    }
}

/// Returns the rows of all nodes.
pub(super) fn rows(all: &[MemberStatus]) -> Vec<MemberRow> {
    let is_home = |status: &&MemberStatus| status.member.is_home();
    let sum: f64 = all.iter().filter(is_home).map(|status| status.member.weight).sum();
    let row = |status: &MemberStatus| MemberRow {
        name: status.member.name.to_string(),
        address: status.member.address,
        state: if status.is_suspect { "suspect" } else { state_name(status.member.state) },
        share: if is_home(&status) && sum > 0.0 { status.member.weight / sum } else { 0.0 },
        level: status.member.level,
        life: status.member.life,
        last_contact_ms: status.last_contact.map(|last| last.as_millis() as u64),
    };
    all.iter().map(row).collect()
}

/// Returns the word for a state.
pub(super) fn state_name(state: MemberState) -> &'static str {
    match state {
        MemberState::Joining => "joining",
        MemberState::In => "in",
        MemberState::Draining => "draining",
        MemberState::Out => "out",
    }
}

const RATE_SPAN: Duration = Duration::from_secs(5);
