//! Store on the real file system: the folder, the lock, the mapped index, and the space in use.

use super::world::metadata_of;
use super::*;
use crate::{OpenOptions, Store};
use shoal_core::Timestamp;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

fn options(directory: &Path, disk_bytes: u64) -> OpenOptions {
    OpenOptions {
        directory: directory.into(),
        disk_bytes,
        architecture: "squid".into(),
        now: Timestamp::from_seconds(1_000_000),
        ..OpenOptions::default()
    }
}

fn open_once(directory: &Path, disk_bytes: u64) -> Result<Arc<dyn Store>, String> {
    crate::open(&options(directory, disk_bytes)).map_err(|error| error.to_string())
}

/// Opens a store that no other process uses. A process that another test starts inherits this one's
/// descriptors, with the lock, until it executes its own program.
fn open(directory: &Path, disk_bytes: u64) -> Result<Arc<dyn Store>, String> {
    let mut opened = open_once(directory, disk_bytes);
    for _ in 0..1000 {
        match &opened {
            Err(why) if why.contains("in use by another process") => pause(),
            _ => break,
        };
        opened = open_once(directory, disk_bytes);
    }
    opened
}

/// Returns the bytes that `du` reports.
fn bytes_on_disk(path: &Path) -> u64 {
    let own = fs::symlink_metadata(path).map_or(0, |metadata| metadata.blocks() * 512);
    let inside = fs::read_dir(path).into_iter().flatten().flatten();
    own + inside.map(|entry| bytes_on_disk(&entry.path())).sum::<u64>()
}

#[test]
fn a_store_on_disk_is_warm_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 50 << 20).unwrap();
    for n in 0..200 {
        put(&*store, n, n, 20_000).unwrap();
    }
    store.update_metadata(&key(7), b"updated", &|_| true).unwrap();
    store.close().unwrap();
    let usage = store.usage();
    drop(store);
    let store = open(folder.path(), 50 << 20).unwrap();
    assert_eq!(store.usage(), usage);
    for n in (0..200).filter(|n| *n != 7) {
        assert!(matches(&*store, n, n, 20_000), "{n}");
    }
    assert_eq!(&store.open(&key(7)).unwrap().unwrap().metadata[..], b"updated");
    assert_eq!(store.name(), "squid");
}

#[test]
fn the_space_really_taken_is_under_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let limit = 12 << 20;
    let store = open(folder.path(), limit).unwrap();
    for n in 0..600 {
        put(&*store, n, 1, (n as usize * 997) % 120_000).unwrap();
        if n % 50 == 0 {
            let taken = bytes_on_disk(folder.path());
            assert!(taken <= limit, "{taken} after {n}");
        }
    }
    assert!(store.usage().evictions > 100);
    let taken = bytes_on_disk(folder.path());
    assert!(taken <= limit && taken > limit * 6 / 10, "{taken}");
}

#[test]
fn killed_process_leaves_all_committed_objects() {
    let folder = tempfile::tempdir().unwrap();
    let mut committed = Vec::new();
    for round in 0..6_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "architectures::tests::real::store_until_killed", "--ignored", "--nocapture"])
            .env("SHOAL_TEST_STORE", folder.path())
            .env("SHOAL_TEST_ROUND", round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let numbers = lines.by_ref().filter_map(|line| line.strip_prefix("stored ")?.parse::<u64>().ok());
        committed.extend(numbers.take(20 + 37 * round as usize));
        child.kill().unwrap();
        child.wait().unwrap();
        committed.extend(lines.filter_map(|line| line.strip_prefix("stored ")?.parse::<u64>().ok()));
        let store = open(folder.path(), 500 << 20).unwrap();
        for n in &committed {
            assert!(matches(&*store, *n, 1, length_of(*n)), "{n} after round {round}");
        }
        assert!(
            store.usage().objects <= committed.len() as u64 + round + 1,
            "at most one unreported a round"
        );
        assert_eq!(store.usage().corrupt, 0);
    }
    assert!(committed.len() > 6 * 20);
}

fn length_of(n: u64) -> usize {
    (n as usize * 7_919) % 150_000
}

