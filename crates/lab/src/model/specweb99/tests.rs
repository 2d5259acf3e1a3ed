//! Model, simulation and characteristic time held against one another and against the paper.

use super::analytic::{Analytic, REUSE};
use super::postlog::LogMode;
use super::simulation::{FileCacheSetup, simulate};
use super::*;
use shoal_policy::{Lru, ReplacementPolicy};
use shoal_trace::generate::specweb99::FileSet;

fn population(throughput: f64) -> Population {
    Population::of_files(&FileSet::for_throughput(throughput))
}

fn setting(cache_bytes: u64, requests: u64) -> FileCacheSetup {
    FileCacheSetup {
        cache_bytes,
        warm_up: requests,
        requests,
        arrivals: 1000.0,
        path: PathLength::default(),
        seed: 5,
    }
}

#[test]
fn restored_reading_gives_table_1_1_analytic_rows() {
    for case in paper::TABLE.iter().filter(|case| case.throughput <= 10_000.0) {
        let population = population(case.throughput);
        let model = Analytic::of(&population, case.fraction * population.bytes(), REUSE);
        if let Some(printed) = case.analytic.hit_ratio {
            assert!((model.hit_ratio - printed).abs() < 0.0025, "{case:?}: {model:?}");
        }
        let restored = model.outcome(RateDerivation::Restored);
        let off = |ours: f64, printed: f64| (ours * case.throughput / printed - 1.0).abs();
        assert!(off(restored.bytes_read, case.analytic.megabytes * 1e6) < 0.01, "{case:?}: {restored:?}");
        assert!(off(restored.transfers, case.analytic.kilo_transfers * 1e3) < 0.01, "{case:?}: {restored:?}");
        let throughput = PathLength::default().throughput(&restored);
        assert!(off(throughput, case.analytic.throughput) < 0.0075, "{case:?}: {throughput}");
        let literal = model.outcome(RateDerivation::Literal);
        assert!(literal.bytes_read * case.throughput > 2.0 * case.analytic.megabytes * 1e6);
    }
}

#[test]
fn mean_over_misses_times_misses_is_below_table_1_1() {
    for case in paper::TABLE.iter().filter(|case| case.throughput <= 10_000.0) {
        let population = population(case.throughput);
        let model = Analytic::of(&population, case.fraction * population.bytes(), REUSE);
        let of = |reading| model.outcome(reading).bytes_read * case.throughput / 1e6;
        let (literal, per_miss) = (of(RateDerivation::Literal), of(RateDerivation::PerMiss));
        assert!((per_miss / literal - (1.0 - model.hit_ratio)).abs() < 1e-9, "{case:?}");
        let printed = case.analytic.megabytes;
        assert!((2.5..12.0).contains(&(literal / printed)), "{case:?}: {}", literal / printed);
        assert!((0.62..0.72).contains(&(per_miss / printed)), "{case:?}: {}", per_miss / printed);
    }
}

#[test]
fn steady_state_needs_two_characteristic_times() {
    let population = population(2500.0);
    let bytes = 0.1 * population.bytes();
    let hits = |warm_up: u64| {
        let requests = if warm_up < 10_000 { 30_000 } else { 150_000 };
        let setting = FileCacheSetup { warm_up, ..setting(bytes as u64, requests) };
        simulate(&population, Box::new(Lru::default()), &setting).outcome.hit_ratio
    };
    let time = che::outcome(&population, bytes).hit_ratio;
    let (steady, early) = (hits(che::warm_up(&population, bytes) as u64), hits(1000));
    assert!((steady - time).abs() < 0.003, "{steady} {time}");
    assert!(early < time - 0.02, "{early} {time}: the cache is not full");
}

#[test]
fn characteristic_time_gives_table_1_1_simulated_rows() {
    for case in paper::TABLE.iter().filter(|case| case.throughput <= 10_000.0) {
        let population = population(case.throughput);
        let found = che::outcome(&population, case.fraction * population.bytes());
        if let Some(printed) = case.simulated.hit_ratio {
            assert!((found.hit_ratio - printed).abs() < 0.0075, "{case:?}: {found:?}");
        }
        let off = |ours: f64, printed: f64| (ours * case.throughput / printed - 1.0).abs();
        assert!(off(found.bytes_read, case.simulated.megabytes * 1e6) < 0.06, "{case:?}: {found:?}");
        assert!(off(found.transfers, case.simulated.kilo_transfers * 1e3) < 0.06, "{case:?}: {found:?}");
    }
}

