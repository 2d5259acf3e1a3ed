//! Guarantees of frequencies, for weights and bounds of all kinds.

use super::*;
use proptest::prelude::*;

fn weight() -> impl Strategy<Value = f64> {
    prop_oneof![2 => Just(0.0), 8 => 0.0..1.0f64, 1 => Just(1e-12), 1 => 1e3..1e6f64]
}

fn bound() -> impl Strategy<Value = f64> {
    prop_oneof![1 => Just(0.0), 6 => 0.0..0.6f64, 2 => Just(1.0), 1 => Just(f64::INFINITY)]
}

/// Makes target weight, age weight, bound and borrowed share of each server.
fn servers() -> impl Strategy<Value = Vec<(f64, f64, f64, f64)>> {
    proptest::collection::vec((weight(), weight(), bound(), prop_oneof![Just(0.0), 0.0..0.2f64]), 0..12)
}

fn lists(servers: &[(f64, f64, f64, f64)]) -> [Vec<f64>; 4] {
    [
        servers.iter().map(|server| server.0).collect(),
        servers.iter().map(|server| server.1).collect(),
        servers.iter().map(|server| server.2).collect(),
        servers.iter().map(|server| server.3).collect(),
    ]
}

proptest! {
    #[test]
    fn frequencies_keep_sum_and_bounds(servers in servers(), b in 0.0..=1.0f64) {
        let [weights, ages, bounds, borrowing] = lists(&servers);
        let found = select(&weights, &ages, b, &bounds, &borrowing).unwrap();
        let sum: f64 = found.of.iter().sum();
        prop_assert!((sum + found.unplaced - 1.0).abs() < 1e-9, "{found:?}");
        for server in 0..servers.len() {
            let limit = bounds[server] + borrowing[server];
            prop_assert!(found.of[server] >= 0.0 && found.of[server] <= limit, "{found:?}");
            if found.unplaced > 1e-9 && weights[server] + ages[server] > 0.0 {
                prop_assert!(found.of[server] == limit, "nothing is unplaced while server {server} may take more: {found:?}");
            }
        }
    }

    #[test]
    fn without_balancing_it_is_gms(servers in servers()) {
        let [weights, ages, _, _] = lists(&servers);
        let none = vec![f64::INFINITY; servers.len()];
        let found = select(&weights, &ages, 0.0, &none, &vec![0.0; servers.len()]).unwrap();
        let sum: f64 = ages.iter().sum();
        if sum > 0.0 {
            for (frequency, age) in found.of.iter().zip(&ages) {
                prop_assert!((frequency - age / sum).abs() < 1e-12, "as the share of the oldest pages");
            }
        }
    }

    #[test]
    fn the_order_of_servers_does_not_matter(servers in servers(), b in 0.0..=1.0f64) {
        let [weights, ages, bounds, borrowing] = lists(&servers);
        let found = select(&weights, &ages, b, &bounds, &borrowing).unwrap();
        let reversed: Vec<_> = servers.iter().rev().copied().collect();
        let [weights, ages, bounds, borrowing] = lists(&reversed);
        let other = select(&weights, &ages, b, &bounds, &borrowing).unwrap();
        for (frequency, other) in found.of.iter().zip(other.of.iter().rev()) {
            prop_assert!((frequency - other).abs() < 1e-9);
        }
    }

    #[test]
    fn draws_match_frequencies(servers in servers(), b in 0.0..=1.0f64) {
        let [weights, ages, bounds, borrowing] = lists(&servers);
        let found = select(&weights, &ages, b, &bounds, &borrowing).unwrap();
        let draws = 2000;
        let mut counts = vec![0; servers.len() + 1];
        for draw in 0..draws {
            counts[found.choose(f64::from(draw) / f64::from(draws)).unwrap_or(servers.len())] += 1;
        }
        let expected = found.of.iter().chain([&found.unplaced]);
        for (count, frequency) in counts.iter().zip(expected) {
            prop_assert!((f64::from(*count) / f64::from(draws) - frequency).abs() < 1.5 / f64::from(draws));
        }
    }

    #[test]
    fn age_weights_are_those_of_all_pages_sorted(
        nodes in proptest::collection::vec(proptest::collection::vec((0..20u64, 0..5u64), 0..6), 0..5),
        oldest in 0..60u64,
    ) {
        let groups: Vec<Vec<AgeGroup>> = nodes
            .iter()
            .map(|node| node.iter().map(|(age, pages)| AgeGroup { age: *age, pages: *pages }).collect())
            .collect();
        let found = age_weights(&groups, oldest);
        let mut pages: Vec<(u64, usize)> = Vec::new();
        for (node, groups) in groups.iter().enumerate() {
            for group in groups {
                pages.extend(std::iter::repeat_n((group.age, node), group.pages as usize));
            }
        }
        pages.sort_by_key(|page| std::cmp::Reverse(page.0));
        let taken = pages.len().min(oldest as usize);
        prop_assert_eq!(found.oldest_pages, taken as u64);
        let least = pages[..taken].last().map_or(0, |page| page.0);
        prop_assert_eq!(found.least_age, least);
        for (node, weight) in found.of.iter().enumerate() {
            let of = |of: &[(u64, usize)], age: &dyn Fn(u64) -> bool| of.iter().filter(|p| p.1 == node && age(p.0)).count() as f64;
            let older = of(&pages, &|age| age > least);
            let same = of(&pages, &|age| age == least);
            let all_same = pages.iter().filter(|page| page.0 == least).count() as f64;
            let all_older = pages.iter().filter(|page| page.0 > least).count() as f64;
            let expected = if taken == 0 { 0.0 } else { (older + same * (taken as f64 - all_older) / all_same) / taken as f64 };
            prop_assert!((weight - expected).abs() < 1e-9, "node {}: {} for {}", node, weight, expected);
        }
    }
}

