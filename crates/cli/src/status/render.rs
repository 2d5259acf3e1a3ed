//! The screen of `shoal status`: the verdict with its reasons, then the figures that matter.

use super::look::NodeLook;
use super::sites;
use crate::finding::{Finding, worst};
use crate::show;
use serde_json::Value;
use shoal_dashboard::documents::NowDocument;
use shoal_proxy::admin::{DiskStatus, Responses, Status, StoreStatus};
use std::fmt::Write;

/// Returns the screen. `is_whole` shows all sites and mirrors, not only those with most requests.
pub fn screen(look: &NodeLook, findings: &[Finding], is_whole: bool) -> String {
    let status = &look.status;
    let mut text = verdict(status, findings);
    let _ = writeln!(text, "listens  {}", status.addresses.join(", "));
    traffic(&mut text, &status.responses, look.now.as_ref());
    interception(&mut text, status);
    let ram = &status.ram.space;
    let _ = writeln!(
        text,
        "RAM      {} of {}, {}",
        show::size(ram.bytes),
        show::limit(ram.bytes_max),
        show::counted(ram.objects, "response")
    );
    match &status.store {
        Some(store) => disk(&mut text, store),
        None => text.push_str("disk     none\n"),
    }
    process(&mut text, look);
    if let Some(cluster) = &look.cluster {
        self::cluster(&mut text, cluster);
    }
    certificates(&mut text, look);
    origins(&mut text, status);
    prefetching(&mut text, status);
    let shown = if is_whole { usize::MAX } else { ROWS };
    text.push_str(&sites::render(&status.sites, shown));
    if !status.mirrors.is_empty() {
        let _ = write!(text, "\n{}", crate::mirror::ls::render(&status.mirrors, None));
    }
    text
}

fn verdict(status: &Status, findings: &[Finding]) -> String {
    let mut text = format!(
        "{:8} {} (shoal {}), {}, up {}\n",
        worst(findings).verdict(),
        status.name,
        status.version,
        status.readiness.name(),
        show::duration(status.uptime_seconds)
    );
    for finding in findings {
        let _ = writeln!(text, "  {:6} {}", finding.level.name(), finding.text);
        if !finding.fix.is_empty() {
            let _ = writeln!(text, "         {}", finding.fix);
        }
    }
    text
}

fn traffic(text: &mut String, served: &Responses, now: Option<&NowDocument>) {
    let _ = writeln!(
        text,
        "answered {}, {} out of the cache{}{}",
        show::counted(served.all, "request"),
        show::count(served.hits),
        share(served.hits, served.all),
        now.map(last_minute).unwrap_or_default()
    );
    if let Some(now) = now {
        sources(text, now);
    }
    let _ = writeln!(
        text,
        "sent     {}, {} out of the cache{}; {} received from origins",
        show::size(served.body_bytes),
        show::size(served.hit_body_bytes),
        share(served.hit_body_bytes, served.body_bytes),
        show::size(served.upstream_body_bytes)
    );
    if served.tunnels > 0 || served.tunnels_open > 0 {
        let _ = writeln!(
            text,
            "tunnels  {} ended, {} open; they carried {}, of which nothing can be cached",
            show::count(served.tunnels),
            show::count(served.tunnels_open),
            show::size(served.tunnel_bytes)
        );
    }
}

fn last_minute(now: &NowDocument) -> String {
    let hits = now.hit_ratio.map(|ratio| format!(" with {:.1}% hits", ratio * 100.0)).unwrap_or_default();
    format!("; now {:.1} a second{hits}", now.requests_per_s)
}

/// Writes the sources of answers since the start, the largest first.
fn sources(text: &mut String, now: &NowDocument) {
    let all: u64 = now.answers.iter().map(|row| row.requests).sum();
    let mut rows: Vec<_> = now.answers.iter().filter(|row| row.requests > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.requests));
    let part = |row: &&shoal_dashboard::documents::AnswerRow| {
        let source = if row.source == "ram" { "RAM" } else { &row.source };
        format!("{source} {:.1}%", row.requests as f64 / all as f64 * 100.0)
    };
    if !rows.is_empty() {
        let parts: Vec<String> = rows.iter().map(part).collect();
        let _ = writeln!(text, "from     {}", parts.join(", "));
    }
}

