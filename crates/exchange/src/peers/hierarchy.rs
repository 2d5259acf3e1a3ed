//! The way up: parents and siblings of a node, for a request that misses in a hierarchy.
//!
//! ```text
//!  client ─► edge ─ 1 hop ─► mid ─ 2 hops ─► top ─► origin
//!             └ holder ─► sibling, if its digest names the object
//! ```
//!
//! A node that was asked by a node below does the same as one that was asked by a client. Hops
//! bound the way: a request that has made two asks the origin.

use super::is_plain;
use crate::access::{HostPattern, HostPatterns};
use crate::cluster::{ClusterHandle, level};
use crate::request::{AskedNodes, RequestContext};
use shoal_cooperation::{HOPS_MAX, Homes, NodeId, ParentRule};
use shoal_settings::{ParentNodes, Placement, Settings};

/// Parents of this node by hosts.
#[derive(Debug, Default)]
pub struct ParentRules {
    level: u8,
    rules: Vec<(HostPatterns, ParentRule)>,
}

impl ParentRules {
    /// Prepares the rules of a node; `None` if it is in no hierarchy.
    pub fn new(settings: &Settings) -> Option<Self> {
        if settings.cluster.placement != Placement::Hierarchy {
            return None;
        }
        let rule = |parent: &ParentNodes| {
            // The settings were checked; a pattern that cannot be read matches nothing.
            let hosts = parent.hosts.iter().filter_map(|host| HostPattern::parse(host).ok()).collect();
            (hosts, parent_rule(parent))
        };
        let rules = settings.cluster.parent.iter().map(rule).collect();
        Some(Self { level: level(settings), rules })
    }

    /// Returns the rule for a host, in lower case.
    fn of(&self, host: &str) -> &ParentRule {
        let found = self.rules.iter().find(|(hosts, _)| hosts.match_name(host));
        found.map_or(&ParentRule::NextLevel, |(_, rule)| rule)
    }
}

fn parent_rule(parent: &ParentNodes) -> ParentRule {
    match parent.level.and_then(|level| u8::try_from(level).ok()) {
        _ if parent.direct => ParentRule::Origin,
        Some(level) => ParentRule::Level(level),
        None if parent.nodes.is_empty() => ParentRule::NextLevel,
        None => ParentRule::Nodes(parent.nodes.iter().map(|name| NodeId::named(name)).collect()),
    }
}

/// Returns the parents and siblings to ask for a request; `None` if there are none.
pub(crate) fn upward(
    ask: &RequestContext,
    cluster: &ClusterHandle,
    rules: &ParentRules,
) -> Option<AskedNodes> {
    // A node that is asked for a stored copy asks nobody.
    let is_from_below =
        ask.is_for_peer && (1..HOPS_MAX).contains(&ask.hops) && !ask.directives.only_if_cached;
    let may_go_up = match ask.is_for_peer {
        true => is_from_below && ask.mirror.is_none() && is_plain(ask),
        false => super::may_ask(ask),
    };
    if !may_go_up {
        return None;
    }
    let (members, full) = (cluster.members(), ask.primary.full());
    let homes = members.view.parents(cluster.own(), rules.level, rules.of(ask.target.host()), full);
    // A node below has looked at digests itself, but at those of its own siblings.
    let siblings = cluster.siblings(full, rules.level);
    let is_alone = homes.first().is_none() && siblings.first().is_none();
    (!is_alone).then_some(AskedNodes { homes, siblings })
}

/// Returns the parents of a request, in order; nobody if the node is in no hierarchy.
pub(crate) fn parents_of(ask: &RequestContext) -> Option<Homes> {
    let rules = ask.live.parents.as_ref()?;
    let cluster = ask.live.cluster.as_ref()?;
    Some(upward(ask, cluster, rules).map_or(Homes::default(), |asked| asked.homes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(hosts: &[&str]) -> ParentNodes {
        let hosts = hosts.iter().map(|&host| host.into()).collect();
        ParentNodes { hosts, nodes: Vec::new(), level: None, direct: false }
    }

    #[test]
    fn first_rule_with_the_host_counts() {
        let mut settings = Settings::default();
        assert!(ParentRules::new(&settings).is_none(), "another placement");
        settings.cluster.placement = Placement::Hierarchy;
        settings.cluster.parent = vec![
            ParentNodes { direct: true, ..parent(&["intern.test", "*.intern.test"]) },
            ParentNodes { nodes: vec!["top-1".into()], ..parent(&["*.test"]) },
            ParentNodes { level: Some(2), ..parent(&["a.example"]) },
        ];
        let rules = ParentRules::new(&settings).expect("a hierarchy");
        assert_eq!(rules.of("a.intern.test"), &ParentRule::Origin);
        assert_eq!(rules.of("b.test"), &ParentRule::Nodes(vec![NodeId::named("top-1")]));
        assert_eq!(rules.of("a.example"), &ParentRule::Level(2));
        assert_eq!(rules.of("b.example"), &ParentRule::NextLevel);
    }
}
