//! Upstream groups of nginx.

use crate::document::Section;
use crate::ledger::{Ledger, LineId};
use crate::nginx_syntax::Directive;
use crate::value::Value;
use std::collections::HashMap;

/// A group of servers, or one server that `proxy_pass` names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerGroup {
    /// Host with port, and weight.
    pub servers: Vec<(String, u64)>,
    /// Value of `balance`; `None` for turns.
    pub balance: Option<&'static str>,
    /// Most requests in flight; `None` without a limit of each server.
    pub concurrency: Option<u64>,
    /// Requests that wait, and their longest wait in seconds.
    pub queue: Option<(u64, u64)>,
    pub limit_lines: Vec<LineId>,
    /// `true` if a server has no limit.
    pub is_unlimited: bool,
    /// Statements that it comes from.
    pub from: Vec<LineId>,
}

/// Settings of every upstream of a site.
#[derive(Clone, Debug, Default)]
pub struct UpstreamOptions {
    /// Path put before that of requests, without a final slash.
    pub path: String,
    /// Host that they get.
    pub host: Option<String>,
    /// Name in TLS.
    pub server_name: Option<String>,
    /// Statements.
    pub from: Vec<LineId>,
}

impl ServerGroup {
    /// Limits the requests in flight to a site's upstreams.
    pub fn limit(&self, section: &mut Section) {
        let Some(number) = self.concurrency.filter(|_| !self.is_unlimited) else { return };
        section.set("concurrency", number.clamp(1, 1_000_000), &self.limit_lines);
        let (queue, wait) = self.queue.unwrap_or((0, 0));
        section.set("queue", queue.min(1_000_000), &[]);
        if wait > 0 {
            section.set("queue_timeout", Value::seconds(wait.clamp(1, 3600)), &[]);
        }
    }
}

/// Reads every `upstream` block.
pub fn groups(
    directives: &[Directive],
    ledger: &mut Ledger,
    upstream: &mut Section,
) -> HashMap<String, ServerGroup> {
    let blocks = directives.iter().filter(|directive| directive.name == "upstream");
    blocks.map(|block| (block.word(0).to_owned(), group(block, ledger, upstream))).collect()
}

fn group(block: &Directive, ledger: &mut Ledger, upstream: &mut Section) -> ServerGroup {
    ledger.carried(block.line);
    let mut group = ServerGroup { from: vec![block.line], ..ServerGroup::default() };
    for directive in &block.block {
        let line = directive.line;
        match directive.name.as_str() {
            "server" => server(directive, &mut group, ledger),
            "least_conn" => {
                ledger.carried(line);
                group.balance = Some("least_requests");
                group.from.push(line);
            }
            "hash" if directive.word(0).contains("uri") || directive.word(0).contains("host") => {
                ledger
                    .approximated(line, "the hash is of the cache key, so that a URL stays with its server");
                group.balance = Some("hash");
                group.from.push(line);
            }
            "hash" | "ip_hash" | "sticky" => {
                ledger.left_out(line, "no client is bound to a server; requests go round in turn");
            }
            "random" => ledger.approximated(line, "requests go round in turn"),
            "keepalive" => match directive.word(0).parse::<u64>() {
                Ok(number) => {
                    ledger.carried(line);
                    upstream.set("idle_per_origin", number.max(1), &[line]);
                }
                Err(_) => ledger.left_out(line, "it names no number"),
            },
            "queue" => match directive.word(0).parse::<u64>() {
                Ok(number) => {
                    let wait = directive.words.iter().find_map(|word| word.strip_prefix("timeout="));
                    group.queue = Some((number, wait.and_then(crate::nginx::seconds).unwrap_or(60)));
                    group.limit_lines.push(line);
                    ledger.carried(line);
                }
                Err(_) => ledger.left_out(line, "it names no number"),
            },
            "zone" | "keepalive_requests" | "keepalive_timeout" | "keepalive_time" => {
                ledger.needless(line, "pools of connections need no setting");
            }
            _ => {}
        }
    }
    group
}

fn server(directive: &Directive, group: &mut ServerGroup, ledger: &mut Ledger) {
    let (line, address) = (directive.line, directive.word(0));
    if address.starts_with("unix:") || address.contains('$') || address.is_empty() {
        ledger.left_out(line, "upstreams are hosts with a port");
        return;
    }
    let (mut weight, mut most) = (1, None);
    for word in directive.words.iter().skip(1) {
        match word.split_once('=').unwrap_or((word, "")) {
            ("weight", number) => weight = number.parse().unwrap_or(1).clamp(1, 1_000_000),
            ("max_conns", number) => most = number.parse::<u64>().ok().filter(|number| *number > 0),
            ("max_fails" | "fail_timeout" | "slow_start" | "resolve", _) => {
                ledger.approximated(line, "a server that fails is left out for a while by itself");
            }
            ("backup", _) => {
                ledger.left_out(line, "no upstream waits for the others to fail");
                return;
            }
            ("down", _) => {
                ledger.needless(line, "the server is down");
                return;
            }
            _ => ledger.approximated(line, format!("{word} has no equal")),
        }
    }
    ledger.carried(line);
    match most {
        Some(most) => {
            group.concurrency = Some(group.concurrency.unwrap_or(0).saturating_add(most));
            group.limit_lines.push(line);
            ledger.approximated(line, "max_conns: the limit is of all servers together, for each site");
        }
        None => group.is_unlimited = true,
    }
    group.servers.push((address.to_owned(), weight));
    group.from.push(line);
}

/// Writes the upstreams of a site.
pub fn upstreams(group: &ServerGroup, scheme: &str, options: &UpstreamOptions) -> Value {
    let one = |(server, weight): &(String, u64)| {
        let mut entries = vec![("url", Value::Text(format!("{scheme}://{server}{}", options.path)))];
        if *weight != 1 {
            entries.push(("weight", Value::Whole(*weight)));
        }
        entries.extend(options.host.iter().map(|host| ("host", Value::from(host.as_str()))));
        entries.extend(options.server_name.iter().map(|name| ("server_name", Value::from(name.as_str()))));
        Value::Inline(entries)
    };
    Value::List(group.servers.iter().map(one).collect())
}
