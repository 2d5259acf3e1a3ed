//! Entries of the index of a volume: places, moves, counts.

use super::*;

fn table(buckets: u64) -> VolumeIndex {
    let words = VolumeIndex::file_bytes(buckets, 4) / 8;
    let loaded: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
    VolumeIndex::new(Box::new(loaded), buckets, 4, 0, true)
}

#[test]
fn duplicate_entry_goes_with_its_object() {
    let table = table(64);
    let key = Key::of(b"twice");
    let others = || table.places(key).skip(1);
    for same in [true, false] {
        table.put(key, 64, 1, 0);
        others().step_by(4).for_each(|at| table.set(at, VolumeEntry::new(key, 64, 1, 2).0));
        table.put(key, if same { 64 } else { 128 }, 1, 0);
        assert_eq!((table.candidates(key).count(), table.objects()), (1, 1));
        let entry = table.candidates(key).next().expect("the latest");
        assert!(table.remove(key, entry) && table.objects() == 0);
    }
}

#[test]
fn nine_of_ten_places_fill_before_evictions() {
    let table = table(512);
    let keys: Vec<Key> = (0..512 * WAYS as u64 * 9 / 10).map(|n| Key::of(&n.to_le_bytes())).collect();
    for (number, key) in keys.iter().enumerate() {
        table.put(*key, (number as u64 + 1) * UNIT_BYTES, 1, 0);
    }
    let at = |number: usize| (number as u64 + 1) * UNIT_BYTES;
    let found = (0..keys.len()).filter(|number| table.entry_at(keys[*number], at(*number)).is_some()).count();
    assert_eq!(table.objects(), found as u64);
    assert!(keys.len() - found <= table.crowded_out() as usize + 4, "a few are alike");
    assert!(table.crowded_out() < keys.len() as u64 / 50, "{} crowded out", table.crowded_out());
}
