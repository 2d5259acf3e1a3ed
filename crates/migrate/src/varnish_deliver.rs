//! `vcl_hash` and `vcl_deliver`: parts of the key, and fields that clients see.

use crate::document::Section;
use crate::value::Value;
use crate::varnish::{StepInPlace, Varnish};
use crate::varnish_lexer::Word;
use crate::varnish_request::template;
use crate::varnish_syntax::Act;

/// Reads `vcl_hash`.
pub fn keys(varnish: &mut Varnish<'_>) {
    for placed in varnish.steps("vcl_hash") {
        if varnish.refuses(&placed) {
            continue;
        }
        let line = placed.step.line;
        match &placed.step.act {
            Act::Invoke(name, arguments) if name == "hash_data" => {
                let names: Vec<String> = arguments
                    .iter()
                    .filter_map(|token| match &token.word {
                        Word::Name(name) => Some(name.to_ascii_lowercase()),
                        _ => None,
                    })
                    .collect();
                key(varnish, &placed, &names);
            }
            Act::Return(..) => {
                placed.carried(varnish.ledger);
                varnish.ledger.needless(line, "URL and host are the key");
            }
            _ => left_out_key(varnish, &placed),
        }
    }
}

fn key(varnish: &mut Varnish<'_>, placed: &StepInPlace, names: &[String]) {
    let line = placed.step.line;
    match names {
        [name] if ["req.url", "req.http.host", "server.ip", "local.ip"].contains(&name.as_str()) => {
            placed.carried(varnish.ledger);
            varnish.ledger.needless(line, "URL and host are the key");
        }
        [name] if name == "req.http.x-forwarded-proto" => {
            placed.carried(varnish.ledger);
            varnish.ledger.needless(line, "the scheme is part of the key");
        }
        [name] if name.starts_with("req.http.") => {
            placed.carried(varnish.ledger);
            varnish.key_fields.push((name["req.http.".len()..].to_owned(), line));
        }
        [name, cookie] if name.starts_with("cookie.") || cookie.starts_with("cookie.") => {
            placed.carried(varnish.ledger);
            varnish.ledger.approximated(line, "all cookies select, not one of them");
            varnish.key_fields.push(("cookie".into(), line));
        }
        _ => left_out_key(varnish, placed),
    }
}

/// A part of the key that is lost would share answers that differ: nothing is stored.
fn left_out_key(varnish: &mut Varnish<'_>, placed: &StepInPlace) {
    placed.left_out(varnish.ledger, "keys have no such part, so that nothing is stored");
    let rule = Section::of(&placed.from()).with("store", false);
    varnish.document.rules.push(rule);
}

/// Reads `vcl_deliver`.
pub fn read(varnish: &mut Varnish<'_>) {
    for placed in varnish.steps("vcl_deliver") {
        if varnish.refuses(&placed) {
            continue;
        }
        let shown = format!("{:?}{:?}", placed.step.act, placed.conditions);
        if shown.contains("obj.hits") || shown.contains("obj.uncacheable") {
            placed.carried(varnish.ledger);
            varnish.ledger.needless(placed.step.line, "Cache-Status tells hits from misses");
            continue;
        }
        let is_plain = placed.conditions.is_empty();
        match &placed.step.act {
            Act::Return(..) => {
                placed.carried(varnish.ledger);
                varnish.ledger.needless(placed.step.line, "Shoal goes on by itself");
            }
            Act::Unset(target) if is_plain => match target.strip_prefix("resp.http.") {
                Some("x-varnish" | "via" | "age") => {
                    placed.carried(varnish.ledger);
                    varnish.ledger.needless(placed.step.line, "it concerns fields of the cache itself");
                }
                Some(field) => {
                    placed.carried(varnish.ledger);
                    let rule = Section::of(&placed.from()).with("response_remove", Value::texts([field]));
                    varnish.document.rules.push(rule);
                    if ["cache-control", "expires", "vary", "set-cookie"].contains(&field) {
                        varnish.document.rules.pop();
                        let why = "answers are judged by this field after rules have changed them";
                        varnish.ledger.left_out(placed.step.line, why);
                    }
                }
                None => placed.left_out(varnish.ledger, "rules have no such step"),
            },
            Act::Set(target, value) if is_plain => {
                let value = template(value).filter(|value| !value.contains("$client"));
                let judged = ["cache-control", "expires", "vary", "set-cookie", "pragma"];
                match (target.strip_prefix("resp.http."), value) {
                    (Some(field), Some(value)) if !judged.contains(&field) => {
                        placed.carried(varnish.ledger);
                        let text = format!("{field}: {value}");
                        let rule = Section::of(&placed.from()).with("response_set", Value::texts([text]));
                        varnish.document.rules.push(rule);
                    }
                    _ => placed.left_out(
                        varnish.ledger,
                        "rules set other fields, to texts that they know when answers arrive",
                    ),
                }
            }
            _ => placed
                .left_out(varnish.ledger, "fields are changed when answers arrive, by what is known then"),
        }
    }
}
