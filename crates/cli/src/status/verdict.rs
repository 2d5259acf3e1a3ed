//! Verdict on a node: findings out of its documents, and nothing else.

mod certificates;

use super::look::NodeLook;
use crate::finding::{Finding, Level};
use crate::show;
use serde_json::Value;
use shoal_proxy::admin::{ProcessStatus, Readiness, StoreStatus, UpstreamStatus};
use std::collections::BTreeMap;

/// Returns all that is not in order, the worst first.
pub fn judge(look: &NodeLook) -> Vec<Finding> {
    let status = &look.status;
    let mut findings = Vec::new();
    findings.extend(readiness(status.readiness, status.process.is_upgrading));
    if let Some(store) = &status.store {
        findings.extend(disks(store));
    }
    findings.extend(origins(&status.upstreams));
    findings.extend(look.cluster.as_ref().map(cluster).unwrap_or_default());
    let now = if look.own_unix_ms > 0 { look.own_unix_ms } else { status.process.unix_ms } / 1000;
    findings.extend(certificates::judge(&status.certificates, now));
    findings.extend(process(&status.process));
    findings.extend(clock(status.process.unix_ms, look.own_unix_ms));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    debug_assert!(
        findings.iter().all(|finding| finding.level > Level::Ok),
        "nothing is told that is in order"
    );
    findings
}

fn readiness(readiness: Readiness, is_upgrading: bool) -> Option<Finding> {
    match readiness {
        Readiness::Starting => Some(Finding::bad(
            "the node is starting and accepts no client yet",
            "ask again in a few seconds; the error log tells what it waits for",
        )),
        Readiness::Draining => Some(Finding::warn(
            "the node is stopping: it finishes requests and then ends",
            "nothing, if you stopped it; otherwise the error log names the signal",
        )),
        Readiness::Ready | Readiness::Degraded if is_upgrading => Some(Finding::warn(
            "an upgrade is under way: a new process is taking over",
            "ask again in a few seconds; `upgrade_timeout` bounds it",
        )),
        Readiness::Ready | Readiness::Degraded => None,
    }
}

fn disks(store: &StoreStatus) -> Vec<Finding> {
    let mut findings = Vec::new();
    for disk in store.disks.iter().filter(|disk| !disk.is_in_service()) {
        let fix = match disk.service.as_str() {
            "offline" => format!("`shoal store online {}` brings it back", show::quoted(&disk.path)),
            _ => format!(
                "mend what it names, or replace the disk, then `shoal store online {}`",
                show::quoted(&disk.path)
            ),
        };
        findings.push(Finding::warn(format!("disk {} is out of service: {}", disk.path, disk.why), fix));
    }
    let failing = store.disks.iter().filter(|disk| disk.is_in_service() && disk.failures > 0);
    findings.extend(failing.map(|disk| {
        Finding::warn(
            format!("disk {} failed {}", disk.path, show::counted(disk.failures, "call")),
            "look for errors of the device (`dmesg`); replace it if they go on",
        )
    }));
    if store.recovering {
        findings.push(Finding::warn(
            "the store recovers from a crash: objects written last are misses until then",
            "nothing; it ends by itself",
        ));
    }
    if store.corrupt > 0 {
        findings.push(Finding::warn(
            format!(
                "{} came damaged from disk and were fetched again",
                show::counted(store.corrupt, "object")
            ),
            "`shoal store verify` reads everything; the device may be failing",
        ));
    }
    if store.crowded_out > store.evictions / 2 {
        findings.push(Finding::warn(
            format!(
                "the index is full at {}: {} had room on disk and no place in it",
                show::counted(store.space.objects, "object"),
                show::counted(store.crowded_out, "object")
            ),
            "objects are smaller than the index was made for: set store.max_objects and make the store anew",
        ));
    }
    findings
}

/// Judges each site by its origins. Without one that is up it has stored responses alone.
fn origins(upstreams: &[UpstreamStatus]) -> Vec<Finding> {
    let mut by_site: BTreeMap<&str, Vec<&UpstreamStatus>> = BTreeMap::new();
    for upstream in upstreams {
        by_site.entry(&upstream.site).or_default().push(upstream);
    }
    let (mut findings, mut sites) = (Vec::new(), 0);
    for (site, upstreams) in by_site {
        let down: Vec<&str> = upstreams.iter().filter(|it| !it.healthy).map(|it| it.url.as_str()).collect();
        if down.is_empty() {
            continue;
        }
        sites += 1;
        if findings.len() == SITES_MAX {
            continue;
        }
        let fix = "look at the server and its log; `shoal top --view origins` has errors and times";
        let names = some_of(&down);
        findings.push(match down.len() == upstreams.len() {
            true => Finding::bad(format!("site {site} has no origin that answers: {names}"), fix),
            false => Finding::warn(
                format!("site {site}: {} of {} origins do not answer: {names}", down.len(), upstreams.len()),
                fix,
            ),
        });
    }
    debug_assert!(findings.len() <= SITES_MAX && findings.len() <= sites, "a site has one finding");
    if sites > findings.len() {
        let more = sites - findings.len();
        findings.push(Finding::warn(format!("{more} further sites have origins that do not answer"), ""));
    }
    findings
}

