//! Tests of the state: budgets, turns, uses and waste.

use super::super::hint::HintPlace;
use super::*;
use proptest::prelude::*;

fn hint(source: HintSource, key: u64) -> Hint {
    Hint::new(source, HintPlace::Url { url: format!("http://a.test/{key}"), listener: 0, key, is_site: true })
}

/// Returns the account of a source's hints for sites.
fn own(source: HintSource) -> AccountKey {
    AccountKey { source, is_own: true }
}

fn settings() -> Prefetch {
    Prefetch { requests: 4, ..Prefetch::default() }
}

/// Begins all that may begin at `now`.
fn begin(state: &mut PrefetchState, settings: &Prefetch, now: f64, watched: &WatchedKeys) -> Vec<Hint> {
    let mut begun = Vec::new();
    while let NextStep::Fetch(hint, _) = state.next(settings, (now, 0, 0), watched) {
        begun.push(*hint);
    }
    begun
}

fn kept(key: u64, bytes: u64) -> FetchEnd {
    FetchEnd::Kept { key, bytes, is_wanted: false, next: Vec::new() }
}

fn end(state: &mut PrefetchState, hint: &Hint, end: FetchEnd, now: f64, watched: &WatchedKeys) {
    if let FetchEnd::Kept { bytes, .. } = &end {
        state.arrived(hint.account(), *bytes);
    }
    state.ended(hint, end, &settings(), now, watched);
}

#[test]
fn list_is_fetched_in_order_and_used() {
    let (mut state, watched, settings) = (PrefetchState::default(), WatchedKeys::default(), settings());
    let hints = (1..=6).map(|key| (hint(HintSource::List, key), None)).collect();
    state.add_list(HintSource::List, hints, (None, 1e9), 0.0).expect("room");
    let begun = begin(&mut state, &settings, 0.0, &watched);
    assert_eq!(begun.iter().map(|hint| hint.number).collect::<Vec<_>>(), [1, 2, 3, 4], "four at a time");
    begun.iter().for_each(|hint| end(&mut state, hint, kept(hint.number, 10), 0.1, &watched));
    assert_eq!(begin(&mut state, &settings, 0.1, &watched).len(), 2);
    assert_eq!(state.asked(1, None, 0.2), (true, Some(HintSource::List)));
    assert_eq!(state.asked(1, None, 0.2), (false, None), "once");
    assert_eq!(state.asked(99, None, 0.2), (false, None));
    let counts = state.account(own(HintSource::List)).counts();
    assert_eq!((counts.received, counts.prefetched, counts.used, counts.used_bytes), (6, 6, 1, 10));
    assert_eq!(state.sizes(), [5, 2, 3, 30]);
    assert_eq!(state.asked(5, None, 0.2), (true, None), "a hint that waits");
}

#[test]
fn unused_answers_are_waste_and_mute_their_source() {
    let (mut state, watched, settings) = (PrefetchState::default(), WatchedKeys::default(), settings());
    let mut now = 0.0;
    for key in 1..=8 {
        state.add(vec![hint(HintSource::Link, key)], now);
        for hint in begin(&mut state, &settings, now, &watched) {
            watched.add(hint.number);
            end(&mut state, &hint, kept(hint.number, 100), now, &watched);
        }
    }
    now += settings.use_within.as_secs_f64() + 1.0;
    state.add(vec![hint(HintSource::Link, 50)], now);
    assert!(begin(&mut state, &settings, now, &watched).is_empty(), "muted");
    let account = state.account(own(HintSource::Link));
    assert!(account.muted_until(now).is_some());
    assert_eq!((account.counts().wasted, account.counts().wasted_bytes), (8, 800));
    assert!(watched.is_empty() && state.is_idle());
    state.add(vec![hint(HintSource::List, 60)], now);
    assert_eq!(begin(&mut state, &settings, now, &watched).len(), 1, "other sources go on");
}

