//! Tests of the purge tables, over restarts and with files that are older, foreign, damaged or
//! lost.

use super::*;
use std::time::{Duration, Instant};

const NOW: Timestamp = Timestamp::from_seconds(1_700_000_000);

fn tag(name: &str) -> [PurgeSlot; 1] {
    [PurgeScope::Tag(name).slot()]
}

/// A table in its own folder.
struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("purges")
    }

    fn open(&self) -> PurgeTable {
        PurgeTable::open(&self.path(), NOW).expect("opened")
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.path()).expect("there")
    }

    /// Replaces the file, to which the thread of an earlier table may still write.
    fn put(&self, bytes: &[u8]) {
        let beside = self.0.path().join("other");
        std::fs::write(&beside, bytes).expect("written");
        std::fs::rename(beside, self.path()).expect("renamed");
    }
}

#[test]
fn purge_reaches_earlier_requests_only() {
    let purge_table = PurgeTable::in_memory(NOW);
    let slots = [PurgeScope::Tag("news").slot(), PurgeScope::Host("example.org").slot()];
    let before = purge_table.sequence();
    assert!(!purge_table.is_purged(&slots, &[], before));
    purge_table.purge(PurgeScope::Tag("news"));
    assert!(purge_table.is_purged(&slots, &[], before) && !purge_table.is_purged(&tag("sport"), &[], before));
    assert!(!purge_table.is_purged(&slots, &[], purge_table.sequence()), "it can be kept again at once");
}

#[tokio::test]
async fn unsure_responses_need_validation() {
    let world = World::new();
    let earlier = world.open().sequence();
    let purge_table = world.open();
    let before = purge_table.sequence();
    let (weather, old) = (tag("weather"), [earlier, before]);
    assert!(!old.iter().any(|asked| purge_table.is_purged(&weather, &[], *asked)));
    purge_table.validate_earlier_processes(true);
    assert!(purge_table.is_purged(&weather, &[], earlier) && purge_table.needs_validation(earlier));
    assert!(!purge_table.is_purged(&weather, &[], before) && !purge_table.needs_validation(before));
    purge_table.validate_earlier_processes(false);
    let mark = purge_table.require_validation();
    assert!(old.iter().all(|asked| purge_table.is_purged(&weather, &[], *asked)));
    assert!(!old.iter().any(|asked| purge_table.is_removed(&weather, &[], *asked)));
    assert!(!purge_table.is_purged(&weather, &[], purge_table.sequence()));
    // The next process begins after numbers that were written.
    purge_table.note_time();
    purge_table.wait_written().await.expect("written");
    let next = world.open();
    next.validate_before(mark);
    assert!(old.iter().all(|asked| next.needs_validation(*asked)));
    assert!(!next.needs_validation(next.sequence()));
}

#[test]
fn next_time_lies_between_requests() {
    let purge_table = PurgeTable::in_memory(NOW);
    let before = purge_table.sequence();
    let step = purge_table.next_time();
    assert!(step > before && purge_table.sequence() >= step);
}

#[tokio::test]
async fn purges_survive_restarts_whatever_the_clock_says() {
    let world = World::new();
    let mut asked = Vec::new();
    for now in [NOW, Timestamp::from_millis(5), Timestamp::from_seconds(4_000_000_000), NOW] {
        let purge_table = PurgeTable::open(&world.path(), now).expect("opened");
        for earlier in &asked {
            assert!(
                purge_table.is_purged(&tag("news"), &[], *earlier)
                    && !purge_table.is_purged(&tag("sport"), &[], *earlier)
            );
        }
        asked.push(purge_table.sequence());
        assert!(!purge_table.is_purged(&tag("news"), &[], purge_table.sequence()));
        purge_table.purge(PurgeScope::Tag("news"));
        purge_table.wait_written().await.expect("written");
    }
    let purge_table = world.open();
    purge_table.purge(PurgeScope::All);
    assert!(asked.iter().all(|asked| purge_table.is_purged(&[PurgeScope::All.slot()], &[], *asked)));
}

