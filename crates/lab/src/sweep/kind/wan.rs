//! `[[wan]]`: the steady-state model of caches in a wide area, and a scheme of cooperation in a
//! region.

use super::{COUNT, CellInputs, NUMBER, QuestionKind, TEXT};
use crate::model::wan::paper::Rates;
use crate::model::wan::scheme::{Performance, Region, Scheme};
use crate::model::wan::{Change, Form, Model, WanError, Web};
use crate::sweep::parameter::{Default, Parameter, Take};
use crate::sweep::source::SweepTrace;
use crate::sweep::value::Value;
use shoal_trace::parquet::Field;

pub(super) static KIND: QuestionKind = QuestionKind {
    name: "wan",
    question: "how many requests do caches answer together, by the number of their clients (Voelker 2000, 5)?",
    parameters: &[
        Parameter::required("clients", Take::Number(0.0, 1e15), "N: clients"),
        Parameter::optional(
            "rates",
            Take::Name(rates),
            Default::Text("mid-slow"),
            "1/μ_p and 1/μ_u of Table 5.1, where days are not given",
        ),
        Parameter::optional(
            "popular_days",
            Take::Number(0.0, 1e9),
            Default::Absent,
            "1/μ_p: mean days between changes of a popular document",
        ),
        Parameter::optional(
            "unpopular_days",
            Take::Number(0.0, 1e9),
            Default::Absent,
            "1/μ_u: the same of another document",
        ),
        Parameter::optional(
            "change",
            Take::Name(laws),
            Default::Text("exponential"),
            "how intervals between changes are distributed",
        ),
        Parameter::optional(
            "tail",
            Take::Number(0.0, 1e6),
            Default::Absent,
            "mean over median of lognormal intervals, or the shape of Pareto ones",
        )
        .only_for("change", &["lognormal-between", "lognormal-within", "pareto-between", "pareto-within"]),
        Parameter::optional(
            "alpha",
            Take::Number(0.0, 4.0),
            Default::Number(0.8),
            "α: the Zipf exponent of popularity",
        ),
        Parameter::optional(
            "documents",
            Take::Count(1, 1_000_000_000_000_000),
            Default::Count(3_200_000_000),
            "n: documents",
        ),
        Parameter::optional(
            "popular",
            Take::Count(0, 1_000_000_000_000_000),
            Default::Count(10_400_000),
            "n_p: how many of them are popular; all where there are fewer",
        ),
        Parameter::optional(
            "requests_per_day",
            Take::Number(0.0, 1e12),
            Default::Number(590.0),
            "λ: requests of one client a day",
        ),
        Parameter::optional(
            "cacheable",
            Take::Number(0.0, 1.0),
            Default::Number(0.6),
            "p_c: the share of requests whose response may be cached",
        ),
        Parameter::optional(
            "mean_bytes",
            Take::Number(0.0, 1e15),
            Default::Number(7.7e3),
            "E(S): mean size of a response, in bytes",
        ),
        Parameter::optional(
            "origin_ms",
            Take::Number(0.0, 1e9),
            Default::Number(1900.0),
            "E(L): latency of an origin, in milliseconds",
        ),
        Parameter::optional(
            "hit_ms",
            Take::Number(0.0, 1e9),
            Default::Number(10.0),
            "lat_hit: latency of a hit, in milliseconds",
        ),
        Parameter::optional(
            "cache_bytes",
            Take::Number(0.0, 1e21),
            Default::Absent,
            "size of the cache, in bytes; everything is kept where absent",
        ),
        Parameter::optional(
            "scheme",
            Take::Name(schemes),
            Default::Absent,
            "how caches cooperate (Table 5.3)",
        ),
        Parameter::optional(
            "levels_ms",
            Take::Latencies,
            Default::Text("50,10"),
            "L_1 to L_k: latency from a cache of each level, the top one first",
        )
        .only_for(
            "scheme",
            &["hierarchy", "hashed", "directory", "directory-consistent", "hash-tiers", "directory-tiers"],
        ),
        Parameter::optional("fanout", Take::Count(1, 1_000_000), Default::Count(10), "d: caches below each")
            .only_for(
                "scheme",
                &[
                    "hierarchy",
                    "hashed",
                    "directory",
                    "directory-consistent",
                    "hash-tiers",
                    "directory-tiers",
                ],
            ),
        Parameter::optional(
            "form",
            Take::Name(|| vec!["sum", "integral"]),
            Default::Text("sum"),
            "how sums over documents are taken",
        ),
    ],
    results: &[
        Field::optional("cacheable_hit_rate", NUMBER),
        Field::optional("hit_rate", NUMBER),
        Field::optional("latency_seconds", NUMBER),
        Field::optional("saved_bytes", NUMBER),
        Field::optional("storage_bytes", NUMBER),
        Field::optional("valid_bytes", NUMBER),
        Field::optional("finite_hit_rate", NUMBER),
        Field::optional("characteristic_days", NUMBER),
        Field::optional("scheme_latency_seconds", NUMBER),
        Field::optional("scheme_storage_bytes", NUMBER),
        Field::optional("scheme_arrivals_per_day", TEXT),
        Field::optional("evaluations", COUNT),
    ],
    answer,
};

