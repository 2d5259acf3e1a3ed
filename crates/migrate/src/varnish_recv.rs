//! `vcl_recv`: requests that pass, that are refused, and the changes of the others.
//!
//! The first `return` that a request comes to decides in VCL, while later rules win here. So the
//! decisions come in reverse, behind the changes.

use crate::document::{Section, SiteSection};
use crate::redirects;
use crate::value::Value;
use crate::varnish::{StepInPlace, Varnish};
use crate::varnish_condition::{Alternative, alternatives, is_purge};
use crate::varnish_lexer::{Token, Word};
use crate::varnish_request::{set, template};
use crate::varnish_syntax::{ABSENT, Act, Condition};

/// Rules of `vcl_recv`, as they are found.
#[derive(Default)]
pub struct Findings {
    /// Changes of requests, in the order of the text.
    pub changes: Vec<Section>,
    /// Requests that pass or are looked up, in the order of the text.
    decisions: Vec<Section>,
    /// Refusals and redirects.
    answers: Vec<Section>,
    /// Cookies that stay, by `cookie.keep`.
    kept_cookies: Option<Vec<String>>,
    /// Parts of requests that steps so far have set or removed.
    pub changed: Vec<String>,
    /// `true` if all requests lose their cookies.
    drops_cookies: bool,
    /// `true` if every request is looked up, also with cookies.
    looks_up_all: bool,
}

/// Reads `vcl_recv`.
pub fn read(varnish: &mut Varnish<'_>, site: &mut SiteSection) {
    let mut found = Findings::default();
    for placed in varnish.steps("vcl_recv") {
        step(varnish, &placed, &mut found, site);
        if let Act::Set(target, _) | Act::Unset(target) = &placed.step.act
            && target != "req.url"
        {
            found.changed.push(target.clone());
        }
    }
    let rules = &mut varnish.document.rules;
    let cookies = match &found.kept_cookies {
        Some(kept) => kept.iter().map(|name| format!("Cookie: *{name}=*")).collect(),
        None if found.drops_cookies => Vec::new(),
        None => vec!["Cookie".to_owned()],
    };
    if !found.looks_up_all && !cookies.is_empty() {
        let mut rule = Section::default().with("request_fields", Value::texts(cookies));
        rule.note("Varnish passes requests with cookies by the cache.");
        rules.push(rule.with("pass", true));
    }
    rules.append(&mut found.changes);
    if !found.looks_up_all {
        let mut rule = Section::default().with("request_fields", Value::texts(["Authorization"]));
        rule.note("Varnish passes requests with credentials by the cache.");
        rules.push(rule.with("pass", true));
    }
    found.decisions.reverse();
    rules.append(&mut found.decisions);
    rules.append(&mut found.answers);
}

/// Returns the rules that ask for the conditions of a step.
pub fn rules_for(varnish: &Varnish<'_>, placed: &StepInPlace) -> Result<Vec<Alternative>, String> {
    match placed.condition() {
        None => Ok(vec![Alternative::default()]),
        Some(condition) => alternatives(&condition, &varnish.lists),
    }
}

fn step(varnish: &mut Varnish<'_>, placed: &StepInPlace, found: &mut Findings, site: &mut SiteSection) {
    match &placed.step.act {
        Act::Return(action, arguments) => decision(varnish, placed, (action, arguments), found),
        Act::Invoke(name, arguments) if name == "error" => {
            let action = "synth".to_owned();
            decision(varnish, placed, (&action, arguments), found);
        }
        Act::Unset(target) => unset(varnish, placed, target, found),
        Act::Set(target, value) => set(varnish, placed, (target, value), found, site),
        Act::Invoke(name, arguments) if name == "cookie.keep" || name == "cookie.filter_except" => {
            placed.carried(varnish.ledger);
            let list: String = arguments
                .iter()
                .filter_map(|token| match &token.word {
                    Word::Text(text) => Some(text.as_str()),
                    _ => None,
                })
                .collect();
            let names: Vec<String> =
                list.split(',').map(|name| name.trim().to_owned()).filter(|n| !n.is_empty()).collect();
            let rule = Section::of(&placed.from()).with("cookies", Value::texts(names.iter().cloned()));
            found.kept_cookies = Some(names);
            found.changes.push(rule);
        }
        Act::Invoke(name, _)
            if name.starts_with("cookie.") || name.starts_with("std.log") || name == "std.collect" =>
        {
            placed.carried(varnish.ledger);
            varnish.ledger.needless(placed.step.line, "it changes no request");
        }
        Act::Call(name) if name == ABSENT => {
            let rule = Section::of(&[placed.step.line]).with("deny", 403);
            found.answers.push(rule.guard());
            varnish.ledger.unsafe_line(placed.step.line, "all requests are refused until it is read");
        }
        _ => placed.left_out(varnish.ledger, "rules have no such step"),
    }
}

