//! `records.config` and `records.yaml`: settings by name.

use crate::certificates;
use crate::document::{Document, Section};
use crate::ledger::{Ledger, LineId};
use crate::nginx_cache::STORE_FOLDER;
use crate::traffic_server::{ConfigLine, lines};
use crate::value::Value;
use crate::{DEPTH_MAX, Error, Files, SourceText};
use std::collections::BTreeMap;

/// Records by name, each with its text and statement.
#[derive(Clone, Debug, Default)]
pub struct Records(BTreeMap<String, (String, LineId)>);

impl Records {
    /// Reads either form of the file.
    pub fn read(file: &SourceText, ledger: &mut Ledger) -> Result<Self, Error> {
        let mut records = Self::default();
        if file.name.ends_with(".yaml") {
            records.yaml(file, ledger)?;
            return Ok(records);
        }
        for line in lines(Some(file), ledger)? {
            match line.words.as_slice() {
                [kind, name, _, value @ ..] if kind == "CONFIG" || kind == "LOCAL" => {
                    records.0.insert(name.clone(), (value.join(" ").replace('"', ""), line.id));
                }
                _ => ledger.left_out(line.id, "it is no record: CONFIG name type value"),
            }
        }
        Ok(records)
    }

    /// Reads keys by their indentation, below `records:` or `ts:`.
    fn yaml(&mut self, file: &SourceText, ledger: &mut Ledger) -> Result<(), Error> {
        let mut path: Vec<(usize, String)> = Vec::new();
        for (at, text) in file.text.lines().enumerate() {
            let body = text.split(" #").next().unwrap_or_default();
            let trimmed = body.trim();
            if trimmed.is_empty() || trimmed.starts_with(['#', '-']) {
                continue;
            }
            let Some((key, value)) = trimmed.split_once(':') else { continue };
            let indent = body.len() - body.trim_start().len();
            path.retain(|(other, _)| *other < indent);
            if path.len() > DEPTH_MAX {
                return Err(Error::Limit(format!("{} nests deeper than {DEPTH_MAX}", file.name)));
            }
            let value = value.trim().trim_matches(['"', '\'']);
            if value.is_empty() {
                path.push((indent, key.trim().to_owned()));
                continue;
            }
            let id = ledger.add(&file.name, at + 1, trimmed)?;
            let names: Vec<&str> = path.iter().map(|(_, name)| name.as_str()).collect();
            let names = names.into_iter().filter(|name| !["records", "ts"].contains(name));
            let full: Vec<&str> = ["proxy", "config"].into_iter().chain(names).chain([key.trim()]).collect();
            self.0.insert(full.join("."), (value.to_owned(), id));
        }
        Ok(())
    }

    /// Returns a record's text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|(value, _)| value.as_str())
    }

    /// Returns a record's number.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    /// Returns the statement of a record.
    pub fn from(&self, name: &str) -> Vec<LineId> {
        self.0.get(name).map(|(_, id)| *id).into_iter().collect()
    }

    fn take(&self, name: &str, ledger: &mut Ledger) -> Option<(String, Vec<LineId>)> {
        let (value, id) = self.0.get(name)?;
        ledger.carried(*id);
        Some((value.clone(), vec![*id]))
    }
}

