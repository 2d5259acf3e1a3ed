//! What a check found: where, which rule, and what to do instead.

use std::fmt;

/// One breach of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Path from the workspace's root, with `/` between its parts.
    pub path: String,
    /// Line number from 1; 0 for the file as a whole.
    pub line: usize,
    /// The rule's name, as `xtask/exceptions.toml` spells it.
    pub rule: &'static str,
    /// What is wrong and what to do.
    pub message: String,
}

impl Finding {
    /// A finding at `line` of `path`.
    pub fn new(path: &str, line: usize, rule: &'static str, message: impl Into<String>) -> Self {
        Self { path: path.into(), line, rule, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, rule, message } = self;
        match line {
            0 => write!(f, "{path}: {rule}: {message}"),
            _ => write!(f, "{path}:{line}: {rule}: {message}"),
        }
    }
}

/// The outcome of a task that looked at `looked_at` and found these.
pub fn outcome(task: &str, looked_at: &str, mut findings: Vec<Finding>) -> crate::Outcome {
    if findings.is_empty() {
        return Ok(format!("{task}: {looked_at}, nothing to object to"));
    }
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    Err(format!("{}\n{task}: {} to put right in {looked_at}", lines.join("\n"), findings.len()))
}
