//! Computed results of a sweep: a line for each cell in `FOLDER/journal`, so that a killed sweep
//! goes on from its last cell.
//!
//! ```text
//! shoal sweep 1 0.1.0
//! 9f86d081884c7d65 <tab> policy <tab> tproxy <tab> tlru <tab> … <tab> c4711 <tab> d0.75 <tab> -
//! xxh3 of the rest       kind        parameters, digest of the trace, results, why it was refused
//! ```
//!
//! A line is appended with one write when its cell is done. A cut or damaged line ends the reading,
//! and is overwritten. A cell is found again by its kind, parameters and trace, not by its place,
//! so that a specification that grew computes only new cells. One process at a time may write: the
//! file is locked. Another version of the program may compute otherwise, and does not go on with
//! the journal.

use super::kind::QuestionKind;
use super::value::Value;
use super::{Sweep, SweepError, tables};
use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// An open journal of a sweep.
pub struct Journal {
    file: File,
    path: PathBuf,
    folder: PathBuf,
    /// Key of each cell.
    keys: Vec<String>,
    /// Known answer of each cell of the sweep.
    answers: Vec<Option<Vec<Value>>>,
    /// Digest of each trace.
    digests: Vec<String>,
}

impl Journal {
    /// Opens the journal of a folder, which is made where it is missing, and reads the answers of
    /// this sweep.
    ///
    /// # Errors
    /// When files cannot be read or written, another process writes there, or the journal is
    /// another version's.
    pub fn open(folder: &Path, sweep: &Sweep) -> Result<Self, SweepError> {
        let digest = |source: &super::TraceSource| {
            source.digest().map_err(|why| SweepError::Trace { name: source.name.clone(), why })
        };
        let digests: Vec<String> = sweep.traces.iter().map(digest).collect::<Result<_, _>>()?;
        let path = folder.join("journal");
        let failed = |source| SweepError::File { path: path.clone(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
        let mut file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SweepError::Busy { path }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let keys: Vec<String> = (0..sweep.cells.len()).map(|cell| key(sweep, cell, &digests)).collect();
        let (answers, end) = read(&bytes, &keys, sweep, &path)?;
        file.set_len(end).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        if end == 0 {
            file.write_all(HEAD.as_bytes()).map_err(failed)?;
        }
        Ok(Self { file, folder: folder.into(), keys, answers, digests, path })
    }

    /// Returns the cells that have not been computed, in order.
    pub fn due(&self) -> Vec<usize> {
        (0..self.answers.len()).filter(|cell| self.answers[*cell].is_none()).collect()
    }

    /// Returns a cell's answer, where it is known.
    pub fn answer(&self, cell: usize) -> Option<&[Value]> {
        self.answers.get(cell)?.as_deref()
    }

    /// Stores a cell's answer, as returned by [`Sweep::compute`]. The answer is in the file when
    /// this returns. A cell that has an answer keeps it.
    ///
    /// # Errors
    /// When there is no such cell, the answer is not one of its kind, or the file cannot be
    /// written.
    pub fn add(&mut self, sweep: &Sweep, cell: usize, answer: Vec<Value>) -> Result<(), SweepError> {
        let kind = sweep.cells.get(cell).ok_or(SweepError::NoSuchCell { number: cell })?.kind;
        check(kind, &answer)?;
        if self.answers[cell].is_some() {
            return Ok(());
        }
        let written: Vec<String> = answer.iter().map(Value::written).collect();
        let rest = format!("{}\t{}", self.keys[cell], written.join("\t"));
        let line = format!("{:016x}\t{rest}\n", xxh3_64(rest.as_bytes()));
        let failed = |source| SweepError::File { path: self.path.clone(), source };
        self.file.write_all(line.as_bytes()).map_err(failed)?;
        self.answers[cell] = Some(answer);
        Ok(())
    }

    /// Writes the known answers as Parquet, a file for each kind that the sweep has. Returns their
    /// paths.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write_tables(&self, sweep: &Sweep) -> Result<Vec<PathBuf>, SweepError> {
        tables::write(&self.folder, sweep, &self.digests, &self.answers)
    }
}

/// Returns the key of a cell: kind, parameters, and the digest of its trace.
fn key(sweep: &Sweep, cell: usize, digests: &[String]) -> String {
    let cell = &sweep.cells[cell];
    let mut parts = vec![cell.kind.name.to_owned()];
    parts.extend(cell.inputs.iter().map(Value::written));
    if cell.kind.has_trace() {
        let digest = cell.trace.and_then(|trace| digests.get(trace));
        parts.push(digest.map_or(Value::None, |digest| Value::Text(digest.clone())).written());
    }
    parts.join("\t")
}

/// Reads the answers of a journal, and the end of its readable part.
#[allow(clippy::type_complexity, reason = "the answers and the end, told here")]
fn read(
    bytes: &[u8],
    keys: &[String],
    sweep: &Sweep,
    path: &Path,
) -> Result<(Vec<Option<Vec<Value>>>, u64), SweepError> {
    let mut answers = vec![None; keys.len()];
    if HEAD.as_bytes().starts_with(bytes) && bytes.len() < HEAD.len() {
        return Ok((answers, 0));
    }
    if !bytes.starts_with(HEAD.as_bytes()) {
        let found = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
        let found = found.lines().next().unwrap_or_default().to_owned();
        return Err(SweepError::Foreign { path: path.into(), found });
    }
    let places: HashMap<&str, usize> = keys.iter().enumerate().map(|(at, key)| (key.as_str(), at)).collect();
    let mut end = HEAD.len();
    for line in bytes[HEAD.len()..].split_inclusive(|byte| *byte == b'\n') {
        let Some(rest) = checked(line) else { break };
        end += line.len();
        let count = rest.split('\t').count();
        let kind = super::kind::named(rest.split('\t').next().unwrap_or_default());
        let Some(kind) = kind else { continue };
        let inputs = (1 + kind.parameters.len() + usize::from(kind.has_trace())).min(count);
        let Some(cut) = rest.match_indices('\t').nth(inputs - 1).map(|(at, _)| at) else { continue };
        let Some(place) = places.get(&rest[..cut]) else { continue };
        let answer: Option<Vec<Value>> = rest[cut + 1..].split('\t').map(Value::read).collect();
        if let Some(answer) = answer.filter(|answer| check(sweep.cells[*place].kind, answer).is_ok()) {
            answers[*place] = Some(answer);
        }
    }
    Ok((answers, end as u64))
}

/// Returns a whole line without its checksum.
fn checked(line: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (sum, rest) = line.split_once('\t')?;
    (sum == format!("{:016x}", xxh3_64(rest.as_bytes()))).then_some(rest)
}

/// Checks that an answer is one of this kind.
fn check(kind: &'static QuestionKind, answer: &[Value]) -> Result<(), SweepError> {
    let fields = kind.answers();
    let wrong = |why: String| Err(SweepError::Results { kind: kind.name, why });
    if fields.len() != answer.len() {
        return wrong(format!("{} values where it has {}", answer.len(), fields.len()));
    }
    match fields.iter().zip(answer).find(|(field, value)| !value.fits(field.kind)) {
        Some((field, value)) => wrong(format!("{} is {value:?}", field.name)),
        None => Ok(()),
    }
}

/// First line of a journal: format 1, and the program's version.
const HEAD: &str = concat!("shoal sweep 1 ", env!("CARGO_PKG_VERSION"), "\n");
