//! `[[cluster]]`: one system of cooperative caching over one trace of who asks for what.
//!
//! A client of the trace belongs to a node, by turns of its number; an object counts as one frame, whatever its size.

use super::{COUNT, Inputs, Kind, NUMBER, needed};
use crate::cluster::{Central, Direct, Gms, Greedy, Hashed, NChance, Size, System, WeightedLru, simulate};
use crate::sweep::parameter::{Default, Parameter, Take};
use crate::sweep::source::Loaded;
use crate::sweep::value::Value;
use shoal_trace::parquet::Field;

/// The systems by name, with how each is made.
pub const SYSTEMS: [(&str, Make); 7] = [
    ("direct", |size, options| {
        let active = size.nodes.len().saturating_sub(options.idle);
        let idle: Vec<bool> = (0..size.nodes.len()).map(|node| node >= active).collect();
        Box::new(Direct::new(size, &idle))
    }),
    ("greedy", |_, _| Box::new(Greedy)),
    ("central", |size, options| Box::new(Central::new(size, options.coordinated))),
    ("hashed", |size, options| Box::new(Hashed::new(size, options.coordinated))),
    ("n_chance", |_, options| Box::new(NChance::new(options.chances, options.seed))),
    ("weighted_lru", |_, _| Box::new(WeightedLru)),
    ("gms", |_, options| Box::new(Gms::new(options.b, options.seed))),
];

/// Makes a system.
pub type Make = fn(&Size, &Options) -> Box<dyn System>;

/// What systems are made with; each looks at what concerns it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Nodes, the last ones, whose memory is others' backing store (direct).
    pub idle: usize,
    /// The share of each memory that is coordinated (central, hashed).
    pub coordinated: f64,
    /// How often a singlet is passed on (n_chance).
    pub chances: u8,
    /// The load balancing rate (gms).
    pub b: f64,
    /// The seed of what is drawn (n_chance, gms).
    pub seed: u64,
}

pub(super) static KIND: Kind = Kind {
    name: "cluster",
    question: "where are requests served when workstations share their memories, and how long does it take?",
    parameters: &[
        Parameter::required("trace", Take::Trace, "the trace, which must name its clients"),
        Parameter::required("system", Take::Name(names), "how the nodes cooperate"),
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
            "b",
            Take::Number(0.0, 1.0),
            Default::Number(0.0),
            "load balancing rate: how far loads instead of ages decide where pages go",
        )
        .only_for("system", &["gms"]),
        Parameter::optional("seed", Take::Count(0, u64::MAX), Default::Count(1), "of what is drawn")
            .only_for("system", &["n_chance", "gms"]),
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
    ],
    answer,
};

fn answer(inputs: &Inputs<'_>, loaded: Option<&Loaded>) -> Result<Vec<Value>, String> {
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
    let size = Size {
        nodes: vec![frames; nodes as usize],
        server: inputs.count("server_frames").unwrap_or(0) as usize,
        objects: trace.objects().len(),
    };
    let options = Options {
        idle: idle as usize,
        coordinated: inputs.number("coordinated").unwrap_or(0.8),
        chances: inputs.count("chances").unwrap_or(2) as u8,
        b: inputs.number("b").unwrap_or(0.0),
        seed: inputs.count("seed").unwrap_or(1),
    };
    let name = inputs.text("system").unwrap_or_default();
    let make = SYSTEMS.iter().find(|(system, _)| *system == name).map(|(_, make)| make);
    let mut system = make.ok_or_else(|| format!("there is no system {name:?}"))?(&size, &options);
    let active = (nodes - idle) as u32;
    let requests =
        trace.requests().iter().map(|request| ((request.client % active) as usize, request.object));
    let warm_up = loaded.share(inputs.number("warm_up").unwrap_or(0.0)) as u64;
    let counts = simulate(system.as_mut(), &size, requests, warm_up);
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
    ])
}

fn names() -> Vec<&'static str> {
    SYSTEMS.iter().map(|(name, _)| *name).collect()
}
