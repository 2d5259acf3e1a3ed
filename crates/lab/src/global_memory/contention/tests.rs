//! Invariants of the simulation, and its findings in small.

use super::*;

fn setting(applications: &[Application], global_nodes: usize, share: f64, b: f64) -> ContentionSetup {
    ContentionSetup {
        balancing: BalancingRate::Fixed(b),
        ..ContentionSetup::eleven(applications, global_nodes, share)
    }
}

fn program(name: &str, references: usize) -> Vec<Application> {
    Application::made(references, 1).into_iter().filter(|one| one.name == name).collect()
}

#[test]
fn times_and_counts_agree_with_one_another() {
    let applications = Application::made(6000, 1);
    for bounded in [false, true] {
        let setting = ContentionSetup { bounded, ..setting(&applications, 13, 0.3, 0.4) };
        let found = simulate(&applications, &setting);
        let service = setting.costs.getpage_seconds;
        assert!(found.getpage_seconds >= service && found.fault_seconds <= setting.costs.disk_seconds * 2.0);
        let worked: f64 = found.utilizations.iter().sum::<f64>() * found.seconds;
        let requests = (found.faults.getpages + found.putpages) as f64;
        assert!(
            (worked / (requests * service) - 1.0).abs() < 0.01,
            "a request takes a server's time: {found:?}"
        );
        assert_eq!(found.utilizations.len(), 11);
        assert!(found.utilizations.iter().all(|busy| (0.0..=1.0).contains(busy)), "{found:?}");
        assert!(found.putpages + found.unplaced <= found.faults.getpages + found.faults.disk);
        assert_eq!(simulate(&applications, &setting), found, "the seed decides");
    }
}

#[test]
fn parts_of_one_run_are_runs_of_their_own() {
    let applications = Application::made(6000, 1);
    for newcomer in [None, Some(200)] {
        let setting = ContentionSetup {
            newcomer_pages: newcomer,
            bounded: true,
            ..setting(&applications, 13, 0.3, 0.4)
        };
        let half = setting.measured / 2;
        let ends = [0, setting.measured / 16, half, half, setting.measured];
        let alone =
            ends.map(|measured| simulate(&applications, &ContentionSetup { measured, ..setting.clone() }));
        assert_eq!(simulate_parts(&applications, &setting, &ends), alone);
        assert!(alone[1].seconds < alone[4].seconds && alone[1].faults.disk < alone[2].faults.disk);
    }
}

#[test]
fn waiting_agrees_with_the_queueing_model() {
    // Eight equal idle nodes serve programs with few faults beside getpages. This is the model's
    // setting except for service times, which do not vary here. The model therefore bounds the wait
    // from above, and the service time bounds it from below.
    use crate::model::gms::{Method, Network, ServerDemand};
    let applications = program("phases", 20_000);
    let setting = ContentionSetup {
        idle_pages: vec![applications[0].pages * 24 / 8; 8],
        newcomer_pages: None,
        ..setting(&applications, 24, 0.1, 1.0)
    };
    let found = simulate(&applications, &setting);
    assert!(found.faults.disk * 20 < found.faults.getpages, "{found:?}");
    let model = Network::balanced(ServerDemand::OO7, 24, 8, 0, 0.0).solve(Method::Exact).unwrap();
    let wait = |seconds: f64| seconds - setting.costs.getpage_seconds;
    assert!(wait(found.getpage_seconds) > 0.2 * wait(model.response_seconds), "{found:?} {model:?}");
    assert!(wait(found.getpage_seconds) < 1.1 * wait(model.response_seconds), "{found:?} {model:?}");
    for busy in &found.utilizations {
        assert!((busy / model.loads[0].utilization - 1.0).abs() < 0.15, "{busy} {:?}", model.loads[0]);
    }
}

#[test]
fn balancing_helps_under_load_and_else_costs_little() {
    let applications = program("phases", 20_000);
    let seconds = |nodes, b| simulate(&applications, &setting(&applications, nodes, 1.0 / 3.0, b)).seconds;
    assert!(seconds(60, 1.0) < 0.97 * seconds(60, 0.0), "many nodes wait for the newcomer");
    assert!((seconds(12, 0.5) / seconds(12, 0.0) - 1.0).abs() < 0.03, "few do not");
}