fn interception(text: &mut String, status: &Status) {
    let Some(interception) = &status.interception else { return };
    let _ = writeln!(
        text,
        "https    of {} is INTERCEPTED: {} since the start, {} open, {} refused",
        interception.hosts.join(", "),
        show::counted(interception.connections, "connection"),
        show::count(interception.open),
        show::count(interception.refused)
    );
}

/// Writes the certificate that ends first.
fn certificates(text: &mut String, look: &NodeLook) {
    let all = &look.status.certificates;
    let ends = all.iter().filter_map(|certificate| Some((certificate.not_after?, certificate)));
    let Some((end, first)) = ends.min_by_key(|(end, _)| *end) else { return };
    let name = first.names.first().map_or(first.path.as_str(), String::as_str);
    let left = show::duration(end.saturating_sub(look.own_unix_ms / 1000));
    let all = show::counted(all.len() as u64, "certificate");
    let _ = writeln!(text, "TLS      {all}; that for {name} ends first, in {left}");
}

fn disk(text: &mut String, store: &StoreStatus) {
    let (architecture, directory) = (&store.architecture, &store.directory);
    if store.disks.iter().any(DiskStatus::is_in_service) {
        let _ = writeln!(
            text,
            "disk     {} of {}, {} of at most {}, {} evicted, {} corrupt ({architecture} in {directory})",
            show::size(store.space.bytes),
            show::limit(store.space.bytes_max),
            show::counted(store.space.objects, "object"),
            show::count(store.objects_max),
            show::count(store.evictions),
            show::count(store.corrupt),
        );
    } else {
        let _ = writeln!(text, "disk     out of service: RAM serves alone ({architecture} in {directory})");
    }
    disks(text, &store.disks);
}

/// Writes a line for each of several disks, and for a disk that is out of service.
fn disks(text: &mut String, disks: &[DiskStatus]) {
    for disk in disks {
        let space = &disk.space;
        let _ = match disk.is_in_service() {
            true if disks.len() == 1 => Ok(()),
            true => writeln!(
                text,
                "  {} {} of {}, {}, {}",
                disk.path,
                show::size(space.bytes),
                show::limit(space.bytes_max),
                show::counted(space.objects, "object"),
                show::counted(disk.failures, "failure")
            ),
            false => writeln!(text, "  {} out of service, {}: {}", disk.path, disk.service, disk.why),
        };
        if let Some(change) = &disk.change {
            let _ = writeln!(
                text,
                "  {} is {change}: {}% walked, {} copied ({}), {} without room",
                disk.path,
                disk.change_percent,
                show::counted(disk.copied_objects, "object"),
                show::size(disk.copied_bytes),
                show::count(disk.dropped_objects)
            );
        }
    }
}

fn process(text: &mut String, look: &NodeLook) {
    let process = &look.status.process;
    let cpu = look
        .now
        .as_ref()
        .map(|now| format!("{:.2} of {} cores, ", now.limits.cpu_cores_used, now.limits.cores));
    if process.open_files_max > 0 {
        let _ = writeln!(
            text,
            "process  {}{} resident, {} of {} files, {} of {} connections",
            cpu.unwrap_or_default(),
            show::size(process.resident_bytes),
            show::count(process.open_files),
            show::count(process.open_files_max),
            show::count(process.connections),
            show::count(process.connections_max)
        );
    }
}

