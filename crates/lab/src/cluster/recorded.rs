//! Counts of every system on one trace of a fixed seed, as they were recorded: a faster simulation
//! must count the same.

use super::*;
use shoal_trace::Random;

#[test]
fn counts_are_those_recorded() {
    let found: Vec<String> = SYSTEMS.iter().map(|(name, make)| line(name, *make)).collect();
    let recorded: Vec<&str> = RECORDED.lines().map(str::trim).collect();
    assert_eq!(found, recorded, "found:\n{}", found.join("\n"));
}

/// Returns a system's counts without queues, and its answers, time and delay with queues.
fn line(name: &str, make: SchemeConstructor) -> String {
    let size =
        ClusterSize { nodes: vec![80, 200, 120, 160, 40, 300], server: 250, objects: OBJECTS as usize };
    let options = SchemeOptions { idle: 2, region: 4, b: 0.3, ..SchemeOptions::default() };
    let plan = RunPlan { warm_up: 6000, failure: Some((14_000, 3)) };
    let ClusterCounts { local, remote, server, disk, forwarded, disk_writes, lost, .. } =
        simulate_with(make(&size, &options).as_mut(), &size, accesses(), plan);
    let queued = serve(make(&size, &options).as_mut(), &size, &ServiceTimes::pai(6), accesses(), plan);
    let (us, delay) = ((queued.seconds * 1e6).round(), (queued.delay_ms * 1e3).round());
    let answered = queued.answered;
    format!(
        "{name} {local} {remote} {server} {disk} {forwarded} {disk_writes} {lost} {answered} {us} {delay}"
    )
}

/// Returns requests, one of nine a write. Only products of draws decide, which come out the same
/// everywhere.
fn accesses() -> impl Iterator<Item = Access> {
    let mut random = Random::new(23);
    (0..24_000).map(move |at| {
        let node = random.below(6).min(random.below(6)) as usize;
        let (draw, is_shared) = (random.unit(), random.below(2) == 0);
        let of = |count: u32| (draw * draw * draw * draw * f64::from(count)) as u32;
        let object = if is_shared { of(SHARED) } else { SHARED + node as u32 * OWN + of(OWN) };
        Access { node, object, is_write: at % 9 == 4 }
    })
}

const SHARED: u32 = 3000;
const OWN: u32 = 900;
const OBJECTS: u32 = SHARED + 6 * OWN;

/// For each system: requests served from the own memory, from another's, from the server's and from
/// disk, blocks forwarded, written and lost; with queues requests answered, microseconds in all and
/// on average.
const RECORDED: &str = "\
    direct 4690 861 836 10278 9925 1405 25 16665 49791430 1023231
    greedy 4690 1641 530 9804 0 1405 25 16665 47214370 989116
    central 2618 3069 1729 9249 7891 1656 4 16665 47394530 964600
    hashed 3037 2353 1851 9424 7181 1656 4 16665 47726610 972484
    n_chance 3548 3163 652 9302 11222 1594 10 16665 44814610 938801
    weighted_lru 4115 3068 467 9015 11069 1530 17 16665 43359270 903975
    gms 4381 3114 13 9157 9036 1467 10 16665 44005640 919049
    pager 4690 1758 0 10217 215 1100 371 16665 106002860 2206950
    pager_mirroring 4690 297 0 11678 70 1240 371 16665 127183590 2658131
    pager_parity 4690 297 0 11678 70 1240 371 16665 127183590 2658131
    pager_parity_logging 4690 285 0 11690 68 1241 371 16665 127327690 2661127
    dodo 5177 1605 0 8639 586 1835 0 16665 103722600 2151238
    dodo_first_in 5292 883 0 9244 586 1835 0 16665 109890720 2272095
    wrr 3208 0 0 14792 0 1594 0 18000 86372260 1669794
    wrr_gms 3063 4737 0 10200 8210 1651 0 18000 62971410 1217422
    lb 7849 0 0 10151 0 1408 36 18000 68362320 1296763
    lb_gc 8076 0 0 9924 0 1420 30 18000 123981140 2395443
    lard 7818 0 0 10182 0 1448 19 18000 62366480 1206320
    lard_replicated 7818 0 0 10182 0 1448 19 18000 62366480 1206320";
