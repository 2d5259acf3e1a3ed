//! `[[gms]]`: the queueing model of global memory, with its simulation on request.

use super::{COUNT, CellInputs, NUMBER, QuestionKind};
use crate::model::gms::simulation::{
    Arrivals, MOST_GETPAGES, NetworkResult, NetworkSetup, Service, simulate,
};
use crate::model::gms::{Method, Network, Putpages, ServerDemand};
use crate::sweep::parameter::{Default, Parameter, Take};
use crate::sweep::source::SweepTrace;
use crate::sweep::value::Value;
use shoal_trace::parquet::Field;

pub(super) static KIND: QuestionKind = QuestionKind {
    name: "gms",
    question: "how long does a page from a peer's memory take when many nodes ask few servers (Voelker 2000, 3.3)?",
    parameters: &[
        Parameter::required("global_nodes", Take::Count(0, 1_000_000), "N_global: nodes that ask for pages"),
        Parameter::required("idle", Take::Count(0, 10_000), "N_idle: idle nodes that serve pages"),
        Parameter::optional(
            "local",
            Take::Count(0, 10_000),
            Default::Count(0),
            "N_local: local nodes that serve pages",
        ),
        Parameter::optional(
            "local_share",
            Take::Number(0.0, 1.0),
            Default::Number(0.0),
            "P_local: the share of the requests that goes to local nodes",
        ),
        Parameter::optional(
            "skew",
            Take::Number(0.0, 1.0),
            Default::Absent,
            "P_idle,0: the share of the first idle node, without local nodes; equal shares where absent",
        ),
        Parameter::optional(
            "application",
            Take::Name(applications),
            Default::Text("oo7"),
            "Z of Table 3.1, where `think_ms` is not given",
        ),
        Parameter::optional(
            "think_ms",
            Take::Number(0.0, 1e9),
            Default::Absent,
            "Z: milliseconds between a page and the next getpage",
        ),
        Parameter::optional(
            "demand_us",
            Take::Number(0.0, 1e9),
            Default::Number(194.0),
            "D: microseconds that a server works for a page",
        ),
        Parameter::optional(
            "putpages",
            Take::Number(0.0, 1e6),
            Default::Number(1.0),
            "f: putpages for each getpage",
        ),
        Parameter::optional(
            "method",
            Take::Name(methods),
            Default::Text("linearizer"),
            "how the model is solved",
        ),
        Parameter::optional(
            "simulate",
            Take::Count(0, MOST_GETPAGES),
            Default::Count(0),
            "getpages to simulate beside, with constant service and putpages that follow getpages",
        ),
        Parameter::optional("seed", Take::Count(0, u64::MAX), Default::Count(1), "of the simulation"),
    ],
    results: &[
        Field::optional("response_ms", NUMBER),
        Field::optional("getpages_per_second", NUMBER),
        Field::optional("putpages_per_second", NUMBER),
        Field::optional("busiest", NUMBER),
        Field::optional("operations", COUNT),
        Field::optional("simulated_ms", NUMBER),
        Field::optional("simulated_half_width_ms", NUMBER),
        Field::optional("simulated_getpages_per_second", NUMBER),
    ],
    answer,
};

fn answer(inputs: &CellInputs<'_>, _loaded: Option<&SweepTrace>) -> Result<Vec<Value>, String> {
    let network = network(inputs)?;
    let name = inputs.text("method").unwrap_or_default();
    let method = Method::ALL.into_iter().find(|method| method.name() == name);
    let solution = network
        .solve(method.ok_or_else(|| format!("there is no method {name:?}"))?)
        .map_err(|error| error.to_string())?;
    let measured = measured(inputs, &network)?;
    let busiest = solution.loads.iter().map(|load| load.utilization).reduce(f64::max);
    let simulated = |of: fn(&NetworkResult) -> f64| Value::optional(measured.as_ref().map(of));
    Ok(vec![
        Value::finite(solution.response_seconds * 1e3),
        Value::finite(solution.getpages_per_second),
        Value::finite(solution.putpages_per_second),
        Value::optional(busiest),
        Value::Count(solution.operations),
        simulated(|found| found.response_seconds.mean * 1e3),
        simulated(|found| found.response_seconds.half_width * 1e3),
        simulated(|found| found.getpages_per_second.mean),
    ])
}

fn network(inputs: &CellInputs<'_>) -> Result<Network, String> {
    let count = |name: &str| inputs.count(name).unwrap_or(0) as u32;
    let name = inputs.text("application").unwrap_or_default();
    let mut workload =
        ServerDemand::named(name).ok_or_else(|| format!("there is no application {name:?}"))?;
    workload.demand_seconds = inputs.number("demand_us").unwrap_or(194.0) / 1e6;
    if let Some(think) = inputs.number("think_ms") {
        workload.think_seconds = think / 1e3;
    }
    let (idle, local, share) = (count("idle"), count("local"), inputs.number("local_share").unwrap_or(0.0));
    let mut network = match inputs.number("skew") {
        Some(_) if local > 0 => return Err("a skew is one among idle nodes alone".into()),
        Some(first) => Network::skewed(workload, count("global_nodes"), idle, first),
        None => Network::balanced(workload, count("global_nodes"), idle, local, share),
    };
    network.putpages = Putpages::PerGetpage(inputs.number("putpages").unwrap_or(1.0));
    Ok(network)
}

fn measured(inputs: &CellInputs<'_>, network: &Network) -> Result<Option<NetworkResult>, String> {
    let (getpages, seed) = (inputs.count("simulate").unwrap_or(0), inputs.count("seed").unwrap_or(1));
    if getpages == 0 {
        return Ok(None);
    }
    let (arrivals, service) = (Arrivals::AfterGetpage, Service::Constant);
    let setting = NetworkSetup { arrivals, service, getpages, seed };
    simulate(network, &setting).map(Some).map_err(|error| error.to_string())
}

fn applications() -> Vec<&'static str> {
    ServerDemand::TABLE_3_1.iter().map(|workload| workload.name).collect()
}

fn methods() -> Vec<&'static str> {
    Method::ALL.iter().map(|method| method.name()).collect()
}
