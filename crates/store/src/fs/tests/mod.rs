//! Tests of the file systems: all behave alike, and each adds its own purpose.

mod behaviour;

use super::*;
use behaviour::behaves;
use std::sync::Arc;

#[test]
fn real_and_memory_behave_alike() {
    let folder = tempfile::tempdir().unwrap();
    behaves(&OsFs::open(folder.path()).unwrap());
    behaves(&MemoryFs::new(1 << 20));
    behaves(&CountingFs::new(Arc::new(MemoryFs::new(1 << 20))));
    behaves(&FaultyFs::new(Arc::new(MemoryFs::new(1 << 20)), Faults::new(1).delays(10)));
}

/// Replacement that prefers resident pages would otherwise read in every page that it asks about.
#[test]
fn residency_check_reads_no_pages() {
    let folder = tempfile::tempdir().unwrap();
    let door = OsFs::open(folder.path()).unwrap();
    let mapping = door.map("mapped", 64 * PAGE_BYTES).unwrap();
    mapping.write(&[7; 64 * PAGE_BYTES as usize], 0).unwrap();
    let resident = || (0..64).filter(|page| mapping.is_resident(page * PAGE_BYTES + 5)).count();
    assert_eq!(resident(), 64);
    assert!(!mapping.is_resident(64 * PAGE_BYTES) && !mapping.is_resident(u64::MAX));
    // Only clean pages can be dropped, and some file systems keep even those.
    door.sync().unwrap();
    let file = std::fs::File::open(folder.path().join("mapped")).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let left = resident();
    assert!((0..3_000).all(|_| resident() == left), "asking has changed the answer");
    mapping.read(&mut [0; 10], 40 * PAGE_BYTES).unwrap();
    assert!(mapping.is_resident(40 * PAGE_BYTES));
}

/// Calls and memory share one page cache, and read different parts of the disk into it.
#[test]
fn page_fault_reads_more_than_a_call() {
    let folder = tempfile::tempdir().unwrap();
    let door = OsFs::open(folder.path()).unwrap();
    let pages = 4096;
    door.map("mapped", pages * PAGE_BYTES).unwrap();
    let file = std::fs::File::options().read(true).write(true).open(folder.path().join("mapped")).unwrap();
    write_full_of(&file, pages);
    let resident_after = |access: MappedAccess| {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let mapping = door.map_for("mapped", pages * PAGE_BYTES, access).unwrap();
        let resident = || (0..pages).filter(|page| mapping.is_resident(page * PAGE_BYTES)).count();
        // A file system in memory keeps its pages.
        (resident() == 0).then(|| {
            (1..=READS)
                .for_each(|read| mapping.read(&mut [0; 4096], read * 97 % pages * PAGE_BYTES).unwrap());
            resident() as u64
        })
    };
    let ways = [MappedAccess::Calls, MappedAccess::Memory, MappedAccess::RandomMemory].map(resident_after);
    if let [Some(calls), Some(memory), Some(random)] = ways {
        assert_eq!((calls, random), (READS, READS), "each reads its own page");
        assert!(memory > 4 * READS, "a page fault reads pages around it: {memory}");
    }
}

fn write_full_of(file: &std::fs::File, pages: u64) {
    use std::io::Write;
    let mut file = file;
    file.write_all(&vec![7; (pages * PAGE_BYTES) as usize]).unwrap();
    file.sync_all().unwrap();
}

const READS: u64 = 30;

#[test]
fn words_read_ahead_are_resident_before_touch() {
    let folder = tempfile::tempdir().unwrap();
    let door = OsFs::open(folder.path()).unwrap();
    let bytes = 64 * PAGE_BYTES;
    let mapping = door.map("words", bytes).unwrap();
    mapping.write(&[7; 64 * PAGE_BYTES as usize], 0).unwrap();
    door.sync().unwrap();
    let file = std::fs::File::open(folder.path().join("words")).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let words = door.load("words", bytes).unwrap();
    words.read_ahead();
    let all_there = || (0..64).all(|page| mapping.is_resident(page * PAGE_BYTES));
    assert!((0..500_000).any(|_| all_there()), "nobody reads them");
    assert_eq!(words.words()[100].load(std::sync::atomic::Ordering::Relaxed), 0x0707_0707_0707_0707);
}

