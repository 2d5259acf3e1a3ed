//! Caching in nginx: folders, keys, lifetimes, stale answers, and requests that pass by.

use crate::document::{Document, Section};
use crate::ledger::{Ledger, LineId};
use crate::nginx::{Nginx, bytes, seconds};
use crate::nginx_access::PathTest;
use crate::nginx_condition::{RequestTest, condition, variable_test};
use crate::nginx_location::Location;
use crate::nginx_syntax::Directive;
use crate::value::Value;

/// A `proxy_cache_path`.
#[derive(Clone, Debug)]
pub struct CacheFolder {
    /// Time after its last use for which an answer stays, in seconds.
    pub inactive: u64,
}

/// Reads every `proxy_cache_path` into `[store]`.
pub fn folders(
    level: &[Directive],
    ledger: &mut Ledger,
    document: &mut Document,
) -> Vec<(String, CacheFolder)> {
    let mut found = Vec::new();
    let (mut disk, mut has_limits, mut lines) = (0u64, true, Vec::new());
    for directive in level.iter().filter(|directive| directive.name == "proxy_cache_path") {
        let value = |name: &str| directive.words.iter().find_map(|word| word.strip_prefix(name));
        let zone = value("keys_zone=").and_then(|zone| zone.split(':').next()).unwrap_or_default();
        let inactive = value("inactive=").and_then(seconds).unwrap_or(600);
        found.push((zone.to_owned(), CacheFolder { inactive }));
        match value("max_size=").and_then(bytes) {
            Some(size) => disk = disk.saturating_add(size),
            None => has_limits = false,
        }
        lines.push(directive.line);
        ledger.approximated(
            directive.line,
            "the store has a folder of its own, and its index finds room by itself; nothing leaves it for age alone",
        );
    }
    if !lines.is_empty() {
        let store = document.table("store");
        store.set("directory", STORE_FOLDER, &lines);
        if disk > 0 {
            store.set("disk", Value::bytes(disk.clamp(1_000_000, 4 << 40)), &[]);
        }
        if !has_limits {
            store.note("A cache without max_size fills the disk; here `disk` is a limit.");
        }
    }
    found
}

/// Adds the rules of a location for storing.
pub fn rules(nginx: &mut Nginx<'_>, location: &Location<'_>, test: &PathTest, rules: &mut Vec<Section>) {
    let line = location.block.line;
    let cache = location.last("proxy_cache").filter(|directive| directive.word(0) != "off");
    let Some(cache) = cache else {
        let mut rule = test.section(&[line]);
        rule.set("store", false, &[]);
        rule.note("nginx caches nothing here.");
        if let Some(off) = location.last("proxy_cache") {
            nginx.ledger.carried(off.line);
        }
        rules.push(rule);
        return;
    };
    nginx.caches = true;
    nginx.ledger.approximated(cache.line, SHARES_LESS);
    let inactive = nginx.folders.get(cache.word(0)).map_or(600, |folder| folder.inactive);
    let mut base = test.section(&[cache.line]);
    base.note("nginx does not heed no-cache of clients.");
    base.set("ignore_client_no_cache", true, &[]);
    if !test.section(&[]).entries.is_empty() {
        base.set("store", true, &[]);
    }
    stale(nginx, location, inactive, &mut base);
    let is_instead = ignored(nginx, location, &mut base);
    let has_key = key(nginx, location, &mut base);
    let mut passes = Vec::new();
    let may_store = has_key && pass_rules(nginx, location, test, &mut passes);
    if !may_store {
        base.entries.retain(|entry| !["share_private", "ignore_origin"].contains(&entry.key));
        base.set("store", false, &[]);
        rules.push(base);
        return;
    }
    if let Some(uses) = location.last("proxy_cache_min_uses") {
        nginx.ledger.approximated(uses.line, "on a full disk an answer is stored at its second request");
    }
    rules.push(base);
    valid(nginx, location, test, is_instead, rules);
    rules.extend(passes);
}

fn stale(nginx: &mut Nginx<'_>, location: &Location<'_>, inactive: u64, base: &mut Section) {
    let background = location.last("proxy_cache_background_update");
    if let Some(directive) = background {
        nginx.ledger.carried(directive.line);
    }
    let Some(directive) = location.last("proxy_cache_use_stale") else { return };
    let line = directive.line;
    let has = |words: &[&str]| directive.words.iter().any(|word| words.contains(&word.as_str()));
    if has(&["off"]) {
        nginx.ledger.needless(line, "nothing stale is served");
        return;
    }
    let errors: Vec<&str> = STALE_ERRORS
        .iter()
        .filter(|(word, _)| has(&[*word]))
        .flat_map(|(_, errors)| errors.iter().copied())
        .collect();
    if !errors.is_empty() {
        base.set("stale_if_error", Value::seconds(inactive), &[line]);
        base.extend("stale_on", errors.into_iter().map(Value::from), &[]);
    }
    if has(&["updating"]) {
        base.set("stale_while_revalidate", Value::seconds(inactive), &[line]);
    }
    nginx.ledger.approximated(line, "`inactive` bounds the time");
}

