//! Rules of the section `[cluster]`.

use super::Rules;
use crate::host::check_host_pattern;
use crate::{AdminAddress, Placement, Settings};
use std::net::SocketAddr;

/// Notes each violation.
pub(super) fn check(rules: &mut Rules<'_>, settings: &Settings) {
    let cluster = &settings.cluster;
    if cluster.name.is_empty() {
        if cluster.peer.is_some() || !cluster.join.is_empty() {
            rules.fault("cluster.name", "cluster.peer and cluster.join need the name of a cluster");
        }
        return;
    }
    for (key, name) in [("cluster.name", &cluster.name), ("cluster.node", &cluster.node)] {
        let is_odd = |char: char| !char.is_ascii_alphanumeric() && !"._-:[]".contains(char);
        if name.len() > NAME_BYTES_MAX || name.contains(is_odd) {
            let message = "a name has 1 to 64 letters, digits, and characters of `._-:[]`";
            rules.fault(key, message);
        }
    }
    for (index, seed) in cluster.join.iter().enumerate() {
        if !is_seed(seed) {
            let message =
                format!("`{seed}` is neither an address nor a DNS name with a port, such as cache:3131");
            rules.fault(&format!("cluster.join[{index}]"), message);
        }
    }
    let Some(peer) = cluster.peer else {
        return rules
            .fault("cluster.peer", "a cluster needs this node's address for peers, such as 10.0.0.1:3131");
    };
    if peer.ip().is_unspecified() || peer.port() == 0 {
        rules.fault(
            "cluster.peer",
            format!("the other nodes must reach {peer}; name this node's own address and port"),
        );
    }
    if let Some(other) = shared_with(settings, peer) {
        rules.fault("cluster.peer", format!("{peer} is the {other} too; take another port"));
    }
    hierarchy(rules, settings);
    if cluster.key_file.is_none() && !peer.ip().is_loopback() {
        let message = "peers beyond loopback need a key; make a file with `shoal cluster init FILE`, copy it to each \
                       node and name it here";
        rules.fault("cluster.key_file", message);
    }
}

/// Notes violations of the rules of a hierarchy.
fn hierarchy(rules: &mut Rules<'_>, settings: &Settings) {
    let cluster = &settings.cluster;
    if cluster.placement != Placement::Hierarchy && !cluster.parent.is_empty() {
        let hint = Some("set `cluster.placement = \"hierarchy\"`, or remove the rules".into());
        rules.fault_with("cluster.parent", "only a hierarchy has parents", hint);
    }
    for (index, parent) in cluster.parent.iter().enumerate() {
        let at = |name: &str| format!("cluster.parent[{index}].{name}");
        if parent.hosts.is_empty() {
            rules.fault(&at("hosts"), "a rule without hosts is for nothing; `*` means all");
        }
        for (number, host) in parent.hosts.iter().enumerate() {
            rules.result(&format!("cluster.parent[{index}].hosts[{number}]"), check_host_pattern(host));
        }
        let ways = [!parent.nodes.is_empty(), parent.level.is_some(), parent.direct];
        if ways.into_iter().filter(|is_set| *is_set).count() > 1 {
            rules.fault(&at("nodes"), "a rule has one of `nodes`, `level` and `direct`");
        }
        if parent.level.is_some_and(|level| level <= cluster.level) {
            let message = format!("parents are above this node, which is on level {}", cluster.level);
            rules.fault(&at("level"), message);
        }
    }
}

/// Returns the listener that takes the address for peers, if one does.
fn shared_with(settings: &Settings, peer: SocketAddr) -> Option<&'static str> {
    let takes = |other: SocketAddr| {
        other.port() == peer.port() && (other.ip() == peer.ip() || other.ip().is_unspecified())
    };
    match settings.admin.listen {
        Some(AdminAddress::Tcp(admin)) if takes(admin) => Some("admin listener"),
        _ => settings.listen.iter().any(|listen| takes(listen.address)).then_some("listener for clients"),
    }
}

/// Returns `true` for an address or a DNS name, with a port.
fn is_seed(text: &str) -> bool {
    if text.parse::<SocketAddr>().is_ok() {
        return true;
    }
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_host = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    !host.is_empty() && host.len() <= HOST_BYTES_MAX && host.chars().all(is_host) && is_port
}

const NAME_BYTES_MAX: usize = 64;
const HOST_BYTES_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_have_a_port_of_their_own() {
        let mut settings = Settings::default();
        let at = |ip: [u8; 4], port: u16| SocketAddr::from((ip, port));
        assert_eq!(shared_with(&settings, at([127, 0, 0, 1], 3128)), Some("listener for clients"));
        assert_eq!(shared_with(&settings, at([127, 0, 0, 1], 3129)), Some("admin listener"));
        assert_eq!(shared_with(&settings, at([127, 0, 0, 1], 3131)), None);
        assert_eq!(shared_with(&settings, at([10, 0, 0, 1], 3128)), None);
        settings.listen[0].address = at([0, 0, 0, 0], 3128);
        assert_eq!(shared_with(&settings, at([10, 0, 0, 1], 3128)), Some("listener for clients"));
    }

    #[test]
    fn seeds_have_a_host_and_a_port() {
        for (text, is_good) in [
            ("10.0.0.1:3131", true),
            ("[2001:db8::1]:3131", true),
            ("shoal.cache.svc.cluster.local:3131", true),
            ("10.0.0.1", false),
            ("cache", false),
            ("cache:", false),
            ("cache:0", false),
            ("cache:70000", false),
            (":3131", false),
            ("2001:db8::1:3131", false),
            ("http://cache:3131", false),
        ] {
            assert_eq!(is_seed(text), is_good, "{text}");
        }
    }
}
