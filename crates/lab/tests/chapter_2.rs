//! The headline finding of each system of Voelker 2000, chapter 2, on web requests and page
//! references.
//!
//! Every test runs on made traffic, and on the shared traces where they are present: in the folder
//! that `SHOAL_TRACES` names, or in `shared/traces` beside the checkout. Where a finding holds
//! under a condition only, the test has the condition. docs/experiments/voelker-ch2.md tells the
//! results without it.

use shoal_lab::cluster::{
    Access, ClusterCounts, ClusterSize, RunPlan, SYSTEMS, SchemeOptions, ServiceTimes, ThroughputResult,
    named, serve, simulate, simulate_with,
};
use shoal_lab::global_memory::Application;
use shoal_trace::generate::Traffic;
use shoal_trace::{Filter, Input, ReadOptions, Trace};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Requests read from a trace; tests are not built for speed.
const MOST: usize = 60_000;

/// Web requests, as pairs of node and object.
struct Web {
    name: &'static str,
    requests: Vec<(usize, u32)>,
    objects: usize,
}

/// Returns the requests of workstations. A web server's log has clients all over the world and is
/// for a front end.
fn proxied() -> impl Iterator<Item = Web> {
    webs().into_iter().filter(|web| !web.name.contains("nasa"))
}

/// Returns the first requests of a trace.
fn web_of(name: &'static str, path: &Path, most: usize) -> Web {
    let input = Input::open(path).expect("it opens");
    let read = Trace::read(input, &ReadOptions::default(), &Filter::default(), most, 8192);
    web(name, &read.expect("it reads").0)
}

fn web(name: &'static str, trace: &Trace) -> Web {
    Web {
        name,
        requests: trace.requests().iter().map(|request| (request.client as usize, request.object)).collect(),
        objects: trace.objects().len(),
    }
}

/// Returns made proxy traffic, and the shared traces that tell their clients.
fn webs() -> Vec<Web> {
    let traffic = Traffic { requests: 60_000, clients: 200, hit_ratio: 0.85, ..Traffic::default() };
    let mut webs = vec![web("made", &traffic.make().expect("traffic"))];
    for file in ["nasa-http-1995-08-01.tsv.zst", "bu95-client-nov94-mar95.tsv.zst"] {
        if let Some(path) = shared(file) {
            webs.push(web_of(file, &path, MOST));
        }
    }
    webs
}

fn shared(file: &str) -> Option<PathBuf> {
    let told = std::env::var_os("SHOAL_TRACES").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let path = told.unwrap_or(beside).join(file);
    if !path.is_file() {
        eprintln!("skipped: {file} is not here; SHOAL_TRACES may name its folder");
    }
    path.is_file().then_some(path)
}

impl Web {
    /// Returns twelve active nodes, four idle ones and a server, each with 1/`part` of the objects.
    fn workstations(&self, part: usize) -> ClusterSize {
        let frames = (self.objects / part).max(2);
        ClusterSize { nodes: vec![frames; 16], server: frames, objects: self.objects }
    }

    /// Runs a system of cooperative caching without queues; the first half warms up.
    fn shared_by(&self, system: &str, size: &ClusterSize) -> ClusterCounts {
        self.shared_with(system, size, SchemeOptions { idle: 4, ..SchemeOptions::default() })
    }

    fn shared_with(&self, system: &str, size: &ClusterSize, options: SchemeOptions) -> ClusterCounts {
        let requests = self.requests.iter().map(|(client, object)| (client % 12, *object));
        let mut system = named(system, size, &options).expect("a system");
        simulate(system.as_mut(), size, requests, self.requests.len() as u64 / 2)
    }

