//! Removes settings that the check of settings refuses, so that the file always passes it.
//!
//! A rule that refuses requests is not lost with one of its conditions: it then refuses more, and a
//! notice says so.

use crate::Error;
use crate::document::{Document, Section};
use crate::ledger::{Ledger, LineId};
use crate::render::bare;
use crate::value::Value;
use shoal_settings::SettingsSource;

/// Checks the document and removes each setting with a mistake.
///
/// # Errors
/// A mistake that no removal mends, such as a file without a listener.
pub fn prune(document: &mut Document, ledger: &mut Ledger) -> Result<(), Error> {
    for _ in 0..ROUNDS_MAX {
        let found = mistakes(&bare(document));
        // Settings without a listener would open the default one, in forward mode.
        if document.listen.is_empty() {
            return Err(Error::Nothing("no listener comes out of this text".into()));
        }
        if found.is_empty() {
            return Ok(());
        }
        for (key, why) in found.into_iter().rev() {
            let is_mended = remove(document, ledger, &key, &why);
            if !is_mended {
                return Err(Error::Nothing(format!("no settings come out of this text: {key}: {why}")));
            }
        }
    }
    Err(Error::Nothing("no settings come out of this text: its mistakes do not end".into()))
}

/// Returns `true` if a settings file passes the check of settings.
pub fn is_sound(text: &str) -> bool {
    mistakes(text).is_empty()
}

/// Returns every mistake of a settings file as setting and message, in the order of the file.
fn mistakes(text: &str) -> Vec<(String, String)> {
    let source = SettingsSource {
        file: "shoal.toml",
        text,
        overrides: Vec::new(),
        readable: &|_| Ok(()),
        further: &shoal_rules::mistakes,
    };
    let found = source.read().err().unwrap_or_default();
    found.into_iter().map(|mistake| (mistake.key, mistake.message)).collect()
}

/// Removes the setting at `key`; returns `false` if nothing was there to remove.
fn remove(document: &mut Document, ledger: &mut Ledger, key: &str, why: &str) -> bool {
    let path = path_of(key);
    let steps: Vec<(&str, Option<usize>)> = path.iter().map(|(name, at)| (name.as_str(), *at)).collect();
    match steps.as_slice() {
        [("listen", Some(at)), ..] => drop_section(&mut document.listen, *at, ledger, why),
        [("neighbour", Some(at)), ..] => drop_section(&mut document.neighbours, *at, ledger, why),
        [("rule", Some(at))] => mend(&mut document.rules, *at, "name", ledger, why),
        [("site", Some(site)), ("rule", Some(at))] => {
            document.sites.get_mut(*site).is_some_and(|site| mend(&mut site.rules, *at, "name", ledger, why))
        }
        [("rule", Some(at)), (name, _), ..] => mend(&mut document.rules, *at, name, ledger, why),
        [("site", Some(site)), ("rule", Some(at)), (name, _), ..] => {
            document.sites.get_mut(*site).is_some_and(|site| mend(&mut site.rules, *at, name, ledger, why))
        }
        [("site", Some(at)), rest @ ..] => drop_site(document, *at, rest, ledger, why),
        [(table, None), (name, at), ..] => {
            let section = document.tables.iter_mut().find(|(other, _)| other == table);
            section.is_some_and(|(_, section)| {
                at.is_some_and(|at| drop_element(section, name, at, ledger, why))
                    || drop_entry(section, name, ledger, why)
            })
        }
        [(name, None)] => drop_entry(&mut document.top, name, ledger, why),
        _ => false,
    }
}

fn drop_site(
    document: &mut Document,
    at: usize,
    rest: &[(&str, Option<usize>)],
    ledger: &mut Ledger,
    why: &str,
) -> bool {
    let Some(site) = document.sites.get_mut(at) else { return false };
    if let [(name, _), ..] = rest
        && !["hosts", "upstreams", "path_prefix"].contains(name)
        && drop_entry(&mut site.section, name, ledger, why)
    {
        return true;
    }
    let before = document.sites.len();
    let site = document.sites.remove(at);
    debug_assert_eq!(document.sites.len() + 1, before, "one site goes");
    let rules = site.rules.iter().flat_map(Section::lines);
    let lines: Vec<LineId> = site.section.lines().into_iter().chain(rules).collect();
    lines.into_iter().for_each(|line| ledger.left_out(line, format!("the site cannot be written: {why}")));
    true
}

fn drop_section(sections: &mut Vec<Section>, at: usize, ledger: &mut Ledger, why: &str) -> bool {
    if at >= sections.len() {
        return false;
    }
    let section = sections.remove(at);
    section.lines().into_iter().for_each(|line| ledger.left_out(line, why));
    true
}

