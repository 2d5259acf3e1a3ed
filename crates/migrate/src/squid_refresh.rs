//! `refresh_pattern` and `cache` of Squid.
//!
//! The first pattern that matches decides in Squid; in Shoal later rules win, so that the rules
//! come in reverse. Minimum and maximum bound the heuristic lifetime of answers without an explicit
//! one, in minutes. With Last-Modified it is a percentage of the age, at most the maximum; without,
//! the minimum. An answer with an explicit lifetime keeps it, unless the pattern has
//! `override-expire`.

use crate::document::{Document, Section};
use crate::expressions;
use crate::ledger::Ledger;
use crate::squid_access::shaped;
use crate::squid_acl::{Elements, Test};
use crate::squid_lines::Line;
use crate::value::Value;

/// Reads every `refresh_pattern`.
pub fn patterns(lines: &[Line], ledger: &mut Ledger, document: &mut Document) {
    let (mut rules, mut general) = (Vec::new(), None);
    let mut query = "unsigned";
    for line in lines.iter().filter(|line| line.name == "refresh_pattern") {
        if general.is_some() {
            ledger.needless(line.id, "no URL comes to this line");
            continue;
        }
        let Some(pattern) = Pattern::of(line) else {
            ledger.left_out(line.id, "it is no refresh_pattern: expression, minutes, percent, minutes");
            continue;
        };
        let text = pattern.expression.as_str();
        if text.starts_with("^ftp:") || text.starts_with("^gopher:") {
            ledger.needless(line.id, "Shoal speaks HTTP alone");
        } else if text == "." || text == ".*" {
            ledger.carried(line.id);
            general = Some(pattern);
        } else if text.contains("cgi-bin") && text.contains(r"\?") && pattern.is_never() {
            ledger.carried(line.id);
            query = "never";
            document.table("cache").set("heuristic_query", "never", &[line.id]);
            let rule = Section::of(&[line.id]).with("path_regex", "/cgi-bin/");
            rules.push(rule.with("lifetime_default", "0 s"));
        } else if text == r"\?" && pattern.is_never() {
            ledger.carried(line.id);
            query = "never";
            document.table("cache").set("heuristic_query", "never", &[line.id]);
        } else {
            specific(line, &pattern, &mut rules, ledger);
        }
    }
    let general = general.unwrap_or_else(Pattern::default_one);
    if let Some(rule) = whole(&general, ledger, document) {
        rules.push(rule);
    }
    let cache = document.table("cache");
    if query != "never" {
        cache.note("Squid guesses lifetimes of URLs with a query too; signed ones are left out here.");
        cache.set("heuristic_query", query, &[]);
    }
    rules.reverse();
    neutralise(&mut rules);
    document.rules.extend(rules);
}

/// A pattern with its numbers.
#[derive(Clone, Debug)]
struct Pattern {
    line: Option<crate::ledger::LineId>,
    expression: String,
    ignores_case: bool,
    min: u64,
    percent: f64,
    max: u64,
    options: Vec<String>,
}

impl Pattern {
    fn of(line: &Line) -> Option<Self> {
        let ignores_case = line.word(0) == "-i";
        let words: Vec<&str> =
            line.words.iter().skip(usize::from(ignores_case)).map(String::as_str).collect();
        let [expression, min, percent, max, options @ ..] = words.as_slice() else { return None };
        Some(Self {
            line: Some(line.id),
            expression: expression.trim_matches('"').to_owned(),
            ignores_case,
            min: min.parse().ok()?,
            percent: percent.trim_end_matches('%').parse::<f64>().ok().filter(|value| value.is_finite())?,
            max: max.parse().ok()?,
            options: options.iter().map(|word| (*word).to_owned()).collect(),
        })
    }

    /// The pattern that Squid has without any line.
    fn default_one() -> Self {
        Self {
            line: None,
            expression: ".".into(),
            ignores_case: false,
            min: 0,
            percent: 20.0,
            max: 4320,
            options: Vec::new(),
        }
    }

