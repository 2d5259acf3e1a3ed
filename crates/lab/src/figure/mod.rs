//! Figures as values: quantities plotted over one another, drawn as SVG and written as CSV.
//!
//! A [`Figure`] holds numbers and their meaning (labels, units, scales), not lines and colours. The
//! picture and the table beside it come from the same value and cannot disagree. Three kinds of
//! drawing serve every experiment:
//!
//! | drawing | for |
//! |---|---|
//! | [`Plot`] | curves, steps (cumulative distributions) and points over two axes |
//! | [`Bars`] | quantities of named things, each a stack of parts |
//! | [`Pages`] | objects in pages: a picture of a packing |
//!
//! A claim to compare with (a paper's number) is marked in its place by a [`Mark`] or a bar's
//! claim. The SVG carries its own style with a light and a dark face, and needs no fonts and no
//! scripts. The same value gives the same bytes.

mod axis;
mod bars;
mod csv;
mod labels;
mod live;
mod pages;
mod plot;
mod style;
mod svg;
mod unit;
mod well_formed;

#[cfg(test)]
mod tests;

pub use axis::{Axis, Scale};
pub use bars::{Bar, Bars};
pub use pages::{Pages, PlacedObject};
pub use plot::{Mark, Plot, Series, Shape};
pub use unit::Unit;
pub use well_formed::{check_labels, check_well_formed};

pub(crate) use style::STYLE;
pub(crate) use svg::escaped;

pub(crate) use csv::{CsvTable, number};

/// A figure: its words and its drawing.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of the figure's files, such as `figure-5a`.
    pub name: String,
    /// Title of the figure, in a line.
    pub title: String,
    /// Text for readers that cannot see the figure.
    pub alternative: String,
    /// The numbers.
    pub drawing: Chart,
}

/// The numbers of a figure and how they are drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Chart {
    /// Curves and points over two axes.
    Plot(Plot),
    /// Quantities of named things.
    Bars(Bars),
    /// Objects in pages.
    Pages(Pages),
}

impl Figure {
    /// Creates a figure from its words and its drawing.
    pub fn new(name: &str, title: &str, alternative: &str, drawing: Chart) -> Self {
        Self { name: name.into(), title: title.into(), alternative: alternative.into(), drawing }
    }

    /// Returns the title with the paper's number of the figure, where the figure's name has one:
    /// `figure-4-5a` is Figure 4.5a.
    pub fn caption(&self) -> String {
        match self.name.strip_prefix("figure-").filter(|number| is_figure_number(number)) {
            Some(number) if !self.title.starts_with("Figure ") => {
                format!("Figure {}: {}", number.replace('-', "."), self.title)
            }
            _ => self.title.clone(),
        }
    }

    /// Returns the picture, as one SVG element that stands alone.
    pub fn svg(&self) -> String {
        let canvas = match &self.drawing {
            Chart::Plot(plot) => plot.draw(),
            Chart::Bars(bars) => bars.draw(),
            Chart::Pages(pages) => pages.draw(),
        };
        canvas.finish(&self.caption(), &self.alternative)
    }

    /// Returns the numbers, a line each after a heading, as RFC 4180 has it.
    pub fn csv(&self) -> String {
        let table: CsvTable = match &self.drawing {
            Chart::Plot(plot) => plot.table(),
            Chart::Bars(bars) => bars.table(),
            Chart::Pages(pages) => pages.table(),
        };
        table.text()
    }
}

/// Returns `true` for `5`, `5a`, `4-5` and `4-5a`.
fn is_figure_number(number: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let plain = number.strip_suffix(|last: char| last.is_ascii_lowercase()).unwrap_or(number);
    plain.split('-').count() <= 2 && plain.split('-').all(digits)
}
