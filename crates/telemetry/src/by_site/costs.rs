//! URLs that cost a site's origins most, by requests, by bytes and by time.
//!
//! Each measure has its own summary ([`super::heavy_hitters`]): a URL that is asked for rarely and
//! is large stands high by bytes and nowhere by requests.

use super::heavy_hitters::{HeavyEntry, HeavyHitters};
use super::reason::MissReason;
use serde::{Deserialize, Serialize};
use shoal_core::Key;
use std::sync::Arc;

/// The summaries of one site.
#[derive(Debug)]
pub struct OriginCosts {
    by_requests: HeavyHitters<UrlCost>,
    by_bytes: HeavyHitters<UrlCost>,
    by_time: HeavyHitters<UrlCost>,
}

/// Measure by which URLs are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostKind {
    /// Requests to the origin.
    #[default]
    Requests,
    /// Bytes of bodies from the origin.
    Bytes,
    /// Time until the origin's response heads.
    Time,
}

/// Cost to an origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Requests.
    pub requests: u64,
    /// Bytes of response bodies.
    pub body_bytes: u64,
    /// Microseconds until the response heads.
    pub time_us: u64,
}

/// A listed URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedUrl {
    /// The URL, cut at 256 bytes.
    pub url: Arc<str>,
    /// Cost since the URL came onto the list.
    pub cost: Cost,
    /// Cost by the list's measure that the URL may have had before that.
    pub error: u64,
    /// Reason of most of the URL's requests.
    pub reason: MissReason,
}

/// Cost of a listed URL.
#[derive(Debug)]
struct UrlCost {
    url: Arc<str>,
    cost: Cost,
    /// Candidate for the reason of most requests, and its lead over other reasons (Boyer and Moore,
    /// "MJRTY: a fast majority vote algorithm", 1991).
    reason: MissReason,
    lead: u64,
}

impl OriginCosts {
    /// Creates empty summaries of `capacity` URLs each.
    pub fn new(capacity: usize) -> Self {
        let [by_requests, by_bytes, by_time] = [(); 3].map(|()| HeavyHitters::new(capacity));
        Self { by_requests, by_bytes, by_time }
    }

    /// Adds the cost of a request for `url`, which has the key `key`.
    pub fn add(&mut self, key: Key, url: &Arc<str>, cost: Cost, reason: MissReason) {
        debug_assert!(cost.requests > 0, "a cost is that of a request");
        for (kind, list) in [
            (CostKind::Requests, &mut self.by_requests),
            (CostKind::Bytes, &mut self.by_bytes),
            (CostKind::Time, &mut self.by_time),
        ] {
            let listed = list.add(key, cost.by(kind), || UrlCost::new(url, reason));
            if let Some(listed) = listed {
                listed.add(cost, reason);
            }
        }
    }

    /// Returns the URLs listed by `kind`, in no particular order.
    pub fn listed(&self, kind: CostKind) -> impl Iterator<Item = ListedUrl> {
        self.list(kind).entries().iter().map(ListedUrl::of)
    }

    /// Returns the whole cost by `kind`.
    pub fn total(&self, kind: CostKind) -> u64 {
        self.list(kind).total()
    }

    fn list(&self, kind: CostKind) -> &HeavyHitters<UrlCost> {
        match kind {
            CostKind::Requests => &self.by_requests,
            CostKind::Bytes => &self.by_bytes,
            CostKind::Time => &self.by_time,
        }
    }
}

impl Cost {
    /// Returns the cost by one measure.
    pub fn by(self, kind: CostKind) -> u64 {
        match kind {
            CostKind::Requests => self.requests,
            CostKind::Bytes => self.body_bytes,
            CostKind::Time => self.time_us,
        }
    }
}

impl UrlCost {
    fn new(url: &Arc<str>, reason: MissReason) -> Self {
        Self { url: cut(url), cost: Cost::default(), reason, lead: 0 }
    }

    fn add(&mut self, cost: Cost, reason: MissReason) {
        self.cost.requests = self.cost.requests.saturating_add(cost.requests);
        self.cost.body_bytes = self.cost.body_bytes.saturating_add(cost.body_bytes);
        self.cost.time_us = self.cost.time_us.saturating_add(cost.time_us);
        match self.reason == reason {
            true => self.lead += 1,
            false if self.lead == 0 => (self.reason, self.lead) = (reason, 1),
            false => self.lead -= 1,
        }
    }
}

impl ListedUrl {
    fn of(entry: &HeavyEntry<UrlCost>) -> Self {
        let UrlCost { url, cost, reason, .. } = &entry.value;
        Self { url: Arc::clone(url), cost: *cost, error: entry.error, reason: *reason }
    }
}

/// Returns the URL, or its first bytes and an ellipsis.
fn cut(url: &Arc<str>) -> Arc<str> {
    match url.len() <= URL_BYTES_MAX {
        true => Arc::clone(url),
        false => format!("{}…", &url[..url.floor_char_boundary(URL_BYTES_MAX)]).into(),
    }
}

/// Bytes kept of a URL.
const URL_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_semantics::status_fields::ForwardReason;
    use shoal_semantics::status_fields::Reason;

    fn add(costs: &mut OriginCosts, url: &str, cost: (u64, u64), reason: MissReason) {
        let (body_bytes, time_us) = cost;
        let cost = Cost { requests: 1, body_bytes, time_us };
        costs.add(Key::of(url.as_bytes()), &url.into(), cost, reason);
    }

    #[test]
    fn each_measure_lists_its_own_urls() {
        let mut costs = OriginCosts::new(1);
        for _ in 0..10 {
            add(&mut costs, "http://a/often", (1, 10), Reason::NoStore.into());
        }
        add(&mut costs, "http://a/large", (1_000_000, 10), Reason::SetCookie.into());
        add(&mut costs, "http://a/slow", (1, 9_000_000), ForwardReason::Stale.into());
        let top = |kind| costs.listed(kind).next().map(|listed| listed.url.to_string());
        assert_eq!(top(CostKind::Requests).as_deref(), Some("http://a/often"));
        assert_eq!(top(CostKind::Bytes).as_deref(), Some("http://a/large"));
        assert_eq!(top(CostKind::Time).as_deref(), Some("http://a/slow"));
        assert_eq!(costs.total(CostKind::Bytes), 1_000_011);
    }

    #[test]
    fn reason_is_the_one_of_most_requests() {
        let mut costs = OriginCosts::new(4);
        add(&mut costs, "http://a/", (1, 1), ForwardReason::UriMiss.into());
        for _ in 0..3 {
            add(&mut costs, "http://a/", (1, 1), Reason::SetCookie.into());
        }
        let listed = costs.listed(CostKind::Requests).next().expect("listed");
        assert_eq!((listed.reason, listed.cost.requests, listed.error), (Reason::SetCookie.into(), 4, 0));
    }

    #[test]
    fn long_urls_are_cut_and_stay_apart() {
        let mut costs = OriginCosts::new(4);
        for end in ["one", "two"] {
            let url = format!("http://a/{}{end}", "\u{e9}".repeat(300));
            add(&mut costs, &url, (1, 1), ForwardReason::UriMiss.into());
        }
        let urls: Vec<_> = costs.listed(CostKind::Requests).map(|listed| listed.url).collect();
        assert_eq!(urls.len(), 2);
        assert!(urls.iter().all(|url| url.ends_with('…') && url.len() <= URL_BYTES_MAX + 3), "{urls:?}");
    }
}
