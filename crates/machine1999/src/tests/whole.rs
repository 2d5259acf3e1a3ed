//! The model as a file system: contents, limits, several disks, determinism.

use super::*;
use std::collections::BTreeMap;

/// A small linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

/// Makes many operations in folders of several disks, checked against plain bytes.
fn churn(door: &Ufs1999, seed: u64, steps: u32) -> Report {
    let (mut files, mut random) = (BTreeMap::<String, Vec<u8>>::new(), Random(seed));
    for folder in 0..8 {
        if folder % 4 == 0 {
            door.make_folder(&format!("{:02}", folder / 4)).unwrap();
        }
        door.make_folder(&format!("{:02}/{folder:02}", folder / 4)).unwrap();
    }
    for _ in 0..steps {
        let (number, folder) = (random.below(300), random.below(8));
        let path = format!("{:02}/{folder:02}/{number:08X}", folder / 4);
        match (random.below(8), files.get_mut(&path)) {
            (_, None) => {
                let bytes = body(random.below(30_000) as usize);
                write_full(&*door.create(&path).unwrap(), &bytes, 0).unwrap();
                files.insert(path, bytes);
            }
            (0 | 1, Some(_)) => {
                door.unlink(&path).unwrap();
                files.remove(&path);
            }
            (2 | 3, Some(bytes)) => {
                let (at, length) = (random.below(120_000) as usize, random.below(20_000) as usize);
                bytes.resize(bytes.len().max(at + length), 0);
                bytes[at..at + length].fill(7);
                write_full(&*door.open(&path, Access::Write).unwrap(), &vec![7; length], at as u64).unwrap();
                if length == 0 {
                    bytes.truncate(door.length(&path).unwrap() as usize);
                }
            }
            (4, Some(bytes)) => {
                bytes.resize(random.below(40_000) as usize, 0);
                door.open(&path, Access::Write).unwrap().set_length(bytes.len() as u64).unwrap();
            }
            (_, Some(bytes)) => assert_eq!(&fetch(door, &path), bytes, "{path}"),
        }
    }
    for (path, bytes) in &files {
        assert_eq!(&fetch(door, path), bytes, "{path}");
        door.unlink(path).unwrap();
    }
    door.report()
}

fn three_disks() -> Machine {
    let mut machine = Machine::infinite();
    machine.disks.iter_mut().for_each(|disk| disk.model.cylinders = 160);
    machine.memory = MemorySizes { inodes: 40, names: 30, metadata: 100_000, ..machine.memory };
    machine.with_shared_memory(40 * 8192)
}

#[test]
fn contents_survive_pressure_and_all_space_comes_back() {
    let door = Ufs1999::new(three_disks());
    let free = door.space().unwrap().free_bytes;
    churn(&door, 1, 6000);
    // Folders stay, 2 × 3 and 8 of them, and have grown by less than a block each.
    let taken = free - door.space().unwrap().free_bytes;
    assert!(taken < 14 * 16_384, "{taken}");
}

#[test]
fn the_same_calls_give_the_same_report() {
    let [one, other] = [(); 2].map(|()| churn(&Ufs1999::new(three_disks()), 2, 2000));
    assert_eq!(one, other);
    assert!(one.disks.iter().all(|disk| disk.busy() > Duration::ZERO));
    assert!(one.waited <= one.now);
}

#[test]
fn reports_add_up() {
    let report = churn(&Ufs1999::new(three_disks()), 3, 2000);
    let total = report.total();
    assert_eq!(total.count, report.file_system().count + report.mapped().count);
    assert_eq!(total.count, report.disks.iter().map(|disk| disk.sum(|_| true).count).sum::<u64>());
    assert!(report.names.hit_ratio() > 0.1 && report.names.hit_ratio() < 1.0);
    assert!(total.mean_bytes() > 1024.0 && total.mean_bytes() < 65_536.0);
}

#[test]
fn a_full_disk_says_so_and_recovers() {
    let mut small = machine();
    small.disks[0].model.cylinders = 32;
    let door = Ufs1999::new(small);
    door.make_folder("00").unwrap();
    let (mut files, bytes) = (0, body(100_000));
    let error = loop {
        let file = door.create(&format!("00/{files}")).unwrap();
        files += 1;
        if let Err(error) = write_full(&*file, &bytes, 0) {
            break error;
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(files > 10);
    assert_eq!(fetch(&door, "00/0"), bytes);
    (0..files).for_each(|file| door.unlink(&format!("00/{file}")).unwrap());
    put(&door, "00/again", 100_000);
    assert_eq!(door.map("mapped", 1 << 30).err().unwrap().kind(), io::ErrorKind::StorageFull);
    assert_eq!(door.length("mapped").unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn bad_paths_are_errors() {
    let door = Ufs1999::new(machine());
    door.make_folder("00").unwrap();
    put(&door, "00/a", 1);
    for path in ["", "00/", "00/a/b", "x/y", "00"] {
        assert!(door.open(path, Access::Read).is_err(), "{path}");
        assert!(door.unlink(path).is_err(), "{path}");
    }
    assert!(door.create(&format!("00/{}", "n".repeat(256))).is_err());
    assert!(door.make_folder("00/a").is_err());
    assert!(door.make_folder("01/02").is_err());
    let file = door.open("00/a", Access::Write).unwrap();
    assert!(file.write_at(b"x", u64::MAX).is_err());
    assert!(file.set_length(u64::MAX).is_err());
    assert_eq!(file.read_at(&mut [0; 4], u64::MAX).unwrap(), 0);
}

#[test]
fn folders_and_absent_paths_differ_on_any_disk() {
    for level in 1..=3 {
        let door = Ufs1999::new(Machine { dealt_level: level, ..three_disks() });
        let kind = |path: &str| door.length(path).map_err(|error| error.kind());
        for name in (0..9).map(|at| format!("n{at}")) {
            for depth in 1..=4 {
                let path = vec![name.as_str(); depth].join("/");
                assert_eq!(kind(&path), Err(io::ErrorKind::NotFound), "level {level}: {path}");
                door.make_folder(&path).unwrap();
                assert_eq!(kind(&path), Err(io::ErrorKind::IsADirectory), "level {level}: {path}");
            }
        }
    }
}

#[test]
fn age_fragments_files() {
    // The same files, on a new disk and on one on which files of other sizes have come and gone.
    let transfers = |is_aged: bool| {
        let mut machine = machine();
        machine.disks[0].model.cylinders = 64;
        machine.transfers.read_ahead = true;
        let door = Ufs1999::new(machine);
        door.make_folder("00").unwrap();
        let mut random = Random(4);
        if is_aged {
            let fill = door.space().unwrap().free_bytes / 20_000;
            (0..fill).for_each(|file| put(&door, &format!("00/{file}"), random.below(30_000) as usize));
            (0..fill)
                .filter(|_| random.below(3) == 0)
                .for_each(|file| door.unlink(&format!("00/{file}")).unwrap());
        }
        let before = door.report();
        (0..20).for_each(|file| put(&door, &format!("00/new{file}"), 60_000));
        door.sync().unwrap();
        (door.report() - &before).sum(|traffic| traffic.is_write && traffic.kind == BlockKind::Data).count
    };
    let (fresh, aged) = (transfers(false), transfers(true));
    assert!(fresh <= 60 && aged > fresh * 5 / 4, "{fresh} transfers when new, {aged} when aged");
}
