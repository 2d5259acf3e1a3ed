//! `shoal status`: shows the state and the contents of a running node.

mod sites;

use crate::admin_client::ask;
use crate::configuration::admin_address;
use crate::failure::Failure;
use crate::show::{self, print};
use shoal_proxy::admin::{DiskStatus, Status, StoreStatus};
use shoal_settings::AdminAddress;
use std::fmt::Write;
use std::path::PathBuf;

/// Show the state and the contents of a running node
#[derive(clap::Args)]
pub struct StatusOptions {
    /// The node's admin address, such as 127.0.0.1:3129 or unix:/run/shoal/admin.sock
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<AdminAddress>,
    /// Take the admin address from this configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the node's own JSON
    #[arg(long)]
    json: bool,
}

impl StatusOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let address = admin_address(self.admin, self.config)?;
        let answer = ask(&address, "GET", "/status", "")?;
        let status: Result<Status, _> = serde_json::from_str(&answer.body);
        match (answer.status, status) {
            (200, Ok(_)) if self.json => print(&answer.body),
            (200, Ok(status)) => print(&render(&status)),
            _ => {
                Err(Failure::Runtime(format!("{address} answers {}: {}", answer.status, answer.body.trim())))
            }
        }
    }
}

fn render(status: &Status) -> String {
    let mut text = format!(
        "{} (shoal {}), {}, up {}\n",
        status.name,
        status.version,
        status.readiness.name(),
        show::duration(status.uptime_seconds)
    );
    let _ = writeln!(text, "listens  {}", status.addresses.join(", "));
    let served = &status.responses;
    let _ = writeln!(
        text,
        "answered {}, {} out of the cache{}",
        show::counted(served.all, "request"),
        show::count(served.hits),
        share(served.hits, served.all)
    );
    let _ = writeln!(
        text,
        "sent     {}, {} out of the cache{}; {} received from origins",
        show::size(served.body_bytes),
        show::size(served.hit_body_bytes),
        share(served.hit_body_bytes, served.body_bytes),
        show::size(served.upstream_body_bytes)
    );
    let _ = writeln!(
        text,
        "tunnels  {} ended, {} open; they carried {}, of which nothing can be cached",
        show::count(served.tunnels),
        show::count(served.tunnels_open),
        show::size(served.tunnel_bytes)
    );
    if let Some(interception) = &status.interception {
        let _ = writeln!(
            text,
            "https    of {} is INTERCEPTED: {} since the start, {} open, {} refused",
            interception.hosts.join(", "),
            show::counted(interception.connections, "connection"),
            show::count(interception.open),
            show::count(interception.refused)
        );
    }
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
    for upstream in &status.upstreams {
        let state = if upstream.healthy { "healthy" } else { "down" };
        let _ = writeln!(text, "upstream {} {state} (of {})", upstream.url, upstream.site);
    }
    prefetching(&mut text, status);
    text.push_str(&sites::render(&status.sites));
    if !status.mirrors.is_empty() {
        let _ = write!(text, "\n{}", crate::mirror::ls::render(&status.mirrors, None));
    }
    text
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

/// Formats `hits` of `all` as a percentage in brackets; an empty text if `all` is 0.
fn share(hits: u64, all: u64) -> String {
    if all == 0 { String::new() } else { format!(" ({:.1}%)", hits as f64 / all as f64 * 100.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_proxy::admin::{Ram, Readiness, Responses, Space, UpstreamStatus};

    fn disk(path: &str, service: &str, why: &str) -> DiskStatus {
        let space = Space { objects: 3, bytes: 1000, bytes_max: 1_000_000 };
        DiskStatus {
            path: path.into(),
            service: service.into(),
            why: why.into(),
            space,
            ..DiskStatus::default()
        }
    }

    #[test]
    fn unserved_store_differs_from_empty_store() {
        let disks = vec![disk("cache", "unopened", "could not open: Permission denied")];
        let store = StoreStatus { disks, ..store() };
        let mut text = String::new();
        super::disk(&mut text, &store);
        let expected = "\
disk     out of service: RAM serves alone (squid in shoal-cache)
  cache out of service, unopened: could not open: Permission denied
";
        assert_eq!(text, expected);
    }

    fn store() -> StoreStatus {
        StoreStatus {
            architecture: "squid".into(),
            directory: "shoal-cache".into(),
            space: Space { objects: 1234, bytes: 5_000_000, bytes_max: 10_000_000_000 },
            objects_max: 769_230,
            disks: vec![disk("/d1", "in_service", ""), disk("/d2", "failed", "could not read: EIO")],
            evictions: 0,
            crowded_out: 0,
            spared_reads: 0,
            corrupt: 0,
            unwritten: 0,
            recovering: false,
        }
    }

    #[test]
    fn a_status_is_told_in_lines() {
        let status = Status {
            name: "shoal".into(),
            version: "0.1.0".into(),
            readiness: Readiness::Ready,
            pid: 7,
            upgrade_socket: None,
            uptime_seconds: 61,
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
            store: Some(store()),
            interception: None,
            upstreams: vec![UpstreamStatus { site: "*/".into(), url: "http://a".into(), healthy: false }],
            sites: Vec::new(),
            mirrors: Vec::new(),
            prefetch: Default::default(),
        };
        let expected = "\
shoal (shoal 0.1.0), ready, up 1 min 1 s
listens  127.0.0.1:3128
answered 1,600 requests, 1,200 out of the cache (75.0%)
sent     4.0 MB, 1.0 MB out of the cache (25.0%); 2.5 MB received from origins
tunnels  1,001 ended, 2 open; they carried 7.0 MB, of which nothing can be cached
RAM      1.0 KB of 256 MiB, 1 response
disk     5.0 MB of 10 GB, 1,234 objects of at most 769,230, 0 evicted, 0 corrupt (squid in shoal-cache)
  /d1 1.0 KB of 1 MB, 3 objects, 0 failures
  /d2 out of service, failed: could not read: EIO
upstream http://a down (of */)
";
        assert_eq!(render(&status), expected);
    }
}
