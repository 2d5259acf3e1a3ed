//! The table in the module's head: transfers by call.

use super::*;

/// Returns a machine with none of its files in memory: caches of a single entry, emptied by reading
/// other folders.
fn cold() -> Machine {
    let mut machine = machine();
    machine.memory.inodes = 1;
    machine.memory.names = 0;
    machine.memory.metadata = 8192;
    machine
}

#[test]
fn create_in_warm_folder_writes_inode_and_directory() {
    let door = Ufs1999::new(machine());
    door.make_folder("00").unwrap();
    door.make_folder("00/00").unwrap();
    put(&door, "00/00/warm", 100);
    door.sync().unwrap();
    assert_eq!(cost(&door, || drop(door.create("00/00/a"))), [[0; 5], [0, 1, 1, 0, 0]]);
    // The rest follows with the cleaning: the folder's inode, in the block of the file's, and the
    // group's maps.
    let [reads, writes] = cost(&door, || door.sync().unwrap());
    assert_eq!((reads, writes), ([0; 5], [0, 0, 1, 0, 1]));
}

#[test]
fn logged_metadata_reach_the_log_then_their_blocks() {
    let mut machine = machine();
    machine.file_system.metadata_writes = MetadataWrites::Logged { change_bytes: 512 };
    let door = Ufs1999::new(machine);
    let logged = |report: &Report| report.sum(|traffic| traffic.kind == BlockKind::Log);
    door.make_folder("00").unwrap();
    door.sync().unwrap();
    let before = door.report();
    // Inode and entry: two changes a file. Sixteen fill a page of the log, and no block is written
    // before the cleaning.
    for file in 0..8 {
        let waited = door.report().waited;
        assert_eq!(cost(&door, || drop(door.create(&format!("00/{file}")))), NOTHING);
        assert_eq!(door.report().waited, waited, "nobody waits for the log");
    }
    assert_eq!(logged(&(door.report() - &before)), TransferCount { count: 1, bytes: 8192 });
    drop(door.create("00/8"));
    let [reads, writes] = cost(&door, || door.sync().unwrap());
    assert_eq!((reads, writes), ([0; 5], [0, 1, 1, 0, 1]));
    assert_eq!(logged(&(door.report() - &before)), TransferCount { count: 2, bytes: 8192 + 1024 });
}

#[test]
fn delayed_writes_happen_every_thirty_seconds() {
    let door = Ufs1999::new(machine());
    door.make_folder("00").unwrap();
    door.advance(Duration::from_secs(40));
    let free = door.now();
    put(&door, "00/a", 5000);
    assert!(door.now() < Duration::from_secs(59) && free < Duration::from_secs(41));
    assert_eq!(cost(&door, || door.advance(Duration::from_secs(10))), NOTHING);
    // Data in one transfer; the inodes of file and folder in one block; the group's maps.
    assert_eq!(cost(&door, || door.advance(Duration::from_secs(10))), [[0; 5], [1, 0, 1, 0, 1]]);
    assert_eq!(cost(&door, || door.advance(Duration::from_secs(100))), NOTHING);
}

#[test]
fn creating_in_a_cold_folder_reads_the_way_there() {
    let door = Ufs1999::new(cold());
    for folder in ["00", "00/00", "00/01"] {
        door.make_folder(folder).unwrap();
    }
    put(&door, "00/01/other", 1);
    door.sync().unwrap();
    // Inodes of root, 00 and 00/00, which lie in three groups, and their three blocks of entries;
    // the group's maps; the new inode's block again, since a cache of one block has lost it.
    // Afterwards the entry's block is fetched once more.
    let [reads, writes] = cost(&door, || drop(door.create("00/00/a")));
    assert_eq!(writes[..3], [0, 1, 1]);
    assert_eq!((reads[1], reads[2]), (4, 4));
}

#[test]
fn cold_open_and_read_costs_the_path_and_the_data() {
    let door = Ufs1999::new(cold());
    for folder in ["00", "00/00", "00/01"] {
        door.make_folder(folder).unwrap();
    }
    put(&door, "00/00/a", 5000);
    put(&door, "00/01/other", 1);
    door.sync().unwrap();
    let read = || drop(door.open("00/00/a", Access::Read).unwrap().read_at(&mut [0; 5000], 0));
    // Inodes of root, 00, 00/00 and the file; entries of the three folders; the data in one
    // transfer.
    assert_eq!(cost(&door, read), [[1, 3, 4, 0, 0], [0; 5]]);
    // Only the access time is written.
    assert_eq!(cost(&door, || door.sync().unwrap())[1], [0, 0, 1, 0, 0]);
}

