//! Limits of the system: open files, memory, the clock.

use crate::doctor::facts::{Clock, Memory, OpenFiles};
use crate::finding::Finding;
use crate::show;
use shoal_settings::Settings;
use std::time::Duration;

/// Judges the limit of open files. Each connection takes one; further ones are for the store, the
/// logs and connections to origins.
pub(super) fn open_files(settings: &Settings, files: &OpenFiles) -> Finding {
    let wanted = (settings.max_connections as u64).saturating_add(RESERVED_FILES);
    let whose = if files.is_nodes { "the running node" } else { "this shell" };
    let limit = [files.hard, files.of_machine].into_iter().flatten().min();
    let Some(limit) = limit.filter(|limit| *limit < wanted) else {
        let limit = limit.map_or("no limit".into(), show::count);
        return Finding::ok(format!("open files: {limit} for {whose}, {} wanted", show::count(wanted)));
    };
    let text = format!(
        "open files: {} for {whose}, {} wanted for max_connections = {}",
        show::count(limit),
        show::count(wanted),
        settings.max_connections
    );
    let fix = format!(
        "LimitNOFILE={wanted} in the service, `ulimit -n {wanted}` in a shell; or lower max_connections"
    );
    if limit < RESERVED_FILES { Finding::bad(text, fix) } else { Finding::warn(text, fix) }
}

/// Judges the memory for the RAM tier and the index of the disk.
pub(super) fn memory(settings: &Settings, memory: &Memory) -> Vec<Finding> {
    let ram = settings.cache.ram.0;
    let index = index_bytes(settings);
    let wanted = ram.saturating_add(index);
    let of_group = memory.group_limit.filter(|limit| memory.total == 0 || *limit < memory.total);
    let limit = of_group.unwrap_or(memory.total);
    let whose = if of_group.is_some() { "the control group" } else { "the machine" };
    debug_assert!(wanted >= ram, "the index comes on top");
    let mut findings = Vec::new();
    let told = format!(
        "memory: cache.ram = {} and {} of index, of {} that {whose} has",
        settings.cache.ram,
        show::size(index),
        show::size(limit)
    );
    let fix =
        "lower cache.ram, or raise the limit: connections, buffers and the page cache need a third more";
    findings.push(match limit {
        0 => Finding::ok("memory: its size is unknown here"),
        limit if wanted >= limit => Finding::bad(told, fix),
        // 256 MiB of RAM tier run in 384 MiB; more beside it is comfort.
        limit if wanted > limit / 4 * 3 => Finding::warn(told, fix),
        _ => Finding::ok(told),
    });
    if memory.overcommit == Some(2) {
        findings.push(Finding::warn(
            "memory: vm.overcommit_memory = 2 counts address space that the RAM tier only reserves",
            "`sysctl vm.overcommit_memory=0`, or raise vm.overcommit_ratio, if the node does not start",
        ));
    }
    if memory.huge_pages.as_deref() == Some("never") {
        findings.push(Finding::warn(
            "memory: transparent huge pages are off; large popular bodies cost more CPU",
            "`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`",
        ));
    }
    findings
}

/// Returns the bytes of RAM for the index of the disks: ten an object in a volume.
fn index_bytes(settings: &Settings) -> u64 {
    let store = &settings.store;
    if store.all_disks().is_empty() || store.architecture != "volume" {
        return 0;
    }
    let objects = if store.max_objects > 0 { store.max_objects } else { store.disk_bytes() / 8192 };
    objects.saturating_mul(10)
}

/// Judges the clock.
pub(super) fn clock(clock: &Clock) -> Vec<Finding> {
    let mut findings = Vec::new();
    if clock.unix_s < OLDEST_S {
        findings.push(Finding::bad(
            "clock: it is years behind; certificates and ages cannot be judged",
            "set it, and start a time service (chrony, systemd-timesyncd)",
        ));
    }
    match clock.is_synchronised {
        Some(true) => findings.push(Finding::ok("clock: a time service keeps it")),
        Some(false) => findings.push(Finding::warn(
            "clock: no time service keeps it",
            "`timedatectl set-ntp true`, or chrony; ages, Expires and clusters depend on the clock",
        )),
        None => findings.push(Finding::ok("clock: nothing here tells whether a time service keeps it")),
    }
    if clock.step >= STEP {
        findings.push(Finding::warn(
            format!(
                "clock: it stepped by {} just now",
                show::micros(u64::try_from(clock.step.as_micros()).unwrap_or(u64::MAX))
            ),
            "let the time service slew: chrony `makestep 1 3`; look for two services at once",
        ));
    }
    findings
}

/// Open files beside those of clients.
const RESERVED_FILES: u64 = 512;

/// Beginning of 2024, in seconds since 1970: Shoal is younger.
const OLDEST_S: u64 = 1_704_067_200;

/// Step of the clock that is told.
const STEP: Duration = Duration::from_millis(100);
