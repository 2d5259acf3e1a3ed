//! Outcomes: tallies, comparison with the recorded ones, and the page.

use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

/// One check of the suite.
#[derive(Clone)]
pub struct Check {
    id: String,
    name: String,
    group: String,
    kind: String,
    browser_only: bool,
    depends_on: Vec<String>,
}

impl Check {
    /// Reads an entry of the catalogue.
    pub fn read(value: &Value) -> Self {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_string();
        let depends = value["depends_on"].as_array().into_iter().flatten();
        Self {
            id: text("id"),
            name: text("name"),
            group: text("group"),
            kind: text("kind"),
            browser_only: value["browser_only"] == true,
            depends_on: depends.filter_map(Value::as_str).map(str::to_string).collect(),
        }
    }
}

/// What a run found.
pub struct Outcome {
    /// Every check of the suite.
    pub checks: Vec<Check>,
    passed: BTreeSet<String>,
    said: BTreeMap<String, String>,
}

impl Outcome {
    /// Judges the suite's results.
    pub fn new(checks: Vec<Check>, results: &BTreeMap<String, Value>) -> Self {
        let by_id: BTreeMap<_, _> = checks.iter().map(|check| (check.id.as_str(), check)).collect();
        let passed = by_id.keys().filter(|id| passes(id, &by_id, results)).map(ToString::to_string).collect();
        let said = results.iter().map(|(id, result)| (id.clone(), result.to_string())).collect();
        Self { checks, passed, said }
    }

    /// What `docs/conformance.json` holds for these checks.
    pub fn recorded(checks: Vec<Check>) -> Self {
        let text = std::fs::read_to_string(docs("conformance.json")).unwrap_or_else(|_| "{}".into());
        let value: Value = serde_json::from_str(&text).expect("docs/conformance.json is JSON");
        let results = value["results"].as_object().cloned().unwrap_or_default();
        let passed =
            results.iter().filter(|(_, result)| **result == true).map(|(id, _)| id.clone()).collect();
        Self { checks, passed, said: BTreeMap::new() }
    }

    /// What passed in either of two runs: the suite's pauses are real time, which a busy machine
    /// stretches.
    pub fn or(mut self, again: Self) -> Self {
        self.passed.extend(again.passed);
        self.said.extend(again.said);
        self
    }

    /// Ids of checks that passed there and fail here.
    pub fn worse_than(&self, other: &Self) -> Vec<String> {
        other.passed.difference(&self.passed).cloned().collect()
    }

    /// Ids of required and optional checks that fail without a reason.
    pub fn unexplained(&self, reasons: &Reasons) -> Vec<String> {
        let failing = self.failing().filter(|check| check.kind != "check");
        failing.map(|check| check.id.clone()).filter(|id| !reasons.0.contains_key(id)).collect()
    }

    /// A line for each id: what the suite said, and what came before.
    pub fn explained(&self, ids: &[String]) -> String {
        let said = |id: &String| self.said.get(id).cloned().unwrap_or_else(|| "not run".into());
        ids.iter().map(|id| format!("\n  {id}: {}", said(id))).collect()
    }

    /// Passed of total, by kind.
    pub fn tally(&self) -> String {
        let kinds = ["required", "optimal", "check"];
        let count = |kind: &str| {
            let of_kind = || self.checks.iter().filter(|check| check.kind == kind && !check.browser_only);
            let passed = of_kind().filter(|check| self.passed.contains(&check.id)).count();
            format!("{kind} {passed} of {}", of_kind().count())
        };
        kinds.map(count).join(", ")
    }

    /// Writes `docs/conformance.json` and `docs/CONFORMANCE.md`.
    pub fn write(&self, reasons: &Reasons) {
        let result = |check: &Check| (check.id.clone(), json!(self.passed.contains(&check.id)));
        let mut results: Vec<_> =
            self.checks.iter().filter(|check| !check.browser_only).map(result).collect();
        results.sort_by(|a, b| a.0.cmp(&b.0));
        let value = json!({
            "suite": "http-cache-tests 0.4.5",
            "tally": self.tally(),
            "results": results.into_iter().collect::<Map<_, _>>(),
        });
        let text = serde_json::to_string_pretty(&value).expect("a value is JSON") + "\n";
        std::fs::write(docs("conformance.json"), text).expect("docs takes files");
        std::fs::write(docs("CONFORMANCE.md"), self.page(reasons)).expect("docs takes files");
    }