#[test]
fn equation_3_1_and_its_bounds_by_hand() {
    let none = [0.0; 3];
    let of = |b, bounds: [f64; 3]| select(&[0.5, 0.25, 0.25], &[0.0, 0.2, 0.8], b, &bounds, &none).unwrap();
    assert_eq!(of(0.0, [1.0; 3]).of, [0.0, 0.2, 0.8]);
    assert_eq!(of(1.0, [1.0; 3]).of, [0.5, 0.25, 0.25]);
    let halfway = of(0.5, [1.0; 3]);
    for (found, expected) in halfway.of.iter().zip([0.25, 0.225, 0.525]) {
        assert!((found - expected).abs() < 1e-12);
    }
    // The third is bound to 0.3; 0.7 is left for w = (2/3, 1/3) and a = (0, 1): 0.7·(1/3 + 0, 1/6 +
    // 1/2).
    let bound = of(0.5, [1.0, 1.0, 0.3]);
    for (found, expected) in bound.of.iter().zip([0.7 / 3.0, 0.7 * 2.0 / 3.0, 0.3]) {
        assert!((found - expected).abs() < 1e-12, "{bound:?}");
    }
    // GMS when the only servers of old pages are full: memory distributes the rest.
    let full = of(0.0, [1.0, 0.1, 0.3]);
    for (found, expected) in full.of.iter().zip([0.6, 0.1, 0.3]) {
        assert!((found - expected).abs() < 1e-12, "{full:?}");
    }
    let nobody = of(0.5, [0.2, 0.1, 0.3]);
    assert!((nobody.unplaced - 0.4).abs() < 1e-12);
    assert_eq!(nobody.choose(0.7), None);
}

#[test]
fn rate_bound_and_borrowed_match_equations() {
    // T = 2.5 ms between requests, S = 194 µs, four nodes: 12.89 requests could be served
    // meanwhile, a quarter of them this node's.
    let pace = RequestRate::new(2.5e-3, 4, 194e-6).unwrap();
    assert!((pace.bound(0.2) - 0.2 * 2.5e-3 / (4.0 * 194e-6)).abs() < 1e-12);
    assert!((pace.bound(0.2) - 0.6443).abs() < 1e-4);
    assert!((pace.borrowed(0.1) - 0.1 * 2.5e-3 / (3.0 * 194e-6)).abs() < 1e-12);
    // When all nodes use their bound, the server reaches its limit: N·(f/T)·S = U*.
    assert!((4.0 * pace.bound(0.2) / 2.5e-3 * 194e-6 - 0.2).abs() < 1e-12);
    assert_eq!(
        RequestRate::new(2.5e-3, 1, 194e-6).unwrap().borrowed(0.5),
        0.0,
        "a lone node has all of it already"
    );
    assert_eq!((unused(0.5, 0.2), unused(0.5, 0.7)), (0.3, 0.0));
    for (time, nodes, service) in [(0.0, 4, 1.0), (1.0, 0, 1.0), (1.0, 4, f64::NAN), (-1.0, 4, 1.0)] {
        assert!(matches!(RequestRate::new(time, nodes, service), Err(FrequencyError::NoPace { .. })));
    }
}

