//! Promises of a tree of URL folders: locks, limits, crashes, damage, and the number of calls.

mod damage;

use super::*;
use crate::architectures::opening::architecture;
use crate::architectures::tests::world::{Random, body_of, fetch, key, maintain, matches, metadata_of, put};
use crate::fs::{Calls, CountingFs, CrashPoint, Faults, FaultyFs, MemoryFs};
use crate::index::MemoryHome;
use shoal_core::Timestamp;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

/// Disk that outlives the store.
#[derive(Clone)]
struct Disk {
    files: Arc<MemoryFs>,
    settings: ArchitectureOptions,
}

fn parts(files: Arc<dyn FileSystem>, home: MemoryHome) -> StoreEnv {
    StoreEnv { files, index: Box::new(home), boot: 1, lock: None, transient: None, background: true }
}

impl Disk {
    fn new(disk_bytes: u64, max_objects: u64) -> Self {
        let settings = ArchitectureOptions {
            disk_bytes,
            max_objects,
            now: Timestamp::from_seconds(1_000_000),
            ..ArchitectureOptions::default()
        };
        Self { files: Arc::new(MemoryFs::new(1 << 40)), settings }
    }

    fn open(&self) -> Cern {
        self.try_open_through(self.files.clone()).expect("the store opens")
    }

    /// Opens the store without the background thread.
    fn try_open_through(&self, files: Arc<dyn FileSystem>) -> Result<Cern, Error> {
        let name = architecture("cern")?.name;
        let parts = parts(files, MemoryHome::default());
        Ok(Cern { tree: Arc::new(UrlTree::open(name, &self.settings, parts)?), _maintenance: None })
    }

    /// Opens the store, and counts the tree.
    fn reopen(&self) -> Cern {
        let store = self.open();
        maintain(&store.tree);
        store
    }

    fn after_power_loss(&self, seed: u64) -> Self {
        let mut random = Random(seed);
        let files = Arc::new(self.files.after_power_loss(|limit| random.below(limit)));
        let now = self.settings.now.plus(Duration::from_secs(60));
        Self { files, settings: ArchitectureOptions { now, ..self.settings } }
    }

    fn object_files(&self) -> Vec<String> {
        self.files.files().into_iter().filter(|path| path.starts_with(path::ROOT)).collect()
    }
}

/// Checks that the running totals equal a new count, and that every file belongs to an object.
fn check_books(disk: &Disk, store: &Cern) {
    let now = store.tree.totals.now();
    assert!(!now.counting);
    assert_eq!(disk.object_files().len() as u64, 2 * now.objects, "{:?}", disk.object_files());
    let again = disk.reopen();
    assert_eq!(again.tree.totals.now(), now);
}

#[test]
fn objects_come_back_under_their_urls() {
    let disk = Disk::new(100 << 20, 0);
    let store = disk.open();
    for (n, length) in (0..).zip([0, 1, 5_000, 65_536, 65_537, 400_000]) {
        put(&store, n, 1, length).unwrap();
        assert!(matches(&store, n, 1, length), "{length}");
    }
    assert!(
        disk.object_files().contains(&"urls/http/host3.example/3/#meta".to_owned()),
        "{:?}",
        disk.object_files()
    );
    assert!(fetch(&store, 99).is_none());
    put(&store, 4, 2, 10).unwrap();
    assert!(matches(&store, 4, 2, 10));
    assert!(store.update_metadata(&key(4), b"updated", &|_| true).unwrap());
    assert_eq!(fetch(&store, 4), Some((b"updated".to_vec(), body_of(4, 2, 10))));
    assert!(!store.update_metadata(&key(4), b"m", &|_| false).unwrap());
    assert!(!store.update_metadata(&key(99), b"m", &|_| true).unwrap());
    check_books(&disk, &store);
    for n in 0..6 {
        assert!(store.remove(&key(n)).unwrap());
        assert!(!store.remove(&key(n)).unwrap());
    }
    check_books(&disk, &store);
    assert_eq!(store.tree.totals.now(), Sums::default(), "the folders are gone too");
}

