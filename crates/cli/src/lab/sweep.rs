//! `shoal lab sweep`: computes a grid of simulations and models on all cores, and resumes a stopped
//! sweep.

use crate::failure::Failure;
use crate::show::print;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shoal_lab::progress::Progress;
use shoal_lab::sweep::{KINDS, Summary, Sweep, run};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Compute a grid of simulations and models on all cores, into tables of Parquet
///
/// The specification names traces and, for each kind of question, lists of values. Every
/// combination is computed once. A journal in the folder records the finished combinations. The
/// same command resumes a sweep that was stopped or killed. After the specification has grown, a
/// sweep computes only the new combinations. The results are FOLDER/policy.parquet,
/// cluster.parquet, wide_area.parquet, gms.parquet, pgms.parquet and wan.parquet, one for each kind
/// of grid in the specification. A combination that makes no sense has no results, and the column
/// `refused` has the reason.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct LabSweepOptions {
    /// The specification, in TOML (docs/SWEEPS.md)
    #[arg(required_unless_present_any = ["example", "reference"])]
    spec: Option<PathBuf>,
    /// Folder for results and journal [default: the specification's name with the ending -results]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Number of threads [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Read the specification, print the number of combinations, and stop
    #[arg(long)]
    check: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print an example of a specification
    #[arg(long, exclusive = true)]
    example: bool,
    /// Print the parameters and results of every kind of grid, as Markdown
    #[arg(long, exclusive = true)]
    reference: bool,
}

const EXAMPLES: &str = "\
Examples:
  shoal lab sweep --example > sweep.toml      a specification to start from
  shoal lab sweep sweep.toml --check          how many simulations that is
  shoal lab sweep sweep.toml                  computes it, or goes on with it, into sweep-results/";

impl LabSweepOptions {
    pub fn perform(self) -> Result<(), Failure> {
        if self.example {
            return print(EXAMPLE);
        }
        if self.reference {
            return print(&reference());
        }
        let path = self.spec.clone().unwrap_or_default();
        let sweep = read(&path)?;
        if self.check {
            return print(&checked(&sweep, self.json));
        }
        let out = self.out.clone().unwrap_or_else(|| beside(&path));
        let jobs = self.jobs.map_or_else(cores, usize::from);
        let mut bar = Bar::new();
        let summary = run(&sweep, &out, jobs, &mut bar);
        bar.0.finish_and_clear();
        let summary = summary.map_err(|error| Failure::Runtime(error.to_string()))?;
        print(&if self.json { json(&summary) } else { render(&summary) })
    }
}

fn read(path: &Path) -> Result<Sweep, Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| Failure::Runtime(format!("{name}: {error}")))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    Sweep::parse(&text, folder).map_err(|mistakes| {
        let mut lines: Vec<String> =
            mistakes.iter().take(MISTAKES_TOLD).map(|mistake| format!("{name}:{mistake}")).collect();
        if let Some(more @ 1..) = mistakes.len().checked_sub(MISTAKES_TOLD) {
            lines.push(format!(
                "and {more} more; is it a specification? `shoal lab sweep --example` prints one"
            ));
        }
        Failure::Usage(lines.join("\n"))
    })
}

/// Returns the default folder: `sweep-results` beside `sweep.toml`.
fn beside(spec: &Path) -> PathBuf {
    let stem = spec.file_stem().unwrap_or_default().to_string_lossy();
    spec.with_file_name(format!("{stem}-results"))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn counts(sweep: &Sweep) -> Vec<(&'static str, usize)> {
    let count = |name: &str| sweep.cells.iter().filter(|cell| cell.kind.name == name).count();
    let all = KINDS.iter().map(|kind| (kind.name, count(kind.name)));
    let counts: Vec<(&str, usize)> = all.filter(|(_, count)| *count > 0).collect();
    let sum: usize = counts.iter().map(|(_, count)| count).sum();
    assert_eq!(sum, sweep.cells.len(), "each cell is of one kind");
    counts
}

fn checked(sweep: &Sweep, as_json: bool) -> String {
    let counts = counts(sweep);
    if as_json {
        let kinds: serde_json::Map<String, serde_json::Value> =
            counts.iter().map(|(name, count)| ((*name).to_owned(), (*count).into())).collect();
        return format!("{}\n", serde_json::json!({ "cells": sweep.cells.len(), "kinds": kinds }));
    }
    let mut text = String::new();
    for (name, count) in counts {
        let _ = writeln!(text, "{count:>9} {name}");
    }
    let _ = writeln!(text, "{:>9} in all", sweep.cells.len());
    text
}

fn render(summary: &Summary) -> String {
    let Summary { cells, computed, refused, files, notes } = summary;
    assert!(computed <= cells, "{computed} of {cells} cells were computed now");
    assert!(refused <= cells, "{refused} of {cells} cells make no sense");
    let mut text = format!("{cells} cells: {computed} computed now, {} before\n", cells - computed);
    for note in notes {
        let _ = writeln!(text, "trace {note}");
    }
    if *refused > 0 {
        let _ = writeln!(text, "{refused} of them make no sense; the column `refused` says why");
    }
    for file in files {
        let _ = writeln!(text, "{}", file.display());
    }
    text
}

fn json(summary: &Summary) -> String {
    let files: Vec<String> = summary.files.iter().map(|file| file.display().to_string()).collect();
    let told = serde_json::json!({
        "cells": summary.cells,
        "computed": summary.computed,
        "refused": summary.refused,
        "files": files,
        "notes": summary.notes,
    });
    format!("{told}\n")
}

/// Returns each kind with its parameters and results, as in docs/SWEEPS.md.
fn reference() -> String {
    let mut page = String::new();
    for kind in KINDS {
        let _ = writeln!(page, "### `[[{}]]`\n\nAsks: {}\n", kind.name, kind.question);
        page += "| parameter | what it is | takes | default |\n|---|---|---|---|\n";
        for parameter in kind.parameters {
            let (takes, default) = parameter.reference_text();
            let only = parameter.only_for.map_or(String::new(), |(other, values)| {
                format!(" (for `{other}` {} only)", values.join(", "))
            });
            let _ = writeln!(
                page,
                "| `{}` | {}{only} | {takes} | {default} |",
                parameter.name, parameter.meaning
            );
        }
        let results: Vec<String> = kind.results.iter().map(|field| format!("`{}`", field.name)).collect();
        let _ = writeln!(page, "\nResults: {}\n", results.join(", "));
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

/// Progress bar on a terminal; draws nothing elsewhere.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let shape = "{wide_bar} {pos} of {len}, {elapsed}, {eta} left";
        bar.set_style(ProgressStyle::with_template(shape).unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }
}

impl Progress for Bar {
    fn begin(&mut self, _part: &str, steps: u64) {
        self.0.set_length(steps);
        self.0.reset_eta();
    }

    fn done(&mut self, steps: u64) {
        self.0.inc(steps);
    }
}

/// Largest number of mistakes shown at once. A log passed as a specification has one a line.
const MISTAKES_TOLD: usize = 20;
const EXAMPLE: &str = include_str!("../../../../docs/sweep.toml");
