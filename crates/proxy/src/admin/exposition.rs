//! The page of `GET /metrics`: the counters, then current values of the node and the process.

use super::certificates;
use super::hints;
use super::mirrors;
use super::process;
use super::sites;
use super::{DiskStatus, Ram, Readiness, Status, UpstreamStatus};
use crate::metrics::{Metrics, exposition};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Builds the whole page in Prometheus' text format.
pub(super) fn page(metrics: &Metrics, status: &Status) -> String {
    let mut page = exposition(&metrics.rows());
    metrics.write_histograms(&mut page);
    page.push_str(&exposition(&gauges(status)));
    let version = escaped(&status.version);
    header(&mut page, "gauge", "shoal_build_info", "The version at work.");
    let _ = writeln!(page, "shoal_build_info{{version=\"{version}\"}} 1");
    if !status.upstreams.is_empty() {
        header(&mut page, "gauge", "shoal_upstream_healthy", "Whether requests are sent to an upstream.");
        for ((site, url), healthy) in upstreams(&status.upstreams) {
            let (site, url) = (escaped(site), escaped(url));
            let _ = writeln!(
                page,
                "shoal_upstream_healthy{{site=\"{site}\",url=\"{url}\"}} {}",
                u8::from(healthy)
            );
        }
    }
    if let Some(store) = &status.store {
        disks(&mut page, &store.disks);
    }
    certificates::write(&mut page, &status.certificates);
    sites::write(&mut page, &status.sites);
    mirrors::write(&mut page, &status.mirrors);
    hints::write(&mut page, &status.prefetch);
    for (kind, name, help, value) in process::rows() {
        header(&mut page, kind, name, help);
        let _ = writeln!(page, "{name} {value}");
    }
    page
}

fn gauges(status: &Status) -> Vec<Row> {
    let ready = u64::from(status.readiness.accepts());
    let degraded = u64::from(status.readiness == Readiness::Degraded);
    let mut rows = vec![
        ("gauge", "shoal_ready", "", "Whether the node accepts clients.", ready),
        ("gauge", "shoal_degraded", "", "Whether a store is wanted and no disk of it serves.", degraded),
        ("gauge", "shoal_uptime_seconds", "", "Seconds since the start.", status.uptime_seconds),
    ];
    rows.extend(ram(&status.ram));
    if let Some(store) = &status.store {
        rows.extend([
            ("gauge", "shoal_store_objects", "", "Stored responses held on disk.", store.space.objects),
            ("gauge", "shoal_store_objects_max", "", "Most objects that the index holds.", store.objects_max),
            ("gauge", "shoal_store_bytes", "", "Disk space used.", store.space.bytes),
            ("gauge", "shoal_store_bytes_max", "", "The configured disk limit.", store.space.bytes_max),
            (
                "gauge",
                "shoal_store_unwritten",
                "",
                "Stored responses that are not written to disk yet, and one more while some are being written.",
                store.unwritten,
            ),
            (
                "gauge",
                "shoal_store_recovering",
                "",
                "Whether a disk still looks for what was written last before a crash.",
                u64::from(store.recovering),
            ),
            ("counter", "shoal_store_evictions_total", "", "Objects given up to make room.", store.evictions),
            (
                "counter",
                "shoal_store_crowded_out_total",
                "",
                "Objects given up for want of a place in the index.",
                store.crowded_out,
            ),
            (
                "counter",
                "shoal_store_corrupt_total",
                "",
                "Stored objects that failed a check and were dropped.",
                store.corrupt,
            ),
            (
                "counter",
                "shoal_store_spared_reads_total",
                "",
                "Reads from disk that what was read before has spared.",
                store.spared_reads,
            ),
        ]);
    }
    rows
}