    /// Runs a front end before `nodes` back-ends, with queued requests. The trace is taken twice
    /// and the first time warms up, so that the cluster holds all it can.
    fn handed_out(&self, system: &str, nodes: usize, part: usize) -> ThroughputResult {
        let size = ClusterSize {
            nodes: vec![(self.objects / part).max(2); nodes],
            server: 0,
            objects: self.objects,
        };
        let mut system = named(system, &size, &SchemeOptions::default()).expect("a system");
        let twice = self.requests.iter().chain(&self.requests).copied();
        let plan = RunPlan { warm_up: self.requests.len() as u64, failure: None };
        serve(system.as_mut(), &size, &ServiceTimes::pai(nodes), twice, plan)
    }
}

#[test]
fn dahlin_latencies_and_server_loads_are_ordered() {
    // section 2.1.2: "(1) N-chance had the lowest average request latency and server load, (2)
    // direct client cooperation had the highest average request latency, and (3) centrally
    // coordinated caching had the highest server load". The latency of N-chance is the lowest of
    // these. Its load is above that of greedy forwarding, for receivers evict duplicates in use.
    // With receivers that search few blocks it is the lowest.
    for web in proxied() {
        let size = web.workstations(64);
        let of = |system: &str| web.shared_by(system, &size);
        let (direct, n_chance, central) = (of("direct"), of("n_chance"), of("central"));
        let few = web.shared_with(
            "n_chance",
            &size,
            SchemeOptions { idle: 4, searched: 8, ..SchemeOptions::default() },
        );
        for other in ["greedy", "central", "hashed"] {
            let found = of(other);
            assert!(n_chance.mean_ms() < 1.01 * found.mean_ms(), "{}: {other}", web.name);
            assert!(few.load_per_request() < found.load_per_request(), "{}: {other}", web.name);
            assert!(direct.mean_ms() > found.mean_ms(), "{}: {other}", web.name);
            assert!(central.load_per_request() >= found.load_per_request(), "{}: {other}", web.name);
        }
        assert!(n_chance.mean_ms() < of("greedy").mean_ms() && n_chance.mean_ms() < direct.mean_ms());
        assert!(n_chance.load_per_request() < of("hashed").load_per_request(), "{}", web.name);
        assert!(n_chance.local < few.local, "{}", web.name);
    }
}

#[test]
fn weighted_lru_on_boston_is_as_calculated_elsewhere() {
    // Exact values of an implementation of its own, for the first 100,000 requests: 31.2% from the
    // own memory, 40.5% from disk, 6.854 ms.
    let Some(path) = shared("bu95-client-nov94-mar95.tsv.zst") else { return };
    let web = web_of("bu95", &path, 100_000);
    let found = web.shared_by("weighted_lru", &web.workstations(64));
    let share = |count: u64| (count as f64 / found.requests as f64 * 1000.0).round();
    assert_eq!((share(found.local), share(found.disk)), (312.0, 405.0));
    assert!((found.mean_ms() - 6.854).abs() < 5e-4, "{}", found.mean_ms());
}

#[test]
fn dahlin_hashing_spares_the_server_and_no_time() {
    // "Hash-distributed caching significantly reduced the server load of centrally coordinated
    // caching, but had no effect on response time"
    for web in proxied() {
        let size = web.workstations(64);
        let (central, hashed) = (web.shared_by("central", &size), web.shared_by("hashed", &size));
        assert!(hashed.load_per_request() < 0.9 * central.load_per_request(), "{}", web.name);
        assert!((hashed.mean_ms() / central.mean_ms() - 1.0).abs() < 0.02, "{}", web.name);
    }
}

