//! All cores at work on a sweep: threads take the due cells in turn, and their answers are kept as
//! they come.
//!
//! Cells of one trace are computed together, since the trace is in memory then. The next trace is
//! read when they are done. A sweep that is stopped anywhere loses the cells that are being
//! computed, and no other.

use super::{Journal, Sweep, SweepError, SweepTrace, Value};
use crate::progress::Progress;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Result of a run of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Cells of the sweep.
    pub cells: usize,
    /// Cells computed in this run.
    pub computed: usize,
    /// Cells of the sweep that were refused.
    pub refused: usize,
    /// The files of results.
    pub files: Vec<PathBuf>,
    /// Notes on the traces' lines that were not taken unchanged, each after the trace's name.
    pub notes: Vec<String>,
}

/// Computes the due cells of a sweep on `threads` threads, keeps them in a folder, and writes the
/// results there.
///
/// # Errors
/// When a trace is not available, or files cannot be read or written.
pub fn run(
    sweep: &Sweep,
    folder: &Path,
    threads: usize,
    progress: &mut dyn Progress,
) -> Result<Summary, SweepError> {
    let mut journal = Journal::open(folder, sweep)?;
    let due = journal.due();
    progress.begin("sweep", sweep.cells.len() as u64);
    progress.done((sweep.cells.len() - due.len()) as u64);
    let mut notes = Vec::new();
    let traces = std::iter::once(None).chain((0..sweep.traces.len()).map(Some));
    for trace in traces {
        let due: Vec<usize> = due.iter().copied().filter(|cell| sweep.cells[*cell].trace == trace).collect();
        if due.is_empty() {
            continue;
        }
        let loaded = trace.map(|trace| sweep.load(trace)).transpose()?;
        if let Some((trace, loaded)) = trace.zip(loaded.as_ref()) {
            let name = &sweep.traces[trace].name;
            notes.extend(loaded.notes.iter().map(|note| format!("{name}: {note}")));
        }
        share_out(sweep, &due, loaded.as_ref(), threads, |cell, answer| {
            journal.add(sweep, cell, answer)?;
            progress.done(1);
            Ok(())
        })?;
    }
    let is_refused = |cell: &usize| {
        let answer = journal.answer(*cell);
        answer.and_then(|answer| answer.last()).is_some_and(|refused| *refused != Value::None)
    };
    let refused = (0..sweep.cells.len()).filter(is_refused).count();
    Ok(Summary {
        cells: sweep.cells.len(),
        computed: due.len(),
        refused,
        files: journal.write_tables(sweep)?,
        notes,
    })
}

/// Has threads compute cells and takes their answers as they come. The first answer that cannot be
/// stored ends the run.
fn share_out(
    sweep: &Sweep,
    due: &[usize],
    loaded: Option<&SweepTrace>,
    threads: usize,
    mut take: impl FnMut(usize, Vec<Value>) -> Result<(), SweepError>,
) -> Result<(), SweepError> {
    let next = AtomicUsize::new(0);
    let (answers, taken) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, due.len().max(1)) {
            let (next, answers) = (&next, answers.clone());
            scope.spawn(move || {
                while let Some(cell) = due.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if answers.send((*cell, sweep.compute(*cell, loaded))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(answers);
        let mut ended = Ok(());
        for (cell, answer) in taken {
            ended = answer.and_then(|answer| take(cell, answer));
            if ended.is_err() {
                next.store(due.len(), Ordering::Relaxed);
                break;
            }
        }
        ended
    })
}
