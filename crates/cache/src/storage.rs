//! Storage for responses, made from the settings: RAM tier, disks, pools for their jobs, the purge
//! table.

use crate::hybrid_cache::{HybridCache, ObjectSizeLimits};
use crate::io_pool::IoPool;
use crate::leaving;
use crate::metadata::ObjectMetadata;
use crate::metrics::Metrics;
use crate::purge_table::PurgeTable;
use crate::room::Neighbours;
use ring::rand::{SecureRandom, SystemRandom};
use shoal_core::{KeySecret, Timestamp};
use shoal_memory::{MemoryBudget, MemoryTier, TierValue};
use shoal_policy::{Admission, ReplacementPolicy};
use shoal_settings::{Disk, Settings};
use shoal_store::StoreView;
use shoal_store::architectures::{PinSettings, SegmentPolicy, SegmentSettings, VolumeSettings, secret_of};
use shoal_store::disks::{DiskOpener, DiskSpec, Disks};
use shoal_store::fs::{CallTally, MappedAccess, private};
use shoal_store::patience::{all_within, within};
use shoal_store::{Error, OpenOptions, Store};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use shoal_memory::return_freed_bytes;

/// All storage for responses.
pub struct StorageStack {
    /// RAM and disks as the exchange sees them.
    pub objects: Arc<HybridCache>,
    /// The disks as an operator sees them; `None` if none are configured.
    pub disks: Option<Arc<Disks>>,
    /// Table of purges and their times.
    pub purge_table: Arc<PurgeTable>,
    /// Calls to each disk, in the order of the disks.
    pub calls: Vec<Arc<CallTally>>,
}

/// Failure to set up the storage of the settings.
#[derive(Debug)]
pub enum StorageError {
    /// The system gives no threads, or no random bytes.
    Threads(std::io::Error),
    /// No disk is usable, but one is required; one reason per disk.
    NoDisk(Vec<String>),
}

