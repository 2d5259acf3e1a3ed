//! Oracle: knows the truth of a run, and checks each answer against it.
//!
//! The numbers of the invariants are those of `docs/CLUSTER.md`. Bodies carry the time at which the
//! origin made them. A body is older than a purge if it was made before the purge was issued.

use crate::message::{Body, ObjectId, RequestId};
use crate::shelf::Reach;
use shoal_cooperation::invalidation::{PurgeId, Vector};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Facts of a run, and the first invariant that was broken.
#[derive(Debug, Default)]
pub struct Oracle {
    requests: BTreeMap<RequestId, Request>,
    deadlines: BTreeSet<(Duration, RequestId)>,
    applied: BTreeMap<usize, AppliedPurges>,
    acknowledged: IssueTimes,
    purges: BTreeMap<PurgeId, (Reach, Duration)>,
    fetches: BTreeMap<ObjectId, Vec<Fetch>>,
    violation: Option<(u8, String)>,
    /// Numbers for reports.
    pub counts: Counts,
}

/// Numbers of a run.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Requests that clients sent.
    pub requests: u64,
    /// Requests answered with a body.
    pub served: u64,
    /// Bodies that came from the node's own cache.
    pub hits: u64,
    /// Bodies taken from peers.
    pub from_peers: u64,
    /// Bodies refused: another object or a wrong checksum.
    pub lies: u64,
    /// Requests answered with the origin's error.
    pub failed: u64,
    /// Requests lost with their node.
    pub lost: u64,
    /// Fetches from the origin.
    pub fetches: u64,
    /// Fetches for a reason: peers refused, busy, late, or a private response.
    pub excused: u64,
    /// Asks answered "busy".
    pub busy: u64,
    /// Asks answered "behind".
    pub behind: u64,
    /// Purges issued.
    pub purges: u64,
    /// Purges that all members confirmed.
    pub acknowledged: u64,
    /// Leases handed out.
    pub leases: u64,
    /// Messages sent.
    pub messages: u64,
}

/// Client's request that is not answered.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Node that the client asked.
    pub node: usize,
    /// Object.
    pub object: ObjectId,
    /// Answers made before this time are purged.
    pub required: Duration,
    /// Time at which the answer is late.
    pub deadline: Duration,
}

/// Times at which the latest purges were issued.
#[derive(Clone, Default, Debug)]
struct IssueTimes {
    objects: BTreeMap<ObjectId, Duration>,
    all: Duration,
}

#[derive(Clone, Default, Debug)]
struct AppliedPurges {
    now: IssueTimes,
    durable: IssueTimes,
}

/// Fetch from the origin that is under way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fetch {
    /// Node that fetches.
    pub node: usize,
    /// Number of the node's flight.
    pub flight: u64,
    /// `true` if the fetch has a reason to be a second one.
    pub excused: bool,
    /// Fingerprint of the node's view.
    pub view: u64,
}

impl Oracle {
    /// Notes the first broken invariant.
    pub fn violate(&mut self, invariant: u8, text: String) {
        self.violation.get_or_insert((invariant, text));
    }

    /// Returns the first broken invariant.
    pub fn violation(&self) -> Option<&(u8, String)> {
        self.violation.as_ref()
    }

    /// Notes a client's request.
    pub fn request_arrives(
        &mut self,
        id: RequestId,
        node: usize,
        object: ObjectId,
        times: (Duration, Duration),
    ) {
        let (now, limit) = times;
        let applied = self.applied.get(&node).map_or(Duration::ZERO, |applied| applied.now.of(object));
        let required = applied.max(self.acknowledged.of(object));
        let deadline = now + limit;
        self.counts.requests += 1;
        let before = self.requests.insert(id, Request { node, object, required, deadline });
        assert!(before.is_none(), "request {id} arrives once");
        self.deadlines.insert((deadline, id));
    }

    /// Grants more time to a request, for a fault that the bound allows for.
    pub fn extend(&mut self, id: RequestId, by: Duration) {
        if let Some(request) = self.requests.get_mut(&id) {
            self.deadlines.remove(&(request.deadline, id));
            request.deadline += by;
            self.deadlines.insert((request.deadline, id));
        }
    }