#[test]
fn real_does_not_leave_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    std::fs::write(folder.path().join("out"), b"secret").unwrap();
    std::os::unix::fs::symlink("../out", folder.path().join("in/link")).unwrap();
    let door = OsFs::open(&folder.path().join("in")).unwrap();
    assert!(door.open("link", Access::Read).is_err());
    assert!(door.open("../out", Access::Read).is_err());
    assert!(door.length("link").is_err());
}

#[test]
fn counted_counts_by_kind() {
    let door = CountingFs::new(Arc::new(MemoryFs::new(1 << 20)));
    let file = door.create("a").unwrap();
    write_full(&*file, &[0; 100], 0).unwrap();
    assert_eq!(read_full(&*file, &mut [0; 60], 0).unwrap(), 60);
    let expected =
        Calls { creates: 1, writes: 1, reads: 1, bytes_written: 100, bytes_read: 60, ..Calls::default() };
    assert_eq!(door.take(), expected);
    assert_eq!(door.take(), Calls::default());
}

#[test]
fn memory_fs_counts_open_unlinked_files_in_its_limit() {
    let door = MemoryFs::new(3 * 4096);
    let file = door.create("a").unwrap();
    write_full(&*file, &[1; 4097], 0).unwrap();
    door.unlink("a").unwrap();
    assert_eq!(door.used(), 8192);
    let other = door.create("b").unwrap();
    assert_eq!(other.write_at(&[1; 4097], 0).unwrap_err().kind(), io::ErrorKind::StorageFull);
    drop(file);
    write_full(&*other, &[1; 4097], 0).unwrap();
    assert_eq!((door.used(), door.most_used()), (8192, 8192));
    assert_eq!(other.set_length(12289).unwrap_err().kind(), io::ErrorKind::StorageFull);
    other.set_length(1).unwrap();
    assert_eq!((door.used(), door.most_used()), (4096, 8192));
}

#[test]
fn faults_strike_at_their_rate_and_repeat_by_seed() {
    let failures = |seed: u64| -> Vec<bool> {
        let door = FaultyFs::new(Arc::new(MemoryFs::new(1 << 20)), Faults::new(seed).errors(100));
        (0..1000).map(|_| door.space().is_err()).collect()
    };
    let struck = failures(3).iter().filter(|failed| **failed).count();
    assert!((50..200).contains(&struck), "{struck}");
    assert_eq!(failures(3), failures(3));
    assert_ne!(failures(3), failures(4));
}

#[test]
fn nothing_passes_after_the_crash_point() {
    let inner = Arc::new(MemoryFs::new(1 << 20));
    let crash = CrashPoint::after(2);
    let door = FaultyFs::new(inner.clone(), Faults::new(1).crash_at(Arc::clone(&crash)));
    let file = door.create("a").unwrap();
    write_full(&*file, &[1; 100], 0).unwrap();
    assert!(!crash.has_come());
    assert!(file.write_at(&[2; 100], 100).is_err());
    assert!(crash.has_come());
    assert!(door.unlink("a").is_err());
    assert_eq!(inner.files(), ["a"]);
}

#[test]
fn synced_files_survive_power_loss_whole() {
    let door = MemoryFs::new(1 << 20);
    write_full(&*door.create("synced").unwrap(), &[7; 9000], 0).unwrap();
    door.sync().unwrap();
    write_full(&*door.create("fresh").unwrap(), &[8; 9000], 0).unwrap();
    let mut torn = 0;
    for seed in 0..50_u64 {
        let mut state = seed;
        let lost = door.after_power_loss(|limit| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % limit
        });
        let mut bytes = vec![0; 9000];
        let file = lost.open("synced", Access::Read).unwrap();
        assert_eq!(read_full(&*file, &mut bytes, 0).unwrap(), 9000);
        assert_eq!(bytes, [7; 9000]);
        if let Ok(file) = lost.open("fresh", Access::Read) {
            let length = read_full(&*file, &mut bytes, 0).unwrap();
            torn += usize::from(bytes[..length] != [8; 9000]);
        }
    }
    assert!(torn > 5, "{torn}");
}

/// A page of memory, or a few.
const PAGE_BYTES: u64 = 4096;
