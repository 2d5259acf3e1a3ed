//! Figures 5.1 and 5.2: hit rate and latency by the number of clients; and effects of other
//! exponents, larger webs and busier clients.

use super::{LabError, changed, curve, paper, spread};
use shoal_lab::figure::{Axis, Chart, Figure, Mark, Plot, Series, Unit};
use shoal_lab::model::wan::paper::Rates;
use shoal_lab::report::{Claim, Finding, Section, Table};

pub(super) fn section() -> Result<Section, LabError> {
    let clients = spread(100.0, 1e9, 71);
    let of = |y: &dyn Fn(&shoal_lab::model::wan::SharedCache) -> f64| -> Result<Vec<Series>, LabError> {
        let each = |rates: Rates| {
            let model = paper(rates)?;
            curve(rates.name, &clients, |n| Ok(y(&model.shared(n)?)))
        };
        Rates::ALL.into_iter().map(each).collect()
    };
    let hits = Plot {
        x: Axis::log10("clients", Unit::Count),
        y: Axis::share("cacheable requests that hit"),
        series: of(&|shared| shared.cacheable.total())?,
        marks: vec![
            Mark::Point { at: (250e3, 0.9), label: "250,000".into() },
            Mark::Point { at: (20e6, 0.9), label: "nearly 20 million".into() },
        ],
    };
    let latency = Plot {
        x: Axis::log10("clients", Unit::Count),
        y: Axis::linear("mean latency", Unit::Seconds).over(0.0, 2.0),
        series: of(&|shared| shared.latency_seconds)?,
        marks: vec![Mark::Level { y: 0.76, label: "0.76 s: what cannot be cached".into() }],
    };
    Ok(Section {
        anchor: "population".into(),
        title: "How many clients it takes".into(),
        question: "How large must a population be until its caches answer nearly everything that they could?"
            .into(),
        figures: vec![
            Figure::new(
                "figure-5-1",
                "Figure 5.1: hits among cacheable requests by population",
                ALTERNATIVE,
                Chart::Plot(hits),
            ),
            Figure::new(
                "figure-5-2",
                "Figure 5.2: mean latency of a request by population",
                "The same curves turned over, from 1.9 seconds down to 0.77.",
                Chart::Plot(latency),
            ),
        ],
        findings: findings()?,
        notes: vec![NOTE.into()],
        ..Section::default()
    })
}

fn findings() -> Result<Vec<Finding>, LabError> {
    let (slow, fast) = (paper(Rates::SLOW)?, paper(Rates::FAST)?);
    let finding = |key: &str, what: &str, unit, claim, found: Option<f64>| {
        Finding::new(key, what, unit, Claim::Is(claim)).found(&[found])
    };
    let popular = changed(Rates::SLOW, |web| web.popular_change.mean_days = f64::INFINITY)?;
    let (count, share) = (Unit::Count, Unit::Share);
    Ok(vec![
        finding("clients-slow", "clients for 90%, slow rates", count, 250e3, slow.population_for(0.9)?),
        finding(
            "clients-fast",
            "clients for 90%, fast rates (\"nearly\")",
            count,
            20e6,
            fast.population_for(0.9)?,
        ),
        finding(
            "gain-slow",
            "share of the greatest gain in latency, 500,000 clients, slow",
            share,
            0.95,
            Some(slow.cacheable_hit_rate(5e5)?.total()),
        ),
        finding("gain-fast", "the same, fast", share, 0.68, Some(fast.cacheable_hit_rate(5e5)?.total())),
        finding(
            "asymptote",
            "latency of the largest populations (hits cost nothing in the text)",
            Unit::Seconds,
            0.76,
            Some(slow.shared(1e12)?.latency_seconds),
        ),
        finding(
            "popular-share",
            "requests for popular documents (40% in the trace)",
            share,
            0.4,
            Some(popular.cacheable_hit_rate(1.0)?.popular),
        ),
    ])
}