#[test]
fn insert_without_room_for_folders_leaves_none() {
    let disk = Disk::new(1 << 20, 0);
    let store = disk.open();
    let url = |from: u32| (from..from + 9).fold("http://h".to_owned(), |url, n| format!("{url}/{n}"));
    let key = |n: u32| ObjectKey::new(url(n * 10).into_bytes());
    let kept = (0..).take_while(|n| {
        let insert = store.insert(&key(*n), b"m", Some(1));
        insert.is_ok_and(|mut insert| insert.append(b"b").and_then(|()| insert.commit(None)).is_ok())
    });
    let kept: Vec<u32> = kept.collect();
    assert!(kept.len() > 10, "{kept:?}");
    for n in kept {
        assert!(store.remove(&key(n)).unwrap());
    }
    assert_eq!(store.tree.totals.now(), Sums::default(), "no folder is left");
}

#[test]
fn a_url_may_be_object_and_folder_at_once() {
    let disk = Disk::new(100 << 20, 0);
    let store = disk.open();
    let urls =
        ["http://h/a", "http://h/a/", "http://h/a/b", "http://h/", "http://h/a?b=/c", "http://h/a/../b"];
    for (n, url) in urls.iter().enumerate() {
        let mut insert = store.insert(&ObjectKey::new(url.as_bytes()), url.as_bytes(), None).unwrap();
        insert.append(&[n as u8; 100]).unwrap();
        insert.commit(None).unwrap();
    }
    for (n, url) in urls.iter().enumerate() {
        let stored = store.open(&ObjectKey::new(url.as_bytes())).unwrap().unwrap();
        assert_eq!(
            (&stored.metadata[..], stored.body.read(0, 999).unwrap()),
            (url.as_bytes(), vec![n as u8; 100].into())
        );
    }
    check_books(&disk, &store);
}

#[test]
fn locked_object_is_neither_served_nor_inserted() {
    let disk = Disk::new(100 << 20, 0);
    let store = disk.open();
    put(&store, 1, 1, 1000).unwrap();
    let mut insert = store.insert(&key(1), &metadata_of(1, 2, 2000), None).unwrap();
    assert!(fetch(&store, 1).is_none(), "fetched from the origin meanwhile");
    assert!(matches!(put(&store, 1, 3, 10), Err(Error::Declined(InsertRefusal::Locked))), "and not stored");
    put(&store, 2, 1, 10).unwrap();
    insert.append(&body_of(1, 2, 2000)).unwrap();
    let body = insert.body();
    insert.commit(None).unwrap();
    assert!(matches(&store, 1, 2, 2000));
    drop(store.insert(&key(1), b"m", None).unwrap());
    assert!(matches(&store, 1, 2, 2000), "given up: the older object is there again");
    store.remove(&key(1)).unwrap();
    assert_eq!(body.read(0, 9999).unwrap(), body_of(1, 2, 2000));
    drop(body);
    check_books(&disk, &store);
}

#[test]
fn a_lock_that_was_left_behind_is_broken() {
    let disk = Disk::new(100 << 20, 0);
    let store = disk.open();
    (0..3).for_each(|n| put(&store, n, 1, 1000).unwrap());
    store.close().unwrap();
    for n in 0..3 {
        disk.files.create(&format!("{}/{LOCK}", folder_of(key(n).full()))).unwrap();
    }
    let store = disk.open();
    assert!(matches(&store, 1, 1, 1000), "by a reader");
    put(&store, 2, 2, 500).unwrap();
    assert!(matches(&store, 2, 2, 500), "by a writer");
    assert_eq!(disk.object_files().iter().filter(|path| path.ends_with(LOCK)).count(), 1);
}