/// Reads `proxy_ignore_headers`; returns `true` if the origin's lifetimes do not count.
fn ignored(nginx: &mut Nginx<'_>, location: &Location<'_>, base: &mut Section) -> bool {
    let list = location.in_force(&["proxy_ignore_headers"]);
    let lines: Vec<LineId> = list.iter().map(|directive| directive.line).collect();
    let has = |name: &str| {
        list.iter().any(|directive| directive.words.iter().any(|word| word.eq_ignore_ascii_case(name)))
    };
    lines.iter().for_each(|line| nginx.ledger.carried(*line));
    if has("Cache-Control") {
        let directives = ["no-store", "private", "no-cache", "must-revalidate"];
        base.set("ignore_origin", Value::texts(directives), &lines);
        base.set("share_private", true, &[]);
        base.note("The old settings share what the origin calls private. Remove share_private, no-store and");
        base.note("private if pages for one client could be among them.");
    }
    if has("Set-Cookie") {
        base.set("set_cookie", "strip", &lines);
        for line in &lines {
            nginx.ledger.approximated(*line, "cookies are not stored with the answer, as nginx stores them");
        }
    }
    if has("Vary") {
        base.set("ignore_vary", Value::texts(["*"]), &lines);
    }
    let (control, expires) = (has("Cache-Control"), has("Expires"));
    if control != expires {
        for line in &lines {
            let why = "either both Cache-Control and Expires give lifetimes here, or none of them";
            nginx.ledger.approximated(*line, why);
        }
    }
    control && expires
}

/// Reads the key; returns `false` if a part of it has no equal, so that nothing may be stored.
fn key(nginx: &mut Nginx<'_>, location: &Location<'_>, base: &mut Section) -> bool {
    let Some(directive) = location.last("proxy_cache_key") else { return true };
    let (line, text) = (directive.line, directive.words.join(""));
    let mut names: Vec<&str> = text
        .split('$')
        .skip(1)
        .map(|part| part.trim_start_matches('{'))
        .map(|part| part.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default())
        .collect();
    let has = |names: &[&str], wanted: &[&str]| names.iter().any(|name| wanted.contains(name));
    let has_path = has(&names, &["request_uri", "uri", "document_uri"]);
    let has_query = has(&names, &["request_uri", "args", "query_string"]);
    let has_host = has(&names, &["host", "http_host", "server_name"]);
    names.retain(|name| !KEY_PARTS.contains(name));
    nginx.ledger.carried(line);
    for name in names {
        if let Some(field) = name.strip_prefix("http_") {
            base.extend("key_fields", [field.replace('_', "-").into()], &[line]);
        } else if name.starts_with("cookie_") {
            base.extend("key_fields", ["Cookie".into()], &[line]);
            nginx.ledger.approximated(line, "all cookies select, not one of them");
        } else {
            nginx.ledger.left_out(line, format!("keys have no ${name}; nothing is stored here"));
            return false;
        }
    }
    if !has_path {
        nginx.ledger.approximated(line, "each URL has an object of its own");
    } else if !has_query {
        base.set("query_keep", Value::List(Vec::new()), &[line]);
        nginx.ledger.approximated(line, "the origin does not get the query either, since the key lacks it");
    }
    if !has_host {
        nginx.ledger.approximated(line, "each host has objects of its own");
    }
    true
}

/// Adds a rule for each lifetime by status. The first line that names a status wins in nginx, the
/// last one here.
fn valid(
    nginx: &mut Nginx<'_>,
    location: &Location<'_>,
    test: &PathTest,
    is_instead: bool,
    rules: &mut Vec<Section>,
) {
    for directive in location.in_force(&["proxy_cache_valid"]).into_iter().rev() {
        let line = directive.line;
        let Some((time, statuses)) = directive.words.split_last() else { continue };
        let Some(time) = seconds(time) else {
            nginx.ledger.left_out(line, "it names no time");
            continue;
        };
        let statuses: Vec<String> = match statuses {
            [] => ["200", "301", "302"].map(str::to_owned).to_vec(),
            list if list.iter().any(|word| word == "any") => vec!["200-599".into()],
            list => list.to_vec(),
        };
        nginx.ledger.carried(line);
        let mut rule = test.section(&[]);
        rule.set("statuses", Value::texts(statuses), &[line]);
        rule.set(if is_instead { "lifetime" } else { "lifetime_default" }, Value::seconds(time), &[]);
        rules.push(rule);
    }
}

