//! Internet scale: a hundred thousand nodes in three levels and a thousand million clients.
//!
//! The model ([`shoal_lab::model::wan::costs`]) tells the messages, bytes and latency of each
//! scheme with caches of a given size, and the load of the busiest node. The event simulation
//! checks it with as many proxies as fit a machine. Rates of change are fitted to the trace.

mod checked;

#[cfg(test)]
mod tests;

use super::drawing::{curve, plot};
use super::{Experiment, Inputs, LabError, Progress};
use shoal_lab::figure::{Axis, Mark, Unit};
use shoal_lab::model::wan::costs::{CostSetup, CostedScheme, SchemeCosts};
use shoal_lab::model::wan::paper::Rates;
use shoal_lab::model::wan::scheme::Region;
use shoal_lab::model::wan::{Form, Model, Web};
use shoal_lab::report::{Claim, Finding, Report, Section, Table};
use shoal_lab::wide_area::{FittedChanges, Stream, fit_changes};
use shoal_trace::SizeChange;

/// The row in the table of experiments.
pub const EXPERIMENT: Experiment = Experiment {
    name: "internet",
    question: "what does each scheme cost with a hundred thousand nodes and a thousand million clients, and where does it break first?",
    needs: "a trace with sizes, for the rates of change",
    run,
};

fn run(inputs: &Inputs, progress: &mut dyn Progress) -> Result<Report, LabError> {
    let trace = Stream::of_trace(&inputs.trace, SizeChange::Version);
    if trace.visits.len() < LEAST_REQUESTS {
        return Err(LabError::TooFewRequests { found: trace.visits.len(), least: LEAST_REQUESTS });
    }
    progress.begin("internet scale", 3);
    let fitted = fit_changes(&trace, POPULAR);
    let (whole, table) = scale_section(&fitted)?;
    progress.done(1);
    let growth = growth_section(&fitted)?;
    progress.done(1);
    let requests = if inputs.is_small { 8_000 } else { 200_000 };
    let checked = checked::section(requests, inputs.seed, inputs.is_small)?;
    progress.done(1);
    Ok(Report {
        name: EXPERIMENT.name.into(),
        title: "Cooperative caching at Internet scale".into(),
        question: "A hundred thousand nodes in three levels serve a thousand million clients from finite caches. What does each scheme cost in messages, bytes and latency, and which resource \
                   of which node gives out first?"
            .into(),
        command: inputs.command.clone(),
        seed: inputs.seed,
        facts: facts(inputs, &fitted),
        columns: vec!["model".into()],
        sections: vec![whole, table, growth, checked],
        ..Report::default()
    })
}

fn facts(inputs: &Inputs, fitted: &FittedChanges) -> Vec<(String, String)> {
    let days = |days: f64| if days.is_finite() { format!("{days:.1} days") } else { "never seen".into() };
    vec![
        ("trace".into(), inputs.source.clone()),
        ("gaps between requests for one object".into(), Unit::Count.shown(fitted.gaps as f64)),
        ("of these with a change".into(), Unit::Count.shown(fitted.changed as f64)),
        (format!("popular objects ({:.2}%) change every", POPULAR * 100.0), days(fitted.popular.mean_days)),
        ("others change every".into(), days(fitted.others.mean_days)),
        ("a proxy's cache".into(), Unit::Bytes.shown(PROXY_BYTES)),
        (
            "limits of a node".into(),
            format!(
                "{} requests a second, 25 Gbit/s, {} of RAM for directories",
                Unit::Count.shown(MOST_PER_SECOND),
                Unit::Bytes.shown(MOST_RAM)
            ),
        ),
    ]
}

/// Returns the web of Table 5.1 with the trace's rates of change.
fn web(fitted: &FittedChanges) -> Web {
    Web { popular_change: fitted.popular, unpopular_change: fitted.others, ..Web::table_5_1(Rates::MID_SLOW) }
}