/// Removes a rule with a mistake. A rule that refuses keeps its sound parts, unless its effect
/// itself is at fault: then it refuses with 403.
fn mend(rules: &mut Vec<Section>, at: usize, name: &str, ledger: &mut Ledger, why: &str) -> bool {
    let Some(rule) = rules.get_mut(at) else { return false };
    if !rule.is_guard {
        return drop_section(rules, at, ledger, why);
    }
    let before = rule.entries.len();
    let effects = ["allow_clients", "deny", "redirect", "users_file", "allow_certificates", "satisfy"];
    let is_effect = effects.contains(&name);
    let lines = rule.lines();
    rule.entries.retain(|entry| entry.key != name);
    debug_assert!(rule.is_guard, "only a guard is mended");
    // Without one of its conditions, a rule that lets clients in would let more of them in.
    if rule.get("allow_clients").is_some() {
        rule.set("allow_clients", Value::List(Vec::new()), &[]);
        rule.set("satisfy", "all", &[]);
    }
    if is_effect || rule.entries.len() == before {
        rule.entries.retain(|entry| CONDITIONS.contains(&entry.key) && entry.key != name);
        rule.set("deny", 403, &[]);
        debug_assert!(rule.get("allow_clients").is_none(), "a guard that denies lets nobody in");
        if before == rule.entries.len() && !is_effect {
            rules.remove(at);
        }
    }
    for line in lines {
        ledger.unsafe_line(line, format!("{name}: {why}; the rule below refuses without it"));
    }
    true
}

fn drop_entry(section: &mut Section, name: &str, ledger: &mut Ledger, why: &str) -> bool {
    let Some(at) = section.entries.iter().position(|entry| entry.key == name) else { return false };
    let entry = section.entries.remove(at);
    for line in entry.from {
        match GUARDS.contains(&name) {
            true => ledger.unsafe_line(line, format!("{name}: {why}")),
            false => ledger.left_out(line, why),
        }
    }
    true
}

/// Removes one value of a list; `false` if it is the last one. The other refusals of the list stay.
fn drop_element(section: &mut Section, name: &str, at: usize, ledger: &mut Ledger, why: &str) -> bool {
    let Some(entry) = section.entries.iter_mut().find(|entry| entry.key == name) else { return false };
    let Value::List(list) = &mut entry.value else { return false };
    if at >= list.len() || list.len() == 1 {
        return false;
    }
    list.remove(at);
    for line in &entry.from {
        match GUARDS.contains(&name) {
            true => ledger.unsafe_line(*line, format!("{name}: {why}")),
            false => ledger.left_out(*line, why),
        }
    }
    true
}

/// Parts of a key: `site[0].rule[2].paths[1]`.
fn path_of(key: &str) -> Vec<(String, Option<usize>)> {
    let part = |text: &str| match text.split_once('[') {
        Some((name, rest)) => (name.to_owned(), rest.trim_end_matches(']').parse().ok()),
        None => (text.to_owned(), None),
    };
    key.split('.').map(part).collect()
}

/// Conditions of a rule.
const CONDITIONS: [&str; 10] = [
    "name",
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
/// Settings of tables that refuse something.
const GUARDS: [&str; 5] =
    ["allow_clients", "connect_ports", "request_ports", "deny_destinations", "users_file"];
/// Most checks of one document.
const ROUNDS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Document {
        let mut document = Document::default();
        let listen = Section::default().with("address", "127.0.0.1:3128").with("mode", "forward");
        document.listen.push(listen);
        document
    }

    #[test]
    fn unsound_settings_go_and_the_rest_stays() {
        let (mut document, mut ledger) = (sound(), Ledger::default());
        let line = ledger.add("a", 1, "cache_mem 1 KB").expect("room");
        document.table("cache").set("ram", Value::bytes(1000), &[line]);
        document.rules.push(Section::of(&[line]).with("path_regex", "(").with("store", false));
        prune(&mut document, &mut ledger).expect("mended");
        assert!(document.rules.is_empty() && document.table("cache").get("ram").is_none());
        assert_eq!(ledger.summary().left_out, 1);
    }

    #[test]
    fn refusals_lose_conditions_and_stay() {
        let (mut document, mut ledger) = (sound(), Ledger::default());
        let line = ledger.add("a", 1, "deny").expect("room");
        document.rules.push(Section::of(&[line]).with("path_regex", "(").with("deny", 403).guard());
        prune(&mut document, &mut ledger).expect("mended");
        assert_eq!(bare(&document).matches("deny = 403").count(), 1);
        assert_eq!(ledger.summary().notices.len(), 1);
    }

    #[test]
    fn one_bad_destination_leaves_the_others() {
        let (mut document, mut ledger) = (sound(), Ledger::default());
        let line = ledger.add("a", 1, "http_access deny bad").expect("room");
        let hosts = Value::texts(["good.example", "not a host", "other.example"]);
        document.table("forward").set("deny_destinations", hosts, &[line]);
        prune(&mut document, &mut ledger).expect("mended");
        assert!(bare(&document).contains("[\"good.example\", \"other.example\"]"));
        assert_eq!(ledger.summary().notices.len(), 1);
    }

    #[test]
    fn nothing_to_serve_is_an_error() {
        assert!(prune(&mut Document::default(), &mut Ledger::default()).is_err());
        let mut document = Document::default();
        document.listen.push(Section::default().with("address", "nowhere").with("mode", "reverse"));
        document.sites.push(Default::default());
        assert!(prune(&mut document, &mut Ledger::default()).is_err());
    }
}
