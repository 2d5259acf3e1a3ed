//! Cooperative caching since the papers, on one trace: each later system beside its rival.
//!
//! The systems are in [`shoal_lab::successors`], each with its paper's headline as a test on
//! traffic of the paper's shape. This report asks if the headline comes out on a trace that nobody
//! chose for it. The first half of the requests is for training, the second half for measuring.

#[cfg(test)]
mod tests;

use super::drawing::dotted;
use super::{Experiment, Inputs, LabError, Progress};
use shoal_lab::figure::{Axis, Bar, Bars, Chart, Figure, Unit};
use shoal_lab::report::{Claim, Finding, Report, Section, Table};
use shoal_lab::successors::block_placement::{self, Query};
use shoal_lab::successors::bounded_hashing::hand_out;
use shoal_lab::successors::episodes::{Baleen, FlashResult, by_known_episodes, coin_flip, reject_first};
use shoal_lab::successors::experts::{Darwin, Expert, fixed, grid};
use shoal_lab::successors::tiers::{TierCounts, TierSetup, run as run_tiers};
use shoal_trace::Request;
use std::collections::HashMap;

/// The row in the table of experiments.
pub const EXPERIMENT: Experiment = Experiment {
    name: "successors",
    question: "do the headlines of five later systems come out on this trace?",
    needs: "a trace with clients, times and sizes",
    run,
};

fn run(inputs: &Inputs, progress: &mut dyn Progress) -> Result<Report, LabError> {
    let requests = inputs.trace.requests();
    if requests.len() < LEAST_REQUESTS {
        return Err(LabError::TooFewRequests { found: requests.len(), least: LEAST_REQUESTS });
    }
    progress.begin("later systems", 5);
    let parts: [fn(&Inputs) -> Section; 5] = [hashing, placement, coalescing, experts, episodes];
    let sections = parts.map(|part| {
        let section = part(inputs);
        progress.done(1);
        section
    });
    Ok(Report {
        name: EXPERIMENT.name.into(),
        title: "Cooperative caching since the papers".into(),
        question: "Five systems since the papers: consistent hashing with bounded loads, placement by co-access, tiers with coalescing, experts of admission, and admission by \
                   episodes. Which headline comes out on this trace?"
            .into(),
        command: inputs.command.clone(),
        seed: inputs.seed,
        facts: vec![
            ("trace".into(), inputs.source.clone()),
            ("requests".into(), Unit::Count.shown(requests.len() as f64)),
            ("objects".into(), Unit::Count.shown(inputs.trace.objects().len() as f64)),
            ("clients".into(), Unit::Count.shown(inputs.trace.clients().len() as f64)),
            ("bytes of all objects".into(), Unit::Bytes.shown(inputs.workload.unique_bytes().0 as f64)),
        ],
        columns: vec!["ours".into()],
        sections: sections.into(),
        ..Report::default()
    })
}

fn finding(key: &str, what: &str, unit: Unit, claim: Claim, found: f64) -> Finding {
    Finding::new(key, what, unit, claim).found(&[Some(found)])
}

fn bars(name: &str, title: &str, alternative: &str, axis: Axis, bars: Vec<Bar>, part: &str) -> Figure {
    let bars = Bars { axis, parts: vec![part.into()], bars, claimant: String::new() };
    Figure::new(name, title, alternative, Chart::Bars(bars))
}

/// Consistent hashing with bounded loads: the requests handed out to sixteen nodes.
fn hashing(inputs: &Inputs) -> Section {
    let objects: Vec<u32> = inputs.trace.requests().iter().map(|request| request.object).collect();
    let frames = (inputs.trace.objects().len() / 64).max(2);
    let mut table = Table::new(
        "Sixteen nodes with a 64th of the objects each, 256 requests under way",
        &["c", "most load over the mean", "not at their home", "hits"],
    );
    let (mut peaks, mut hits) = (Vec::new(), Vec::new());
    let mut found = Vec::new();
    for c in [1.1, 1.25, 1.5, 2.0, f64::INFINITY] {
        let one = hand_out(&objects, 16, frames, 256, c);
        let name = if c.is_finite() { Unit::Ratio.tick(c) } else { "none".into() };
        table.row(&[
            &name,
            &Unit::Ratio.shown(one.peak),
            &Unit::Share.shown(one.moved),
            &Unit::Share.shown(one.hit_ratio),
        ]);
        if c.is_finite() {
            peaks.push((c, one.peak));
            hits.push((c, one.hit_ratio));
        }
        found.push(one);
    }
    let plain = found[found.len() - 1];
    Section {
        anchor: "bounded-hashing".into(),
        title: "Consistent hashing with bounded loads (Mirrokni et al., SODA 2018)".into(),
        question: "What does a bound on each node's load cost in hits?".into(),
        findings: vec![
            finding("bounded_peak", "most load over the mean, c = 1.25, rounded up to a whole request", Unit::Ratio, Claim::AtMost(1.25 + 1.0 / 16.0), found[1].peak),
            finding("bounded_hits", "hits with c = 1.25 over those without a bound", Unit::Ratio, Claim::Words("not asked".into()), found[1].hit_ratio / plain.hit_ratio.max(f64::MIN_POSITIVE)),
        ],
        tables: vec![table],
        figures: vec![super::drawing::plot(
            "bounded-hashing",
            "Most load of a node, and hits, by the bound c",
            "The load follows the bound; hits rise slowly with it.",
            (Axis::linear("c", Unit::Ratio).over(1.0, 2.0), Axis::linear("load over the mean; share of hits", Unit::Ratio)),
            vec![dotted("load", peaks), dotted("hits", hits)],
            Vec::new(),
        )],
        notes: vec!["The theorem is about balls with one place. A request that passes its home may miss there, which is the price; a second copy of a popular object pays it back.".into()],
        ..Section::default()
    }
}

