//! Damage, failures and stores of another architecture cost misses, and nothing else.

use super::*;

#[test]
fn damaged_files_are_misses() {
    for seed in 0..60 {
        let disk = Disk::new(100 << 20, 0);
        let store = disk.open();
        (0..30).for_each(|n| put(&store, n, 1, (n as usize * 3_001) % 90_000).unwrap());
        let mut random = Random(seed);
        let files = disk.object_files();
        for _ in 0..40 {
            let path = &files[random.below(files.len() as u64) as usize];
            disk.files.tamper(path, |bytes| {
                let at = random.below(bytes.len() as u64 + 1) as usize;
                match random.below(4) {
                    0 => bytes.truncate(at),
                    1 => bytes.resize(at * 2, 7),
                    _ if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
                    _ => {}
                }
            });
        }
        let look = |store: &Cern| -> usize {
            let right = |n: &u64| match fetch(store, *n) {
                Some(_) => matches(store, *n, 1, (*n as usize * 3_001) % 90_000) || panic!("{n} is wrong"),
                None => false,
            };
            (0..30).filter(right).count()
        };
        assert!(look(&store) < 30);
        let again = disk.reopen();
        look(&again);
        (0..30).for_each(|n| put(&again, n, 2, 500).unwrap());
        assert!((0..30).all(|n| matches(&again, n, 2, 500)));
        check_books(&disk, &disk.reopen());
    }
}

#[test]
fn damaged_metadata_file_gives_its_space_back() {
    let begin = |store: &Cern| {
        let mut insert = store.insert(&key(1), &metadata_of(1, 2, 90_000), None).unwrap();
        insert.append(&body_of(1, 2, 90_000)).unwrap();
        insert
    };
    let folder = folder_of(key(1).full());
    type Comer<'a> = (&'a str, &'a dyn Fn(&Cern));
    let comers: [Comer<'_>; 5] = [
        ("a lookup", &|store| assert!(fetch(store, 1).is_none())),
        ("an insert", &|store| put(store, 1, 2, 90_000).unwrap()),
        ("a removal", &|store| assert!(!store.remove(&key(1)).unwrap())),
        ("the walk", &|store| store.tree.collect(&folder)),
        ("the walk during an insert", &|store| {
            let insert = begin(store);
            store.tree.collect(&folder);
            insert.commit(None).unwrap();
        }),
    ];
    for (who, comes) in comers {
        let disk = Disk::new(100 << 20, 0);
        let store = disk.open();
        (0..3).for_each(|n| put(&store, n, 1, 50_000).unwrap());
        disk.files.tamper(&format!("{folder}/{}", info::NAME), |bytes| bytes[20] ^= 1);
        comes(&store);
        let is_there = matches(&store, 1, 2, 90_000);
        assert_eq!(is_there, who.contains("insert"), "{who}");
        assert_eq!((store.usage().corrupt, store.usage().objects), (1, 2 + u64::from(is_there)), "{who}");
        check_books(&disk, &store);
    }
}

#[test]
fn writes_cut_by_full_disk_leave_no_uncharged_space() {
    let mut failed = 0;
    for seed in 0..10 {
        let disk = Disk::new(4 << 20, 0);
        drop(disk.open());
        let door = Arc::new(FaultyFs::new(disk.files.clone(), Faults::new(seed).full(100)));
        let opened = (0..99).find_map(|_| disk.try_open_through(door.clone()).ok());
        let store = opened.expect("not every try fails");
        maintain(&store.tree);
        for n in 0..60 {
            failed += u32::from(put(&store, n, 1, 5_000).is_err());
            failed += u32::from(store.update_metadata(&key(n), b"updated", &|_| true).is_err());
        }
        check_books(&disk, &store);
    }
    assert!(failed > 100, "{failed} calls failed");
}

#[test]
fn a_failing_disk_costs_misses_and_declines_only() {
    for seed in 0..20 {
        let disk = Disk::new(4 << 20, 0);
        drop(disk.open());
        let faults = Faults::new(seed).errors(40).full(30).torn(40);
        let faulty = Arc::new(FaultyFs::new(disk.files.clone(), faults));
        let opened = (0..99).find_map(|_| disk.try_open_through(faulty.clone()).ok());
        let store = opened.expect("not every try fails");
        maintain(&store.tree);
        let mut random = Random(seed);
        let mut versions: HashMap<u64, Vec<(u64, usize)>> = HashMap::new();
        for version in 0..300 {
            let (n, length) = (random.below(40), random.below(60_000) as usize);
            match random.below(4) {
                0 => {
                    // An error after the rename leaves the object.
                    drop(put(&store, n, version, length));
                    versions.entry(n).or_default().push((version, length));
                }
                1 => drop(store.remove(&key(n))),
                2 => drop(store.tree.walk_on()),
                _ => {
                    if let Some((_, body)) = fetch(&store, n) {
                        let is_one = |(version, length): &(u64, usize)| body == body_of(n, *version, *length);
                        assert!(versions[&n].iter().any(is_one), "seed {seed}");
                    }
                }
            }
            assert!(store.usage().bytes <= store.usage().bytes_max, "seed {seed}");
        }
    }
}

#[test]
fn totals_outlive_an_orderly_end_and_only_that() {
    let disk = Disk::new(100 << 20, 0);
    let store = disk.open();
    (0..20).for_each(|n| put(&store, n, 1, 5_000).unwrap());
    store.close().unwrap();
    let now = store.tree.totals.now();
    let reopened = disk.open();
    assert_eq!(reopened.tree.totals.now(), now, "without counting");
    drop(reopened);
    assert!(disk.open().tree.totals.now().counting, "that one was not closed");
    let store = disk.reopen();
    assert_eq!(store.tree.totals.now(), now);
    store.close().unwrap();
    put(&store, 30, 1, 10).unwrap();
    assert!(disk.open().tree.totals.now().counting, "it was used on");
}

#[test]
fn stores_are_not_mistaken_for_others() {
    let disk = Disk::new(100 << 20, 0);
    let open = |name: &str, disk: &Disk, home: &MemoryHome| {
        let parts = parts(disk.files.clone(), home.clone());
        crate::architectures::open_store(name, &disk.settings, parts)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    open("cern", &disk, &MemoryHome::default()).unwrap();
    let files = disk.files.files();
    for other in ["squid", "squidl", "squid_lowest"] {
        let message = open(other, &disk, &MemoryHome::default()).unwrap_err();
        assert!(message.contains("by the architecture cern,"), "{message}");
    }
    assert_eq!(disk.files.files(), files);
    let (other, home) = (Disk::new(100 << 20, 100), MemoryHome::default());
    open("squidl", &other, &home).unwrap();
    for home in [home, MemoryHome::default()] {
        let message = open("cern", &other, &home).unwrap_err();
        assert!(message.contains("by the architecture squidl,"), "{message}");
    }
    assert!(other.object_files().is_empty());
    assert!(
        open("cern", &Disk::new(1000, 0), &MemoryHome::default()).unwrap_err().contains("raise the limit")
    );
}