#[test]
fn forward_mode_mutes_no_site() {
    let (mut state, watched, settings) = (PrefetchState::default(), WatchedKeys::default(), settings());
    let elsewhere = |source: HintSource, key: u64| {
        let url = format!("http://stranger.test/{key}");
        Hint::new(source, HintPlace::Url { url, listener: 0, key, is_site: false })
    };
    for key in 1..=8 {
        state.add(vec![elsewhere(HintSource::Link, key)], 0.0);
        for hint in begin(&mut state, &settings, 0.0, &watched) {
            end(&mut state, &hint, FetchEnd::Useless { bytes: 0 }, 0.0, &watched);
        }
    }
    state.add(vec![elsewhere(HintSource::Link, 20), hint(HintSource::Link, 21)], 1.0);
    let begun = begin(&mut state, &settings, 1.0, &watched);
    assert_eq!(begun.iter().map(|hint| hint.number).collect::<Vec<_>>(), [21], "of the site alone");
    let mutes: Vec<bool> =
        state.accounts_of(HintSource::Link).map(|account| account.muted_until(1.0).is_some()).collect();
    assert_eq!(mutes, [false, true]);
    let list = vec![(hint(HintSource::List, 30), None), (elsewhere(HintSource::List, 31), None)];
    state.add_list(HintSource::List, list, (None, 1e9), 1.0).expect("room");
    assert_eq!(begin(&mut state, &settings, 1.0, &watched).len(), 2, "a list may have both");
    let forward = AccountKey { source: HintSource::List, is_own: false };
    assert_eq!(state.account(forward).counts().prefetched, 1);
}

#[test]
fn overloaded_origin_is_left_alone() {
    let (mut state, watched, settings) = (PrefetchState::default(), WatchedKeys::default(), settings());
    state.add(vec![hint(HintSource::Link, 1)], 0.0);
    let begun = begin(&mut state, &settings, 0.0, &watched);
    end(&mut state, &begun[0], FetchEnd::Refused { retry_after_seconds: Some(9.0) }, 0.0, &watched);
    state.add(vec![hint(HintSource::Link, 2)], 8.0);
    assert!(begin(&mut state, &settings, 8.0, &watched).is_empty());
    state.add(vec![hint(HintSource::Link, 3)], 9.5);
    assert_eq!(begin(&mut state, &settings, 9.5, &watched).len(), 1);
}

#[test]
fn listed_hint_is_tried_three_times() {
    let (mut state, watched, settings) = (PrefetchState::default(), WatchedKeys::default(), settings());
    state
        .add_list(HintSource::List, vec![(hint(HintSource::List, 7), None)], (None, 1e9), 0.0)
        .expect("room");
    let begun = begin(&mut state, &settings, 0.0, &watched);
    state.arrived(own(HintSource::List), 5);
    end(&mut state, &begun[0], FetchEnd::GaveWay { bytes: 5, was_asked: true }, 0.0, &watched);
    assert!(begin(&mut state, &settings, 0.05, &watched).is_empty(), "a moment later at the earliest");
    for now in [0.2, 0.4] {
        let again = begin(&mut state, &settings, now, &watched);
        assert_eq!(again.len(), 1, "at {now} s");
        let gave_way = FetchEnd::GaveWay { bytes: 0, was_asked: true };
        end(&mut state, &again[0], gave_way, now, &watched);
    }
    assert!(begin(&mut state, &settings, 9.0, &watched).is_empty(), "three times are enough");
    assert_eq!(state.account(own(HintSource::List)).counts().wasted_bytes, 5);
}

#[test]
fn budget_and_processors_hold_fetches_back() {
    let (mut state, watched) = (PrefetchState::default(), WatchedKeys::default());
    let settings = Prefetch { bytes: shoal_core::ByteCount(100), ..settings() };
    state.add(vec![hint(HintSource::Link, 1)], 0.0);
    assert!(matches!(state.next(&settings, (0.0, 0, 81), &watched), NextStep::Wait(_)), "busy processors");
    let NextStep::Fetch(first, allowance) = state.next(&settings, (0.0, 0, 80), &watched) else {
        panic!("a fetch")
    };
    assert_eq!(allowance, 100);
    end(&mut state, &first, kept(1, 100), 0.0, &watched);
    state.add(vec![hint(HintSource::Link, 2)], 0.0);
    assert!(matches!(state.next(&settings, (0.0, 0, 0), &watched), NextStep::Wait(_)), "no room");
    state.asked(1, None, 0.0);
    assert!(matches!(state.next(&settings, (0.0, 0, 0), &watched), NextStep::Fetch(..)));
}