/// Adds a listener for each of `http.server_ports`.
pub fn listeners(
    records: &Records,
    multicert: &[ConfigLine],
    files: &dyn Files,
    ledger: &mut Ledger,
    document: &mut Document,
    is_forward: bool,
) {
    let (text, from) =
        records.take("proxy.config.http.server_ports", ledger).unwrap_or_else(|| ("8080".into(), Vec::new()));
    let folder = records.text("proxy.config.ssl.server.cert.path").unwrap_or("/etc/trafficserver/ssl");
    let keys = records.text("proxy.config.ssl.server.private_key.path").unwrap_or(folder);
    for port in text.split_whitespace() {
        let mut parts = port.split(':');
        let number = parts.next().unwrap_or_default().trim_start_matches("proxy-port=");
        let words: Vec<&str> = parts.collect();
        let ip = words.iter().find_map(|word| word.strip_prefix("ip-in="));
        let has = |name: &str| words.contains(&name);
        let ip = ip.map_or(if has("ipv6") { "[::]" } else { "0.0.0.0" }, |ip| ip);
        let mut section = Section::default();
        section.set("address", format!("{ip}:{number}"), &from);
        section.set("mode", if is_forward { "forward" } else { "reverse" }, &[]);
        if has("quic") || words.iter().any(|word| word.starts_with("tr-")) {
            from.iter().for_each(|line| {
                ledger.left_out(*line, format!("{port}: neither QUIC nor transparent ports"))
            });
            continue;
        }
        if has("ssl") {
            let mut is_any = false;
            for line in multicert {
                let chain = line.value("ssl_cert_name").map(|name| joined(folder, name));
                let key = line.value("ssl_key_name").map(|name| joined(keys, name)).or_else(|| chain.clone());
                ledger.carried(line.id);
                is_any = true;
                let pair = chain.as_deref().zip(key.as_deref());
                if let Some(why) = certificates::add(&mut section, pair, files, &[line.id]) {
                    ledger.unsafe_line(line.id, why);
                }
            }
            if !is_any && let Some(why) = certificates::add(&mut section, None, files, &from) {
                from.iter().for_each(|line| ledger.unsafe_line(*line, why));
            }
            if !clients(records, files, &mut section, ledger) {
                continue;
            }
        }
        document.listen.push(section);
    }
    for name in ["proxy.config.ssl.server.cert.path", "proxy.config.ssl.server.private_key.path"] {
        records.take(name, ledger);
    }
}

/// Has a listener ask clients for certificates, where the records say so. Returns `false` if it
/// cannot, so that the listener may not be opened.
fn clients(records: &Records, files: &dyn Files, section: &mut Section, ledger: &mut Ledger) -> bool {
    let level = records.take("proxy.config.ssl.client.certification_level", ledger);
    let Some((level, from)) = level.filter(|(level, _)| level != "0") else { return true };
    let folder = records.take("proxy.config.ssl.CA.cert.path", ledger).map(|(path, _)| path);
    let name = records.take("proxy.config.ssl.CA.cert.filename", ledger).map(|(name, _)| name);
    let authorities = joined(folder.as_deref().unwrap_or("/etc/trafficserver"), &name.unwrap_or_default());
    match certificates::ask(section, &authorities, (level != "1", false), files, &from) {
        Ok(()) => true,
        Err(why) => {
            from.iter().for_each(|line| ledger.unsafe_line(*line, why));
            false
        }
    }
}

fn joined(folder: &str, name: &str) -> String {
    match name.starts_with('/') {
        true => name.to_owned(),
        false => format!("{}/{name}", folder.trim_end_matches('/')),
    }
}

/// Writes the records that stand for settings, and the defaults of Traffic Server.
pub fn base(records: &Records, ledger: &mut Ledger, document: &mut Document) {
    lifetimes(records, ledger, document);
    for (name, table, key) in TIMES {
        if let Some((value, from)) = records.take(name, ledger)
            && let Ok(seconds) = value.parse::<u64>()
            && seconds > 0
        {
            document.table(table).set(key, Value::seconds(seconds.min(86_400)), &from);
        }
    }
    for (name, table, key, least) in SIZES {
        if let Some((value, from)) = records.take(name, ledger) {
            match size(&value).filter(|size| *size > 0) {
                Some(size) => document.table(table).set(key, Value::bytes(size.max(*least)), &from),
                None => from.iter().for_each(|line| ledger.needless(*line, "Shoal's default is taken")),
            }
        }
    }
    if let Some((value, from)) = records.take("proxy.config.net.max_connections_in", ledger)
        && let Ok(number) = value.parse::<u64>()
        && number > 0
    {
        document.top.set("max_connections", number.min(10_000_000), &from);
    }
    connections(records, ledger, document);
    revalidating(records, ledger, document);
    let names: Vec<String> = records.0.keys().cloned().collect();
    for name in names {
        for line in records.from(&name) {
            if ledger.line(line).fate.is_none() {
                match NEEDLESS.iter().any(|prefix| name.starts_with(prefix)) {
                    true => ledger.needless(line, "Shoal decides this by itself"),
                    false => ledger.left_out(line, "Shoal has no such setting"),
                }
            }
        }
    }
}