#[test]
fn ages_send_pages_to_the_newcomer_and_weights_do_not() {
    let applications = program("database", 12_000);
    let busy = |b| {
        let setting = ContentionSetup { measured: 60, ..setting(&applications, 24, 1.0 / 11.0, b) };
        let found = simulate(&applications, &setting).utilizations;
        found[10] / (found[..10].iter().sum::<f64>() / 10.0)
    };
    let (by_age, by_weight) = (busy(0.0), busy(1.0));
    println!("{by_age} {by_weight}");
    assert!(by_age > 1.5 && by_weight < 1.3 && by_weight < by_age, "{by_age} {by_weight}");
}

#[test]
fn equal_targets_spare_a_node_that_has_most_memory() {
    let applications = program("database", 12_000);
    let of = |targets| {
        simulate(&applications, &ContentionSetup { targets, ..setting(&applications, 48, 2.0 / 3.0, 1.0) })
    };
    let (by_memory, equal) = (of(Targets::Memory), of(Targets::Equal));
    assert!(equal.getpage_seconds < 0.5 * by_memory.getpage_seconds, "{equal:?} {by_memory:?}");
    assert!(equal.faults.disk > by_memory.faults.disk, "at the price of memory left unused");
}

#[test]
fn the_tuner_is_nearly_as_good_as_the_best_fixed_rate() {
    let applications = program("phases", 24_000);
    let at = |balancing| {
        simulate(&applications, &ContentionSetup { balancing, ..setting(&applications, 60, 1.0 / 3.0, 0.0) })
    };
    let fixed: Vec<f64> = [0.0, 0.5, 1.0].map(|b| at(BalancingRate::Fixed(b)).seconds).to_vec();
    let best = fixed.iter().copied().fold(f64::INFINITY, f64::min);
    let tuned = at(BalancingRate::Tuned(0.5));
    assert!(tuned.seconds < 1.06 * best, "{} {fixed:?}", tuned.seconds);
    assert!(tuned.rates.iter().any(|b| *b != 0.5), "it tries others");
}

#[test]
fn nothing_to_do_is_done_at_once() {
    assert_eq!(simulate(&[], &setting(&[], 4, 0.3, 0.5)), ContentionResult::default());
    let empty = [Application::default()];
    assert_eq!(simulate(&empty, &setting(&empty, 4, 0.3, 0.5)), ContentionResult::default());
    let applications = program("loop", 2000);
    assert_eq!(simulate(&applications, &setting(&applications, 0, 0.3, 0.5)), ContentionResult::default());
    let hit =
        [Application { name: "one page".into(), references: vec![0; 500], pages: 1, clients: Vec::new() }];
    let found = simulate(&hit, &setting(&hit, 2, 0.3, 0.5));
    assert!(found.seconds.is_finite() && found.faults.getpages == 0, "{found:?}");
}

#[test]
fn own_work_of_local_nodes_waits_less_when_bounded() {
    let applications = program("phases", 12_000);
    let of = |bounded, limits| {
        let local = ContentionSetup { bounded, limits, ..setting(&applications, 48, 1.0 / 3.0, 1.0) };
        simulate(&applications, &ContentionSetup { own_work: vec![0.7; 4], ..local })
    };
    let free = of(false, UtilizationLimits::AllIdle);
    let (given, told) = (of(true, UtilizationLimits::Given), of(true, UtilizationLimits::Estimated));
    let waits = [&free, &given, &told].map(|found| found.own_wait_seconds);
    assert!(waits[1] < 0.8 * waits[0] && waits[2] < 0.8 * waits[0], "{waits:?}");
    assert!((36..=48).contains(&told.global_nodes), "askers are counted: {}", told.global_nodes);
    let busy = |found: &ContentionResult| found.utilizations[..4].iter().sum::<f64>() / 4.0;
    assert!(busy(&given) < busy(&free), "local nodes serve less: {waits:?}");
    let alone = ContentionSetup { own_work: Vec::new(), ..setting(&applications, 48, 1.0 / 3.0, 1.0) };
    assert_eq!(simulate(&applications, &alone).own_wait_seconds, 0.0);
}
