//! `ip_allow.yaml` and `ip_allow.config`: the first entry that holds the client decides.

use crate::document::{Document, Section};
use crate::ledger::{Ledger, LineId};
use crate::networks;
use crate::traffic_server::lines;
use crate::value::Value;
use crate::{Error, SourceText};
use ipnet::IpNet;

/// Allowed networks.
#[derive(Clone, Debug, Default)]
pub struct AllowList {
    nets: Vec<IpNet>,
    from: Vec<LineId>,
}

/// One entry.
#[derive(Clone, Debug, Default)]
struct AllowEntry {
    is_out: bool,
    nets: Option<Vec<IpNet>>,
    is_allowed: Option<bool>,
    methods: Vec<String>,
    from: Vec<LineId>,
}

/// Reads the entries of either form.
fn entries(file: &SourceText, ledger: &mut Ledger) -> Result<Vec<AllowEntry>, Error> {
    Ok(match file.name.ends_with(".yaml") {
        true => yaml(file, ledger)?,
        false => lines(Some(file), ledger)?
            .iter()
            .map(|line| AllowEntry {
                is_out: line.value("dest_ip").is_some(),
                nets: line.value("src_ip").or(line.value("dest_ip")).and_then(network),
                is_allowed: line.value("action").map(|action| action == "ip_allow"),
                methods: line.value("method").unwrap_or("ALL").split('|').map(str::to_owned).collect(),
                from: vec![line.id],
            })
            .collect(),
    })
}

/// Reads either form of the file; refusals by method become rules.
pub fn read(file: &SourceText, ledger: &mut Ledger, document: &mut Document) -> Result<AllowList, Error> {
    let entries = entries(file, ledger)?;
    let mut list = AllowList::default();
    let mut decided: Vec<IpNet> = Vec::new();
    let mut is_closed = false;
    for entry in entries {
        entry.from.iter().for_each(|line| ledger.carried(*line));
        if entry.is_out {
            entry.from.iter().for_each(|line| {
                ledger.left_out(*line, "origins are refused by name or network in forward mode alone")
            });
            continue;
        }
        if is_closed && entry.is_allowed == Some(false) {
            continue;
        }
        let Some((nets, is_allowed)) = entry.nets.clone().zip(entry.is_allowed).filter(|_| !is_closed) else {
            is_closed = true;
            entry.from.iter().for_each(|line| {
                ledger.unsafe_line(*line, "it cannot be read; no further client is allowed")
            });
            continue;
        };
        let is_all =
            entry.methods.is_empty() || entry.methods.iter().any(|method| method.eq_ignore_ascii_case("ALL"));
        let Some(new) = networks::subtract(&nets, &decided) else {
            entry.from.iter().for_each(|line| ledger.left_out(*line, "its networks are too many"));
            continue;
        };
        match (is_allowed, is_all) {
            (true, true) => list.nets.extend(new),
            (false, true) => {}
            (false, false) => {
                let methods = entry.methods.iter().filter(|method| *method != "PURGE" && *method != "PUSH");
                let methods: Vec<String> = methods.cloned().collect();
                if !methods.is_empty() && !new.is_empty() {
                    let rule =
                        Section::of(&entry.from).with("methods", Value::texts(methods)).with("deny", 403);
                    document.rules.push(rule.guard());
                    let is_whole = nets.iter().all(|net| net.prefix_len() == 0);
                    if let Some(line) = entry.from.first().filter(|_| !is_whole) {
                        ledger.approximated(*line, "the methods are refused to all clients");
                    }
                }
                list.nets.extend(new);
            }
            (true, false) => {
                let text = |nets: &[IpNet]| Value::texts(nets.iter().map(|net| net.to_string()));
                document.rules.push(Section::of(&entry.from).with("allow_clients", text(&list.nets)).guard());
                list.nets.extend(new);
                let rule = Section::default().with("methods", Value::texts(entry.methods.iter().cloned()));
                document.rules.push(rule.with("allow_clients", text(&list.nets)).guard());
                // A later entry would need further rules over these two.
                is_closed = true;
            }
        }
        decided.extend(nets);
        list.from.extend(entry.from);
    }
    list.nets = IpNet::aggregate(&list.nets);
    Ok(list)
}

/// Writes the `ip_allow.yaml` that Traffic Server is installed with: every client may ask, and some
/// methods are for this machine alone.
pub fn stock(document: &mut Document) {
    let mut rule = Section::default().with("methods", Value::texts(["DELETE", "TRACE", "PUSH"]));
    rule.note("No ip_allow stands beside the file. These are the rules that Traffic Server is installed");
    rule.note("with: all clients may ask; these methods and PURGE are for its own machine, here for none.");
    rule.note("Set allow_clients of the listeners if the old ones served fewer.");
    document.rules.push(rule.with("deny", 403).guard());
}

/// Writes the networks into the listeners, or into `[forward]`.
pub fn write(list: &AllowList, document: &mut Document, is_forward: bool) {
    let nets = Value::texts(list.nets.iter().map(|net| net.to_string()));
    if is_forward {
        document.table("forward").set("allow_clients", nets, &list.from);
        return;
    }
    for listen in &mut document.listen {
        listen.set("allow_clients", nets.clone(), &list.from);
    }
}

fn network(text: &str) -> Option<Vec<IpNet>> {
    let text = text.trim_matches(['"', '\'']);
    match text {
        "0/0" => Some(vec![IpNet::V4(Default::default())]),
        text => networks::parse(text),
    }
}

/// Reads entries that begin with a dash, with one key a line.
fn yaml(file: &SourceText, ledger: &mut Ledger) -> Result<Vec<AllowEntry>, Error> {
    let mut entries: Vec<AllowEntry> = Vec::new();
    let mut key = String::new();
    for (at, text) in file.text.lines().enumerate() {
        let body = text.split(" #").next().unwrap_or_default().trim();
        if body.is_empty() || body.starts_with('#') || body == "ip_allow:" {
            continue;
        }
        let id = ledger.add(&file.name, at + 1, body)?;
        let item = body.strip_prefix("- ").unwrap_or(body).trim();
        if body.starts_with('-') && item.contains(": ") && !item.starts_with('"') {
            entries.push(AllowEntry::default());
        }
        let Some(entry) = entries.last_mut() else {
            ledger.left_out(id, "it belongs to no entry");
            continue;
        };
        entry.from.push(id);
        let (name, value) = match item.split_once(':') {
            Some((name, value)) if value.is_empty() || value.starts_with(' ') => (name.trim(), value.trim()),
            _ => ("", item),
        };
        if !name.is_empty() {
            key = name.to_owned();
        }
        for value in
            value.trim_matches(['[', ']']).split(',').map(|value| value.trim().trim_matches(['"', '\'']))
        {
            if !value.is_empty() {
                set(entry, &key, value);
            }
        }
    }
    Ok(entries)
}

fn set(entry: &mut AllowEntry, key: &str, value: &str) {
    match key {
        "apply" => entry.is_out = value == "out",
        "ip_addrs" | "ip_addr" => match (network(value), entry.nets.take()) {
            (Some(nets), old) => entry.nets = Some([old.unwrap_or_default(), nets].concat()),
            (None, _) => entry.is_allowed = None,
        },
        "action" => {
            entry.is_allowed = match value {
                "allow" | "set_allow" => Some(true),
                "deny" | "set_deny" => Some(false),
                _ => None,
            };
        }
        "methods" | "method" => entry.methods.push(value.to_ascii_uppercase()),
        _ => entry.is_allowed = None,
    }
}
