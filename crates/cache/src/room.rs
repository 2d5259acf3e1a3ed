//! Checks before a store is opened that its disk has the room that the settings give it.

use crate::purge_table::PurgeTable;
use parking_lot::{Condvar, Mutex};
use shoal_core::ByteCount;
use shoal_settings::{Disk, Settings, Store};
use shoal_store::fs::OsBlockDevice;
use shoal_store::fs::capacity::Capacity;
use shoal_store::inspect::volume_size;
use shoal_store::patience::all_within;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Disks that are opened in parallel, each on its own thread. No thread accesses another's disk,
/// since that disk may not answer.
pub struct Neighbours {
    disks: Vec<Disk>,
    /// Claims of the disks that have answered.
    claims: Mutex<Vec<Option<Claim>>>,
    changed: Condvar,
}

/// Bytes that a disk's store will still take of a file system. A block device has no file system
/// number, since no other store shares it.
#[derive(Clone, Copy)]
struct Claim {
    file_system: Option<u64>,
    bytes: u64,
}

impl Neighbours {
    /// Creates the check of these disks, without a claim.
    pub fn new(disks: Vec<Disk>) -> Self {
        let claims = Mutex::new(vec![None; disks.len()]);
        Self { disks, claims, changed: Condvar::new() }
    }

    /// Refuses the disk at index `at` if it has less room than the settings give it. Space that
    /// earlier disks on the same file system have yet to take is not free. An earlier disk that has
    /// not answered in time is not counted.
    pub fn check(&self, at: usize) -> Result<(), String> {
        let disk = &self.disks[at];
        let mine = file_system(&disk.path);
        let capacity = capacity(disk)?;
        let mut claims = self.claims.lock();
        let bytes = disk.bytes.0.saturating_sub(capacity.held_bytes);
        claims[at] = Some(Claim { file_system: mine, bytes });
        self.changed.notify_all();
        let is_waiting = |claims: &mut Vec<Option<Claim>>| claims[..at].iter().any(Option::is_none);
        self.changed.wait_while_for(&mut claims, is_waiting, NEIGHBOUR_PATIENCE);
        let shared =
            claims[..at].iter().flatten().filter(|claim| mine.is_some() && claim.file_system == mine);
        let promised: u64 = shared.map(|claim| claim.bytes).sum();
        let most = capacity.most_bytes.saturating_sub(promised);
        match disk.bytes.0 <= most {
            true => Ok(()),
            false => Err(refusal(disk, most, promised, &capacity)),
        }
    }
}

fn capacity(disk: &Disk) -> Result<Capacity, String> {
    if is_lost_in_devices(&disk.path) {
        return Err(format!("{}: there is no such device", disk.path.display()));
    }
    Capacity::at(&disk.path)
        .map_err(|error| format!("could not ask for the space at {}: {error}", disk.path.display()))
}

/// Gives a store of open size the size that its file system suggests: half of
/// the free space for a new store, its own for one that is there. Returns the size if this function
/// chose it.
pub fn settle_size(settings: &mut Settings) -> Option<ByteCount> {
    let store = &mut settings.store;
    let is_open = store.disks.is_empty() && store.disk == Store::default().disk;
    if !is_open || store.directory.as_os_str().is_empty() || OsBlockDevice::is_one(&store.directory) {
        return None;
    }
    let bytes = ByteCount(suggested(&store.directory)?);
    let was_named = store.names_a_disk();
    store.disk = bytes;
    store.object_max = store.object_max.min(bytes);
    // A size of ours does not make the disk one that the operator asked for.
    if !was_named {
        store.required = Some(false);
    }
    Some(bytes)
}

fn suggested(directory: &Path) -> Option<u64> {
    if let Some(bytes) = volume_size(directory) {
        return Some(bytes + PurgeTable::BYTES);
    }
    let capacity = Capacity::at(directory).ok().filter(|capacity| capacity.held_bytes == 0)?;
    half_of(capacity.free_bytes)
}

/// Returns half of the free bytes, in whole gigabytes and within the limit of a volume; `None` if
/// that is too little for a choice.
fn half_of(free_bytes: u64) -> Option<u64> {
    const GIGABYTE: u64 = 1_000_000_000;
    let gigabytes = (free_bytes / 2).min(SUGGESTED_MAX) / GIGABYTE;
    debug_assert!(gigabytes * GIGABYTE <= free_bytes / 2);
    (gigabytes > 0).then_some(gigabytes * GIGABYTE)
}

/// Returns the disks of the settings that do not fit or do not answer in time, each with its index.
/// Only disks that an operator named are judged.
pub fn misfits(settings: &Settings) -> Vec<(usize, String)> {
    if !settings.store.names_a_disk() {
        return Vec::new();
    }
    let neighbours = Arc::new(Neighbours::new(settings.store.all_disks()));
    let check = |at: usize| {
        let neighbours = Arc::clone(&neighbours);
        move || neighbours.check(at)
    };
    let checked = all_within(PATIENCE, "room", (0..neighbours.disks.len()).map(check).collect());
    let misfit = |(at, checked): (usize, Option<Result<(), String>>)| {
        let silent = || Err(format!("{} does not answer", neighbours.disks[at].path.display()));
        checked.unwrap_or_else(silent).err().map(|why| (at, why))
    };
    checked.into_iter().enumerate().filter_map(misfit).collect()
}

