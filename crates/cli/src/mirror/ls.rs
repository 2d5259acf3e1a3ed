//! `shoal mirror ls`: the mirrors of a running node, their use, and their objects on its disks.

use super::node::{MirrorStores, failed, status_of};
use crate::admin_client::NodeOptions;
use crate::failure::Failure;
use crate::show::{self, print};
use crate::table::table;
use serde_json::json;
use shoal_proxy::admin::MirrorStatus;
use shoal_registries::{HeldCounts, count_held};
use shoal_settings::MirrorKind;
use std::path::PathBuf;

/// List the mirrors of a running node: registry, requests, hits, bytes, time saved
///
/// The time saved is an estimate: each hit is taken to cost the mean time of a fetch since the
/// start. With --held, the disks of the node are read to count the objects of each mirror, which
/// reads all written data; objects in RAM alone are not counted.
#[derive(clap::Args)]
pub struct MirrorLsOptions {
    #[command(flatten)]
    node: NodeOptions,
    /// Count the objects that the disks hold of each mirror
    #[arg(long)]
    held: bool,
    /// Folder or device of the store for --held; may be given more than once. Without it, the
    /// node's disks are read
    #[arg(long = "store", value_name = "PATH")]
    stores: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl MirrorLsOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let mirrors = status_of(&self.node)?.mirrors;
        let is_held_wanted = self.held || !self.stores.is_empty();
        let held = match is_held_wanted && !mirrors.is_empty() {
            true => {
                let found = MirrorStores::find(&self.node, &self.stores)?;
                Some(count_held(&found.mirrors, &found.stores()).map_err(failed)?)
            }
            false => None,
        };
        match self.json {
            true => print(&as_json(&mirrors, held.as_deref())?),
            false if mirrors.is_empty() => print("this node has no mirrors\n"),
            false => print(&render(&mirrors, held.as_deref())),
        }
    }
}

/// Formats a table of mirrors, and another one of their objects if these were counted.
pub fn render(mirrors: &[MirrorStatus], held: Option<&[HeldCounts]>) -> String {
    debug_assert!(mirrors.iter().all(|mirror| mirror.hits <= mirror.requests), "a hit is a request");
    let mut rows = vec![HEADING.map(String::from)];
    rows.extend(mirrors.iter().map(row));
    let mut text = table(&rows, &[0, 1, 2]);
    if let Some(held) = held {
        let mut rows = vec![HELD.map(String::from)];
        rows.extend(held.iter().map(|counts| {
            let HeldCounts { mirror, documents, files, body_bytes } = counts;
            [mirror.clone(), show::count(*documents), show::count(*files), show::size(*body_bytes)]
        }));
        text = format!("{text}\n{}", table(&rows, &[0]));
    }
    text
}

fn row(mirror: &MirrorStatus) -> [String; 10] {
    let is_written = mirror.kind == MirrorKind::BuildCache.name();
    let upstream = if is_written { WRITTEN_BY_CLIENTS } else { &mirror.upstream };
    let offline = if mirror.offline { " (offline)" } else { "" };
    [
        mirror.name.clone(),
        mirror.kind.clone(),
        format!("{upstream}{offline}"),
        show::short(mirror.requests),
        percent(mirror.hits, mirror.requests),
        show::size(mirror.body_bytes),
        percent(mirror.hit_body_bytes, mirror.body_bytes),
        show::short(mirror.upstream_requests),
        show::size(mirror.upstream_body_bytes),
        time(mirror.saved_us),
    ]
}

fn percent(part: u64, all: u64) -> String {
    if all == 0 { "-".into() } else { format!("{:.1}%", part as f64 / all as f64 * 100.0) }
}

/// Formats a time: to the second from a minute on.
fn time(micros: u64) -> String {
    match micros {
        0 => "-".into(),
        1..60_000_000 => show::micros(micros),
        _ => show::duration(micros / 1_000_000),
    }
}

fn as_json(mirrors: &[MirrorStatus], held: Option<&[HeldCounts]>) -> Result<String, Failure> {
    let unreadable = |error: serde_json::Error| Failure::Runtime(error.to_string());
    let mut rows = Vec::new();
    for mirror in mirrors {
        let mut value = serde_json::to_value(mirror).map_err(unreadable)?;
        if let Some(counts) = held.and_then(|held| held.iter().find(|counts| counts.mirror == mirror.name)) {
            let HeldCounts { documents, files, body_bytes, .. } = counts;
            value["held"] = json!({ "documents": documents, "files": files, "body_bytes": body_bytes });
        }
        rows.push(value);
    }
    serde_json::to_string_pretty(&rows).map(|text| format!("{text}\n")).map_err(unreadable)
}

const HEADING: [&str; 10] = [
    "mirror",
    "kind",
    "registry",
    "requests",
    "hits",
    "sent",
    "byte hits",
    "asked",
    "received",
    "time saved",
];

/// Stands for the registry of a build cache, which has none.
const WRITTEN_BY_CLIENTS: &str = "none, written by clients";

const HELD: [&str; 4] = ["on disk", "documents", "files", "bytes"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_told_in_a_table() {
        let mirror = MirrorStatus {
            name: "npm".into(),
            kind: "npm".into(),
            upstream: "https://npm.example".into(),
            requests: 1_000,
            hits: 900,
            body_bytes: 4_000_000,
            hit_body_bytes: 3_000_000,
            upstream_requests: 100,
            upstream_body_bytes: 1_000_000,
            saved_us: 61_000_000,
            ..MirrorStatus::default()
        };
        let held = [HeldCounts { mirror: "npm".into(), documents: 12, files: 34, body_bytes: 5_000 }];
        let expected = "\
mirror  kind  registry             requests   hits    sent  byte hits  asked  received  time saved
npm     npm   https://npm.example     1,000  90.0%  4.0 MB      75.0%    100    1.0 MB   1 min 1 s

on disk  documents  files   bytes
npm             12     34  5.0 KB
";
        assert_eq!(render(&[mirror], Some(&held)), expected);
    }

    #[test]
    fn build_cache_has_no_registry() {
        let mirror = MirrorStatus {
            kind: "buildcache".into(),
            upstream: "http://buildcache.invalid".into(),
            ..MirrorStatus::default()
        };
        let shown = render(&[mirror], None);
        assert!(shown.contains("none, written by clients") && !shown.contains("invalid"), "{shown}");
    }
}