#[test]
fn feeley_gms_beats_n_chance_on_uneven_memory() {
    // section 2.1.3: "when idle memory is unevenly distributed across nodes in the cluster, the
    // global coordination of GMS performed significantly better than the autonomous coordination of
    // N-chance". One of four idle nodes has nearly all idle memory, or each a quarter.
    for web in proxied() {
        let frames = (web.objects / 100).max(4);
        let idle = 16 * frames;
        let ratio = |last: [usize; 4]| {
            let size = ClusterSize {
                nodes: [&[frames; 12][..], &last].concat(),
                server: frames,
                objects: web.objects,
            };
            web.shared_by("gms", &size).mean_ms() / web.shared_by("n_chance", &size).mean_ms()
        };
        let uneven = ratio([idle - 3, 1, 1, 1]);
        let even = ratio([idle / 4; 4]);
        assert!(uneven < 0.97, "{}: {uneven}", web.name);
        assert!(uneven < even - 0.02, "{}: {uneven} uneven, {even} even", web.name);
    }
}

#[test]
fn pai_lard_has_hits_and_balance() {
    // section 2.2.3: "WRR balanced the load the best, but had the lowest throughput and hit rates
    // because it ignores locality. The LB policies had the best hit rates, but only moderately
    // better throughput than the WRR policies because they do not balance load. … the LARD policies
    // achieve the highest throughputs and balance load nearly as well as WRR." The back-ends hold
    // the requested objects together, and none holds them alone.
    for web in webs() {
        let of = |system: &str| web.handed_out(system, 16, 8);
        let misses = |found: &ThroughputResult| found.counts.disk as f64 / found.counts.requests as f64;
        let [wrr, wrr_gms, lb, lb_gc, lard, replicated] =
            ["wrr", "wrr_gms", "lb", "lb_gc", "lard", "lard_replicated"].map(of);
        for other in [&wrr_gms, &lb, &lb_gc, &lard, &replicated] {
            assert!(wrr.throughput() < other.throughput(), "{}", web.name);
            assert!(misses(&wrr) > misses(other), "{}", web.name);
        }
        let best = lard.throughput().max(replicated.throughput());
        for other in [&wrr, &wrr_gms, &lb, &lb_gc] {
            assert!(best > other.throughput(), "{}: {best} and {}", web.name, other.throughput());
        }
        assert!(best > 2.0 * wrr.throughput(), "{}: two to four times and more", web.name);
        assert!(
            lb.underused() > 0.1 && lard.underused() < 0.05 && replicated.underused() < 0.05,
            "{}",
            web.name
        );
    }
}

#[test]
fn pai_locality_gains_by_back_ends() {
    // Pai et al. 1998, section 4.1: the miss ratio of WRR stays at the level of one node. The
    // ratios of LB and LARD fall as nodes are added, for their caches add up.
    for web in webs() {
        let misses = |system: &str, nodes: usize| {
            let counts = web.handed_out(system, nodes, 32).counts;
            counts.disk as f64 / counts.requests as f64
        };
        assert!(misses("wrr", 8) > 0.97 * misses("wrr", 1), "{}", web.name);
        for system in ["lb", "lb_gc", "lard"] {
            let (one, eight) = (misses(system, 1), misses(system, 8));
            assert!(eight < 0.8 * one, "{}: {system}: {one}, {eight}", web.name);
        }
        // Bunt et al. 1999: "static hashed assignment of the URL space is found to yield very
        // similar cache performance to load distribution based on current cache contents"
        assert!((misses("lb", 8) / misses("lb_gc", 8) - 1.0).abs() < 0.05, "{}", web.name);
    }
}

/// A program's references, some of which change their page.
struct Program {
    name: String,
    references: Vec<(u32, bool)>,
    pages: usize,
}

/// Returns made programs and the shared page references. Only some traces tell loads from stores;
/// in the others every third reference changes its page.
fn programs() -> Vec<Program> {
    let third = |at: usize| at.is_multiple_of(3);
    let mut programs: Vec<Program> = Application::made(60_000, 1)
        .into_iter()
        .map(|one| Program {
            name: one.name,
            references: one.references.iter().enumerate().map(|(at, page)| (*page, third(at))).collect(),
            pages: one.pages,
        })
        .collect();
    for file in ["pages-sprite.txt.zst", "pages-spec-gcc-4k.txt.zst", "pages-cloudphysics-w106-2m.txt.zst"] {
        programs.extend(shared(file).map(|path| Program::read(file, &path)));
    }
    programs
}