fn refusal(disk: &Disk, most: u64, promised: u64, capacity: &Capacity) -> String {
    let (path, wanted) = (disk.path.display(), disk.bytes);
    let number = |bytes: u64| ByteCount(bytes).to_string();
    let others = match promised {
        0 => String::new(),
        promised => format!(", {} of it for the disks before it", number(promised)),
    };
    format!(
        "{path} has no room for {wanted}: {} are free{others}, and the store holds {}; at most {} fit: give it that \
         (--disk, store.disk, bytes in store.disks), or free some",
        number(capacity.free_bytes),
        number(capacity.held_bytes),
        rounded(most),
    )
}

/// Rounds down to whole megabytes if there are any, so that the number is easy to type.
fn rounded(bytes: u64) -> ByteCount {
    const MEGABYTE: u64 = 1_000_000;
    if bytes < MEGABYTE { ByteCount(bytes) } else { ByteCount(bytes / MEGABYTE * MEGABYTE) }
}

/// Returns the file system of the path, even for a future file. Returns `None` for a block device,
/// which no other store shares.
fn file_system(path: &Path) -> Option<u64> {
    let path = std::path::absolute(path).ok()?;
    let found = path.ancestors().find_map(|ancestor| fs::metadata(ancestor).ok())?;
    (found.is_dir() || found.is_file()).then(|| found.dev())
}

/// Returns `true` for a mistyped device, which would become a folder in memory.
fn is_lost_in_devices(path: &Path) -> bool {
    path.starts_with("/dev") && !path.starts_with("/dev/shm") && !path.exists()
}

/// Largest size that is chosen without an operator: the index of a larger one takes RAM that should
/// be asked for.
const SUGGESTED_MAX: u64 = 100_000_000_000;

/// Longest wait for all disks when the caller only checks.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest wait of a disk for the claims of the disks before it.
const NEIGHBOUR_PATIENCE: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(path: &Path, bytes: u64) -> Disk {
        Disk { path: path.to_owned(), bytes: ByteCount(bytes), endurance: None }
    }

    /// Checks the last disk after the disks before it.
    fn check(disk: &Disk, before: &[Disk]) -> Result<(), String> {
        let neighbours = Neighbours::new(before.iter().chain([disk]).cloned().collect());
        (0..before.len()).for_each(|at| drop(neighbours.check(at)));
        neighbours.check(before.len())
    }

    #[test]
    fn oversized_disk_is_refused_with_fitting_size() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let why = check(&disk(&path, 100_000_000_000_000), &[]).expect_err("100 TB");
        let number =
            why.split("at most ").nth(1).and_then(|rest| rest.split(" fit").next()).expect("a number");
        let fits: ByteCount = number.parse().expect("as the settings spell it");
        assert!(fits.0 > 0 && why.contains("100 TB") && why.contains("--disk"), "{why}");
        // Other processes write to the same disk meanwhile.
        assert_eq!(check(&disk(&path, fits.0 / 2), &[]), Ok(()));
    }

    #[test]
    fn disks_of_one_file_system_fit_together() {
        let folder = tempfile::tempdir().expect("a folder");
        let most = Capacity::at(folder.path()).expect("there").most_bytes;
        let disks = ["a", "b"].map(|name| disk(&folder.path().join(name), most / 3 * 2));
        assert_eq!(check(&disks[0], &[]), Ok(()));
        let why = check(&disks[1], &disks[..1]).expect_err("more than there is");
        assert!(why.contains("for the disks before it"), "{why}");
    }

    #[test]
    fn wait_for_silent_disk_is_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        let most = Capacity::at(folder.path()).expect("there").most_bytes;
        let disks = ["a", "b"].map(|name| disk(&folder.path().join(name), most / 3 * 2));
        let neighbours = Neighbours::new(disks.into());
        assert_eq!(neighbours.check(1), Ok(()), "the first has not been heard of");
    }

    #[test]
    fn open_size_follows_from_free_space() {
        let giga = 1_000_000_000;
        for (free, expected) in [
            (0, None),
            (giga, None),
            (2 * giga, Some(giga)),
            (61 * giga + 7, Some(30 * giga)),
            (u64::MAX, Some(100 * giga)),
        ] {
            assert_eq!(half_of(free), expected, "{free}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = Settings::default();
        settings.store.directory = folder.path().join("store");
        settings.store.disk = ByteCount::mib(77);
        assert_eq!(settle_size(&mut settings), None, "the operator has said it");
        settings.store.disk = Store::default().disk;
        let chosen = settle_size(&mut settings);
        assert!(chosen.is_none_or(|bytes| bytes == settings.store.disk && bytes.0 % giga == 0), "{chosen:?}");
    }

    #[test]
    fn a_mistyped_device_is_no_folder() {
        let why = check(&disk(Path::new("/dev/no-such-disk"), 1_000_000), &[]).expect_err("no device");
        assert!(why.contains("there is no such device"), "{why}");
    }
}
