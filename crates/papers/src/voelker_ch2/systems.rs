//! Every system on the same requests: the places that serve them, their times, and the load of each
//! node.

use super::{ACTIVE, IDLE, Progress, WebRequests, ratio};
use shoal_lab::cluster::{
    ClusterCounts, ClusterSize, RunPlan, SYSTEMS, ServiceTimes, ThroughputResult, named, serve,
};
use shoal_lab::figure::{Axis, Bar, Bars, Chart, Figure, Unit};
use shoal_lab::report::{Finding, Section, Table};

/// Runs of a system: without queues, and with queues.
struct Ran {
    key: &'static str,
    name: &'static str,
    counts: ClusterCounts,
    queued: ThroughputResult,
}

pub(super) fn sections(web: &WebRequests, progress: &mut dyn Progress) -> Vec<Section> {
    progress.begin("every system", SYSTEMS.len() as u64);
    let size = size(web);
    let ran: Vec<Ran> = SYSTEMS
        .iter()
        .map(|(key, _)| {
            progress.done(1);
            run(web, key, &size)
        })
        .collect();
    vec![comparison(&ran, &size), waiting(&ran)]
}

/// Returns a cluster: each node's memory holds a 64th of all objects, and so does the server's.
pub(super) fn size(web: &WebRequests) -> ClusterSize {
    let frames = (web.objects / PART).max(2);
    ClusterSize { nodes: vec![frames; ACTIVE + IDLE], server: frames, objects: web.objects }
}

fn run(web: &WebRequests, key: &'static str, size: &ClusterSize) -> Ran {
    let service = ServiceTimes::pai(size.nodes.len());
    let plan = RunPlan { warm_up: web.requests.len() as u64 / 2, failure: None };
    let made = named(key, size, &web.options());
    let name = made.as_ref().map_or(key, |system| system.name());
    let queued = made.map_or_else(ThroughputResult::default, |mut system| {
        serve(system.as_mut(), size, &service, web.of_workstations(), plan)
    });
    Ran { key, name, counts: web.shared_by(key, size), queued }
}

fn comparison(ran: &[Ran], size: &ClusterSize) -> Section {
    let bars = ran.iter().map(|one| Bar::new(one.name, &shares(&one.counts))).collect();
    let parts = ["own memory", "another node's", "the server's", "disk"].map(String::from).to_vec();
    let figure = Figure::new(
        "served",
        "Where requests are served",
        "Without sharing more than half of the requests go to disk; with any sharing about a quarter fewer, and nearly the same however it is coordinated.",
        Chart::Bars(Bars { axis: Axis::share("requests"), parts, bars, claimant: String::new() }),
    );
    let heading =
        ["system", "own memory", "another's", "server's", "disk", "mean", "server load", "sent to keep"];
    let mut table = Table::new("Where nobody waits", &heading);
    for one in ran {
        let [own, other, server, disk] = shares(&one.counts).map(|share| Unit::Share.shown(share));
        let kept = one.counts.forwarded as f64 / one.counts.requests.max(1) as f64;
        table.row(&[
            one.name,
            &own,
            &other,
            &server,
            &disk,
            &Unit::Milliseconds.shown(one.counts.mean_ms()),
            &Unit::Ratio.shown(one.counts.load_per_request()),
            &Unit::Ratio.shown(kept),
        ]);
    }
    Section {
        anchor: "systems".into(),
        title: "Every system on the same requests".into(),
        question: "Where are requests served, how long does it take when nobody waits, and what does the server do?".into(),
        figures: vec![figure],
        findings: findings(ran),
        tables: vec![table],
        notes: vec![
            format!(
                "Sixteen nodes of {} objects each, and a server of as many. Twelve nodes ask; four lend their memory to the systems that know of lending, and hold what others put there in those \
                 that share all. Front ends have sixteen back-ends with disks of their own and no server. Latencies are those of Dahlin et al. 1994; the server's load is 1 for a message, 2 for a \
                 block sent or read.",
                Unit::Count.shown(size.nodes[0] as f64)
            ),
            "The pagers and Dodo share nothing between clients, so that what one has read another reads again. Dodo's regions are of one object here, since objects of the web have no neighbours.".into(),
        ],
        ..Section::default()
    }
}

pub(super) fn shares(counts: &ClusterCounts) -> [f64; 4] {
    let served = counts.local + counts.remote + counts.server + counts.disk;
    assert!(served <= counts.requests, "{served} of {} requests are served", counts.requests);
    let all = counts.requests.max(1) as f64;
    [counts.local, counts.remote, counts.server, counts.disk].map(|count| count as f64 / all)
}