impl Program {
    /// Reads the first lines of a trace of `PAGE`, or `l PAGE` and `s PAGE`.
    fn read(name: &str, path: &Path) -> Self {
        let mut numbers = std::collections::HashMap::new();
        let mut references = Vec::new();
        let lines = BufReader::new(Input::open(path).expect("it opens")).lines().take(MOST);
        for (at, line) in lines.enumerate() {
            let line = line.expect("text");
            let (is_write, page) = match line.split_once(' ') {
                Some((kind, page)) => (kind == "s", page.to_owned()),
                None => (at.is_multiple_of(3), line),
            };
            let next = numbers.len() as u32;
            references.push((*numbers.entry(page).or_insert(next), is_write));
        }
        Self { name: name.into(), pages: numbers.len(), references }
    }

    fn run(&self, system: &str, size: &ClusterSize, region: usize, plan: RunPlan) -> ClusterCounts {
        let access =
            |(object, is_write): &(u32, bool)| Access { node: 0, object: *object, is_write: *is_write };
        let options = SchemeOptions { idle: size.nodes.len() - 1, region, ..SchemeOptions::default() };
        let mut system = named(system, size, &options).expect("a system");
        simulate_with(system.as_mut(), size, self.references.iter().map(access), plan)
    }
}

const PAGERS: [&str; 4] = ["pager", "pager_mirroring", "pager_parity", "pager_parity_logging"];

/// Returns a cluster for a program with an eighth of its pages in local memory, and five servers.
/// The servers together hold `quarters` quarters of its pages beside a fifth for parity.
fn with_servers(program: &Program, quarters: usize) -> ClusterSize {
    let server = (program.pages * quarters / 4 / 4).max(8);
    ClusterSize {
        nodes: [&[(program.pages / 8).max(1)][..], &[server; 5]].concat(),
        server: 0,
        objects: program.pages,
    }
}

#[test]
fn markatos_parity_logging_beats_mirroring() {
    // section 2.1.4: "parity logging performed the best and mirroring the worst. The space overhead
    // of mirroring induced too many extra faults, but parity logging required fewer network
    // transfers than plain parity even with the additional scratch space overhead. However, the
    // cleaner was never used".
    let ms = |counts: &ClusterCounts| counts.mean_ms_with_pageouts();
    for program in programs() {
        let run = |quarters: usize| {
            let size = with_servers(&program, quarters);
            PAGERS.map(|system| program.run(system, &size, 1, RunPlan::default()))
        };
        let name = &program.name;
        // Room for a quarter more than all pages is too little for two copies, so that mirroring
        // has more faults.
        let [none, mirroring, parity, logging] = run(5);
        assert!(mirroring.disk > none.disk && logging.disk == none.disk, "{name}");
        assert!(ms(&mirroring) > ms(&parity).max(ms(&logging)), "{name}");
        // Our cleaner runs here. Where any page may be written next, it sends more than parity
        // logging saves, by a tenth at most.
        assert!(logging.forwarded as f64 <= 1.1 * parity.forwarded as f64, "{name}");
        // Room for twice as much leaves the cleaner little to do.
        let [none, mirroring, parity, logging] = run(8);
        assert!(ms(&none) < ms(&logging) && ms(&logging) < ms(&parity), "{name}");
        assert!(logging.forwarded < parity.forwarded, "{name}");
        assert_eq!(mirroring.forwarded, parity.forwarded, "{name}: two transfers a page-out each");
    }
}