fn decision(
    varnish: &mut Varnish<'_>,
    placed: &StepInPlace,
    (action, arguments): (&String, &[Token]),
    found: &mut Findings,
) {
    match action.as_str() {
        "pass" | "hash" | "lookup" => passed(varnish, placed, action == "pass", found),
        "pipe" => {
            placed.carried(varnish.ledger);
            let why = "requests with other methods or an Upgrade pass through by themselves";
            varnish.ledger.approximated(placed.step.line, why);
        }
        "purge" => purge(varnish, placed),
        "synth" => answer(varnish, placed, arguments, found),
        _ => placed.left_out(varnish.ledger, "rules have no such step"),
    }
}

fn passed(varnish: &mut Varnish<'_>, placed: &StepInPlace, is_pass: bool, found: &mut Findings) {
    if is_by_method(&placed.conditions) {
        placed.carried(varnish.ledger);
        varnish.ledger.needless(placed.step.line, "only answers to GET are stored");
        return;
    }
    if placed.conditions.is_empty() && !is_pass {
        placed.carried(varnish.ledger);
        found.looks_up_all = true;
        let why = "Varnish then shares answers made for cookies; Shoal shares them as the origin allows";
        varnish.ledger.approximated(placed.step.line, why);
        return;
    }
    match rules_for(varnish, placed) {
        Ok(list) if list.iter().all(|one| one.clients.is_none()) => {
            placed.carried(varnish.ledger);
            for one in list {
                if one.is_near {
                    varnish.ledger.approximated(placed.step.line, "nearly the same requests are meant");
                }
                let mut rule = one.section;
                rule.from = placed.from();
                found.decisions.push(rule.with("pass", is_pass));
            }
        }
        _ if is_pass => {
            placed.carried(varnish.ledger);
            let why = "the condition has no equal, so that nothing is stored at all";
            varnish.ledger.approximated(placed.step.line, why);
            found.decisions.insert(0, Section::of(&placed.from()).with("store", false));
        }
        _ => placed.left_out(varnish.ledger, "the condition has no equal; these requests pass by the cache"),
    }
}

/// Returns `true` if a condition asks for methods other than GET and HEAD alone.
fn is_by_method(conditions: &[Condition]) -> bool {
    let is_method = |condition: &Condition| match condition {
        Condition::Test(name, "!=", _) => name == "req.method" || name == "req.request",
        Condition::Test(name, "==", value) => {
            (name == "req.method" || name == "req.request")
                && !["GET", "HEAD", "PURGE", "BAN"].contains(&value.as_str())
        }
        Condition::Test(name, "!~", value) => name == "req.method" && value.contains("GET"),
        _ => false,
    };
    let [one] = conditions else { return false };
    match one {
        Condition::All(list) | Condition::Any(list) => list.iter().all(is_method),
        one => is_method(one),
    }
}