/// Another process writes the file next: earlier orders are in it, and no more come.
#[tokio::test]
async fn released_file_has_the_purges_before_it_alone() {
    let world = World::new();
    let asked = world.open().sequence();
    let purge_table = world.open();
    purge_table.purge(PurgeScope::Tag("news"));
    let released = purge_table.release_file();
    purge_table.purge(PurgeScope::Tag("weather"));
    released.await.expect("written");
    assert!(!purge_table.is_in_file() && !purge_table.are_lost());
    assert!(purge_table.is_purged(&tag("weather"), &[], asked), "it holds in this process");
    let next = world.open();
    assert!(next.is_purged(&tag("news"), &[], asked));
    assert!(!next.is_purged(&tag("weather"), &[], asked));
}

#[tokio::test]
async fn purge_after_clock_step_back_reaches_requests() {
    let world = World::new();
    let asked =
        PurgeTable::open(&world.path(), Timestamp::from_seconds(4_000_000_000)).expect("made").sequence();
    let purge_table = PurgeTable::open(&world.path(), NOW).expect("opened");
    assert!(!purge_table.is_purged(&tag("news"), &[], asked), "nothing was purged");
    purge_table.purge(PurgeScope::Tag("news"));
    assert!(purge_table.is_purged(&tag("news"), &[], asked));
}

#[tokio::test]
async fn unknown_eras_of_other_tables_are_purged() {
    let (world, other) = (World::new(), World::new());
    let first = world.open();
    let early = first.sequence();
    first.purge(PurgeScope::Tag("sport"));
    first.wait_written().await.expect("written");
    drop(first);
    let older = world.bytes();
    let second = world.open();
    let late = second.sequence();
    second.purge(PurgeScope::Tag("news"));
    second.wait_written().await.expect("written");
    drop(second);
    let newest = world.bytes();
    drop(other.open());
    let foreign = other.bytes();
    // For each file: the known requests, and whether the purge of the first is known.
    for (bytes, known) in [(newest, [true, true]), (older, [true, false]), (foreign, [false, false])] {
        world.put(&bytes);
        let purge_table = world.open();
        let is_served = [early, late].map(|asked| !purge_table.is_purged(&tag("weather"), &[], asked));
        assert_eq!(is_served, known);
        assert!(
            purge_table.is_purged(&tag("sport"), &[], early)
                && purge_table.is_purged(&tag("news"), &[], late)
        );
    }
    std::fs::remove_file(world.path()).expect("there");
    let purge_table = world.open();
    assert!([early, late].iter().all(|asked| purge_table.is_purged(&tag("weather"), &[], *asked)));
    assert!(!purge_table.is_purged(&tag("weather"), &[], purge_table.sequence()), "what comes now is kept");
}

#[tokio::test]
async fn no_flipped_bit_undoes_a_purge() {
    let world = World::new();
    let purge_table = world.open();
    let asked = purge_table.sequence();
    purge_table.purge(PurgeScope::Tag("news"));
    purge_table.purge_groups("http://a", &["g".to_owned()], NOW);
    purge_table.wait_written().await.expect("written");
    drop(purge_table);
    let whole = world.bytes();
    assert_eq!(whole.len() as u64, PurgeTable::BYTES);
    let groups = [group_key("http://a", "g")];
    let slot = layout::piece_of_slot(usize::from(tag("news")[0].0)) as usize * 512;
    let place = layout::BYTES as usize - groups::PLACES * groups::ENTRY_BYTES;
    let places =
        [0, 8, 12, 17, 504, 512, 520, 1016, slot, slot + 8, slot + 100, slot + 511, place, place + 47];
    for at in places.into_iter().chain((0..whole.len()).step_by(31_337)) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        world.put(&bytes);
        let purge_table = world.open();
        assert!(purge_table.is_purged(&tag("news"), &[], asked), "byte {at}");
        assert!(purge_table.is_purged(&[], &groups, asked), "byte {at}");
        assert!(
            !purge_table.is_purged(&tag("news"), &groups, purge_table.sequence()),
            "byte {at}: it can be kept again"
        );
    }
    for length in [0, 1, 511, 512, 4096, whole.len() - 1] {
        world.put(&whole[..length]);
        assert!(world.open().is_purged(&tag("news"), &[], asked), "{length} bytes are left");
    }
}

#[tokio::test]
async fn damage_is_mended_and_costs_hits_once() {
    let world = World::new();
    drop(world.open());
    let mut bytes = world.bytes();
    let slot = tag("news");
    bytes[layout::piece_of_slot(usize::from(slot[0].0)) as usize * 512] ^= 1;
    world.put(&bytes);
    let purge_table = world.open();
    let after = purge_table.sequence();
    purge_table.wait_written().await.expect("written");
    drop(purge_table);
    assert!(!world.open().is_purged(&slot, &[], after));
}