#[test]
fn markatos_one_lost_server_costs_no_protected_page() {
    for program in programs() {
        let server = (program.pages / 2).max(8);
        let size = ClusterSize {
            nodes: vec![program.pages / 8, server, server, server, server],
            server: 0,
            objects: program.pages,
        };
        let plan = RunPlan { failure: Some((program.references.len() as u64 / 2, 2)), ..RunPlan::default() };
        for (system, protects) in PAGERS.into_iter().zip([false, true, true, true]) {
            let counts = program.run(system, &size, 1, plan);
            assert!(counts.lost == 0 || !protects, "{}: {system}", program.name);
            assert_eq!(counts.requests, program.references.len() as u64);
        }
    }
}

#[test]
fn koussih_idle_memory_gains_below_aggregate_memory() {
    // the abstract of Koussih, Acharya, Setia 1999: "Significant speedups (between 2 and 3) were
    // obtained for applications whose working sets are larger than the local memory on a
    // workstation but smaller than aggregate memory available on the cluster". Programs read only;
    // four idle nodes, or none.
    let read_only = |mut program: Program| {
        program.references.iter_mut().for_each(|reference| reference.1 = false);
        program
    };
    let is_loop = |program: &Program| program.name == "loop";
    for program in programs().into_iter().map(read_only) {
        let speedup = |local: usize, idle: usize| {
            let run = |nodes: Vec<usize>| {
                let size = ClusterSize { nodes, server: 0, objects: program.pages };
                let counts = program.run(
                    "dodo",
                    &size,
                    4,
                    RunPlan { warm_up: program.references.len() as u64 / 2, failure: None },
                );
                counts.microseconds as f64
            };
            run(vec![local]) / run(vec![local, idle, idle, idle, idle])
        };
        let pages = program.pages;
        // "highly dependent on its I/O access pattern": a loop over all pages gains most; a program
        // with its hot pages in local memory gains little.
        let between = speedup(pages / 4, pages / 4 + 4);
        assert!(between >= 0.99 && (between > 2.0 || !is_loop(&program)), "{}: {between}", program.name);
        let enough = speedup(2 * pages, pages / 4 + 4);
        assert!((0.99..1.01).contains(&enough), "{}: local memory is enough: {enough}", program.name);
        let scarce = speedup(pages / 4, 4);
        assert!(scarce < 1.2, "{}: there is no idle memory to speak of: {scarce}", program.name);
    }
}

#[test]
fn koussih_first_in_suits_loops_and_whole_regions() {
    // A program reads a file of 96 pages again and again, with room for half of it. LRU evicts each
    // region before its next use.
    let references: Vec<(u32, bool)> = (0..9600u32).map(|at| (at % 96, false)).collect();
    let round = Program { name: "round".into(), references, pages: 96 };
    let size = |idle: usize| ClusterSize { nodes: vec![48, idle, idle, idle], server: 0, objects: 96 };
    let [lru, first_in] =
        ["dodo", "dodo_first_in"].map(|system| round.run(system, &size(32), 8, RunPlan::default()));
    assert!(first_in.microseconds < lru.microseconds);
    assert!(first_in.remote < lru.remote * 5, "what is not kept comes page by page");
    // section 2.1.5: "even if there is enough idle memory in the cluster to store a memory region,
    // an application cannot allocate it unless all of that memory is on one node"
    let (whole, split) = (
        round.run("dodo", &size(32), 32, RunPlan::default()),
        round.run("dodo", &size(31), 32, RunPlan::default()),
    );
    assert!(whole.disk <= 3 && split.remote == 0, "{} {}", whole.disk, split.remote);
}

#[test]
fn every_system_keeps_its_books_on_every_trace() {
    for web in webs() {
        let size = web.workstations(64);
        for (name, _) in SYSTEMS {
            let ClusterCounts { requests, local, remote, server, disk, lost, .. } =
                web.shared_by(name, &size);
            assert_eq!(requests, (web.requests.len() as u64).div_ceil(2), "{}: {name}", web.name);
            assert_eq!((local + remote + server + disk, lost), (requests, 0), "{}: {name}", web.name);
        }
    }
}
