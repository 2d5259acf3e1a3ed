//! Each rule of the dissertation under both hardwares.

use super::{Hardware, LabError, PAGE, Progress, Section, Table, Unit, finding};
use shoal_cooperation::prefetch::AccessTimes;
use shoal_lab::cluster::{Access, ClusterCounts, ClusterSize, SchemeOptions, named, simulate};
use shoal_lab::global_memory::contention::{
    BalancingRate, ContentionSetup, Targets, UtilizationLimits, simulate as contend,
};
use shoal_lab::global_memory::{Application, FaultCosts};
use shoal_lab::prefetching::{
    DiskTimes, PrefetchCosts, PrefetchKinds, PrefetchSetup, Program, simulate as prefetch,
};
use shoal_lab::simulator::ZipfTrace;
use shoal_trace::Random;

/// A rule with its worth under both hardwares.
struct Rule {
    key: &'static str,
    name: &'static str,
    then: f64,
    now: f64,
}

pub(super) fn section(seed: u64, is_small: bool, progress: &mut dyn Progress) -> Result<Section, LabError> {
    progress.begin("rules", 4);
    let mut rules = sharing(seed, is_small);
    progress.done(1);
    rules.extend(balancing(seed, is_small));
    progress.done(1);
    rules.extend(prefetching(seed, is_small)?);
    progress.done(2);
    let mut table = Table::new(
        "Worth of each rule: times as fast with it",
        &["rule", Hardware::DISSERTATION.name, Hardware::TODAY.name],
    );
    for rule in &rules {
        assert!(rule.then > 0.0 && rule.now > 0.0, "{} takes time", rule.name);
        table.row(&[rule.name, &Unit::Ratio.shown(rule.then), &Unit::Ratio.shown(rule.now)]);
    }
    let bound = |hardware: Hardware| {
        AccessTimes::new(0.0, hardware.remote_seconds(PAGE), hardware.disk_seconds(PAGE))
            .map_or(f64::NAN, |times| times.bound())
    };
    table.row(&[
        "GLFD: cost over the least possible, at most",
        &Unit::Ratio.shown(bound(Hardware::DISSERTATION)),
        &Unit::Ratio.shown(bound(Hardware::TODAY)),
    ]);
    let findings = rules.iter().map(|rule| {
        finding(&format!("{}_now", rule.key), &format!("{}, today", rule.name), Unit::Ratio, rule.now)
    });
    Ok(Section {
        anchor: "rules".into(),
        title: "What each rule is worth".into(),
        question: "How much faster are requests and programs with a rule than without, then and now?".into(),
        findings: findings.collect(),
        tables: vec![table],
        notes: vec![
            "Sharing: sixteen nodes of 2,000 frames, four of them idle, half of the requests for 50,000 objects that all want; nobody waits. Balancing: sixty busy nodes on eleven idle ones, of which one with a \
             third of the memory joins. Prefetching: Render on five nodes. Computing is thirty times as fast today, so that waits stay as large a part of a program's time as they were if devices are thirty times as fast."
                .into(),
            format!(
                "A drive of the simulation reads one page after the other, in {}. A flash drive reads {} pages a second when many are asked for at once, one each {:.2} µs, which is less than a page from \
                 another node takes. A program that tells its references to its own drive needs no other node's: the rules of chapter 4 are worth what the table says only to programs whose reads wait \
                 for each other.",
                Unit::Milliseconds.shown(Hardware::TODAY.disk_seconds(PAGE) * 1e3),
                Unit::Count.shown(Hardware::TODAY.disk_reads_per_second),
                1e6 / Hardware::TODAY.disk_reads_per_second
            ),
        ],
        ..Section::default()
    })
}

/// Chapter 2: requests where nobody waits.
fn sharing(seed: u64, is_small: bool) -> Vec<Rule> {
    let requests = if is_small { 40_000 } else { 1_000_000 };
    let size = ClusterSize { nodes: vec![2000; 16], server: 4000, objects: 50_000 + 16 * 5000 };
    let mut shared = ZipfTrace::new(50_000, 0.8, 1, seed);
    let mut own = ZipfTrace::new(5000, 0.8, 1, seed.wrapping_add(1));
    let mut random = Random::new(seed);
    let accesses: Vec<Access> = (0..requests)
        .map(|_| {
            let node = random.below(12) as usize;
            let next = |trace: &mut ZipfTrace| trace.next().map_or(0, |one| one.object as u32);
            let object = if random.below(2) == 0 {
                next(&mut shared)
            } else {
                50_000 + node as u32 * 5000 + next(&mut own)
            };
            Access::from((node, object))
        })
        .collect();
    let options = SchemeOptions { idle: 4, seed, ..SchemeOptions::default() };
    let counts = |key: &str| match named(key, &size, &options) {
        Some(mut system) => simulate(system.as_mut(), &size, accesses.iter().copied(), requests / 2),
        None => ClusterCounts::default(),
    };
    let base = counts("direct");
    let rule = |key, name, system: &str| {
        let found = counts(system);
        Rule { key, name, then: base.mean_ms() / found.mean_ms(), now: mean_now(&base) / mean_now(&found) }
    };
    vec![
        rule("greedy", "greedy forwarding over direct cooperation", "greedy"),
        rule("n_chance", "N-chance over the same", "n_chance"),
        rule("gms", "GMS over the same", "gms"),
        rule("weighted_lru", "weighted LRU over the same", "weighted_lru"),
    ]
}