#[tokio::test]
async fn table_of_earlier_versions_is_taken_up() {
    for length in [524_288, 1_310_720] {
        let world = World::new();
        let asked = |millis| Sequence::new(NOW.millis() + millis);
        let mut bytes = vec![0; length];
        let at = usize::from(tag("news")[0].0) * 8;
        bytes[at..at + 8].copy_from_slice(&(NOW.millis() + 5).to_le_bytes());
        world.put(&bytes);
        for _ in 0..2 {
            let purge_table = world.open();
            assert!(
                purge_table.is_purged(&tag("news"), &[], asked(5))
                    && !purge_table.is_purged(&tag("news"), &[], asked(6))
            );
            assert!(!purge_table.is_purged(&tag("sport"), &[], asked(5)));
            purge_table.purge(PurgeScope::Tag("weather"));
            assert!(purge_table.is_purged(&tag("weather"), &[], asked(1_000_000)));
            purge_table.wait_written().await.expect("written");
            assert_eq!(world.bytes().len() as u64, PurgeTable::BYTES);
        }
    }
}

#[tokio::test]
async fn attached_file_merges_both_sides_purges() {
    // Numbers before those of the file, and behind them.
    for now in [Timestamp::from_millis(0), Timestamp::from_seconds(4_000_000_000)] {
        let world = World::new();
        let earlier = world.open();
        let asked = earlier.sequence();
        earlier.purge(PurgeScope::Tag("sport"));
        earlier.wait_written().await.expect("written");
        let purge_table = PurgeTable::in_memory(now);
        purge_table.detach_file("its disk is away");
        purge_table.purge(PurgeScope::Tag("news"));
        assert_eq!(&*purge_table.wait_written().await.expect_err("it has no file"), "its disk is away");
        purge_table.attach_file(&world.path()).expect("read");
        let check = |purge_table: &PurgeTable| {
            assert!(
                purge_table.is_purged(&tag("sport"), &[], asked)
                    && purge_table.is_purged(&tag("news"), &[], asked)
            );
            assert!(!purge_table.is_purged(&tag("weather"), &[], asked));
        };
        check(&purge_table);
        assert!(!purge_table.is_purged(&tag("news"), &[], purge_table.sequence()));
        purge_table.wait_written().await.expect("written");
        let next = world.open();
        check(&next);
    }
}

#[tokio::test]
async fn reattached_file_continues_its_era() {
    let world = World::new();
    let purge_table = world.open();
    let before = purge_table.sequence();
    purge_table.detach_file("its disk is away");
    purge_table.purge(PurgeScope::Tag("news"));
    let meanwhile = purge_table.sequence();
    purge_table.attach_file(&world.path()).expect("it is back");
    for asked in [before, meanwhile] {
        assert!(!purge_table.is_purged(&tag("sport"), &[], asked), "RAM keeps what it has");
    }
    purge_table.wait_written().await.expect("written");
    let next = world.open();
    assert!(next.is_purged(&tag("news"), &[], before) && !next.is_purged(&tag("news"), &[], meanwhile));
}

#[tokio::test]
async fn many_purges_stay_known_after_a_kill() {
    let world = World::new();
    let purge_table = world.open();
    for _ in 0..3_000_000 {
        purge_table.next();
    }
    purge_table.purge(PurgeScope::Tag("sport"));
    let asked = purge_table.sequence();
    purge_table.wait_written().await.expect("written");
    std::mem::forget(purge_table);
    assert!(!world.open().is_purged(&tag("news"), &[], asked));
}

#[tokio::test]
async fn a_table_that_is_let_go_of_leaves_its_disk_free() {
    let world = World::new();
    let purge_table = world.open();
    purge_table.purge(PurgeScope::All);
    purge_table.wait_written().await.expect("written");
    purge_table.detach_file("its disk is away");
    let is_open = || {
        let open = std::fs::read_dir("/proc/self/fd").expect("there");
        open.flatten().any(|open| std::fs::read_link(open.path()).is_ok_and(|target| target == world.path()))
    };
    let begun = Instant::now();
    while is_open() {
        assert!(begun.elapsed() < Duration::from_secs(10), "its file stays open");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
