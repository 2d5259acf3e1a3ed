//! `shoal lab run`: one experiment, from trace to report.

use super::measured;
use super::telling::ProgressLine;
use crate::failure::Failure;
use crate::show::{print, quoted};
use crate::trace::source::TraceInputOptions;
use crate::trace::told::{account, lost, refused, wrong_times};
use shoal_lab::global_memory::Application;
use shoal_lab::report::{Finding, Report};
use shoal_papers::{EXPERIMENTS, Experiment, Inputs, find};
use shoal_trace::generate::Traffic;
use shoal_trace::{Filter, Trace};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Run an experiment and write its report to a folder
///
/// The report is a page (index.html) with the figures, a CSV and an SVG file for each figure, and
/// summary.json for programs. The same trace and seed give the same bytes.
#[derive(clap::Args)]
pub struct LabRunOptions {
    /// Name of the experiment; `shoal lab list` prints the names
    name: String,
    /// Trace of requests: an access log or a table, plain or compressed. Several traces are read
    /// one after another. Without a trace, the command generates proxy traffic
    #[arg(long, value_name = "FILE", num_args = 1..)]
    trace: Vec<PathBuf>,
    /// Folder for the report [default: shoal-NAME]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Seed of all random draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// `full`: the whole trace, or the paper's number of requests; `small`: 20,000 requests, which
    /// takes seconds
    #[arg(long, value_name = "SCALE", value_enum, default_value_t = Scale::Full)]
    scale: Scale,
    /// Part of the requests that only warms the cache
    #[arg(long, value_name = "SHARE", default_value_t = 0.513)]
    warm_up: f64,
    /// Results of `shoal replay --json` on a real disk, one file a run, for a column of their own.
    /// A run of squidmla with evictions stands for its segment policy
    #[arg(long, value_name = "FILE", num_args = 1..)]
    measured: Vec<PathBuf>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: TraceInputOptions,
}

/// Number of requests of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Scale {
    /// 20,000 requests.
    Small,
    /// All requests.
    Full,
}

impl LabRunOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let experiment = find(&self.name).ok_or_else(|| {
            let known: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
            Failure::Usage(format!(
                "no experiment is called {:?}; there are: {}",
                self.name,
                known.join(", ")
            ))
        })?;
        if !(0.0..1.0).contains(&self.warm_up) {
            return Err(Failure::Usage("--warm-up: a share from 0 up to 1 is needed, such as 0.5".into()));
        }
        let out = self.out.clone().unwrap_or_else(|| format!("shoal-{}", experiment.name).into());
        let report = self.report(experiment, &out)?;
        let written = report.write(&out).map_err(|error| Failure::Runtime(error.to_string()));
        print(&if self.json { report.summary() } else { render(&report) })?;
        written?;
        if self.json {
            return Ok(());
        }
        print(&format!("report: {}\n", out.join("index.html").display()))
    }

    fn report(&self, experiment: &Experiment, out: &Path) -> Result<Report, Failure> {
        let mut applications = Vec::new();
        let (trace, source) = self.trace(&mut applications)?;
        let mut inputs = Inputs::new(trace, self.warm_up);
        inputs.source = source;
        inputs.seed = self.seed;
        inputs.command = self.command();
        inputs.applications = applications;
        inputs.is_small = self.scale == Scale::Small;
        for path in &self.measured {
            let (run, ground) = measured::read(path)?;
            inputs.real.push(run);
            inputs.real_ground.extend(ground.filter(|ground| !inputs.real_ground.contains(ground)));
        }
        // A folder that cannot be created is reported now, and not after an hour.
        std::fs::create_dir_all(out)
            .map_err(|error| Failure::Runtime(format!("cannot write {}: {error}", out.display())))?;
        let mut telling = ProgressLine::new();
        let report = (experiment.run)(&inputs, &mut telling);
        telling.finish();
        report.map_err(|error| {
            // This removes only an empty folder, one that was created in vain.
            let _ = std::fs::remove_dir(out);
            Failure::Runtime(error.to_string())
        })
    }

    fn limit(&self) -> usize {
        if self.scale == Scale::Small { SMALL_REQUESTS } else { usize::MAX }
    }

    /// Returns the trace with a description of its source, and the traces that stand for one
    /// program each.
    fn trace(&self, applications: &mut Vec<Application>) -> Result<(Trace, String), Failure> {
        let mut read = |path: &Path| {
            let (trace, source) = self.read(path)?;
            applications.push(Application::of(&name_of(path), &trace));
            Ok::<(Trace, String), Failure>((trace, source))
        };
        match self.trace.as_slice() {
            [] => {
                let requests = self.limit().min(PAPER_REQUESTS);
                let clients = (requests / 1000) as u32;
                let traffic = Traffic { seed: self.seed, requests, clients, ..Traffic::default() };
                let trace = traffic.make().map_err(|error| Failure::Runtime(error.to_string()))?;
                Ok((trace, format!("made proxy traffic, {requests} requests, seed {}", self.seed)))
            }
            [path] => read(path),
            paths => {
                let (mut joined, mut sources) = (Trace::default(), Vec::new());
                for path in paths {
                    let (trace, source) = read(path)?;
                    append(&mut joined, &trace, self.limit());
                    sources.push(source);
                }
                Ok((joined, sources.join(", ")))
            }
        }
    }

    /// Reads a trace. Returns the trace and its description: its name, and notes on the requests
    /// not taken.
    fn read(&self, path: &Path) -> Result<(Trace, String), Failure> {
        let (reader, bar) = self.reading.open(&path.to_string_lossy())?.into_parts();
        let read = Trace::read_from(reader, &Filter::paper(), self.limit(), SIZE_UNKNOWN);
        bar.finish_and_clear();
        let failed = |why: String| Failure::Runtime(format!("{}: {why}", path.display()));
        let (mut trace, reading, unread) = read.map_err(|error| failed(error.to_string()))?;
        if trace.requests().is_empty() {
            return Err(failed(format!("no request is left: {}", lost(&reading, &unread))));
        }
        let wrong = trace.mend_times();
        let mut notes = unread.notes_with_sizes(&reading, SIZE_UNKNOWN);
        if wrong > 0 {
            notes.push(format!("{wrong} with a time far from all others count as made with the one before"));
        }
        eprint!("{}{}{}", account(&reading), wrong_times(wrong), refused(&unread));
        let name = name_of(path);
        Ok((trace, if notes.is_empty() { name } else { format!("{name} ({})", notes.join("; ")) }))
    }

    /// Returns the command for a repetition, with files by their names alone.
    fn command(&self) -> String {
        let mut command = format!("shoal lab run {}", self.name);
        for (option, paths) in [("--trace", &self.trace), ("--measured", &self.measured)] {
            if !paths.is_empty() {
                let names: Vec<String> = paths.iter().map(|path| quoted(&name_of(path))).collect();
                let _ = write!(command, " {option} {}", names.join(" "));
            }
        }
        if self.scale == Scale::Small {
            command += " --scale small";
        }
        command += &self.reading.render();
        let _ = write!(command, " --warm-up {} --seed {}", self.warm_up, self.seed);
        command
    }
}

