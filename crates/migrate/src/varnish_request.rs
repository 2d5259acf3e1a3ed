//! `set` in `vcl_recv`: changes of the URL, the host, fields, and the choice of a backend.

use crate::document::{Section, SiteSection};
use crate::expressions;
use crate::value::Value;
use crate::varnish::{StepInPlace, Varnish};
use crate::varnish_backend::{site_of, text};
use crate::varnish_lexer::{Token, Word};
use crate::varnish_recv::{Findings, rules_for};
use crate::varnish_syntax::Condition;

/// Reads a `set`.
pub fn set(
    varnish: &mut Varnish<'_>,
    placed: &StepInPlace,
    (target, value): (&str, &[Token]),
    found: &mut Findings,
    site: &mut SiteSection,
) {
    let shown: String = value.iter().map(Token::shown).collect::<Vec<_>>().join("");
    match target {
        "req.url" => url(varnish, placed, value, &shown, found),
        "req.backend_hint" | "req.backend" => hint(varnish, placed, &shown, site),
        "req.http.cookie" => {
            if shown.contains("cookie.get_string") {
                placed.carried(varnish.ledger);
            } else {
                let why = "name the cookies that count in `cookies`; until then requests with any cookie pass by the cache";
                placed.left_out(varnish.ledger, why);
            }
        }
        "req.http.x-forwarded-for"
        | "req.http.x-forwarded-proto"
        | "req.http.accept-encoding"
        | "req.http.grace" => {
            placed.carried(varnish.ledger);
            varnish.ledger.needless(placed.step.line, "Shoal makes this field itself");
        }
        "req.http.host" => host(varnish, placed, value, &shown, found),
        "req.grace" | "req.ttl" | "req.hash_ignore_busy" | "req.hash_always_miss" | "req.esi" => {
            placed.left_out(varnish.ledger, "requests cannot change how the cache answers");
        }
        target if target.starts_with("req.http.") => {
            let name = &target["req.http.".len()..];
            match (template(value), rules_for(varnish, placed)) {
                (Some(value), Ok(list)) if list.iter().all(|one| one.clients.is_none() && !one.is_near) => {
                    placed.carried(varnish.ledger);
                    for one in list {
                        let mut rule = one.section;
                        rule.from = placed.from();
                        rule.set("request_set", Value::texts([format!("{name}: {value}")]), &[]);
                        found.changes.push(rule);
                    }
                }
                _ => placed.left_out(varnish.ledger, "rules have neither its value nor its condition"),
            }
        }
        _ => placed.left_out(varnish.ledger, "rules have no such step"),
    }
}