/// Numbers below `proxy.config.http.cache`.
struct CacheNumbers<'a> {
    records: &'a Records,
    ledger: &'a mut Ledger,
}

impl CacheNumbers<'_> {
    /// Returns a number with its statement; without one the default.
    fn take(&mut self, name: &str, default: f64) -> (f64, Vec<LineId>) {
        let found = self.records.take(&format!("proxy.config.http.cache.{name}"), self.ledger);
        let value = found.as_ref().and_then(|(value, _)| value.parse::<f64>().ok());
        let value = value.filter(|value| value.is_finite()).unwrap_or(default);
        (value, found.map(|(_, from)| from).unwrap_or_default())
    }

    fn near(&mut self, lines: &[LineId], why: &str) {
        lines.iter().for_each(|line| self.ledger.approximated(*line, why));
    }
}

fn seconds(value: f64) -> Value {
    Value::seconds(value.clamp(0.0, 3e8) as u64)
}

fn lifetimes(records: &Records, ledger: &mut Ledger, document: &mut Document) {
    let mut numbers = CacheNumbers { records, ledger };
    let mut rule = Section::default();
    guesses(&mut numbers, document.table("cache"), &mut rule);
    let (client, client_line) = numbers.take("ignore_client_no_cache", 1.0);
    let (max_age, max_age_line) = numbers.take("ignore_client_cc_max_age", 1.0);
    if client != 0.0 {
        rule.note("Traffic Server does not heed no-cache of clients.");
        rule.set("ignore_client_no_cache", true, &[client_line, max_age_line].concat());
    } else if max_age != 0.0 {
        numbers.near(&max_age_line, "max-age of clients is heeded as no-cache is");
    }
    let (server, from) = numbers.take("ignore_server_no_cache", 0.0);
    if server != 0.0 {
        rule.set("ignore_origin", Value::texts(["no-cache"]), &from);
        numbers.near(&from, "no-store still counts");
    }
    let (least, from) = numbers.take("guaranteed_min_lifetime", 0.0);
    if least > 0.0 {
        rule.set("lifetime_min", seconds(least), &from);
    }
    let (most, from) = numbers.take("guaranteed_max_lifetime", 31_536_000.0);
    if most < 31_536_000.0 {
        rule.set("lifetime_max", seconds(most.max(least)), &from);
    }
    let (when, from) = numbers.take("when_to_revalidate", 0.0);
    match when as i64 {
        2 => rule.set("lifetime", "0 s", &from),
        3 => rule.set("lifetime", Value::seconds(u64::MAX), &from),
        1 | 4 => numbers.near(&from, "heuristic lifetimes count"),
        _ => {}
    }
    let (http, from) = numbers.take("http", 1.0);
    if http == 0.0 {
        rule.set("store", false, &from);
    }
    let (cookies, from) = numbers.take("cache_responses_to_cookies", 1.0);
    if cookies != 0.0 {
        rule.note("Traffic Server also stores answers that set cookies; set_cookie = \"strip\" stores them without.");
        numbers.near(&from, "answers that set cookies are not stored");
    }
    if !rule.entries.is_empty() {
        document.rules.push(rule);
    }
    negative(records, ledger, document);
}

