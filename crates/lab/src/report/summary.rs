//! A report's facts and findings for programs.
//!
//! ```json
//! { "experiment": "…", "seed": 1, "facts": {…}, "columns": […],
//!   "findings": [ { "key": "…", "section": "…", "what": "…", "unit": "share",
//!                   "claimed": 0.5, "claim": "50%",
//!                   "found": { "modelled": 0.48 }, "ratio": 0.96 } ],
//!   "tables": [ { "section": "…", "title": "…", "file": "….csv", "heading": […],
//!                 "rows": [[…]] } ],
//!   "figures": […] }
//! ```

use super::{Finding, Report, Section, Table};
use serde_json::{Map, Value, json};

pub(super) fn json(report: &Report) -> String {
    let facts: Map<String, Value> =
        report.facts.iter().map(|(name, value)| (name.clone(), Value::from(value.clone()))).collect();
    let findings = report
        .sections
        .iter()
        .flat_map(|section| section.findings.iter().map(|finding| entry(report, section, finding)));
    let summary = json!({
        "experiment": report.name,
        "command": report.command,
        "seed": report.seed,
        "facts": facts,
        "columns": report.columns,
        "findings": findings.collect::<Vec<Value>>(),
        "tables": report.sections.iter().flat_map(tables).collect::<Vec<Value>>(),
        "figures": report.figures().map(|figure| figure.name.clone()).collect::<Vec<String>>(),
    });
    let mut text = serde_json::to_string_pretty(&summary).unwrap_or_default();
    text.push('\n');
    text
}

/// Returns a section's tables, as they are printed.
fn tables(section: &Section) -> Vec<Value> {
    let table = |(table, file): (&Table, String)| {
        json!({
            "section": section.anchor,
            "title": table.title,
            "file": file,
            "heading": table.heading,
            "rows": table.rows,
        })
    };
    section.tables.iter().zip(section.table_files()).map(table).collect()
}

fn entry(report: &Report, section: &Section, finding: &Finding) -> Value {
    let columns = report.columns.iter().zip(&finding.found);
    let found: Map<String, Value> =
        columns.map(|(column, value)| (column.clone(), value.map_or(Value::Null, rounded))).collect();
    json!({
        "key": finding.key,
        "section": section.anchor,
        "what": finding.what,
        "unit": finding.unit.name(),
        "claim": finding.claim.shown(finding.unit),
        "claimed": finding.claim.number(),
        "found": found,
        "ratio": finding.ratio().map(rounded),
    })
}

/// Rounds to six decimals. More would show the order of sums, and no question needs them.
fn rounded(value: f64) -> Value {
    Value::from((value * 1e6).round() / 1e6)
}
