//! `xtask/exceptions.toml`: where a rule does not hold, with the reason.
//!
//! An exception that excuses nothing is itself an error, so the list only ever says what is true. A
//! file over the length limit carries its present length as its own limit: it may shrink and never
//! grow.

use crate::finding::Finding;
use serde::Deserialize;
use std::path::Path;

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Exceptions {
    /// Where a rule of `tidy` does not hold.
    pub exception: Vec<Exception>,
}

/// A file or folder that one rule does not hold for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    /// The rule's name as the finding prints it.
    pub rule: String,
    /// A file, or a folder when it ends in `/`.
    pub path: String,
    /// For lengths, the number of lines that this file may have instead.
    pub limit: Option<usize>,
    /// Only lines containing this text are excused; without it, all are.
    pub only: Option<String>,
    /// Why.
    pub reason: String,
}

/// Where the exceptions stand.
pub const PATH: &str = "xtask/exceptions.toml";

impl Exceptions {
    /// Reads the workspace's exceptions; every one must give a reason.
    pub fn read(root: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(root.join(PATH)).map_err(|why| format!("{PATH}: {why}"))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let all: Self = toml::from_str(text).map_err(|why| format!("{PATH}: {why}"))?;
        match all.exception.iter().find(|exception| exception.reason.trim().is_empty()) {
            Some(exception) => Err(format!("{PATH}: the exception for {} gives no reason", exception.path)),
            None => Ok(all),
        }
    }

    /// Drops the findings that an exception excuses, and adds one for every exception that excuses
    /// none. `line_of` gives the text of a finding's line; a length in a message is its first
    /// number.
    pub fn apply(&self, findings: Vec<Finding>, line_of: impl Fn(&Finding) -> String) -> Vec<Finding> {
        let mut used = vec![false; self.exception.len()];
        let mut kept: Vec<Finding> = Vec::new();
        for finding in findings {
            let line = line_of(&finding);
            match self.exception.iter().position(|exception| exception.excuses(&finding, &line)) {
                Some(found) => used[found] = true,
                None => kept.push(finding),
            }
        }
        for exception in self.exception.iter().zip(&used).filter(|(_, used)| !**used).map(|(e, _)| e) {
            let message =
                format!("{:?} is no longer broken at {}; drop this", exception.rule, exception.path);
            kept.push(Finding::new(PATH, 0, "idle exception", message));
        }
        kept
    }
}

impl Exception {
    fn excuses(&self, finding: &Finding, line: &str) -> bool {
        let here = match self.path.ends_with('/') {
            true => finding.path.starts_with(&self.path),
            false => finding.path == self.path,
        };
        here && self.rule == finding.rule
            && self.only.as_ref().is_none_or(|only| line.contains(only.as_str()))
            && self.limit.is_none_or(|limit| first_number(&finding.message) <= limit)
    }
}

/// The first number in a message; messages about lengths begin with it.
fn first_number(message: &str) -> usize {
    let digits: String =
        message.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"
        [[exception]]
        rule = "file length"
        path = "crates/a/src/long.rs"
        limit = 600
        reason = "a table"

        [[exception]]
        rule = "clock"
        path = "crates/b/"
        only = "started"
        reason = "measures itself"
    "#;

    fn left(findings: Vec<Finding>, line: &str) -> Vec<String> {
        let exceptions = Exceptions::parse(SAMPLE).expect("the sample is valid");
        exceptions
            .apply(findings, |_| line.into())
            .into_iter()
            .map(|f| format!("{} {}", f.rule, f.path))
            .collect()
    }

    #[test]
    fn an_exception_excuses_its_own_finding_only() {
        let long = Finding::new("crates/a/src/long.rs", 0, "file length", "600 lines");
        let clock = Finding::new("crates/b/src/x.rs", 3, "clock", "banned");
        assert_eq!(left(vec![long.clone(), clock.clone()], "let started = now()"), Vec::<String>::new());
        let elsewhere = Finding::new("crates/c/src/x.rs", 3, "clock", "banned");
        assert_eq!(left(vec![long, clock, elsewhere], "started"), ["clock crates/c/src/x.rs"]);
    }

    #[test]
    fn a_longer_file_and_another_line_are_not_excused() {
        let long = Finding::new("crates/a/src/long.rs", 0, "file length", "601 lines");
        let clock = Finding::new("crates/b/src/x.rs", 3, "clock", "banned");
        let left = left(vec![long, clock], "let other = now()");
        assert!(left.contains(&"file length crates/a/src/long.rs".into()), "{left:?}");
        assert!(left.contains(&"clock crates/b/src/x.rs".into()), "{left:?}");
    }

    #[test]
    fn an_idle_exception_is_reported() {
        assert_eq!(left(vec![], ""), [format!("idle exception {PATH}"), format!("idle exception {PATH}")]);
    }

    #[test]
    fn a_reason_is_required() {
        assert!(Exceptions::parse("[[duplicate]]\ncrate = \"x\"\nreason = \" \"").is_err());
    }
}