/// Returns queries: requests of one client with pauses of at most ten seconds.
fn queries(requests: &[Request]) -> Vec<Query> {
    let mut open: HashMap<u32, (u64, Query)> = HashMap::new();
    let mut closed = Vec::new();
    for request in requests {
        let (last, query) = open.entry(request.client).or_insert_with(|| (request.time_ms, Vec::new()));
        if request.time_ms.saturating_sub(*last) > PAUSE_MS || query.len() >= LONGEST_QUERY {
            closed.push(std::mem::take(query));
        }
        *last = request.time_ms;
        if !query.contains(&request.object) {
            query.push(request.object);
        }
    }
    let mut rest: Vec<(u32, Query)> = open.into_iter().map(|(client, (_, query))| (client, query)).collect();
    rest.sort_unstable();
    closed.extend(rest.into_iter().map(|(_, query)| query));
    closed.retain(|query| !query.is_empty());
    closed
}

fn placement(inputs: &Inputs) -> Section {
    let all = queries(inputs.trace.requests());
    let (training, later) = all.split_at(all.len() / 2);
    let vectors = inputs.trace.objects().len();
    let cached = (vectors / 20).max(1);
    let trained = block_placement::read_counts(training, vectors);
    let by_first_request: Vec<u32> = (0..vectors as u32).collect();
    let mut by_hash = by_first_request.clone();
    by_hash.sort_by_key(|vector| shoal_core::mixed(u64::from(*vector)));
    let mut by_count = by_first_request.clone();
    by_count.sort_by_key(|vector| std::cmp::Reverse(trained[*vector as usize]));
    let partitioned = block_placement::partition(training, vectors, BLOCK);
    let baseline = block_placement::read(later, &by_hash, BLOCK, cached, (&trained, None));
    let mut table = Table::new(
        "Blocks of 32 objects, RAM for a twentieth of the objects, second half",
        &["order on the device", "others taken in above", "in RAM", "blocks read", "bandwidth"],
    );
    let mut drawn = Vec::new();
    let mut best = 0.0f64;
    for (name, order) in [
        ("by hash", &by_hash),
        ("by count", &by_count),
        ("by first request", &by_first_request),
        ("partitioned", &partitioned),
    ] {
        let chosen = block_placement::best_threshold(training, order, BLOCK, cached);
        let mut better = 0.0f64;
        for threshold in [None, chosen] {
            let found = block_placement::read(later, order, BLOCK, cached, (&trained, threshold));
            let times = found.bandwidth_over(&baseline);
            let above = threshold.map_or("none".into(), |least| format!("{least} reads"));
            table.row(&[
                name,
                &above,
                &Unit::Share.shown(found.hits as f64 / found.reads.max(1) as f64),
                &Unit::Count.shown(found.blocks as f64),
                &Unit::Ratio.shown(times),
            ]);
            better = better.max(times);
            if threshold == chosen {
                break;
            }
        }
        drawn.push(Bar::new(name, &[better]));
        if name == "partitioned" {
            best = better;
        }
    }
    Section {
        anchor: "placement".into(),
        title: "Placement by co-access (Bandana: Eisenman et al., SysML 2019)".into(),
        question: "How many more objects does a block read bring when objects that are read together lie together?".into(),
        findings: vec![finding("bandana_bandwidth", "effective bandwidth over placement by hash", Unit::Ratio, Claim::Words("2 to 3".into()), best)],
        tables: vec![table],
        figures: vec![bars("placement", "Effective bandwidth over placement by hash, with or without others taken in, the better of both", "Partitioning by co-access is ahead of an order by hash.", Axis::linear("objects for each block read, beside placement by hash", Unit::Ratio), drawn, "second half")],
        notes: vec!["A query is what one client asked for with pauses of at most ten seconds. The paper's vectors are all known in training. Here many objects of the second half were not seen in the first; they lie in the order of their numbers, which is that of their first request. Any order that keeps objects apart that nobody reads again gains as much as partitioning, so that the headline comes out on a web trace for another reason than in the paper.".into()],
        ..Section::default()
    }
}

