//! A report: questions, figures, and findings beside claims.
//!
//! A [`Report`] is a value too, and becomes a folder ([`Report::write`]):
//!
//! ```text
//! index.html     one self-contained page, figures inline as SVG
//! summary.json   every finding, claimed and found, for programs
//! NAME.csv       the numbers of a figure, one file each
//! NAME.svg       its picture
//! ANCHOR-table-1.csv, ANCHOR-findings.csv   the tables and findings of a section
//! ```
//!
//! Nothing in a report tells the time or place of its making: the same input and seed give the same
//! bytes.

mod html;
mod summary;

#[cfg(test)]
mod tests;

use crate::figure::{CsvTable, Figure, Unit, number};
use std::io;
use std::path::Path;

/// A whole report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Name of the experiment on the command line.
    pub name: String,
    /// Title of the report.
    pub title: String,
    /// Question of the experiment, in a few sentences.
    pub question: String,
    /// Command that makes the report again.
    pub command: String,
    /// Seed of the experiment.
    pub seed: u64,
    /// Answers that come before all else: name and answer.
    pub answers: Vec<(String, String)>,
    /// Facts about the input and the machine: name and value.
    pub facts: Vec<(String, String)>,
    /// Columns of the found values, such as the modelled machine and today's disk.
    pub columns: Vec<String>,
    /// Sections of the report.
    pub sections: Vec<Section>,
}

/// One question with its figures and findings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Anchor for links, such as `figure-1`.
    pub anchor: String,
    /// Heading of the section.
    pub title: String,
    /// Question of the section.
    pub question: String,
    /// Figures of the section.
    pub figures: Vec<Figure>,
    /// Claims with the found values.
    pub findings: Vec<Finding>,
    /// Further numbers.
    pub tables: Vec<Table>,
    /// Conclusions, a paragraph each.
    pub notes: Vec<String>,
    /// Text to be copied, such as a settings file; may be empty.
    pub listing: String,
}

/// One claim of a paper with the found values.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// A short name for programs, unique in the report.
    pub key: String,
    /// Measured quantity.
    pub what: String,
    /// Unit of the quantity.
    pub unit: Unit,
    /// Claim of the paper.
    pub claim: Claim,
    /// Found values, one for each of the report's columns; `None` where it was not measured.
    pub found: Vec<Option<f64>>,
}

/// Claim of a paper.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// A number.
    Is(f64),
    /// A number and no more.
    AtMost(f64),
    /// A number and no less.
    AtLeast(f64),
    /// A claim that is no number.
    Words(String),
}

/// Numbers that answer no claim: a heading and rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Title of the table.
    pub title: String,
    /// The columns' names; the first column is text, the others are set to the right.
    pub heading: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Finding {
    /// Creates a finding without values yet.
    pub fn new(key: &str, what: &str, unit: Unit, claim: Claim) -> Self {
        Self { key: key.into(), what: what.into(), unit, claim, found: Vec::new() }
    }

    /// Returns the finding with its found values, one a column.
    pub fn found(mut self, values: &[Option<f64>]) -> Self {
        self.found = values.to_vec();
        self
    }

    /// Returns the first found value over the claim.
    pub fn ratio(&self) -> Option<f64> {
        let claimed = self.claim.number().filter(|claimed| *claimed != 0.0)?;
        Some(self.found.first().copied().flatten()? / claimed)
    }
}

impl Claim {
    /// Returns the number in the claim.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Is(number) | Self::AtMost(number) | Self::AtLeast(number) => Some(*number),
            Self::Words(_) => None,
        }
    }

    /// Returns the claim as it is printed.
    pub fn shown(&self, unit: Unit) -> String {
        // A paper's counts are exact; its measurements are rounded already.
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
    /// Creates an empty table.
    pub fn new(title: &str, heading: &[&str]) -> Self {
        let heading = heading.iter().map(|name| name.to_string()).collect();
        Self { title: title.into(), heading, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[&str]) {
        self.rows.push(cells.iter().map(|cell| cell.to_string()).collect());
    }

    /// Returns the table as comma-separated values, as it is printed.
    pub fn csv(&self) -> String {
        fn cells(row: &[String]) -> Vec<&str> {
            row.iter().map(String::as_str).collect()
        }
        let mut csv = CsvTable::new(&cells(&self.heading));
        self.rows.iter().for_each(|row| csv.row(&cells(row)));
        csv.text()
    }
}

impl Section {
    /// Returns the names of the tables' files, in the tables' order.
    pub fn table_files(&self) -> Vec<String> {
        (1..=self.tables.len()).map(|number| format!("{}-table-{number}.csv", self.anchor)).collect()
    }
}

impl Report {
    /// Returns a section's findings as comma-separated values: the claim, and the values in their
    /// unit.
    fn findings_csv(&self, section: &Section) -> String {
        let fixed = ["key", "what", "unit", "claim"];
        let heading: Vec<&str> = fixed.into_iter().chain(self.columns.iter().map(String::as_str)).collect();
        let mut csv = CsvTable::new(&heading);
        for finding in &section.findings {
            let (claim, unit) = (finding.claim.shown(finding.unit), finding.unit.name());
            let value = |at: usize| finding.found.get(at).copied().flatten().map_or(String::new(), number);
            let values: Vec<String> = (0..self.columns.len()).map(value).collect();
            let cells = [finding.key.as_str(), &finding.what, unit, &claim];
            let cells: Vec<&str> = cells.into_iter().chain(values.iter().map(String::as_str)).collect();
            csv.row(&cells);
        }
        csv.text()
    }

    /// Returns the page that stands among the report's files.
    pub fn html(&self) -> String {
        html::page(self, true)
    }

    /// Returns the page without links to other files.
    pub fn html_alone(&self) -> String {
        html::page(self, false)
    }

    /// Returns every fact and finding, as JSON.
    pub fn summary(&self) -> String {
        summary::json(self)
    }

    /// Returns every figure.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.sections.iter().flat_map(|section| &section.figures)
    }

    /// Writes page, summary and figures into a folder, made if it is not there. An error names the
    /// file that could not be written.
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
        for section in &self.sections {
            for (table, file) in section.tables.iter().zip(section.table_files()) {
                write(&file, &table.csv())?;
            }
            if !section.findings.is_empty() {
                write(&format!("{}-findings.csv", section.anchor), &self.findings_csv(section))?;
            }
        }
        write("summary.json", &self.summary())?;
        write("index.html", &self.html())
    }
}
