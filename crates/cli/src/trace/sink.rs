//! Output of requests: a file or standard output, in the format that the options or the file's name
//! give.

use super::source::TraceSource;
use super::told::account;
use crate::failure::Failure;
use crate::show::counted;
use shoal_core::ByteCount;
use shoal_trace::{Output, Record, Target, Writer};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Options for writing a trace.
#[derive(clap::Args, Clone)]
pub struct TraceOutputOptions {
    /// File to write; .gz and .zst are compressed. Without it, or with -, standard output
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Format: shoal, parquet, csv or oracle_general; if not given, by the file's name, and csv on
    /// standard output
    #[arg(long, value_name = "NAME")]
    pub to: Option<TargetName>,
    /// Size of requests without a size, for formats that require one
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

/// Trace that is being written.
pub struct Sink {
    writer: Writer<Output<Box<dyn Write>>>,
    name: String,
    /// Temporary file that becomes the output after the last write.
    part: Option<Part>,
    written: u64,
}

/// Temporary file beside the output. A trace can then replace its own source without loss, and a
/// full disk or a stopped command leaves no partial output.
struct Part {
    path: PathBuf,
    becomes: PathBuf,
}

impl Part {
    /// Creates a temporary file beside the file of this name.
    fn of(name: &Path) -> std::io::Result<(Self, File)> {
        // A link's target is replaced, not the link.
        let becomes = name.canonicalize().unwrap_or_else(|_| name.to_owned());
        let mut file_name = becomes.file_name().unwrap_or_default().to_owned();
        file_name.push(".part");
        let path = becomes.with_file_name(file_name);
        let file = File::create(&path)?;
        Ok((Self { path, becomes }, file))
    }

    /// Renames the temporary file after the last write.
    fn done(&self) -> std::io::Result<()> {
        std::fs::rename(&self.path, &self.becomes)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // After the rename this file no longer exists.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl TraceOutputOptions {
    /// Opens the output.
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
        let (stream, part): (Box<dyn Write>, Option<Part>) = match &self.out {
            None => (Box::new(std::io::stdout()), None),
            Some(_) if name == "-" => (Box::new(std::io::stdout()), None),
            // Pipes and devices are written directly.
            Some(path) if path.metadata().is_ok_and(|found| !found.is_file()) => {
                (Box::new(File::create(path).map_err(failed)?), None)
            }
            Some(path) => {
                let (part, file) = Part::of(path).map_err(failed)?;
                (Box::new(file), Some(part))
            }
        };
        let stream: Box<dyn Write> = Box::new(BufWriter::new(stream));
        let output = Output::named(&name, stream).map_err(failed)?;
        let writer = Writer::new(target, output, self.size_unknown.0).map_err(failed)?;
        Ok(Sink { writer, name, part, written: 0 })
    }
}

impl Sink {
    /// Writes a request. Returns `false` when the reader of standard output has closed it.
    pub fn put(&mut self, record: &Record<'_>) -> Result<bool, Failure> {
        self.written += 1;
        match self.writer.put(record) {
            Ok(()) => Ok(true),
            Err(error) if self.is_gone(&error) => Ok(false),
            Err(error) => Err(Failure::Runtime(format!("{}: {error}", self.name))),
        }
    }

    /// Ends the trace and prints a summary to stderr.
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
        let whole = output.finish().and_then(|mut stream| stream.flush());
        if let Err(error) = whole.and_then(|()| self.part.as_ref().map_or(Ok(()), Part::done)) {
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

/// Reads a source to its end. Writes each record that `change` returns for a request.
pub fn stream(
    mut source: TraceSource,
    writing: &TraceOutputOptions,
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
