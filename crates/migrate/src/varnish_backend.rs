//! Backends, probes and directors of VCL.

use crate::document::SiteSection;
use crate::ledger::LineId;
use crate::value::Value;
use crate::varnish::{StepInPlace, Varnish, whole_site};
use crate::varnish_lexer::{Token, Word};
use crate::varnish_syntax::{Act, Field, Item};
use std::collections::HashMap;

/// Backends and directors by name, and the backend of requests without a hint.
#[derive(Clone, Debug, Default)]
pub struct Backends {
    by_name: HashMap<String, Group>,
    default: Option<String>,
    probes: HashMap<String, (Probe, Vec<LineId>)>,
}

/// Servers that share the load.
#[derive(Clone, Debug, Default)]
struct Group {
    urls: Vec<(String, u64)>,
    balance: Option<&'static str>,
    probe: Option<(Probe, Vec<LineId>)>,
    /// Most requests in flight, with its statements; `None` without a limit.
    concurrency: Option<(u64, Vec<LineId>)>,
    from: Vec<LineId>,
}

/// A health check.
#[derive(Clone, Debug)]
struct Probe {
    path: String,
    interval: u64,
    threshold: u64,
}

/// Reads every backend and probe.
pub fn read(items: &[Item], varnish: &mut Varnish<'_>) {
    for item in items {
        if let Item::Probe(name, fields, line) = item {
            varnish.ledger.carried(*line);
            let found = probe(fields.iter().map(|(name, value, _)| (name.as_str(), text(value))));
            for (_, _, line) in fields {
                varnish.ledger.carried(*line);
            }
            varnish.backends.probes.insert(name.clone(), (found, vec![*line]));
        }
    }
    for item in items {
        if let Item::Backend(name, fields, line) = item {
            backend(name, fields, *line, varnish);
        }
    }
}

fn backend(name: &str, fields: &[Field], line: LineId, varnish: &mut Varnish<'_>) {
    let get = |wanted: &str| fields.iter().find(|(name, ..)| name == wanted).map(|(_, value, _)| text(value));
    if fields.is_empty() {
        varnish.ledger.needless(line, "it asks nobody");
        return;
    }
    varnish.ledger.carried(line);
    let (host, port) = (get("host").unwrap_or_default(), get("port").unwrap_or_else(|| "80".into()));
    let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host };
    let is_tls = get("ssl").is_some_and(|value| value == "1") || port == "443";
    let port = match port.as_str() {
        "http" => "80".to_owned(),
        port => port.to_owned(),
    };
    let scheme = if is_tls { "https" } else { "http" };
    let mut group = Group { urls: vec![(format!("{scheme}://{host}:{port}"), 1)], ..Group::default() };
    group.from.push(line);
    for (field, value, line) in fields {
        let seconds = duration(&text(value)).map(|seconds| Value::seconds(seconds.clamp(1, 86_400)));
        match (field.as_str(), seconds) {
            ("host" | "port" | "ssl", _) => {
                varnish.ledger.carried(*line);
                group.from.push(*line);
            }
            ("path", _) => varnish.ledger.left_out(*line, "upstreams are hosts with a port"),
            ("connect_timeout", Some(time)) => set(varnish, "connect_timeout", time, *line),
            ("first_byte_timeout", Some(time)) => set(varnish, "first_byte_timeout", time, *line),
            ("between_bytes_timeout", Some(time)) => set(varnish, "idle_timeout", time, *line),
            ("max_connections", _) => match text(value).parse::<u64>() {
                Ok(number) if number > 0 => {
                    varnish.ledger.carried(*line);
                    group.concurrency = Some((number, vec![*line]));
                }
                Ok(_) => varnish.ledger.needless(*line, "connections have no limit of their own"),
                Err(_) => varnish.ledger.left_out(*line, "it names no number"),
            },
            ("probe", _) => {
                let name = text(value);
                let known = varnish.backends.probes.get(&name).cloned();
                let found = known.or_else(|| inline_probe(value).map(|found| (found, Vec::new())));
                match found {
                    Some((found, mut from)) => {
                        varnish.ledger.carried(*line);
                        from.push(*line);
                        group.probe = Some((found, from));
                    }
                    None => varnish.ledger.left_out(*line, "it is no probe with a URL"),
                }
            }
            ("host_header", _) => varnish.ledger.approximated(
                *line,
                "it is for requests without a Host, and for probes: health checks name the upstream's host. \
                 `host` of the upstream would be sent with every request",
            ),
            _ => varnish.ledger.left_out(*line, "backends have no such setting"),
        }
    }
    let backends = &mut varnish.backends;
    if backends.default.is_none() || name == "default" {
        backends.default = Some(name.to_owned());
    }
    backends.by_name.insert(name.to_owned(), group);
}

