//! Writes traces: our own columns, Parquet, CSV and libCacheSim's `oracleGeneral`.
//!
//! The writer takes requests one by one. It writes CSV at once and Parquet by groups of rows. The
//! other two formats need the whole trace first: 24 to 27 bytes a request, and our own each name
//! once.

mod csv;
mod oracle;
mod output;
mod requests;
#[cfg(test)]
mod tests;

pub use output::Output;
pub(crate) use requests::Requests;

use crate::columnar::ColumnWriter;
use crate::record::Record;
use csv::CsvWriter;
use oracle::OracleWriter;
use std::io::{self, Write};

/// Format that can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Our own columns (docs/FORMATS.md).
    Shoal,
    /// Apache Parquet, zstd inside.
    Parquet,
    /// Comma-separated, with a header line that [`crate::Format::Table`] reads.
    Csv,
    /// libCacheSim's binary records.
    OracleGeneral,
}

impl Target {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Shoal, Self::Parquet, Self::Csv, Self::OracleGeneral];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shoal => "shoal",
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::OracleGeneral => "oracle_general",
        }
    }

    /// Returns the format named `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.name() == name)
    }

    /// Returns the format by the extension of a file's name. An extension of a compression is
    /// ignored.
    pub fn of_file(name: &str) -> Option<Self> {
        let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
        let (_, extension) = name.rsplit_once('.')?;
        match extension.to_ascii_lowercase().as_str() {
            "shoal" => Some(Self::Shoal),
            "parquet" => Some(Self::Parquet),
            "csv" => Some(Self::Csv),
            "oraclegeneral" | "oracle_general" | "oracle" => Some(Self::OracleGeneral),
            _ => None,
        }
    }
}

/// Writer of requests in one format.
pub struct Writer<W> {
    sink: Sink,
    output: W,
    lossy: Lossy,
}

/// Counts of values that a format could not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lossy {
    /// Requests without a time, in a format that requires one.
    pub times: u64,
    /// Requests without a size, in a format that requires one.
    pub sizes: u64,
    /// Sizes and times too large for their fields, written as the largest that fits.
    pub clipped: u64,
}

enum Sink {
    Shoal(Box<ColumnWriter>),
    Parquet(Box<Requests>),
    Csv(CsvWriter),
    Oracle(OracleWriter),
}

impl<W: Write> Writer<W> {
    /// Makes a writer onto an output. In a format that requires a size, a request without one gets
    /// `bytes_unknown`.
    ///
    /// # Errors
    /// Returns the output's errors.
    pub fn new(target: Target, mut output: W, bytes_unknown: u64) -> io::Result<Self> {
        let sink = match target {
            Target::Shoal => Sink::Shoal(Box::default()),
            Target::Parquet => Sink::Parquet(Box::new(Requests::begin(&mut output)?)),
            Target::Csv => Sink::Csv(CsvWriter::begin(&mut output)?),
            Target::OracleGeneral => Sink::Oracle(OracleWriter::new(bytes_unknown)),
        };
        Ok(Self { sink, output, lossy: Lossy::default() })
    }

    /// Writes a request, at the latest when the writer is finished.
    ///
    /// # Errors
    /// Returns the output's errors. Fails when a trace has too many names for its format.
    pub fn put(&mut self, record: &Record<'_>) -> io::Result<()> {
        match &mut self.sink {
            Sink::Shoal(columns) => columns.put(record),
            Sink::Parquet(parquet) => parquet.put(record, &mut self.output),
            Sink::Csv(csv) => csv.put(record, &mut self.output),
            Sink::Oracle(oracle) => {
                oracle.put(record, &mut self.lossy);
                Ok(())
            }
        }
    }

    /// Writes the remaining requests. Returns the output and the counts of values that the format
    /// could not hold.
    ///
    /// # Errors
    /// Returns the output's errors.
    pub fn finish(mut self) -> io::Result<(W, Lossy)> {
        match self.sink {
            Sink::Shoal(columns) => columns.finish(&mut self.output)?,
            Sink::Parquet(parquet) => parquet.finish(&mut self.output)?,
            Sink::Csv(_) => {}
            Sink::Oracle(oracle) => oracle.finish(&mut self.output)?,
        }
        self.output.flush()?;
        Ok((self.output, self.lossy))
    }
}
