//! Counts of the model: transfers by disk, direction and kind, their time, calls, and cache hits.

use std::ops::Sub;
use std::time::Duration;

/// All counts since the machine was made. The difference of two reports covers the time in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Virtual time.
    pub now: Duration,
    /// Time, of `now`, that the caller waited for a disk.
    pub waited: Duration,
    /// Reports of the disks, in the machine's order.
    pub disks: Vec<DiskReport>,
    /// Calls that lead to a file by its name.
    pub calls: CallTimes,
    /// Names looked up in the name cache.
    pub names: Lookups,
    /// Inodes looked up in memory.
    pub inodes: Lookups,
    /// Metadata blocks looked up in their cache.
    pub metadata: Lookups,
    /// Pages of files looked up in memory, for reading or for partial overwriting.
    pub pages: Lookups,
    /// Pages of mapped files looked up in memory. A miss is a page fault.
    pub mapped_pages: Lookups,
    /// Dirty pages that had to be cleaned before reuse.
    pub dirty_victims: u64,
}

/// Calls that lead to a file by its name, with the caller's time in them. Calls that failed are not
/// counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTimes {
    /// Files opened for reading.
    pub opens_to_read: CallTime,
    /// Existing files opened for writing.
    pub opens_to_write: CallTime,
    /// Files made.
    pub creates: CallTime,
    /// Names removed.
    pub unlinks: CallTime,
}

/// Calls of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTime {
    /// Number of calls.
    pub count: u64,
    /// Time from call to return, summed over the calls.
    pub time: Duration,
}

/// Hits and misses of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// Found.
    pub hits: u64,
    /// Not found.
    pub misses: u64,
}

/// Counts of one disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskReport {
    transfers: [TransferCounts; TRAFFICS],
    /// Time for commands.
    pub overhead: Duration,
    /// Time in which the arm moved.
    pub seek: Duration,
    /// Time in which the platter turned to the first sector.
    pub rotation: Duration,
    /// Time in which data moved.
    pub transfer: Duration,
}

/// Transfers of one sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferCounts {
    /// Number of transfers.
    pub count: u64,
    /// Bytes moved.
    pub bytes: u64,
}

/// Sort of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// `true` for a transfer to the disk.
    pub is_write: bool,
    /// `true` for a memory-mapped file, including its indirect blocks.
    pub is_mapped: bool,
    /// Kind of the blocks.
    pub kind: BlockKind,
}

/// Kind of a transfer's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Content of files.
    Data,
    /// Entries of directories.
    Directory,
    /// Inodes.
    Inode,
    /// Addresses of further blocks.
    Indirect,
    /// Free map of a cylinder group.
    Group,
    /// Changes of metadata, in a log.
    Log,
}

impl BlockKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Data, Self::Directory, Self::Inode, Self::Indirect, Self::Group, Self::Log];
}

impl DiskReport {
    /// Returns the transfers of one sort.
    pub fn of(&self, traffic: Traffic) -> TransferCounts {
        self.transfers[traffic.position()]
    }

    /// Returns the sum of the transfers that `choose` accepts.
    pub fn sum(&self, choose: impl Fn(Traffic) -> bool) -> TransferCounts {
        let sorts = Traffic::all().filter(|traffic| choose(*traffic));
        sorts.map(|traffic| self.of(traffic)).fold(TransferCounts::default(), TransferCounts::plus)
    }

    /// Returns the time in which the disk was busy.
    pub fn busy(&self) -> Duration {
        self.overhead + self.seek + self.rotation + self.transfer
    }

    pub(super) fn count(&mut self, traffic: Traffic, bytes: u32) {
        debug_assert!(bytes > 0, "a transfer of nothing");
        let transfers = &mut self.transfers[traffic.position()];
        transfers.count += 1;
        transfers.bytes += u64::from(bytes);
    }

    fn minus(&self, earlier: &Self) -> Self {
        assert!(earlier.busy() <= self.busy(), "the earlier report is of the same disk");
        let mut transfers = self.transfers;
        for (later, earlier) in transfers.iter_mut().zip(earlier.transfers) {
            later.count -= earlier.count;
            later.bytes -= earlier.bytes;
        }
        Self {
            transfers,
            overhead: self.overhead - earlier.overhead,
            seek: self.seek - earlier.seek,
            rotation: self.rotation - earlier.rotation,
            transfer: self.transfer - earlier.transfer,
        }
    }
}

impl Report {
    /// Returns the sum of all disks' transfers that `choose` accepts.
    pub fn sum(&self, choose: impl Fn(Traffic) -> bool) -> TransferCounts {
        self.disks.iter().map(|disk| disk.sum(&choose)).fold(TransferCounts::default(), TransferCounts::plus)
    }

    /// Returns the sum of all transfers.
    pub fn total(&self) -> TransferCounts {
        self.sum(|_| true)
    }

