//! Hosts as network namespaces on one bridge: made, cut, healed, slowed, removed.
//!
//! Hardware addresses are fixed and all neighbours are entered by hand, so nobody asks for them. A
//! one-way cut changes the sender's entry to an address that nobody has: the frames leave, and no
//! station takes them. Unlike a blackhole route this tells the sender nothing, and it needs no
//! packet filter.

use super::names::{HOSTS_MAX, Names};
use super::tools::{ip, ip_lines, ip_lines_as_far_as_possible, tc};

/// Makes the bridge and the namespaces of `count` hosts.
pub(super) fn make(names: Names, count: usize) -> Result<(), String> {
    let bridge = names.bridge();
    // A sweep from within another network namespace frees a number and cannot see its bridge.
    remove_cables(names);
    let mut lines = vec![
        format!("link add {bridge} type bridge"),
        format!("link set {bridge} address {} addrgenmode none up", names.outside_hardware()),
        format!("addr add {}/24 dev {bridge}", names.outside()),
    ];
    for host in 0..count {
        ip(&["netns", "add", &names.namespace(host)])?;
        let (port, namespace) = (names.port(host), names.namespace(host));
        lines.push(format!("link add {port} type veth peer name eth0 netns {namespace}"));
        // The link of a host reads its port; the kernel must answer nothing there by itself.
        lines.push(format!("link set {port} addrgenmode none arp off master {bridge} up"));
        lines.push(neighbour(names, host, &bridge, true));
    }
    ip_lines(None, &lines)?;
    (0..count).try_for_each(|host| {
        let namespace = names.namespace(host);
        ip_lines(Some(&namespace), &inside(names, host, count))?;
        choose_congestion_control(&namespace)
    })
}

/// Lets a host send as Linux comes, whatever this machine has chosen. Another control, BBR, spaces
/// segments by timers, and holds some back for 0.1 s where a round trip takes microseconds.
fn choose_congestion_control(namespace: &str) -> Result<(), String> {
    let file = "/proc/sys/net/ipv4/tcp_congestion_control";
    let choices = CONGESTION_CONTROLS.map(|name| format!("echo {name} > {file}"));
    let script = format!("{{ {}; }} 2>/dev/null", choices.join(" || "));
    ip(&["netns", "exec", namespace, "sh", "-c", &script]).map(drop)
}

/// In this order. A namespace has the second where the machine allows it no other.
const CONGESTION_CONTROLS: [&str; 2] = ["cubic", "reno"];

/// Removes all of it, as far as it is there.
pub(super) fn remove(names: Names) {
    remove_cables(names);
    let listed = ip(&["netns", "list"]).unwrap_or_default();
    let ours = listed.lines().filter_map(|line| line.split_whitespace().next());
    for namespace in ours.filter(|name| name.starts_with(&names.namespaces())) {
        let _ = ip(&["netns", "delete", namespace]);
    }
}

/// Removes the bridge and all cables, as far as they are there.
fn remove_cables(names: Names) {
    // The kernel takes its time to empty a deleted namespace. Its cables go at once by their outer
    // ends, since the next ground may have the same number.
    let ends = (0..HOSTS_MAX).flat_map(|host| [names.port(host), names.uplink(host)[0].clone()]);
    let lines: Vec<String> = ends.chain([names.bridge()]).map(|end| format!("link delete {end}")).collect();
    // Most of them are not there.
    let _ = ip_lines_as_far_as_possible(&lines);
}

