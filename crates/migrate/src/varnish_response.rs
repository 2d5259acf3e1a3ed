//! `vcl_backend_response`: lifetimes, storing, and fields of answers.

use crate::document::Section;
use crate::value::Value;
use crate::varnish::{StepInPlace, Varnish};
use crate::varnish_backend::{duration, text};
use crate::varnish_condition::alternatives;
use crate::varnish_lexer::Token;
use crate::varnish_request::template;
use crate::varnish_syntax::{Act, Condition};

/// Reads `vcl_backend_response`, and `vcl_fetch` of older files.
pub fn read(varnish: &mut Varnish<'_>) {
    for name in ["vcl_backend_response", "vcl_fetch"] {
        for placed in varnish.steps(name) {
            step(varnish, &placed);
        }
    }
}

fn step(varnish: &mut Varnish<'_>, placed: &StepInPlace) {
    match &placed.step.act {
        Act::Set(target, value) => set(varnish, placed, target, value),
        Act::Unset(target) => match target.strip_prefix("beresp.http.") {
            Some("set-cookie") => push(varnish, placed, |rule| rule.set("set_cookie", "strip", &[])),
            Some(field) => {
                let judged = ["cache-control", "expires", "pragma", "vary"].contains(&field);
                push(varnish, placed, |rule| rule.set("response_remove", Value::texts([field]), &[]));
                if judged {
                    let why = "answers are judged without the field here, while Varnish has read it already";
                    varnish.ledger.approximated(placed.step.line, why);
                }
            }
            None => placed.left_out(varnish.ledger, "rules have no such step"),
        },
        Act::Return(action, _) if action == "deliver" => {
            placed.carried(varnish.ledger);
            match placed.conditions.is_empty() {
                true => varnish
                    .ledger
                    .approximated(placed.step.line, "what is private or sets cookies is still not stored"),
                false => varnish.ledger.needless(placed.step.line, "rules go on by themselves"),
            }
        }
        Act::Return(action, _) if ["pass", "hit_for_pass", "abandon"].contains(&action.as_str()) => {
            uncacheable(varnish, placed)
        }
        Act::Invoke(name, _) if name.starts_with("std.log") => {
            placed.carried(varnish.ledger);
            varnish.ledger.needless(placed.step.line, "it changes no answer");
        }
        _ => placed.left_out(varnish.ledger, "rules have no such step"),
    }
}

fn set(varnish: &mut Varnish<'_>, placed: &StepInPlace, target: &str, value: &[Token]) {
    let word = text(value);
    match (target, duration(&word)) {
        ("beresp.ttl", _) if asks_uncacheable(&placed.conditions) => {
            placed.carried(varnish.ledger);
            varnish.ledger.needless(placed.step.line, "what is not stored is remembered for a while");
        }
        ("beresp.ttl", Some(0)) => push(varnish, placed, |rule| rule.set("store", false, &[])),
        ("beresp.ttl", Some(seconds)) => push(varnish, placed, |rule| {
            if rule.get("statuses").is_none() {
                rule.set("statuses", Value::texts(STATUSES), &[]);
            }
            rule.set("lifetime", Value::seconds(seconds), &[]);
        }),
        ("beresp.grace", Some(seconds)) => push(varnish, placed, |rule| {
            rule.set("stale_while_revalidate", Value::seconds(seconds), &[]);
            rule.set("stale_if_error", Value::seconds(seconds), &[]);
        }),
        ("beresp.keep", _) => {
            placed.carried(varnish.ledger);
            varnish
                .ledger
                .needless(placed.step.line, "stale answers stay for validation until their room is needed");
        }
        ("beresp.uncacheable", _) if word == "true" => uncacheable(varnish, placed),
        ("beresp.do_stream", _) => {
            placed.carried(varnish.ledger);
            varnish.ledger.needless(placed.step.line, "bodies are passed on as they arrive");
        }
        ("beresp.do_gzip" | "beresp.do_gunzip", _) => {
            placed.left_out(
                varnish.ledger,
                "each coding that the origin sends is stored; [compress] makes them at the edge",
            );
        }
        ("beresp.do_esi", _) => {
            placed.left_out(varnish.ledger, "pages with ESI come as the origin sends them")
        }
        (target, _) => match (target.strip_prefix("beresp.http."), template(value)) {
            (Some(field), _) if ["x-url", "x-host"].contains(&field) => {
                placed.carried(varnish.ledger);
                varnish.ledger.needless(placed.step.line, "it is for bans of Varnish");
            }
            (Some(field), Some(value)) if !value.contains("$client") => {
                let field = field.to_owned();
                push(varnish, placed, |rule| {
                    rule.set("response_set", Value::texts([format!("{field}: {value}")]), &[])
                });
            }
            _ => placed.left_out(varnish.ledger, "rules have neither its name nor its value"),
        },
    }
}

