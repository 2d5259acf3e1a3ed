//! Order in which parents are asked, as pure functions of URL, state and turn.
//!
//! As in Squid, the parents of a CARP array come first, by hash, then parents in turn. The parent
//! that answered a question first follows, then other parents in the order of the file. Default
//! parents are last.
//! Parents that are down or come from the client's address are left out.

use shoal_cooperation::NodeId;
use shoal_cooperation::hash::Carp;
use shoal_settings::{CarpMode, Neighbour, NeighbourKind};

/// Parents of this node by the way in which they are chosen.
#[derive(Debug)]
pub struct NeighbourOrder {
    carp: Option<Carp>,
    carp_keys: Vec<Vec<String>>,
    /// Indices of the parents in turn, each as often as its weight.
    turns: Vec<usize>,
    plain: Vec<usize>,
    default: Vec<usize>,
}

impl NeighbourOrder {
    /// Reads the order from the settings.
    pub fn new(neighbours: &[Neighbour], rule: CarpMode) -> Self {
        let parents = || {
            let all = neighbours.iter().enumerate();
            all.filter(|(_, neighbour)| neighbour.kind == NeighbourKind::Parent)
        };
        let carp: Vec<_> = parents().filter(|(_, parent)| parent.carp).collect();
        let members =
            || carp.iter().map(|(at, parent)| (NodeId(*at as u64), parent.name(), f64::from(parent.weight)));
        let array = match rule {
            CarpMode::Draft => Carp::of(members()),
            CarpMode::Squid => Carp::of_squid(members()),
        };
        let in_turn = parents().filter(|(_, parent)| parent.round_robin);
        let is_plain = |parent: &Neighbour| !parent.carp && !parent.round_robin && !parent.default;
        Self {
            carp: (!carp.is_empty()).then_some(array),
            carp_keys: neighbours.iter().map(|neighbour| neighbour.carp_key.clone()).collect(),
            turns: spread(in_turn.map(|(at, parent)| (at, parent.weight)).collect()),
            plain: parents().filter(|(_, parent)| is_plain(parent)).map(|(at, _)| at).collect(),
            default: parents().filter(|(_, parent)| parent.default).map(|(at, _)| at).collect(),
        }
    }

    /// Returns `true` if some parents are asked in turn.
    pub fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Returns the parents for `url` in order, without those that are not up.
    pub fn parents(&self, url: &str, is_up: &[bool], first_miss: Option<usize>, turn: u64) -> Vec<usize> {
        debug_assert_eq!(is_up.len(), self.carp_keys.len(), "one state a neighbour");
        let by_hash = self.carp.iter().flat_map(|array| {
            let text = |node: NodeId| carp_text(url, &self.carp_keys[node.0 as usize]);
            array.ranked(text).into_iter().map(|node| node.0 as usize).collect::<Vec<_>>()
        });
        let start = match self.turns.len() {
            0 => 0,
            count => (turn % count as u64) as usize,
        };
        let in_turn = self.turns[start..].iter().chain(&self.turns[..start]).copied();
        let first = first_miss.filter(|at| self.plain.contains(at));
        let others = self.plain.iter().chain(&self.default).copied();
        let mut order: Vec<usize> = Vec::new();
        for at in by_hash.chain(in_turn).chain(first).chain(others) {
            if is_up[at] && !order.contains(&at) {
                order.push(at);
            }
        }
        debug_assert!(order.len() <= is_up.len(), "each parent once");
        order
    }
}

/// Returns each index as often as its weight, relative to the others, and well mixed.
fn spread(parents: Vec<(usize, u32)>) -> Vec<usize> {
    let most = parents.iter().map(|(_, weight)| *weight).max().unwrap_or(1);
    let scale = |weight: u32| (f64::from(weight) * TURNS_EACH.min(f64::from(most)) / f64::from(most)).ceil();
    let mut turns: Vec<(f64, usize)> = Vec::new();
    for (at, weight) in parents {
        let count = scale(weight).max(1.0) as usize;
        turns.extend((0..count).map(|number| ((number as f64 + 0.5) / count as f64, at)));
    }
    turns.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    turns.into_iter().map(|(_, at)| at).collect()
}

/// Returns the text that CARP hashes: the named parts of the URL, or the whole URL.
fn carp_text(url: &str, parts: &[String]) -> String {
    if parts.is_empty() {
        return url.to_owned();
    }
    let has = |name: &str| parts.iter().any(|part| part == name);
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let bare = authority.rfind(']').map_or(0, |end| end + 1);
    let colon = authority[bare..].find(':').map_or(authority.len(), |at| bare + at);
    let (host, port) = authority.split_at(colon);
    let default = if scheme == "https" { ":443" } else { ":80" };
    let mut text = String::new();
    for (name, part) in [
        ("scheme", format!("{scheme}://").as_str()),
        ("host", host),
        ("port", if port.is_empty() { default } else { port }),
        ("path", path),
        ("params", query),
    ] {
        if has(name) {
            text.push_str(part);
        }
    }
    if text.is_empty() { url.to_owned() } else { text }
}

/// Most turns of one parent in a round.
const TURNS_EACH: f64 = 16.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(name: &str, change: impl FnOnce(&mut Neighbour)) -> Neighbour {
        let mut parent = Neighbour::at(name, NeighbourKind::Parent);
        change(&mut parent);
        parent
    }

    #[test]
    fn parents_come_in_the_order_of_their_words() {
        let neighbours = [
            parent("default", |it| it.default = true),
            parent("plain1", |_| {}),
            parent("plain2", |_| {}),
            parent("turn", |it| it.round_robin = true),
            parent("carp", |it| it.carp = true),
            Neighbour::at("sibling", NeighbourKind::Sibling),
        ];
        let order = NeighbourOrder::new(&neighbours, CarpMode::Draft);
        let mut up = [true; 6];
        assert_eq!(order.parents("http://a/", &up, None, 0), [4, 3, 1, 2, 0]);
        assert_eq!(order.parents("http://a/", &up, Some(2), 0), [4, 3, 2, 1, 0]);
        assert_eq!(order.parents("http://a/", &up, Some(5), 0), [4, 3, 1, 2, 0], "a sibling is no parent");
        up[4] = false;
        assert_eq!(order.parents("http://a/", &up, None, 0), [3, 1, 2, 0]);
        assert!(order.parents("http://a/", &[false; 6], None, 0).is_empty());
    }

    #[test]
    fn turns_follow_the_weights() {
        let neighbours = [
            parent("a", |it| it.round_robin = true),
            parent("b", |it| (it.round_robin, it.weight) = (true, 3)),
        ];
        let order = NeighbourOrder::new(&neighbours, CarpMode::Draft);
        let first = |turn| order.parents("http://a/", &[true; 2], None, turn)[0];
        let of_b = (0..400).filter(|turn| first(*turn) == 1).count();
        assert_eq!(of_b, 300);
    }

    #[test]
    fn carp_hashes_the_named_parts() {
        let url = "http://a.test:8080/p/q?x=1";
        let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (parts, expected) in [
            ("host", "a.test"),
            ("scheme host", "http://a.test"),
            ("host port", "a.test:8080"),
            ("path", "/p/q"),
            ("params", "?x=1"),
            ("scheme host port path params", url),
        ] {
            assert_eq!(carp_text(url, &names(parts)), expected);
        }
        assert_eq!(carp_text("http://a/", &names("params")), "http://a/", "nothing is the whole URL");
        assert_eq!(carp_text("http://[::1]/", &names("host port")), "[::1]:80");
        assert_eq!(carp_text(url, &[]), url);
    }
}
