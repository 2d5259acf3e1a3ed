//! Writing traces: our own columns, Parquet, CSV and libCacheSim's `oracleGeneral`.
//!
//! Requests go in one by one. CSV goes out as it comes and Parquet by groups of rows; the other two
//! need the whole trace first and hold 24 to 27 bytes a request, and our own each name once.

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

/// A format that is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Our own columns (docs/FORMATS.md).
    Shoal,
    /// Apache Parquet, zstd inside.
    Parquet,
    /// Comma-separated, with a line of names that [`crate::Format::Table`] reads.
    Csv,
    /// libCacheSim's binary records.
    OracleGeneral,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Shoal, Self::Parquet, Self::Csv, Self::OracleGeneral];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shoal => "shoal",
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::OracleGeneral => "oracle_general",
        }
    }

    /// The format of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.name() == name)
    }

    /// The format that a file's name asks for, whatever compresses it.
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

/// Takes requests and writes them in one format.
pub struct Writer<W> {
    sink: Sink,
    output: W,
    lossy: Lossy,
}

/// What a format could not hold, counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lossy {
    /// Requests without a time, where one had to be written.
    pub times: u64,
    /// Requests without a size, where one had to be written.
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
    /// A writer onto an output. Where a format must have a size and a request has none,
    /// `bytes_unknown` is written.
    ///
    /// # Errors
    /// Those of the output.
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
    /// Those of the output, and when a trace has too many names for its format.
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

    /// Writes what is left, gives back the output, and tells what the format could not hold.
    ///
    /// # Errors
    /// Those of the output.
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
