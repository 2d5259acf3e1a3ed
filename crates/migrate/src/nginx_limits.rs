//! Limits of nginx by client: rates of requests, and connections.

use crate::document::Section;
use crate::ledger::LineId;
use crate::nginx::Nginx;
use crate::nginx_access::PathTest;
use crate::nginx_location::in_force;
use crate::nginx_syntax::Directive;
use crate::value::Value;

/// A zone of `limit_req_zone` or `limit_conn_zone`.
#[derive(Clone, Debug)]
pub struct Zone {
    /// Requests a second.
    per_second: Option<f64>,
    is_by_client: bool,
    line: LineId,
}

/// Reads every zone of a level, with its name.
pub fn zones(level: &[Directive]) -> Vec<(String, Zone)> {
    let is_zone = |directive: &&Directive| ["limit_req_zone", "limit_conn_zone"].contains(&&*directive.name);
    let one = |directive: &Directive| {
        let value = |name: &str| directive.words.iter().find_map(|word| word.strip_prefix(name));
        let name = value("zone=")?.split(':').next()?.to_owned();
        let is_by_client = BY_CLIENT.contains(&directive.word(0));
        let per_second = value("rate=").and_then(rate);
        Some((name, Zone { per_second, is_by_client, line: directive.line }))
    };
    level.iter().filter(is_zone).filter_map(one).collect()
}

/// Reads `10r/s` and `30r/m`.
fn rate(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once("r/")?;
    let number = f64::from(number.parse::<u32>().ok()?);
    let rate = match unit {
        "s" => number,
        "m" => number / 60.0,
        _ => return None,
    };
    // More digits than this mean nothing.
    (rate > 0.0).then(|| ((rate * 1000.0).round() / 1000.0).clamp(0.001, 1_000_000.0))
}

/// Makes a rule for each `limit_req` that stands at a level itself.
pub fn rates(nginx: &mut Nginx<'_>, own: &[Directive], test: &PathTest) -> Vec<Section> {
    let is_dry = own.iter().any(|one| one.name == "limit_req_dry_run" && one.word(0) == "on");
    let mut rules = Vec::new();
    for directive in own.iter().filter(|directive| directive.name == "limit_req") {
        let line = directive.line;
        let value = |name: &str| directive.words.iter().find_map(|word| word.strip_prefix(name));
        let zone = value("zone=").and_then(|name| nginx.zones.get(name)).cloned();
        if is_dry {
            nginx.ledger.needless(line, "it refuses nothing (limit_req_dry_run)");
            continue;
        }
        let Some(Zone { per_second: Some(per_second), is_by_client: true, line: zone }) = zone else {
            nginx.ledger.left_out(line, "rates are by client address alone; nothing is limited here");
            zone.iter()
                .for_each(|zone| nginx.ledger.left_out(zone.line, "rates are by client address alone"));
            continue;
        };
        nginx.ledger.carried(zone);
        nginx.ledger.approximated(
            line,
            "the rule counts by itself. Requests within the burst go on at once, further ones get 429",
        );
        let burst = value("burst=").and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        debug_assert!(per_second > 0.0, "a rate of nothing is no rate");
        let mut rule = test.section(&[zone, line]);
        rule.set("client_rate", Value::Fraction(per_second), &[]);
        rule.set("client_burst", burst.saturating_add(1).min(1_000_000), &[]);
        rules.push(rule);
    }
    rules
}

/// Sets the limit of connections that is in force for a server, in a section of its listener.
pub fn connections(nginx: &mut Nginx<'_>, levels: &[&[Directive]], section: &mut Section) {
    for directive in in_force(levels, &["limit_conn"]) {
        let zone = nginx.zones.get(directive.word(0)).cloned();
        let number = directive.word(1).parse::<u64>().ok().filter(|number| *number > 0);
        match (zone, number) {
            (Some(Zone { is_by_client: true, line, .. }), Some(number)) => {
                nginx.ledger.carried(line);
                nginx.ledger.approximated(
                    directive.line,
                    "the limit is of the listener, with all its servers; idle connections count, and requests \
                     of one HTTP/2 connection count once",
                );
                least(section, number.min(10_000_000), &[line, directive.line]);
            }
            (zone, _) => {
                let why = "connections are limited by client address alone; `concurrency` of a site limits the \
                           requests to its origin";
                nginx.ledger.left_out(directive.line, why);
                zone.iter().for_each(|zone| nginx.ledger.left_out(zone.line, why));
            }
        }
    }
}

/// Sets `client_connections` of a listener, unless it is lower already.
pub fn least(section: &mut Section, number: u64, from: &[LineId]) {
    match section.get("client_connections") {
        Some(Value::Whole(old)) if *old <= number => {}
        _ => section.set("client_connections", number, from),
    }
}

/// Variables that stand for the client.
const BY_CLIENT: [&str; 4] =
    ["$binary_remote_addr", "$remote_addr", "$realip_remote_addr", "${binary_remote_addr}"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_a_second() {
        for (text, value) in
            [("10r/s", Some(10.0)), ("30r/m", Some(0.5)), ("1r/m", Some(0.017)), ("0r/s", None), ("5", None)]
        {
            assert_eq!(rate(text), value, "{text}");
        }
    }
}