/// Returns the first names, and the number of the others.
fn some_of(names: &[&str]) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    debug_assert!(!names.is_empty(), "there is a name");
    let first = names[..names.len() - more].join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}

fn cluster(value: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(why) = value["refused"].as_str() {
        findings.push(Finding::warn(
            format!("the cluster refused this node, which serves alone: {why}"),
            "`shoal cluster status` on this node and another; key, name and clock must agree",
        ));
    }
    if value["state"] == "draining" {
        findings.push(Finding::warn(
            "this node drains: it is no home of objects",
            "`shoal cluster join` undoes it",
        ));
    }
    let members = value["members"].as_array().map(Vec::as_slice).unwrap_or_default();
    let silent = |member: &&Value| matches!(member["state"].as_str(), Some("suspect" | "out"));
    let silent: Vec<&str> =
        members.iter().filter(silent).filter_map(|member| member["name"].as_str()).collect();
    if !silent.is_empty() {
        findings.push(Finding::warn(
            format!(
                "{} of {} cluster members do not answer: {}",
                silent.len(),
                members.len(),
                some_of(&silent)
            ),
            "look at those nodes, and at the network between: `shoal cluster peers`",
        ));
    }
    let peers = value["peers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let lagging = |peer: &&Value| peer["purges_lag"].as_u64().unwrap_or(0) > 0;
    let lagging: Vec<&str> = peers.iter().filter(lagging).filter_map(|peer| peer["name"].as_str()).collect();
    if !lagging.is_empty() {
        findings.push(Finding::warn(
            format!("purges are not confirmed by {}", some_of(&lagging)),
            "these nodes may serve what was purged, until they are reached",
        ));
    }
    findings
}

fn process(process: &ProcessStatus) -> Vec<Finding> {
    let mut findings = Vec::new();
    let near = |used: u64, limit: u64, percent: u64| {
        limit > 0 && used.saturating_mul(100) >= limit.saturating_mul(percent)
    };
    let files = (process.open_files, process.open_files_max);
    let text = format!("{} of {} file descriptors are in use", show::count(files.0), show::count(files.1));
    let fix = "raise LimitNOFILE of the service (`shoal doctor` tells how far), or lower max_connections";
    if near(files.0, files.1, 97) {
        findings.push(Finding::bad(text, fix));
    } else if near(files.0, files.1, 85) {
        findings.push(Finding::warn(text, fix));
    }
    let (open, limit) = (process.connections, process.connections_max);
    if near(open, limit, 97) {
        findings.push(Finding::bad(
            format!("{} of {} client connections are open", show::count(open), show::count(limit)),
            "raise max_connections, or lower client.keep_alive",
        ));
    } else if process.connections_full > 0 {
        findings.push(Finding::warn(
            format!("a listener was full {}", show::counted(process.connections_full, "time")),
            "raise max_connections; a restart clears the count",
        ));
    }
    if process.panics > 0 {
        findings.push(Finding::warn(
            format!("Shoal itself failed {}", show::counted(process.panics, "time")),
            "the error log has the place: please report it; a restart clears the count",
        ));
    }
    if process.log_lines_dropped > 0 {
        findings.push(Finding::warn(
            format!("{} were dropped", show::counted(process.log_lines_dropped, "log line")),
            "the disk or the reader of the log was too slow or full; a restart clears the count",
        ));
    }
    findings
}

fn clock(node_ms: u64, own_ms: u64) -> Option<Finding> {
    let difference_s = node_ms.abs_diff(own_ms) / 1000;
    (node_ms > 0 && own_ms > 0 && difference_s >= CLOCK_S).then(|| {
        Finding::warn(
            format!("the node's clock and this machine's differ by {}", show::duration(difference_s)),
            "synchronise both (NTP): ages and Expires depend on the clock",
        )
    })
}

/// Sites with failing origins that are named.
const SITES_MAX: usize = 5;

/// Names in a finding.
const NAMES_MAX: usize = 3;

/// Seconds from which on clocks differ.
const CLOCK_S: u64 = 5;

#[cfg(test)]
pub(super) mod tests;