#[test]
fn the_calls_are_those_of_the_original() {
    let disk = Disk::new(100 << 20, 0);
    let door = Arc::new(CountingFs::new(disk.files.clone()));
    let store = disk.try_open_through(door.clone()).unwrap();
    let calls = |door: &CountingFs| Calls { bytes_read: 0, bytes_written: 0, ..door.take() };
    door.take();
    assert!(store.may_contain(&key(1)));
    assert!(fetch(&store, 1).is_none());
    assert_eq!(
        calls(&door),
        Calls { opens: 1, others: 1, ..Calls::default() },
        "lock file and metadata file"
    );
    put(&store, 1, 1, 8_000).unwrap();
    let insert = calls(&door);
    // Lock, object, metadata: three files made, one of them removed. Folders: scheme, host, path.
    // The lock is tried before its folders exist.
    assert_eq!((insert.creates, insert.writes, insert.unlinks), (4, 2, 1), "{insert:?}");
    assert!(matches(&store, 1, 1, 8_000));
    assert_eq!(calls(&door), Calls { opens: 2, reads: 3, others: 1, ..Calls::default() });
}

#[test]
fn limits_hold_and_walk_makes_room() {
    for (disk, objects_max) in [(Disk::new(2 << 20, 0), u64::MAX), (Disk::new(1 << 30, 40), 40)] {
        let store = disk.open();
        let (mut stored, mut declined) = (0, 0);
        for n in 0..600 {
            match put(&store, n, 1, 1_000 + (n as usize * 997) % 20_000) {
                Ok(()) => stored += 1,
                Err(Error::Declined(InsertRefusal::NoSpace)) => declined += 1,
                Err(error) => panic!("{error}"),
            }
            let usage = store.usage();
            assert!(usage.bytes <= usage.bytes_max && usage.objects <= objects_max);
            if n % 2 == 0 {
                maintain(&store.tree);
            }
        }
        assert!(stored > 500, "{stored} stored, {declined} declined");
        assert!(store.usage().evictions > 300);
        assert!(disk.files.most_used() <= store.usage().bytes_max);
        maintain(&store.tree);
        check_books(&disk, &store);
    }
}

#[test]
fn requested_objects_survive_walk() {
    let disk = Disk::new(1 << 30, 100);
    let store = disk.open();
    (0..10).for_each(|n| put(&store, n, 1, 100).unwrap());
    for n in 10..1000 {
        drop(put(&store, n, 1, 100));
        for popular in 0..10 {
            assert!(fetch(&store, popular).is_some(), "{popular} after {n}");
        }
        maintain(&store.tree);
    }
    assert!(store.usage().evictions > 800);
}

#[test]
fn object_removed_during_read_stays_charged() {
    let disk = Disk::new(100 << 20, 0);
    let store = disk.open();
    put(&store, 1, 1, 300_000).unwrap();
    let reader = store.open(&key(1)).unwrap().unwrap().body;
    store.remove(&key(1)).unwrap();
    assert!(store.tree.totals.now().bytes >= 300_000);
    assert_eq!(reader.read(0, usize::MAX).unwrap(), body_of(1, 1, 300_000));
    store.close().unwrap();
    drop(reader);
    assert_eq!(store.tree.totals.now(), Sums::default());
    assert_eq!(disk.open().tree.totals.now(), Sums::default(), "and it was not there for the next session");
}

#[test]
fn threads_never_see_a_wrong_body() {
    let disk = Disk::new(6 << 20, 0);
    let store = disk.open();
    let served = AtomicU64::new(0);
    thread::scope(|scope| {
        for worker in 0..6_u64 {
            let (store, served) = (&store, &served);
            scope.spawn(move || {
                let mut random = Random(worker);
                for _ in 0..400 {
                    let n = random.below(50);
                    let length = 1000 + (n as usize * 7919) % 150_000;
                    match random.below(10) {
                        0..3 => drop(put(store, n, n, length)),
                        3 => drop(store.update_metadata(
                            &key(n),
                            &vec![b'm'; random.below(3000) as usize],
                            &|_| true,
                        )),
                        4 => drop(store.remove(&key(n)).unwrap()),
                        5 => drop(store.tree.walk_on()),
                        _ => {
                            if let Some(stored) = store.open(&key(n)).unwrap() {
                                assert_eq!(stored.body.read(0, usize::MAX).unwrap(), body_of(n, n, length));
                                served.fetch_add(1, Relaxed);
                            }
                        }
                    }
                    assert!(store.usage().bytes <= store.usage().bytes_max);
                }
            });
        }
    });
    assert!(served.into_inner() > 100);
    assert_eq!(store.usage().corrupt, 0);
    check_books(&disk, &store);
}