    /// Grants more time to all requests of a node that stood still.
    pub fn extend_node(&mut self, node: usize, by: Duration) {
        let of_node = self.requests.iter().filter(|(_, request)| request.node == node);
        let ids: Vec<_> = of_node.map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.extend(id, by));
    }

    /// Checks that no request is late (invariant 5).
    pub fn check_deadlines(&mut self, now: Duration) {
        if let Some((deadline, id)) = self.deadlines.first().copied().filter(|first| first.0 < now) {
            self.violate(5, format!("request {id} has no answer at {now:?}, {deadline:?} was the latest"));
        }
    }

    /// Checks a body that a client gets (invariants 1, 2 and 10), and ends the request.
    pub fn serve(&mut self, id: RequestId, body: &Body) {
        let Some(request) = self.end(id) else { return };
        self.counts.served += 1;
        if body.made < request.required {
            let applied = self.applied.get(&request.node).map(|applied| applied.now.of(request.object));
            let by = if applied >= Some(request.required) { "applied here" } else { "acknowledged" };
            let text = format!(
                "request {id} got a body made at {:?}, purged ({by}) until {:?}",
                body.made, request.required
            );
            self.violate(1, format!("node {}, object {}: {text}", request.node, request.object));
        }
        if !body.is_sound(request.object) {
            self.violate(2, format!("request {id} for object {} got {body:?}", request.object));
        }
        if body.private_to.is_some_and(|owner| owner != id) {
            self.violate(10, format!("request {id} got the private body of {:?}", body.private_to));
        }
    }

    /// Ends a request with the origin's error.
    pub fn fail(&mut self, id: RequestId) {
        if self.end(id).is_some() {
            self.counts.failed += 1;
        }
    }

    /// Ends the requests of a node that died, and its fetches.
    pub fn node_died(&mut self, node: usize) {
        let of_node = self.requests.iter().filter(|(_, request)| request.node == node);
        let ids: Vec<_> = of_node.map(|(id, _)| *id).collect();
        for id in ids {
            self.end(id);
            self.counts.lost += 1;
        }
        self.fetches.values_mut().for_each(|fetches| fetches.retain(|fetch| fetch.node != node));
        if let Some(applied) = self.applied.get_mut(&node) {
            applied.now = applied.durable.clone();
        }
    }

    fn end(&mut self, id: RequestId) -> Option<Request> {
        let request = self.requests.remove(&id)?;
        let had_deadline = self.deadlines.remove(&(request.deadline, id));
        assert!(had_deadline, "request {id} has no deadline");
        Some(request)
    }

    /// Checks that each request is open or has come to one of its ends, and each open one is due.
    pub fn invariants(&self) {
        let Counts { requests, served, failed, lost, hits, fetches, excused, .. } = self.counts;
        let ended = served + failed + lost;
        assert_eq!(requests, ended + self.requests.len() as u64, "requests and their ends");
        assert_eq!(self.deadlines.len(), self.requests.len(), "each open request has one deadline");
        assert!(hits <= served, "{hits} hits among {served} answers");
        assert!(excused <= fetches, "{excused} excused among {fetches} fetches");
    }

    /// Returns the number of requests without an answer.
    pub fn open_requests(&self) -> usize {
        self.requests.len()
    }

    /// Notes a purge that a node issues.
    pub fn purge_issued(&mut self, id: PurgeId, reach: Reach, now: Duration) {
        self.purges.insert(id, (reach, now));
        self.counts.purges += u64::from(reach != Reach::Nothing);
    }

    /// Notes that a node applied a purge.
    pub fn purge_applied(&mut self, node: usize, id: PurgeId) {
        if let Some((reach, issued)) = self.purges.get(&id) {
            self.applied.entry(node).or_default().now.add(*reach, *issued);
        }
    }

    /// Notes that a node has an applied purge on disk.
    pub fn purge_durable(&mut self, node: usize, id: PurgeId) {
        if let Some((reach, issued)) = self.purges.get(&id) {
            let applied = self.applied.entry(node).or_default();
            applied.now.add(*reach, *issued);
            applied.durable.add(*reach, *issued);
        }
    }

    /// Notes that a node took over a vector, and trusts no body of before.
    pub fn vector_taken(&mut self, node: usize, vector: &Vector) {
        let covered: Vec<_> = self.purges.keys().filter(|id| vector.has(**id)).copied().collect();
        covered.into_iter().for_each(|id| self.purge_durable(node, id));
    }

    /// Checks that a node which confirms a purge has it on disk (invariant 1).
    pub fn check_durable(&mut self, node: usize, id: PurgeId) {
        let Some((reach, issued)) = self.purges.get(&id).copied() else { return };
        let durable = self.applied.get(&node).map_or(Duration::ZERO, |applied| match reach {
            Reach::Nothing => issued,
            Reach::Object(object) => applied.durable.of(object),
            Reach::All => applied.durable.all,
        });
        if durable < issued {
            self.violate(1, format!("node {node} confirms {id} before it is on disk"));
        }
    }

    /// Notes that all nodes which run have confirmed a purge.
    pub fn purge_acknowledged(&mut self, id: PurgeId) {
        if let Some((reach, issued)) = self.purges.get(&id) {
            self.acknowledged.add(*reach, *issued);
            self.counts.acknowledged += 1;
        }
    }

    /// Notes a fetch, and returns the unexcused fetches of the same object under way elsewhere.
    pub fn fetch_begins(&mut self, object: ObjectId, fetch: Fetch) -> Vec<Fetch> {
        self.counts.fetches += 1;
        self.counts.excused += u64::from(fetch.excused);
        let fetches = self.fetches.entry(object).or_default();
        let same = |other: &&Fetch| !other.excused && !fetch.excused && other.view == fetch.view;
        let others = fetches.iter().filter(same).copied().collect();
        fetches.push(fetch);
        others
    }

    /// Excuses a fetch from now on, because a purge forgot its flight.
    pub fn fetch_is_forgotten(&mut self, object: ObjectId, node: usize, flight: u64) {
        let fetches = self.fetches.get_mut(&object).into_iter().flatten();
        let of_flight = fetches.filter(|fetch| fetch.node == node && fetch.flight == flight);
        of_flight.for_each(|fetch| fetch.excused = true);
    }

    /// Notes the end of a fetch.
    pub fn fetch_ends(&mut self, object: ObjectId, node: usize, flight: u64) {
        if let Some(fetches) = self.fetches.get_mut(&object) {
            fetches.retain(|fetch| (fetch.node, fetch.flight) != (node, flight));
        }
    }
}

impl IssueTimes {
    fn of(&self, object: ObjectId) -> Duration {
        self.objects.get(&object).copied().unwrap_or_default().max(self.all)
    }

    fn add(&mut self, reach: Reach, issued: Duration) {
        match reach {
            Reach::Nothing => {}
            Reach::All => self.all = self.all.max(issued),
            Reach::Object(object) => {
                let time = self.objects.entry(object).or_default();
                *time = issued.max(*time);
            }
        }
        debug_assert!(self.all >= issued || reach != Reach::All, "the latest purge of all counts");
    }
}
