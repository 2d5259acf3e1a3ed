//! Successors learnt: the URL that clients ask for after another one.
//!
//! Each URL of the table has a few candidates with counts. This is the first-order predictor of
//! Padmanabhan and Mogul, *Using predictive prefetching to improve World Wide Web latency*, ACM CCR
//! 26(3), 1996. A candidate is predicted once it followed often enough, and in a large enough share
//! of the cases. That share is the *floor*. The source's account ([`super::sources`]) measures the
//! quality of the predictions apart.
//!
//! Strangers choose the URLs. The table has a fixed number of URLs and of clients. Keys are the
//! caller's keyed hashes. The oldest entry goes for a new one. O(candidates) a request.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Table of successors of one site.
#[derive(Clone, Debug)]
pub struct Successors {
    urls: HashMap<u64, NextUrls>,
    url_order: VecDeque<u64>,
    /// Last URL of each client.
    clients: HashMap<u64, u64>,
    client_order: VecDeque<u64>,
    most: usize,
    floor: f64,
}

#[derive(Clone, Debug, Default)]
struct NextUrls {
    /// Times that any URL followed.
    all: u32,
    candidates: Vec<Candidate>,
}

#[derive(Clone, Debug)]
struct Candidate {
    key: u64,
    url: Arc<str>,
    count: u32,
}

impl Successors {
    /// Makes an empty table of `most` URLs and as many clients, which predicts from a share of
    /// `floor` on.
    pub fn new(most: usize, floor: f64) -> Self {
        Self {
            urls: HashMap::new(),
            url_order: VecDeque::new(),
            clients: HashMap::new(),
            client_order: VecDeque::new(),
            most: most.max(1),
            floor: floor.clamp(0.0, 1.0),
        }
    }

    /// Records a client's request for a URL, and returns the predicted next URLs, the likeliest
    /// first. `key` is the URL's hash.
    pub fn asked(&mut self, client: u64, key: u64, url: &str) -> Vec<Arc<str>> {
        match self.clients.insert(client, key) {
            Some(before) if before != key => self.follow(before, key, url),
            Some(_) => {}
            None => {
                self.client_order.push_back(client);
                if self.client_order.len() > self.most
                    && let Some(oldest) = self.client_order.pop_front()
                {
                    self.clients.remove(&oldest);
                }
            }
        }
        debug_assert!(self.clients.len() <= self.most && self.urls.len() <= self.most);
        self.predicted(key)
    }

    fn predicted(&self, key: u64) -> Vec<Arc<str>> {
        let Some(followed) = self.urls.get(&key) else { return Vec::new() };
        let is_likely = |candidate: &&Candidate| {
            candidate.count >= LEAST_COUNT
                && f64::from(candidate.count) >= self.floor * f64::from(followed.all)
        };
        let mut likely: Vec<&Candidate> = followed.candidates.iter().filter(is_likely).collect();
        likely.sort_by_key(|candidate| std::cmp::Reverse(candidate.count));
        likely.into_iter().map(|candidate| Arc::clone(&candidate.url)).collect()
    }

    fn follow(&mut self, before: u64, key: u64, url: &str) {
        if !self.urls.contains_key(&before) {
            self.url_order.push_back(before);
            if self.url_order.len() > self.most
                && let Some(oldest) = self.url_order.pop_front()
            {
                self.urls.remove(&oldest);
            }
        }
        let followed = self.urls.entry(before).or_default();
        followed.all += 1;
        match followed.candidates.iter_mut().find(|candidate| candidate.key == key) {
            Some(candidate) => candidate.count += 1,
            None => {
                let candidate = Candidate { key, url: url.into(), count: 1 };
                let is_full = followed.candidates.len() >= CANDIDATES;
                let rarest = followed.candidates.iter_mut().min_by_key(|candidate| candidate.count);
                match rarest.filter(|_| is_full) {
                    Some(rarest) => {
                        // An old candidate keeps its place while it follows more often.
                        rarest.count -= 1;
                        if rarest.count == 0 {
                            *rarest = candidate;
                        }
                    }
                    None => followed.candidates.push(candidate),
                }
            }
        }
        if followed.all >= AGING {
            followed.all /= 2;
            followed
                .candidates
                .iter_mut()
                .for_each(|candidate| candidate.count = (candidate.count / 2).max(1));
        }
    }

    /// Returns the number of URLs with successors.
    pub fn len(&self) -> usize {
        self.urls.len()
    }

    /// Returns `true` if nothing was learnt.
    pub fn is_empty(&self) -> bool {
        self.urls.is_empty()
    }
}

/// Candidates of one URL.
const CANDIDATES: usize = 4;
/// Least times that a candidate must have followed.
const LEAST_COUNT: u32 = 3;
/// Number of requests at which counts are halved, so that new habits count.
const AGING: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(url: &str) -> u64 {
        url.bytes().fold(7, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)))
    }

    fn visit(table: &mut Successors, client: u64, urls: &[&str]) -> Vec<String> {
        let mut last = Vec::new();
        for url in urls {
            last = table.asked(client, key(url), url);
        }
        last.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn frequent_successor_is_predicted() {
        let mut table = Successors::new(100, 0.5);
        for client in 0..3 {
            assert_eq!(visit(&mut table, client, &["/a"]), [""; 0], "not often enough");
            visit(&mut table, client, &["/b"]);
        }
        assert_eq!(visit(&mut table, 9, &["/a"]), ["/b"]);
        for client in 20..30 {
            visit(&mut table, client, &["/a", &format!("/x{client}")]);
        }
        assert_eq!(visit(&mut table, 10, &["/a"]), [""; 0], "below the floor");
    }

    #[test]
    fn repeats_of_a_url_teach_nothing() {
        let mut table = Successors::new(100, 0.5);
        (0..20).for_each(|_| assert!(visit(&mut table, 1, &["/a"]).is_empty()));
        assert!(table.is_empty());
    }

    #[test]
    fn new_habit_replaces_an_old_one() {
        let mut table = Successors::new(100, 0.5);
        (0..50).for_each(|client| drop(visit(&mut table, client, &["/a", "/old"])));
        (100..300).for_each(|client| drop(visit(&mut table, client, &["/a", "/new"])));
        assert_eq!(visit(&mut table, 999, &["/a"]), ["/new"]);
    }

    proptest! {
        #[test]
        fn tables_stay_bounded(asks in proptest::collection::vec((0u64..40, 0u64..40), 0..500)) {
            let mut table = Successors::new(8, 0.3);
            for (client, url) in asks {
                let predicted = table.asked(client, url, &format!("/{url}"));
                prop_assert!(predicted.len() <= CANDIDATES);
                prop_assert!(table.len() <= 8 && table.clients.len() <= 8);
            }
        }
    }
}
