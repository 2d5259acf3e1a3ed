//! `[[policy]]`: one replacement policy over one trace in a cache of one size.

use super::{COUNT, CellInputs, NUMBER, QuestionKind, needed};
use crate::simulator::{Capacity, Request, Simulator};
use crate::sweep::parameter::{Default, Parameter, Take};
use crate::sweep::source::SweepTrace;
use crate::sweep::value::Value;
use shoal_core::ByteCount;
use shoal_policy::{Belady, BeladySize, NextUses, Replacement, ReplacementPolicy};
use shoal_trace::parquet::Field;

pub(super) static KIND: QuestionKind = QuestionKind {
    name: "policy",
    question: "how often does a replacement policy hit on a trace, in a cache of some size?",
    parameters: &[
        Parameter::required("trace", Take::Trace, "the trace"),
        Parameter::required(
            "policy",
            Take::Name(names),
            "the replacement policy; `belady` and `belady_size` know the future",
        ),
        Parameter::required("cache", Take::Size, "room for objects"),
        Parameter::optional(
            "warm_up",
            Take::Number(0.0, 0.999),
            Default::Number(0.5),
            "the share of the requests that fills the cache and does not count",
        ),
    ],
    results: &[
        Field::optional("cache_bytes", COUNT),
        Field::optional("requests", COUNT),
        Field::optional("hits", COUNT),
        Field::optional("bytes", COUNT),
        Field::optional("hit_bytes", COUNT),
        Field::optional("hit_ratio", NUMBER),
        Field::optional("byte_hit_ratio", NUMBER),
        Field::optional("evictions", COUNT),
        Field::optional("declined", COUNT),
        Field::optional("objects", COUNT),
        Field::optional("memory_bytes", COUNT),
    ],
    answer,
};

fn answer(inputs: &CellInputs<'_>, loaded: Option<&SweepTrace>) -> Result<Vec<Value>, String> {
    let loaded = needed(loaded)?;
    let room = room(inputs.text("cache").unwrap_or_default(), loaded.unique_bytes)?;
    let request =
        |request: &shoal_trace::Request| Request { object: request.object.into(), bytes: request.bytes };
    let requests = loaded.trace.requests();
    let name = inputs.text("policy").unwrap_or_default();
    let future = || NextUses::of(requests.iter().map(|request| u64::from(request.object)));
    let policy: Box<dyn Replacement<u64>> = match (name, ReplacementPolicy::<u64>::named(name)) {
        (_, Some(policy)) => (policy.construct)(),
        ("belady", None) => Box::new(Belady::new(future())),
        ("belady_size", None) => Box::new(BeladySize::new(future())),
        _ => return Err(format!("there is no policy {name:?}")),
    };
    let (first, measured) = requests.split_at(loaded.share(inputs.number("warm_up").unwrap_or(0.0)));
    let mut simulator = Simulator::new(policy, Capacity::Bytes(room));
    let warm = simulator.run(first.iter().map(request));
    let counts = simulator.run(measured.iter().map(request)).since(&warm);
    Ok(vec![
        Value::Count(room),
        Value::Count(counts.requests),
        Value::Count(counts.hits),
        Value::Count(counts.bytes),
        Value::Count(counts.hit_bytes),
        Value::Number(1.0 - counts.miss_ratio()),
        Value::Number(1.0 - counts.byte_miss_ratio()),
        Value::Count(counts.evictions),
        Value::Count(counts.declined),
        Value::Count(simulator.objects() as u64),
        Value::Count(simulator.memory_bytes() as u64),
    ])
}

/// Reads bytes, or a share of all objects' bytes.
pub(super) fn room(text: &str, unique_bytes: u64) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(share) => Ok(((unique_bytes as f64 * share) as u64).max(1)),
        Err(_) => text.parse::<ByteCount>().map(|bytes| bytes.0).map_err(|error| error.to_string()),
    }
}

fn names() -> Vec<&'static str> {
    ReplacementPolicy::<u64>::ALL.iter().map(|policy| policy.name).chain(["belady", "belady_size"]).collect()
}