#[test]
fn a_folder_takes_five_writes() {
    let door = Ufs1999::new(machine());
    door.make_folder("00").unwrap();
    let [reads, writes] = cost(&door, || drop(door.make_folder("01")));
    // The inode is in a group of which nothing has been read.
    assert_eq!((reads, writes), ([0, 0, 1, 0, 1], [0, 2, 3, 0, 0]));
}

#[test]
fn long_writes_leave_in_clusters_and_short_ones_wait() {
    let door = Ufs1999::new(machine());
    door.make_folder("00").unwrap();
    let file = door.create("00/a").unwrap();
    let write = |blocks: u64, at: u64| {
        file.write_at(&vec![1; blocks as usize * 8192], at * 8192).unwrap();
    };
    assert_eq!(cost(&door, || write(7, 0)), NOTHING);
    let before = door.report();
    write(1, 7);
    let report = door.report() - &before;
    assert_eq!((report.total().count, report.total().bytes), (1, 65536));
    // Behind the twelfth block an indirect one is written at once; its group is new.
    let [reads, writes] = cost(&door, || write(5, 8));
    assert_eq!((reads, writes), ([0, 0, 0, 0, 1], [0, 0, 0, 1, 0]));
}

#[test]
fn read_costs_only_pages_not_in_memory() {
    let door = Ufs1999::new(machine());
    door.make_folder("00").unwrap();
    put(&door, "00/a", 8192 * 3 + 100);
    assert_eq!(cost(&door, || assert_eq!(fetch(&door, "00/a").len(), 24_676)), NOTHING);
    let mut small = machine();
    small.memory.inodes = 1;
    let door = Ufs1999::new(small);
    door.make_folder("00").unwrap();
    put(&door, "00/a", 8192 * 3 + 100);
    put(&door, "00/b", 1);
    door.sync().unwrap();
    // The file's pages have left memory with its inode. One block, two more at once, and the tail
    // by itself.
    let before = door.report();
    fetch(&door, "00/a");
    let data = (door.report() - &before).sum(|traffic| traffic.kind == BlockKind::Data && !traffic.is_write);
    assert_eq!((data.count, data.bytes), (3, 25_600));
}

#[test]
fn names_are_found_without_their_directory() {
    let door = Ufs1999::new(machine());
    door.make_folder("00").unwrap();
    put(&door, "00/a", 10);
    let lookups = |act: &dyn Fn()| {
        let before = door.report();
        act();
        let names = (door.report() - &before).names;
        (names.hits, names.misses)
    };
    let open = || drop(door.open("00/a", Access::Read).unwrap());
    // The folder's name was entered when the file was made; the first open enters the file's.
    assert_eq!(lookups(&open), (1, 1));
    assert_eq!(lookups(&open), (2, 0));
    let open_absent = || assert!(door.open("00/b", Access::Read).is_err());
    assert_eq!(lookups(&open_absent), (1, 1));
    assert_eq!(lookups(&open_absent), (2, 0));
    put(&door, "00/b", 1);
    drop(door.open("00/b", Access::Read).unwrap());
}

#[test]
fn unlinking_writes_directory_and_inode() {
    let door = Ufs1999::new(machine());
    door.make_folder("00").unwrap();
    put(&door, "00/a", 5000);
    put(&door, "00/empty", 0);
    let free = door.space().unwrap().free_bytes;
    assert_eq!(cost(&door, || door.unlink("00/a").unwrap()), [[0; 5], [0, 1, 1, 0, 0]]);
    assert_eq!(door.space().unwrap().free_bytes, free + 5 * 1024);
    assert_eq!(cost(&door, || door.unlink("00/empty").unwrap()), [[0; 5], [0, 1, 0, 0, 0]]);
    // Pages never cleaned are not written after the file has gone: inodes and maps only.
    assert_eq!(cost(&door, || door.sync().unwrap())[1][0], 0);
}

#[test]
fn open_handles_keep_a_file() {
    let door = Ufs1999::new(machine());
    door.make_folder("00").unwrap();
    put(&door, "00/a", 5000);
    let free = door.space().unwrap().free_bytes;
    let file = door.open("00/a", Access::Read).unwrap();
    door.unlink("00/a").unwrap();
    let mut bytes = vec![0; 5000];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 5000);
    assert_eq!((bytes, door.space().unwrap().free_bytes), (body(5000), free));
    drop(file);
    assert_eq!(door.space().unwrap().free_bytes, free + 5 * 1024);
}