/// Adds a trace at the end of another, up to `limit` requests.
fn append(joined: &mut Trace, trace: &Trace, limit: usize) {
    for request in trace.requests() {
        if joined.requests().len() >= limit {
            break;
        }
        let record = shoal_trace::Record {
            url: trace.url(request).into(),
            time_ms: Some(request.time_ms),
            bytes: Some(request.bytes),
            client: (!trace.clients().is_empty()).then(|| trace.clients().name(request.client).into()),
            ..shoal_trace::Record::default()
        };
        joined.push(&record, SIZE_UNKNOWN);
        debug_assert!(joined.requests().len() <= limit, "a joined trace keeps to its limit");
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Returns the findings, one a line below the names of the columns. An experiment without findings
/// gives its facts and tables.
fn render(report: &Report) -> String {
    if report.sections.iter().all(|section| section.findings.is_empty()) {
        return plainly(report);
    }
    let mut text = String::new();
    let mut line = |what: &str, claim: &str, found: &[String]| {
        let _ = write!(text, "{what:<86} {claim:>32}");
        for cell in found {
            let _ = write!(text, " {cell:>14}");
        }
        text.push('\n');
    };
    let findings = || report.sections.iter().flat_map(|section| &section.findings);
    let value = |finding: &Finding, column: usize| finding.found.get(column).copied().flatten();
    let is_filled =
        |column: &usize| *column == 0 || findings().any(|finding| value(finding, *column).is_some());
    let columns: Vec<usize> = (0..report.columns.len()).filter(is_filled).collect();
    let names: Vec<String> = columns.iter().map(|column| report.columns[*column].clone()).collect();
    let most = report.columns.len().max(1);
    assert!(findings().all(|finding| finding.found.len() <= most), "a column for each value");
    line("finding", "paper", &names);
    for finding in findings() {
        let shown =
            |column: &usize| value(finding, *column).map_or("-".into(), |value| finding.unit.shown(value));
        let cells: Vec<String> = columns.iter().map(shown).collect();
        line(&finding.what, &finding.claim.shown(finding.unit), &cells);
    }
    text
}

/// Returns the text of a report without findings, in which nothing is compared with a paper.
fn plainly(report: &Report) -> String {
    let mut text = String::new();
    for (name, value) in &report.facts {
        let _ = writeln!(text, "{name:<40} {value}");
    }
    for table in report.sections.iter().flat_map(|section| &section.tables) {
        let width = |at: usize| {
            let cells = table.rows.iter().chain([&table.heading]).filter_map(|row| row.get(at));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..table.heading.len()).map(width).collect();
        assert!(table.rows.iter().all(|row| row.len() == widths.len()), "{}: a cell each", table.title);
        let _ = writeln!(text, "\n{}", table.title);
        for row in [&table.heading].into_iter().chain(&table.rows) {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
            let _ = writeln!(text, "  {}", cells.collect::<Vec<_>>().join("  "));
        }
    }
    let figures: Vec<String> = report.figures().map(|figure| format!("{}.csv", figure.name)).collect();
    if !figures.is_empty() {
        let _ = writeln!(text, "\nfigures, with their numbers: {}", figures.join(", "));
    }
    text
}

const SMALL_REQUESTS: usize = 20_000;
/// Maltzahn 1999, section 4: 522,376 and 495,664.
const PAPER_REQUESTS: usize = 1_018_040;
/// Size of a request without a size, in bytes, as in `shoal replay`.
const SIZE_UNKNOWN: u64 = 8192;
