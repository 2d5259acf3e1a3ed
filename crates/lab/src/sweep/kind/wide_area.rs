//! `[[wide_area]]`: proxies that cooperate, simulated request by request over a trace.

use super::{COUNT, CellInputs, NUMBER, QuestionKind, needed};
use crate::model::wan::scheme::Region;
use crate::sweep::parameter::{Default, Parameter, Take};
use crate::sweep::source::SweepTrace;
use crate::sweep::value::Value;
use crate::wide_area::{Cooperation, Digests, Stream, WideAreaSetup, simulate};
use shoal_trace::SizeChange;
use shoal_trace::parquet::Field;

pub(super) static KIND: QuestionKind = QuestionKind {
    name: "wide_area",
    question: "what do proxies find that cooperate in a wide area, over a trace with clients?",
    parameters: &[
        Parameter::required("trace", Take::Trace, "the trace; its clients are dealt out among the proxies"),
        Parameter::required("cooperation", Take::Name(names), "how the proxies cooperate"),
        Parameter::optional(
            "levels_ms",
            Take::Latencies,
            Default::Text("50,10"),
            "latency from a cache of each level, the top one first, a client's own proxy last",
        ),
        Parameter::optional("fanout", Take::Count(1, 4096), Default::Count(10), "caches below each"),
        Parameter::optional(
            "cache",
            Take::Size,
            Default::Absent,
            "room in each cache; everything is kept where absent",
        ),
        Parameter::optional(
            "origin_ms",
            Take::Number(0.0, 1e9),
            Default::Number(1900.0),
            "latency of an origin, in milliseconds",
        ),
        Parameter::optional(
            "size_change",
            Take::Name(|| vec!["identity", "version"]),
            Default::Text("identity"),
            "whether another size is a new version",
        ),
        Parameter::optional(
            "bits_per_object",
            Take::Count(1, 64),
            Default::Count(16),
            "bits of a digest for each object",
        )
        .only_for("cooperation", &["summaries"]),
        Parameter::optional("hashes", Take::Count(1, 16), Default::Count(4), "hashes of a digest")
            .only_for("cooperation", &["summaries"]),
        Parameter::optional(
            "threshold",
            Take::Number(0.0, 1.0),
            Default::Number(0.01),
            "the share of a proxy's objects that come or go between two updates of its digest",
        )
        .only_for("cooperation", &["summaries"]),
        Parameter::optional(
            "tries",
            Take::Count(1, 4096),
            Default::Count(1),
            "peers asked in vain before the origin is",
        )
        .only_for("cooperation", &["summaries"]),
        Parameter::optional("seed", Take::Count(0, u64::MAX), Default::Count(1), "of what is drawn"),
        Parameter::optional(
            "warm_up",
            Take::Number(0.0, 0.999),
            Default::Number(0.5),
            "the share of the requests that fills the caches and does not count",
        ),
    ],
    results: &[
        Field::optional("requests", COUNT),
        Field::optional("hits", COUNT),
        Field::optional("found_here", COUNT),
        Field::optional("hit_rate", NUMBER),
        Field::optional("mean_latency_seconds", NUMBER),
        Field::optional("outdated", COUNT),
        Field::optional("false_hits", COUNT),
        Field::optional("false_misses", COUNT),
        Field::optional("questions", COUNT),
        Field::optional("updates", COUNT),
        Field::optional("update_bytes", COUNT),
        Field::optional("stored_bytes", COUNT),
        Field::optional("busiest", NUMBER),
    ],
    answer,
};

fn answer(inputs: &CellInputs<'_>, loaded: Option<&SweepTrace>) -> Result<Vec<Value>, String> {
    let loaded = needed(loaded)?;
    let rule = match inputs.text("size_change") {
        Some("version") => SizeChange::Version,
        _ => SizeChange::Identity,
    };
    let cache =
        inputs.text("cache").map(|text| super::policy::room(text, loaded.unique_bytes)).transpose()?;
    let plan = WideAreaSetup {
        region: Region {
            population: loaded.trace.clients().len() as f64,
            fanout: inputs.count("fanout").unwrap_or(10) as u32,
            latency_seconds: inputs.latencies("levels_ms"),
        },
        cooperation: cooperation(inputs)?,
        cache_bytes: cache,
        origin_seconds: inputs.number("origin_ms").unwrap_or(1900.0) / 1e3,
        warm_up: loaded.share(inputs.number("warm_up").unwrap_or(0.0)),
    };
    let stream = Stream::of_trace(&loaded.trace, rule);
    let found =
        simulate(&stream, &plan, inputs.count("seed").unwrap_or(1)).map_err(|error| error.to_string())?;
    Ok(vec![
        Value::Count(found.requests),
        Value::Count(found.hits()),
        Value::Count(found.found_here),
        Value::finite(found.hit_rate()),
        Value::finite(found.mean_latency_seconds()),
        Value::Count(found.outdated),
        Value::Count(found.false_hits),
        Value::Count(found.false_misses),
        Value::Count(found.questions),
        Value::Count(found.updates),
        Value::Count(found.update_bytes),
        Value::Count(found.stored_bytes),
        Value::finite(found.busiest()),
    ])
}

fn cooperation(inputs: &CellInputs<'_>) -> Result<Cooperation, String> {
    let digests = Digests {
        bits_per_object: inputs.count("bits_per_object").unwrap_or(16) as u32,
        hashes: inputs.count("hashes").unwrap_or(4) as u32,
        threshold: inputs.number("threshold").unwrap_or(0.01),
        tries: inputs.count("tries").unwrap_or(1) as usize,
    };
    let name = inputs.text("cooperation").unwrap_or_default();
    Cooperation::named(name, digests).ok_or_else(|| format!("there is no way to cooperate called {name:?}"))
}

fn names() -> Vec<&'static str> {
    Cooperation::NAMES.to_vec()
}
