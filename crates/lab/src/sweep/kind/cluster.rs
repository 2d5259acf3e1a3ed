//! `[[cluster]]`: one system of cooperative caching, or of request distribution, over one trace of
//! clients' requests.
//!
//! A client of the trace belongs to a node, by turns of its number. An object counts as one frame
//! at any size.

use super::{COUNT, CellInputs, NUMBER, QuestionKind, needed};
use crate::cluster::{
    ClusterSize, RunPlan, SYSTEMS, SchemeOptions, ServiceTimes, ThroughputResult, named, serve, simulate,
};
use crate::sweep::parameter::{Default, Parameter, Take};
use crate::sweep::source::SweepTrace;
use crate::sweep::value::Value;
use shoal_trace::parquet::Field;

pub(super) static KIND: QuestionKind = QuestionKind {
    name: "cluster",
    question: "where are requests served when nodes share their memories or a front end chooses the node, and how long does it take?",
    parameters: &[
        Parameter::required("trace", Take::Trace, "the trace, which must name its clients"),
        Parameter::required(
            "system",
            Take::Name(names),
            "how the nodes cooperate, or a front end hands requests to them",
        ),
        Parameter::required(
            "nodes",
            Take::Count(1, 64),
            "workstations; the clients are dealt out among them",
        ),
        Parameter::required("node_frames", Take::Count(1, 1 << 32), "objects that a node's memory holds"),
        Parameter::optional(
            "server_frames",
            Take::Count(0, 1 << 32),
            Default::Count(0),
            "objects that the server's memory holds",
        ),
        Parameter::optional(
            "idle",
            Take::Count(0, 63),
            Default::Count(0),
            "nodes, the last ones, that ask for nothing and lend their memory",
        ),
        Parameter::optional(
            "coordinated",
            Take::Number(0.0, 1.0),
            Default::Number(0.8),
            "the share of each node's memory that is coordinated",
        )
        .only_for("system", &["central", "hashed"]),
        Parameter::optional(
            "chances",
            Take::Count(0, 200),
            Default::Count(2),
            "n: how often a block that nobody else holds is passed on",
        )
        .only_for("system", &["n_chance"]),
        Parameter::optional(
            "searched",
            Take::Count(0, 1 << 32),
            Default::Count(0),
            "oldest blocks that a receiver searches for a duplicate to evict; 0: all, as the paper has it",
        )
        .only_for("system", &["n_chance"]),
        Parameter::optional(
            "b",
            Take::Number(0.0, 1.0),
            Default::Number(0.0),
            "load balancing rate: how far loads instead of ages decide where pages go",
        )
        .only_for("system", &["gms"]),
        Parameter::optional(
            "region",
            Take::Count(1, 1 << 20),
            Default::Count(16),
            "pages of a region, which goes as a whole",
        )
        .only_for("system", &["dodo", "dodo_first_in"]),
        Parameter::optional("seed", Take::Count(0, u64::MAX), Default::Count(1), "of what is drawn")
            .only_for("system", &["n_chance", "gms", "wrr_gms"]),
        Parameter::optional(
            "outstanding",
            Take::Count(0, 100_000),
            Default::Count(0),
            "requests under way at once, which wait for processors and disks; 0: nobody waits, and there are no throughput and delay",
        ),
        Parameter::optional(
            "warm_up",
            Take::Number(0.0, 0.999),
            Default::Number(0.5),
            "the share of the requests that fills the memories and does not count",
        ),
    ],
    results: &[
        Field::optional("requests", COUNT),
        Field::optional("local", COUNT),
        Field::optional("remote", COUNT),
        Field::optional("server", COUNT),
        Field::optional("disk", COUNT),
        Field::optional("mean_ms", NUMBER),
        Field::optional("server_load", COUNT),
        Field::optional("load_per_request", NUMBER),
        Field::optional("forwarded", COUNT),
        Field::optional("throughput", NUMBER),
        Field::optional("delay_ms", NUMBER),
        Field::optional("imbalance", NUMBER),
        Field::optional("underused", NUMBER),
    ],
    answer,
};

fn answer(inputs: &CellInputs<'_>, loaded: Option<&SweepTrace>) -> Result<Vec<Value>, String> {
    let loaded = needed(loaded)?;
    let trace = &loaded.trace;
    if trace.clients().len() < 2 {
        return Err("the trace does not tell who asks, so that nobody knows which node does".into());
    }
    let (nodes, idle) = (inputs.count("nodes").unwrap_or(1), inputs.count("idle").unwrap_or(0));
    if idle >= nodes {
        return Err(format!("of {nodes} nodes {idle} are idle, so that none asks"));
    }
    let frames = inputs.count("node_frames").unwrap_or(1) as usize;
    let size = ClusterSize {
        nodes: vec![frames; nodes as usize],
        server: inputs.count("server_frames").unwrap_or(0) as usize,
        objects: trace.objects().len(),
    };
    let options = SchemeOptions {
        idle: idle as usize,
        coordinated: inputs.number("coordinated").unwrap_or(0.8),
        chances: inputs.count("chances").unwrap_or(2) as u8,
        searched: inputs.count("searched").unwrap_or(0) as usize,
        b: inputs.number("b").unwrap_or(0.0),
        region: inputs.count("region").unwrap_or(16) as usize,
        seed: inputs.count("seed").unwrap_or(1),
    };
    let name = inputs.text("system").unwrap_or_default();
    let mut system = named(name, &size, &options).ok_or_else(|| format!("there is no system {name:?}"))?;
    let active = (nodes - idle) as u32;
    let requests =
        trace.requests().iter().map(|request| ((request.client % active) as usize, request.object));
    let warm_up = loaded.share(inputs.number("warm_up").unwrap_or(0.0)) as u64;
    let outstanding = inputs.count("outstanding").unwrap_or(0) as usize;
    let outcome = if outstanding > 0 {
        let service = ServiceTimes { outstanding, ..ServiceTimes::pai(size.nodes.len()) };
        serve(system.as_mut(), &size, &service, requests, RunPlan { warm_up, failure: None })
    } else {
        ThroughputResult {
            counts: simulate(system.as_mut(), &size, requests, warm_up),
            ..ThroughputResult::default()
        }
    };
    let counts = &outcome.counts;
    let queued = |number: f64| if outstanding > 0 { Value::Number(number) } else { Value::None };
    Ok(vec![
        Value::Count(counts.requests),
        Value::Count(counts.local),
        Value::Count(counts.remote),
        Value::Count(counts.server),
        Value::Count(counts.disk),
        Value::Number(counts.mean_ms()),
        Value::Count(counts.server_load),
        Value::Number(counts.load_per_request()),
        Value::Count(counts.forwarded),
        queued(outcome.throughput()),
        queued(outcome.delay_ms),
        queued(outcome.imbalance()),
        queued(outcome.underused()),
    ])
}

fn names() -> Vec<&'static str> {
    SYSTEMS.iter().map(|(name, _)| *name).collect()
}
