//! Prefetching into global memory: a node's requests to other nodes' disks, and the order in which
//! they are served.
//!
//! The Aggressive algorithm is by Cao, Felten, Karlin, Li: *A study of integrated prefetching and
//! caching strategies*, SIGMETRICS 1995. Voelker 2000, sections 4.2.2 and 4.3.3, extends it to the
//! disks and the memory of many nodes. The page on disk that is needed soonest is fetched as long
//! as some page in the cluster's memory is needed later. No node can look at all pages for each
//! request, so both sides of the comparison are of the epoch:
//!
//! - A [`PrefetchRequester`] asks other nodes with w_k > 0 in turn, with at most B requests
//!   outstanding. It asks for pages that are worth more than MaxValue.
//! - The [`PrefetchQueue`] of the asked node begins with the page of highest value, and tells the
//!   requester when it begins. After this acknowledgement the request is no longer outstanding. It
//!   carries the number of buffers left of w_k.
//!
//! B bounds the requests in queues, not the work of disks. With B = 8 as in the prototype and four
//! idle nodes, each disk has one page to read and two more waiting. O(log requests) each.

use super::{Epoch, Value};
use std::collections::BTreeMap;

/// Requesting side of one node.
#[derive(Clone, Debug)]
pub struct PrefetchRequester {
    own: usize,
    most_outstanding: usize,
    outstanding: usize,
    turn: usize,
}

impl PrefetchRequester {
    /// Makes the requester of node `own`, with at most B requests outstanding.
    pub fn new(own: usize, most_outstanding: usize) -> Self {
        Self { own, most_outstanding, outstanding: 0, turn: own + 1 }
    }

    /// Returns `true` if one more request may be outstanding.
    pub fn may_ask(&self) -> bool {
        self.outstanding < self.most_outstanding
    }

    /// Returns the node to ask for a page of this value. The request is then outstanding until it
    /// is [acknowledged](Self::acknowledged). `None` when B are outstanding, when no other node has
    /// pages of less value to give, or when the page is not worth it.
    pub fn ask(&mut self, value: Value, epoch: &Epoch, now_seconds: f64) -> Option<usize> {
        self.ask_among(value, epoch, now_seconds, |_| true)
    }

    /// Does the same among the nodes with the page on disk.
    pub fn ask_among(
        &mut self,
        value: Value,
        epoch: &Epoch,
        now_seconds: f64,
        has_page: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if !self.may_ask() || value <= epoch.max_value(now_seconds) {
            return None;
        }
        let left = epoch.left();
        let nodes = left.len();
        let next = (0..nodes)
            .map(|step| (self.turn + step) % nodes)
            .find(|node| *node != self.own && left[*node] > 0 && has_page(*node))?;
        self.turn = next + 1;
        self.outstanding += 1;
        Some(next)
    }

    /// Counts a request to a node that the caller has chosen as outstanding. Returns `false` when B
    /// are outstanding.
    pub fn begin(&mut self) -> bool {
        let may_ask = self.may_ask();
        self.outstanding += usize::from(may_ask);
        may_ask
    }

    /// Records that a request has begun, was refused or was withdrawn.
    pub fn acknowledged(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }
}

/// Request for a page from another node's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetchRequest<P> {
    /// Requested page.
    pub page: P,
    /// Requesting node.
    pub from: usize,
    /// Value of the page.
    pub value: Value,
}

/// Serving side of one node: requests that wait for its disk.
#[derive(Clone, Debug)]
pub struct PrefetchQueue<P> {
    /// Waiting requests, by the time until the page is needed, and then by arrival.
    waiting: BTreeMap<(u64, u64), PrefetchRequest<P>>,
    arrived: u64,
    most: usize,
}

impl<P: Copy + PartialEq> PrefetchQueue<P> {
    /// Makes an empty queue for at most `most` requests: B for each other node.
    pub fn new(most: usize) -> Self {
        Self { waiting: BTreeMap::new(), arrived: 0, most }
    }

    /// Adds a request. Returns `false` when there is no room for it.
    pub fn push(&mut self, request: PrefetchRequest<P>) -> bool {
        if self.waiting.len() >= self.most {
            return false;
        }
        self.arrived += 1;
        self.waiting.insert((request.value.until_us(), self.arrived), request);
        true
    }