#[test]
fn bad_input_is_an_error() {
    let found = |weights: &[f64], ages: &[f64], b, bounds: &[f64]| {
        select(weights, ages, b, bounds, &[0.0]).unwrap_err()
    };
    assert!(matches!(
        found(&[1.0, 2.0], &[1.0], 0.5, &[1.0]),
        FrequencyError::Lengths { weights: 2, ages: 1, .. }
    ));
    assert!(matches!(
        found(&[f64::NAN], &[1.0], 0.5, &[1.0]),
        FrequencyError::NotAWeight { what: "target weight", server: 0, .. }
    ));
    assert!(matches!(
        found(&[1.0], &[-1.0], 0.5, &[1.0]),
        FrequencyError::NotAWeight { what: "age weight", .. }
    ));
    assert!(matches!(
        found(&[1.0], &[1.0], 0.5, &[f64::NAN]),
        FrequencyError::NotAWeight { what: "bound", .. }
    ));
    for b in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(found(&[1.0], &[1.0], b, &[1.0]), FrequencyError::BalancingRate { .. }));
    }
    let nobody = select(&[], &[], 0.5, &[], &[]).unwrap();
    assert_eq!((nobody.unplaced, nobody.choose(0.0)), (1.0, None));
    assert_eq!(target_weights(&[0, 0]), [0.0, 0.0]);
    assert_eq!(target_weights(&[1, 3]), [0.25, 0.75]);
}

#[test]
fn reported_ages_grow_until_the_next_report() {
    let mut ages = ReportedAges::new(3);
    assert_eq!(ages.weights(100), [0.0; 3], "nothing is known");
    ages.report(0, 10, 100);
    assert_eq!(ages.weights(100), [1.0 / 3.0; 3], "who has told nothing counts as the mean");
    ages.report(1, 30, 100);
    ages.report(2, 0, 100);
    ages.report(7, 0, 100);
    assert_eq!(ages.weights(100), [0.25, 0.75, 0.0]);
    assert_eq!(ages.weights(120), [0.3, 0.5, 0.2]);
    ages.report(1, 0, 120);
    assert_eq!(ages.weights(120), [0.6, 0.0, 0.4]);
}

#[test]
fn ages_are_older_than_the_node_that_is_told_them() {
    let mut ages = ReportedAges::new(2);
    ages.report(0, 30, 10);
    ages.report(1, 90, 10);
    assert_eq!(ages.weights(10), [0.25, 0.75]);
    assert_eq!(ages.weights(50), [0.35, 0.65]);
    ages.report(0, u64::MAX, 50);
    assert!(ages.weights(u64::MAX).iter().all(|weight| weight.is_finite()));
}

/// Runs a tuner on a cost that is least at `least`, with noise as a part of it.
fn tuned(least: f64, from: f64, noise: f64, epochs: u32) -> Tuner {
    let mut tuner = Tuner::new(from);
    run(&mut tuner, least, noise, epochs);
    tuner
}

fn run(tuner: &mut Tuner, least: f64, noise: f64, epochs: u32) {
    let mut state = 7u64;
    for _ in 0..epochs {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (state >> 33) as f64 / (1u64 << 31) as f64;
        let b = tuner.b();
        assert!((0.0..=1.0).contains(&b));
        tuner.epoch((1.0 + (b - least).powi(2)) * (1.0 + noise * (unit - 0.5)));
    }
}

#[test]
fn the_tuner_finds_the_least_cost_and_follows_it() {
    for least in [0.0, 0.3, 0.55, 1.0] {
        for from in [0.0, 0.5, 1.0] {
            let mut tuner = tuned(least, from, 0.01, 400);
            assert!((tuner.best() - least).abs() < 0.15, "{} for {least} from {from}", tuner.best());
            let moved = (least + 0.5) % 1.0;
            run(&mut tuner, moved, 0.01, 800);
            assert!((tuner.best() - moved).abs() < 0.2, "{} for {moved} from {least}", tuner.best());
        }
    }
}

#[test]
fn the_tuner_stays_where_nothing_makes_a_difference() {
    let mut tuner = Tuner::new(0.4);
    for _ in 0..500 {
        tuner.epoch(2.0);
    }
    assert_eq!((tuner.best(), tuner.b()), (0.4, 0.4));
    tuner.epoch(f64::NAN);
    assert_eq!(Tuner::new(f64::NAN).b(), 0.5);
}
