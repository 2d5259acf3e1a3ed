//! Figures as values: what is plotted against what, drawn as SVG and written as CSV.
//!
//! A [`Figure`] holds numbers and their meaning (labels, units, scales), not lines and colours, so
//! that the picture and the table beside it come from the same value and cannot disagree. Three
//! kinds of drawing serve every experiment:
//!
//! | drawing | for |
//! |---|---|
//! | [`Plot`] | curves, steps (cumulative distributions) and points over two axes |
//! | [`Bars`] | quantities of named things, each a stack of parts |
//! | [`Pages`] | where objects lie in pages: a picture of a packing |
//!
//! A claim to compare with (a paper's number) is marked in its place by a [`Mark`] or a bar's
//! claim. The SVG carries its own style with a light and a dark face, needs no fonts and no
//! scripts, and is the same to the byte for the same value.

mod axis;
mod bars;
mod csv;
mod pages;
mod plot;
mod style;
mod svg;
mod unit;

#[cfg(test)]
mod tests;

pub use axis::{Axis, Scale};
pub use bars::{Bar, Bars};
pub use pages::{Pages, Placed};
pub use plot::{Mark, Plot, Series, Shape};
pub use unit::Unit;

pub(crate) use svg::escaped;
#[cfg(test)]
pub(crate) use tests::check_well_formed;

use csv::Table;

/// A figure: its words and what it shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What its files are called, such as `figure-5a`.
    pub name: String,
    /// What it shows, in a line.
    pub title: String,
    /// What a reader who cannot see it should know.
    pub alternative: String,
    /// The numbers.
    pub drawing: Drawing,
}

/// The numbers of a figure and how they are drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Drawing {
    /// Curves and points over two axes.
    Plot(Plot),
    /// Quantities of named things.
    Bars(Bars),
    /// Objects in pages.
    Pages(Pages),
}

impl Figure {
    /// A figure of so many words.
    pub fn new(name: &str, title: &str, alternative: &str, drawing: Drawing) -> Self {
        Self { name: name.into(), title: title.into(), alternative: alternative.into(), drawing }
    }

    /// The picture, as one SVG element that stands alone.
    pub fn svg(&self) -> String {
        let canvas = match &self.drawing {
            Drawing::Plot(plot) => plot.draw(),
            Drawing::Bars(bars) => bars.draw(),
            Drawing::Pages(pages) => pages.draw(),
        };
        canvas.finish(&self.title, &self.alternative)
    }

    /// The numbers, a line each after a heading, as RFC 4180 has it.
    pub fn csv(&self) -> String {
        let table: Table = match &self.drawing {
            Drawing::Plot(plot) => plot.table(),
            Drawing::Bars(bars) => bars.table(),
            Drawing::Pages(pages) => pages.table(),
        };
        table.text()
    }
}
