//! Generates proxy traffic with the properties that caches depend on, where no real trace is large
//! enough.
//!
//! The model, with the sources of its parts:
//!
//! - Popularity of pages is Zipf-like, weight r^−alpha, 0 < alpha ≤ 1 (Breslau et al.: Web Caching
//!   and Zipf-like Distributions, INFOCOM 1999: 0.64 to 0.83 at proxies).
//! - A page is a document and embedded objects of the same host, requested in short succession. The
//!   pages of a host have some of these objects in common. This gives server names their locality
//!   (Maltzahn 1999, 2.4.1 and Figure 2).
//! - A client stays on a host for a few pages, then goes elsewhere. Pages within a host are drawn
//!   by the same weights, so that staying changes the order of requests and not popularity. With
//!   `recall` the client goes back to a page that it has just seen.
//! - Sizes are lognormal with a Pareto tail, a function of the object alone (Barford, Crovella:
//!   Generating Representative Web Workloads, SIGMETRICS 1998). With `size-popularity` sizes
//!   correlate with the rank of the page by a normal copula, which keeps the distribution.
//! - Some objects change, each by a Poisson process, popular ones at a rate of their own (Wolman et
//!   al.: On the scale and performance of cooperative Web proxy caching, SOSP 1999). The trace
//!   shows a change as another size.
//! - The number of pages is not a parameter. A search finds the number for which an infinite cache
//!   hits the requested share over the whole trace.
//!
//! The model has no drift of popularity and no time of day.
//!
//! Costs about one heap operation and 20 comparisons a request, a dozen times over for the search;
//! 40 bytes a page.

mod change;
mod normal;
mod parse;
mod sizes;
pub mod specweb99;
#[cfg(test)]
mod tests;
mod walk;
mod web;

pub use change::Changes;
pub use sizes::Sizes;

use crate::record::Record;
use crate::trace::{Request, Trace};
use change::Versions;
use walk::Walk;
use web::Web;

/// Parameters of the traffic. Equal values give equal traces.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Traffic {
    /// Seed of all random draws.
    pub seed: u64,
    /// Number of requests.
    pub requests: usize,
    /// Exponent of popularity.
    pub alpha: f64,
    /// Share of requests for objects that were requested before.
    pub hit_ratio: f64,
    /// Number of clients.
    pub clients: u32,
    /// Mean number of embedded objects a page, geometrically distributed.
    pub embedded: f64,
    /// Share of embedded objects that the pages of a host have in common.
    pub common: f64,
    /// Mean number of pages a host.
    pub pages_per_host: f64,
    /// Probability that a client's next page is on the same host.
    pub stay: f64,
    /// Probability that a client goes back to a page that it has just seen.
    pub recall: f64,
    /// Requests a second, of all clients together.
    pub rate: f64,
    /// Distribution of the sizes.
    pub sizes: Sizes,
    /// Correlation of a page's popularity with the sizes of its objects: from -1, where popular
    /// objects are the smallest, to 1.
    pub size_popularity: f64,
    /// Changes of objects.
    pub changes: Changes,
}

impl Default for Traffic {
    /// A day of a proxy like Maltzahn's: half a million requests, of which an infinite cache hits
    /// 59%; sizes with a mean of about 13 KB.
    fn default() -> Self {
        Self {
            seed: 1,
            requests: 500_000,
            alpha: 0.75,
            hit_ratio: 0.59,
            clients: 500,
            embedded: 3.0,
            common: 0.2,
            pages_per_host: 30.0,
            stay: 0.7,
            recall: 0.0,
            rate: 10.0,
            sizes: Sizes::default(),
            size_popularity: 0.0,
            changes: Changes::default(),
        }
    }
}

/// Error for values that no traffic can satisfy.
#[derive(Clone, PartialEq, Debug)]
pub struct Impossible(pub(crate) String);