#[test]
fn simulation_agrees_with_both_models() {
    let population = population(250.0);
    for fraction in [0.025, 0.05, 0.1, 0.3] {
        let bytes = fraction * population.bytes();
        let simulated = simulate(&population, Box::new(Lru::default()), &setting(bytes as u64, 150_000));
        let time = che::outcome(&population, bytes);
        let model = Analytic::of(&population, bytes, REUSE);
        let hit_ratio = simulated.outcome.hit_ratio;
        assert!((hit_ratio - time.hit_ratio).abs() < 0.005, "{fraction}: {hit_ratio} {time:?}");
        assert!((simulated.outcome.bytes_read / time.bytes_read - 1.0).abs() < 0.06, "{fraction}: {time:?}");
        if fraction <= 0.1 {
            assert!((hit_ratio - model.hit_ratio).abs() < 0.03, "{fraction}: {hit_ratio} {model:?}");
        }
        let expected = PathLength::default().throughput(&simulated.outcome) * 1000.0;
        assert!((simulated.throughput / expected - 1.0).abs() < 0.02, "{} {expected}", simulated.throughput);
        assert!(simulated.response_seconds > 0.0);
    }
}

#[test]
fn full_and_empty_caches_have_their_limits() {
    let population = population(100.0);
    let all = population.bytes();
    for found in [
        Analytic::of(&population, all * 1.01, REUSE).outcome(RateDerivation::Restored),
        che::outcome(&population, all * 1.01),
    ] {
        assert!((found.hit_ratio - 1.0).abs() < 1e-9 && found.bytes_read.abs() < 1e-6, "{found:?}");
    }
    for found in [
        Analytic::of(&population, 0.0, REUSE).outcome(RateDerivation::Restored),
        che::outcome(&population, 1.0),
        Analytic::of(&Population::default(), 1e6, REUSE).outcome(RateDerivation::Literal),
    ] {
        assert!(found.hit_ratio < 1e-3 && found.bytes_read.is_finite(), "{found:?}");
    }
    let more: Vec<f64> =
        (1..20).map(|n| che::outcome(&population, all * f64::from(n) / 20.0).hit_ratio).collect();
    assert!(more.is_sorted(), "{more:?}");
}

#[test]
fn one_thread_equals_the_plain_cache() {
    let population = population(100.0);
    let cache_bytes = (population.bytes() * 0.05) as u64;
    let plain = simulate(&population, Box::new(Lru::default()), &setting(cache_bytes, 60_000));
    let of = |threads| {
        let setting = threads::ThreadSetup {
            cache_bytes,
            threads,
            transfer_seconds: 0.005,
            full_rate: 1000.0,
            path: PathLength::default(),
            warm_up: 60_000,
            requests: 60_000,
            seed: 9,
        };
        threads::simulate(&population, Box::new(Lru::default()), &setting)
    };
    let (one, many) = (of(1), of(64));
    assert_eq!(one.shared, 0.0);
    assert!((one.outcome.hit_ratio - plain.outcome.hit_ratio).abs() < 0.01, "{one:?} {plain:?}");
    assert!(many.shared > 0.0 && many.outcome.hit_ratio < one.outcome.hit_ratio + 0.005, "{many:?}");
    assert!(many.throughput > 1.5 * one.throughput, "{one:?} {many:?}");
    assert!(many.reading_bytes_max > one.reading_bytes_max);
}

#[test]
fn every_policy_can_be_asked() {
    let population = Population::of_distributions(2000, 0.8, 4000.0, 1.5);
    assert!((population.sum(|_| 1.0) - 1.0).abs() < 1e-9);
    let mut sizes: Vec<f64> = population.items().iter().map(|item| item.bytes).collect();
    sizes.sort_by(f64::total_cmp);
    assert!((sizes[1000] / 4000.0 - 1.0).abs() < 0.05, "median {}", sizes[1000]);
    let bytes = (population.bytes() * 0.1) as u64;
    for policy in ReplacementPolicy::<u64>::ALL {
        let found = simulate(&population, (policy.construct)(), &setting(bytes, 20_000)).outcome;
        assert!((0.2..0.95).contains(&found.hit_ratio), "{}: {found:?}", policy.name);
    }
}

#[test]
fn the_log_costs_more_the_worse_it_is_kept() {
    let costs = LogMode::ALL.map(|keeping| keeping.cost(100_000));
    assert!(costs.is_sorted_by(|a, b| a.reads + a.writes < b.reads + b.writes), "{costs:?}");
    assert!((costs[3].cache_bytes - 14e6).abs() < 1.0);
    assert!((postlog::serialized_throughput(0.01) - 2083.0).abs() < 1.0);
    assert!((memory_megabytes(3800.0) / 4096.0 - 1.0).abs() < 0.03, "4 GB support about 3800");
}
