//! A report: questions, figures, and what was claimed beside what was found.
//!
//! A [`Report`] is a value too. It becomes a folder ([`Report::write`]):
//!
//! ```text
//! index.html     one self-contained page, figures inline as SVG
//! summary.json   every finding, claimed and found, for programs
//! NAME.csv       the numbers of a figure, one file each
//! NAME.svg       its picture
//! ```
//!
//! Nothing in it tells when or where it was made: the same input and seed give the same bytes.

mod html;
mod summary;

#[cfg(test)]
mod tests;

use crate::figure::{Figure, Unit};
use std::io;
use std::path::Path;

/// A whole report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The experiment's name, as the command line has it.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What it asks, in a few sentences.
    pub question: String,
    /// The command that makes it again.
    pub command: String,
    /// The seed it was made with.
    pub seed: u64,
    /// Facts about the input and the machine: name and value.
    pub facts: Vec<(String, String)>,
    /// The columns of what was found, such as the modelled machine and today's disk.
    pub columns: Vec<String>,
    /// Its parts.
    pub sections: Vec<Section>,
}

/// One question with its figures and findings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// What links lead to, such as `figure-1`.
    pub anchor: String,
    /// Its heading.
    pub title: String,
    /// What it asks.
    pub question: String,
    /// What it shows.
    pub figures: Vec<Figure>,
    /// What was claimed and what was found.
    pub findings: Vec<Finding>,
    /// Further numbers.
    pub tables: Vec<Table>,
    /// What to make of it, a paragraph each.
    pub notes: Vec<String>,
}

/// One claim of a paper and what was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// A short name for programs, unique in the report.
    pub key: String,
    /// What is measured.
    pub what: String,
    /// In which unit.
    pub unit: Unit,
    /// What the paper says.
    pub claim: Claim,
    /// What was found, one for each of the report's columns; `None` where it was not measured.
    pub found: Vec<Option<f64>>,
}

/// What a paper says.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// A number.
    Is(f64),
    /// A number and no more.
    AtMost(f64),
    /// A number and no less.
    AtLeast(f64),
    /// Something that is no number.
    Words(String),
}

/// Numbers that answer no claim: a heading and rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// The columns' names; the first column is text, the others are set to the right.
    pub heading: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Finding {
    /// A finding that nothing has been found for yet.
    pub fn new(key: &str, what: &str, unit: Unit, claim: Claim) -> Self {
        Self { key: key.into(), what: what.into(), unit, claim, found: Vec::new() }
    }

    /// The finding with what was found, a value a column.
    pub fn found(mut self, values: &[Option<f64>]) -> Self {
        self.found = values.to_vec();
        self
    }

    /// What was found first over what is claimed.
    pub fn ratio(&self) -> Option<f64> {
        let claimed = self.claim.number().filter(|claimed| *claimed != 0.0)?;
        Some(self.found.first().copied().flatten()? / claimed)
    }
}

impl Claim {
    /// The number in it.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Is(number) | Self::AtMost(number) | Self::AtLeast(number) => Some(*number),
            Self::Words(_) => None,
        }
    }

    /// The claim as it is printed.
    pub fn shown(&self, unit: Unit) -> String {
        // a paper's number is exact where it counts, and rounded already where it measures
        let exact = |number: f64| if unit == Unit::Count { unit.shown(number) } else { unit.tick(number) };
        match self {
            Self::Is(number) => exact(*number),
            Self::AtMost(number) => format!("≤ {}", exact(*number)),
            Self::AtLeast(number) => format!("≥ {}", exact(*number)),
            Self::Words(words) => words.clone(),
        }
    }
}

impl Table {
    /// An empty table.
    pub fn new(title: &str, heading: &[&str]) -> Self {
        let heading = heading.iter().map(|name| name.to_string()).collect();
        Self { title: title.into(), heading, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[&str]) {
        self.rows.push(cells.iter().map(|cell| cell.to_string()).collect());
    }
}

impl Report {
    /// The page.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// Every fact and finding, as JSON.
    pub fn summary(&self) -> String {
        summary::json(self)
    }

    /// Every figure.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.sections.iter().flat_map(|section| &section.figures)
    }

    /// Writes page, summary and figures into a folder, made if it is not there. Names the file that
    /// could not be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let named = |path: &Path, error: io::Error| {
            io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
        };
        std::fs::create_dir_all(folder).map_err(|error| named(folder, error))?;
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|error| named(&path, error))
        };
        for figure in self.figures() {
            write(&format!("{}.csv", figure.name), &figure.csv())?;
            write(&format!("{}.svg", figure.name), &figure.svg())?;
        }
        write("summary.json", &self.summary())?;
        write("index.html", &self.html())
    }
}