    /// Returns the request to begin now: the one of highest value, the earlier one among equals.
    pub fn begin(&mut self) -> Option<PrefetchRequest<P>> {
        self.waiting.pop_first().map(|(_, request)| request)
    }

    /// Withdraws a node's request, since the node needs the page at once. Returns `false` when the
    /// request is not waiting; another node's request for the page stays. O(requests).
    pub fn withdraw(&mut self, from: usize, page: P) -> bool {
        let is_it = |request: &PrefetchRequest<P>| request.from == from && request.page == page;
        let found = self.waiting.iter().find(|(_, request)| is_it(request)).map(|(key, _)| *key);
        found.is_some_and(|key| self.waiting.remove(&key).is_some())
    }

    /// Returns the number of waiting requests.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns `true` if no request waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefetch::{BufferGroup, NodeReport, plan};

    fn epoch(weights: &[u64]) -> Epoch {
        let load = |count: &u64| NodeReport {
            processor: 0.0,
            buffers: vec![BufferGroup { value: Value::until(60.0), count: *count }],
        };
        plan(&weights.iter().map(load).collect::<Vec<NodeReport>>(), weights.iter().sum(), 0.0, 5.0)
            .expect("loads")
    }

    #[test]
    fn other_nodes_that_give_are_asked_in_turn() {
        let epoch = epoch(&[9, 9, 0, 9]);
        let mut requester = PrefetchRequester::new(0, 8);
        let soon = Value::until(1.0);
        let asked: Vec<Option<usize>> = (0..4).map(|_| requester.ask(soon, &epoch, 0.0)).collect();
        assert_eq!(asked, [Some(1), Some(3), Some(1), Some(3)]);
        assert_eq!(requester.ask(Value::until(61.0), &epoch, 0.0), None, "not worth what would go for it");
    }

    #[test]
    fn only_nodes_with_the_page_are_asked() {
        let epoch = epoch(&[9, 9, 9]);
        let mut requester = PrefetchRequester::new(0, 8);
        let mut ask =
            |has: &[usize]| requester.ask_among(Value::NOW, &epoch, 0.0, |node| has.contains(&node));
        assert_eq!([ask(&[2]), ask(&[2]), ask(&[1, 2]), ask(&[0])], [Some(2), Some(2), Some(1), None]);
    }

    #[test]
    fn no_more_than_b_are_outstanding() {
        let epoch = epoch(&[0, 9]);
        let mut requester = PrefetchRequester::new(0, 2);
        let ask = |requester: &mut PrefetchRequester| requester.ask(Value::NOW, &epoch, 0.0);
        assert_eq!([ask(&mut requester), ask(&mut requester), ask(&mut requester)], [Some(1), Some(1), None]);
        requester.acknowledged();
        assert_eq!([ask(&mut requester), ask(&mut requester)], [Some(1), None]);
        let mut alone = PrefetchRequester::new(1, 2);
        assert_eq!(alone.ask(Value::NOW, &epoch, 0.0), None, "nobody else gives");
    }

    #[test]
    fn each_withdraws_its_own_request() {
        let mut queue = PrefetchQueue::new(3);
        let request = |from, seconds| PrefetchRequest { page: 7u32, from, value: Value::until(seconds) };
        assert!(queue.push(request(1, 1.0)) && queue.push(request(2, 2.0)));
        assert!(queue.withdraw(2, 7) && !queue.withdraw(2, 7) && !queue.withdraw(3, 7));
        assert_eq!(queue.begin().map(|request| request.from), Some(1));
    }

    #[test]
    fn the_soonest_page_is_read_first() {
        let mut queue = PrefetchQueue::new(3);
        let request = |page: u32, seconds| PrefetchRequest { page, from: 0, value: Value::until(seconds) };
        assert!(queue.push(request(1, 3.0)) && queue.push(request(2, 1.0)) && queue.push(request(3, 1.0)));
        assert!(!queue.push(request(4, 0.0)), "no room");
        assert!(queue.withdraw(0, 3) && !queue.withdraw(0, 3));
        let begun: Vec<u32> = std::iter::from_fn(|| queue.begin()).map(|request| request.page).collect();
        assert_eq!((begun, queue.is_empty()), (vec![2, 1], true));
    }
}