/// Allowed contents of a few keys: the versions that each may have.
type Right = HashMap<u64, Vec<Option<(u64, usize)>>>;

/// Puts, updates and removes until the crash. Returns the allowed contents.
fn live_until(disk: &Disk, crash: &Arc<CrashPoint>) -> Right {
    let mut right = Right::new();
    let faults = Faults::new(5).crash_at(Arc::clone(crash));
    let Ok(store) = disk.try_open_through(Arc::new(FaultyFs::new(disk.files.clone(), faults))) else {
        return right;
    };
    maintain(&store.tree);
    let lengths = [3_000, 70_000, 0, 140_000, 10, 65_536, 9_000, 200];
    for (version, length) in (1..).zip(lengths.into_iter().chain(lengths)) {
        let n = version % 5;
        let allowed = right.entry(n).or_insert_with(|| vec![None]);
        let after = if version % 7 == 0 { None } else { Some((version, length)) };
        match after {
            Some(_) => drop(put(&store, n, version, length)),
            None => drop(store.remove(&key(n))),
        }
        if crash.has_come() {
            allowed.push(after);
            break;
        }
        *allowed = vec![after];
    }
    right
}

fn check(disk: &Disk, right: &Right, what: &str) {
    let store = disk.open();
    for round in 0..2 {
        for (n, allowed) in right {
            let found = fetch(&store, *n);
            let is_right = allowed.iter().any(|version| match (version, &found) {
                (Some((version, length)), Some(found)) => {
                    *found == (metadata_of(*n, *version, *length), body_of(*n, *version, *length))
                }
                (None, None) => true,
                _ => false,
            });
            assert!(is_right, "{what}: object {n} in round {round}: {:?}", found.map(|found| found.1.len()));
        }
        maintain(&store.tree);
    }
    assert_eq!(store.usage().corrupt, 0, "{what}");
    check_books(disk, &store);
    put(&store, 70, 1, 50_000).unwrap();
    assert!(matches(&store, 70, 1, 50_000), "{what}");
}

#[test]
fn killed_at_any_call_everything_committed_is_served() {
    for made in [true, false] {
        for calls in 0.. {
            let disk = Disk::new(100 << 20, 0);
            if made {
                drop(disk.open());
            }
            let crash = CrashPoint::after(calls);
            let right = live_until(&disk, &crash);
            check(&disk, &right, &format!("killed at call {calls}"));
            if !crash.has_come() {
                assert!(calls > 150, "{calls}");
                break;
            }
        }
    }
}

#[test]
fn power_loss_serves_nothing_wrong_and_count_ends() {
    let mut survived = 0;
    for seed in 0..150 {
        let disk = Disk::new(8 << 20, 0);
        let store = disk.open();
        let mut random = Random(seed);
        let mut versions: HashMap<u64, Vec<(u64, usize)>> = HashMap::new();
        for version in 0..random.below(120) {
            let (n, length) = (random.below(30), random.below(100_000) as usize);
            match random.below(12) {
                0 => drop(store.remove(&key(n))),
                1 if random.below(3) == 0 => store.close().unwrap(),
                _ => {
                    if put(&store, n, version, length).is_ok() {
                        versions.entry(n).or_default().push((version, length));
                    }
                }
            }
        }
        let lost = disk.after_power_loss(seed);
        let after = lost.open();
        for _ in 0..2 {
            for (n, versions) in &versions {
                let Some(found) = fetch(&after, *n) else { continue };
                let is_one = |(version, length): &(u64, usize)| {
                    found == (metadata_of(*n, *version, *length), body_of(*n, *version, *length))
                };
                assert!(versions.iter().any(is_one), "seed {seed}: {n} is a version that never was");
                survived += 1;
            }
            maintain(&after.tree);
        }
        check_books(&lost, &after);
        put(&after, 78, 1, 30_000).unwrap();
        assert!(matches(&after, 78, 1, 30_000));
    }
    assert!(survived > 1000, "{survived}");
}