/// Writes the lifetimes of answers without an explicit one.
fn guesses(numbers: &mut CacheNumbers<'_>, cache: &mut Section, rule: &mut Section) {
    let (required, required_line) = numbers.take("required_headers", 2.0);
    let (factor, factor_line) = numbers.take("heuristic_lm_factor", 0.1);
    let (longest, longest_line) = numbers.take("heuristic_max_lifetime", 86_400.0);
    let (shortest, shortest_line) = numbers.take("heuristic_min_lifetime", 3600.0);
    let (dynamic, dynamic_line) = numbers.take("cache_urls_that_look_dynamic", 1.0);
    let (stale, stale_line) = numbers.take("max_stale_age", 604_800.0);
    if required < 2.0 {
        cache.set("heuristic_fraction", Value::Fraction(factor.clamp(0.0, 1.0)), &factor_line);
        cache.set("heuristic_max", seconds(longest), &longest_line);
        cache.set("heuristic_query", if dynamic == 0.0 { "never" } else { "unsigned" }, &dynamic_line);
        numbers.near(&shortest_line, "a heuristic lifetime has no least here");
    } else {
        cache.note("Traffic Server stores only answers with an explicit lifetime (required_headers 2).");
        cache.set("heuristic_fraction", Value::Fraction(0.0), &required_line);
        for line in [factor_line, longest_line, shortest_line, dynamic_line].concat() {
            numbers.ledger.needless(line, "no lifetime is guessed");
        }
    }
    cache.set("stale_if_error", seconds(stale), &stale_line);
    if required == 0.0 {
        rule.set("lifetime_default", seconds(shortest), &required_line);
        numbers.near(&required_line, "all answers without a lifetime get the least one");
    }
}

fn negative(records: &Records, ledger: &mut Ledger, document: &mut Document) {
    let enabled = records.take("proxy.config.http.negative_caching_enabled", ledger);
    let lifetime = records.take("proxy.config.http.negative_caching_lifetime", ledger);
    let list = records.take("proxy.config.http.negative_caching_list", ledger);
    document.table("cache").set("negative_ttl", "0 s", &[]);
    let Some((_, from)) = enabled.filter(|(value, _)| value == "1") else { return };
    let (seconds, mut lines) = lifetime.unwrap_or_else(|| ("1800".into(), Vec::new()));
    let (statuses, more) =
        list.unwrap_or_else(|| ("204 305 403 404 405 414 500 501 502 503 504".into(), Vec::new()));
    lines.extend(more);
    lines.extend(from);
    let mut rule = Section::default();
    rule.set("statuses", Value::texts(statuses.split_whitespace()), &lines);
    rule.set("lifetime_default", Value::seconds(seconds.parse().unwrap_or(1800)), &[]);
    document.rules.push(rule);
}

/// Reads the limits of connections to each server, and of each client.
fn connections(records: &Records, ledger: &mut Ledger, document: &mut Document) {
    let number = |name: &str, ledger: &mut Ledger| {
        let (value, from) = records.take(name, ledger)?;
        Some((value.parse::<u64>().ok().filter(|number| *number > 0)?, from))
    };
    for name in ["proxy.config.http.per_server.connection.max", "proxy.config.http.origin_max_connections"] {
        if let Some((most, from)) = number(name, ledger) {
            document.table("upstream").set("connections_per_origin", most.min(100_000), &from);
            for line in from {
                ledger
                    .approximated(line, "further requests wait for a connection; Traffic Server answers 503");
            }
        }
    }
    if let Some((most, from)) = number("proxy.config.net.per_client.max_connections_in", ledger) {
        for listen in &mut document.listen {
            listen.set("client_connections", most.min(10_000_000), &from);
        }
    }
}

/// Reads `negative_revalidating`: stale answers in place of errors of the origin.
fn revalidating(records: &Records, ledger: &mut Ledger, document: &mut Document) {
    let name = |end: &str| format!("proxy.config.http.negative_revalidating_{end}");
    let enabled = records.take(&name("enabled"), ledger);
    let list = records.take(&name("list"), ledger);
    let lifetime = records.take(&name("lifetime"), ledger);
    if enabled.is_none() && list.is_none() {
        return;
    }
    let is_on = enabled.as_ref().is_none_or(|(value, _)| value != "0");
    let text = list.as_ref().map_or("500 502 503 504", |(text, _)| text.as_str());
    let statuses = text.split_whitespace().filter(|_| is_on);
    let statuses =
        statuses.filter(|text| text.parse::<u16>().is_ok_and(|status| (400..600).contains(&status)));
    let errors: Vec<&str> = statuses.chain(["connect", "timeout", "broken"]).collect();
    let from: Vec<LineId> =
        [&enabled, &list].into_iter().flatten().flat_map(|(_, from)| from.clone()).collect();
    let mut rule = Section::of(&from);
    rule.set("stale_on", Value::texts(errors), &[]);
    document.rules.push(rule);
    for line in lifetime.into_iter().flat_map(|(_, from)| from) {
        ledger.approximated(line, "the origin is asked again by each request; max_stale_age bounds the time");
    }
}

