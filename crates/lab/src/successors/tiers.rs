//! Tiers of a CDN with request coalescing.
//!
//! Edges ask a parent tier, and it asks the origin; concurrent misses for one object at one cache
//! become one request upwards. RFC 9111, section 4, calls them collapsed requests. Today's CDNs
//! have such tiers, as origin shields. Huang et al., *An analysis of Facebook photo caching*, SOSP
//! 2013, measured one origin tier over all sites. Headline: the origin sees one fetch for each
//! object and lifetime, for any crowd. Without coalescing it sees one for each client that asks
//! while the first answer is on its way.
//!
//! A fetch takes the time of its way up and back. Copies live for one lifetime from their fetch.
//! O(1) a request and cache.

use shoal_core::mixed;
use shoal_trace::Request;
use std::collections::HashMap;

/// Setting of tiers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TierSetup {
    /// Number of edge caches; a client belongs to one.
    pub edges: u32,
    /// Number of parents, each the home of its share of the objects; 0 for no parent tier.
    pub parents: u32,
    /// Time of an answer from a parent to an edge, in milliseconds.
    pub parent_ms: u64,
    /// Time of an answer from the origin, in milliseconds.
    pub origin_ms: u64,
    /// Lifetime of a copy, in milliseconds.
    pub lifetime_ms: u64,
    /// `true` if concurrent misses at a cache make one request.
    pub coalescing: bool,
}

/// Counts of tiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierCounts {
    /// Requests of clients.
    pub requests: u64,
    /// Requests answered by a copy at the edge.
    pub edge_hits: u64,
    /// Requests that waited for another one's answer at the edge.
    pub edge_joined: u64,
    /// Requests of edges.
    pub parent_requests: u64,
    /// Requests of edges that a parent answered by a copy, or by an answer on its way.
    pub parent_hits: u64,
    /// Fetches from the origin.
    pub origin_fetches: u64,
    /// Most fetches from the origin under way at once for one object.
    pub origin_crowd: u64,
    /// Sum of all clients' waits, in milliseconds.
    pub waited_ms: u64,
}

/// Copy of an object, or an answer on its way.
#[derive(Clone, Copy, Debug)]
struct TierCopy {
    arrives_ms: u64,
    expires_ms: u64,
}

/// State of the caches of one tier.
type CopyTable = HashMap<(u32, u32), TierCopy>;

/// State of a cache for a request.
enum CopyLookup {
    Held,
    Coming(u64),
    Absent,
}

/// Takes requests, in order of time, through the tiers.
pub fn run(requests: &[Request], setup: &TierSetup) -> TierCounts {
    let (mut edges, mut parents) = (CopyTable::new(), CopyTable::new());
    let mut crowd: HashMap<u32, Vec<u64>> = HashMap::new();
    let mut counts = TierCounts::default();
    for request in requests {
        let now = request.time_ms;
        let edge = (request.client % setup.edges.max(1), request.object);
        counts.requests += 1;
        match look(&edges, edge, now) {
            CopyLookup::Held => counts.edge_hits += 1,
            CopyLookup::Coming(arrives) if setup.coalescing => {
                counts.edge_joined += 1;
                counts.waited_ms += arrives - now;
            }
            _ => {
                let arrives = fetch(setup, &mut parents, &mut crowd, request, &mut counts);
                counts.waited_ms += arrives - now;
                // The first answer begins the lifetime; later ones are the same copy.
                let known = edges.get(&edge).filter(|copy| copy.expires_ms > now).map(|copy| copy.arrives_ms);
                let arrives = known.map_or(arrives, |known| known.min(arrives));
                edges.insert(edge, TierCopy { arrives_ms: arrives, expires_ms: arrives + setup.lifetime_ms });
            }
        }
    }
    debug_assert!(counts.edge_hits + counts.edge_joined <= counts.requests);
    debug_assert!(counts.parent_hits <= counts.parent_requests);
    counts
}