fn url(varnish: &mut Varnish<'_>, placed: &StepInPlace, value: &[Token], shown: &str, found: &mut Findings) {
    let texts: Vec<&str> = value
        .iter()
        .filter_map(|token| match &token.word {
            Word::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let from = placed.from();
    if shown.starts_with("std.querysort(req.url") {
        placed.carried(varnish.ledger);
        found.changes.push(Section::of(&from).with("query_sort", true));
        return;
    }
    let is_regsub = shown.starts_with("regsub(req.url") || shown.starts_with("regsuball(req.url");
    if is_regsub && let [pattern, ..] = texts.as_slice() {
        if [r"#.*$", r"#.*", r"\?$", r"\?&", r"(\?|&)$", r"[?|&]+$", r"(\?&|\?|&)$", r"\?&?$", r"[\?&]$"]
            .contains(pattern)
        {
            placed.carried(varnish.ledger);
            varnish.ledger.needless(placed.step.line, "such an end of the URL makes no difference");
            return;
        }
        if [r"\?.*$", r"\?.*"].contains(pattern) && placed.conditions.is_empty() {
            placed.carried(varnish.ledger);
            found.changes.push(Section::of(&from).with("query_keep", Value::List(Vec::new())));
            return;
        }
        if let Some(names) = parameters(pattern) {
            placed.carried(varnish.ledger);
            match found.changes.iter_mut().find(|rule| rule.get("query_drop").is_some()) {
                Some(rule) => rule.extend("query_drop", names.into_iter().map(Value::Text), &from),
                None => found.changes.push(Section::of(&from).with("query_drop", Value::texts(names))),
            }
            return;
        }
    }
    found.changed.push("req.url".into());
    placed.left_out(varnish.ledger, "rules drop, keep and sort parameters; they rewrite no paths");
}

/// Returns the names of the parameters that a `regsub` of the URL drops.
fn parameters(pattern: &str) -> Option<Vec<String>> {
    let start =
        pattern.rfind("utm_").map_or_else(|| pattern.find(['&', '?']), |_| pattern.find(['&', '?']))?;
    let text = &pattern[start..];
    let open = ["(\\?|&)", "(?:\\?|&)", "[?&]", "[\\?&]", "[&?]", "&", "\\?"];
    let before = ["(\\?|&)", "(?:\\?|&)", "[?&]", "[\\?&]", "[&?]", "&", "\\?"]
        .iter()
        .find_map(|sign| pattern.strip_prefix(sign));
    let text = before.or_else(|| open.iter().find_map(|sign| text.strip_prefix(sign)))?;
    let end = text.find('=')?;
    let names = expressions::alternatives(&text[..end])?;
    let names: Option<Vec<String>> = names
        .into_iter()
        .map(|name| {
            let any = [".+", ".*", "\\w+", "[a-z]+", "[a-z_]+", "[^=]+", "[^=]*", "[a-z]*"];
            match any.iter().find_map(|star| name.strip_suffix(star)) {
                Some(prefix) => expressions::literal(prefix).map(|prefix| format!("{prefix}*")),
                None => expressions::literal(name),
            }
        })
        .collect();
    names.filter(|names| !names.is_empty())
}

/// Reads the choice of a backend: by host or path prefix it makes a site.
fn hint(varnish: &mut Varnish<'_>, placed: &StepInPlace, shown: &str, site: &mut SiteSection) {
    let name = shown.split('.').next().unwrap_or_default().to_owned();
    let Some(mut chosen) = site_of(varnish, &name) else {
        placed.left_out(varnish.ledger, "its backend is not known");
        return;
    };
    let from = placed.from();
    if placed.conditions.is_empty() {
        placed.carried(varnish.ledger);
        chosen.section.from.extend(from);
        *site = chosen;
        return;
    }
    let prefix = match placed.conditions.as_slice() {
        [Condition::Test(name, "~", text)] if name == "req.url" => {
            text.strip_prefix('^').and_then(|text| expressions::literal(text.trim_end_matches(".*")))
        }
        _ => None,
    };
    if let Some(prefix) = prefix.filter(|prefix| prefix.starts_with('/') && prefix.len() > 1) {
        placed.carried(varnish.ledger);
        if !prefix.ends_with('/') {
            varnish.ledger.approximated(placed.step.line, "a prefix ends at a slash here");
        }
        chosen.section.set("path_prefix", prefix, &from);
        add_site(varnish, chosen);
        return;
    }
    match rules_for(varnish, placed) {
        Ok(list) if list.iter().all(|one| one.section.entries.iter().all(|entry| entry.key == "hosts")) => {
            placed.carried(varnish.ledger);
            let hosts: Vec<Value> = list
                .iter()
                .filter_map(|one| match one.section.get("hosts") {
                    Some(Value::List(hosts)) => Some(hosts.clone()),
                    _ => None,
                })
                .flatten()
                .collect();
            chosen.section.set("hosts", Value::List(hosts), &from);
            add_site(varnish, chosen);
        }
        _ => placed.left_out(
            varnish.ledger,
            "a site is chosen by host and path prefix; the default backend answers",
        ),
    }
}

fn add_site(varnish: &mut Varnish<'_>, mut site: SiteSection) {
    for other in &varnish.document.sites {
        if other.section.get("path_prefix") == site.section.get("path_prefix")
            && let Some(Value::List(taken)) = other.section.get("hosts").cloned()
            && let Some(entry) = site.section.entries.iter_mut().find(|entry| entry.key == "hosts")
            && let Value::List(hosts) = &mut entry.value
        {
            hosts.retain(|host| !taken.contains(host));
        }
    }
    varnish.document.sites.push(site);
}

fn host(varnish: &mut Varnish<'_>, placed: &StepInPlace, value: &[Token], shown: &str, found: &mut Findings) {
    let is_port = shown.contains(":[0-9]+")
        || shown.contains(":\\d+")
        || shown.contains("std.tolower")
        || shown.contains(".lower()");
    if is_port {
        placed.carried(varnish.ledger);
        varnish.ledger.needless(placed.step.line, "hosts are compared without port and case");
        return;
    }
    let name = text(value);
    match rules_for(varnish, placed) {
        Ok(list) if !name.is_empty() && list.iter().all(|one| one.clients.is_none()) => {
            placed.carried(varnish.ledger);
            for one in list {
                let mut rule = one.section;
                rule.from = placed.from();
                rule.set("host", name.as_str(), &[]);
                found.changes.push(rule);
            }
        }
        _ => placed.left_out(varnish.ledger, "a rule replaces hosts that it names, each by one name"),
    }
}

/// Writes a sum of strings and variables as a text of rules; `None` if a part has no equal.
pub fn template(value: &[Token]) -> Option<String> {
    let mut text = String::new();
    for token in value {
        match &token.word {
            Word::Text(part) => text.push_str(&part.replace('$', "$$")),
            Word::Sign("+") => {}
            Word::Name(name) => match name.to_ascii_lowercase().as_str() {
                "req.http.host" | "bereq.http.host" => text.push_str("$host"),
                "req.url" | "bereq.url" => text.push_str("$path?$query"),
                "client.ip" => text.push_str("$client"),
                name if name.parse::<f64>().is_ok() => text.push_str(name),
                "true" | "false" => text.push_str(name),
                _ => return None,
            },
            Word::Sign(_) => return None,
        }
    }
    (!text.is_empty() && !text.chars().any(char::is_control)).then_some(text)
}
