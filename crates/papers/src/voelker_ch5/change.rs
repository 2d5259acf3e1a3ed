//! Figures 5.3 and 5.4: effect of the rates at which popular and unpopular documents change.

use super::{LabError, changed, curve, spread};
use shoal_lab::figure::{Axis, Chart, Figure, Plot, Series, Unit};
use shoal_lab::model::wan::Change;
use shoal_lab::model::wan::paper::Rates;
use shoal_lab::report::{Section, Table};

pub(super) fn section() -> Result<Section, LabError> {
    let minutes = spread(1.0, SLOWEST_MINUTES, 60);
    let series = |clients: f64, suffix: &str| -> Result<Vec<Series>, LabError> {
        let each = |name: &str, popular: bool| {
            curve(&format!("{name}{suffix}"), &minutes, |m| hits(clients, m, popular))
        };
        Ok(vec![each("popular", true)?, each("unpopular", false)?])
    };
    let plot = |series: Vec<Series>| {
        let x = Axis::log10(
            "mean interval between changes, in minutes; the other documents' is 180 days",
            Unit::Count,
        );
        Chart::Plot(Plot { x, y: Axis::share("cacheable requests that hit"), series, marks: Vec::new() })
    };
    let captioned = [series(250e3, ", 250,000")?, series(500e3, ", 500,000")?].concat();
    let alternative = "The curve for popular documents falls only for intervals below a day; that for unpopular ones falls from months down to a day and stays low.";
    Ok(Section {
        anchor: "change".into(),
        title: "How often documents change".into(),
        question: "Whose changes cost more hits, those of popular or of unpopular documents, and on which time scale?".into(),
        figures: vec![
            Figure::new("figure-5-3", "Figure 5.3: hits by the interval between changes, 250,000 and 500,000 clients", alternative, plot(captioned)),
            Figure::new("figure-5-4", "Figure 5.4: the same for 20 million clients", alternative, plot(series(20e6, "")?)),
        ],
        tables: vec![ends()?],
        notes: vec![NOTE.into()],
        ..Section::default()
    })
}

/// Returns the points that the text names: A, B and C, and the bends of the curves.
fn ends() -> Result<Table, LabError> {
    let heading = [
        "changes every",
        "popular, 250,000",
        "unpopular, 250,000",
        "popular, 20 million",
        "unpopular, 20 million",
    ];
    let mut table = Table::new("C_N at the intervals that the text names", &heading);
    let named = [
        ("minute (B, C)", 1.0),
        ("10 minutes", 10.0),
        ("hour", 60.0),
        ("day", 1440.0),
        ("month", 43_200.0),
        ("180 days (A)", SLOWEST_MINUTES),
    ];
    for (name, minutes) in named {
        let mut row = vec![name.to_string()];
        for (clients, popular) in [(250e3, true), (250e3, false), (20e6, true), (20e6, false)] {
            row.push(Unit::Share.shown(hits(clients, minutes, popular)?));
        }
        table.rows.push(row);
    }
    Ok(table)
}

/// Returns C_N when one kind of document changes every `minutes`, and the other every 180 days.
fn hits(clients: f64, minutes: f64, popular: bool) -> Result<f64, LabError> {
    let model = changed(Rates::SLOW, |web| {
        let (varied, held) =
            (Change::every(minutes / MINUTES_A_DAY), Change::every(SLOWEST_MINUTES / MINUTES_A_DAY));
        (web.popular_change, web.unpopular_change) = if popular { (varied, held) } else { (held, varied) };
    })?;
    Ok(model.cacheable_hit_rate(clients)?.total())
}

const MINUTES_A_DAY: f64 = 1440.0;
const SLOWEST_MINUTES: f64 = 180.0 * MINUTES_A_DAY;
const NOTE: &str = "Figure 5.3's caption says 250,000 clients, the text about it 500,000; both are drawn, and either shows what the text concludes.";
