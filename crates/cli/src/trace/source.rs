//! Source of requests: a file or standard input, with a progress bar.

use crate::failure::Failure;
use crate::replay::{FormatName, SeparatorName};
use crate::show::quoted;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shoal_trace::{Error, Input, ReadOptions, Reader};
use std::fs::File;
use std::path::Path;

/// Options for reading a trace.
#[derive(clap::Args, Clone)]
pub struct TraceInputOptions {
    /// Format: table, squid, common, w3c, json, url_size, csv, paths, pages, oracle_general or
    /// shoal; detected by the beginning if not given
    #[arg(long, value_name = "NAME")]
    pub format: Option<FormatName>,
    /// Names of the columns of a table without a header line, such as `time_s,client,url,bytes`;
    /// commas may part them in any table
    #[arg(long, value_name = "NAMES")]
    pub columns: Option<String>,
    /// Separator of a table's columns: tab, comma, semicolon, bar or space; found in the first line
    /// if not given
    #[arg(long, value_name = "NAME")]
    pub separator: Option<SeparatorName>,
    /// Largest share of lines that may be bad; more is an error, and 1 allows all
    #[arg(long, value_name = "SHARE", default_value_t = ReadOptions::default().bad_lines_max)]
    pub bad_lines: f64,
    /// Stop at the first line that cannot be read
    #[arg(long)]
    pub strict: bool,
}

/// Trace that is being read.
pub struct TraceSource {
    /// Reader of the trace.
    pub reader: Reader<Input>,
    /// Name of the trace, for messages.
    pub name: String,
    bar: ProgressBar,
}

impl TraceInputOptions {
    /// Returns the options as command line text, with a blank before each. Default options are left
    /// out.
    pub fn render(&self) -> String {
        let mut text = self.format.map_or(String::new(), |format| format!(" --format {}", format.0.name()));
        if let Some(columns) = &self.columns {
            text += &format!(" --columns {}", quoted(columns));
        }
        if let Some(separator) = self.separator {
            text += &format!(" --separator {}", separator.0.name());
        }
        if self.bad_lines != ReadOptions::default().bad_lines_max {
            text += &format!(" --bad-lines {}", self.bad_lines);
        }
        text
    }

    /// Opens a trace.
    pub fn open(&self, name: &str) -> Result<TraceSource, Failure> {
        if !(0.0..=1.0).contains(&self.bad_lines) {
            return Err(Failure::Usage("--bad-lines: a share from 0 to 1 is needed, such as 0.25".into()));
        }
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
            separator: self.separator.map(|separator| separator.0),
            bad_lines_max: self.bad_lines,
            strict: self.strict,
            ..ReadOptions::default()
        };
        let reader = Reader::of(input, &options).map_err(|error| failed(unreadable(&error)))?;
        Ok(TraceSource { reader, name: name.to_owned(), bar })
    }
}

/// Returns the reason why a trace cannot be read. For an unknown format this includes a remedy.
pub fn unreadable(error: &Error) -> String {
    match error {
        Error::Unknown(_) => {
            format!("{error}; --format tells the format, where it is one of those that `--help` names")
        }
        _ => error.to_string(),
    }
}

impl TraceSource {
    /// Returns a failure of this trace.
    pub fn failed(&self, why: &dyn std::fmt::Display) -> Failure {
        self.bar.finish_and_clear();
        Failure::Runtime(format!("{}: {why}", self.name))
    }

    /// Removes the bar from the screen.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Returns the reader and the bar, for callers that read the trace themselves.
    pub fn into_parts(self) -> (Reader<Input>, ProgressBar) {
        (self.reader, self.bar)
    }
}

/// Makes a bar of bytes read, with rate and time left. Draws nothing if stderr is not a terminal.
fn bar(length: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    let shape = match length {
        Some(_) => "{wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
        None => "{spinner} {bytes}, {bytes_per_sec}",
    };
    bar.set_style(ProgressStyle::with_template(shape).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
