//! The rules that match a request, each with its settings and the settings that a later rule
//! overrules: for people.
//!
//! [`COMBINATION`] is the sentence on how rules combine; here it is applied to the settings as the
//! file has them. A test compares the result with the effects that the rules have together.

use crate::mistakes::keyed;
use crate::set::{MatchedRules, RuleSet, has_common_lifetime};
use http::StatusCode;
use shoal_core::Fields;
use shoal_settings::{Rule, Settings};
use std::borrow::Cow;

/// The sentence of docs/RULES.md on how rules combine.
pub const COMBINATION: &str = "all rules whose conditions hold take part, in the order of the file, those of a site \
                               after the general ones; where two set the same thing, the later one wins.";

/// A rule that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleReport {
    /// Key in the settings: `rule[0]` or `site[0].rule[1]`.
    pub key: String,
    /// Name; empty without one.
    pub name: String,
    /// Conditions, as the file has them.
    pub conditions: Vec<(&'static str, String)>,
    /// Settings, as the file has them.
    pub settings: Vec<SettingReport>,
}

/// One setting of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingReport {
    /// Name of the setting.
    pub name: &'static str,
    /// Value, as the file has it.
    pub value: String,
    /// Part that the setting has in the outcome.
    pub part: SettingPart,
}

/// Part of a setting in the outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingPart {
    /// The setting takes effect.
    Wins,
    /// The rule of this key comes later and sets the same.
    Overruled(String),
    /// The response does not meet the rule's conditions.
    OtherResponse,
    /// The rule names no status, and lifetimes then hold for common statuses alone.
    OtherStatus,
}

impl RuleSet {
    /// Returns the matching rules, in the order in which they take part. `settings` are those of
    /// this set. The tuple has status and fields of the response.
    pub fn report<F: Fields>(
        &self,
        settings: &Settings,
        matching: &MatchedRules,
        (status, fields): (StatusCode, &F),
    ) -> Vec<RuleReport> {
        let rules: Vec<(String, &Rule)> = keyed(settings).collect();
        let mut reports = Vec::new();
        for number in self.numbers(matching) {
            let Some((key, rule)) = rules.get(number) else { continue };
            let part = |name: &str| match is_of_response(name) {
                true => self.part_in(number, (status, fields), LIFETIMES.contains(&name)),
                false => SettingPart::Wins,
            };
            let conditions = rule.written().into_iter().filter(|(name, _)| is_condition(name)).collect();
            let settings = settings_of(rule).into_iter();
            let settings: Vec<SettingReport> =
                settings.map(|setting| SettingReport { part: part(setting.name), ..setting }).collect();
            assert!(!settings.is_empty(), "a rule changes something");
            reports.push(RuleReport { key: key.clone(), name: rule.name.clone(), conditions, settings });
        }
        mark_overruled(&mut reports);
        reports
    }

    fn part_in<F: Fields>(
        &self,
        number: usize,
        (status, fields): (StatusCode, &F),
        is_lifetime: bool,
    ) -> SettingPart {
        let conditions = self.conditions(number);
        match conditions.match_response(status, fields) {
            false => SettingPart::OtherResponse,
            true if is_lifetime && conditions.statuses.is_empty() && !has_common_lifetime(status) => {
                SettingPart::OtherStatus
            }
            true => SettingPart::Wins,
        }
    }
}

/// Returns the settings of a rule, as the file has them, without its name and conditions.
pub(crate) fn settings_of(rule: &Rule) -> Vec<SettingReport> {
    let set = rule.written().into_iter().filter(|(name, _)| *name != "name" && !is_condition(name));
    let lines = set.flat_map(|(name, value)| each(rule, name, value));
    lines.map(|(name, value)| SettingReport { name, value, part: SettingPart::Wins }).collect()
}

/// Returns `true` if the setting of this name is a condition.
pub(crate) fn is_condition(name: &str) -> bool {
    CONDITIONS.contains(&name)
}

/// Returns `true` if the setting of this name holds for common statuses alone where its rule names
/// none.
pub(crate) fn is_lifetime(name: &str) -> bool {
    LIFETIMES.contains(&name)
}

/// Returns the lines of a list of fields one by one, since fields compete by name; other settings
/// as they are.
fn each(rule: &Rule, name: &'static str, value: String) -> Vec<(&'static str, String)> {
    let lines = match name {
        "request_set" => &rule.request_set,
        "request_remove" => &rule.request_remove,
        "response_set" => &rule.response_set,
        "response_add" => &rule.response_add,
        "response_remove" => &rule.response_remove,
        _ => return vec![(name, value)],
    };
    lines.iter().map(|line| (name, format!("{:?}", without_secret(line)))).collect()
}

/// Returns a line of a field without a value that may be a secret of this node at an origin. Every
/// client of the admin listener sees the report, and the settings file may be closed to it.
fn without_secret(line: &str) -> Cow<'_, str> {
    let (name, value) = line.split_once(':').unwrap_or((line, ""));
    let lower = name.to_ascii_lowercase();
    let is_secret = SECRETS.iter().any(|word| lower.contains(word)) && !value.trim_start().starts_with('$');
    match is_secret && !value.is_empty() {
        true => Cow::Owned(format!("{name}: (not shown)")),
        false => Cow::Borrowed(line),
    }
}

/// Marks each setting that a later one overrules.
fn mark_overruled(reports: &mut [RuleReport]) {
    let mut later: Vec<(String, String)> = Vec::new();
    for report in reports.iter_mut().rev() {
        // Each rule counts by itself, so that all rates hold.
        let competes = |it: &&mut SettingReport| {
            it.part == SettingPart::Wins && !["client_rate", "client_burst"].contains(&it.name)
        };
        for setting in report.settings.iter_mut().rev().filter(competes) {
            let thing = setting.thing();
            match later.iter().find(|(set, _)| *set == thing) {
                Some((_, key)) => setting.part = SettingPart::Overruled(key.clone()),
                None => later.push((thing, report.key.clone())),
            }
        }
    }
}

impl SettingReport {
    /// Returns the thing that the setting sets. Settings of fields compete by direction and field.
    pub(crate) fn thing(&self) -> String {
        let direction = match self.name {
            "request_set" | "request_remove" => "request",
            "response_set" | "response_add" | "response_remove" => "response",
            name => return name.to_owned(),
        };
        let field = self.value.trim_matches('"').split(':').next().unwrap_or_default();
        format!("{direction} {}", field.trim().to_ascii_lowercase())
    }
}

/// Returns `true` if the setting of this name changes responses alone.
fn is_of_response(name: &str) -> bool {
    LIFETIMES.contains(&name)
        || name.starts_with("response_")
        || matches!(
            name,
            "store" | "ignore_origin" | "ignore_vary" | "share_private" | "set_cookie" | "error_page"
        )
}

/// Settings that hold for common statuses alone where the rule names none.
const LIFETIMES: [&str; 6] = [
    "lifetime",
    "lifetime_default",
    "lifetime_min",
    "lifetime_max",
    "stale_while_revalidate",
    "stale_if_error",
];

/// Parts of the names of fields with secrets.
const SECRETS: [&str; 8] =
    ["auth", "cookie", "credential", "key", "password", "secret", "signature", "token"];

/// Settings of a rule that are conditions.
const CONDITIONS: [&str; 9] = [
    "hosts",
    "paths",
    "path_regex",
    "query",
    "methods",
    "request_fields",
    "statuses",
    "content_types",
    "response_fields",
];

#[cfg(test)]
#[path = "report/tests.rs"]
mod tests;