#[test]
fn repeated_and_endless_hints_are_refused() {
    let (mut state, watched) = (PrefetchState::default(), WatchedKeys::default());
    state.add(vec![hint(HintSource::Link, 1), hint(HintSource::Link, 1)], 0.0);
    assert_eq!(state.account(own(HintSource::Link)).counts().refused, 1);
    state.add((10..10_000).map(|key| hint(HintSource::Link, key)).collect(), 0.0);
    assert_eq!(state.sizes()[0], SINGLES_MAX as u64);
    for _ in 0..LISTS_MAX {
        let one = vec![(hint(HintSource::List, 5), None)];
        state.add_list(HintSource::List, one, (None, 1e9), 0.0).expect("room");
    }
    let more = state.add_list(HintSource::List, vec![(hint(HintSource::List, 6), None)], (None, 1e9), 0.0);
    assert_eq!(more, Err(HintRefusal::Full));
    let begun = begin(&mut state, &settings(), 0.0, &watched);
    assert_eq!(begun.len(), 4);
}

#[test]
fn page_that_is_used_gives_its_links() {
    let (mut state, watched, settings) = (PrefetchState::default(), WatchedKeys::default(), settings());
    state.add(vec![hint(HintSource::Link, 1)], 0.0);
    let begun = begin(&mut state, &settings, 0.0, &watched);
    let next = vec![hint(HintSource::Link, 2)];
    let end_of_first = FetchEnd::Kept { key: 1, bytes: 5, is_wanted: false, next };
    end(&mut state, &begun[0], end_of_first, 0.0, &watched);
    assert!(begin(&mut state, &settings, 0.1, &watched).is_empty(), "no chain without a client");
    let client = [192, 0, 2, 7].into();
    state.asked(1, Some(client), 0.2);
    let begun = begin(&mut state, &settings, 0.2, &watched);
    assert_eq!((begun[0].number, begun[0].reader), (2, Some(client)), "in the name of that client");
}

#[test]
fn hints_of_other_nodes_wait_for_the_origin() {
    let (mut state, watched, settings) = (PrefetchState::default(), WatchedKeys::default(), settings());
    let placed = |key| Hint { asker: Some([192, 0, 2, 1].into()), ..hint(HintSource::Peer, key) };
    assert!((1..=9).all(|key| state.add_placed(placed(key), 0.0)));
    assert!(state.add_placed(placed(9), 0.0), "known");
    let mut begun = begin(&mut state, &settings, 0.0, &watched);
    assert_eq!((begun.len(), state.sizes()[0]), (4, 5), "none is lost");
    assert!(begun.iter().all(|hint| hint.asks_origin));
    end(&mut state, &begun.remove(0), FetchEnd::GaveWay { bytes: 0, was_asked: true }, 0.0, &watched);
    assert!(begin(&mut state, &settings, 0.01, &watched).is_empty(), "clients need the origin");
    begun.iter().for_each(|hint| end(&mut state, hint, kept(hint.number, 10), 1.0, &watched));
    assert_eq!(state.asked(6, None, 1.0), (false, None), "a client fetches it itself");
    let later = begin(&mut state, &settings, 1.0, &watched);
    assert_eq!(later.iter().map(|hint| hint.number).collect::<Vec<_>>(), [5, 7, 8, 9]);
    let gave_way = || FetchEnd::GaveWay { bytes: 0, was_asked: false };
    end(&mut state, &later[0], gave_way(), 50.0, &watched);
    let again = begin(&mut state, &settings, 51.0, &watched);
    assert_eq!(again.first().map(|hint| hint.number), Some(1), "it gave way before");
    state.expire(99.0, &rules(&settings), &watched);
    assert_eq!(state.sizes()[0], 0, "of use for a minute in all");
}

