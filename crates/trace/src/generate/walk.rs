//! Clients that go from page to page: the order and the times of requests.

use super::Traffic;
use super::web::Web;
use crate::random::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// All clients with their next requests.
pub(super) struct Walk<'a> {
    web: &'a Web,
    clients: Vec<Client>,
    /// Time of each client's next request, in microseconds, with the client's number.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    random: Random,
    stay: f64,
    recall: f64,
    /// Last pages of each client; empty if `recall` is 0.
    seen: Vec<[u32; SEEN]>,
    think_us: f64,
}

#[derive(Clone, Copy)]
struct Client {
    page: u32,
    /// Place in the page that the client requests next.
    place: u32,
    /// Number of pages that the client has left.
    left: u32,
}

/// One request.
pub(super) struct Step {
    pub(super) time_ms: u64,
    pub(super) client: u32,
    pub(super) object: u32,
}

impl<'a> Walk<'a> {
    /// Returns the walk at its beginning.
    pub(super) fn new(traffic: &Traffic, web: &'a Web) -> Self {
        let mut random = Random::of(traffic.seed ^ WALK, 0);
        let per_page = 1.0 + traffic.embedded;
        let cycle_us = f64::from(traffic.clients) * per_page / traffic.rate * 1e6;
        let think_us = (cycle_us - traffic.embedded * GAP_US).max(GAP_US);
        let client = |_| Client { page: web.any_page(&mut random), place: 0, left: 0 };
        let clients: Vec<Client> = (0..traffic.clients).map(client).collect();
        let start = |client| Reverse((random.exponential(think_us) as u64, client));
        let due = (0..traffic.clients).map(start).collect();
        let remembering = if traffic.recall > 0.0 { clients.len() } else { 0 };
        let seen = vec![[0; SEEN]; remembering];
        Self { web, clients, due, random, stay: traffic.stay, recall: traffic.recall, seen, think_us }
    }

    /// Returns the next request.
    pub(super) fn step(&mut self) -> Step {
        let Some(Reverse((now_us, number))) = self.due.pop() else {
            // The walk has at least one client, and each client is due again below.
            return Step { time_ms: 0, client: 0, object: 0 };
        };
        let client = &mut self.clients[number as usize];
        debug_assert!(client.place < self.web.objects_of(client.page), "an object of the page");
        let object = self.web.object(client.page, client.place);
        client.place += 1;
        let pause_us = if client.place < self.web.objects_of(client.page) {
            self.random.exponential(GAP_US)
        } else {
            self.turn(number);
            self.random.exponential(self.think_us)
        };
        debug_assert!(pause_us >= 0.0, "a client does not go back in time: {pause_us} µs");
        self.due.push(Reverse((now_us + pause_us as u64, number)));
        debug_assert_eq!(self.due.len(), self.clients.len(), "each client is due once");
        Step { time_ms: now_us / 1000, client: number, object }
    }

    /// Moves a client to its next page.
    fn turn(&mut self, number: u32) {
        let client = &mut self.clients[number as usize];
        if let Some(seen) = self.seen.get_mut(number as usize) {
            seen[client.left as usize % SEEN] = client.page;
            client.left += 1;
            if self.random.unit() < self.recall {
                let known = u64::from(client.left).min(SEEN as u64);
                (client.page, client.place) = (seen[self.random.below(known) as usize], 0);
                return;
            }
        }
        let stays = self.random.unit() < self.stay;
        client.page = match stays {
            true => self.web.neighbour(client.page, &mut self.random),
            false => self.web.any_page(&mut self.random),
        };
        client.place = 0;
    }
}

/// Number of last pages that a client may go back to.
const SEEN: usize = 16;
/// Mean time between the requests for the objects of one page.
const GAP_US: f64 = 100_000.0;
/// Constant that keeps the draws of one seed apart.
const WALK: u64 = 0x7761_6c6b;
