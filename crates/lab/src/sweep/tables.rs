//! The results as Parquet: a file for each kind, a row a cell in the order of the specification.
//!
//! A file is written beside its name and renamed, so that a reader sees the results of one sweep,
//! or of the one before.

use super::value::Value;
use super::{KINDS, QuestionKind, Sweep, SweepError};
use shoal_trace::parquet::Table;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes the answers that are known; cells without one are left out.
pub(super) fn write(
    folder: &Path,
    sweep: &Sweep,
    digests: &[String],
    answers: &[Option<Vec<Value>>],
) -> Result<Vec<PathBuf>, SweepError> {
    let mut files = Vec::new();
    for kind in KINDS.into_iter().filter(|kind| sweep.cells.iter().any(|cell| cell.kind == *kind)) {
        let path = folder.join(format!("{}.parquet", kind.name));
        let unfinished = folder.join(format!("{}.parquet.unfinished", kind.name));
        let failed = |source| SweepError::File { path: path.clone(), source };
        let file = File::create(&unfinished).map_err(failed)?;
        rows(BufWriter::new(file), kind, sweep, digests, answers).map_err(failed)?;
        std::fs::rename(&unfinished, &path).map_err(failed)?;
        files.push(path);
    }
    Ok(files)
}

fn rows(
    mut output: impl Write,
    kind: &'static QuestionKind,
    sweep: &Sweep,
    digests: &[String],
    answers: &[Option<Vec<Value>>],
) -> io::Result<()> {
    let mut table = Table::begin(kind.name, &kind.fields(), &mut output)?;
    for (cell, answer) in sweep.cells.iter().zip(answers).filter(|(cell, _)| cell.kind == kind) {
        let Some(answer) = answer else { continue };
        let digest = cell.trace.and_then(|trace| digests.get(trace)).cloned().map(Value::Text);
        let digest = kind.has_trace().then(|| digest.unwrap_or(Value::None));
        let values = cell.inputs.iter().chain(&digest).chain(answer);
        table.columns().iter_mut().zip(values).for_each(|(column, value)| value.put(column));
        table.end_row(&mut output)?;
    }
    table.finish(&mut output)?;
    output.flush()
}