fn ram(ram: &Ram) -> [Row; 12] {
    let (held, space) = ("RAM used for stored responses, bodies in flight and neighbourhoods.", &ram.space);
    let spans = "Memory in which small bodies stand, with the gaps between them.";
    let moved = "Bytes of bodies that were moved to close gaps.";
    let tracts = "Stretches of memory that large bodies are cut from; each is kept by the last body in it.";
    let tracts_max = "Most of these stretches; large bodies beyond them are copied when they are sent.";
    let addresses = "Addresses that these stretches take, with up to 4 KiB of page tables for each 2 MiB beside the RAM limit.";
    let bodies = "Bytes of large bodies in these stretches, in whole pages.";
    let replies = "Bodies in RAM that replies hold until their clients have taken them, a quarter of the limit at most.";
    let refused = "Replies that were to hold a body beyond that, and read it piece by piece.";
    [
        ("gauge", "shoal_ram_objects", "", "Stored responses held in RAM.", space.objects),
        ("gauge", "shoal_ram_bytes", "", held, space.bytes),
        ("gauge", "shoal_ram_bytes_max", "", "The configured RAM limit.", space.bytes_max),
        (
            "counter",
            "shoal_ram_evictions_total",
            "",
            "Responses given up in RAM to make room.",
            ram.evictions,
        ),
        ("gauge", "shoal_ram_span_bytes", "", spans, ram.span_bytes),
        ("counter", "shoal_ram_moved_bytes_total", "", moved, ram.moved_bytes),
        ("gauge", "shoal_ram_tracts", "", tracts, ram.tracts),
        ("gauge", "shoal_ram_tracts_max", "", tracts_max, ram.tracts_max),
        ("gauge", "shoal_ram_tract_address_bytes", "", addresses, ram.tract_address_bytes),
        ("gauge", "shoal_ram_tract_body_bytes", "", bodies, ram.tract_body_bytes),
        ("gauge", "shoal_ram_held_bytes", "", replies, ram.held_bytes),
        ("counter", "shoal_ram_holds_refused_total", "", refused, ram.holds_refused),
    ]
}

/// Type, name, labels, help and value.
type Row = (&'static str, &'static str, &'static str, &'static str, u64);

/// Returns the health by site and URL. Prometheus rejects a page with two rows of one name and
/// labels, so an upstream that a site names twice gets one row.
fn upstreams(all: &[UpstreamStatus]) -> BTreeMap<(&str, &str), bool> {
    let mut rows = BTreeMap::new();
    for upstream in all {
        let healthy = rows.entry((upstream.site.as_str(), upstream.url.as_str())).or_insert(true);
        *healthy &= upstream.healthy;
    }
    rows
}

/// Writes a row for each disk of each of these metrics.
fn disks(page: &mut String, disks: &[DiskStatus]) {
    type Row = (&'static str, &'static str, &'static str, fn(&DiskStatus) -> u64);
    let rows: [Row; 9] = [
        ("gauge", "shoal_store_disk_in_service", "Whether a disk serves.", |disk| {
            u64::from(disk.is_in_service())
        }),
        ("gauge", "shoal_store_disk_objects", "Stored responses held on a disk.", |disk| disk.space.objects),
        ("gauge", "shoal_store_disk_bytes", "Space used of a disk.", |disk| disk.space.bytes),
        ("gauge", "shoal_store_disk_bytes_max", "The configured limit of a disk.", |disk| {
            disk.space.bytes_max
        }),
        ("counter", "shoal_store_disk_failures_total", "Calls to a disk that failed.", |disk| disk.failures),
        ("gauge", "shoal_store_disk_changing", "Whether a disk leaves or becomes smaller.", |disk| {
            u64::from(disk.change.is_some())
        }),
        ("gauge", "shoal_store_disk_change_percent", "Share of a changing disk that is done.", |disk| {
            disk.change_percent
        }),
        ("gauge", "shoal_store_disk_copied_bytes", "Bytes that the change of a disk has copied.", |disk| {
            disk.copied_bytes
        }),
        ("gauge", "shoal_store_disk_dropped_objects", "Objects that found no room in a change.", |disk| {
            disk.dropped_objects
        }),
    ];
    for (kind, name, help, value) in rows {
        header(page, kind, name, help);
        for disk in disks {
            let _ = writeln!(page, "{name}{{disk=\"{}\"}} {}", escaped(&disk.path), value(disk));
        }
    }
}

pub(super) fn header(page: &mut String, kind: &str, name: &str, help: &str) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Returns a label's value with backslash, quote and newline escaped.
pub(super) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