    fn is_never(&self) -> bool {
        self.min == 0 && self.percent == 0.0
    }

    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|word| word == option)
    }

    /// Adds the settings that options stand for.
    fn options(&self, rule: &mut Section, ledger: &mut Ledger) {
        if self.has("override-expire") {
            rule.set("lifetime_min", Value::seconds(self.min.saturating_mul(60)), &[]);
        }
        if self.has("ignore-reload") {
            rule.set("ignore_client_no_cache", true, &[]);
        }
        let mut ignored = Vec::new();
        for (option, directive) in [
            ("ignore-no-store", "no-store"),
            ("ignore-private", "private"),
            ("ignore-no-cache", "no-cache"),
            ("ignore-must-revalidate", "must-revalidate"),
        ] {
            if self.has(option) {
                ignored.push(directive);
            }
        }
        if ignored.contains(&"no-store") || ignored.contains(&"private") || self.has("ignore-auth") {
            rule.set("share_private", true, &[]);
            rule.note("The old settings share what the origin calls private: see `shoal check`.");
        }
        if !ignored.is_empty() {
            rule.set("ignore_origin", Value::texts(ignored), &[]);
        }
        for word in &self.options {
            let known = [
                "override-expire",
                "override-lastmod",
                "reload-into-ims",
                "ignore-reload",
                "ignore-no-store",
            ];
            let more =
                ["ignore-private", "ignore-no-cache", "ignore-must-revalidate", "ignore-auth", "refresh-ims"];
            if let Some(minutes) = word.strip_prefix("max-stale=").and_then(|text| text.parse::<u64>().ok()) {
                rule.set("stale_if_error", Value::seconds(minutes.saturating_mul(60)), &[]);
            } else if let (false, Some(line)) =
                (known.contains(&word.as_str()) || more.contains(&word.as_str()), self.line)
            {
                ledger.approximated(line, format!("{word} has no equal"));
            }
        }
    }
}

/// Adds the rule of a pattern over some URLs.
fn specific(line: &Line, pattern: &Pattern, rules: &mut Vec<Section>, ledger: &mut Ledger) {
    let shape = match expressions::url(&pattern.expression, pattern.ignores_case) {
        Ok(shape) => shape,
        Err(why) => {
            ledger.left_out(line.id, format!("{why}; these URLs follow the other patterns"));
            return;
        }
    };
    ledger.carried(line.id);
    if shape.is_near {
        ledger.approximated(line.id, "the expression is compared with the path, without host and query");
    }
    let mut rule = shaped(&shape, line.id);
    pattern.options(&mut rule, ledger);
    if pattern.min > 0 || pattern.is_never() {
        rule.set("lifetime_default", Value::seconds(pattern.min.saturating_mul(60)), &[]);
        if pattern.percent > 0.0 {
            let why =
                "the minimum counts for answers with Last-Modified too: a percentage is for all URLs alike";
            ledger.approximated(line.id, why);
        }
    } else {
        ledger.approximated(
            line.id,
            "percentage and maximum are for all URLs alike (cache.heuristic_fraction)",
        );
    }
    if pattern.percent == 0.0 && pattern.has("override-expire") {
        rule.set("lifetime_max", Value::seconds(pattern.max.max(pattern.min).saturating_mul(60)), &[]);
    }
    let is_empty = shaped(&shape, line.id).entries.len() == rule.entries.len();
    match is_empty {
        true => rules.push(rule.with("store", true)),
        false => rules.push(rule),
    }
}