/// Section 5.2.4, "Client request rate" and "Document popularity and size of the Web".
pub(super) fn trends() -> Result<Section, LabError> {
    let clients = spread(1e3, 1e10, 57);
    let by_alpha = |rates: Rates| -> Result<Vec<Series>, LabError> {
        let each = |alpha: f64| {
            let model = changed(rates, |web| web.alpha = alpha)?;
            let name = format!("{} {alpha:.1}", rates.name);
            curve(&name, &clients, |n| Ok(model.cacheable_hit_rate(n)?.total()))
        };
        [0.6, 0.8, 1.0].into_iter().map(each).collect()
    };
    let by_size = |(documents, name): (u64, &str)| {
        let model = changed(Rates::SLOW, |web| web.documents = documents)?;
        curve(name, &clients, |n| Ok(model.cacheable_hit_rate(n)?.total()))
    };
    let sizes =
        [(3_200_000_000, "3.2 billion"), (32_000_000_000, "32 billion"), (320_000_000_000, "320 billion")];
    let plot = |series| {
        let (x, y) = (Axis::log10("clients", Unit::Count), Axis::share("cacheable requests that hit"));
        Chart::Plot(Plot { x, y, series, marks: Vec::new() })
    };
    let alphas = [by_alpha(Rates::SLOW)?, by_alpha(Rates::FAST)?].concat();
    let webs = sizes.into_iter().map(by_size).collect::<Result<Vec<Series>, LabError>>()?;
    let steeper = "Between exponents of 0.8 and 1 slow and fast curves rise alike from a hundred thousand clients on; between 0.6 and 0.8 the fast curve falls.";
    let larger = "Ten times the documents shift the curve to ten times the clients.";
    Ok(Section {
        anchor: "trends".into(),
        title: "Other popularity, larger webs, busier clients".into(),
        question: "What moves the curves?".into(),
        figures: vec![
            Figure::new(
                "alpha",
                "Hits by population, for slow and fast rates and three Zipf exponents",
                steeper,
                plot(alphas),
            ),
            Figure::new(
                "documents",
                "Hits by population for three sizes of the Web, slow rates",
                larger,
                plot(webs),
            ),
        ],
        findings: larger_webs()?,
        tables: vec![exponents()?],
        notes: vec![TRENDS_NOTE.into(), ALPHA_NOTE.into()],
        ..Section::default()
    })
}

/// Returns the hits of slow and fast rates by the Zipf exponent.
fn exponents() -> Result<Table, LabError> {
    let clients = [1e3, 1e5, 2.5e5, 5e5, 2e7];
    let columns = clients.iter().map(|clients| format!("{} clients", Unit::Count.shown(*clients)));
    let heading: Vec<String> = std::iter::once("rates, exponent".to_owned()).chain(columns).collect();
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    let mut table = Table::new("Cacheable requests that hit, by Zipf exponent", &heading);
    for rates in [Rates::SLOW, Rates::FAST] {
        for alpha in [0.6, 0.8, 1.0, 1.2] {
            let model = changed(rates, |web| web.alpha = alpha)?;
            let mut row = vec![format!("{}, {alpha:.1}", rates.name)];
            for clients in clients {
                row.push(Unit::Share.shown(model.cacheable_hit_rate(clients)?.total()));
            }
            table.rows.push(row);
        }
    }
    Ok(table)
}

fn larger_webs() -> Result<Vec<Finding>, LabError> {
    let of = |key: &str,
              what: &str,
              claim: f64,
              change: &dyn Fn(&mut shoal_lab::model::wan::Web)|
     -> Result<Finding, LabError> {
        let found = changed(Rates::SLOW, change)?.population_for(0.9)?;
        Ok(Finding::new(key, what, Unit::Count, Claim::Is(claim)).found(&[found]))
    };
    Ok(vec![
        of("web-3.2", "clients for 90%, 3.2 billion documents", 250e3, &|_| {})?,
        of("web-32", "32 billion (contradicts \"in proportion\")", 25e6, &|web| {
            web.documents = 32_000_000_000
        })?,
        of("web-320", "320 billion (contradicts \"in proportion\")", 250e6, &|web| {
            web.documents = 320_000_000_000
        })?,
        of(
            "busier",
            "clients that ask ten times as often: \"inversely\", a tenth of 250,000",
            25e3,
            &|web| {
                web.requests_per_day *= 10.0;
            },
        )?,
    ])
}

const ALPHA_NOTE: &str = "\"This greater skew … significantly increases hit rates for slower rates of change, but only slightly increases hit rates for faster rates of change\" (5.2.4). At a \
                          thousand clients slow rates gain twice as much (40 and 20 points). From a hundred thousand on an exponent of 1 instead of 0.8 is worth as much to fast rates as to slow ones (8.2 and 8.1 points; 3.7 and 3.2 at 250,000), and 1.2 far \
                          more (27.5 and 7.9 points at 250,000). From 0.6 to 0.8 fast rates lose up to 11 points instead, since more requests go to the popular documents, which change every five minutes.";

const ALTERNATIVE: &str = "Four curves that rise slowly, then in proportion to the logarithm of the population, then slowly again to 100%; slow rates of change \
                           reach 90% near 250,000 clients, fast ones near 20 million.";
const NOTE: &str = "The curves for bandwidth are those of latency turned over. Popular documents are said to draw 40% of the requests; with n, n_p and α of Table \
                    5.1 the model's draw 31%, since the trace has fewer documents in all than the Web. The text's 0.76 seconds leave out that hits take 10 ms: 0.766.";
const TRENDS_NOTE: &str = "The text says that the population for 90% grows roughly in proportion to the number of documents, and prints 250,000, 25 million and 250 \
                           million for 3.2, 32 and 320 billion. The first step is a factor of a hundred for ten times the documents. The model gives a factor of ten for both, \
                           so that the last two are ten times too high.";
