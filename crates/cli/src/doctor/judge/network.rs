//! The network: settings of the kernel, names, addresses, the admin listener.

use crate::doctor::facts::{Kernel, NameFact, PortFact, PortState};
use crate::finding::Finding;
use crate::show;
use shoal_settings::{AdminAddress, Settings};
use std::time::Duration;

/// Judges the kernel's settings that limit a busy node.
pub(super) fn kernel(settings: &Settings, kernel: &Kernel) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(most) = kernel.somaxconn.filter(|most| *most < BACKLOG) {
        findings.push(Finding::warn(
            format!("kernel: net.core.somaxconn = {most} shortens the queue of new connections"),
            format!("`sysctl net.core.somaxconn={}`", BACKLOG * 4),
        ));
    }
    if let Some(most) = kernel.syn_backlog.filter(|most| *most < SYN_BACKLOG) {
        findings.push(Finding::warn(
            format!("kernel: net.ipv4.tcp_max_syn_backlog = {most} is short for bursts of connections"),
            format!("`sysctl net.ipv4.tcp_max_syn_backlog={BACKLOG}`"),
        ));
    }
    if let Some((first, last)) = kernel.local_ports {
        let ports = (last + 1).saturating_sub(first);
        let fix = "`sysctl net.ipv4.ip_local_port_range='10240 65535'`";
        let wanted = settings.upstream.connections_per_origin as u64;
        if ports < wanted.max(LOCAL_PORTS) {
            findings.push(Finding::warn(
                format!("kernel: {} local ports for connections to one origin's address", show::count(ports)),
                fix,
            ));
        }
        let inside = |port: u16| (first..=last).contains(&u64::from(port));
        let listens = settings.listen.iter().map(|listen| listen.address.port());
        for port in listens.filter(|port| *port != 0 && inside(*port)) {
            findings.push(Finding::warn(
                format!(
                    "kernel: port {port} is among the local ports: a connection may have it at the start"
                ),
                format!("`sysctl net.ipv4.ip_local_reserved_ports={port}`"),
            ));
        }
    }
    if kernel.timestamps == Some(0) && kernel.tw_reuse != Some(0) {
        findings.push(Finding::warn(
            "kernel: net.ipv4.tcp_timestamps = 0: ports of ended connections to origins stay taken for a minute",
            "`sysctl net.ipv4.tcp_timestamps=1`",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::ok("kernel: queues of connections and local ports are as long as needed"));
    }
    findings
}

/// Judges names; one line for all that are found.
pub(super) fn names(names: &[NameFact]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in names {
        let told = format!("DNS: {} of {}", name.name, name.setting);
        let fix = "correct the name, or look at /etc/resolv.conf and the servers in it";
        match &name.found {
            None => {
                findings.push(Finding::bad(format!("{told} is not found within {} s", LOOKUP.as_secs()), fix))
            }
            Some(Err(why)) => findings.push(Finding::bad(format!("{told} is not found: {why}"), fix)),
            Some(Ok(0)) => findings.push(Finding::bad(format!("{told} has no address"), fix)),
            Some(Ok(_)) if name.took > SLOW_LOOKUP => findings.push(Finding::warn(
                format!("{told} is found after {:.1} s only", name.took.as_secs_f64()),
                "each new name costs clients this time: a resolver on this machine or near it",
            )),
            Some(Ok(_)) => {}
        }
    }
    debug_assert!(findings.len() <= names.len(), "a name has one finding");
    let found = names.len() - findings.len();
    if found > 0 {
        findings.push(Finding::ok(format!("DNS: {found} of {} names are found", names.len())));
    }
    findings
}

/// Judges listening addresses. A node that `is_unasked` may have those that are taken.
pub(super) fn ports(ports: &[PortFact], is_unasked: bool) -> Vec<Finding> {
    let judge = |port: &PortFact| {
        let told = format!("{} = {}", port.setting, port.address);
        let number = port.address.rsplit(':').next().unwrap_or_default();
        match &port.state {
            PortState::Free => Finding::ok(format!("{told} is free")),
            PortState::Nodes => Finding::ok(format!("{told} is the running node's")),
            PortState::Taken if is_unasked => Finding::warn(
                format!("{told} is taken, by the running node or by another process"),
                format!("`ss -ltnp 'sport = :{number}'` names it"),
            ),
            PortState::Taken => Finding::bad(
                format!("{told} is taken by another process"),
                format!("`ss -ltnp 'sport = :{number}'` names it; stop it, or take another port"),
            ),
            PortState::Forbidden => Finding::warn(
                format!("{told}: this user may not listen below port 1024"),
                "AmbientCapabilities=CAP_NET_BIND_SERVICE in the service, as the package has it",
            ),
            PortState::Foreign => Finding::bad(
                format!("{told} is no address of this machine"),
                "`ip address` lists them; 0.0.0.0 and [::] are all of them",
            ),
            PortState::Failed(why) => {
                Finding::bad(format!("{told} cannot be used: {why}"), "take another address")
            }
        }
    };
    ports.iter().map(judge).collect()
}

/// Judges the reach of the admin listener.
pub(super) fn admin(settings: &Settings) -> Option<Finding> {
    let admin = &settings.admin;
    match &admin.listen {
        Some(AdminAddress::Tcp(address)) if !address.ip().to_canonical().is_loopback() => {
            if admin.users.is_empty() {
                return Some(Finding::bad(
                    format!("admin.listen = {address}: every machine that reaches it may purge"),
                    "set [[admin.users]] and [[admin.tls]], or listen on loopback or a Unix socket",
                ));
            }
            None
        }
        _ => None,
    }
}

/// Connections that wait for their acceptance, at each listener.
const BACKLOG: u64 = 1024;

/// Half-open connections that a burst of clients makes.
const SYN_BACKLOG: u64 = 256;

/// Local ports that are enough for most nodes.
const LOCAL_PORTS: u64 = 10_000;

/// Longest wait for the lookup of a name.
pub(in crate::doctor) const LOOKUP: Duration = Duration::from_secs(5);

/// Time of a lookup that clients notice.
const SLOW_LOOKUP: Duration = Duration::from_secs(1);