fn cluster(text: &mut String, value: &Value) {
    let members = value["members"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_in = |member: &&Value| member["state"] == "in";
    let _ = writeln!(
        text,
        "cluster  {}: this node is {}; {} of {} members are in",
        value["cluster"].as_str().unwrap_or_default(),
        value["state"].as_str().unwrap_or_default(),
        members.iter().filter(is_in).count(),
        members.len()
    );
}

fn origins(text: &mut String, status: &Status) {
    let all = status.upstreams.len();
    if all > 0 {
        let up = status.upstreams.iter().filter(|upstream| upstream.healthy).count();
        let _ = writeln!(text, "origins  {up} of {all} up");
    }
    for upstream in status.upstreams.iter().filter(|upstream| !upstream.healthy).take(ROWS) {
        let _ = writeln!(text, "  {} down (of {})", upstream.url, upstream.site);
    }
}

/// Writes a line for each source of hints.
fn prefetching(text: &mut String, status: &Status) {
    for source in &status.prefetch.sources {
        let muted = source
            .muted_seconds
            .map_or_else(String::new, |seconds| format!("; MUTED for {}", show::duration(seconds)));
        let _ = writeln!(
            text,
            "prefetch {} by {}: {} fetched, {} used, {} wasted ({}){muted}",
            show::counted(source.received, "hint"),
            source.source,
            show::count(source.prefetched),
            show::count(source.used),
            show::count(source.wasted),
            show::size(source.wasted_bytes)
        );
    }
}

/// Formats `hits` of `all` as a percentage in brackets; an empty text if `all` is 0.
fn share(hits: u64, all: u64) -> String {
    debug_assert!(hits <= all, "a part is no more than the whole");
    if all == 0 { String::new() } else { format!(" ({:.1}%)", hits as f64 / all as f64 * 100.0) }
}

/// Rows of a list that are shown without `--all`.
const ROWS: usize = 5;

#[cfg(test)]
mod tests {
    use super::super::verdict::judge;
    use super::super::verdict::tests::{disk, store, upstream, well};
    use super::*;
    use serde_json::json;
    use shoal_dashboard::documents::{AnswerRow, Limits};

    #[test]
    fn unserved_store_differs_from_empty_store() {
        let disks = vec![disk("cache", "unopened", "could not open: Permission denied")];
        let mut text = String::new();
        super::disk(&mut text, &store(disks));
        let expected = "\
disk     out of service: RAM serves alone (squid in shoal-cache)
  cache out of service, unopened: could not open: Permission denied
";
        assert_eq!(text, expected);
    }

    #[test]
    fn screen_begins_with_verdict_and_reasons() {
        let mut look = well();
        look.status.upstreams.push(upstream("*/", "http://b", false));
        let disks = vec![disk("/d1", "in_service", ""), disk("/d2", "failed", "could not read: EIO")];
        look.status.store = Some(store(disks));
        look.cluster = Some(json!({ "cluster": "prod", "state": "in", "members": [{ "state": "in" }] }));
        let row =
            |source: &str, requests| AnswerRow { source: source.into(), requests, ..AnswerRow::default() };
        look.now = Some(NowDocument {
            requests_per_s: 12.34,
            hit_ratio: Some(0.5),
            answers: vec![row("disk", 1), row("ram", 3), row("peer", 0)],
            limits: Limits { cpu_cores_used: 0.25, cores: 2, ..Limits::default() },
            ..NowDocument::default()
        });
        let expected = "\
degraded shoal (shoal 0.1.0), ready, up 1 min 1 s
  warn   disk /d2 is out of service: could not read: EIO
         mend what it names, or replace the disk, then `shoal store online /d2`
  warn   site */: 1 of 2 origins do not answer: http://b
         look at the server and its log; `shoal top --view origins` has errors and times
listens  127.0.0.1:3128
answered 1,600 requests, 1,200 out of the cache (75.0%); now 12.3 a second with 50.0% hits
from     RAM 75.0%, disk 25.0%
sent     4.0 MB, 1.0 MB out of the cache (25.0%); 2.5 MB received from origins
tunnels  1,001 ended, 2 open; they carried 7.0 MB, of which nothing can be cached
RAM      1.0 KB of 256 MiB, 1 response
disk     5.0 MB of 10 GB, 1,234 objects of at most 769,230, 0 evicted, 0 corrupt (squid in shoal-cache)
  /d1 1.0 KB of 1 MB, 3 objects, 0 failures
  /d2 out of service, failed: could not read: EIO
process  0.25 of 2 cores, 45.0 MB resident, 12 of 1,024 files, 3 of 4,096 connections
cluster  prod: this node is in; 1 of 1 members are in
origins  1 of 2 up
  http://b down (of */)
";
        assert_eq!(screen(&look, &judge(&look), false), expected);
        let well = well();
        assert!(
            screen(&well, &[], false)
                .starts_with("well     shoal (shoal 0.1.0), ready, up 1 min 1 s\nlistens ")
        );
    }
}