impl StorageStack {
    /// Creates or opens all storage. Unusable disks are logged. Without any disk, RAM serves alone
    /// until one can be opened, unless a disk is required. Waits for disks for at most `patience`.
    pub fn open_within(
        patience: Duration,
        settings: &Settings,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, StorageError> {
        return_freed_bytes();
        install_secret(&settings.store).map_err(StorageError::Threads)?;
        let windows = windows_bytes(settings);
        let calls: Vec<Arc<CallTally>> = settings.store.all_disks().iter().map(|_| Arc::default()).collect();
        let disks = open_disks(patience, settings, windows, &calls);
        if let Some(disks) = disks.as_ref().filter(|disks| !disks.is_in_service()) {
            if settings.store.is_required() {
                return Err(StorageError::NoDisk(disks.states().into_iter().map(|disk| disk.why).collect()));
            }
            tracing::error!("no disk can be used: RAM serves alone until one can be opened");
        }
        Self::over(settings, metrics, windows, (disks, calls)).map_err(StorageError::Threads)
    }

    /// Builds the remaining storage over these disks.
    fn over(
        settings: &Settings,
        metrics: &Arc<Metrics>,
        windows: u64,
        (disks, calls): (Option<Arc<Disks>>, Vec<Arc<CallTally>>),
    ) -> std::io::Result<Self> {
        let store = &settings.store;
        // Neighbourhoods of objects that were read are in RAM too.
        let ledger = MemoryBudget::new(settings.cache.ram.0);
        let reserved = ledger.try_reserve(windows);
        let account = Arc::clone(&ledger);
        let shards = memory_shards(settings.cache.ram.0);
        let memory = match ReplacementPolicy::named(&settings.cache.ram_policy) {
            Some(policy) => MemoryTier::with_policy(account, shards, policy.construct),
            // The settings accept no other name.
            None => MemoryTier::new(account, shards),
        };
        let pool = |_| Ok(Arc::new(IoPool::new(store.io_threads, store.io_queue)?));
        let count = disks.as_ref().map_or(1, |disks| disks.states().len().max(1));
        let pools = (0..count).map(pool).collect::<std::io::Result<_>>()?;
        let purge_table = match &disks {
            Some(disks) if disks.is_in_service() || !store.disks.is_empty() => purges(&store.directory),
            // The one disk holds the purge table, and may belong to another process. Bringing the
            // disk into service attaches the table.
            Some(disks) => lost_purges(disks),
            None => Arc::new(PurgeTable::in_memory(now())),
        };
        let limits = ObjectSizeLimits {
            memory_object_max: settings.cache.ram_object_max.0,
            disk_object_max: store.object_max.0,
        };
        let disk = disks.as_ref().map(|disks| Arc::clone(disks) as Arc<dyn Store>);
        start_memory_trimmer(&memory)?;
        let objects = HybridCache::new((memory, ledger, reserved), disk, pools, Arc::clone(metrics), limits);
        Ok(Self { objects: Arc::new(objects), disks, purge_table, calls })
    }
}

/// Installs the key secret of the first disk that has one, so that stored objects are found again.
/// Otherwise creates a new secret, which new disks adopt. A disk with another secret uses its own,
/// at the cost of one more hash.
fn install_secret(store: &shoal_settings::Store) -> std::io::Result<()> {
    let read = |disk: Disk| move || secret_of(&disk.path);
    let stored = all_within(SECRET_PATIENCE, "shoal-open", store.all_disks().into_iter().map(read).collect());
    let stored = stored.into_iter().flatten().flatten().next();
    let secret = match stored {
        Some(secret) => secret,
        None => {
            let mut random = [0; 16];
            let drawn = SystemRandom::new().fill(&mut random);
            drawn.map_err(|_| std::io::Error::other("the system gives no random bytes"))?;
            KeySecret::new(random)
        }
    };
    secret.install();
    Ok(())
}

/// Starts a thread that returns free memory of the allocator, and once the program's pages that the
/// start alone needed. The thread also removes entries of memory that is no longer held. The thread
/// ends with the memory tier.
fn start_memory_trimmer<V: TierValue>(memory: &Arc<MemoryTier<V>>) -> std::io::Result<()> {
    let memory = Arc::downgrade(memory);
    let work = move || {
        for round in 0_u64.. {
            let Some(memory) = memory.upgrade() else { return };
            memory.sweep();
            drop(memory);
            shoal_memory::return_free_pages();
            if round == STARTED_ROUNDS {
                shoal_memory::return_program_pages();
            }
            std::thread::sleep(TIDY_EVERY);
        }
    };
    std::thread::Builder::new().name("shoal-memory".into()).spawn(work).map(drop)
}

/// Returns the purge table that outlives the process, if its file can be read. While the file
/// cannot be read, the node serves nothing stored earlier: any of it may have been purged.
fn purges(directory: &Path) -> Arc<PurgeTable> {
    let purge_table = Arc::new(PurgeTable::in_memory(now()));
    let (taken_up, folder) = (Arc::clone(&purge_table), directory.to_owned());
    let outcome = within(PURGES_PATIENCE, "shoal-purges", move || attach_purge_table(&taken_up, &folder));
    let why = match outcome {
        Some(Ok(())) => return purge_table,
        Some(Err(error)) => error.to_string(),
        None => "its disk does not answer".into(),
    };
    tracing::error!(
        why,
        "what was purged cannot be read in store.directory: until it can, nothing that was stored before is served"
    );
    purge_table.detach_file(&why);
    purge_table
}

/// Returns a purge table for the time in which its only disk is unusable.
fn lost_purges(disks: &Disks) -> Arc<PurgeTable> {
    let purge_table = Arc::new(PurgeTable::in_memory(now()));
    let why = disks.states().into_iter().next().map(|disk| disk.why);
    purge_table.detach_file(&why.unwrap_or_else(|| "its disk is out of service".into()));
    purge_table
}

/// Adds the purges from the file in the store's folder, and writes new purges there from now on.
pub fn attach_purge_table(purge_table: &PurgeTable, directory: &Path) -> std::io::Result<()> {
    private::folder(directory)?;
    purge_table.attach_file(&directory.join(PURGES))
}

fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}