/// Body of the process that the test above kills; does nothing on its own.
#[test]
#[ignore = "runs as the child of another test"]
fn store_until_killed() {
    let Some(folder) = std::env::var_os("SHOAL_TEST_STORE") else { return };
    let round: u64 = std::env::var("SHOAL_TEST_ROUND").unwrap().parse().unwrap();
    let store = open(Path::new(&folder), 500 << 20).unwrap();
    for n in (round * 1_000_000..).take(5_000) {
        put(&*store, n, 1, length_of(n)).unwrap();
        println!("\nstored {n}");
    }
}

#[test]
fn two_processes_cannot_have_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_once(folder.path(), 50 << 20).unwrap();
    let refused = open_once(folder.path(), 50 << 20).err().expect("refused");
    assert!(refused.contains("in use by another process"), "{refused}");
    drop(store);
    open(folder.path(), 50 << 20).unwrap();
}

#[test]
fn a_folder_that_cannot_be_one_is_refused_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, b"not a folder").unwrap();
    let refused = open(&path, 50 << 20).err().expect("refused");
    assert!(refused.contains("give the store a directory"), "{refused}");
    fs::create_dir(folder.path().join("taken")).unwrap();
    fs::create_dir(folder.path().join("taken/index")).unwrap();
    assert!(open(&folder.path().join("taken"), 50 << 20).is_err());
}

#[test]
fn damaged_index_file_is_rebuilt_in_background() {
    let folder = tempfile::tempdir().unwrap();
    for damage in ["random", "empty", "short"] {
        let store = open(folder.path(), 50 << 20).unwrap();
        // The last round's repair may be unfinished.
        let stored = |n: u64| (0..500).any(|_| put(&*store, n, n, 3_000).is_ok() || pause());
        assert!((0..50).all(stored), "{damage}");
        drop(store);
        let index = folder.path().join("index");
        let mut bytes = fs::read(&index).unwrap();
        match damage {
            "random" => (0..bytes.len()).for_each(|at| bytes[at] = (at * 131 % 251) as u8),
            "empty" => bytes.clear(),
            _ => bytes.truncate(bytes.len() / 2),
        }
        fs::write(&index, &bytes).unwrap();
        let store = open(folder.path(), 50 << 20).unwrap();
        assert!(folder.path().join("index.damaged").exists());
        let is_back = |n: &u64| matches(&*store, *n, *n, 3_000);
        let mut waited = 0;
        while (0..50).filter(is_back).count() < 50 {
            assert!(waited < 500, "{damage}: rebuilt in the end");
            waited += 1;
            pause();
        }
    }
}

/// Waits a little and returns `false`, for loops of tries.
fn pause() -> bool {
    std::thread::sleep(Duration::from_millis(20));
    false
}

#[test]
fn index_file_takes_about_36_bytes_an_object() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1 << 30).unwrap();
    let objects = store.usage().objects_max;
    assert_eq!(objects, (1 << 30) / 13_000);
    let length = || fs::metadata(folder.path().join("index")).unwrap().len();
    let before = length();
    assert!(before < objects * 38, "{before} bytes for {objects}");
    (0..300).for_each(|n| put(&*store, n, 1, 10).unwrap());
    assert_eq!(length(), before);
}

/// Kroonmaa 1998: unused entries take no memory, and used ones are read in when touched. Opening
/// thus takes constant time for any size of the index.
#[test]
fn opening_touches_few_pages_of_any_index() {
    let touched_at_opening = [10_000, 600_000].map(|max_objects| {
        let folder = tempfile::tempdir().unwrap();
        let wanted = || OpenOptions { max_objects, ..options(folder.path(), 1 << 30) };
        let store = crate::open(&wanted()).unwrap();
        (0..OBJECTS).for_each(|n| put(&*store, n, 1, 10).unwrap());
        store.close().unwrap();
        drop(store);
        let store = crate::open(&wanted()).unwrap();
        let at_opening = resident_bytes_of_index(folder.path());
        assert!((0..OBJECTS).all(|n| matches(&*store, n, 1, 10)));
        let length = fs::metadata(folder.path().join("index")).unwrap().len();
        let in_use = resident_bytes_of_index(folder.path());
        // The kernel maps the cached 64 KiB around a touched page: a bucket for each object, and
        // the area that the entries and the head share.
        assert!(in_use <= (OBJECTS + 12) * 65_536, "{in_use} bytes resident of an index of {length}");
        at_opening
    });
    let [small, large] = touched_at_opening;
    assert!(large <= small + 65_536, "{small} bytes at opening, and {large} for 60 times as many entries");
}