fn waiting(ran: &[Ran]) -> Section {
    let bar = |one: &Ran| Bar::new(one.name, &[one.queued.throughput()]);
    let figure = Figure::new(
        "throughput",
        "Requests answered a second by sixteen nodes",
        "What misses least answers most; the front ends that heed locality answer the most.",
        Chart::Bars(Bars {
            axis: Axis::linear("requests a second", Unit::Count),
            parts: vec!["throughput".into()],
            bars: ran.iter().map(bar).collect(),
            claimant: String::new(),
        }),
    );
    let heading =
        ["system", "a second", "delay", "processor", "disk", "server", "its disks", "balance", "underused"];
    let mut table = Table::new("Where requests wait for processors and disks", &heading);
    for Ran { name, queued, .. } in ran {
        assert!(
            (0.0..=1.0).contains(&queued.underused()),
            "{name}: nodes are underused for a share of the time"
        );
        let most = |of: fn(&shoal_lab::cluster::NodeUtilization) -> f64| {
            queued.nodes.iter().map(of).fold(0.0, f64::max)
        };
        let share = |share: f64| Unit::Share.shown(share);
        table.row(&[
            name,
            &Unit::Count.shown(queued.throughput()),
            &Unit::Seconds.shown(queued.delay_ms / 1e3),
            &share(most(|node| node.processor)),
            &share(most(|node| node.disk)),
            &share(queued.server.processor),
            &share(queued.server.disk),
            &Unit::Ratio.shown(queued.imbalance()),
            &share(queued.underused()),
        ]);
    }
    Section {
        anchor: "waiting".into(),
        title: "Throughput and load".into(),
        question: "How many requests are answered a second, and which part is busy?".into(),
        figures: vec![figure],
        tables: vec![table],
        notes: vec![
            "Processors and disks are those of Pai et al. 1998 (290 µs a connection, 640 µs to send 8 KB, 28.8 ms to read it from disk), with as many requests under way as LARD lets in. A server has as many \
             disks as there are nodes. In this trace a third of the requests and more is for objects never asked for before, which no memory answers, so that disks bound all systems; what back-ends can do \
             when their memory suffices is asked below."
                .into(),
            "Processor and disk: how busy those of the busiest node are. Balance: the most requests that a node answered over the mean.".into(),
            "Requests of workstations come from twelve nodes of sixteen, as their clients ask: their balance is the clients'. Underused is a node that answers fewer than ten requests (40% of T_low).".into(),
        ],
        ..Section::default()
    }
}

fn findings(ran: &[Ran]) -> Vec<Finding> {
    let of = |key: &str| {
        ran.iter().find(|one| one.key == key).map_or_else(ClusterCounts::default, |one| one.counts)
    };
    let ms = |key: &str| of(key).mean_ms();
    let load = |key: &str| of(key).load_per_request();
    let least = |of: &dyn Fn(&str) -> f64, keys: &[&str]| {
        keys.iter().map(|key| of(key)).fold(f64::INFINITY, f64::min)
    };
    let most = |of: &dyn Fn(&str) -> f64, keys: &[&str]| keys.iter().map(|key| of(key)).fold(0.0, f64::max);
    let others = ["direct", "greedy", "central", "hashed"];
    vec![
        ratio(
            "n_chance_ms",
            "N-chance: latency over the lowest of direct, greedy, central, hashed",
            "lowest: below 1",
            ms("n_chance") / least(&ms, &others),
        ),
        ratio(
            "n_chance_load",
            "N-chance: server load over the lowest of the same",
            "lowest: below 1",
            load("n_chance") / least(&load, &others),
        ),
        ratio(
            "direct_ms",
            "direct cooperation: latency over the highest of the others",
            "highest: above 1",
            ms("direct") / most(&ms, &["greedy", "central", "hashed", "n_chance"]),
        ),
        ratio(
            "central_load",
            "central coordination: server load over the highest of the others",
            "highest: above 1",
            load("central") / most(&load, &["direct", "greedy", "hashed", "n_chance"]),
        ),
        ratio(
            "hashed_load",
            "hash-distributed: server load over central coordination's",
            "significantly below 1",
            load("hashed") / load("central"),
        ),
        ratio(
            "hashed_ms",
            "hash-distributed: latency over central coordination's",
            "no effect: 1",
            ms("hashed") / ms("central"),
        ),
        ratio(
            "weighted_ms",
            "weighted LRU: latency over N-chance's",
            "slightly worse: above 1",
            ms("weighted_lru") / ms("n_chance"),
        ),
    ]
}

/// Divisor of the number of objects: the part in a node's memory.
const PART: usize = 64;