/// Returns three levels for a number of clients, ten thousand of them at each proxy.
fn setup(clients: f64) -> CostSetup {
    let fanout = (clients / CLIENTS_A_PROXY).sqrt().round().max(1.0);
    CostSetup {
        region: Region { population: clients, fanout: fanout as u32, latency_seconds: LATENCIES.to_vec() },
        // Upper caches are larger: few of them, for many.
        cache_bytes: vec![100.0 * PROXY_BYTES, 10.0 * PROXY_BYTES, PROXY_BYTES],
        question_bytes: 400.0,
        directory_bits: 16.0,
        change_bytes: 16.0,
    }
}

/// Resources of a node, with the share of each that a scheme takes.
fn loads(costs: &SchemeCosts) -> [(&'static str, f64); 3] {
    [
        ("requests", costs.busiest_per_second / MOST_PER_SECOND),
        ("link", costs.busiest_bytes_per_second / MOST_BYTES_PER_SECOND),
        ("RAM", costs.directory_bytes / MOST_RAM),
    ]
}

/// Returns the resource that is used most, and its share.
fn first(costs: &SchemeCosts) -> (&'static str, f64) {
    loads(costs).into_iter().fold(("requests", 0.0), |most, one| if one.1 > most.1 { one } else { most })
}

/// Returns the sections on all schemes at full scale: those with the trace's rates of change and
/// those of Table 5.1.
fn scale_section(fitted: &FittedChanges) -> Result<(Section, Section), LabError> {
    let of_trace = rates_tables("the trace's rates of change", web(fitted))?;
    let of_paper = rates_tables("mid-slow rates of Table 5.1", Web::table_5_1(Rates::MID_SLOW))?;
    let mut findings = Vec::new();
    for (scheme, costs) in CostedScheme::ALL.iter().zip(&of_trace.costs) {
        let key = scheme.name().replace(' ', "_");
        let mut add = |kind: &str, what: &str, unit, value| {
            let words = Claim::Words("not asked".into());
            let what = format!("{}: {what}", scheme.name());
            findings.push(Finding::new(&format!("{kind}_{key}"), &what, unit, words).found(&[Some(value)]));
        };
        add("latency", "mean latency", Unit::Seconds, costs.latency_seconds);
        add("load", "use of the first limit at the busiest node", Unit::Ratio, first(costs).1);
    }
    let tables = [of_trace, of_paper].map(|one| (one.of_requests, one.of_busiest));
    let (costs, loads): (Vec<Table>, Vec<Table>) = tables.into_iter().unzip();
    let whole = Section {
        anchor: "scale".into(),
        title: "A thousand million clients".into(),
        question: "What does a request cost under each scheme?".into(),
        findings,
        tables: costs,
        notes: vec!["Proxies have ten thousand clients each, 10 ms away; 316 are below each of 316 middle caches, 50 ms away, and one cache, or group, at the top, 150 ms away. Middle caches are ten times and the top one a hundred times as large as a proxy's.".into()],
        ..Section::default()
    };
    let busiest = Section {
        anchor: "busiest".into(),
        title: "Where each scheme breaks first".into(),
        question: "Which resource of which node gives out?".into(),
        tables: loads,
        notes: vec!["A hierarchy breaks at its top: one cache for all that miss below. Directories break by what everybody tells everybody, and by the RAM that it takes, long before a question is asked. Homes by hash load all nodes alike and break last; each hit pays the longest way.".into()],
        ..Section::default()
    };
    Ok((whole, busiest))
}

/// Tables of all schemes under some rates of change.
struct RatesTables {
    of_requests: Table,
    of_busiest: Table,
    costs: Vec<SchemeCosts>,
}

fn rates_tables(rates: &str, web: Web) -> Result<RatesTables, LabError> {
    let model = Model::new(web, Form::Sum)?;
    let heading =
        ["scheme", "hits", "latency", "questions", "changes told", "bytes between caches", "from origins"];
    let mut of_requests = Table::new(&format!("For each request: {rates}"), &heading);
    let heading = ["scheme", "requests a second", "link", "RAM for directories", "first limit", "its use"];
    let mut of_busiest = Table::new(&format!("The busiest node: {rates}"), &heading);
    let mut all = Vec::new();
    for scheme in CostedScheme::ALL {
        let costs = model.costs(scheme, &setup(CLIENTS))?;
        assert!(costs.hit_rate <= model.web().cacheable + 1e-9, "only cacheable requests hit");
        of_requests.row(&[
            scheme.name(),
            &Unit::Share.shown(costs.hit_rate),
            &Unit::Seconds.shown(costs.latency_seconds),
            &Unit::Ratio.shown(costs.questions),
            &Unit::Count.shown(costs.changes),
            &Unit::Bytes.shown(costs.bytes),
            &Unit::Bytes.shown(costs.origin_bytes),
        ]);
        let (limit, share) = first(&costs);
        of_busiest.row(&[
            scheme.name(),
            &Unit::Count.shown(costs.busiest_per_second),
            &format!("{} a second", Unit::Bytes.shown(costs.busiest_bytes_per_second)),
            &Unit::Bytes.shown(costs.directory_bytes),
            limit,
            &Unit::Share.shown(share),
        ]);
        all.push(costs);
    }
    Ok(RatesTables { of_requests, of_busiest, costs: all })
}

/// The first limit by the number of clients.
fn growth_section(fitted: &FittedChanges) -> Result<Section, LabError> {
    let model = Model::new(web(fitted), Form::Sum)?;
    let clients: Vec<f64> = (0..=24).map(|step| 1e4 * 10f64.powf(f64::from(step) / 4.0)).collect();
    let mut table = Table::new(
        "Clients at which the busiest node reaches a limit",
        &["scheme", "clients", "proxies", "limit"],
    );
    let (mut series, mut findings) = (Vec::new(), Vec::new());
    for scheme in CostedScheme::ALL {
        let use_at = |clients: f64| Ok::<_, LabError>(first(&model.costs(scheme, &setup(clients))?));
        let mut points = Vec::new();
        for at in &clients {
            points.push((*at, use_at(*at)?.1));
        }
        let breaks = points.iter().position(|point| point.1 >= 1.0);
        let (shown, proxies, limit) = match breaks {
            Some(at) => {
                let clients = points[at].0;
                (
                    Unit::Count.shown(clients),
                    Unit::Count.shown(setup(clients).region.proxies()),
                    use_at(clients)?.0,
                )
            }
            None => ("none up to 10^10".into(), String::new(), ""),
        };
        table.row(&[scheme.name(), &shown, &proxies, limit]);
        let found = breaks.map(|at| points[at].0);
        let key = format!("breaks_{}", scheme.name().replace(' ', "_"));
        let what = format!("{}: clients at which the busiest node reaches a limit", scheme.name());
        findings
            .push(Finding::new(&key, &what, Unit::Count, Claim::Words("not asked".into())).found(&[found]));
        series.push(curve(scheme.name(), points));
    }
    Ok(Section {
        anchor: "growth".into(),
        title: "How far each scheme goes".into(),
        question: "At how many clients does the busiest node of each scheme reach a limit?".into(),
        findings,
        figures: vec![plot(
            "growth",
            "Use of the scarcest resource of the busiest node, by clients",
            "Flat for proxies alone and homes by hash; in proportion to the clients for a hierarchy's top and for directories of all, and to their root for directories of a group.",
            (Axis::log10("clients", Unit::Count), Axis::log10("use of the limit", Unit::Share)),
            series,
            vec![Mark::Level { y: 1.0, label: "the limit".into() }],
        )],
        tables: vec![table],
        notes: vec!["Proxies grow with the clients, and the middle and bottom levels alike. A hierarchy whose upper caches are groups of machines with homes by hash goes as far as it has machines.".into()],
        ..Section::default()
    })
}

/// Clients at full scale.
const CLIENTS: f64 = 1e9;
const CLIENTS_A_PROXY: f64 = 1e4;
/// L_1 to L_3, the top first, in seconds.
const LATENCIES: [f64; 3] = [0.150, 0.050, 0.010];
/// Bytes of a proxy's cache.
const PROXY_BYTES: f64 = 1e12;
/// Requests a second that a node serves.
const MOST_PER_SECOND: f64 = 100e3;
const MOST_BYTES_PER_SECOND: f64 = 25e9 / 8.0;
/// RAM of a node for directories, in bytes.
const MOST_RAM: f64 = 256.0 * 1024.0 * 1024.0 * 1024.0;
/// Share of the objects that count as popular: Table 5.1's.
const POPULAR: f64 = 0.003_25;
const LEAST_REQUESTS: usize = 1000;
