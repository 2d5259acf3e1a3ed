//! The live curve against exact distances, and its bounds.

use super::*;
use shoal_policy::curve::mixed;

/// Bytes that the curve may take: 1 MiB less the samples of 32 threads that wait to be added.
const MEMORY_MAX: usize = (1 << 20) - 32 * 512 * 12;

/// Requests of objects with popularities that fall like 1 / rank, sized by their number.
fn requests(count: u64, objects: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut state = 7_u64;
    (0..count).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let uniform = (state >> 11) as f64 / (1_u64 << 53) as f64;
        let object = (objects as f64).powf(uniform) as u64;
        (object, 500 + mixed(object, 1) % 40_000)
    })
}

#[test]
fn curve_is_within_two_points_of_the_exact_one() {
    let (mut live, mut exact) = (LiveCurve::new(0), Shards::exact());
    for (object, bytes) in requests(600_000, 150_000) {
        live.watch(mixed(object, 9), bytes);
        live.note_all(0, 1, bytes);
        exact.request(object, bytes);
    }
    let sizes = sizes_between(30_000_000, 3_000_000_000, 20);
    let (curve, exact) = (live.curve(&sizes), exact.finish().curve(&sizes));
    for (sampled, exact) in curve.points.iter().zip(&exact.points) {
        let off = (sampled.hit_ratio - exact.hit_ratio).abs();
        assert!(off < 0.02, "{off} at {}", exact.size);
    }
    let (watched, rate, requests) = live.sample();
    assert!(watched <= OBJECTS && rate < 0.2 && requests == 600_000, "{watched} {rate} {requests}");
}

#[test]
fn memory_is_below_a_megabyte() {
    let mut live = LiveCurve::new(0);
    // Distances of every length, and many objects.
    for (at, (object, _)) in requests(400_000, 10_000_000).enumerate() {
        let bytes = 1_u64 << (mixed(at as u64, 2) % 40);
        live.watch(mixed(object, 9), bytes);
        live.watch(mixed(at as u64, 4), bytes);
    }
    assert!(live.memory_bytes() <= MEMORY_MAX, "{}", live.memory_bytes());
    assert!(live.sample().0 == OBJECTS);
}

#[test]
fn fewer_objects_are_watched_on_request() {
    let mut live = LiveCurve::new(0);
    assert_eq!(live.threshold(), THRESHOLD_START);
    (0..1000).for_each(|object| live.watch(mixed(object, 9), 100));
    live.watch_fewer();
    let watched = live.sample().0;
    assert!((400..600).contains(&watched) && live.threshold() == u64::MAX / 2, "{watched}");
    (0..100).for_each(|_| live.watch_fewer());
    live.watch(0, 1);
    assert_eq!((live.sample().0, live.threshold()), (1, 1));
}

#[test]
fn old_requests_fade_and_misses_count() {
    let mut live = LiveCurve::new(0);
    for _ in 0..10 {
        live.watch(5, 100);
    }
    live.note_all(10, 10, 1000);
    assert_eq!(live.curve(&[1000]).points[0].hit_ratio, 0.9);
    live.watch_miss(6, 100);
    live.note_all(11, 1, 100);
    assert!((live.curve(&[1000]).points[0].hit_ratio - 9.0 / 11.0).abs() < 1e-9);
    live.note_all(86_400, 0, 0);
    assert_eq!(live.sample().2, 5);
    live.note_all(90 * 86_400, 0, 0);
    assert_eq!(live.sample().2, 0);
}
