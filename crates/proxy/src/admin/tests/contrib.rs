//! The alerts and the Grafana dashboard of `contrib` against the metrics that a node exports.

use super::{Scripted, request, start};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const ALERTS: &str = include_str!("../../../../../contrib/shoal.alerts.yml");
const GRAFANA: &str = include_str!("../../../../../contrib/shoal.grafana.json");

/// Labels of a node's metrics, and their values.
struct MetricLabels {
    labels: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl MetricLabels {
    fn by_a_node() -> Self {
        let page = request(&start(Scripted::default()).0, "GET", "/metrics", "").1;
        let mut labels: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for line in page.lines() {
            if let Some((name, _)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
                labels.entry(name.to_owned()).or_default();
            } else if !line.starts_with('#') {
                let (series, _) = line.rsplit_once(' ').expect("a value");
                let (name, braces) = series.split_once('{').unwrap_or((series, ""));
                let of = labels.entry(name.to_owned()).or_default();
                for (label, value) in quoted(braces) {
                    of.entry(label).or_default().insert(value);
                }
            }
        }
        Self { labels }
    }

    /// Checks an expression: its metrics exist and have the labels, with the values, that it names.
    fn check(&self, expression: &str) -> usize {
        let mut metrics = 0;
        for (at, name) in words(expression) {
            if !(name.starts_with("shoal_") || name.starts_with("process_")) {
                continue;
            }
            metrics += 1;
            let labels = self.labels.get(name).unwrap_or_else(|| panic!("no metric {name}: {expression}"));
            let rest = expression[at + name.len()..].strip_prefix('{');
            let matchers = rest.map_or("", |rest| rest.split_once('}').expect("a closed brace").0);
            for (label, value) in quoted(matchers) {
                self.check_matcher((name, labels), (&label, &value));
            }
        }
        for grouping in [" by (", " on (", " by(", "without ("] {
            for part in expression.split(grouping).skip(1) {
                let names = part.split_once(')').expect("a closed parenthesis").0;
                names.split(',').for_each(|name| self.check_label(name.trim()));
            }
        }
        metrics
    }

    fn check_matcher(
        &self,
        (metric, labels): (&str, &BTreeMap<String, BTreeSet<String>>),
        (label, value): (&str, &str),
    ) {
        if OF_PROMETHEUS.contains(&label) {
            return;
        }
        let known = labels.get(label).unwrap_or_else(|| panic!("{metric} has no label {label}"));
        // Values of sites, mirrors and disks are an operator's.
        let is_fixed = ["result", "reason", "error", "limit", "source", "protocol", "kind"].contains(&label);
        if is_fixed && metric != "shoal_site_response_duration_seconds_bucket" {
            let all = self.values_of(label);
            let unknown = |one: &&str| !known.contains(*one) && !all.contains(one);
            let found: Vec<&str> = value.split('|').filter(unknown).collect();
            assert!(found.is_empty(), "{metric} has no {label} {found:?}");
        }
    }

    fn check_label(&self, label: &str) {
        let is_known = OF_PROMETHEUS.contains(&label) || !self.values_of(label).is_empty();
        assert!(is_known, "no metric has a label {label}");
    }

    /// Returns all values that a label has at any metric.
    fn values_of<'a>(&'a self, label: &str) -> BTreeSet<&'a str> {
        let sets = self.labels.values().filter_map(|labels| labels.get(label));
        sets.flatten().map(String::as_str).collect()
    }
}

/// Labels that Prometheus adds.
const OF_PROMETHEUS: [&str; 2] = ["instance", "job"];

/// Returns the words of an expression with their places.
fn words(expression: &str) -> impl Iterator<Item = (usize, &str)> {
    let parts = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    parts.map(move |word| (word.as_ptr() as usize - expression.as_ptr() as usize, word))
}

/// Returns the names and values of `name="value"` pairs, by any operator.
fn quoted(braces: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut rest = braces;
    while let Some((before, after)) = rest.split_once('"') {
        let name = before.trim_start_matches([',', ' ', '}']).trim_end_matches(['=', '~', '!']);
        let mut end = 0;
        while !after[end..].starts_with('"') {
            let escaped = usize::from(after[end..].starts_with('\\'));
            end += escaped + after[end + escaped..].chars().next().map_or(1, char::len_utf8);
        }
        pairs.push((name.to_owned(), after[..end].to_owned()));
        rest = &after[end + 1..];
    }
    pairs
}

