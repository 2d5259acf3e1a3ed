//! Where requests go: a file or standard output, in a format that is told or that the name asks for.

use super::source::Source;
use super::told::account;
use crate::failure::Failure;
use crate::show::counted;
use shoal_core::ByteCount;
use shoal_trace::{Output, Record, Target, Writer};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::str::FromStr;

/// How a trace is written.
#[derive(clap::Args, Clone)]
pub struct Writing {
    /// File to write; .gz and .zst are compressed. Without it, or with -, standard output
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The format: shoal, parquet, csv or oracle_general; told by the file's name when not given, and csv on standard output
    #[arg(long, value_name = "NAME")]
    pub to: Option<TargetName>,
    /// The size of requests that come without one, where the format must have one
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub size_unknown: ByteCount,
}

/// [`Target`] by name.
#[derive(Clone, Copy, Debug)]
pub struct TargetName(pub Target);

impl FromStr for TargetName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Target::ALL.map(Target::name).join(", ");
        Target::named(text).map(Self).ok_or_else(|| format!("formats that can be written are: {}", known()))
    }
}

/// A trace that is being written.
pub struct Sink {
    writer: Writer<Output<Box<dyn Write>>>,
    name: String,
    written: u64,
}

impl Writing {
    /// Begins to write.
    pub fn open(&self) -> Result<Sink, Failure> {
        let name = self.out.as_ref().map_or("-".into(), |path| path.display().to_string());
        let failed = |error: std::io::Error| Failure::Runtime(format!("{name}: {error}"));
        let target = match (self.to, name.as_str()) {
            (Some(target), _) => target.0,
            (None, "-") => Target::Csv,
            (None, name) => Target::of_file(name).ok_or_else(|| {
                Failure::Usage(format!(
                    "{name}: the name does not tell the format; --to does (shoal, parquet, csv, oracle_general)"
                ))
            })?,
        };
        let stream: Box<dyn Write> = match &self.out {
            Some(path) if name != "-" => Box::new(BufWriter::new(File::create(path).map_err(failed)?)),
            _ => Box::new(BufWriter::new(std::io::stdout())),
        };
        let output = Output::named(&name, stream).map_err(failed)?;
        let writer = Writer::new(target, output, self.size_unknown.0).map_err(failed)?;
        Ok(Sink { writer, name, written: 0 })
    }
}

impl Sink {
    /// Writes a request. False when the reader of standard output has gone.
    pub fn put(&mut self, record: &Record<'_>) -> Result<bool, Failure> {
        self.written += 1;
        match self.writer.put(record) {
            Ok(()) => Ok(true),
            Err(error) if self.is_gone(&error) => Ok(false),
            Err(error) => Err(Failure::Runtime(format!("{}: {error}", self.name))),
        }
    }

    /// Ends the trace and says on stderr what came of it.
    pub fn finish(self) -> Result<(), Failure> {
        let (name, written) = (self.name.clone(), self.written);
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::BrokenPipe if name == "-" => Ok(()),
            _ => Err(Failure::Runtime(format!("{name}: {error}"))),
        };
        let (output, lossy) = match self.writer.finish() {
            Ok(finished) => finished,
            Err(error) => return failed(error),
        };
        if let Err(error) = output.finish().and_then(|mut stream| stream.flush()) {
            return failed(error);
        }
        if name != "-" {
            eprintln!("{name}: {}", counted(written, "request"));
        }
        for (number, what) in [
            (lossy.sizes, "without a size, written with --size-unknown"),
            (lossy.times, "without a time, written with their place"),
            (lossy.clipped, "numbers too large for their field"),
        ] {
            if number > 0 {
                eprintln!("{name}: {number} {what}");
            }
        }
        Ok(())
    }

    fn is_gone(&self, error: &std::io::Error) -> bool {
        self.name == "-" && error.kind() == std::io::ErrorKind::BrokenPipe
    }
}

/// Takes a source to its end: what `change` makes of a request is written, if it makes anything.
pub fn stream(
    mut source: Source,
    writing: &Writing,
    mut change: impl for<'a> FnMut(&Record<'a>) -> Option<Record<'a>>,
) -> Result<(), Failure> {
    let mut sink = writing.open()?;
    loop {
        let put = source.reader.next(|record| change(record).map_or(Ok(true), |record| sink.put(&record)));
        match put.map_err(|error| source.failed(&error))? {
            Some(put) => {
                if !put? {
                    break;
                }
            }
            None => break,
        }
    }
    source.finish();
    eprint!("{}", account(source.reader.reading()));
    sink.finish()
}
