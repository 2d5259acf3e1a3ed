//! Parts of the modelled machine: every assumption of the model as a documented field.
//!
//! The presets are the two machines of section 4 of Maltzahn, Richardson and Grunwald, "Reducing
//! the Disk I/O of Web Proxy Server Caches" (USENIX 1999). A value that the paper does not give is
//! marked as an assumption. An experiment can vary the value and measure its effect.

use super::disk::DiskModel;
use std::time::Duration;

/// Machine: disks, one file system on each, memory and a processor.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The disks, each with a file system of its own: "UFS cannot span multiple disks so we needed
    /// a separate file system for each disk" (section 4). At least one, at most 256.
    pub disks: Vec<DiskPlace>,
    /// Index in `disks` of the disk for files in the root, such as the memory-mapped file.
    pub mapped_disk: usize,
    /// Level of the folders that are dealt out to the disks, with everything below them. Level 1 is
    /// right below the root.
    pub dealt_level: usize,
    /// Parameters of the file systems.
    pub file_system: FileSystemShape,
    /// Division of memory.
    pub memory: MemorySizes,
    /// Timing and size of transfers to the disk.
    pub transfers: TransferModel,
    /// Processor time of calls.
    pub processor: ProcessorCosts,
}

/// Disk and its purpose.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskPlace {
    /// The mechanism.
    pub model: DiskModel,
    /// Share of the second-level folders, relative to the other disks' shares; 0 holds none.
    pub folder_share: u32,
}

/// Parameters of `newfs`, as 4.4BSD has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemShape {
    /// Bytes of disk for each inode (`newfs -i`; 4096 in Digital UNIX).
    pub bytes_per_inode: u32,
    /// "Cylinder groups which are sets of typically sixteen adjacent cylinders" (2.1).
    pub cylinders_per_group: u32,
    /// Per cent of the space reserved for the superuser (`minfree`).
    pub reserved_percent: u32,
    /// Blocks of one file in a group before the next group is taken (`maxbpg`): the number that one
    /// indirect block addresses.
    pub blocks_per_group_and_file: u32,
    /// Group for a new directory.
    pub directory_preference: DirectoryPreference,
    /// `true` if reading a file marks its inode for writing, as UFS does by default.
    pub access_times: bool,
    /// Metadata on the disk before a call returns.
    pub metadata_writes: MetadataWrites,
}

/// Metadata on the disk before a call returns that makes, removes or renames something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataWrites {
    /// The blocks that changed, in the order that keeps the file system whole: UFS.
    Synchronous,
    /// Nothing: changes go to a log, 8 KB in one write, and cleaning writes the blocks later.
    /// AdvFS, "Digital's Advanced File System", does so; Figure 4 was measured on it. In all else
    /// the file system stays UFS.
    Logged {
        /// Bytes that one change takes in the log. Assumption.
        change_bytes: u32,
    },
}

/// Group for a new directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryPreference {
    /// The group with the fewest directories, among those with an above-average number of free
    /// inodes. Spreads directories over the disk. (McKusick et al., "A Fast File System for UNIX",
    /// TOCS 1984, section 3.)
    FewestDirectories,
    /// The group of the parent directory: the tendency of a later BSD's `dirpref`. For comparison.
    WithParent,
}

/// Division of memory, in bytes.
///
/// Digital UNIX 4.0 keeps file data in a unified buffer cache (UBC), in pages of the virtual memory
/// itself. Metadata of the file system (inodes, directories, cylinder groups, indirect blocks) is
/// in a small buffer cache of fixed size, 3% of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySizes {
    /// Physical memory.
    pub ram: u64,
    /// The kernel and the workload generator's own memory, taken from `ram`. Assumption for the
    /// first machine.
    pub other: u64,
    /// The metadata cache, taken from `ram`.
    pub metadata: u64,
    /// File names remembered. The default of Digital UNIX 4.0 is 2 (148 + 10 maxusers) 11 / 10.
    pub names: usize,
    /// Inodes held in memory, open or not. Assumption: 5% of memory, 640 bytes each.
    pub inodes: usize,
    /// `true` if a lookup that finds nothing is remembered, as in 4.4BSD.
    pub negative_names: bool,
    /// Longest name remembered (`NCHNAMLEN`).
    pub name_bytes_max: usize,
    /// `true` if an inode that leaves memory takes the file's pages along, as a 4.4BSD vnode does.
    pub inodes_take_pages: bool,
    /// Choice of the page reused when memory is full.
    pub replacement: PageReplacement,
}

