//! Where requests come from: a file or standard input, with a bar that tells how far it has been
//! read.

use crate::failure::Failure;
use crate::replay::FormatName;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shoal_trace::{Error, Input, ReadOptions, Reader};
use std::fs::File;
use std::path::Path;

/// How a trace is read.
#[derive(clap::Args, Clone)]
pub struct TraceInputOptions {
    /// The format: table, squid, common, w3c, json, url_size, csv, paths, pages, oracle_general or
    /// shoal; found by the beginning when not given
    #[arg(long, value_name = "NAME")]
    pub format: Option<FormatName>,
    /// Names of the columns of a table that does not name them, such as `time_s,client,url,bytes`
    #[arg(long, value_name = "NAMES")]
    pub columns: Option<String>,
    /// Stop at the first line that cannot be read
    #[arg(long)]
    pub strict: bool,
}

/// A trace that is being read.
pub struct Source {
    /// Its reader.
    pub reader: Reader<Input>,
    /// Its name, for messages.
    pub name: String,
    bar: ProgressBar,
}

impl TraceInputOptions {
    /// The options as they can be given again, with a blank before each; nothing where all are the
    /// defaults.
    pub fn render(&self) -> String {
        let mut text = self.format.map_or(String::new(), |format| format!(" --format {}", format.0.name()));
        if let Some(columns) = &self.columns {
            text += &format!(" --columns '{columns}'");
        }
        text
    }

    /// Opens a trace.
    pub fn open(&self, name: &str) -> Result<Source, Failure> {
        let failed = |why: String| Failure::Runtime(format!("{name}: {why}"));
        let (input, bar) = match name {
            "-" => {
                let bar = bar(None);
                (Input::new(bar.wrap_read(std::io::stdin())), bar)
            }
            file => {
                let file = File::open(Path::new(file)).map_err(|error| failed(error.to_string()))?;
                let length = file.metadata().ok().filter(|found| found.is_file()).map(|found| found.len());
                let bar = bar(length);
                (Input::new(bar.wrap_read(file)), bar)
            }
        };
        let input = input.map_err(|error| failed(error.to_string()))?;
        let options = ReadOptions {
            format: self.format.map(|format| format.0),
            columns: self.columns.clone(),
            strict: self.strict,
            ..ReadOptions::default()
        };
        let reader = Reader::of(input, &options).map_err(|error| failed(unreadable(&error)))?;
        Ok(Source { reader, name: name.to_owned(), bar })
    }
}

/// Why a trace cannot be read, and what could be done where its format was not found.
pub fn unreadable(error: &Error) -> String {
    match error {
        Error::Unknown(_) => {
            format!("{error}; --format tells the format, where it is one of those that `--help` names")
        }
        _ => error.to_string(),
    }
}

impl Source {
    /// A failure of this trace.
    pub fn failed(&self, why: &dyn std::fmt::Display) -> Failure {
        self.bar.finish_and_clear();
        Failure::Runtime(format!("{}: {why}", self.name))
    }

    /// Takes the bar off the screen.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// The reader and the bar, for those who read it to its end themselves.
    pub fn into_parts(self) -> (Reader<Input>, ProgressBar) {
        (self.reader, self.bar)
    }
}

/// Bytes as they lie in the file, with rate and time left; nothing is drawn where stderr is no
/// terminal.
fn bar(length: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    let shape = match length {
        Some(_) => "{wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
        None => "{spinner} {bytes}, {bytes_per_sec}",
    };
    bar.set_style(ProgressStyle::with_template(shape).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
