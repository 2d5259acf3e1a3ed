//! An explanation as text for people.

use super::{demands, mirror};
use crate::show;
use shoal_proxy::admin::{Explanation, Refusal, ReuseView, RuleView, RulesView, StoredView, StoringView};
use std::fmt::Write;

/// Returns the explanation as text.
pub fn page(explanation: &Explanation) -> String {
    let mut page = format!("{} {}\n", explanation.method, explanation.url);
    let listener = &explanation.listener;
    let tls = if listener.tls { ", TLS" } else { "" };
    row(&mut page, "client", &explanation.client);
    row(&mut page, "listener", &format!("{} ({} mode{tls})", listener.address, listener.mode));
    if let Some(site) = &explanation.site {
        let prefix =
            if site.path_prefix == "/" { String::new() } else { format!(" below {}", site.path_prefix) };
        row(&mut page, "site", &format!("{}{} {}{prefix}", site.key, line(site.line), site.hosts.join(", ")));
        for upstream in site.upstreams.iter().filter(|upstream| upstream.credentials.is_some()) {
            let file = upstream.credentials.as_deref().unwrap_or_default();
            row(&mut page, "credentials", &format!("of the file {file}, at {}", upstream.url));
        }
    }
    if let Some(target) = &explanation.target {
        if target.url != explanation.url {
            row(&mut page, "after rules", &target.url);
        }
        row(&mut page, "asks for", &target.upstream_path);
        row(&mut page, "cache key", &target.key);
    }
    if let Some(view) = &explanation.mirror {
        mirror::write(&mut page, view);
    }
    rules(&mut page, &explanation.rules);
    demands::write(&mut page, explanation);
    if let Some(refusal) = &explanation.refusal {
        refused(&mut page, refusal);
    }
    if let Some(view) = &explanation.stored {
        stored(&mut page, view);
    }
    if let Some(view) = &explanation.reuse {
        reuse(&mut page, view);
    }
    if let Some(view) = &explanation.storing {
        storing(&mut page, view);
    }
    if !explanation.notes.is_empty() {
        page.push_str("\nNotes\n");
        for note in &explanation.notes {
            wrapped(&mut page, "  ", note);
        }
    }
    page
}

fn rules(page: &mut String, view: &RulesView) {
    if view.matching.is_empty() {
        return;
    }
    let _ = writeln!(page, "\nRules that match");
    for rule in &view.matching {
        matching(page, rule);
    }
    if view.left_out > 0 {
        let _ = writeln!(page, "  and {} not listed", show::counted(view.left_out as u64, "rule"));
    }
    if view.matching.len() > 1 {
        wrapped(page, "  ", &format!("How rules combine: {}", view.combination));
    }
}

fn matching(page: &mut String, rule: &RuleView) {
    let name = if rule.name.is_empty() { String::new() } else { format!(" {:?}", rule.name) };
    let conditions: Vec<String> =
        rule.conditions.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let conditions = if conditions.is_empty() { "all requests".into() } else { conditions.join(", ") };
    let _ = writeln!(page, "  {}{name}{}: {conditions}", rule.key, line(rule.line));
    for setting in &rule.settings {
        let part = match setting.part.as_str() {
            "wins" => String::new(),
            "other_response" => "   for other answers".into(),
            "other_status" => "   for other statuses".into(),
            _ => format!("   overruled by {}", setting.overruled_by.as_deref().unwrap_or("a later rule")),
        };
        let _ = writeln!(page, "    {} = {}{part}", setting.name, setting.value);
    }
}

fn refused(page: &mut String, refusal: &Refusal) {
    let title = if refusal.location.is_some() { "Redirected" } else { "Refused" };
    let _ = writeln!(page, "\n{title}");
    row(page, "status", &refusal.status.to_string());
    row(page, "reason", &refusal.reason);
    if let Some(location) = &refusal.location {
        row(page, "to", location);
    }
    if let Some(setting) = &refusal.setting {
        row(page, "setting", setting);
    }
}

fn stored(page: &mut String, view: &StoredView) {
    page.push_str("\nStored\n");
    if !view.varies_by.is_empty() {
        let lists: Vec<String> = view.varies_by.iter().map(|names| names.join(", ")).collect();
        row(page, "variants", &format!("by {}", lists.join("; by ")));
    }
    variants(page, view);
    if view.kind == "nothing" {
        row(page, "response", "none");
    } else {
        found(page, view);
    }
    if view.remembered_as_unstorable {
        row(page, "remembered", "an answer to such a request could not be stored in the last 2 minutes");
    }
}

fn found(page: &mut String, view: &StoredView) {
    let tier = match (view.tier.as_deref(), view.on_disk) {
        (Some("ram"), true) => "in RAM and on disk",
        (Some("ram"), false) => "in RAM",
        _ => "on disk",
    };
    let size = view.body_bytes.map(|bytes| format!(", {}", show::size(bytes))).unwrap_or_default();
    row(page, "response", &format!("{}{size}, {tier}", view.status.unwrap_or_default()));
    let (age, lifetime) = (view.age_seconds.unwrap_or_default(), view.lifetime_seconds.unwrap_or_default());
    row(page, "age", &format!("{} of {}", show::duration(age), show::duration(lifetime)));
    let turn = view.fresh_until.as_deref().unwrap_or_default();
    let is_fresh = view.ttl_seconds.is_some_and(|ttl| ttl > 0);
    row(page, if is_fresh { "fresh until" } else { "stale since" }, turn);
    if view.always_validates {
        row(page, "validation", "for each use");
    }
    let windows = match view.forbids_stale {
        true => "never".to_owned(),
        false => format!(
            "{} while it is validated, {} while the origin fails",
            show::duration(view.stale_while_revalidate_seconds),
            show::duration(view.stale_if_error_seconds)
        ),
    };
    row(page, "serve stale", &windows);
    if !view.coded_forms.is_empty() {
        row(page, "coded forms", &view.coded_forms.join(", "));
    }
    if !view.parts.is_empty() {
        let whole = view.complete_bytes.map(|bytes| format!(" of {bytes}")).unwrap_or_default();
        row(page, "bytes", &format!("{}{whole}", ranges(&view.parts)));
        row(
            page,
            "missing",
            if view.gaps.is_empty() { "nothing".into() } else { ranges(&view.gaps) }.as_str(),
        );
    }
}