fn coalescing(inputs: &Inputs) -> Section {
    let mut table = Table::new(
        "Twenty edges, four parents, 20 and 200 ms away, lifetimes of an hour",
        &[
            "traffic, tiers",
            "at the edge",
            "joined",
            "origin fetches",
            "most at once for one object",
            "mean wait",
        ],
    );
    let mut shares = Vec::new();
    for (traffic, faster) in [("as logged", 1), ("a thousand times as fast", 1000)] {
        let first = inputs.trace.requests().first().map_or(0, |request| request.time_ms);
        let at = |request: &Request| Request {
            time_ms: request.time_ms.saturating_sub(first) / faster,
            ..*request
        };
        let mut requests: Vec<Request> = inputs.trace.requests().iter().map(at).collect();
        requests.sort_by_key(|request| request.time_ms);
        for (tiers, parents, coalescing) in [
            ("edges alone", 0, false),
            ("edges alone, coalescing", 0, true),
            ("parents", 4, false),
            ("parents, coalescing", 4, true),
        ] {
            let lifetime_ms = 3_600_000 / faster;
            let setup =
                TierSetup { edges: 20, parents, parent_ms: 20, origin_ms: 200, lifetime_ms, coalescing };
            let found: TierCounts = run_tiers(&requests, &setup);
            let of = |count: u64| Unit::Share.shown(count as f64 / found.requests.max(1) as f64);
            table.row(&[
                &format!("{traffic}, {tiers}"),
                &of(found.edge_hits),
                &of(found.edge_joined),
                &of(found.origin_fetches),
                &Unit::Count.shown(found.origin_crowd as f64),
                &Unit::Milliseconds.shown(found.waited_ms as f64 / found.requests.max(1) as f64),
            ]);
            shares.push((faster, coalescing, parents, found));
        }
    }
    let fetches = |number: usize| shares[number].3.origin_fetches as f64;
    let crowd =
        shares.iter().filter(|one| one.1 && one.2 > 0).map(|one| one.3.origin_crowd).max().unwrap_or(0);
    Section {
        anchor: "coalescing".into(),
        title: "Tiers with request coalescing".into(),
        question: "How many fetches does the origin see?".into(),
        findings: vec![
            finding("coalescing_crowd", "most fetches at once for one object, parents with coalescing", Unit::Count, Claim::Is(1.0), crowd as f64),
            finding("coalescing_logged", "origin fetches with coalescing over those without, parents, as logged", Unit::Ratio, Claim::Words("fewer".into()), fetches(3) / fetches(2).max(1.0)),
            finding("coalescing_fast", "the same, a thousand times as fast", Unit::Ratio, Claim::Words("fewer".into()), fetches(7) / fetches(6).max(1.0)),
        ],
        tables: vec![table],
        notes: vec!["The second traffic has lifetimes in proportion, so that hits are the same but for requests that meet on the way: the ways keep their 20 and 200 ms.".into()],
        ..Section::default()
    }
}

fn experts(inputs: &Inputs) -> Section {
    let requests = inputs.trace.requests();
    let (training, later) = requests.split_at(requests.len() / 2);
    let cache_bytes = (inputs.workload.unique_bytes().0 / 100).max(1);
    let epoch = (requests.len() / 40).max(100);
    let pieces: Vec<&[Request]> = training.chunks(epoch).collect();
    let all = grid();
    let darwin = Darwin::train(&pieces, &all, cache_bytes, epoch).run(later, cache_bytes);
    let mut fixed_ones: Vec<(Expert, f64)> =
        all.iter().map(|expert| (*expert, fixed(later, cache_bytes, *expert))).collect();
    fixed_ones.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut table = Table::new(
        "Hits in RAM for a hundredth of all bytes, second half",
        &["expert: at which request, up to which size", "hits"],
    );
    table.row(&["chosen by traffic", &Unit::Share.shown(darwin)]);
    for (expert, hits) in &fixed_ones {
        let size =
            if expert.bytes == u64::MAX { "any size".into() } else { Unit::Bytes.shown(expert.bytes as f64) };
        table.row(&[&format!("{}, {size}", expert.frequency), &Unit::Share.shown(*hits)]);
    }
    let best = fixed_ones.first().map_or(0.0, |one| one.1);
    let trained = fixed_best_of(training, &all, cache_bytes);
    let of_trained = fixed(later, cache_bytes, trained);
    Section {
        anchor: "experts".into(),
        title: "Experts of admission (Darwin: Chen et al., SIGCOMM 2023)".into(),
        question: "Does choosing the rule of admission by the traffic pay?".into(),
        findings: vec![
            finding("darwin_best", "hits over the best fixed expert's, known afterwards", Unit::Ratio, Claim::AtLeast(1.0), darwin / best.max(f64::MIN_POSITIVE)),
            finding("darwin_trained", "hits over those of the expert that was best in training", Unit::Ratio, Claim::AtLeast(1.0), darwin / of_trained.max(f64::MIN_POSITIVE)),
        ],
        tables: vec![table],
        notes: vec!["The paper's traffic mixes classes (web, video, downloads) whose shares shift. One site's or one campus's log has one class, so that one expert is good throughout. The headline then does not come out: trials of other experts are what is lost.".into()],
        ..Section::default()
    }
}