/// Choice of the page reused when memory is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageReplacement {
    /// Least recently used page.
    Lru,
    /// LRU, but most recently used within long sequences of page faults; see
    /// [`Sequences`](SequenceLimits).
    Seq(SequenceLimits),
}

/// The parameters of SEQ (Glass and Cao, "Adaptive Page Replacement Based on Memory Reference
/// Behavior", SIGMETRICS 1997), in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceLimits {
    /// Least length of a sequence that counts (L).
    pub length_min: u32,
    /// Pages next to a sequence's head that are spared (M).
    pub head_spared: u32,
    /// Position, counted back, of the fault that gives a sequence its time in comparisons (N).
    pub recent_faults: u32,
    /// Most sequences remembered.
    pub sequences_max: usize,
}

impl Default for SequenceLimits {
    fn default() -> Self {
        Self { length_min: 20, head_spared: 20, recent_faults: 5, sequences_max: 200 }
    }
}

/// Timing and size of transfers to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferModel {
    /// "Dirty pages are also cleaned periodically, typically every 30 seconds" (3.1).
    pub cleaning_interval: Duration,
    /// Adjacent blocks moved at once (`maxcontig`): 8 of 8 KB are 64 KB.
    pub cluster_blocks: u32,
    /// `true` if the last, fragmented block of a file may join a transfer. In 4.4BSD it may not.
    pub cluster_tails: bool,
    /// `true` if sequential reads of files fetch a doubling number of blocks ahead, up to a
    /// cluster.
    pub read_ahead: bool,
    /// `true` if sequential page faults fetch blocks ahead in the same way.
    pub fault_ahead: bool,
    /// `true` if a never written page of a mapped file is filled with zeros, and not read. "Disk
    /// space of the memory-mapped file is allocated once" (2.4.2): its blocks exist then, and a
    /// fault reads them.
    pub zero_fill: bool,
}

/// Processor time of calls. Assumptions for a 266 MHz Alpha.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorCosts {
    /// Entering and leaving the kernel.
    pub call: Duration,
    /// Resolving one name.
    pub name: Duration,
    /// Searching one block of a directory.
    pub directory_block: Duration,
    /// Finding a page and mapping it.
    pub page: Duration,
    /// Copying one kilobyte.
    pub copy_kilobyte: Duration,
    /// Setting up and ending one transfer.
    pub transfer: Duration,
}

impl Default for ProcessorCosts {
    fn default() -> Self {
        Self {
            call: Duration::from_micros(15),
            name: Duration::from_micros(10),
            directory_block: Duration::from_micros(60),
            page: Duration::from_micros(30),
            copy_kilobyte: Duration::from_micros(10),
            transfer: Duration::from_micros(100),
        }
    }
}

impl Default for FileSystemShape {
    fn default() -> Self {
        Self {
            bytes_per_inode: 4096,
            cylinders_per_group: 16,
            reserved_percent: 10,
            blocks_per_group_and_file: 2048,
            directory_preference: DirectoryPreference::FewestDirectories,
            access_times: true,
            metadata_writes: MetadataWrites::Synchronous,
        }
    }
}

impl Default for TransferModel {
    fn default() -> Self {
        Self {
            cleaning_interval: Duration::from_secs(30),
            cluster_blocks: 8,
            cluster_tails: false,
            read_ahead: true,
            fault_ahead: true,
            zero_fill: false,
        }
    }
}

