//! Changed bytes in the mapped file: counted misses, and never a wrong body.

use super::*;
use crate::StoreView;
use crate::fs::{Access, FileSystem, read_full};
use proptest::prelude::*;

for_each_with_segments! {
    any_flipped_bit_of_a_record_is_noticed,
    corrupt_object_is_dropped_and_its_slot_reused,
    misplaced_record_is_refused,
    an_older_version_in_its_place_is_a_miss,
    metadata_update_keeps_body_damage_visible,
    mapped_file_of_wrong_length_costs_misses_only,
}

/// Makes a store with some objects of each segment size.
fn filled(architecture: &str) -> World {
    let world = world(architecture, 2 << 20, 256 << 10, 300);
    let store = world.open();
    (0..20).for_each(|n| put(&store, n, 1, length_of(n)).unwrap());
    store.close().unwrap();
    world
}

fn length_of(n: u64) -> usize {
    fitting(99, SEGMENTS[n as usize % 5]) - n as usize
}

fn bytes_of(world: &World, path: &str) -> Vec<u8> {
    let mut bytes = vec![0; world.files.length(path).unwrap() as usize];
    let read = read_full(&*world.files.open(path, Access::Read).unwrap(), &mut bytes, 0).unwrap();
    assert_eq!(read, bytes.len());
    bytes
}

/// Returns the offset in the mapped file of bytes that occur there once.
fn find(bytes: &[u8], wanted: &[u8]) -> usize {
    bytes.windows(wanted.len()).position(|window| window == wanted).expect("they stand there")
}

/// Returns the offset of object `n`'s full key: metadata follows the key.
fn key_at(bytes: &[u8], n: u64) -> usize {
    find(bytes, &[key(n).full(), &metadata_of(n, 1, length_of(n))].concat())
}

/// Returns the offset of the object's body.
fn body_at(bytes: &[u8], n: u64) -> usize {
    find(bytes, &body_of(n, 1, 200))
}

/// Returns `true` if the object is there, `false` if it is absent; fails if it is wrong.
fn is_right(store: &dyn Store, n: u64, what: &str) -> bool {
    let Some(found) = fetch(store, n) else { return false };
    assert_eq!(found, (metadata_of(n, 1, length_of(n)), body_of(n, 1, length_of(n))), "{what}: {n}");
    true
}

fn any_flipped_bit_of_a_record_is_noticed(architecture: &str) {
    let world = filled(architecture);
    let mapped = mapped_file(architecture);
    let bytes = bytes_of(&world, &mapped);
    for n in [0, 4] {
        let (key_at, body_at) = (key_at(&bytes, n), body_at(&bytes, n));
        let head = key(n).full().len() + metadata_of(n, 1, length_of(n)).len();
        // Every bit of header, key, metadata and checksum, and one bit of some bytes of the body.
        // The room between metadata and body may hold any bytes.
        let every = (key_at - HEADER_BYTES..key_at + head)
            .chain(body_at + length_of(n)..body_at + length_of(n) + 8)
            .flat_map(|byte| (0..8).map(move |bit| (byte, bit)));
        let some = (body_at..body_at + length_of(n)).step_by(61).map(|byte| (byte, byte % 8));
        for (byte, bit) in every.chain(some) {
            let flip = |bytes: &mut Vec<u8>| bytes[byte] ^= 1 << bit;
            world.files.tamper(&mapped, flip);
            let store = world.after_kill().open();
            let what =
                format!("bit {bit} of byte {byte}, the key being at {key_at} and the body at {body_at}");
            assert!(!is_right(&store, n, &what), "{what}");
            world.files.tamper(&mapped, flip);
        }
        assert!(is_right(&world.after_kill().open(), n, "mended"));
    }
}

fn corrupt_object_is_dropped_and_its_slot_reused(architecture: &str) {
    let world = filled(architecture);
    let mapped = mapped_file(architecture);
    let bytes = bytes_of(&world, &mapped);
    let store = world.open();
    for n in 0..20 {
        let middle = body_at(&bytes, n) + length_of(n) / 2;
        world.files.tamper(&mapped, |bytes| bytes[middle] ^= 1);
    }
    assert_eq!((0..20).filter(|n| is_right(&store, *n, "damaged")).count(), 0);
    let usage = store.usage();
    assert_eq!((usage.corrupt, usage.objects), (20, 0));
    assert!((0..20).all(|n| !store.may_contain(&key(n))));
    for round in 0..3 {
        (0..20).for_each(|n| put(&store, n, 1, length_of(n)).unwrap());
        assert!((0..20).all(|n| is_right(&store, n, "stored again")), "{round}");
    }
    assert_eq!((store.usage().corrupt, store.usage().objects), (20, 20));
}

fn misplaced_record_is_refused(architecture: &str) {
    let world = filled(architecture);
    let mapped = mapped_file(architecture);
    let bytes = bytes_of(&world, &mapped);
    // Two objects of one size change places, 512 bytes at a time, so that the test needs no layout.
    let (a, b) = (key_at(&bytes, 2) / 512 * 512, key_at(&bytes, 7) / 512 * 512);
    for units in 1..=4 {
        world.files.tamper(&mapped, |now| {
            now[a..a + units * 512].copy_from_slice(&bytes[b..b + units * 512]);
            now[b..b + units * 512].copy_from_slice(&bytes[a..a + units * 512]);
        });
        let store = world.after_kill().open();
        assert!(!is_right(&store, 2, "swapped") && !is_right(&store, 7, "swapped"), "{units}");
        assert!((0..20).filter(|n| *n != 2 && *n != 7).all(|n| is_right(&store, n, "a neighbour")));
        world.files.tamper(&mapped, |now| now.clone_from(&bytes));
    }
}