fn fixed_best_of(requests: &[Request], experts: &[Expert], cache_bytes: u64) -> Expert {
    let by_hits = |a: &&Expert, b: &&Expert| {
        fixed(requests, cache_bytes, **a).total_cmp(&fixed(requests, cache_bytes, **b))
    };
    experts.iter().max_by(by_hits).copied().unwrap_or(Expert { frequency: 1, bytes: u64::MAX })
}

fn episodes(inputs: &Inputs) -> Section {
    let requests = inputs.trace.requests();
    let (training, later) = requests.split_at(requests.len() / 2);
    let cache_bytes = (inputs.workload.unique_bytes().0 / 10).max(1);
    let age = (requests.len() / 10).max(10);
    let rejecting = reject_first(later, cache_bytes, age);
    let budget = reject_first(training, cache_bytes, age).written_bytes;
    let learned = Baleen::train(training, cache_bytes, age, budget).run(later, cache_bytes);
    let everything = coin_flip(later, cache_bytes, 1.0, inputs.seed);
    let share = rejecting.written_bytes as f64 / everything.written_bytes.max(1) as f64;
    let rows: [(&str, FlashResult); 5] = [
        ("everything", everything),
        ("at random", coin_flip(later, cache_bytes, share, inputs.seed)),
        ("at the second request", rejecting),
        ("learned from episodes", learned),
        (
            "known episodes, as many bytes",
            by_known_episodes(later, cache_bytes, age, rejecting.written_bytes),
        ),
    ];
    let mut table = Table::new(
        "Flash for a tenth of all bytes, second half",
        &["admitted", "disk-head time", "peak", "written to flash", "hits"],
    );
    for (name, found) in &rows {
        table.row(&[
            name,
            &Unit::Seconds.shown(found.head_seconds),
            &Unit::Seconds.shown(found.peak_seconds),
            &Unit::Bytes.shown(found.written_bytes as f64),
            &Unit::Share.shown(found.hits as f64 / later.len().max(1) as f64),
        ]);
    }
    let spared = |of: &FlashResult| 1.0 - of.peak_seconds / rejecting.peak_seconds.max(f64::MIN_POSITIVE);
    Section {
        anchor: "episodes".into(),
        title: "Admission by episodes (Baleen: Wong et al., FAST 2024)".into(),
        question: "How much disk-head time does learned admission spare for the same flash writes?".into(),
        findings: vec![
            finding("baleen_peak", "peak disk-head time spared, beside admission at the second request", Unit::Share, Claim::Is(0.12), spared(&learned)),
            finding("baleen_written", "its flash writes over those", Unit::Ratio, Claim::Is(1.0), learned.written_bytes as f64 / rejecting.written_bytes.max(1) as f64),
            finding("known_peak", "peak spared by known episodes", Unit::Share, Claim::Words("more".into()), spared(&rows[4].1)),
        ],
        tables: vec![table],
        figures: vec![bars("episodes", "Disk-head time of the misses", "Known episodes spare most; what is learned lies between them and admission at the second request.", Axis::linear("disk-head time", Unit::Seconds), rows.iter().map(|(name, found)| Bar::new(name, &[found.head_seconds])).collect(), "second half")],
        notes: vec!["The table of mean worth stands for the paper's forest, and whole objects for its ranges of blocks, without prefetching. The budget is what admission at the second request writes in training.".into()],
        ..Section::default()
    }
}

/// Least requests: fewer train nothing.
const LEAST_REQUESTS: usize = 2000;
/// Longest pause within a query.
const PAUSE_MS: u64 = 10_000;
const LONGEST_QUERY: usize = 64;
/// Objects of a block.
const BLOCK: usize = 32;
