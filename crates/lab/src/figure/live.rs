//! A plot's numbers for the chart of a page that stands alone (`crates/dashboard/standalone`).

use super::axis::FixedAxis;
use super::{Axis, Chart, Figure, Mark, Plot, Scale, Series, Shape};
use serde_json::{Value, json};

impl Figure {
    /// Returns the figure's numbers for a live chart; `None` for bars and pages, which stay still
    /// pictures.
    pub(crate) fn live(&self) -> Option<Value> {
        let Chart::Plot(plot) = &self.drawing else { return None };
        let (x, y) = plot.axes();
        let is_line = |(_, series): &(usize, &Series)| series.shape != Shape::Whiskers;
        let lines = plot.series.iter().enumerate().filter(is_line);
        Some(json!({
            "name": self.name,
            "title": self.caption(),
            "x": axis(&plot.x, &x),
            "y": axis(&plot.y, &y),
            "series": lines.map(|(number, series)| line(number, series)).collect::<Vec<_>>(),
            "errors": errors(plot),
            "marks": plot.marks.iter().filter_map(mark).collect::<Vec<_>>(),
            "levels": plot.marks.iter().filter_map(level).collect::<Vec<_>>(),
        }))
    }
}

fn axis(axis: &Axis, fixed: &FixedAxis) -> Value {
    debug_assert!(fixed.low < fixed.high, "an axis from {} to {}", fixed.low, fixed.high);
    debug_assert!(fixed.ticks.is_sorted(), "ticks rise");
    json!({
        "label": axis.label,
        "unit": axis.unit.name(),
        "log": axis.scale != Scale::Linear,
        "ends": [rounded(fixed.low), rounded(fixed.high)],
        "ticks": fixed.ticks.iter().map(|tick| json!([rounded(*tick), axis.unit.tick(*tick)])).collect::<Vec<_>>(),
    })
}

fn line(number: usize, series: &Series) -> Value {
    debug_assert!(series.shape != Shape::Whiskers, "errors are no line");
    let shape = match series.shape {
        Shape::Dotted => "dotted",
        Shape::Steps => "steps",
        Shape::Points => "points",
        Shape::Curve | Shape::Whiskers => "curve",
    };
    let points: Vec<[f64; 2]> = series.points.iter().map(|(x, y)| [rounded(*x), rounded(*y)]).collect();
    json!({ "name": series.name, "number": number, "shape": shape, "points": points })
}

/// Returns the upright lines: the number of the series, x, low and high.
fn errors(plot: &Plot) -> Vec<Value> {
    let whiskers = plot.series.iter().filter(|series| series.shape == Shape::Whiskers);
    let lines = whiskers.flat_map(|series| {
        let of = plot.interval_of(series);
        series
            .points
            .chunks_exact(2)
            .map(move |ends| json!([of, rounded(ends[0].0), rounded(ends[0].1), rounded(ends[1].1)]))
    });
    lines.collect()
}

fn mark(mark: &Mark) -> Option<Value> {
    match mark {
        Mark::Point { at: (x, y), label } => {
            Some(json!({ "x": rounded(*x), "y": rounded(*y), "label": label }))
        }
        Mark::Level { .. } => None,
    }
}

fn level(mark: &Mark) -> Option<Value> {
    match mark {
        Mark::Level { y, label } => Some(json!({ "y": rounded(*y), "label": label })),
        Mark::Point { .. } => None,
    }
}

/// Rounds to nine digits, which no eye tells apart and which take half the bytes.
fn rounded(value: f64) -> f64 {
    format!("{value:.8e}").parse().unwrap_or(value)
}
