//! Generated web: pages with their weights, hosts and embedded objects, numbered without gaps.
//!
//! Objects are numbered page by page, the document before its embedded objects. The common objects
//! follow all pages, host by host. The seed and the page's number determine everything else, so
//! that only borders and weights are stored.

use super::{Traffic, normal};
use crate::random::Random;

/// Pages, hosts and objects.
pub(super) struct Web {
    /// First object of each page, and one number beyond the last object.
    first_object: Vec<u32>,
    host_of: Vec<u32>,
    /// Cumulative weights, in order of rank.
    weight_to: Vec<f64>,
    /// Pages by host. `host_weight_to` has their cumulative weights, from each host's first page
    /// on.
    by_host: Vec<u32>,
    host_weight_to: Vec<f64>,
    first_page: Vec<u32>,
    common_per_host: u32,
    common: f64,
    seed: u64,
}

impl Web {
    /// Makes a web of `pages` pages.
    pub(super) fn new(traffic: &Traffic, pages: usize) -> Self {
        let hosts = ((pages as f64 / traffic.pages_per_host).ceil() as usize).max(1);
        let host_weights = added_up((1..=hosts).map(|rank| (rank as f64).powf(-HOST_ALPHA)));
        let mut first_object = Vec::with_capacity(pages + 1);
        let mut host_of = Vec::with_capacity(pages);
        let mut objects = 0u32;
        for page in 0..pages {
            let mut random = Random::of(traffic.seed ^ PAGE, page as u64);
            host_of.push(drawn(&host_weights, &mut random) as u32);
            first_object.push(objects);
            // Geometric with the given mean: the whole part of an exponential draw.
            let ratio = 1.0 / (1.0 + 1.0 / traffic.embedded.max(1e-9)).ln();
            let embedded = random.exponential(ratio).min(EMBEDDED_MAX) as u32;
            objects = objects.saturating_add(1 + embedded);
        }
        first_object.push(objects);
        let weight = |page: usize| ((page + 1) as f64).powf(-traffic.alpha);
        let weight_to = added_up((0..pages).map(weight));
        let (by_host, first_page) = grouped(&host_of, hosts);
        let mut host_weight_to = Vec::with_capacity(pages);
        for host in 0..hosts {
            let pages = &by_host[first_page[host] as usize..first_page[host + 1] as usize];
            host_weight_to.extend(added_up(pages.iter().map(|page| weight(*page as usize))));
        }
        let common_per_host = ((traffic.embedded * 2.0).ceil() as u32).max(1);
        let (common, seed) = (traffic.common, traffic.seed);
        Self {
            first_object,
            host_of,
            weight_to,
            by_host,
            host_weight_to,
            first_page,
            common_per_host,
            common,
            seed,
        }
    }

    /// Returns the number of possible objects.
    pub(super) fn objects(&self) -> usize {
        self.own_objects() as usize + (self.first_page.len() - 1) * self.common_per_host as usize
    }

    /// Draws a page of any host, by weight.
    pub(super) fn any_page(&self, random: &mut Random) -> u32 {
        drawn(&self.weight_to, random) as u32
    }

    /// Draws a page of the same host, by weight.
    pub(super) fn neighbour(&self, page: u32, random: &mut Random) -> u32 {
        let host = self.host_of[page as usize] as usize;
        let pages = self.first_page[host] as usize..self.first_page[host + 1] as usize;
        let place = pages.start + drawn(&self.host_weight_to[pages.clone()], random);
        self.by_host[place]
    }

    /// Returns the number of a page's objects: the document and its embedded objects.
    pub(super) fn objects_of(&self, page: u32) -> u32 {
        self.first_object[page as usize + 1] - self.first_object[page as usize]
    }

    /// Returns the object at a place of a page. The document is at place 0.
    pub(super) fn object(&self, page: u32, place: u32) -> u32 {
        debug_assert!(place < self.objects_of(page), "place {place} of page {page}");
        let own = self.first_object[page as usize] + place;
        let mut random = Random::of(self.seed ^ COMMON, u64::from(own));
        if place == 0 || random.unit() >= self.common {
            return own;
        }
        let host = self.host_of[page as usize];
        self.own_objects()
            + host * self.common_per_host
            + random.below(u64::from(self.common_per_host)) as u32
    }

    /// Returns the rank of an object's page in popularity as a normal deviate. The most popular
    /// page has the highest deviate; the common objects of a host have 0, the middle.
    pub(super) fn popularity(&self, object: u32) -> f64 {
        if object >= self.own_objects() {
            return 0.0;
        }
        let pages = self.host_of.len() as f64;
        normal::deviate(1.0 - (self.page_of(object) as f64 + 0.5) / pages)
    }

    /// Returns `true` if an object is on one of the most popular pages, a `share` of all pages.
    pub(super) fn is_popular(&self, object: u32, share: f64) -> bool {
        object < self.own_objects() && (self.page_of(object) as f64) < self.host_of.len() as f64 * share
    }

    /// Returns the URL of an object.
    pub(super) fn url(&self, object: u32) -> String {
        if let Some(common) = object.checked_sub(self.own_objects()) {
            let (host, place) = (common / self.common_per_host, common % self.common_per_host);
            return format!("http://h{host}.example/common/{place}.gif");
        }
        let page = self.page_of(object);
        let host = self.host_of[page];
        match object - self.first_object[page] {
            0 => format!("http://h{host}.example/{page}.html"),
            place => format!("http://h{host}.example/{page}/{place}.gif"),
        }
    }

    fn page_of(&self, object: u32) -> usize {
        debug_assert!(object < self.own_objects(), "object {object} is common to pages");
        self.first_object.partition_point(|first| *first <= object) - 1
    }

    fn own_objects(&self) -> u32 {
        self.first_object.last().copied().unwrap_or(0)
    }
}

/// Returns page numbers sorted by host, and the start of each host's pages.
fn grouped(host_of: &[u32], hosts: usize) -> (Vec<u32>, Vec<u32>) {
    let mut first = vec![0u32; hosts + 1];
    host_of.iter().for_each(|host| first[*host as usize + 1] += 1);
    for host in 0..hosts {
        first[host + 1] += first[host];
    }
    let mut next = first.clone();
    let mut sorted = vec![0; host_of.len()];
    for (page, host) in host_of.iter().enumerate() {
        let place = &mut next[*host as usize];
        sorted[*place as usize] = page as u32;
        *place += 1;
    }
    assert_eq!(first.last().copied(), Some(host_of.len() as u32), "each page has one host");
    (sorted, first)
}

fn added_up(weights: impl Iterator<Item = f64>) -> Vec<f64> {
    let running = weights.scan(0.0, |sum, weight| {
        *sum += weight;
        Some(*sum)
    });
    running.collect()
}

/// Draws an index, with a probability in proportion to its weight.
fn drawn(weight_to: &[f64], random: &mut Random) -> usize {
    let total = weight_to.last().copied().unwrap_or(0.0);
    let point = random.unit() * total;
    weight_to.partition_point(|to| *to <= point).min(weight_to.len().saturating_sub(1))
}

/// Exponent of the hosts' sizes: few hosts have many pages.
const HOST_ALPHA: f64 = 0.7;
/// Largest number of embedded objects a page.
const EMBEDDED_MAX: f64 = 1000.0;
/// Constants that keep the draws of one seed apart.
const PAGE: u64 = 0x7061_6765;
const COMMON: u64 = 0x636f_6d6d;
