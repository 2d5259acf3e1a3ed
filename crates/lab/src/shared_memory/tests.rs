//! The workload of `bench/shared_memory.py`, in time that the test sets.

use super::*;
use shoal_trace::Random;

const SETTINGS: FleetSettings = FleetSettings {
    nodes: 4,
    ram_bytes: 4 << 20,
    beside_body: 1_500,
    ram_object_max: 4 << 20,
    warm_up: 3_000,
    balance: FleetBalance::Fixed(0.5),
    times: None,
    seed: 1,
};

/// Four of five requests go to the first node. Popularity falls as the reciprocal of the rank.
fn workload(objects: u64, requests: usize, pace: Duration) -> Vec<FleetRequest> {
    let mut random = Random::new(1);
    let draw = |number: usize| {
        let object = (objects as f64).powf(random.unit()) as u64 - 1;
        FleetRequest {
            time: pace * number as u32,
            node: if number % 5 < 4 { 0 } else { 1 + number % 3 },
            object: Key::unkeyed(&object.to_le_bytes()),
            bytes: 16_000,
        }
    };
    (0..requests).map(draw).collect()
}

fn compared(requests: &[FleetRequest], settings: &FleetSettings) -> [FleetOutcome; 3] {
    [FleetForm::Apart, FleetForm::Shared, FleetForm::One].map(|form| run_fleet(requests, settings, form))
}

#[test]
fn shared_memory_comes_near_one_node() {
    let requests = workload(2_000, 8_000, Duration::from_millis(10));
    let [apart, shared, one] = compared(&requests, &SETTINGS);
    let table = fleet_text(&SETTINGS, [&apart, &shared, &one]);
    assert!(shared.disk_reads() * 2 <= apart.disk_reads(), "{table}");
    assert!(one.ram_hit_ratio() - shared.ram_hit_ratio() <= 0.02, "{table}");
    assert!(shared.ram_hit_ratio() - apart.ram_hit_ratio() >= 0.05, "{table}");
    assert!(table.contains("Worth a try"), "{table}");
}

#[test]
fn each_request_has_one_source() {
    let requests = workload(2_000, 8_000, Duration::from_millis(1));
    for outcome in compared(&requests, &SETTINGS) {
        assert_eq!(outcome.requests, 5_000);
        assert_eq!(outcome.sources.values().sum::<u64>(), 5_000, "{outcome:?}");
        assert!(outcome.distinct.0 <= outcome.distinct.1);
    }
}

#[test]
fn equal_nodes_gain_little() {
    let mut requests = workload(2_000, 8_000, Duration::from_millis(10));
    for (number, request) in requests.iter_mut().enumerate() {
        // Each node has objects of its own.
        request.node = number % 4;
        let own = [request.object.to_bytes().as_slice(), &[request.node as u8]].concat();
        request.object = Key::unkeyed(&own);
    }
    let [apart, shared, one] = compared(&requests, &SETTINGS);
    let gain = shared.ram_hit_ratio() - apart.ram_hit_ratio();
    assert!(gain.abs() < 0.03, "{}", fleet_text(&SETTINGS, [&apart, &shared, &one]));
}

#[test]
fn long_pause_takes_no_long_work() {
    let mut requests = workload(100, 1_000, Duration::from_millis(1));
    requests[999].time = Duration::from_secs(1 << 40);
    let outcome = run_fleet(&requests, &FleetSettings { warm_up: 0, ..SETTINGS }, FleetForm::Shared);
    assert_eq!(outcome.requests, 1_000);
}

#[test]
fn large_object_stays_on_disk() {
    let object = Key::unkeyed(b"large");
    let request =
        |second| FleetRequest { time: Duration::from_secs(second), node: 0, object, bytes: 5 << 20 };
    let requests: Vec<_> = (0..3).map(request).collect();
    let outcome = run_fleet(&requests, &FleetSettings { warm_up: 0, ..SETTINGS }, FleetForm::Shared);
    assert_eq!((outcome.of(FleetSource::DiskAlone), outcome.of(FleetSource::OriginFirst)), (2, 1));
}

const TIMES: FleetTimes = FleetTimes { page_seconds: 400e-6, service_seconds: 50e-6, disk_seconds: 5e-3 };

#[test]
fn times_are_those_of_the_counted_pages() {
    let requests = workload(2_000, 8_000, Duration::from_millis(2));
    let settings = FleetSettings { times: Some(TIMES), ..SETTINGS };
    let [apart, shared, _] = compared(&requests, &settings);
    let traffic = shared.traffic.clone().expect("times are of interest");
    assert_eq!(traffic.getpages.iter().sum::<u64>(), shared.of(FleetSource::Page));
    let simulated = traffic.simulated_seconds().expect("getpages");
    let modelled = traffic.modelled_seconds(&TIMES, 1).expect("a solution").expect("getpages");
    assert!((0.99..1.2).contains(&(simulated / TIMES.page_seconds)), "{simulated}");
    assert!((modelled / simulated - 1.0).abs() < 0.2, "{modelled} {simulated}");
    assert_eq!(apart.traffic.and_then(|traffic| traffic.simulated_seconds()), None);
    let untimed = run_fleet(&requests, &SETTINGS, FleetForm::Shared);
    assert_eq!((untimed.traffic, untimed.pages_put), (None, shared.pages_put), "times change no decision");
}

#[test]
fn tuned_rate_comes_near_the_best_fixed_one() {
    let requests = workload(2_000, 20_000, Duration::from_millis(5));
    let reads = |balance| {
        let settings = FleetSettings { times: Some(TIMES), warm_up: 8_000, balance, ..SETTINGS };
        run_fleet(&requests, &settings, FleetForm::Shared).disk_reads()
    };
    let fixed = [0.0, 0.25, 0.5, 1.0].map(|rate| reads(FleetBalance::Fixed(rate)));
    let (tuned, best) = (reads(FleetBalance::Tuned), fixed.into_iter().min().unwrap_or_default());
    assert!(tuned as f64 <= 1.05 * best as f64, "{tuned} beside {fixed:?}");
    let ideal = ideal_disk_reads(&requests, &FleetSettings { warm_up: 8_000, ..SETTINGS });
    assert!(ideal > 0 && tuned as f64 <= 1.5 * ideal as f64, "{tuned} beside {ideal} of one LRU list");
}
