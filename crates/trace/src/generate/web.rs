//! The made web: pages with their weights, hosts and embedded objects, numbered without gaps.
//!
//! Objects are numbered page by page: the document, then what it embeds; after all pages the common
//! objects, host by host. All of it follows from the seed and the page's number, so that nothing
//! but borders and weights is stored.

use super::{Traffic, normal};
use crate::random::Random;

/// Pages, hosts and objects.
pub(super) struct Web {
    /// The first object of each page, and one number beyond the last.
    first_object: Vec<u32>,
    host_of: Vec<u32>,
    /// Weights added up, in order of rank.
    weight_to: Vec<f64>,
    /// Pages by host, with their weights added up from the host's first on.
    by_host: Vec<u32>,
    host_weight_to: Vec<f64>,
    first_page: Vec<u32>,
    common_per_host: u32,
    common: f64,
    seed: u64,
}

impl Web {
    /// So many pages.
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
            // Geometric with the mean wanted: the whole part of an exponential one.
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

    /// How many objects there can be.
    pub(super) fn objects(&self) -> usize {
        self.own_objects() as usize + (self.first_page.len() - 1) * self.common_per_host as usize
    }

    /// A page of any host, by weight.
    pub(super) fn any_page(&self, random: &mut Random) -> u32 {
        drawn(&self.weight_to, random) as u32
    }

    /// A page of the same host, by weight.
    pub(super) fn neighbour(&self, page: u32, random: &mut Random) -> u32 {
        let host = self.host_of[page as usize] as usize;
        let pages = self.first_page[host] as usize..self.first_page[host + 1] as usize;
        let place = pages.start + drawn(&self.host_weight_to[pages.clone()], random);
        self.by_host[place]
    }

    /// Objects of a page: the document and what it embeds.
    pub(super) fn objects_of(&self, page: u32) -> u32 {
        self.first_object[page as usize + 1] - self.first_object[page as usize]
    }

    /// One of them; the document is the first.
    pub(super) fn object(&self, page: u32, place: u32) -> u32 {
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

    /// The place of an object's page in the order of popularity, as a normal deviate: the most
    /// popular has the highest. What is common to a host's pages stands in the middle.
    pub(super) fn popularity(&self, object: u32) -> f64 {
        if object >= self.own_objects() {
            return 0.0;
        }
        let pages = self.host_of.len() as f64;
        normal::deviate(1.0 - (self.page_of(object) as f64 + 0.5) / pages)
    }

    /// Whether an object is one of the most popular pages', of which there is this share.
    pub(super) fn is_popular(&self, object: u32, share: f64) -> bool {
        object < self.own_objects() && (self.page_of(object) as f64) < self.host_of.len() as f64 * share
    }

    /// The URL of an object.
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
        self.first_object.partition_point(|first| *first <= object) - 1
    }

    fn own_objects(&self) -> u32 {
        self.first_object.last().copied().unwrap_or(0)
    }
}

/// Page numbers sorted by host, and where each host's begin.
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
    (sorted, first)
}

fn added_up(weights: impl Iterator<Item = f64>) -> Vec<f64> {
    let running = weights.scan(0.0, |sum, weight| {
        *sum += weight;
        Some(*sum)
    });
    running.collect()
}

/// An index, with a probability in proportion to its weight.
fn drawn(weight_to: &[f64], random: &mut Random) -> usize {
    let total = weight_to.last().copied().unwrap_or(0.0);
    let point = random.unit() * total;
    weight_to.partition_point(|to| *to <= point).min(weight_to.len().saturating_sub(1))
}

/// Sizes of hosts: few have many pages.
const HOST_ALPHA: f64 = 0.7;
/// No page embeds more.
const EMBEDDED_MAX: f64 = 1000.0;
/// What keeps the draws of one seed apart.
const PAGE: u64 = 0x7061_6765;
const COMMON: u64 = 0x636f_6d6d;