/// Returns the alerts, each with its expression and its other lines.
fn alerts() -> Vec<(&'static str, String, String)> {
    let rules = ALERTS.split("      - alert: ").skip(1);
    let alert = |rule: &'static str| {
        let (name, rest) = rule.split_once('\n').expect("lines");
        let is_comment = |line: &&str| !line.trim_start().starts_with('#');
        let text = rest.lines().filter(is_comment).collect::<Vec<_>>().join("\n");
        let (_, text) = text.split_once("expr:").expect("an expression");
        let end = ["\n        for:", "\n        labels:"].iter().filter_map(|key| text.find(key)).min();
        let (expression, others) = text.split_at(end.expect("labels"));
        (name, expression.trim_start_matches([' ', '|']).to_owned(), others.to_owned())
    };
    rules.map(alert).collect()
}

#[test]
fn alerts_name_metrics_that_exist() {
    let exported = MetricLabels::by_a_node();
    let all = alerts();
    let names: BTreeSet<&str> = all.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names.len(), all.len(), "each alert has a name of its own");
    for (name, expression, others) in &all {
        let metrics = exported.check(expression);
        assert!(metrics > 0 || expression.contains("up{"), "{name} asks nothing");
        for label in others.split("$labels.").skip(1) {
            exported.check_label(words(label).next().expect("a name").1);
        }
        assert!(others.contains("severity: critical") || others.contains("severity: warning"), "{name}");
        assert!(others.contains("summary: \""), "{name}");
    }
    for wanted in ["ShoalDown", "ShoalHitsFell", "ShoalClusterMemberLost", "ShoalPurgeUnconfirmed"] {
        assert!(names.contains(wanted), "{wanted}");
    }
}

#[test]
fn grafana_asks_for_metrics_that_exist() {
    let exported = MetricLabels::by_a_node();
    let dashboard: Value = serde_json::from_str(GRAFANA).expect("JSON");
    let mut metrics = 0;
    for panel in panels(&dashboard).iter().filter(|panel| panel["type"] != "row") {
        let targets = panel["targets"].as_array().expect("targets");
        assert!(!targets.is_empty(), "{panel}");
        for target in targets {
            metrics += exported.check(target["expr"].as_str().expect("an expression"));
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{target}");
            for label in target["legendFormat"].as_str().unwrap_or_default().split("{{").skip(1) {
                exported.check_label(label.split_once("}}").expect("closed").0);
            }
        }
    }
    assert!(metrics > 60, "{metrics}");
    for list in [&dashboard["annotations"]["list"], &dashboard["templating"]["list"]] {
        for one in list.as_array().expect("a list") {
            let text = one["expr"].as_str().or(one["definition"].as_str()).unwrap_or_default();
            exported.check(text);
        }
    }
}

#[test]
fn grafana_imports_the_dashboard() {
    let dashboard: Value = serde_json::from_str(GRAFANA).expect("JSON");
    assert!(dashboard["id"].is_null() && dashboard["title"] == "Shoal" && dashboard["uid"] == "shoal");
    assert!(dashboard["schemaVersion"].as_u64() >= Some(36));
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let names: Vec<&str> = variables.iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["datasource", "instance", "site", "mirror"]);
    for panel in panels(&dashboard) {
        for word in panel.to_string().split('$').skip(1) {
            let name: String = word
                .trim_start_matches('{')
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect();
            assert!(names.contains(&&*name) || name == "__rate_interval", "no variable {name}");
        }
    }
    let rows = panels(&dashboard).iter().filter(|panel| panel["type"] == "row");
    let rows: Vec<&str> = rows.filter_map(|row| row["title"].as_str()).collect();
    assert_eq!(rows, ["Now", "Disk", "Origins", "Cluster", "Mirrors"]);
    let ids: BTreeSet<u64> = panels(&dashboard).iter().filter_map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels(&dashboard).len(), "each panel has an id of its own");
    let required: BTreeSet<&str> = dashboard["__requires"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["id"].as_str())
        .collect();
    for panel in panels(&dashboard).iter().filter(|panel| panel["type"] != "row") {
        assert!(panel["type"].as_str().is_some_and(|kind| required.contains(kind)), "{panel}");
    }
}

#[test]
fn grafana_panels_do_not_overlap() {
    let dashboard: Value = serde_json::from_str(GRAFANA).expect("JSON");
    let mut taken = BTreeMap::new();
    for panel in panels(&dashboard) {
        let [x, y, width, height] =
            ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().expect("a number"));
        assert!(width > 0 && height > 0 && x + width <= 24, "{panel}");
        for cell in (x..x + width).flat_map(|column| (y..y + height).map(move |line| (column, line))) {
            if let Some(other) = taken.insert(cell, panel["title"].clone()) {
                panic!("{} lies over {other}", panel["title"]);
            }
        }
    }
}

fn panels(dashboard: &Value) -> &Vec<Value> {
    dashboard["panels"].as_array().expect("panels")
}
