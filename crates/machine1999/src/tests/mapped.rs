//! Mapped files: faults, cleaning, and the choice of pages.

use super::*;

const PAGE: u64 = 8192;

/// Returns a machine with memory for `pages` pages of files.
fn with_pages(pages: u64, replacement: PageReplacement) -> Machine {
    let mut machine = machine().with_shared_memory(pages * PAGE);
    machine.memory.replacement = replacement;
    machine
}

fn mapped(door: &Ufs1999, act: impl FnOnce()) -> [(u64, u64); 2] {
    let before = door.report();
    act();
    let report = door.report() - &before;
    assert_eq!(report.file_system().count, report.total().count - report.mapped().count);
    [false, true].map(|is_write| {
        let data = report.sum(|traffic| {
            traffic.is_write == is_write && traffic.is_mapped && traffic.kind == BlockKind::Data
        });
        (data.count, data.bytes)
    })
}

#[test]
fn pages_are_read_when_touched_and_not_when_replaced() {
    let door = Ufs1999::new(with_pages(64, PageReplacement::Lru));
    let mapping = door.map("mapped", 100 * PAGE).unwrap();
    door.sync().unwrap();
    let faults = mapped(&door, || {
        mapping.write(&[1; 512], 20 * PAGE).unwrap();
        mapping.write(&[2; 512], 20 * PAGE + 512).unwrap();
        mapping.write(&[3; PAGE as usize], 50 * PAGE).unwrap();
        mapping.read(&mut [0; 100], 70 * PAGE).unwrap();
    });
    assert_eq!(faults, [(2, 2 * PAGE), (0, 0)]);
    let resident = [20, 50, 70, 21].map(|page| mapping.is_resident(page * PAGE));
    assert_eq!(resident, [true, true, true, false]);
    let mut bytes = [0; 600];
    mapping.read(&mut bytes, 20 * PAGE + 500).unwrap();
    assert_eq!((bytes[0], bytes[12], bytes[524]), (1, 2, 0));
}

#[test]
fn adjacent_dirty_pages_are_cleaned_together() {
    let door = Ufs1999::new(with_pages(64, PageReplacement::Lru));
    let mapping = door.map("mapped", 100 * PAGE).unwrap();
    door.sync().unwrap();
    // Twenty adjacent pages behind the indirect block and two single ones: 8 + 8 + 4, 1 and 1.
    for page in (20..40).chain([60, 70]) {
        mapping.write(&[1; PAGE as usize], page * PAGE).unwrap();
    }
    assert_eq!(mapped(&door, || door.advance(Duration::from_secs(31))), [(0, 0), (5, 22 * PAGE)]);
}

#[test]
fn dirty_page_is_cleaned_before_its_reuse() {
    let door = Ufs1999::new(with_pages(16, PageReplacement::Lru));
    let mapping = door.map("mapped", 100 * PAGE).unwrap();
    door.sync().unwrap();
    for page in 0..16 {
        mapping.write(&[1; PAGE as usize], (20 + 2 * page) * PAGE).unwrap();
    }
    let before = door.report().dirty_victims;
    let traffic = mapped(&door, || mapping.read(&mut [0; 1], 90 * PAGE).unwrap());
    assert_eq!(traffic, [(1, PAGE), (1, PAGE)], "one cleaned and one read");
    assert_eq!(door.report().dirty_victims, before + 1);
    assert!(!mapping.is_resident(20 * PAGE));
}

#[test]
fn seq_keeps_a_part_of_a_loop_that_lru_loses() {
    let limits = SequenceLimits { length_min: 5, head_spared: 2, recent_faults: 2, sequences_max: 10 };
    let faults = |replacement| {
        let mut machine = with_pages(32, replacement);
        machine.transfers.fault_ahead = false;
        let door = Ufs1999::new(machine);
        let mapping = door.map("mapped", 64 * PAGE).unwrap();
        for _ in 0..10 {
            (0..64).for_each(|page| mapping.read(&mut [0; 1], page * PAGE).unwrap());
        }
        door.report().mapped_pages.misses
    };
    // LRU misses every time; SEQ keeps about 32 − 2 pages of 64 through each round.
    assert_eq!(faults(PageReplacement::Lru), 640);
    let seq = faults(PageReplacement::Seq(limits));
    assert!((64 + 9 * 32..=64 + 9 * 40).contains(&seq), "{seq}");
}

#[test]
fn files_and_mapped_pages_share_memory() {
    let door = Ufs1999::new(with_pages(16, PageReplacement::Lru));
    let mapping = door.map("mapped", 100 * PAGE).unwrap();
    (30..46).for_each(|page| mapping.read(&mut [0; 1], page * PAGE).unwrap());
    assert!(mapping.is_resident(40 * PAGE));
    door.make_folder("00").unwrap();
    put(&door, "00/a", 16 * PAGE as usize);
    assert!((30..46).all(|page| !mapping.is_resident(page * PAGE)));
}

/// Checks the claim of the paper's 3.6: "an almost sequential creation of dirty pages and page
/// faults".
#[test]
fn cyclic_replacement_makes_fewer_larger_transfers() {
    let replace = |is_cyclic: bool| {
        let door = Ufs1999::new(Machine::finite());
        let mapping = door.map("mapped", FINITE_MAPPED_BYTES).unwrap();
        let slots = FINITE_MAPPED_BYTES / 1024;
        let before = door.report();
        // A permutation of the slots, odd times a position, stands for replacement that ignores
        // positions.
        let place = |step: u64| if is_cyclic { step } else { step * 98_731 % slots };
        (0..40_000).for_each(|step| mapping.write(&[1; 1024], place(step) * 1024).unwrap());
        door.sync().unwrap();
        let report = door.report() - &before;
        (report.mapped().count, report.mapped().mean_bytes(), report.now)
    };
    let ((cyclic, cyclic_bytes, cyclic_time), (random, random_bytes, random_time)) =
        (replace(true), replace(false));
    // 5000 pages, read and written in clusters of 8 but for the beginnings of runs.
    assert!((1250..1600).contains(&cyclic), "{cyclic} transfers");
    assert!(cyclic_bytes > 50_000.0 && random_bytes < 10_000.0, "{cyclic_bytes} and {random_bytes} bytes");
    // "In the worst case a replacement case causes two disk I/O transactions" (3.3): a page cleaned
    // and a page read.
    assert!((79_000..80_100).contains(&random), "{random} transfers");
    // Sixty times as many transfers, each an eighth as large.
    assert!(random_time > cyclic_time * 20, "{random_time:?} against {cyclic_time:?}");
}