/// Reads a step that keeps an answer from the cache.
fn uncacheable(varnish: &mut Varnish<'_>, placed: &StepInPlace) {
    let is_background = placed.conditions.iter().any(|one| format!("{one:?}").contains("bereq.is_bgfetch"));
    if is_background {
        placed.carried(varnish.ledger);
        varnish.ledger.needless(
            placed.step.line,
            "an error in answer to a validation in the background leaves the stored answer in place",
        );
        return;
    }
    if asks_uncacheable(&placed.conditions) {
        placed.carried(varnish.ledger);
        varnish.ledger.needless(placed.step.line, "such answers are not stored anyway");
        return;
    }
    let is_known =
        placed.condition().is_none_or(|condition| alternatives(&condition, &varnish.lists).is_ok());
    if !is_known {
        placed.carried(varnish.ledger);
        varnish
            .ledger
            .approximated(placed.step.line, "the condition has no equal, so that nothing is stored at all");
        let rule = Section::of(&placed.from()).with("store", false);
        varnish.document.rules.push(rule);
        return;
    }
    push(varnish, placed, |rule| rule.set("store", false, &[]));
}

/// Returns `true` if a condition asks for answers that Shoal does not store by itself.
fn asks_uncacheable(conditions: &[Condition]) -> bool {
    let is_one = |condition: &Condition| match condition {
        Condition::Test(name, "", _) => name == "beresp.http.set-cookie",
        Condition::Test(name, "<=", value) => name == "beresp.ttl" && value.starts_with('0'),
        Condition::Test(name, "==", value) => name == "beresp.http.vary" && value == "*",
        Condition::Test(name, "~", value) => {
            name.starts_with("beresp.http.")
                && ["no-cache", "no-store", "private"].iter().any(|word| value.contains(word))
        }
        _ => false,
    };
    let [one] = conditions else { return false };
    match one {
        Condition::Any(list) => list.iter().all(is_one),
        one => is_one(one),
    }
}

/// Adds a rule with the conditions of a step for each alternative.
fn push(varnish: &mut Varnish<'_>, placed: &StepInPlace, edit: impl Fn(&mut Section)) {
    let list = match placed.condition() {
        None => Ok(vec![Default::default()]),
        Some(condition) => alternatives(&condition, &varnish.lists),
    };
    match list {
        Ok(list) if list.iter().all(|one| one.clients.is_none()) => {
            placed.carried(varnish.ledger);
            for one in list {
                if one.is_near {
                    varnish.ledger.approximated(placed.step.line, "nearly the same requests are meant");
                }
                let mut rule = one.section;
                rule.from = placed.from();
                edit(&mut rule);
                varnish.document.rules.push(rule);
            }
        }
        Ok(_) => placed.left_out(varnish.ledger, "answers do not differ by client"),
        Err(why) => placed.left_out(varnish.ledger, &why),
    }
}

/// Statuses that Varnish stores.
const STATUSES: [&str; 11] = ["200", "203", "204", "300", "301", "302", "304", "307", "404", "410", "414"];
