//! Findings of a check: a level, the finding, and its remedy.
//!
//! `shoal status` and `shoal doctor` are checks. Their exit codes are those of monitoring plugins:
//!
//! | code | level | plugins call it |
//! |---|---|---|
//! | 0 | well | OK |
//! | 1 | degraded: clients are served, and something needs a hand | WARNING |
//! | 2 | bad: clients are not served, or soon will not be | CRITICAL |
//! | 3 | unknown: the check itself could not be made | UNKNOWN |

use crate::failure::Failure;
use crate::show::print;
use serde_json::{Value, json};

/// Level of a finding. Later ones are worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// In order.
    Ok,
    /// Clients are served, and something needs a hand.
    Warn,
    /// Clients are not served, or soon will not be.
    Bad,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Level.
    pub level: Level,
    /// The finding, in a line.
    pub text: String,
    /// Advice, in a line; empty if nothing is to do.
    pub fix: String,
}

impl Level {
    /// Returns the name in a list of findings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }

    /// Returns the verdict on a node or a machine with this level as its worst.
    pub fn verdict(self) -> &'static str {
        match self {
            Self::Ok => "well",
            Self::Warn => "degraded",
            Self::Bad => "bad",
        }
    }

    /// Returns the exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Warn => 1,
            Self::Bad => 2,
        }
    }

    /// Ends a check after its output is printed.
    pub fn end(self) -> Result<(), Failure> {
        match self {
            Self::Ok => Ok(()),
            level => Err(Failure::Checked(level.code())),
        }
    }
}

impl Finding {
    /// Creates a finding that is in order.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { level: Level::Ok, text: text.into(), fix: String::new() }
    }

    /// Creates a finding that needs a hand.
    pub fn warn(text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: Level::Warn, text: text.into(), fix: fix.into() }
    }

    /// Creates a finding of which clients suffer.
    pub fn bad(text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: Level::Bad, text: text.into(), fix: fix.into() }
    }

    /// Returns the finding as JSON.
    pub fn as_json(&self) -> Value {
        json!({ "level": self.level.name(), "finding": self.text, "fix": self.fix })
    }

    /// Returns the finding in a line: level, finding, advice.
    pub fn line(&self) -> String {
        debug_assert!(!self.text.contains('\n') && !self.fix.contains('\n'), "a finding is a line");
        let fix = if self.fix.is_empty() { String::new() } else { format!(" — {}", self.fix) };
        format!("{:4} {}{fix}\n", self.level.name(), self.text)
    }
}

/// Returns the worst level of the findings.
pub fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
}

/// Reports a check that could not be made, on standard output, where monitoring reads it. A node
/// that does not answer is bad; other failures leave its state unknown.
pub fn end_unmade(failure: Failure, as_json: bool) -> Result<(), Failure> {
    let (verdict, code) = match &failure {
        Failure::Unreachable(_) => ("bad", Level::Bad.code()),
        Failure::Checked(_) => return Err(failure),
        _ => ("unknown", UNKNOWN),
    };
    let lines = failure.lines();
    debug_assert!(!lines.is_empty(), "a failure has a reason");
    match as_json {
        true => {
            let findings: Vec<Value> =
                lines.iter().map(|line| json!({ "level": verdict, "finding": line, "fix": "" })).collect();
            print(&format!("{}\n", json!({ "verdict": verdict, "code": code, "findings": findings })))?;
        }
        false => print(&format!("{verdict:8} {}\n", lines.join("\n         ")))?,
    }
    Err(Failure::Checked(code))
}

/// Exit code of a check that could not be made.
pub const UNKNOWN: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worst_finding_decides() {
        assert_eq!(worst(&[]), Level::Ok);
        let findings = [Finding::ok("a"), Finding::bad("b", "mend it"), Finding::warn("c", "")];
        assert_eq!((worst(&findings), worst(&findings).verdict()), (Level::Bad, "bad"));
        assert!(matches!(worst(&findings).end(), Err(Failure::Checked(2))));
        assert!(Level::Ok.end().is_ok());
        assert_eq!(findings[1].line(), "bad  b — mend it\n");
        assert_eq!(findings[0].line(), "ok   a\n");
    }
}