fn set(varnish: &mut Varnish<'_>, key: &'static str, value: Value, line: LineId) {
    varnish.document.table("upstream").set(key, value, &[line]);
    varnish.ledger.approximated(line, "Shoal has one such limit for all upstreams");
}

fn inline_probe(value: &[Token]) -> Option<Probe> {
    let text: Vec<String> = value.iter().map(Token::shown).collect();
    let text = text.join(" ");
    let fields = text.trim_matches(['{', '}', ' ']).split(';').filter_map(|field| field.split_once('='));
    let fields: Vec<(&str, String)> = fields
        .map(|(name, value)| (name.trim().trim_start_matches('.'), value.trim().trim_matches('"').to_owned()))
        .collect();
    (!fields.is_empty()).then(|| probe(fields.into_iter()))
}

fn probe<'a>(fields: impl Iterator<Item = (&'a str, String)>) -> Probe {
    let mut found = Probe { path: "/".into(), interval: 5, threshold: 3 };
    for (name, value) in fields {
        match name {
            "url" => found.path = value,
            "interval" => found.interval = duration(&value).unwrap_or(5).clamp(1, 86_400),
            "threshold" => found.threshold = value.parse().unwrap_or(3).clamp(1, 100),
            _ => {}
        }
    }
    found
}

/// Reads the directors of `vcl_init`.
pub fn directors(steps: &[StepInPlace], varnish: &mut Varnish<'_>) {
    let mut is_fallback = HashMap::new();
    for placed in steps {
        let line = placed.step.line;
        match &placed.step.act {
            Act::New(name, constructor) if constructor.starts_with("directors.") => {
                varnish.ledger.carried(line);
                let kind = constructor.trim_start_matches("directors.");
                let balance = match kind {
                    "hash" | "shard" => Some("hash"),
                    "round_robin" => None,
                    "fallback" => {
                        is_fallback.insert(name.clone(), true);
                        varnish.ledger.left_out(
                            line,
                            "no upstream waits for the others to fail; the first one is asked",
                        );
                        None
                    }
                    _ => {
                        varnish.ledger.approximated(line, "requests go round in turn, by weight");
                        None
                    }
                };
                let group = Group { balance, from: vec![line], ..Group::default() };
                varnish.backends.by_name.insert(name.clone(), group);
            }
            Act::Invoke(call, arguments) if call.ends_with(".add_backend") => {
                let director = call.trim_end_matches(".add_backend");
                let names: Vec<String> =
                    arguments.iter().filter(|t| !matches!(t.word, Word::Sign(_))).map(Token::shown).collect();
                let member = names.first().and_then(|name| varnish.backends.by_name.get(name)).cloned();
                let weight = names.get(1).and_then(|text| text.trim_matches('"').parse::<f64>().ok());
                let weight = weight.map_or(1, |weight| (weight.clamp(0.1, 100_000.0) * 10.0).round() as u64);
                let weight = if weight.is_multiple_of(10) && weight > 1 { weight / 10 } else { weight };
                match (varnish.backends.by_name.get_mut(director), member) {
                    (Some(group), Some(member)) => {
                        if is_fallback.contains_key(director) && !group.urls.is_empty() {
                            varnish.ledger.left_out(line, "it is asked only when the others fail");
                            continue;
                        }
                        group.concurrency =
                            match (group.urls.is_empty(), group.concurrency.take(), member.concurrency) {
                                (true, _, own) => own,
                                (false, Some((a, from)), Some((b, more))) => {
                                    Some((a.saturating_add(b), [from, more].concat()))
                                }
                                _ => None,
                            };
                        group.urls.extend(member.urls.into_iter().map(|(url, _)| (url, weight)));
                        group.probe = group.probe.take().or(member.probe);
                        group.from.extend(member.from);
                        group.from.push(line);
                        varnish.ledger.carried(line);
                    }
                    _ => varnish.ledger.left_out(line, "its director or backend is not known"),
                }
            }
            Act::Return(..) => varnish.ledger.needless(line, "Shoal goes on by itself"),
            _ => placed.left_out(varnish.ledger, "modules of VCL have no equal"),
        }
    }
}