    fn page(&self, reasons: &Reasons) -> String {
        let mut page = PREFACE.to_string();
        page += "\n| kind | passed | of | what it means |\n|---|---|---|---|\n";
        for (kind, meaning) in KINDS {
            let of_kind = || self.checks.iter().filter(|check| check.kind == kind && !check.browser_only);
            let passed = of_kind().filter(|check| self.passed.contains(&check.id)).count();
            let _ = writeln!(page, "| {kind} | {passed} | {} | {meaning} |", of_kind().count());
        }
        for (kind, title) in
            [("required", "Required checks not passed"), ("optimal", "Optional checks not passed")]
        {
            let _ = writeln!(page, "\n## {title}\n");
            self.rows(&mut page, kind, reasons);
        }
        page += "\n## Questions answered with no\n\n";
        page += "Checks of the kind `check` judge nothing: they ask what a cache does.\n\n";
        for check in self.failing().filter(|check| check.kind == "check") {
            let _ = writeln!(page, "- `{}`: {}", check.id, check.name);
        }
        page += "\n## For browsers alone\n\nThe suite marks these as for browser caches and its client for proxies leaves them out.\n\n";
        for check in self.checks.iter().filter(|check| check.browser_only) {
            let _ = writeln!(page, "- `{}` ({}): {}", check.id, check.kind, check.name);
        }
        page
    }

    fn rows(&self, page: &mut String, kind: &str, reasons: &Reasons) {
        let failing: Vec<_> = self.failing().filter(|check| check.kind == kind).collect();
        if failing.is_empty() {
            *page += "None.\n";
            return;
        }
        *page += "| check | group | asks | why not |\n|---|---|---|---|\n";
        for check in failing {
            let reason = match reasons.0.get(&check.id) {
                Some(reason) => reason.clone(),
                None => self.blocked_by(check).map_or_else(String::new, |id| format!("needs `{id}` first")),
            };
            let name = check.name.replace('|', "\\|");
            let _ = writeln!(page, "| `{}` | {} | {name} | {reason} |", check.id, check.group);
        }
    }

    fn blocked_by(&self, check: &Check) -> Option<String> {
        check.depends_on.iter().find(|id| !self.passed.contains(*id)).cloned()
    }

    fn failing(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| !check.browser_only && !self.passed.contains(&check.id))
    }
}

/// Why checks fail that do, by id.
pub struct Reasons(BTreeMap<String, String>);

impl Reasons {
    /// Reads `testkit/conformance/reasons.json`.
    pub fn read() -> Self {
        let text = include_str!("../../conformance/reasons.json");
        Self(serde_json::from_str(text).expect("reasons.json is an object of strings"))
    }
}

/// Exactly `true`, and the same of everything it depends on.
fn passes(id: &str, checks: &BTreeMap<&str, &Check>, results: &BTreeMap<String, Value>) -> bool {
    let own = results.get(id) == Some(&Value::Bool(true));
    own && checks.get(id).is_some_and(|check| check.depends_on.iter().all(|id| passes(id, checks, results)))
}

fn docs(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs")).join(name)
}

const KINDS: [(&str, &str); 3] = [
    ("required", "the specifications demand it"),
    ("optimal", "good for the cache's users, and optional"),
    ("check", "a question about behaviour; neither answer is wrong"),
];

const PREFACE: &str = "# Conformance

Results of the public suite for HTTP caches, `http-cache-tests` 0.4.5 (its own extra group on Surrogate-Control
included), run by its command-line client through Shoal as a reverse proxy with its default rules. This page is written by

    SHOAL_WRITE_DOCS=1 cargo test -p shoal-testkit --test conformance

and the same test, run without the variable, fails when a check that passes here does not pass any more, or when one
fails without a reason in `testkit/conformance/reasons.json`.

A check counts as passed only if its result is exactly `true`; one whose prerequisites failed counts as not passed.
";