/// Writes the pattern for all URLs; returns a rule if it has a minimum or options.
fn whole(pattern: &Pattern, ledger: &mut Ledger, document: &mut Document) -> Option<Section> {
    let from: Vec<_> = pattern.line.into_iter().collect();
    let cache = document.table("cache");
    if from.is_empty() {
        cache.note("Squid without a refresh_pattern for all URLs has 20 percent, at most three days.");
    }
    cache.set("heuristic_fraction", Value::Fraction((pattern.percent / 100.0).clamp(0.0, 1.0)), &from);
    cache.set("heuristic_max", Value::seconds(pattern.max.saturating_mul(60)), &from);
    let mut rule = Section::of(&from);
    pattern.options(&mut rule, ledger);
    if pattern.min > 0 {
        rule.set("lifetime_default", Value::seconds(pattern.min.saturating_mul(60)), &[]);
        if let Some(line) = pattern.line {
            ledger.approximated(line, "the minimum counts for answers with Last-Modified too");
        }
    }
    (!rule.entries.is_empty()).then_some(rule)
}

/// Gives each rule the neutral value of a setting that an earlier, weaker rule has.
fn neutralise(rules: &mut [Section]) {
    let neutral: [(&'static str, Value); 5] = [
        ("lifetime_min", "0 s".into()),
        ("ignore_client_no_cache", false.into()),
        ("ignore_origin", Value::List(Vec::new())),
        ("lifetime_max", Value::seconds(u64::MAX)),
        ("stale_if_error", "0 s".into()),
    ];
    for (key, value) in neutral {
        let mut is_set = false;
        for rule in rules.iter_mut() {
            match rule.get(key).is_some() {
                true => is_set = true,
                false if is_set => rule.set(key, value.clone(), &[]),
                false => {}
            }
        }
    }
}

/// Reads `cache deny` and `cache allow`: later lines are weaker, so that they come first.
pub fn storing(lines: &[Line], elements: &Elements, ledger: &mut Ledger, document: &mut Document) {
    let is_it = |line: &&Line| ["cache", "no_cache", "store_miss", "send_hit"].contains(&line.name.as_str());
    let mut is_denied = false;
    for line in lines.iter().filter(is_it).collect::<Vec<_>>().into_iter().rev() {
        let store = line.word(0) == "allow";
        if store && !is_denied {
            ledger.needless(line.id, "answers are stored unless a rule says otherwise");
            continue;
        }
        let tests: Vec<_> =
            line.words.iter().skip(1).map(|word| elements.find(word.trim_start_matches('!'))).collect();
        let is_negated = line.words.iter().any(|word| word.starts_with('!'));
        let rules: Option<Vec<Section>> = match tests.as_slice() {
            [one] if !is_negated => stored(&one.test, line),
            _ => None,
        };
        let Some(rules) = rules else {
            match store {
                true => {
                    ledger.left_out(line.id, "its condition has no equal, so that nothing more is stored")
                }
                false => {
                    ledger.approximated(line.id, "its condition has no equal; nothing is stored at all");
                    document.rules.push(Section::of(&[line.id]).with("store", false));
                    is_denied = true;
                }
            }
            continue;
        };
        ledger.carried(line.id);
        is_denied |= !store;
        document.rules.extend(rules.into_iter().map(|rule| rule.with("store", store)));
    }
}

/// Returns the conditions of an element over URLs.
fn stored(test: &Test, line: &Line) -> Option<Vec<Section>> {
    let of = |shape: Result<expressions::UrlShape, String>| shape.ok().map(|shape| shaped(&shape, line.id));
    match test {
        Test::Source(nets) if crate::networks::is_everyone(nets) => Some(vec![Section::of(&[line.id])]),
        Test::Hosts(hosts) if hosts.iter().all(|host| !host.contains('/')) => {
            Some(vec![Section::of(&[line.id]).with("hosts", Value::texts(hosts.iter().cloned()))])
        }
        Test::Url(list) => list.iter().map(|(text, i)| of(expressions::url(text, *i))).collect(),
        Test::Path(list) => list.iter().map(|(text, i)| of(expressions::path(text, *i, true))).collect(),
        Test::Methods(list) => {
            Some(vec![Section::of(&[line.id]).with("methods", Value::texts(list.iter().cloned()))])
        }
        _ => None,
    }
}