/// Makes the site of the default backend.
pub fn site(varnish: &mut Varnish<'_>) -> Option<SiteSection> {
    let name = varnish.backends.default.clone()?;
    site_of(varnish, &name)
}

/// Makes a site of a backend or director.
pub fn site_of(varnish: &mut Varnish<'_>, name: &str) -> Option<SiteSection> {
    let group = varnish.backends.by_name.get(name)?.clone();
    if group.urls.is_empty() {
        return None;
    }
    let mut site = whole_site(upstreams(&group), &group.from);
    if let Some(balance) = group.balance {
        site.section.set("balance", balance, &[]);
    }
    if let Some((probe, from)) = group.probe {
        let health = vec![
            ("path", Value::Text(probe.path)),
            ("interval", Value::seconds(probe.interval)),
            ("threshold", Value::Whole(probe.threshold)),
        ];
        site.section.set("health", Value::Inline(health), &from);
    }
    site.section.set("preserve_host", true, &[]);
    if let Some((number, from)) = group.concurrency {
        site.section.set("concurrency", number.clamp(1, 1_000_000), &from);
        site.section.set("queue", 0, &[]);
    }
    Some(site)
}

/// Reads `set bereq.http.host` without conditions: every upstream gets that Host. Returns `false`
/// for any other step.
pub fn host_of_all(varnish: &mut Varnish<'_>, placed: &StepInPlace) -> bool {
    let Act::Set(target, value) = &placed.step.act else { return false };
    let host = text(value);
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte))
    };
    if target != "bereq.http.host" || !placed.conditions.is_empty() || !is_name(&host) {
        return false;
    }
    placed.carried(varnish.ledger);
    for site in &mut varnish.document.sites {
        let Some(entry) = site.section.entries.iter_mut().find(|entry| entry.key == "upstreams") else {
            continue;
        };
        entry.from.push(placed.step.line);
        let Value::List(list) = &mut entry.value else { continue };
        for upstream in list {
            if let Value::Inline(entries) = upstream {
                entries.retain(|(key, _)| *key != "host");
                entries.push(("host", Value::from(host.as_str())));
            }
        }
    }
    true
}

fn upstreams(group: &Group) -> Value {
    let one = |(url, weight): &(String, u64)| {
        let url = ("url", Value::Text(url.clone()));
        match weight {
            1 => Value::Inline(vec![url]),
            weight => Value::Inline(vec![url, ("weight", Value::Whole(*weight))]),
        }
    };
    Value::List(group.urls.iter().map(one).collect())
}

/// Returns the text of a value of one word.
pub fn text(value: &[Token]) -> String {
    match value {
        [Token { word: Word::Name(text) | Word::Text(text), .. }] => text.clone(),
        _ => String::new(),
    }
}

/// Reads `120s`, `10m`, `1h`, `7d`, `0.5s`; parts of a second count as one.
pub fn duration(text: &str) -> Option<u64> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let scale = match &text[end..] {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "w" => 604_800.0,
        "y" => 31_536_000.0,
        _ => return None,
    };
    Some(number * scale).filter(|value| (0.0..1e12).contains(value)).map(|value| value.ceil() as u64)
}