/// Returns the mean time of requests on today's hardware, in seconds.
fn mean_now(counts: &ClusterCounts) -> f64 {
    let hardware = Hardware::TODAY;
    let local = MEMORY_SECONDS / hardware.computing;
    let remote = local + hardware.remote_seconds(PAGE);
    // Disks are the server's: the page comes over the network too.
    let disk = remote + hardware.disk_seconds(PAGE);
    let sum = counts.local as f64 * local
        + (counts.remote + counts.server) as f64 * remote
        + counts.disk as f64 * disk;
    sum / counts.requests.max(1) as f64
}

/// Chapter 3: sixty nodes on eleven.
fn balancing(seed: u64, is_small: bool) -> Vec<Rule> {
    let (references, nodes) = if is_small { (4000, 24) } else { (50_000, 60) };
    let programs: Vec<Application> =
        Application::made(references, seed).into_iter().filter(|one| one.name == "phases").collect();
    let hardware = Hardware::TODAY;
    let now = FaultCosts {
        think_seconds: FaultCosts::OO7.think_seconds / hardware.computing,
        getpage_seconds: hardware.server_seconds + PAGE / hardware.network_bytes_per_second,
        disk_seconds: hardware.disk_seconds(PAGE),
    };
    let seconds = |costs, b, bounded, targets| {
        let whole = ContentionSetup::eleven(&programs, nodes, 1.0 / 3.0);
        let balancing = BalancingRate::Fixed(b);
        let limits = UtilizationLimits::AllIdle;
        contend(&programs, &ContentionSetup { costs, balancing, bounded, targets, limits, seed, ..whole })
            .seconds
    };
    let rule = |key, name, b, bounded, targets| {
        let worth = |costs| seconds(costs, 0.0, false, Targets::Memory) / seconds(costs, b, bounded, targets);
        Rule { key, name, then: worth(FaultCosts::OO7), now: worth(now) }
    };
    vec![
        rule("balanced", "load balancing b = 1 over ages alone", 1.0, false, Targets::Memory),
        rule("bounded", "bounds (Equation 3.3) over none, b = 0", 0.0, true, Targets::Memory),
        rule("equal", "equal targets, b = 1, over ages alone", 1.0, false, Targets::Equal),
    ]
}

/// Chapter 4: Render on five nodes.
fn prefetching(seed: u64, is_small: bool) -> Result<Vec<Rule>, LabError> {
    let scale = if is_small { 32 } else { 4 };
    let then = PrefetchCosts::TESTBED;
    let hardware = Hardware::TODAY;
    let now = PrefetchCosts {
        getpage_seconds: 5e-6,
        wire_seconds: hardware.network_seconds - 10e-6,
        transfer_seconds: PAGE / hardware.network_bytes_per_second,
        receive_seconds: 5e-6,
        access_seconds: then.access_seconds / hardware.computing,
        ask_seconds: 5e-6,
        ask_wire_seconds: 10e-6,
        read_seconds: 5e-6,
        putpage_seconds: 5e-6,
        disk: DiskTimes {
            random_seconds: hardware.disk_seconds(PAGE),
            sequential_seconds: PAGE / hardware.disk_bytes_per_second,
        },
    };
    let elapsed = |costs: PrefetchCosts, faster: f64, idle: usize, kinds: PrefetchKinds, is_hinted: bool| {
        let mut program = Program::render(scale, seed);
        program.computing_seconds /= faster;
        let program = if is_hinted { program } else { program.unhinted() };
        let setting = PrefetchSetup {
            costs,
            prefetching: kinds,
            epoch_seconds: (5.0 / f64::from(scale) / faster).max(LEAST_EPOCH_SECONDS),
            seed,
            ..PrefetchSetup::testbed(4096 / scale as usize, idle)
        };
        Ok::<f64, LabError>(prefetch(std::slice::from_ref(&program), &setting)?.seconds)
    };
    let speedup = |costs, faster| {
        let alone = elapsed(costs, faster, 0, PrefetchKinds::NONE, false)?;
        let gms = elapsed(costs, faster, 4, PrefetchKinds::NONE, false)?;
        let local = elapsed(costs, faster, 0, PrefetchKinds::ALL, true)?;
        let pgms = elapsed(costs, faster, 4, PrefetchKinds::ALL, true)?;
        Ok::<[f64; 4], LabError>([alone / gms, alone / local, gms / pgms, local / pgms])
    };
    let (then, now) = (speedup(then, 1.0)?, speedup(now, hardware.computing)?);
    let names = [
        ("gms_5", "GMS on five nodes over one node"),
        ("local_prefetching", "prefetching from the own disk over none"),
        ("pgms", "PGMS over GMS, five nodes"),
        ("pgms_local", "PGMS on five nodes over prefetching from the own disk"),
    ];
    Ok((0..names.len())
        .map(|at| Rule { key: names[at].0, name: names[at].1, then: then[at], now: now[at] })
        .collect())
}

/// Shortest epoch: shorter ones cannot be planned in.
const LEAST_EPOCH_SECONDS: f64 = 0.01;
/// Time of a request served from the own memory, in the dissertation's time (Dahlin et al. 1994).
const MEMORY_SECONDS: f64 = 250e-6;
