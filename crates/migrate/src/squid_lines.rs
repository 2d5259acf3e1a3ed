//! The lines of `squid.conf`: words, quotes, continuations, includes, lists in files.

use crate::ledger::{Ledger, LineId};
use crate::{DEPTH_MAX, Error, FILES_MAX, Files, SourceText, TEXT_BYTES_MAX};

/// A directive.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name, in lower case.
    pub name: String,
    /// Words behind the name.
    pub words: Vec<String>,
    /// Statement.
    pub id: LineId,
}

impl Line {
    /// Returns a word, or an empty text.
    pub fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }
}

/// Reads a file with its includes.
///
/// # Errors
/// A limit.
pub fn parse(file: &SourceText, files: &dyn Files, ledger: &mut Ledger) -> Result<Vec<Line>, Error> {
    let mut reader =
        LineReader { files, ledger, lines: Vec::new(), files_left: FILES_MAX, bytes_left: TEXT_BYTES_MAX };
    reader.file(file, 0)?;
    Ok(reader.lines)
}

/// Returns the entries of a list that stands in a file of its own, one a line.
///
/// # Errors
/// The reason why it cannot be read.
pub fn list(name: &str, files: &dyn Files) -> Result<Vec<String>, String> {
    let found = files.read(name)?;
    if found.is_empty() {
        return Err("there is no such file".into());
    }
    let lines = found.iter().flat_map(|file| file.text.lines());
    let lines =
        lines.map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|line| !line.is_empty());
    Ok(lines.take(LIST_MAX).map(str::to_owned).collect())
}

struct LineReader<'a> {
    files: &'a dyn Files,
    ledger: &'a mut Ledger,
    lines: Vec<Line>,
    files_left: usize,
    bytes_left: usize,
}

impl LineReader<'_> {
    fn file(&mut self, file: &SourceText, depth: usize) -> Result<(), Error> {
        self.files_left = self.files_left.saturating_sub(1);
        self.bytes_left = self.bytes_left.saturating_sub(file.text.len());
        if depth > DEPTH_MAX || self.files_left == 0 || self.bytes_left == 0 {
            return Err(Error::Limit("the included files are too many, too long or nested too deep".into()));
        }
        let mut text = String::new();
        let mut start = 1;
        for (at, part) in file.text.lines().enumerate() {
            if text.is_empty() {
                start = at + 1;
            }
            match part.strip_suffix('\\').filter(|_| !part.trim_start().starts_with('#')) {
                Some(part) => {
                    text.push_str(part);
                    text.push(' ');
                    continue;
                }
                None => text.push_str(part),
            }
            let whole = std::mem::take(&mut text);
            self.line(file, start, &whole, depth)?;
        }
        self.line(file, start, &text, depth)
    }

    fn line(&mut self, file: &SourceText, number: usize, text: &str, depth: usize) -> Result<(), Error> {
        let mut words = words(text);
        if words.is_empty() {
            return Ok(());
        }
        let id = self.ledger.add(&file.name, number, &shown(text))?;
        let name = words.remove(0).to_ascii_lowercase();
        match name.as_str() {
            "include" => {
                for pattern in &words {
                    match self.files.read(pattern.trim_matches('"')) {
                        Ok(found) => {
                            self.ledger.carried(id);
                            for file in found {
                                self.file(&file, depth + 1)?;
                            }
                        }
                        Err(why) => {
                            let why = format!("cannot read it: {why}. All clients are refused");
                            self.ledger.unsafe_line(id, why);
                            self.lines.push(Line { name: UNREADABLE.into(), words: Vec::new(), id });
                        }
                    }
                }
            }
            "if" | "else" | "endif" => {
                self.ledger.unsafe_line(id, "settings have no conditions. All clients are refused");
                self.lines.push(Line { name: UNREADABLE.into(), words: Vec::new(), id });
            }
            _ => self.lines.push(Line { name, words, id }),
        }
        Ok(())
    }
}

/// Splits a line into words; a quoted word keeps its quotes, so that names of files show.
fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if first == '#' {
            break;
        }
        let end = match first {
            '"' => rest[1..].find('"').map_or(rest.len(), |at| at + 2),
            _ => rest.find(char::is_whitespace).unwrap_or(rest.len()),
        };
        debug_assert!(0 < end && end <= rest.len(), "a word has a character at least");
        found.push(rest[..end].to_owned());
        rest = rest[end..].trim_start();
    }
    found
}

/// Returns the text without its comment, and without the password of a `login=user:password`.
fn shown(text: &str) -> String {
    let hide = |word: String| match word.strip_prefix("login=").and_then(|login| login.split_once(':')) {
        Some((user, _)) => format!("login={user}:…"),
        None => word,
    };
    words(text).into_iter().map(hide).collect::<Vec<_>>().join(" ")
}

/// Name of a line that could hold refusals and cannot be read.
pub const UNREADABLE: &str = " unreadable";
/// Most entries of a list in a file.
const LIST_MAX: usize = 20_000;