impl std::fmt::Display for Impossible {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Impossible {}

impl Traffic {
    /// Makes the trace.
    ///
    /// # Errors
    /// Fails when a value makes no sense, or no number of pages gives the hit ratio to half a
    /// point.
    pub fn make(&self) -> Result<Trace, Impossible> {
        self.check()?;
        let web = self.fitting_web()?;
        let mut trace = Trace::with_clients(self.clients);
        let mut numbers = vec![u32::MAX; web.objects()];
        let mut walk = Walk::new(self, &web);
        let mut versions = Versions::new(self, &web);
        for _ in 0..self.requests {
            let step = walk.step();
            let bytes = versions.bytes(step.object, step.time_ms);
            let number = &mut numbers[step.object as usize];
            let request = Request { time_ms: step.time_ms, bytes, object: *number, client: step.client };
            if *number != u32::MAX {
                trace.repeat(request);
                continue;
            }
            *number = trace.objects().len() as u32;
            let client = step.client.to_string();
            let record = Record {
                time_ms: Some(step.time_ms),
                client: Some(client.into()),
                url: web.url(step.object).into(),
                bytes: Some(bytes),
                ..Record::default()
            };
            trace.push(&record, 0);
        }
        Ok(trace)
    }

    /// Returns the web of the size that gives the hit ratio. More pages mean fewer repeats, so that
    /// bisection finds the size.
    fn fitting_web(&self) -> Result<Web, Impossible> {
        let (mut low, mut high) = (1usize, self.requests.max(1).saturating_mul(PAGES_PER_REQUEST));
        let mut best: Option<(f64, Web)> = None;
        for _ in 0..SEARCH_STEPS {
            // The search bisects the ratio, since numbers of pages span orders of magnitude.
            let pages = ((low as f64 * high as f64).sqrt() as usize).clamp(low, high);
            let web = Web::new(self, pages);
            let found = self.hit_ratio_over(&web);
            let distance = (found - self.hit_ratio).abs();
            if best.as_ref().is_none_or(|(least, _)| distance < *least) {
                best = Some((distance, web));
            }
            if distance < CLOSE_ENOUGH || high - low <= 1 {
                break;
            }
            if found > self.hit_ratio { low = pages } else { high = pages }
        }
        match best {
            Some((distance, web)) if distance <= TOLERATED => Ok(web),
            _ => Err(Impossible(format!(
                "no number of pages gives {} requests a hit ratio of {}",
                self.requests, self.hit_ratio
            ))),
        }
    }

    /// Returns the hit ratio of an infinite cache.
    fn hit_ratio_over(&self, web: &Web) -> f64 {
        let mut seen = vec![false; web.objects()];
        let mut walk = Walk::new(self, web);
        let hits = (0..self.requests).filter(|_| {
            let object = walk.step().object as usize;
            std::mem::replace(&mut seen[object], true)
        });
        hits.count() as f64 / self.requests as f64
    }

    fn check(&self) -> Result<(), Impossible> {
        let within = |name: &str, value: f64, low: f64, high: f64| match (low..=high).contains(&value) {
            true => Ok(()),
            false => Err(Impossible(format!("{name} is {value} and must be from {low} to {high}"))),
        };
        within("requests", self.requests as f64, 1.0, 1e8)?;
        within("alpha", self.alpha, 0.0, 2.0)?;
        within("hit-ratio", self.hit_ratio, 0.0, 0.999)?;
        within("clients", f64::from(self.clients), 1.0, 1e6)?;
        within("embedded", self.embedded, 0.0, 100.0)?;
        within("common", self.common, 0.0, 1.0)?;
        within("pages-per-host", self.pages_per_host, 1.0, 1e6)?;
        within("stay", self.stay, 0.0, 0.99)?;
        within("recall", self.recall, 0.0, 0.99)?;
        within("size-popularity", self.size_popularity, -1.0, 1.0)?;
        within("rate", self.rate, 1e-3, 1e6)?;
        self.changes.check(within)?;
        self.sizes.check(within)
    }
}

/// Largest number of pages the search tries for each request. With more pages nearly no object is
/// requested twice.
const PAGES_PER_REQUEST: usize = 8;
/// Number of search steps. Each step halves the range of the logarithm.
const SEARCH_STEPS: usize = 24;
/// Difference of hit ratios that ends the search.
const CLOSE_ENOUGH: f64 = 0.0005;
/// Largest difference of hit ratios that is accepted.
const TOLERATED: f64 = 0.005;
