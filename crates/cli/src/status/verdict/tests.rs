//! Tests of the verdict: documents in, findings out.

use super::*;
use crate::finding::worst;
use serde_json::json;
use shoal_proxy::admin::{DiskStatus, Ram, Responses, Space, Status};

/// Returns a look at a node that is well.
pub(in crate::status) fn well() -> NodeLook {
    let process = ProcessStatus {
        unix_ms: 1_000_000,
        open_files: 12,
        open_files_max: 1024,
        resident_bytes: 45_000_000,
        connections: 3,
        connections_max: 4096,
        ..ProcessStatus::default()
    };
    let status = Status {
        name: "shoal".into(),
        version: "0.1.0".into(),
        readiness: Readiness::Ready,
        pid: 7,
        upgrade_socket: None,
        uptime_seconds: 61,
        process,
        addresses: vec!["127.0.0.1:3128".into()],
        responses: Responses {
            all: 1600,
            hits: 1200,
            collapsed: 3,
            body_bytes: 4_000_000,
            hit_body_bytes: 1_000_000,
            upstream_body_bytes: 2_500_000,
            tunnels: 1001,
            tunnels_open: 2,
            tunnel_bytes: 7_000_000,
        },
        ram: Ram { space: Space { objects: 1, bytes: 1000, bytes_max: 256 << 20 }, ..Ram::default() },
        store: Some(store(vec![disk("/d1", "in_service", "")])),
        interception: None,
        upstreams: vec![upstream("*/", "http://a", true)],
        sites: Vec::new(),
        mirrors: Vec::new(),
        prefetch: Default::default(),
        certificates: Vec::new(),
    };
    NodeLook { status, status_json: json!({}), now: None, cluster: None, own_unix_ms: 1_000_900 }
}

pub(in crate::status) fn disk(path: &str, service: &str, why: &str) -> DiskStatus {
    let space = Space { objects: 3, bytes: 1000, bytes_max: 1_000_000 };
    DiskStatus { path: path.into(), service: service.into(), why: why.into(), space, ..DiskStatus::default() }
}

pub(in crate::status) fn store(disks: Vec<DiskStatus>) -> StoreStatus {
    StoreStatus {
        architecture: "squid".into(),
        directory: "shoal-cache".into(),
        space: Space { objects: 1234, bytes: 5_000_000, bytes_max: 10_000_000_000 },
        objects_max: 769_230,
        disks,
        evictions: 0,
        crowded_out: 0,
        spared_reads: 0,
        corrupt: 0,
        unwritten: 0,
        recovering: false,
    }
}

pub(in crate::status) fn upstream(site: &str, url: &str, healthy: bool) -> UpstreamStatus {
    UpstreamStatus { site: site.into(), url: url.into(), healthy }
}

/// Asserts that a changed look has one finding, of this level and with this text, and a remedy.
fn check(change: impl FnOnce(&mut NodeLook), level: Level, text: &str) {
    let mut look = well();
    change(&mut look);
    let findings = judge(&look);
    assert_eq!(findings.len(), 1, "{text}: {findings:?}");
    assert!(findings[0].level == level && findings[0].text.contains(text), "{text}: {findings:?}");
    assert!(!findings[0].fix.is_empty(), "{text}");
}

#[test]
fn sound_node_has_no_finding() {
    assert_eq!(judge(&well()), []);
}

#[test]
fn states_of_the_node_are_judged() {
    check(|look| look.status.readiness = Readiness::Starting, Level::Bad, "is starting");
    check(|look| look.status.readiness = Readiness::Draining, Level::Warn, "is stopping");
    check(|look| look.status.process.is_upgrading = true, Level::Warn, "upgrade is under way");
}

#[test]
fn disks_and_damage_are_judged() {
    let store = |look: &mut NodeLook, change: fn(&mut StoreStatus)| {
        change(look.status.store.as_mut().expect("a store"));
    };
    check(
        |look| store(look, |store| store.disks.push(disk("/d2", "failed", "could not read: EIO"))),
        Level::Warn,
        "disk /d2 is out of service: could not read: EIO",
    );
    check(|look| store(look, |store| store.disks[0].failures = 2), Level::Warn, "failed 2 calls");
    check(|look| store(look, |store| store.recovering = true), Level::Warn, "recovers");
    check(|look| store(look, |store| store.corrupt = 1), Level::Warn, "1 object came damaged");
    check(
        |look| store(look, |store| (store.evictions, store.crowded_out) = (10, 9)),
        Level::Warn,
        "the index is full at 1,234 objects",
    );
}

#[test]
fn origins_down_are_judged_by_site() {
    check(
        |look| look.status.upstreams.push(upstream("*/", "http://b", false)),
        Level::Warn,
        "1 of 2 origins do not answer: http://b",
    );
    check(|look| look.status.upstreams[0].healthy = false, Level::Bad, "site */ has no origin that answers");
    let mut look = well();
    look.status.upstreams = (0..900).map(|at| upstream(&format!("s{at}/"), "http://x", false)).collect();
    let findings = judge(&look);
    assert_eq!((findings.len(), worst(&findings)), (SITES_MAX + 1, Level::Bad));
    assert!(findings[SITES_MAX].text.starts_with("895 further sites"), "{findings:?}");
}

#[test]
fn cluster_is_judged() {
    let cluster = |value: Value| move |look: &mut NodeLook| look.cluster = Some(value);
    check(cluster(json!({ "refused": "another key" })), Level::Warn, "another key");
    check(cluster(json!({ "state": "draining" })), Level::Warn, "no home");
    let members = json!([{ "name": "a", "state": "in" }, { "name": "b", "state": "suspect" }]);
    check(cluster(json!({ "members": members })), Level::Warn, "1 of 2 cluster members do not answer: b");
    let peers = json!([{ "name": "b", "purges_lag": 3 }]);
    check(cluster(json!({ "peers": peers })), Level::Warn, "not confirmed by b");
    check(cluster(json!({ "state": 7, "members": {}, "peers": peers })), Level::Warn, "not confirmed");
}

#[test]
fn limits_and_clock_are_judged() {
    let process =
        |change: fn(&mut ProcessStatus)| move |look: &mut NodeLook| change(&mut look.status.process);
    check(process(|it| it.open_files = 900), Level::Warn, "900 of 1,024 file descriptors");
    check(process(|it| it.open_files = 1000), Level::Bad, "1,000 of 1,024 file descriptors");
    check(process(|it| it.connections = 4000), Level::Bad, "4,000 of 4,096 client connections");
    check(process(|it| it.connections_full = 1), Level::Warn, "full 1 time");
    check(process(|it| it.panics = 2), Level::Warn, "failed 2 times");
    check(process(|it| it.log_lines_dropped = 5), Level::Warn, "5 log lines were dropped");
    check(|look| look.own_unix_ms += 90_000, Level::Warn, "differ by 1 min 30 s");
    let mut old = well();
    old.status.process = ProcessStatus::default();
    assert_eq!(judge(&old), [], "a node of an older version tells nothing of these");
}
