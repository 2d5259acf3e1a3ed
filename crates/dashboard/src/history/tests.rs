//! Histories against a slow, obvious version; bytes that read back; doubtful bytes.

use super::*;
use proptest::prelude::*;

fn sample(value: f32) -> Sample {
    [value; SERIES.len()]
}

/// Returns a history of these seconds, each with its value.
fn filled(seconds: impl Iterator<Item = (u64, f32)>) -> History {
    let mut history = History::default();
    for (unix_s, value) in seconds {
        history.record(unix_s, &sample(value));
        history.invariants();
    }
    history
}

#[test]
fn coarser_steps_hold_means_and_largest_times() {
    let history = filled((6000..6122).map(|second| (second, (second % 60) as f32)));
    let document = history.document(6120, 60);
    assert_eq!((document.start, document.step_s), (6060, 2));
    assert_eq!(document.series["requests"].len(), 30);
    assert_eq!(document.series["requests"][1], Some(2.5));
    let document = history.document(6120, 3600);
    assert_eq!((document.start, document.step_s), (6120 - 3600, 15));
    assert_eq!((document.series["p50_us"][239], document.series["p99_us"][239]), (Some(52.0), Some(59.0)));
    assert_eq!(document.series["requests"][100], None, "nothing was recorded then");
    let document = history.document(6120, 86_400);
    assert_eq!((document.start, document.step_s), (0, 60));
    assert_eq!((document.series["errors"].len(), document.series["errors"][101]), (102, Some(29.5)));
    assert_eq!(history.sums(6120, 120, ["hits", "none"]), [Some(29.5 * 120.0), None]);
}

#[test]
fn points_join_steps() {
    let history = filled((6000..6121).map(|second| (second, (second % 60) as f32)));
    let document = history.document(6120, 61).in_points(4);
    // Of 31 steps of two seconds, the last 24 fill whole ones of sixteen.
    assert_eq!((document.start, document.step_s), (6072, 16));
    assert_eq!(document.series["requests"].len(), 3);
    assert_eq!((document.series["p50_us"][0], document.series["p99_us"][0]), (Some(19.5), Some(27.0)));
    let whole = history.document(6120, 60);
    assert_eq!(whole.clone().in_points(usize::MAX), whole);
}

#[test]
fn memory_is_fixed() {
    let history = filled((0..200_000).map(|second| (second, 1.0)));
    assert!(history.memory_bytes() < 160_000, "{}", history.memory_bytes());
    const { assert!(History::BYTES_MAX < 130_000) };
    assert_eq!(history.to_bytes().len(), History::BYTES_MAX);
}

#[test]
fn clock_steps_leave_gaps_and_drop_later_entries() {
    let mut history = filled((1_000_000..1_000_600).map(|second| (second, 1.0)));
    history.record(1_000_300, &sample(5.0));
    history.record(1_000_302, &sample(5.0));
    history.invariants();
    let values = history.document(1_000_302, 6).series["requests"].clone();
    assert_eq!(values, [Some(1.0), Some(1.0), Some(5.0)]);
    assert_eq!(history.document(1_000_600, 4).series["requests"], [None, None]);
    history.record(9_000_000, &sample(7.0));
    history.record(9_000_060, &sample(7.0));
    history.invariants();
    let values = history.document(9_000_060, 86_400).series["requests"].clone();
    assert_eq!((values[1439], values.iter().flatten().count()), (Some(7.0), 1));
    history.record(0, &sample(1.0));
    history.record(u64::MAX, &sample(1.0));
    history.invariants();
}

#[test]
fn unknown_values_stay_unknown() {
    let mut history = History::default();
    let mut values = sample(1.0);
    values[0] = f32::NAN;
    (100..110).for_each(|second| history.record(second, &values));
    let document = history.document(108, 4);
    assert_eq!((document.series["requests"][0], document.series["hits"][0]), (None, Some(1.0)));
}

#[test]
fn bytes_read_back_and_doubtful_ones_are_refused() {
    let history = filled((50_000..60_001).map(|second| (second, second as f32)));
    let bytes = history.to_bytes();
    let read = History::from_bytes(&bytes, 60_000).expect("our own bytes");
    assert_eq!(read.document(60_000, 600), history.document(60_000, 600));
    assert_eq!(read.document(60_000, 86_400), history.document(60_000, 86_400));
    // Entries of times to come are dropped.
    let earlier = History::from_bytes(&bytes, 55_000).expect("our own bytes");
    assert_eq!(earlier.document(60_000, 600).series["requests"].iter().flatten().count(), 0);
    for at in [0, 9, 20, bytes.len() / 2, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(History::from_bytes(&changed, 60_000).is_err(), "byte {at}");
    }
    for length in [0, 7, 8, 16, bytes.len() - 1] {
        assert!(History::from_bytes(&bytes[..length], 60_000).is_err(), "{length} bytes");
    }
    assert_eq!(
        History::from_bytes(&[&bytes[..], b"x"].concat(), 60_000),
        Err(HistoryFileError::Corrupt),
        "more than our bytes"
    );
}

proptest! {
    /// A second's value is found again, after any seconds in any order.
    #[test]
    fn finest_level_agrees_with_a_map(steps in prop::collection::vec((0..4_u64, 1..9_u64), 1..200)) {
        let (mut history, mut known) = (History::default(), std::collections::BTreeMap::new());
        let mut now = 10_000;
        for (kind, by) in steps {
            // Mostly on, seldom back.
            now = if kind == 0 { now - by.min(5) } else { now + by };
            known.retain(|second, _| *second / 2 < now / 2 || *second == now);
            history.record(now, &sample(now as f32));
            known.insert(now, ());
            history.invariants();
        }
        let document = history.document(now, 600);
        for (at, value) in document.series["requests"].iter().enumerate() {
            let step = document.start / 2 + at as u64;
            let has = known.keys().any(|second| second / 2 == step);
            prop_assert!(value.is_none() || has, "step {step} of {known:?}");
        }
        let bytes = history.to_bytes();
        let read = History::from_bytes(&bytes, now).expect("our own bytes");
        prop_assert_eq!(read.document(now, 600), document);
    }
}