/// Reads `return (purge)`: clients of an acl may purge.
fn purge(varnish: &mut Varnish<'_>, placed: &StepInPlace) {
    let mut nets = None;
    let mut open = placed.conditions.clone();
    while let Some(condition) = open.pop() {
        match condition {
            Condition::All(list) => open.extend(list),
            Condition::Test(name, "~", list) if name == "client.ip" => {
                nets = varnish.lists.get(&list).map(|list| list.networks.clone())
            }
            // The refusal of other clients stands before this step.
            _ => {}
        }
    }
    let nets = nets.or_else(|| {
        varnish.lists.iter().find(|(name, _)| name.contains("purge")).map(|(_, list)| list.networks.clone())
    });
    match nets {
        Some(nets) => {
            placed.carried(varnish.ledger);
            let nets = nets.iter().map(|net| net.to_string());
            varnish.document.table("admin").set("purge_from", Value::texts(nets), &placed.from());
        }
        None => {
            placed.left_out(varnish.ledger, "no acl says who may purge; name networks in admin.purge_from")
        }
    }
}

fn answer(varnish: &mut Varnish<'_>, placed: &StepInPlace, arguments: &[Token], found: &mut Findings) {
    let status = arguments
        .iter()
        .find_map(|token| token.name().and_then(|name| name.parse::<u16>().ok()))
        .unwrap_or(403);
    if placed.conditions.iter().any(is_of_purges) {
        placed.carried(varnish.ledger);
        varnish.ledger.needless(placed.step.line, "only the networks of admin.purge_from may purge");
        return;
    }
    let mut parts = arguments.iter().skip_while(|token| !token.is(",")).skip(1).peekable();
    let is_redirect = (300..400).contains(&status) || status >= 700;
    if is_redirect && parts.peek().is_some() {
        let value: Vec<Token> = parts.filter(|token| !token.is(")")).cloned().collect();
        redirect(varnish, placed, (status, &value), found);
        return;
    }
    if !(400..600).contains(&status) {
        placed.left_out(varnish.ledger, "rules refuse and redirect; they make no pages");
        return;
    }
    placed.carried(varnish.ledger);
    let changed = placed.conditions.iter().find_map(|condition| asked(condition, &found.changed));
    let rules = match changed {
        // Rules look at the fields that clients send.
        Some(name) if !["req.url", "req.http.host"].contains(&name) => {
            Err(format!("{name} is set before, and rules ask for what clients send"))
        }
        _ => rules_for(varnish, placed),
    };
    if changed.is_some() && rules.is_ok() {
        let why = "URL or host are changed before; the rule compares them as clients send them";
        varnish.ledger.unsafe_line(placed.step.line, why);
    }
    match rules {
        Ok(list) => list.into_iter().for_each(|one| refuse(varnish, placed, (status, one), found)),
        Err(why) => {
            varnish.ledger.unsafe_line(placed.step.line, format!("{why}. All requests are refused"));
            found.answers.push(Section::of(&placed.from()).with("deny", 403).guard());
        }
    }
}

/// Returns `true` if a condition holds for requests to purge alone.
fn is_of_purges(condition: &Condition) -> bool {
    match condition {
        Condition::Test(name, "==", value) => is_purge(name, value),
        Condition::All(list) => list.iter().any(is_of_purges),
        Condition::Any(list) => !list.is_empty() && list.iter().all(is_of_purges),
        _ => false,
    }
}

/// Returns the first of these names that a condition asks for.
fn asked<'a>(condition: &Condition, names: &'a [String]) -> Option<&'a str> {
    match condition {
        Condition::Test(name, ..) => names.iter().find(|other| *other == name).map(String::as_str),
        Condition::Not(inner) => asked(inner, names),
        Condition::All(list) | Condition::Any(list) => list.iter().find_map(|inner| asked(inner, names)),
        Condition::Opaque(text) => names.iter().find(|name| text.contains(*name)).map(String::as_str),
    }
}