/// Writes the variants: those that the request may select have a star.
fn variants(page: &mut String, view: &StoredView) {
    for variant in &view.variants {
        let field = |(name, value): &(String, Option<String>)| match value {
            Some(value) => format!("{name}: {value}"),
            None => format!("no {name}"),
        };
        let fields: Vec<String> = variant.fields.iter().map(field).collect();
        let place = match variant.tier.as_str() {
            "ram" => "in RAM",
            "disk" => "on disk",
            _ => "not stored",
        };
        let mark = if variant.is_selected { "*" } else { "-" };
        row(page, "", &format!("{mark} {}, {place}", fields.join(", ")));
    }
    if view.variants_left_out > 0 {
        row(page, "", &format!("and {} more in RAM", view.variants_left_out));
    }
    if !view.variants.is_empty() {
        row(
            page,
            "",
            "* is this request's; variants that only the disk has are listed if they are this request's",
        );
    }
}

fn ranges(ranges: &[(u64, u64)]) -> String {
    let shown: Vec<String> =
        ranges.iter().take(RANGES_MAX).map(|(first, last)| format!("{first}-{last}")).collect();
    let more = match ranges.len().saturating_sub(RANGES_MAX) {
        0 => String::new(),
        left_out => format!(" and {left_out} more"),
    };
    format!("{}{more}", shown.join(", "))
}

/// Ranges shown.
const RANGES_MAX: usize = 20;

fn reuse(page: &mut String, view: &ReuseView) {
    let title = match (view.hit, &view.fwd) {
        (Some(true), _) => "This request is a hit".to_owned(),
        (None, _) => "This request may be a hit".to_owned(),
        (Some(false), Some(fwd)) => format!("This request goes to the origin (fwd={fwd})"),
        (Some(false), None) => "This request is answered by the node itself".to_owned(),
    };
    let _ = writeln!(page, "\n{title}");
    row(page, "reason", &view.reason);
    if let Some(detail) = &view.detail {
        row(page, "detail", detail);
    }
    if let Some(remedy) = view.remedy.as_deref().filter(|_| view.hit != Some(true)) {
        row(page, "changed by", remedy);
    }
}

fn storing(page: &mut String, view: &StoringView) {
    let status = view.status;
    let answer = match view.answer.as_str() {
        "given" => format!("The supposed answer ({status})"),
        "stored" => format!("The stored answer ({status}), by the settings in force,"),
        _ => "An answer 200 without fields".to_owned(),
    };
    let verdict = if view.stored { "would be stored" } else { "would not be stored" };
    let _ = writeln!(page, "\n{answer} {verdict}");
    row(page, "reason", &view.reason);
    if view.answer == "plain" {
        row(page, "suppose", "--status and --response-header suppose another answer");
    }
    if let Some(detail) = &view.detail {
        row(page, "detail", detail);
    }
    let is_of_rule = |source: &&str| source.starts_with("rule.") || view.decided_by.starts_with("no-cache");
    let source = view.lifetime_source.as_deref().filter(|source| !is_of_rule(source));
    let decided = match (source, view.targeted) {
        (Some(source), true) => format!("{source} of a targeted field (RFC 9213), {}", view.decided_by),
        (Some(source), false) => format!("{source}, {}", view.decided_by),
        (None, _) => view.decided_by.clone(),
    };
    row(page, "decided by", &decided);
    row(page, "changed by", &view.remedy);
}

pub(super) fn row(page: &mut String, name: &str, value: &str) {
    if value != "None." {
        wrapped(page, &format!("  {name:<12} "), value);
    }
}

/// Writes a text behind `mark`, in lines of at most [`COLUMNS`]. A longer word has its own line.
fn wrapped(page: &mut String, mark: &str, text: &str) {
    let mut line = mark.to_owned();
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.chars().count() + word.chars().count() >= COLUMNS {
            let _ = writeln!(page, "{line}");
            line = " ".repeat(mark.len());
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    let _ = writeln!(page, "{line}");
}

/// Width of a line of prose.
const COLUMNS: usize = 100;

fn line(line: Option<usize>) -> String {
    line.map(|line| format!(" (line {line})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_proxy::admin::RuleSettingView;

    #[test]
    fn overruled_settings_name_the_winner() {
        let setting = |value: &str, part: &str, by: Option<&str>| RuleSettingView {
            name: "lifetime".into(),
            value: value.into(),
            part: part.into(),
            overruled_by: by.map(str::to_owned),
        };
        let rule = |key: &str, line, setting| RuleView {
            key: key.into(),
            line,
            settings: vec![setting],
            ..RuleView::default()
        };
        let matching = vec![
            rule("rule[0]", Some(3), setting("\"1m\"", "overruled", Some("rule[1]"))),
            rule("rule[1]", None, setting("\"2m\"", "wins", None)),
        ];
        let view = RulesView { combination: "the later one wins.".into(), matching, left_out: 0 };
        let shown = page(&Explanation { rules: view, ..Explanation::default() });
        assert!(
            shown
                .contains("  rule[0] (line 3): all requests\n    lifetime = \"1m\"   overruled by rule[1]\n")
        );
        assert!(shown.contains("How rules combine: the later one wins."), "{shown}");
    }
}
