//! Operating system between calls and disks: the clock, the caches, and the timing of reads and
//! writes.

mod buffers;
mod calls;
mod cleaning;
mod data;
mod folders;
mod inodes;
mod log;
mod lookup;
mod mapped;
mod placement;

pub(super) use inodes::FileId;

use super::cache::{Lru, NameCache, Pages};
use super::disk::{Disk, Nanos, Ticket, Transfer};
use super::ffs::Volume;
use super::machine::{FRAGMENT_BYTES, Machine};
use super::report::{BlockKind, CallTime, CallTimes, DiskReport, Lookups, Report, Traffic};
use buffers::Buffers;
use inodes::InCore;
use log::Log;
use placement::Placement;
use std::collections::BTreeSet;
use std::time::Duration;

/// Modelled machine at work. One caller at a time, as in the paper: "our workload generators
/// process requests sequentially" (section 4).
#[derive(Debug)]
pub(super) struct Kernel {
    machine: Machine,
    now: Nanos,
    next_cleaning: Nanos,
    disks: Vec<Disk>,
    volumes: Vec<Volume>,
    /// Log of each disk, used if metadata is logged.
    logs: Vec<Log>,
    placement: Placement,
    names: NameCache,
    inodes: Lru<FileId, InCore>,
    /// Inodes with changes that the disk has not seen.
    dirty_inodes: BTreeSet<FileId>,
    /// Generation of the last inode that came into memory.
    generation: u64,
    buffers: Buffers,
    pages: Pages,
    counts: KernelCounts,
}

/// Counts of the kernel; the disks have the others.
#[derive(Debug, Default)]
struct KernelCounts {
    disks: Vec<DiskReport>,
    waited: Nanos,
    calls: CallTimes,
    names: Lookups,
    inodes: Lookups,
    metadata: Lookups,
    pages: Lookups,
    mapped_pages: Lookups,
    dirty_victims: u64,
}

impl Kernel {
    pub(super) fn new(machine: Machine) -> Self {
        let memory = machine.memory;
        let models = || machine.disks.iter().map(|place| &place.model);
        Self {
            now: 0,
            next_cleaning: nanos(machine.transfers.cleaning_interval),
            disks: models().map(|model| Disk::new(model.clone())).collect(),
            volumes: models().map(|model| Volume::new(model, &machine.file_system)).collect(),
            logs: models().map(|_| Log::default()).collect(),
            placement: Placement::new(&machine),
            names: NameCache::new(memory.names, memory.name_bytes_max),
            inodes: Lru::new(),
            dirty_inodes: BTreeSet::new(),
            generation: 0,
            buffers: Buffers::new(memory.metadata),
            pages: Pages::new(&memory),
            counts: KernelCounts {
                disks: vec![DiskReport::default(); machine.disks.len()],
                ..KernelCounts::default()
            },
            machine,
        }
    }

    /// Returns the virtual time since the machine was made.
    pub(super) fn now(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    /// Lets time pass, with the cleanings that fall into it.
    pub(super) fn advance(&mut self, duration: Duration) {
        let end = self.now + nanos(duration);
        while self.next_cleaning <= end {
            self.now = self.now.max(self.next_cleaning);
            self.clean_when_due();
        }
        self.now = self.now.max(end);
    }

    /// Returns the bytes that may still be allocated, on all disks.
    pub(super) fn free_bytes(&self) -> u64 {
        let fragments: u64 = self.volumes.iter().map(Volume::available).sum();
        fragments * u64::from(FRAGMENT_BYTES)
    }

    pub(super) fn report(&mut self) -> Report {
        for (disk, counts) in self.disks.iter_mut().zip(&mut self.counts.disks) {
            disk.run_until(self.now);
            let spent = disk.spent();
            counts.overhead = Duration::from_nanos(spent.overhead);
            counts.seek = Duration::from_nanos(spent.seek);
            counts.rotation = Duration::from_nanos(spent.rotation);
            counts.transfer = Duration::from_nanos(spent.transfer);
        }
        let counts = &self.counts;
        Report {
            now: Duration::from_nanos(self.now),
            waited: Duration::from_nanos(counts.waited),
            disks: counts.disks.clone(),
            calls: counts.calls,
            names: counts.names,
            inodes: counts.inodes,
            metadata: counts.metadata,
            pages: counts.pages,
            mapped_pages: counts.mapped_pages,
            dirty_victims: counts.dirty_victims,
        }
    }

    /// Begins a system call.
    fn enter(&mut self) {
        self.spend(self.machine.processor.call);
        self.clean_when_due();
    }

    fn spend(&mut self, duration: Duration) {
        self.now += nanos(duration);
    }

    /// Spends the time of a copy between the kernel and its caller.
    fn spend_copy(&mut self, bytes: usize) {
        self.now += nanos(self.machine.processor.copy_kilobyte) * bytes as u64 / 1024;
    }

    /// Starts a transfer that no call waits for.
    fn start(&mut self, disk: u8, transfer: Transfer) -> Ticket {
        self.spend(self.machine.processor.transfer);
        self.counts.disks[usize::from(disk)].count(transfer.traffic, transfer.bytes);
        self.disks[usize::from(disk)].submit(self.now, transfer)
    }

    /// Does a transfer and waits for its end.
    fn transfer(&mut self, disk: u8, transfer: Transfer) {
        let ticket = self.start(disk, transfer);
        let done = self.disks[usize::from(disk)].finish(transfer.fragment, ticket);
        self.wait_until(done);
    }

    fn wait_until(&mut self, done: Nanos) {
        self.counts.waited += done.saturating_sub(self.now);
        self.now = self.now.max(done);
    }

    fn volume(&mut self, disk: u8) -> &mut Volume {
        &mut self.volumes[usize::from(disk)]
    }
}

/// Returns a sort of traffic.
fn traffic(is_write: bool, is_mapped: bool, kind: BlockKind) -> Traffic {
    Traffic { is_write, is_mapped, kind }
}

fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

/// Makes a call on a kernel, and counts it and its time under a kind if it succeeds.
pub(super) fn timed<T, E>(
    kernel: &mut Kernel,
    kind: fn(&mut CallTimes) -> &mut CallTime,
    call: impl FnOnce(&mut Kernel) -> Result<T, E>,
) -> Result<T, E> {
    let begin = kernel.now;
    let done = call(kernel)?;
    let time = Duration::from_nanos(kernel.now - begin);
    let counted = kind(&mut kernel.counts.calls);
    *counted = counted.and(CallTime { count: 1, time });
    Ok(done)
}
