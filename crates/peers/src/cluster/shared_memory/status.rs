//! Shared memory for operators: this node's part, and that of each other node.

use super::ClusterMemory;
use crate::cluster::ClusterHandle;
use serde::Serialize;
use shoal_cooperation::NodeId;
use shoal_cooperation::global_memory::Role;
use std::time::Duration;

/// This node's part in shared memory.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryReport {
    /// `idle`, `local` or `global`.
    pub role: &'static str,
    /// Pages that this node holds for others.
    pub guest_pages: usize,
    /// Their bytes, as charged to the budget of RAM.
    pub guest_bytes: u64,
    /// Pages of this node at others.
    pub placed_pages: usize,
    /// Their bytes.
    pub placed_bytes: u64,
    /// Bytes that this node can give.
    pub spare_bytes: u64,
    /// Age of the memory that this node would give up next, in seconds.
    pub age_seconds: f64,
    /// Load balancing rate in force.
    pub balance: f64,
    /// Mean time of the own disk for an object, in microseconds.
    pub disk_us: Option<f64>,
    /// Each other node.
    pub servers: Vec<MemoryRow>,
}

/// Another node as a server of memory.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MemoryRow {
    /// Name of the node.
    pub name: String,
    /// `on`, or the reason why the node gets no pages.
    pub state: &'static str,
    /// Share of this node's pages that it gets.
    pub share: f64,
    /// Mean time of the node for a page, in microseconds.
    pub page_us: Option<f64>,
    /// Bytes held for the node.
    pub guest_bytes: u64,
    /// Time for which a page keeps the node, as it has told, in microseconds.
    pub service_us: Option<u32>,
    /// Time of all pages that the node returned, in microseconds.
    pub gets_us: u64,
    /// Pages that the node took.
    pub puts: u64,
    /// Pages that it returned.
    pub gets: u64,
    /// Pages that it had given up.
    pub gone: u64,
    /// Gets without an answer.
    pub failed: u64,
    /// Pages that were other ones.
    pub wrong: u64,
    /// Times that it was left out, since the disk was faster.
    pub switched_off: u64,
}

impl ClusterMemory {
    /// Returns the report for operators; `None` if shared memory is off.
    pub fn report(&self, handle: &ClusterHandle) -> Option<MemoryReport> {
        if !self.is_on() {
            return None;
        }
        let own = **self.own.load();
        let (guest_pages, guest_bytes) = self.guests.lock().usage();
        let (placed_pages, placed_bytes) = self.placed.lock().usage();
        let members = handle.members();
        let others = members.view.members().iter().filter(|member| member.id != self.node);
        Some(MemoryReport {
            role: match own.role {
                Role::Idle => "idle",
                Role::Local => "local",
                Role::Global => "global",
            },
            guest_pages,
            guest_bytes,
            placed_pages,
            placed_bytes,
            spare_bytes: own.spare_bytes,
            age_seconds: own.age.as_secs_f64(),
            balance: self.epochs.lock().b(),
            disk_us: self.disk.lock().seconds().map(|seconds| seconds * 1e6),
            servers: others.map(|member| self.row(member.id, &member.name)).collect(),
        })
    }

    /// Returns the ages of the oldest pages of other nodes, at most `most`, the oldest first:
    /// memory that prefetching may take.
    pub fn oldest_ages(&self, most: usize) -> Vec<Duration> {
        self.guests.lock().oldest_ages(self.now(), most)
    }

    fn row(&self, node: NodeId, name: &str) -> MemoryRow {
        let now = self.now();
        let report = self.reports.lock().of(node, now);
        let (share, guest_bytes) = (self.plan.load().share(node), self.guests.lock().bytes_of(node));
        let peers = self.peers.lock();
        let Some(known) = peers.get(&node) else {
            return MemoryRow { name: name.to_owned(), state: "not asked yet", ..MemoryRow::default() };
        };
        let state = match (known.version, known.switch.is_on(now)) {
            (None, _) if known.asked_after > now + Duration::from_secs(5) => "knows no shared memory",
            (None, _) => "off there, or no answer",
            (_, false) => "slower than the disk",
            _ if !known.trust.is_trusted(now) => "forgets most pages",
            _ if report.is_none() => "no answer",
            _ => "on",
        };
        let page_us = known.latency.seconds().map(|seconds| seconds * 1e6);
        let service_us = report.map(|report| report.service_us);
        let name = name.to_owned();
        MemoryRow { name, state, share, page_us, service_us, guest_bytes, ..known.row.clone() }
    }
}