/// Adds rules for requests that are not answered from the cache, or not stored; returns `false` if
/// one of their conditions has no equal, so that nothing may be stored.
fn pass_rules(
    nginx: &mut Nginx<'_>,
    location: &Location<'_>,
    test: &PathTest,
    passes: &mut Vec<Section>,
) -> bool {
    let mut is_whole = true;
    for (name, key, value) in [("proxy_no_cache", "store", false), ("proxy_cache_bypass", "pass", true)] {
        for directive in location.in_force(&[name]) {
            let line = directive.line;
            nginx.ledger.carried(line);
            for (found, lines) in directive.words.iter().flat_map(|word| tests_of(location, word)) {
                lines.iter().for_each(|line| nginx.ledger.carried(*line));
                match found {
                    Ok(found) => {
                        let all: Vec<LineId> = [line].into_iter().chain(lines.iter().copied()).collect();
                        for section in found.sections.iter().filter(|section| is_looked_up(section)) {
                            add_pass(with_effect((section, test), (key, value), &all), key, passes);
                        }
                    }
                    Err(why) => {
                        is_whole = false;
                        nginx.ledger.left_out(line, format!("{why}; nothing is stored here"));
                    }
                }
            }
        }
    }
    let keeps = |rule: &Section| rule.get("pass").is_some() && rule.get("store").is_none();
    if passes.iter().any(keeps) {
        for directive in location.in_force(&["proxy_cache_bypass"]) {
            nginx.ledger.approximated(directive.line, "nginx stores the new answer; here it is not stored");
        }
    }
    passes.iter_mut().filter(|rule| rule.get("pass").is_some()).for_each(|rule| {
        rule.entries.retain(|entry| entry.key != "store");
    });
    is_whole
}

/// Adds a rule with this effect, or adds the effect to a rule of the same conditions.
fn add_pass(rule: Section, effect: &'static str, passes: &mut Vec<Section>) {
    let conditions = |rule: &Section| -> Vec<(&'static str, Value)> {
        let entries = rule.entries.iter().filter(|entry| !["store", "pass"].contains(&entry.key));
        entries.map(|entry| (entry.key, entry.value.clone())).collect()
    };
    match passes.iter_mut().find(|other| conditions(other) == conditions(&rule)) {
        Some(other) => {
            let new: Vec<LineId> =
                rule.from.iter().filter(|line| !other.from.contains(line)).copied().collect();
            other.from.extend(new);
            if let Some(value) = rule.get(effect) {
                other.set(effect, value.clone(), &[]);
            }
        }
        None => passes.push(rule),
    }
}

/// Returns the tests that make a variable true: those of its `set` in `if` blocks, or its own.
fn tests_of(location: &Location<'_>, word: &str) -> Vec<(Result<RequestTest, String>, Vec<LineId>)> {
    let sets = location.levels.iter().skip(1).flat_map(|level| level.iter());
    let is_set = |directive: &&Directive| directive.name == "set" && directive.word(0) == word;
    let mut found = Vec::new();
    let mut is_own = false;
    for directive in sets {
        if is_set(&directive) {
            is_own = true;
            let is_zero = ["0", "", "\"\""].contains(&directive.word(1));
            let test = match is_zero {
                true => Ok(RequestTest::default()),
                false => Err(format!("{word} is always set")),
            };
            found.push((test, vec![directive.line]));
        } else if directive.name == "if" {
            for inner in directive.block.iter().filter(is_set) {
                is_own = true;
                let test = match inner.word(1) {
                    "0" | "" => Err(format!("{word} is taken back by a condition")),
                    _ => condition(&directive.words),
                };
                found.push((test, vec![directive.line, inner.line]));
            }
        }
    }
    match is_own {
        true => found,
        false => vec![(variable_test(word, "", ""), Vec::new())],
    }
}

/// Makes a rule with a condition, that of the location, and an effect.
fn with_effect(
    (section, test): (&Section, &PathTest),
    (key, value): (&'static str, bool),
    from: &[LineId],
) -> Section {
    let mut rule = section.clone();
    rule.from = from.to_vec();
    for entry in test.section(&[]).entries {
        if rule.get(entry.key).is_none() {
            rule.entries.push(entry);
        }
    }
    rule.with(key, value)
}

/// Returns `false` for conditions on methods that are never answered from the cache.
fn is_looked_up(section: &Section) -> bool {
    match section.get("methods") {
        Some(Value::List(list)) => list.iter().any(|method| ["GET".into(), "HEAD".into()].contains(method)),
        _ => true,
    }
}

/// Folder of the store, as the service of `contrib/` makes it.
pub const STORE_FOLDER: &str = "/var/cache/shoal";
/// Words of `proxy_cache_use_stale` with those of `stale_on`.
const STALE_ERRORS: [(&str, &[&str]); 10] = [
    ("error", &["connect", "broken"]),
    ("timeout", &["timeout"]),
    ("invalid_header", &["broken"]),
    ("http_500", &["500"]),
    ("http_502", &["502"]),
    ("http_503", &["503"]),
    ("http_504", &["504"]),
    ("http_403", &["403"]),
    ("http_404", &["404"]),
    ("http_429", &["429"]),
];
/// Parts of a key that Shoal's has, or that make no difference.
const KEY_PARTS: [&str; 13] = [
    "scheme",
    "proxy_host",
    "host",
    "http_host",
    "server_name",
    "request_uri",
    "uri",
    "document_uri",
    "args",
    "query_string",
    "is_args",
    "request_method",
    "proxy_port",
];
const SHARES_LESS: &str = "nginx also shares answers to requests with cookies or credentials; Shoal shares those \
only as the origin allows, or with share_private = true in the rule";