fn answer(inputs: &CellInputs<'_>, _loaded: Option<&SweepTrace>) -> Result<Vec<Value>, String> {
    let told = |error: WanError| error.to_string();
    let form = if inputs.text("form") == Some("integral") { Form::Integral } else { Form::Sum };
    let model = Model::new(web(inputs)?, form).map_err(told)?;
    let clients = inputs.number("clients").unwrap_or(0.0);
    let shared = model.shared(clients).map_err(told)?;
    let finite =
        inputs.number("cache_bytes").map(|bytes| model.finite(clients, bytes)).transpose().map_err(told)?;
    let scheme = inputs.text("scheme").map(|name| performance(inputs, &model, name)).transpose()?;
    let arrivals =
        |found: &Performance| found.arrivals_per_day.iter().map(f64::to_string).collect::<Vec<_>>();
    Ok(vec![
        Value::finite(shared.cacheable.total()),
        Value::finite(shared.hit_rate),
        Value::finite(shared.latency_seconds),
        Value::finite(shared.saved_bytes),
        Value::finite(shared.storage_bytes),
        Value::finite(shared.valid_bytes),
        Value::optional(finite.map(|finite| finite.cacheable.total())),
        Value::optional(finite.map(|finite| finite.characteristic_days)),
        Value::optional(scheme.as_ref().map(|found| found.latency_seconds)),
        Value::optional(scheme.as_ref().map(|found| found.storage_bytes)),
        scheme.as_ref().map_or(Value::None, |found| Value::Text(arrivals(found).join(","))),
        Value::Count(model.evaluations()),
    ])
}

fn performance(inputs: &CellInputs<'_>, model: &Model, name: &str) -> Result<Performance, String> {
    let scheme = Scheme::named(name).ok_or_else(|| format!("there is no scheme {name:?}"))?;
    let region = Region {
        population: inputs.number("clients").unwrap_or(0.0),
        fanout: inputs.count("fanout").unwrap_or(10) as u32,
        latency_seconds: inputs.latencies("levels_ms"),
    };
    model.performance(scheme, &region).map_err(|error| error.to_string())
}

fn web(inputs: &CellInputs<'_>) -> Result<Web, String> {
    let name = inputs.text("rates").unwrap_or_default();
    let rates = Rates::named(name).ok_or_else(|| format!("there are no rates {name:?}"))?;
    let law = inputs.text("change").unwrap_or_default();
    let change = |mean_days: f64| {
        Change::named(mean_days, law, inputs.number("tail")).ok_or_else(|| format!("there is no law {law:?}"))
    };
    let paper = Web::table_5_1(rates);
    let documents = inputs.count("documents").unwrap_or(paper.documents);
    Ok(Web {
        alpha: inputs.number("alpha").unwrap_or(paper.alpha),
        documents,
        popular: inputs.count("popular").unwrap_or(paper.popular).min(documents),
        requests_per_day: inputs.number("requests_per_day").unwrap_or(paper.requests_per_day),
        cacheable: inputs.number("cacheable").unwrap_or(paper.cacheable),
        mean_bytes: inputs.number("mean_bytes").unwrap_or(paper.mean_bytes),
        origin_seconds: inputs.number("origin_ms").map_or(paper.origin_seconds, |ms| ms / 1e3),
        hit_seconds: inputs.number("hit_ms").map_or(paper.hit_seconds, |ms| ms / 1e3),
        popular_change: change(inputs.number("popular_days").unwrap_or(rates.popular_days))?,
        unpopular_change: change(inputs.number("unpopular_days").unwrap_or(rates.unpopular_days))?,
    })
}

fn rates() -> Vec<&'static str> {
    vec!["slow", "mid-slow", "mid-fast", "fast"]
}

fn laws() -> Vec<&'static str> {
    Change::LAWS.to_vec()
}

fn schemes() -> Vec<&'static str> {
    Scheme::ALL.iter().map(|scheme| scheme.token()).collect()
}