fn an_older_version_in_its_place_is_a_miss(architecture: &str) {
    let world = filled(architecture);
    let mapped = mapped_file(architecture);
    let old = bytes_of(&world, &mapped);
    let store = world.open();
    for n in 0..20 {
        assert!(store.update_metadata(&key(n), &metadata_of(n, 2, length_of(n)), &|_| true).unwrap());
    }
    let new = bytes_of(&world, &mapped);
    // Half of the units are old, as after an unnoticed power loss. Either version or a miss, and no
    // mixture.
    for odd in [0, 1] {
        world.files.tamper(&mapped, |now| {
            for (unit, bytes) in now.chunks_mut(512).enumerate() {
                let source = if unit % 2 == odd { &old } else { &new };
                bytes.copy_from_slice(&source[unit * 512..unit * 512 + bytes.len()]);
            }
        });
        let store = world.after_kill().open();
        for n in 0..20 {
            let Some((metadata, body)) = fetch(&store, n) else { continue };
            let is_one = [1, 2].iter().any(|version| metadata == metadata_of(n, *version, length_of(n)));
            assert!(is_one && body == body_of(n, 1, length_of(n)), "{n}");
        }
    }
}

fn metadata_update_keeps_body_damage_visible(architecture: &str) {
    let world = filled(architecture);
    let mapped = mapped_file(architecture);
    let bytes = bytes_of(&world, &mapped);
    let store = world.open();
    for n in 0..20 {
        let at = body_at(&bytes, n) + 100;
        world.files.tamper(&mapped, |bytes| bytes[at] ^= 4);
        let updated = store.update_metadata(&key(n), b"seen again", &|_| true);
        // The body has changed, with any result of the update.
        drop(updated);
        assert_eq!(fetch(&store, n), None, "{n}");
    }
}

fn mapped_file_of_wrong_length_costs_misses_only(architecture: &str) {
    for change in [-1_i64, -5_000, 1, 8_192, i64::MIN] {
        let world = filled(architecture);
        let mapped = mapped_file(architecture);
        world.files.tamper(&mapped, |bytes| {
            let length = (bytes.len() as i64).saturating_add(change).max(0);
            bytes.resize(length as usize, 0);
        });
        let store = match world.try_open_through(world.files.clone()) {
            Ok(store) => store,
            Err(Error::Unusable(why)) => {
                assert!(why.contains(&mapped), "{why}");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        (0..20).for_each(|n| _ = is_right(&store, n, "another length"));
        for n in 0..20 {
            put(&store, n, 1, length_of(n)).unwrap();
            assert!(is_right(&store, n, "stored again"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn random_damage_costs_misses_only(seed: u64, changes in 1_u64..80, which in 0..3_usize) {
        let architecture = ["squidm", "squidml", "squidmla"][which];
        let world = filled(architecture);
        let mapped = mapped_file(architecture);
        let mut random = Random(seed);
        let used = 20 * 8_192;
        for _ in 0..changes {
            world.files.tamper(&mapped, |bytes| {
                let at = random.below(bytes.len().min(used) as u64) as usize;
                let run = (1 + random.below(600) as usize).min(bytes.len() - at);
                match random.below(4) {
                    0 => bytes[at] ^= 1 << random.below(8),
                    1 => bytes[at..at + run].fill(random.below(256) as u8),
                    2 => bytes[at..at + run].rotate_left(run / 2),
                    _ => {
                        let from = random.below((bytes.len().min(used) - run) as u64) as usize;
                        bytes.copy_within(from..from + run, at);
                    }
                }
            });
        }
        let store = world.open();
        (0..20).for_each(|n| _ = is_right(&store, n, "damaged"));
        for n in 100..140 {
            put(&store, n, 1, length_of(n)).unwrap();
            prop_assert!(is_right(&store, n, "new"));
        }
        maintain(&store.core);
        let found = (0..140).filter(|n| is_right(&store, *n, "in the end")).count();
        prop_assert_eq!(store.usage().objects, found as u64);
    }

    /// Damages the side words and everything else in the index; the mapped file is intact.
    #[test]
    fn an_index_with_random_damage_costs_misses_only(seed: u64, changes in 1_u64..200, which in 0..3_usize) {
        use crate::index::Words;
        let world = filled(["squidm", "squidml", "squidmla"][which]).after_kill();
        let words = world.home.words().unwrap();
        let mut random = Random(seed);
        for _ in 0..changes {
            let at = 8 + random.below(words.count() as u64 - 8) as usize;
            let value = match random.below(3) {
                0 => 0,
                1 => words.load(at) ^ 1 << random.below(64),
                _ => random.below(u64::MAX),
            };
            words.store(at, value);
        }
        let store = world.open();
        for round in 0..3 {
            (0..20).for_each(|n| _ = is_right(&store, n, "before the repair"));
            for n in 100..110 {
                // While all entries are suspect an insert may be declined.
                let stored = put(&store, n, 1, length_of(n)).is_ok();
                prop_assert!(is_right(&store, n, "new") || !stored || round == 0);
            }
            maintain(&store.core);
        }
        for n in 100..110 {
            put(&store, n, 1, length_of(n)).unwrap();
            prop_assert!(is_right(&store, n, "after the repair"));
        }
        let usage = store.usage();
        prop_assert!(usage.bytes <= usage.bytes_max);
    }
}
