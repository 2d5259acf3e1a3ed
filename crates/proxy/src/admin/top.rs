//! `GET /top/misses`: the URLs that cost their origins most, and why they missed.

use super::query;
use crate::by_site::{CostKind, ListedUrl, SiteMeters};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// Request for the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopRequest {
    /// Measure by which the URLs are ordered.
    pub by: CostKind,
    /// Site of the URLs; `None` for all sites.
    pub site: Option<String>,
    /// Largest number of URLs.
    pub rows: usize,
}

/// The list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopMisses {
    /// Measure by which the URLs are ordered.
    pub by: CostKind,
    /// Cost of all requests to origins by this measure, in requests, bytes or microseconds.
    pub total: u64,
    /// The URLs, the most expensive first.
    pub urls: Vec<TopUrl>,
}

/// A URL of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopUrl {
    /// Site of the URL.
    pub site: String,
    /// The URL; a long one ends with an ellipsis.
    pub url: String,
    /// Requests to the origin since the URL came onto the list.
    pub requests: u64,
    /// Bytes of bodies from the origin since then.
    pub body_bytes: u64,
    /// Time until the origin's response heads since then, in microseconds.
    pub time_us: u64,
    /// Cost by the list's measure that the URL may have had before.
    pub error: u64,
    /// Reason of most of the requests: a token.
    pub reason: String,
    /// The reason in a sentence.
    pub meaning: String,
    /// Settings that would change the outcome. `rule` stands for `[[rule]]` and `[[site.rule]]`.
    pub settings: Vec<String>,
}

impl TopRequest {
    /// Reads the request from a query: `by`, `site` and `n`, each at most once.
    pub(super) fn parse(query: Option<&str>) -> Result<Self, String> {
        let mut request = Self { by: CostKind::Requests, site: None, rows: ROWS };
        for (name, value) in query::parameters(query.unwrap_or_default())? {
            match name {
                "by" => request.by = kind(&value)?,
                "site" => request.site = Some(value),
                "n" => request.rows = rows(&value)?,
                other => return Err(format!("there is no {other:?}: by, site or n")),
            }
        }
        Ok(request)
    }
}

impl TopMisses {
    /// Makes the list from the meters.
    pub fn of(meters: &SiteMeters, request: &TopRequest) -> Self {
        let by = request.by;
        let (mut listed, mut total) = (Vec::new(), 0_u64);
        for meter in meters.all() {
            if request.site.as_deref().is_some_and(|site| site != meter.label()) {
                continue;
            }
            let (urls, cost) = meter.listed(by);
            total = total.saturating_add(cost);
            listed.extend(urls.into_iter().map(|url| (meter.label(), url)));
        }
        // The certain part goes first: a flood of URLs that come once has little of it.
        listed.sort_by_key(|(_, url)| Reverse((url.cost.by(by), url.error)));
        let urls = listed.iter().take(request.rows).map(|(site, url)| TopUrl::of(site, url));
        Self { by, total, urls: urls.collect() }
    }
}

impl TopUrl {
    fn of(site: &str, listed: &ListedUrl) -> Self {
        Self {
            site: site.to_owned(),
            url: listed.url.to_string(),
            requests: listed.cost.requests,
            body_bytes: listed.cost.body_bytes,
            time_us: listed.cost.time_us,
            error: listed.error,
            reason: listed.reason.as_str().to_owned(),
            meaning: listed.reason.meaning().to_owned(),
            settings: listed.reason.settings().iter().map(|setting| (*setting).to_owned()).collect(),
        }
    }
}

fn kind(text: &str) -> Result<CostKind, String> {
    match text {
        "requests" => Ok(CostKind::Requests),
        "bytes" => Ok(CostKind::Bytes),
        "time" => Ok(CostKind::Time),
        other => Err(format!("by={other} is not requests, bytes or time")),
    }
}

fn rows(text: &str) -> Result<usize, String> {
    let rows = text.parse().ok().filter(|rows| (1..=ROWS_MAX).contains(rows));
    rows.ok_or_else(|| format!("n={text} is not a number from 1 to {ROWS_MAX}"))
}

/// URLs without another wish.
const ROWS: usize = 20;

/// Most URLs of one list.
const ROWS_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_site::Cost;
    use shoal_core::Key;
    use shoal_semantics::status_fields::Reason;

    #[test]
    fn requests_are_read_from_queries() {
        let default = TopRequest { by: CostKind::Requests, site: None, rows: 20 };
        for (query, expected) in [
            (None, default.clone()),
            (Some(""), default.clone()),
            (Some("by=bytes"), TopRequest { by: CostKind::Bytes, ..default.clone() }),
            (Some("site=a.test%2F&n=5"), TopRequest { site: Some("a.test/".into()), rows: 5, ..default }),
        ] {
            assert_eq!(TopRequest::parse(query), Ok(expected), "{query:?}");
        }
        for query in ["by=money", "n=0", "n=1001", "n=x", "what=1", "site=%zz", "n=1&n=2"] {
            assert!(TopRequest::parse(Some(query)).is_err(), "{query}");
        }
    }

    #[test]
    fn urls_of_all_sites_are_ordered_by_cost() {
        let meters = SiteMeters::after(&SiteMeters::default(), ["a.test/", "b.test/"].into_iter());
        for (site, url, times) in [(0, "http://a.test/1", 2), (1, "http://b.test/2", 5)] {
            for _ in 0..times {
                let cost = Cost { requests: 1, body_bytes: 10, time_us: 20 };
                let key = Key::of(url.as_bytes());
                meters.site(site).asked_origin(key, &url.into(), cost, Reason::SetCookie.into());
            }
        }
        let list = |query| TopMisses::of(&meters, &TopRequest::parse(Some(query)).expect("a request"));
        let all = list("by=bytes");
        assert_eq!((all.total, all.urls.len()), (70, 2));
        assert_eq!((all.urls[0].url.as_str(), all.urls[0].body_bytes), ("http://b.test/2", 50));
        assert_eq!(
            (all.urls[0].reason.as_str(), &*all.urls[0].settings[0]),
            ("set-cookie", "rule.set_cookie")
        );
        assert_eq!(list("site=a.test/").urls.len(), 1);
        assert_eq!(list("n=1").urls.len(), 1);
        assert_eq!(list("site=c.test/").urls, []);
    }
}