/// Reads `storage.config` into `[store]`.
pub fn storage(lines: &[ConfigLine], ledger: &mut Ledger, document: &mut Document) {
    let mut found = Vec::new();
    for line in lines {
        let size = line.words.get(1).and_then(|text| size(text)).filter(|size| *size >= 1_000_000);
        match (line.words.first(), size) {
            (Some(path), Some(size)) => {
                let why = "the store has a folder of its own; Traffic Server's objects are not read";
                ledger.approximated(line.id, why);
                found.push((path.clone(), size.min(4 << 40), line.id));
            }
            _ => ledger.left_out(
                line.id,
                "a disk needs a size; a raw device stands in store.disks once it may be overwritten",
            ),
        }
    }
    let store = document.table("store");
    match found.as_slice() {
        [] => {}
        [(_, size, id)] => {
            store.set("directory", STORE_FOLDER, &[*id]);
            store.set("disk", Value::bytes(*size), &[]);
        }
        several => {
            store.set("directory", STORE_FOLDER, &[]);
            for (path, size, id) in several {
                let path = ("path", Value::Text(format!("{}/shoal", path.trim_end_matches('/'))));
                store.extend("disks", [Value::Inline(vec![path, ("bytes", Value::bytes(*size))])], &[*id]);
            }
        }
    }
}

/// Reads `256M`, `10G`, `1048576`.
fn size(text: &str) -> Option<u64> {
    crate::nginx::bytes(text)
}

/// Records of durations in seconds.
const TIMES: &[(&str, &str, &str)] = &[
    ("proxy.config.http.connect_attempts_timeout", "upstream", "connect_timeout"),
    ("proxy.config.http.transaction_no_activity_timeout_out", "upstream", "first_byte_timeout"),
    ("proxy.config.http.keep_alive_no_activity_timeout_out", "upstream", "keep_alive"),
    ("proxy.config.http.keep_alive_no_activity_timeout_in", "client", "keep_alive"),
    ("proxy.config.http.transaction_no_activity_timeout_in", "client", "idle_timeout"),
];
/// Records of sizes, with the least value.
const SIZES: &[(&str, &str, &str, u64)] = &[
    ("proxy.config.cache.ram_cache.size", "cache", "ram", 4 << 20),
    ("proxy.config.cache.ram_cache_cutoff", "cache", "ram_object_max", 1),
    ("proxy.config.cache.max_doc_size", "store", "object_max", 1),
];
/// Beginnings of records that need no setting.
const NEEDLESS: &[&str] = &[
    "proxy.config.exec_thread",
    "proxy.config.accept_threads",
    "proxy.config.task_threads",
    "proxy.config.cache.",
    "proxy.config.log.",
    "proxy.config.diags",
    "proxy.config.res_track",
    "proxy.config.dump_mem",
    "proxy.config.admin",
    "proxy.config.net.",
    "proxy.config.http.slow",
    "proxy.config.http.insert_",
    "proxy.config.http.push_method",
    "proxy.config.http.normalize_ae",
    "proxy.config.http.connect_attempts",
    "proxy.config.http.post_connect",
    "proxy.config.http.down_server",
    "proxy.config.http.transaction_",
    "proxy.config.http.accept_",
    "proxy.config.http.keep_alive",
    "proxy.config.http.parent_proxy",
    "proxy.config.http.forward.",
    "proxy.config.http.uncacheable_requests",
    "proxy.config.reverse_proxy.enabled",
    "proxy.config.url_remap.",
    "proxy.config.hostdb",
    "proxy.config.dns",
];