/// Returns the bytes of RAM for the neighbourhoods of objects read from volumes.
pub fn windows_bytes(settings: &Settings) -> u64 {
    let store = &settings.store;
    if store.architecture != VOLUME || store.all_disks().is_empty() {
        return 0;
    }
    settings.cache.ram.0 * store.neighbourhood_percent / 100
}

/// Opens all usable disks. Each has its share of RAM for windows.
fn open_disks(
    patience: Duration,
    settings: &Settings,
    window_bytes: u64,
    calls: &[Arc<CallTally>],
) -> Option<Arc<Disks>> {
    let store = &settings.store;
    let disks = store.all_disks();
    if disks.is_empty() {
        return None;
    }
    let neighbours = Arc::new(Neighbours::new(disks.clone()));
    let with_opener = |(at, disk): (usize, Disk)| {
        let windows = windows_of(store, &disk, window_bytes);
        let tally = calls.get(at).map(Arc::clone);
        opener(store, &disk, (windows, tally), (Arc::clone(&neighbours), at))
    };
    let named = disks.into_iter().enumerate().map(with_opener);
    // Disks that were on their way out when the process before ended. A folder that does not
    // answer has none.
    let folder = store.directory.clone();
    let left = within(PURGES_PATIENCE, "shoal-leaving", move || leaving::read(&folder));
    let left = left.unwrap_or_default().into_iter();
    let left = left.filter(|left| store.all_disks().iter().all(|disk| disk.path != left.path));
    let left = left.map(|disk| opener_of(store, &disk, 0));
    Some(Arc::new(Disks::open_within(patience, named.chain(left))))
}

/// Returns a disk's share of the RAM for windows, by its bytes.
pub fn windows_of(store: &shoal_settings::Store, disk: &Disk, window_bytes: u64) -> u64 {
    let all_bytes: u128 = store.all_disks().iter().map(|disk| u128::from(disk.bytes.0)).sum();
    let windows = u128::from(window_bytes) * u128::from(disk.bytes.0) / all_bytes.max(1);
    let windows = u64::try_from(windows).unwrap_or(window_bytes).min(window_bytes);
    assert!(windows <= window_bytes, "more than all windows have");
    windows
}

/// Returns a disk and its opener, for a disk that changes while others serve.
pub fn opener_of(store: &shoal_settings::Store, disk: &Disk, windows: u64) -> (DiskSpec, DiskOpener) {
    opener(store, disk, (windows, None), (Arc::new(Neighbours::new(vec![disk.clone()])), 0))
}

fn opener(
    store: &shoal_settings::Store,
    disk: &Disk,
    (windows, tally): (u64, Option<Arc<CallTally>>),
    (neighbours, at): (Arc<Neighbours>, usize),
) -> (DiskSpec, DiskOpener) {
    let options = OpenOptions { tally, ..options(store, disk, windows) };
    let share = DiskSpec { path: disk.path.to_string_lossy().into_owned(), bytes: disk.bytes.0 };
    let is_named = store.names_a_disk();
    let opener: DiskOpener = Arc::new(move || {
        if is_named {
            neighbours.check(at).map_err(Error::Unusable)?;
        }
        log_new_store(&options.directory);
        shoal_store::open(&OpenOptions { now: now(), ..options.clone() })
    });
    (share, opener)
}

/// Logs that a new store is about to be made. If the operator expected an existing store, a mount
/// is missing or the path is wrong.
fn log_new_store(folder: &Path) {
    let is_other = std::fs::metadata(folder).is_ok_and(|found| !found.is_dir());
    let has_store = ["architecture", "index"].iter().any(|name| folder.join(name).exists());
    if !is_other && !has_store {
        tracing::info!(disk = %folder.display(), "there is no store yet: a new one is made");
    }
}

