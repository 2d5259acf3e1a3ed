//! Every statement of the peer's files, with its fate.

use crate::{Error, STATEMENTS_MAX};

/// Number of a statement in the [`Ledger`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId(usize);

impl LineId {
    /// Returns `true` if the statement is among the first `count`.
    pub fn is_below(self, count: usize) -> bool {
        self.0 < count
    }
}

/// Fate of a statement, the mildest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Shoal has a setting that does the same.
    Carried,
    /// Shoal does the same without a setting.
    Needless(String),
    /// A setting does nearly the same.
    Approximated(String),
    /// Shoal has nothing like it.
    LeftOut(String),
    /// A refusal that Shoal cannot make alike; the settings refuse more.
    Unsafe(String),
}

/// One statement.
#[derive(Clone, Debug)]
pub struct Statement {
    /// File and line, `squid.conf:12`.
    pub place: String,
    /// Text on one line, without control characters, at most [`TEXT_MAX`] characters.
    pub text: String,
    /// Fate; `None` until a converter decides.
    pub fate: Option<Fate>,
}

/// All statements in the order of the files.
#[derive(Debug, Default)]
pub struct Ledger(Vec<Statement>);

/// Numbers of statements by fate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Carried over, or done without a setting.
    pub carried: usize,
    /// Carried over nearly.
    pub approximated: usize,
    /// Not carried over.
    pub left_out: usize,
    /// Refusals that need an operator's review, one line each. They count as not carried over too.
    pub notices: Vec<String>,
}

impl Ledger {
    /// Adds a statement.
    ///
    /// # Errors
    /// There are more than [`STATEMENTS_MAX`].
    pub fn add(&mut self, file: &str, line: usize, text: &str) -> Result<LineId, Error> {
        if self.0.len() >= STATEMENTS_MAX {
            return Err(Error::Limit(format!("there are more than {STATEMENTS_MAX} statements")));
        }
        debug_assert!(line >= 1, "lines count from 1");
        self.0.push(Statement { place: plain(&format!("{file}:{line}")), text: plain(text), fate: None });
        Ok(LineId(self.0.len() - 1))
    }

    /// Returns a statement.
    pub fn line(&self, id: LineId) -> &Statement {
        &self.0[id.0]
    }

    /// Returns every statement with its number.
    pub fn lines(&self) -> impl Iterator<Item = (LineId, &Statement)> {
        self.0.iter().enumerate().map(|(at, line)| (LineId(at), line))
    }

    /// Notes a fate. The gravest fate of a statement counts, and equally grave reasons are joined.
    pub fn note(&mut self, id: LineId, fate: Fate) {
        let line = &mut self.0[id.0];
        let before = line.fate.as_ref().map_or(0, rank);
        let fate = match (line.fate.take(), fate) {
            (None, fate) => fate,
            (Some(Fate::Approximated(a)), Fate::Approximated(b)) => Fate::Approximated(both(a, b)),
            (Some(Fate::LeftOut(a)), Fate::LeftOut(b)) => Fate::LeftOut(both(a, b)),
            (Some(Fate::Unsafe(a)), Fate::Unsafe(b)) => Fate::Unsafe(both(a, b)),
            (Some(old), new) if rank(&new) > rank(&old) => new,
            (Some(old), _) => old,
        };
        debug_assert!(rank(&fate) >= before, "a fate gets no milder");
        line.fate = Some(fate);
    }

    /// Notes that a setting does the same.
    pub fn carried(&mut self, id: LineId) {
        self.note(id, Fate::Carried);
    }

    /// Notes that Shoal does the same without a setting.
    pub fn needless(&mut self, id: LineId, why: impl Into<String>) {
        self.note(id, Fate::Needless(why.into()));
    }

    /// Notes that a setting does nearly the same.
    pub fn approximated(&mut self, id: LineId, why: impl Into<String>) {
        self.note(id, Fate::Approximated(why.into()));
    }

    /// Notes that nothing does it.
    pub fn left_out(&mut self, id: LineId, why: impl Into<String>) {
        self.note(id, Fate::LeftOut(why.into()));
    }

    /// Notes a refusal that Shoal cannot make alike.
    pub fn unsafe_line(&mut self, id: LineId, why: impl Into<String>) {
        self.note(id, Fate::Unsafe(why.into()));
    }

    /// Leaves out every statement that no converter decided about.
    pub fn settle(&mut self) {
        for line in &mut self.0 {
            line.fate.get_or_insert_with(|| Fate::LeftOut(UNKNOWN.into()));
        }
        debug_assert!(self.0.iter().all(|line| line.fate.is_some()), "each statement has a fate");
    }

    /// Counts the statements by fate.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for line in &self.0 {
            match line.fate.as_ref() {
                Some(Fate::Carried | Fate::Needless(_)) => summary.carried += 1,
                Some(Fate::Approximated(_)) => summary.approximated += 1,
                Some(Fate::LeftOut(_)) | None => summary.left_out += 1,
                Some(Fate::Unsafe(why)) => {
                    summary.left_out += 1;
                    summary.notices.push(format!("{}: {}: {why}", line.place, line.text));
                }
            }
        }
        let counted = summary.carried + summary.approximated + summary.left_out;
        assert_eq!(counted, self.0.len(), "each statement is counted once");
        summary
    }
}

/// Returns `text` on one line, without control characters and of bounded length.
pub fn plain(text: &str) -> String {
    let mut words = String::new();
    for word in text.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.extend(word.chars().filter(|c| !c.is_control()));
        if words.len() > TEXT_MAX {
            break;
        }
    }
    debug_assert!(!words.contains(char::is_control), "a comment keeps to its line");
    match words.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

fn both(a: String, b: String) -> String {
    let joined = if a.contains(&b) || a.len() > 600 { a } else { format!("{a}; {b}") };
    debug_assert!(joined.contains(&b) || joined.len() > 600, "a short reason keeps both parts");
    joined
}

fn rank(fate: &Fate) -> u8 {
    match fate {
        Fate::Carried => 1,
        Fate::Needless(_) => 0,
        Fate::Approximated(_) => 2,
        Fate::LeftOut(_) => 3,
        Fate::Unsafe(_) => 4,
    }
}

/// Longest text of a statement in a comment, in characters.
const TEXT_MAX: usize = 200;
/// Reason for statements that no converter knows.
const UNKNOWN: &str = "Shoal has no such setting";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_fate_counts() {
        let mut ledger = Ledger::default();
        let line = ledger.add("a", 1, "x").expect("room");
        ledger.approximated(line, "near");
        ledger.carried(line);
        ledger.approximated(line, "nearly");
        assert_eq!(ledger.line(line).fate, Some(Fate::Approximated("near; nearly".into())));
        ledger.unsafe_line(line, "open");
        ledger.left_out(line, "gone");
        assert_eq!(ledger.summary().notices, ["a:1: x: open"]);
    }

    #[test]
    fn undecided_statements_are_left_out() {
        let mut ledger = Ledger::default();
        ledger.add("a", 1, "x").expect("room");
        ledger.settle();
        assert_eq!(ledger.summary().left_out, 1);
    }

    #[test]
    fn comments_stay_on_one_line() {
        assert_eq!(plain("a \n b\u{0}\u{1b}c"), "a bc");
        assert!(plain(&"x".repeat(9999)).chars().count() <= TEXT_MAX + 1);
    }
}