fn refuse(
    varnish: &mut Varnish<'_>,
    placed: &StepInPlace,
    (status, one): (u16, Alternative),
    found: &mut Findings,
) {
    if one.is_near {
        let why = "the rule compares case and hosts more closely than the expression: add other spellings";
        varnish.ledger.unsafe_line(placed.step.line, why);
    }
    let mut rule = one.section;
    rule.from = placed.from();
    let nets = one.clients.and_then(|(nets, is_negated)| match is_negated {
        true => Some(nets),
        false => crate::networks::subtract(&crate::networks::everyone(), &nets),
    });
    match nets {
        Some(nets) => {
            rule.set("allow_clients", Value::texts(nets.iter().map(|net| net.to_string())), &[]);
            if status != 403 {
                varnish.ledger.approximated(placed.step.line, "other clients get 403");
            }
        }
        None => rule.set("deny", u64::from(status), &[]),
    }
    match one.in_query {
        Some(patterns) if !patterns.is_empty() => {
            let mut more = rule.clone();
            more.entries.retain(|entry| entry.key != "path_regex");
            more.set("query", Value::texts(patterns), &[]);
            found.answers.push(more.guard());
        }
        Some(_) => {
            let why = "the expression is compared with the path alone, not with the query";
            varnish.ledger.unsafe_line(placed.step.line, why);
        }
        None => {}
    }
    found.answers.push(rule.guard());
}

fn redirect(
    varnish: &mut Varnish<'_>,
    placed: &StepInPlace,
    (status, value): (u16, &[Token]),
    found: &mut Findings,
) {
    let to = template(value).filter(|to| to.contains("://"));
    let status = if (301..=308).contains(&status) { status } else { 301 };
    let is_upgrade = to.as_ref().is_some_and(|to| to.starts_with("https://$host"));
    let asks_scheme = placed.conditions.iter().any(|condition| {
        let text = format!("{condition:?}").to_ascii_lowercase();
        text.contains("x-forwarded-proto")
            || text.contains("req.http.https")
            || text.contains("std.port")
            || text.contains("local.")
    });
    let rules = match asks_scheme && is_upgrade {
        // A redirect to the URL itself is left out, so that https is not redirected to https.
        true => Ok(vec![Alternative::default()]),
        false => rules_for(varnish, placed),
    };
    match (to, rules) {
        (Some(to), Ok(list)) if list.iter().all(|one| one.clients.is_none()) => {
            placed.carried(varnish.ledger);
            for one in list {
                let mut rule = one.section;
                rule.from = placed.from();
                found.answers.extend(redirects::rules(rule, &to, status));
            }
        }
        _ => placed.left_out(varnish.ledger, "rules have no such condition or target"),
    }
}

fn unset(varnish: &mut Varnish<'_>, placed: &StepInPlace, target: &str, found: &mut Findings) {
    let Some(field) = target.strip_prefix("req.http.") else {
        placed.left_out(varnish.ledger, "rules have no such step");
        return;
    };
    if field == "cookie" && asks_for_empty(&placed.conditions) {
        placed.carried(varnish.ledger);
        varnish.ledger.needless(placed.step.line, "an empty field says nothing");
        return;
    }
    if ["accept-encoding", "x-forwarded-for", "proxy", "grace"].contains(&field) {
        placed.carried(varnish.ledger);
        varnish.ledger.needless(placed.step.line, "Shoal makes this field itself");
        return;
    }
    let list = match rules_for(varnish, placed) {
        Ok(list) if list.iter().all(|one| one.clients.is_none()) => list,
        _ => {
            placed.left_out(varnish.ledger, "the condition has no equal; the field stays");
            return;
        }
    };
    placed.carried(varnish.ledger);
    for one in list {
        if one.is_near {
            varnish.ledger.approximated(placed.step.line, "nearly the same requests are meant");
        }
        let mut rule = one.section;
        rule.from = placed.from();
        if field == "cookie" {
            found.drops_cookies |= placed.conditions.is_empty();
            rule.set("cookies", Value::List(Vec::new()), &[]);
            rule.set("pass", false, &[]);
            if placed.conditions.is_empty() {
                rule.entries.retain(|entry| entry.key == "cookies");
            }
        } else {
            rule.set("request_remove", Value::texts([field]), &[]);
        }
        found.changes.push(rule);
    }
}

/// Returns `true` if a condition asks if a field is empty.
fn asks_for_empty(conditions: &[Condition]) -> bool {
    conditions.iter().any(|condition| {
        matches!(condition, Condition::Test(_, "==", value) if value.is_empty())
            || matches!(condition, Condition::Test(_, "~", value) if value.replace("\\s", "") == "^*$")
    })
}