#[test]
fn origin_with_a_limit_holds_no_other_up() {
    let (mut state, watched, settings) =
        (PrefetchState::default(), WatchedKeys::default(), Prefetch { requests: 8, ..settings() });
    let elsewhere = |key| {
        let url = format!("http://b.test/{key}");
        Hint::new(HintSource::List, HintPlace::Url { url, listener: 0, key, is_site: true })
    };
    // A disk: each answer takes as long as all before it.
    for at in 1..200 {
        let mut own = hint(HintSource::List, 1);
        assert!(state.begin_at_origin(&mut own, 0.0));
        state.origins.prefetched(own.origin(), 0.01 * f64::from(at.min(2)), 0.0);
        state.origins.end(own.origin());
    }
    let hints =
        (1..=40).map(|key| (if key == 40 { elsewhere(key) } else { hint(HintSource::List, key) }, None));
    state.add_list(HintSource::List, hints.collect(), (None, 1e9), 0.0).expect("room");
    let mut at_origin = 0;
    for _ in 0..100 {
        for mut hint in begin(&mut state, &settings, 0.0, &watched) {
            if !state.begin_at_origin(&mut hint, 0.0) {
                end(&mut state, &hint, FetchEnd::Waits, 0.0, &watched);
            } else if hint.number == 40 {
                assert_eq!((at_origin, state.sizes()[1]), (4, 4 + 1), "the rest waits");
                return;
            } else {
                at_origin += 1;
            }
        }
    }
    panic!("the other origin was never asked");
}

#[test]
fn listed_hint_that_waited_in_vain_comes_again() {
    let (mut state, watched, settings) = (PrefetchState::default(), WatchedKeys::default(), settings());
    state
        .add_list(HintSource::List, vec![(hint(HintSource::List, 1), None)], (None, 1e9), 0.0)
        .expect("room");
    let begun = begin(&mut state, &settings, 0.0, &watched);
    end(&mut state, &begun[0], FetchEnd::Waits, 0.0, &watched);
    state.origins.gave_way("a.test", 61.0);
    assert!(begin(&mut state, &settings, 61.05, &watched).is_empty());
    let again = begin(&mut state, &settings, 62.0, &watched);
    assert_eq!(again.iter().map(|hint| (hint.number, hint.asks_origin)).collect::<Vec<_>>(), [(1, false)]);
}

proptest! {
    /// Nothing grows without bound, and every fetch ends in one count.
    #[test]
    fn counts_add_up(turns in proptest::collection::vec((0u8..6, 1u64..30), 0..300)) {
        let (mut state, watched, settings) = (PrefetchState::default(), WatchedKeys::default(), settings());
        let (mut flying, mut now): (Vec<Hint>, f64) = (Vec::new(), 0.0);
        for (kind, key) in turns {
            now += 0.5;
            match kind {
                0 => state.add(vec![hint(HintSource::Link, key)], now),
                1 => {
                    let _ = state.add_list(HintSource::Link, vec![(hint(HintSource::Link, key), None)], (None, 1e9), now);
                }
                2 => flying.extend(begin(&mut state, &settings, now, &watched)),
                3 => {
                    state.asked(key, None, now);
                }
                _ => {
                    let Some(hint) = flying.pop() else { continue };
                    let how = match key % 5 {
                        4 if !hint.asks_origin => FetchEnd::Waits,
                        0 => FetchEnd::Held,
                        1 => FetchEnd::Useless { bytes: 0 },
                        2 => FetchEnd::GaveWay { bytes: 0, was_asked: false },
                        _ => kept(hint.number, key),
                    };
                    end(&mut state, &hint, how, now, &watched);
                }
            }
            let [_, in_flight, unused, _] = state.sizes();
            prop_assert_eq!(in_flight as usize, flying.len());
            let counts = state.account(own(HintSource::Link)).counts();
            prop_assert_eq!(counts.prefetched, counts.failed + counts.used + counts.wasted + unused + in_flight);
            prop_assert!(in_flight <= 4);
        }
    }
}