    /// Returns the transfers for files and folders, without the mapped file: the paper's "file
    /// system traffic".
    pub fn file_system(&self) -> TransferCounts {
        self.sum(|traffic| !traffic.is_mapped)
    }

    /// Returns the paper's "memory-mapped file traffic".
    pub fn mapped(&self) -> TransferCounts {
        self.sum(|traffic| traffic.is_mapped)
    }

    /// Returns the time in which the disks were busy, summed over them.
    pub fn busy(&self) -> Duration {
        self.disks.iter().map(DiskReport::busy).sum()
    }
}

impl Sub<&Report> for Report {
    type Output = Report;

    /// Returns the counts since an `earlier` report of the same machine.
    fn sub(self, earlier: &Report) -> Report {
        assert!(
            earlier.now <= self.now,
            "the earlier report is of {:?}, this one of {:?}",
            earlier.now,
            self.now
        );
        assert_eq!(earlier.disks.len(), self.disks.len(), "reports of one machine");
        Report {
            now: self.now - earlier.now,
            waited: self.waited - earlier.waited,
            disks: self.disks.iter().zip(&earlier.disks).map(|(disk, earlier)| disk.minus(earlier)).collect(),
            calls: self.calls.minus(earlier.calls),
            names: self.names.minus(earlier.names),
            inodes: self.inodes.minus(earlier.inodes),
            metadata: self.metadata.minus(earlier.metadata),
            pages: self.pages.minus(earlier.pages),
            mapped_pages: self.mapped_pages.minus(earlier.mapped_pages),
            dirty_victims: self.dirty_victims - earlier.dirty_victims,
        }
    }
}

impl TransferCounts {
    /// Returns the mean size of a transfer in bytes; 0 if there was none.
    pub fn mean_bytes(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.bytes as f64 / self.count as f64 }
    }

    fn plus(self, other: Self) -> Self {
        Self { count: self.count + other.count, bytes: self.bytes + other.bytes }
    }
}

impl CallTimes {
    fn minus(self, earlier: Self) -> Self {
        Self {
            opens_to_read: self.opens_to_read.minus(earlier.opens_to_read),
            opens_to_write: self.opens_to_write.minus(earlier.opens_to_write),
            creates: self.creates.minus(earlier.creates),
            unlinks: self.unlinks.minus(earlier.unlinks),
        }
    }
}

impl CallTime {
    /// Returns the mean time of a call, in seconds; `None` if there was none.
    pub fn mean_seconds(self) -> Option<f64> {
        (self.count > 0).then(|| self.time.as_secs_f64() / self.count as f64)
    }

    /// Returns the calls of both kinds together.
    pub fn and(self, other: Self) -> Self {
        Self { count: self.count + other.count, time: self.time + other.time }
    }

    fn minus(self, earlier: Self) -> Self {
        Self { count: self.count - earlier.count, time: self.time - earlier.time }
    }
}

impl Lookups {
    /// Returns hits over lookups; 0 if there was none.
    pub fn hit_ratio(&self) -> f64 {
        match self.hits + self.misses {
            0 => 0.0,
            all => self.hits as f64 / all as f64,
        }
    }

    pub(super) fn count(&mut self, is_hit: bool) -> bool {
        self.hits += u64::from(is_hit);
        self.misses += u64::from(!is_hit);
        is_hit
    }

    fn minus(self, earlier: Self) -> Self {
        Self { hits: self.hits - earlier.hits, misses: self.misses - earlier.misses }
    }
}

impl Traffic {
    /// Returns every sort of traffic.
    pub fn all() -> impl Iterator<Item = Self> {
        let flags = [(false, false), (false, true), (true, false), (true, true)];
        flags
            .into_iter()
            .flat_map(|(is_write, is_mapped)| BlockKind::ALL.map(|kind| Self { is_write, is_mapped, kind }))
    }

    fn position(self) -> usize {
        (usize::from(self.is_write) * 2 + usize::from(self.is_mapped)) * BlockKind::ALL.len()
            + self.kind as usize
    }
}

const TRAFFICS: usize = 4 * BlockKind::ALL.len();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_are_kept_apart_and_summed() {
        let mut disk = DiskReport::default();
        for (place, traffic) in Traffic::all().enumerate() {
            assert_eq!(traffic.position(), place);
            disk.count(traffic, 1 << place);
        }
        assert_eq!(disk.sum(|_| true), TransferCounts { count: TRAFFICS as u64, bytes: (1 << TRAFFICS) - 1 });
        let writes = disk.sum(|traffic| traffic.is_write);
        assert_eq!((writes.count, writes.bytes), (12, ((1 << 24) - 1) - ((1 << 12) - 1)));
        assert_eq!(TransferCounts { count: 2, bytes: 24 }.mean_bytes(), 12.0);
    }
}
