//! Voelker 2000, chapter 5: the value of cooperating caches in a wide area, by model and by
//! simulation.
//!
//! Figures 5.1 to 5.4, Tables 5.4 to 5.6 and the quoted numbers come from the model
//! ([`shoal_lab::model::wan`]) at the dissertation's own parameters. Beside them stand simulations
//! ([`shoal_lab::wide_area`]) of streams as the model assumes them, and of the given trace with its
//! clients. The dissertation's future work follows.
//!
//! | file | sections |
//! |---|---|
//! | `population` | Figures 5.1 and 5.2, quoted populations, trends |
//! | `change` | Figures 5.3 and 5.4 |
//! | `schemes` | Tables 5.4 to 5.6, and tiers |
//! | `made` | model and simulation of the same streams |
//! | `traced` | the trace's clients behind proxies |
//! | `mechanisms` | digests, levels, a lost node |
//! | `future` | heavy tails, finite caches, streams |

mod change;
mod future;
pub(crate) mod made;
mod mechanisms;
mod population;
mod schemes;
mod traced;

#[cfg(test)]
mod tests;

use super::{Experiment, Inputs, LabError, Progress};
use shoal_lab::figure::{Series, Shape, Unit};
use shoal_lab::model::wan::paper::Rates;
use shoal_lab::model::wan::{Form, Model, Web};
use shoal_lab::report::Report;
use shoal_lab::wide_area::Stream;
use shoal_trace::SizeChange;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "voelker-ch5",
    question: "what are cooperating caches in a wide area worth, by population and by scheme?",
    needs: "a trace with clients and sizes",
    run,
};

fn run(inputs: &Inputs, progress: &mut dyn Progress) -> Result<Report, LabError> {
    let measured = inputs.workload.measured().len();
    if measured < LEAST_REQUESTS {
        return Err(LabError::TooFewRequests {
            found: inputs.workload.requests.len(),
            least: 2 * LEAST_REQUESTS,
        });
    }
    progress.begin("models", 6);
    let mut sections = Vec::new();
    for section in [population::section, population::trends, change::section, schemes::section] {
        sections.push(section()?);
        progress.done(1);
    }
    sections.push(schemes::tiers()?);
    sections.extend([future::heavy_tails()?, future::finite()?, future::streams()?]);
    progress.done(2);
    let trace = Stream::of_trace(&inputs.trace, SizeChange::Identity);
    progress.begin("simulations", 4);
    let sized = inputs.trace.requests().len().min(MOST_MADE_REQUESTS);
    sections.push(made::section(sized, inputs.seed)?);
    progress.done(1);
    sections.push(traced::section(inputs, &trace)?);
    progress.done(1);
    sections.push(mechanisms::summaries(inputs, &trace)?);
    progress.done(1);
    sections.extend([mechanisms::levels(sized, inputs.seed)?, mechanisms::loss(inputs, &trace)?]);
    progress.done(1);
    Ok(Report {
        name: EXPERIMENT.name.into(),
        title: "Cooperative caching in wide-area networks".into(),
        question: "Voelker's dissertation (2000, chapter 5) asks how many clients it takes until caches that cooperate answer nearly everything \
                   they could, and which way to cooperate serves them best. Which of its numbers come out again, which cannot, and what \
                   do simulated proxies add?"
            .into(),
        command: inputs.command.clone(),
        seed: inputs.seed,
        facts: facts(inputs, &trace),
        columns: vec!["model".into()],
        sections,
        ..Report::default()
    })
}

fn facts(inputs: &Inputs, trace: &Stream) -> Vec<(String, String)> {
    vec![
        ("trace".into(), inputs.source.clone()),
        ("requests".into(), Unit::Count.shown(trace.visits.len() as f64)),
        ("of these measured".into(), Unit::Count.shown(inputs.workload.measured().len() as f64)),
        ("objects".into(), Unit::Count.shown(trace.objects as f64)),
        ("clients".into(), Unit::Count.shown(trace.clients as f64)),
        ("days".into(), format!("{:.1}", trace.days())),
        ("Zipf exponent".into(), format!("{:.2}", inputs.workload.zipf_exponent())),
    ]
}

/// Returns Table 5.1 with one of its rates of change.
fn paper(rates: Rates) -> Result<Model, LabError> {
    Ok(Model::new(Web::table_5_1(rates), Form::Sum)?)
}

/// Returns Table 5.1 with one of its rates and a further change.
fn changed(rates: Rates, change: impl FnOnce(&mut Web)) -> Result<Model, LabError> {
    let mut web = Web::table_5_1(rates);
    change(&mut web);
    Ok(Model::new(web, Form::Sum)?)
}

/// Returns a curve over values of x.
fn curve(
    name: &str,
    xs: &[f64],
    mut y: impl FnMut(f64) -> Result<f64, LabError>,
) -> Result<Series, LabError> {
    let points: Result<Vec<(f64, f64)>, LabError> = xs.iter().map(|x| Ok((*x, y(*x)?))).collect();
    Ok(Series { name: name.into(), shape: Shape::Curve, points: points? })
}

/// Returns points from one end to the other, evenly by ratio.
fn spread(first: f64, last: f64, count: usize) -> Vec<f64> {
    let step = (last / first).ln() / (count - 1) as f64;
    (0..count).map(|index| first * (step * index as f64).exp()).collect()
}

/// Least measured requests: fewer tell nothing of proxies.
const LEAST_REQUESTS: usize = 1000;
/// Largest number of made requests: longer streams would tell the same.
const MOST_MADE_REQUESTS: usize = 400_000;
