//! Figures of experiments in few words.

use shoal_lab::figure::{Axis, Chart, Figure, Mark, Plot, Series, Shape};

/// Returns a plot of named curves.
pub(super) fn plot(
    name: &str,
    title: &str,
    alternative: &str,
    axes: (Axis, Axis),
    series: Vec<Series>,
    marks: Vec<Mark>,
) -> Figure {
    let (x, y) = axes;
    Figure::new(name, title, alternative, Chart::Plot(Plot { x, y, series, marks }))
}

/// Returns a curve through points.
pub(super) fn curve(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.into(), shape: Shape::Curve, points }
}

/// Returns a curve through visible points.
pub(super) fn dotted(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.into(), shape: Shape::Dotted, points }
}
