//! `cache.config`: lifetimes and storing by URL.

use crate::document::{Document, Section};
use crate::expressions;
use crate::ledger::Ledger;
use crate::squid_access::shaped;
use crate::traffic_remap::MapUrl;
use crate::traffic_server::ConfigLine;
use crate::value::Value;

/// Adds a rule for each line. Rules speak of the hosts that clients ask for, the file of those of
/// origins, so that maps lead back.
pub fn rules(
    lines: &[ConfigLine],
    maps: &[ConfigLine],
    may_pin: bool,
    ledger: &mut Ledger,
    document: &mut Document,
) {
    for line in lines {
        let condition = match condition(line, maps) {
            Ok(condition) => condition,
            Err(why) if line.value("action") == Some("never-cache") => {
                ledger.approximated(line.id, format!("{why}; more than these URLs is not stored"));
                document.rules.push(Section::of(&[line.id]).with("store", false));
                continue;
            }
            Err(why) => {
                ledger.left_out(line.id, why);
                continue;
            }
        };
        ledger.carried(line.id);
        let mut rule = condition;
        let before = rule.entries.len();
        effect(line, may_pin, &mut rule, ledger);
        if rule.entries.len() > before {
            document.rules.push(rule);
        }
    }
}

fn condition(line: &ConfigLine, maps: &[ConfigLine]) -> Result<Section, String> {
    let mut rule = Section::of(&[line.id]);
    for name in ["time", "src_ip", "port", "scheme", "internal", "dest_ip", "tag"] {
        if line.value(name).is_some() {
            return Err(format!("rules do not ask for {name}"));
        }
    }
    if let Some(domain) = line.value("dest_domain").filter(|domain| *domain != ".") {
        let domain = domain.trim_start_matches('.');
        rule.set("hosts", Value::texts(asked(domain, true, maps)), &[]);
    } else if let Some(host) = line.value("dest_host") {
        rule.set("hosts", Value::texts(asked(host, false, maps)), &[]);
    } else if let Some(text) = line.value("host_regex") {
        rule.set("hosts", Value::texts(expressions::host(text)?), &[]);
    } else if let Some(text) = line.value("url_regex") {
        rule = shaped(&expressions::url(text, false)?, line.id);
    } else if line.value("dest_domain").is_none() {
        return Err("it names no destination".into());
    }
    let prefix = line.value("prefix").map(|prefix| format!("/{}*", prefix.trim_start_matches('/')));
    let suffix = line.value("suffix").map(|suffix| format!("*.{}", suffix.trim_start_matches('.')));
    let path = match (prefix, suffix) {
        (Some(prefix), Some(suffix)) => Some(format!("{}{suffix}", prefix.trim_end_matches('*'))),
        (prefix, suffix) => prefix.or(suffix),
    };
    if let Some(path) = path {
        rule.set("paths", Value::texts([path]), &[]);
    }
    if let Some(method) = line.value("method") {
        rule.set("methods", Value::texts([method.to_ascii_uppercase()]), &[]);
    }
    Ok(rule)
}

/// Returns the hosts that clients ask for where the origin has this host.
fn asked(host: &str, with_below: bool, maps: &[ConfigLine]) -> Vec<String> {
    let mut hosts = vec![host.to_ascii_lowercase()];
    if with_below {
        hosts.push(format!("*.{}", host.to_ascii_lowercase()));
    }
    for map in maps.iter().filter(|line| line.words.first().is_some_and(|word| word == "map")) {
        let urls: Vec<MapUrl> =
            map.words.iter().skip(1).take(2).filter_map(|text| MapUrl::parse(text)).collect();
        if let [target, to] = urls.as_slice() {
            let is_it = to.host == host || with_below && to.host.ends_with(&format!(".{host}"));
            if is_it && !target.host.is_empty() && !hosts.contains(&target.host) {
                hosts.push(target.host.clone());
            }
        }
    }
    hosts
}

fn effect(line: &ConfigLine, may_pin: bool, rule: &mut Section, ledger: &mut Ledger) {
    match line.value("action") {
        Some("never-cache") => rule.set("store", false, &[]),
        Some("ignore-client-no-cache") => rule.set("ignore_client_no_cache", true, &[]),
        Some("ignore-server-no-cache") => {
            rule.set("ignore_origin", Value::texts(["no-cache"]), &[]);
            ledger.approximated(line.id, "no-store still counts");
        }
        Some("ignore-no-cache") => {
            rule.set("ignore_client_no_cache", true, &[]);
            rule.set("ignore_origin", Value::texts(["no-cache"]), &[]);
            ledger.approximated(line.id, "no-store still counts");
        }
        Some(_) => ledger.left_out(line.id, "rules have no such action"),
        None => {}
    }
    if let Some(time) = line.value("ttl-in-cache").and_then(crate::nginx::seconds) {
        rule.set("lifetime", Value::seconds(time), &[]);
        rule.set("ignore_origin", Value::texts(["no-cache", "no-store", "private"]), &[]);
        rule.set("share_private", true, &[]);
        rule.note(
            "ttl-in-cache sets all words of the origin aside. Remove no-store, private and share_private",
        );
        rule.note("if pages for one client could be among them.");
    }
    if let Some(time) = line.value("revalidate").and_then(crate::nginx::seconds) {
        rule.set("lifetime", Value::seconds(time), &[]);
    }
    match (line.value("pin-in-cache"), may_pin) {
        (None, _) => {}
        (Some(_), true) => {
            rule.set("pin", true, &[]);
            ledger
                .approximated(line.id, "pinned answers stay while `store.pin_max` has room, not for a time");
        }
        (Some(_), false) => {
            ledger.needless(line.id, "proxy.config.cache.permit.pinning is off, so that nothing is pinned");
        }
    }
}