impl MemorySizes {
    /// Returns Digital UNIX 4.0 with `ram` bytes of memory and the given `maxusers`. `other` bytes
    /// of the memory are not for files.
    pub fn digital_unix(ram: u64, other: u64, maxusers: usize) -> Self {
        Self {
            ram,
            other,
            metadata: ram * 3 / 100,
            names: 2 * (148 + 10 * maxusers) * 11 / 10,
            inodes: (ram / 20 / 640) as usize,
            negative_names: true,
            name_bytes_max: 31,
            inodes_take_pages: true,
            replacement: PageReplacement::Lru,
        }
    }

    /// Returns the number of pages that file data and mapped pages share.
    pub fn shared_pages(&self) -> usize {
        (self.ram.saturating_sub(self.other + self.metadata) / PAGE_BYTES as u64).max(16) as usize
    }
}

impl Machine {
    /// Returns the machine of the infinite cache experiments: 512 MB, folders on one disk of 2 GB
    /// and two of 4 GB, 820 and twice 1638 of 4096.
    pub fn infinite() -> Self {
        let place = |model: DiskModel, folder_share| DiskPlace { model, folder_share };
        Self {
            disks: vec![
                place(DiskModel::rz28(), 820),
                place(DiskModel::rz29(), 1638),
                place(DiskModel::rz29(), 1638),
            ],
            mapped_disk: 0,
            dealt_level: 2,
            file_system: FileSystemShape::default(),
            memory: MemorySizes::digital_unix(512 << 20, 112 << 20, 256),
            transfers: TransferModel::default(),
            processor: ProcessorCosts::default(),
        }
    }

    /// Returns that machine for architectures with a mapped file: 2048 folders on each 4 GB disk,
    /// and "the 2G Byte disk exclusively for the memory-mapped file".
    pub fn infinite_mapped() -> Self {
        let mut machine = Self::infinite();
        for (place, share) in machine.disks.iter_mut().zip([0, 2048, 2048]) {
            place.folder_share = share;
        }
        machine
    }

    /// Returns the machine of the finite cache experiments: 64 MB and one disk of 1.6 GB. 24 MB are
    /// left for the pages of the mapped file of [`FINITE_MAPPED_BYTES`].
    pub fn finite() -> Self {
        let ram: u64 = 64 << 20;
        let metadata = ram * 3 / 100;
        Self {
            disks: vec![DiskPlace { model: DiskModel::rz27(), folder_share: 1 }],
            mapped_disk: 0,
            memory: MemorySizes::digital_unix(ram, ram - metadata - (24 << 20), 32),
            ..Self::infinite()
        }
    }

    /// Returns the machine with `bytes` bytes of memory for files.
    pub fn with_shared_memory(mut self, bytes: u64) -> Self {
        self.memory.ram = self.memory.other + self.memory.metadata + bytes;
        self
    }
}

/// "We set the size of the memory-mapped file to 160M Bytes" (section 4).
pub const FINITE_MAPPED_BYTES: u64 = 160 << 20;
/// Bytes of an Alpha's page, and of a block of the file system.
pub(super) const PAGE_BYTES: usize = 8192;
/// Bytes of a fragment, the least that is allocated.
pub(super) const FRAGMENT_BYTES: u32 = 1024;
/// Fragments of a block.
pub(super) const FRAGMENTS: u32 = PAGE_BYTES as u32 / FRAGMENT_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finite_machine_has_24_mb_for_mapped_file() {
        let memory = Machine::finite().memory;
        assert_eq!(memory.shared_pages() * PAGE_BYTES, 24 << 20);
        assert_eq!(memory.names, 1029);
        assert_eq!(FINITE_MAPPED_BYTES / (24 << 20), 6);
    }

    #[test]
    fn shares_are_those_of_section_4() {
        let shares =
            |machine: Machine| machine.disks.iter().map(|disk| disk.folder_share).collect::<Vec<_>>();
        assert_eq!(shares(Machine::infinite()), [820, 1638, 1638]);
        assert_eq!(shares(Machine::infinite()).iter().sum::<u32>(), 16 * 256);
        assert_eq!(shares(Machine::infinite_mapped()), [0, 2048, 2048]);
    }
}