/// Few objects, so that they touch little memory.
const OBJECTS: u64 = 20;

/// Returns the bytes of the mapped index that are in this process's page tables.
fn resident_bytes_of_index(folder: &Path) -> u64 {
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
    let index = folder.join("index");
    let name = index.to_str().unwrap();
    let (mut is_index, mut kilobytes, mut found) = (false, 0, false);
    for line in smaps.lines() {
        if line.contains('-')
            && line.contains(' ')
            && !line.split_whitespace().next().unwrap_or_default().ends_with(':')
        {
            is_index = line.ends_with(name);
            found |= is_index;
        } else if let Some(rest) = line.strip_prefix("Rss:").filter(|_| is_index) {
            kilobytes += rest.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
        }
    }
    assert!(found, "{name} is mapped");
    kilobytes * 1024
}

#[test]
fn a_removed_folder_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 20 << 20).unwrap();
    put(&*store, 1, 1, 10).unwrap();
    fs::remove_dir_all(folder.path().join("00")).unwrap();
    assert!(store.open(&key(1)).unwrap().is_none());
    (2..20).for_each(|n| put(&*store, n, 1, 10).unwrap());
    assert_eq!(store.open(&key(5)).unwrap().unwrap().metadata, metadata_of(5, 1, 10));
}

/// Returns every path below the folder, and the folder itself, with a mode that lets others in.
fn open_for_others(path: &Path) -> Vec<(std::path::PathBuf, u32)> {
    let found = fs::symlink_metadata(path).unwrap();
    let mode = found.mode() & 0o7777;
    let own = (mode & 0o077 != 0).then(|| (path.to_owned(), mode));
    let inside = fs::read_dir(path).into_iter().flatten().flatten();
    own.into_iter().chain(inside.flat_map(|entry| open_for_others(&entry.path()))).collect()
}

fn make_open_for_others(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let is_folder = fs::symlink_metadata(path).unwrap().is_dir();
    let mode = if is_folder { 0o755 } else { 0o664 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let inside = fs::read_dir(path).into_iter().flatten().flatten();
    inside.for_each(|entry| make_open_for_others(&entry.path()));
}

/// The folder protects a store that was copied, or that an older version made.
#[test]
fn no_file_of_a_store_is_for_others() {
    for row in ARCHITECTURES {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("made/store");
        let options = OpenOptions { architecture: row.name.into(), ..options(&folder, 50 << 20) };
        let fill = |from: u64| {
            let store = crate::open(&options).unwrap();
            for n in from..from + 40 {
                put(&*store, n, 1, (n as usize * 997) % 40_000).unwrap();
            }
            store.close().unwrap();
            store
        };
        drop(fill(0));
        assert_eq!(open_for_others(&root.path().join("made")), [], "{}", row.name);
        make_open_for_others(&folder);
        let store = fill(100);
        let own = fs::metadata(&folder).unwrap().mode() & 0o777;
        assert_eq!(own, 0o700, "{}", row.name);
        for name in
            ["lock", "index", "volume", "volume.index", "segments.sealed"].map(|name| folder.join(name))
        {
            let mode = fs::metadata(&name).map_or(0o600, |found| found.mode() & 0o777);
            assert_eq!(mode, 0o600, "{}", name.display());
        }
        drop(store);
    }
}

/// A folder with other contents than a store may be meant for others.
#[test]
fn a_shared_folder_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.path().join("of-somebody"), "").unwrap();
    drop(open(folder.path(), 50 << 20).unwrap());
    drop(open(folder.path(), 50 << 20).unwrap());
    assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o755);
}

#[test]
fn a_lock_or_index_that_is_a_link_is_refused() {
    for name in ["lock", "index"] {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        fs::write(&target, "of somebody").unwrap();
        fs::create_dir(folder.path().join("store")).unwrap();
        std::os::unix::fs::symlink(&target, folder.path().join("store").join(name)).unwrap();
        assert!(open(&folder.path().join("store"), 50 << 20).is_err(), "{name}");
        assert_eq!(fs::read(&target).unwrap(), b"of somebody");
    }
}
