//! Forecasts of streams with a known future.

use super::*;
use crate::simulator::ZipfTrace;

/// Returns the past of an infinite cache over independent requests.
fn infinite(requests: usize, objects: u32) -> Past {
    let mut past = Past::default();
    let mut seen = std::collections::HashSet::new();
    for request in ZipfTrace::new(objects, 0.8, 1, 4).take(requests) {
        let hits = !seen.insert(request.object);
        assert!(past.push(request.object, Became { hits, is_full: false }));
    }
    past
}

#[test]
fn a_past_counts_from_the_last_request_for_the_object() {
    let mut past = Past::default();
    for (object, hits) in [(1, false), (2, false), (1, true), (1, true), (2, true), (3, false), (2, false)] {
        past.push(object, Became { hits, is_full: object == 3 });
    }
    assert_eq!((past.all().since, past.all().from), (&[0, 0, 2, 1, 3, 0, 0][..], 3));
    assert_eq!(
        (past.until(5).steady_outcomes().len(), past.until(99).since.len()),
        (5, 7),
        "full after the sixth"
    );
    assert_eq!(hit_ratio(past.all().since), 3.0 / 7.0);
}

#[test]
fn filling_cache_is_forecast_better_than_by_mean() {
    let past = infinite(200_000, 100_000);
    for known in [20_000, 50_000, 100_000] {
        let came = hit_ratio(&past.all().since[known..2 * known]);
        let forecast = Forecast::after(past.until(known), known);
        let mean = hit_ratio(&past.until(known).since[known * 3 / 10..]);
        assert!((forecast.hit_ratio - came).abs() < 0.015, "{known}: {forecast:?} {came}");
        assert!((forecast.hit_ratio - came).abs() < forecast.error, "{known}: {forecast:?} {came}");
        assert!(came - mean > 0.05, "{known}: the test asks nothing: {mean} {came}");
    }
    assert_eq!(
        back_tests(&past).iter().map(|test| test.known).collect::<Vec<_>>(),
        [50_000, 100_000, 150_000]
    );
    assert!(back_tests(&past).iter().all(|test| (test.forecast.hit_ratio - test.came).abs() < 0.02));
}

#[test]
fn returns_add_up_to_the_latest_hit_ratio() {
    let past = infinite(100_000, 20_000);
    let returns = Returns::of(past.all());
    let latest = hit_ratio(&past.all().since[98_000..]);
    assert!((returns.within(100_000.0) - latest).abs() < 0.02, "{} {latest}", returns.within(100_000.0));
    let early = hit_ratio(&past.all().since[9_000..11_000]);
    assert!((returns.within(10_000.0) - early).abs() < 0.03, "{} {early}", returns.within(10_000.0));
}

#[test]
fn changing_traffic_has_a_wider_error() {
    // The same requests, evenly and in long waves: a standard error would be the same for both.
    let wave = |length: usize| {
        (0..120_usize)
            .map(|at| if (at / length).is_multiple_of(2) { 0.4_f64 } else { 0.6 })
            .collect::<Vec<_>>()
    };
    assert!(unrest(&wave(1)) < 0.01, "{}", unrest(&wave(1)));
    assert!(unrest(&wave(24)) > 0.2, "{}", unrest(&wave(24)));
    assert_eq!(unrest(&[0.1, 0.9, 0.1, 0.9, 0.5]), 0.0);
}

#[test]
fn full_cache_is_not_taken_for_a_filling_one() {
    // Everything hits until the cache is full, every other request from then on.
    let mut past = Past::default();
    for at in 0..3000u64 {
        let is_full = at > 1000;
        past.push(at % 10, Became { hits: at > 10 && (!is_full || at % 2 == 0), is_full });
    }
    let forecast = Forecast::after(past.all(), 3000);
    assert!((forecast.hit_ratio - 0.5).abs() < 0.01 && forecast.error < 0.02, "{forecast:?}");
}

#[test]
fn exposures_add_up() {
    // A request at a place sees an octave whole, in part or not at all: the integral equals the sum
    // over single requests.
    for (from, octave) in [(0, 0), (300, 0), (700, 0), (0, 2), (200, 2), (900, 2)] {
        let low = half_to(1000.0, octave);
        let sees = |at: usize| ((at as f64 + 0.5) / low).log2().clamp(0.0, 1.0);
        let slow: f64 = (from..1000).map(sees).sum();
        assert!((could_be_seen(from as f64, 1000.0, octave) - slow).abs() < 0.1, "{from} {octave}");
    }
}

#[test]
fn nothing_and_little_are_foreseen_without_harm() {
    for requests in [0, 1, 2, 100] {
        let mut past = Past::default();
        (0..requests).for_each(|at| {
            past.push(at, Became { hits: false, is_full: at > 0 });
        });
        let forecast = Forecast::after(past.all(), 10);
        assert!((0.0..=1.0).contains(&forecast.hit_ratio) && forecast.error.is_finite(), "{forecast:?}");
        assert!(back_tests(&past).iter().all(|test| test.forecast.error.is_finite()));
    }
}
