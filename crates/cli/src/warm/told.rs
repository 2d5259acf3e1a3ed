//! Progress of a job on stderr, and its result.

use crate::show;
use shoal_proxy::warming::{NamedReasons, WarmReport, WarmState};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::Path;

/// Tells the progress of one job.
pub(super) struct Teller {
    name: String,
    is_terminal: bool,
    has_plan: bool,
}

impl Teller {
    /// Prepares for a file.
    pub fn new(file: &Path) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { name: file.display().to_string(), is_terminal, has_plan: false }
    }

    /// Tells the plan once, and the progress if stderr is a terminal.
    pub fn tell(&mut self, report: &WarmReport) {
        if report.state.has_plan() && !self.has_plan {
            self.has_plan = true;
            self.line(&plan(report));
        }
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K{}: {}", self.name, progress(report));
        }
    }

    /// Ends the line of progress.
    pub fn end(&mut self, report: &WarmReport) {
        if report.state.has_plan() && !self.has_plan && report.state != WarmState::Planned {
            self.line(&plan(report));
        }
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    fn line(&self, text: &str) {
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        let _ = writeln!(std::io::stderr(), "{clear}{}: {text}", self.name);
    }
}

/// Returns held and missing files in a line.
fn plan(report: &WarmReport) -> String {
    let files = &report.files;
    let mut text =
        format!("{} held, {} missing", show::counted(files.held, "file"), show::count(files.missing),);
    if files.missing > 0 {
        let _ = match (report.missing_bytes, report.missing_unsized) {
            (bytes, 0) => write!(text, " ({})", show::size(bytes)),
            (0, _) => write!(text, " (of unknown length)"),
            (bytes, unsized_files) => write!(
                text,
                " ({} and {} of unknown length)",
                show::size(bytes),
                show::counted(unsized_files, "file")
            ),
        };
    }
    text
}

fn progress(report: &WarmReport) -> String {
    let files = &report.files;
    match report.state {
        WarmState::Waiting => "waits for another job".to_owned(),
        WarmState::Planning => {
            format!("{} of {} index pages", show::count(report.pages.done), show::count(report.pages.total))
        }
        _ => format!(
            "{} of {}, {}",
            show::count(files.fetched + files.absent + files.failed),
            show::counted(files.missing, "file"),
            show::size(report.fetched_bytes)
        ),
    }
}

/// Returns the result, with all that failed at the end.
pub(super) fn result(report: &WarmReport) -> String {
    let files = &report.files;
    let mut text = match report.state {
        WarmState::Planned => format!("{}: {}\n", report.file, plan(report)),
        state => format!(
            "{}: {}{} fetched ({}), {} held, {} failed\n",
            report.file,
            if state == WarmState::Stopped { "stopped; " } else { "" },
            show::counted(files.fetched, "file"),
            show::size(report.fetched_bytes),
            show::count(files.held),
            show::count(report.failures.count),
        ),
    };
    if report.not_chosen > 0 {
        let _ = writeln!(text, "  {} of other platforms left out", show::counted(report.not_chosen, "file"));
    }
    add(&mut text, "left out", &report.left_out);
    add(&mut text, "refused", &report.refused);
    add(&mut text, "failed", &report.failures);
    text
}

fn add(text: &mut String, mark: &str, named: &NamedReasons) {
    for one in &named.first {
        let _ = writeln!(text, "  {mark}: {}: {}", one.what, one.why);
    }
    debug_assert!(named.count >= named.first.len() as u64, "the first ones are counted");
    let more = named.count.saturating_sub(named.first.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "  {mark}: {} more", show::count(more));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_names_failures_last() {
        let mut report = WarmReport { file: "uv.lock".into(), state: WarmState::Done, ..Default::default() };
        (report.files.held, report.files.fetched, report.fetched_bytes) = (3, 1, 2048);
        report.left_out.add("g", "it comes from no registry");
        report.failures.add("a@1 (/pypi/x)", "the answer is 404 Not Found");
        report.failures.count += 1;
        assert_eq!(
            result(&report),
            "uv.lock: 1 file fetched (2.0 KB), 3 held, 2 failed\n  left out: g: it comes from no registry\n  failed: a@1 (/pypi/x): the answer is 404 Not Found\n  failed: 1 more\n"
        );
    }

    #[test]
    fn plan_tells_known_and_unknown_lengths() {
        let mut report = WarmReport::default();
        assert_eq!(plan(&report), "0 files held, 0 missing");
        (report.files.missing, report.missing_bytes, report.missing_unsized) = (3, 2048, 1);
        assert_eq!(plan(&report), "0 files held, 3 missing (2.0 KB and 1 file of unknown length)");
        report.missing_bytes = 0;
        assert_eq!(plan(&report), "0 files held, 3 missing (of unknown length)");
    }
}