/// Gets an object for an edge. Returns the time of its arrival there.
fn fetch(
    setup: &TierSetup,
    parents: &mut CopyTable,
    crowd: &mut HashMap<u32, Vec<u64>>,
    request: &Request,
    counts: &mut TierCounts,
) -> u64 {
    let now = request.time_ms;
    if setup.parents == 0 {
        return fetch_from_origin(setup, crowd, request, counts);
    }
    let home = (mixed(u64::from(request.object)) % u64::from(setup.parents)) as u32;
    let parent = (home, request.object);
    counts.parent_requests += 1;
    let ready = match look(parents, parent, now) {
        CopyLookup::Held => {
            counts.parent_hits += 1;
            now
        }
        CopyLookup::Coming(arrives) if setup.coalescing => {
            counts.parent_hits += 1;
            arrives
        }
        _ => {
            let arrives = fetch_from_origin(setup, crowd, request, counts);
            let known = parents.get(&parent).filter(|copy| copy.expires_ms > now).map(|copy| copy.arrives_ms);
            let first = known.map_or(arrives, |known| known.min(arrives));
            parents.insert(parent, TierCopy { arrives_ms: first, expires_ms: first + setup.lifetime_ms });
            arrives
        }
    };
    ready + setup.parent_ms
}

fn fetch_from_origin(
    setup: &TierSetup,
    crowd: &mut HashMap<u32, Vec<u64>>,
    request: &Request,
    counts: &mut TierCounts,
) -> u64 {
    let arrives = request.time_ms + setup.origin_ms;
    counts.origin_fetches += 1;
    let under_way = crowd.entry(request.object).or_default();
    under_way.retain(|done| *done > request.time_ms);
    under_way.push(arrives);
    counts.origin_crowd = counts.origin_crowd.max(under_way.len() as u64);
    arrives
}

fn look(copies: &CopyTable, at: (u32, u32), now: u64) -> CopyLookup {
    match copies.get(&at) {
        Some(copy) if copy.expires_ms <= now => CopyLookup::Absent,
        Some(copy) if copy.arrives_ms > now => CopyLookup::Coming(copy.arrives_ms),
        Some(_) => CopyLookup::Held,
        None => CopyLookup::Absent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETUP: TierSetup = TierSetup {
        edges: 20,
        parents: 4,
        parent_ms: 20,
        origin_ms: 200,
        lifetime_ms: 60_000,
        coalescing: true,
    };

    /// The headline: a crowd of a request a millisecond for one object over ten lifetimes.
    #[test]
    fn origin_sees_one_fetch_for_each_lifetime() {
        let crowd: Vec<Request> =
            (0..600_000).map(|ms| Request { time_ms: ms, bytes: 1, object: 7, client: ms as u32 }).collect();
        let with = run(&crowd, &SETUP);
        assert_eq!((with.origin_fetches, with.origin_crowd), (10, 1), "{with:?}");
        let without = run(&crowd, &TierSetup { coalescing: false, ..SETUP });
        assert!(without.origin_crowd >= 200 && without.origin_fetches >= 10 * 200, "{without:?}");
        let alone = run(&crowd, &TierSetup { parents: 0, ..SETUP });
        assert_eq!(alone.origin_fetches, 10 * 20, "one for each edge and lifetime");
        assert_eq!(with.requests, with.edge_hits + with.edge_joined + with.parent_requests);
    }

    #[test]
    fn waits_are_those_of_the_way() {
        let one = |time_ms, client| Request { time_ms, bytes: 1, object: 1, client };
        let counts = run(&[one(0, 0), one(100, 0), one(100, 1), one(300, 2), one(300, 0)], &SETUP);
        // 220 ms, 120 ms beside it, 100 + 20 by the parent's, 20 from the parent, 0.
        assert_eq!(counts.waited_ms, 220 + 120 + 120 + 20);
        assert_eq!((counts.origin_fetches, counts.parent_hits, counts.edge_joined), (1, 2, 1));
    }
}
