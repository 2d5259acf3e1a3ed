//! The promises of the summary, against exact sums.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap as Exact;

fn key(number: u64) -> Key {
    Key::of(&number.to_le_bytes())
}

/// Adds a stream of numbers with weights. Checks every promise against the exact sums.
fn check(capacity: usize, stream: impl IntoIterator<Item = (u64, u64)>) -> HeavyHitters<u64> {
    let (mut summary, mut exact) = (HeavyHitters::new(capacity), Exact::<u64, u64>::new());
    for (number, weight) in stream {
        summary.add(key(number), weight, || number);
        *exact.entry(number).or_default() += weight;
    }
    let total = exact.values().sum::<u64>();
    assert_eq!(summary.total(), total);
    assert!(summary.least() <= total / capacity as u64, "{} of {total}", summary.least());
    assert!(summary.entries().len() <= capacity);
    let listed: Exact<u64, &HeavyEntry<u64>> =
        summary.entries().iter().map(|entry| (entry.value, entry)).collect();
    for (number, weight) in exact {
        match listed.get(&number) {
            Some(entry) => {
                assert!((entry.count - entry.error..=entry.count).contains(&weight), "{entry:?}: {weight}");
                assert!(entry.error <= total / capacity as u64, "{entry:?} of {total}");
            }
            None => assert!(weight <= summary.least(), "{number} has {weight} and is not listed"),
        }
    }
    for (child, entry) in summary.entries.iter().enumerate().skip(1) {
        assert!(summary.entries[(child - 1) / 2].count <= entry.count, "the heap is in order");
    }
    for (place, entry) in summary.entries.iter().enumerate() {
        assert_eq!(summary.places.get(&entry.key), Some(&place));
    }
    summary
}

proptest! {
    #[test]
    fn counts_and_errors_keep_their_bounds(
        capacity in 1..20_usize,
        stream in prop::collection::vec((0..60_u64, 0..50_u64), 0..600),
    ) {
        check(capacity, stream);
    }
}

#[test]
fn few_keys_are_counted_exactly() {
    let summary = check(8, (0..800).map(|step| (step % 8, 1)));
    assert!(summary.entries().iter().all(|entry| (entry.count, entry.error) == (100, 0)));
}

/// An attacker sends a hundred thousand keys once each. The true heavy hitters stay.
#[test]
fn flood_of_unique_keys_displaces_no_heavy_one() {
    let flood = (0..100_000_u64).map(|number| match number % 100 {
        0 => (number / 100 % 5, 1),
        _ => (1_000_000 + number, 1),
    });
    let summary = check(128, flood);
    for heavy in 0..5 {
        let entry = summary.entries().iter().find(|entry| entry.value == heavy);
        let entry = entry.unwrap_or_else(|| panic!("{heavy} was displaced"));
        assert!(entry.count - entry.error >= 150, "{entry:?}");
    }
}

/// A flood that comes after the heavy keys needs their weight for each place of the list.
#[test]
fn flood_must_outweigh_a_key_for_each_place() {
    let heavy = (0..4).map(|number| (number, 100));
    let flood = (0..127 * 99).map(|number| (1_000 + number, 1));
    let summary = check(128, heavy.chain(flood));
    assert!((0..4).all(|number| summary.entries().iter().any(|entry| entry.value == number)));
}

#[test]
fn weight_of_nothing_lists_nothing() {
    let mut summary = HeavyHitters::new(2);
    assert_eq!(summary.add(key(1), 0, || 1), None);
    assert_eq!(summary.add(key(1), 5, || 1).copied(), Some(1));
    assert_eq!(summary.add(key(1), 0, || 1).copied(), Some(1));
    assert_eq!((summary.entries().len(), summary.total(), summary.least()), (1, 5, 0));
}