/// Returns the options for opening a disk's store.
fn options(store: &shoal_settings::Store, disk: &Disk, window_bytes: u64) -> OpenOptions {
    let has_purges = disk.path == store.directory;
    OpenOptions {
        directory: disk.path.clone(),
        disk_bytes: disk.bytes.0.saturating_sub(if has_purges { PurgeTable::BYTES } else { 0 }),
        max_objects: store.max_objects,
        object_max_bytes: store.object_max.0,
        files_per_folder: store.files_per_folder,
        replacement: store.replacement.clone(),
        segments: segments(store),
        volume: VolumeSettings {
            stripe_bytes: store.stripe.0,
            window_bytes,
            admission: match store.admission {
                shoal_settings::Admission::Probation => Admission::Probation,
                shoal_settings::Admission::Always => Admission::Always,
            },
            pins: PinSettings { bytes_max: store.pin_max_of(disk).0, is_pinned: ObjectMetadata::is_pinned },
        },
        architecture: store.architecture.clone(),
        tally: None,
        now: Timestamp::from_millis(0),
    }
}

/// Returns the number of shards of the RAM tier, a power of two. Each shard replaces by itself, so
/// a shard must hold enough objects to tell good ones from others. With 64 KiB a shard, S3-FIFO
/// hits up to ten points less.
fn memory_shards(ram_bytes: u64) -> usize {
    let shards = (ram_bytes / MEMORY_SHARD_BYTES).clamp(1, MEMORY_SHARDS_MAX);
    1 << shards.ilog2()
}

fn segments(store: &shoal_settings::Store) -> SegmentSettings {
    use shoal_settings::SegmentAccess as Named;
    let access = match store.segment_access {
        Named::Pread => MappedAccess::Calls,
        Named::Mmap => MappedAccess::Memory,
        Named::MmapRandom => MappedAccess::RandomMemory,
    };
    SegmentSettings { bytes: store.segments.0, policy: segment_policy(store), access }
}

fn segment_policy(store: &shoal_settings::Store) -> SegmentPolicy {
    use shoal_settings::SegmentPolicy as Named;
    let (c_max, a_max) = (store.fbc_c_max, store.fbc_a_max);
    match store.segment_policy {
        Named::Fbc => SegmentPolicy::Fbc { c_max, a_max },
        Named::FbcResident => SegmentPolicy::FbcResident { c_max, a_max },
        Named::Lru => SegmentPolicy::Lru,
        Named::LruResident => SegmentPolicy::LruResident,
    }
}

/// Maximum shards of the RAM tier: several per core on any machine that runs this.
const MEMORY_SHARDS_MAX: u64 = 64;
/// Minimum bytes of one shard of the RAM tier.
const MEMORY_SHARD_BYTES: u64 = 4 << 20;

/// Interval at which free pages and unheld entries are returned.
const TIDY_EVERY: Duration = Duration::from_secs(1);

/// Rounds of tidying after which a start is over.
const STARTED_ROUNDS: u64 = 2;

/// Longest wait of the start for the secrets of all disks.
const SECRET_PATIENCE: Duration = Duration::from_millis(500);
/// Longest wait of the start for opening all disks.
pub const OPEN_PATIENCE: Duration = Duration::from_millis(1500);
/// Longest wait of the start for the purge table.
const PURGES_PATIENCE: Duration = Duration::from_millis(500);
/// File of the purge table, beside the store's own files.
const PURGES: &str = "purges";

/// Architecture that reads neighbourhoods.
const VOLUME: &str = "volume";

#[cfg(test)]
mod tests {
    #[test]
    fn small_tiers_have_few_shards() {
        let shards = [1, 4, 7, 8, 40, 256, 1 << 14].map(|mebibytes| super::memory_shards(mebibytes << 20));
        assert_eq!(shards, [1, 1, 1, 2, 8, 64, 64]);
    }
}
