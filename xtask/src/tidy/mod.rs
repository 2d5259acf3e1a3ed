//! `cargo xtask tidy`: the rules of the house over every source and page.
//!
//! The rules are tables: banned code with its replacement ([`bans`]), banned text ([`text`]), the
//! shape of a file ([`shape`]), and pages that hang together ([`pages`]), and counts of [`house`]
//! that only fall. What may be used where is read from the crate table of `docs/CRATES.md`; a
//! breach is excused only by an entry with a reason in `xtask/exceptions.toml`.

mod bans;
mod pages;
mod shape;
mod source;
mod text;

use crate::Outcome;
use crate::crate_table::CrateTable;
use crate::exceptions::Exceptions;
use crate::finding::{Finding, outcome};
use crate::house;
use crate::workspace::{TextFile, text_files};
pub use source::Source;
use std::path::Path;

/// Checks the whole workspace.
pub fn run(root: &Path) -> Outcome {
    let files = text_files(root)?;
    let table = CrateTable::read(root)?;
    let exceptions = Exceptions::read(root)?;
    let mut findings = check(&files, &table);
    findings.extend(house::check(root, &files)?);
    let findings = exceptions.apply(findings, |finding| line_of(&files, finding));
    outcome("tidy", &format!("{} files", files.len()), findings)
}

fn check(files: &[TextFile], table: &CrateTable) -> Vec<Finding> {
    let mut findings = pages::check(files);
    for file in files {
        findings.extend(text::check(file));
        if file.extension() == "rs" {
            let source = Source::scan(&file.path, &file.text);
            findings.extend(shape::check(file, &source));
            findings.extend(bans::check(&file.path, &source, table));
        }
    }
    findings
}

fn line_of(files: &[TextFile], finding: &Finding) -> String {
    let file = files.iter().find(|file| file.path == finding.path);
    let line = file.and_then(|file| file.text.lines().nth(finding.line.checked_sub(1)?));
    line.unwrap_or_default().to_string()
}
