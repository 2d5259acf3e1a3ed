//! Caches of a given size with LRU replacement, in the steady-state model.
//!
//! Che, Tung, Wang, *Hierarchical Web caching systems: modeling, design and experimental results*,
//! IEEE JSAC 2002: an LRU cache keeps a document for the characteristic time τ after its last
//! request, nearly the same for all documents. At τ the expected content fills the cache: Σ p_c·(1
//! − e^−λN p_i τ)·E(S) = B. A document that changed stays until it is evicted or fetched again. A
//! hit needs the last request within τ and no change since; for exponential intervals r/(r+μ)·(1 −
//! e^−(r+μ)τ).
//!
//! The dissertation holds that capacity does not matter (5.2.1, footnote 1); this module finds the
//! size from which that is true. Costs some sixty sums.

use super::{HitRate, Model, WanError, quantity};

/// Results of a cache of a given size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finite {
    /// C_N of this cache.
    pub cacheable: HitRate,
    /// τ: time of a document in the cache after its last request, in days; infinite where all
    /// cacheable documents fit.
    pub characteristic_days: f64,
}

impl Model {
    /// Returns the results of one LRU cache of `cache_bytes` bytes for `population` clients.
    ///
    /// # Errors
    /// When the population or the size is negative or no number.
    pub fn finite(&self, population: f64, cache_bytes: f64) -> Result<Finite, WanError> {
        quantity("the population", population)?;
        quantity("the size of the cache", cache_bytes)?;
        let characteristic_days = self.characteristic_days(population, cache_bytes);
        let cacheable = self.kept_hit_rate(population, characteristic_days)?;
        Ok(Finite { cacheable, characteristic_days })
    }

    fn characteristic_days(&self, population: f64, cache_bytes: f64) -> f64 {
        let web = self.web();
        let per_document = web.cacheable * web.mean_bytes;
        let rate = web.requests_per_day * population;
        if cache_bytes >= per_document * web.documents as f64 || rate == 0.0 {
            return f64::INFINITY;
        }
        // Each distinct document takes at least one request, so that filling takes at least this
        // long.
        let mut low = cache_bytes / per_document / rate;
        if low == 0.0 {
            return 0.0;
        }
        let fills = |days: f64| {
            let held = self.over_documents(population, &|_, _, per_day| -(-per_day * days).exp_m1());
            held.total() * per_document >= cache_bytes
        };
        let mut high = low;
        while !fills(high) && high < MOST_DAYS {
            high *= 8.0;
        }
        while high / low > 1.0 + 1e-9 {
            let middle = (low * high).sqrt();
            if fills(middle) { high = middle } else { low = middle }
        }
        high
    }
}

/// Longest characteristic time: a cache that is not full by then keeps every requested document.
const MOST_DAYS: f64 = 1e12;