/// Process ids of everything in a host's namespace.
pub(super) fn processes(namespace: &str) -> Vec<u32> {
    let listed = ip(&["netns", "pids", namespace]).unwrap_or_default();
    listed.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// Namespaces of the ground that exist.
pub(super) fn namespaces(names: Names) -> Vec<String> {
    let listed = ip(&["netns", "list"]).unwrap_or_default();
    let first = |line: &str| line.split_whitespace().next().map(str::to_string);
    listed.lines().filter_map(first).filter(|name| name.starts_with(&names.namespaces())).collect()
}

/// Bytes that an interface of the test's own namespace has received.
pub(super) fn received_bytes(device: &str) -> Result<u64, String> {
    let text = ip(&["-s", "-j", "link", "show", "dev", device])?;
    let links: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let bytes = links[0]["stats64"]["rx"]["bytes"].as_u64();
    bytes.ok_or_else(|| format!("no count of bytes at {device} in {text}"))
}

/// Lets frames from one host to another pass, or vanish.
pub(super) fn set_path(names: Names, from: usize, to: usize, open: bool) -> Result<(), String> {
    ip_lines(Some(&names.namespace(from)), &[neighbour(names, to, "eth0", open)])
}

/// Plugs a host's cable into the bridge, or pulls it out. The carrier stays, so the host is not
/// told.
pub(super) fn plug(names: Names, port: &str, plugged: bool) -> Result<(), String> {
    let bridge = names.bridge();
    let words: &[&str] = if plugged { &["master", &bridge] } else { &["nomaster"] };
    ip(&[&["link", "set", port], words].concat()).map(drop)
}

/// Limits what a host sends and receives, each to so many bits a second.
pub(super) fn shape(names: Names, host: usize, bits_per_second: u64) -> Result<(), String> {
    let rate = format!("{bits_per_second}bit");
    // A burst of 4 ms, and at least one large frame of the kernel's.
    let burst = (bits_per_second / 8 / 250).max(70_000).to_string();
    for (namespace, device) in [(Some(names.namespace(host)), "eth0".into()), (None, names.port(host))] {
        let device: &str = &device;
        let place = ["qdisc", "replace", "dev", device, "root"];
        let limit = ["tbf", "rate", &rate, "burst", &burst, "latency", "100ms"];
        tc(namespace.as_deref(), &[&place[..], &limit].concat())?;
    }
    Ok(())
}

/// Puts a cable between a host's port and the bridge, in the middle of which a link stands.
/// Large frames of the kernel's are cut to what fits a packet socket.
pub(super) fn part(names: Names, host: usize) -> Result<[String; 2], String> {
    let [up, end] = names.uplink(host);
    let port = names.port(host);
    ip_lines(Some(&names.namespace(host)), &["link set eth0 gso_max_segs 1".into()])?;
    ip_lines(
        None,
        &[
            format!("link add {up} type veth peer name {end}"),
            format!("link set {end} addrgenmode none arp off gso_max_segs 1 master {} up", names.bridge()),
            format!("link set {up} addrgenmode none arp off up"),
            format!("link set {port} nomaster"),
        ],
    )?;
    Ok([port, up])
}

/// Takes the cable of a link away again.
pub(super) fn join(names: Names, host: usize) {
    let [up, _] = names.uplink(host);
    let _ = ip(&["link", "delete", &up]);
    let _ = plug(names, &names.port(host), true);
}

/// The lines that set a host up from within.
fn inside(names: Names, host: usize, count: usize) -> Vec<String> {
    let mut lines = vec![
        "link set lo up".to_string(),
        format!("link set eth0 address {} addrgenmode none up", names.host_hardware(host)),
        format!("addr add {}/24 dev eth0", names.ip(host)),
        format!("route add default via {}", names.outside()),
        format!(
            "neigh replace {} lladdr {} dev eth0 nud permanent",
            names.outside(),
            names.outside_hardware()
        ),
    ];
    let others = (0..count).filter(|other| *other != host);
    lines.extend(others.map(|other| neighbour(names, other, "eth0", true)));
    lines
}

/// The line that enters a host as a neighbour, reachable or not.
fn neighbour(names: Names, host: usize, device: &str, open: bool) -> String {
    let hardware = if open { names.host_hardware(host) } else { names.nobody_hardware() };
    format!("neigh replace {} lladdr {hardware} dev {device} nud permanent", names.ip(host))
}
