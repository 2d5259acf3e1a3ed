//! Hits of cooperating caches in a wide area: the steady-state model of Web accesses.
//!
//! Voelker, *Cooperative Caching in Local-Area and Wide-Area Networks*, dissertation, University of
//! Washington, 2000, chapter 5; in part Wolman et al., *On the scale and performance of cooperative
//! Web proxy caching*, SOSP 1999. N clients request n documents with Zipf-like popularity p_i. A
//! document changes at rate μ, which differs between the n_p popular documents and the others. A
//! cache keeps everything, so that a cacheable request hits when the document was requested since
//! its last change:
//!
//! ```text
//!     C_N = Σ p_i · λN p_i / (λN p_i + μ_i)       H_N = p_c · C_N
//!     latency = (1 − H_N)·E(L) + H_N·lat_hit
//! ```
//!
//! | file | contents |
//! |---|---|
//! | [`scheme`] | hierarchies, placement by hash, directories (Table 5.3), and their tiers |
//! | `change` | intervals between changes that are heavy-tailed |
//! | [`finite`] | caches that evict documents not requested lately |
//! | [`costs`] | messages, bytes and the busiest node of each scheme with finite caches |
//! | [`streaming`] | objects that are orders of magnitude larger and play while they arrive |
//! | [`paper`] | Table 5.1 and the dissertation's printed results |
//!
//! The model fits long-run means for requests that come independently. The model has no bursts, no
//! drift of popularity, no cold start. A value costs some 150 evaluations of its term, at any
//! number of documents.

mod change;
pub mod costs;
pub mod finite;
pub mod paper;
mod popularity;
pub mod scheme;
pub mod streaming;

#[cfg(test)]
mod tests;

pub use change::{Change, Law, Tail};

use change::Validity;
use popularity::ZipfPopularity;
use std::cell::Cell;

/// Documents and clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Web {
    /// α: the exponent of popularity, from 0 to 4.
    pub alpha: f64,
    /// n: documents.
    pub documents: u64,
    /// n_p: number of the most popular documents, which change by `popular_change`.
    pub popular: u64,
    /// λ: requests of one client a day.
    pub requests_per_day: f64,
    /// p_c: share of requests with a cacheable response.
    pub cacheable: f64,
    /// E(S): the mean size of a response, in bytes.
    pub mean_bytes: f64,
    /// E(L): time to the last byte from the origin, in seconds.
    pub origin_seconds: f64,
    /// lat_hit: time from a cache that all clients share, in seconds.
    pub hit_seconds: f64,
    /// 1/μ_p: changes of popular documents.
    pub popular_change: Change,
    /// 1/μ_u: changes of the other documents.
    pub unpopular_change: Change,
}

/// Forms of sums over documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Form {
    /// Document by document.
    #[default]
    Sum,
    /// As the integral from 1 to n that the dissertation uses instead.
    Integral,
}

/// The model, prepared for any population.
#[derive(Clone, Debug)]
pub struct Model {
    web: Web,
    popularity: ZipfPopularity,
    popular: Validity,
    unpopular: Validity,
    /// Number of evaluations of a sum's term.
    evaluations: Cell<u64>,
}

/// C_N in its two parts, as shares of all cacheable requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HitRate {
    /// Hits on popular documents.
    pub popular: f64,
    /// Hits on the other documents.
    pub unpopular: f64,
}

impl HitRate {
    /// Returns C_N: the probability that a cacheable request hits.
    pub fn total(self) -> f64 {
        self.popular + self.unpopular
    }
}

/// Results of one cache for all clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedCache {
    /// C_N.
    pub cacheable: HitRate,
    /// H_N: the share of all requests that hit.
    pub hit_rate: f64,
    /// Mean latency of a request, in seconds.
    pub latency_seconds: f64,
    /// B_N: bytes that are saved from the origin, for each request.
    pub saved_bytes: f64,
    /// n·H_N·E(S): the storage as the dissertation estimates it, in bytes.
    pub storage_bytes: f64,
    /// Bytes of cacheable documents that are stored and valid at a moment, the true value of that
    /// estimate. This sum weights documents alike; the estimate weights them by requests.
    pub valid_bytes: f64,
}

impl Model {
    /// Checks the inputs and prepares the model.
    ///
    /// # Errors
    /// When a number is not finite, or outside its range.
    pub fn new(web: Web, form: Form) -> Result<Self, WanError> {
        web.check()?;
        let popularity = ZipfPopularity::new(web.alpha, web.documents as f64, form);
        let (popular, unpopular) = (web.popular_change.prepared()?, web.unpopular_change.prepared()?);
        Ok(Self { web, popularity, popular, unpopular, evaluations: Cell::new(0) })
    }

    /// Returns the inputs.
    pub fn web(&self) -> &Web {
        &self.web
    }

    /// Returns the number of evaluations of a sum's term so far: the cost of the answers.
    pub fn evaluations(&self) -> u64 {
        self.evaluations.get()
    }

    /// Returns C_N for `population` clients; 0 without clients.
    ///
    /// # Errors
    /// When the population is negative or no number.
    pub fn cacheable_hit_rate(&self, population: f64) -> Result<HitRate, WanError> {
        self.kept_hit_rate(population, f64::INFINITY)
    }

    /// Returns H_N for `population` clients.
    ///
    /// # Errors
    /// As [`Model::cacheable_hit_rate`].
    pub fn hit_rate(&self, population: f64) -> Result<f64, WanError> {
        Ok(self.web.cacheable * self.cacheable_hit_rate(population)?.total())
    }

    /// Returns all results of one cache that `population` clients share.
    ///
    /// # Errors
    /// As [`Model::cacheable_hit_rate`].
    pub fn shared(&self, population: f64) -> Result<SharedCache, WanError> {
        let web = &self.web;
        let cacheable = self.cacheable_hit_rate(population)?;
        let hit_rate = web.cacheable * cacheable.total();
        let valid =
            self.over_documents(population, &|validity, _, per_day| validity.valid(per_day, f64::INFINITY));
        Ok(SharedCache {
            cacheable,
            hit_rate,
            latency_seconds: (1.0 - hit_rate) * web.origin_seconds + hit_rate * web.hit_seconds,
            saved_bytes: hit_rate * web.mean_bytes,
            storage_bytes: web.documents as f64 * hit_rate * web.mean_bytes,
            valid_bytes: web.cacheable * (valid.popular + valid.unpopular) * web.mean_bytes,
        })
    }

    /// Returns C_N for `population` clients when the cache was empty `days` days ago. A hit is a
    /// request for a document that was requested since then, with no change after that request.
    ///
    /// # Errors
    /// As [`Model::cacheable_hit_rate`].
    pub fn since_empty(&self, population: f64, days: f64) -> Result<HitRate, WanError> {
        quantity("the days since it was empty", days)?;
        self.kept_hit_rate(population, days)
    }

    /// Returns the expected number of documents that `population` clients have requested after
    /// `days` days.
    ///
    /// # Errors
    /// When a number is negative or none.
    pub fn documents_seen(&self, population: f64, days: f64) -> Result<f64, WanError> {
        quantity("the population", population)?;
        quantity("the days", days)?;
        Ok(self.over_documents(population, &|_, _, per_day| -(-per_day * days).exp_m1()).total())
    }

    /// Returns the least population with a C_N of at least this, to a thousandth; `None` when no
    /// population up to 10^15 reaches it.
    ///
    /// # Errors
    /// When the hit rate is no share of one.
    pub fn population_for(&self, cacheable_hit_rate: f64) -> Result<Option<f64>, WanError> {
        share("the hit rate", cacheable_hit_rate)?;
        let (mut low, mut high) = (1.0, MOST_POPULATION);
        if self.cacheable_hit_rate(high)?.total() < cacheable_hit_rate {
            return Ok(None);
        }
        while high / low > 1.001 {
            let middle = f64::sqrt(low * high);
            let enough = self.cacheable_hit_rate(middle)?.total() >= cacheable_hit_rate;
            if enough { high = middle } else { low = middle }
        }
        Ok(Some(high))
    }

    /// Returns C_N when documents are evicted after `kept_days` days without a request.
    fn kept_hit_rate(&self, population: f64, kept_days: f64) -> Result<HitRate, WanError> {
        quantity("the population", population)?;
        Ok(self.over_documents(population, &|validity, share, per_day| {
            share * validity.valid(per_day, kept_days)
        }))
    }

    /// Returns Σ over documents of a term of their changes, p_i, and λN p_i.
    fn over_documents(&self, population: f64, term: &dyn Fn(&Validity, f64, f64) -> f64) -> HitRate {
        let per_day = self.web.requests_per_day * population;
        let (popular, all) = (self.web.popular as f64, self.web.documents as f64);
        let part = |first, last, validity: &Validity| {
            self.popularity.sum(first, last, &mut |share| {
                self.evaluations.set(self.evaluations.get() + 1);
                term(validity, share, per_day * share)
            })
        };
        HitRate { popular: part(0.0, popular, &self.popular), unpopular: part(popular, all, &self.unpopular) }
    }
}

impl Web {
    fn check(&self) -> Result<(), WanError> {
        if !(0.0..=MOST_ALPHA).contains(&self.alpha) {
            return Err(WanError::Alpha { found: self.alpha });
        }
        if self.documents == 0 || self.documents > MOST_DOCUMENTS {
            return Err(WanError::Documents { found: self.documents });
        }
        if self.popular > self.documents {
            return Err(WanError::Popular { popular: self.popular, documents: self.documents });
        }
        share("the share of cacheable requests", self.cacheable)?;
        quantity("the requests of a client", self.requests_per_day)?;
        quantity("the mean size", self.mean_bytes)?;
        quantity("the latency of origins", self.origin_seconds)?;
        quantity("the latency of a hit", self.hit_seconds)
    }
}

fn quantity(what: &'static str, found: f64) -> Result<(), WanError> {
    if found.is_finite() && found >= 0.0 { Ok(()) } else { Err(WanError::NotAQuantity { what, found }) }
}

fn share(what: &'static str, found: f64) -> Result<(), WanError> {
    if (0.0..=1.0).contains(&found) { Ok(()) } else { Err(WanError::NotAShare { what, found }) }
}

/// Reason why the model has no answer.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum WanError {
    /// A number is negative, infinite or NaN.
    NotAQuantity {
        /// Name of the quantity.
        what: &'static str,
        /// Value of the quantity.
        found: f64,
    },
    /// A number is no share of one.
    NotAShare {
        /// Name of the quantity.
        what: &'static str,
        /// Value of the quantity.
        found: f64,
    },
    /// The exponent of popularity is outside 0 to 4.
    Alpha {
        /// Value of the exponent.
        found: f64,
    },
    /// There are no documents, or more than a sum can distinguish.
    Documents {
        /// Number of documents.
        found: u64,
    },
    /// More documents are popular than there are.
    Popular {
        /// Popular documents.
        popular: u64,
        /// All documents.
        documents: u64,
    },
    /// The median interval between changes is not above 0 and at most the mean.
    Median {
        /// Median, in days.
        median_days: f64,
        /// Mean, in days.
        mean_days: f64,
    },
    /// The shape of a Pareto distribution is outside 1.1 to 1000.
    Shape {
        /// Value of the shape.
        found: f64,
    },
    /// A region has no levels, too many, or no caches below a level.
    Region {
        /// Number of levels.
        levels: usize,
        /// Caches below each cache.
        fanout: u32,
    },
}

impl std::fmt::Display for WanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotAQuantity { what, found } => {
                write!(f, "{what} is {found}, where a number from 0 up is needed")
            }
            Self::NotAShare { what, found } => {
                write!(f, "{what} is {found}, where a share from 0 to 1 is needed")
            }
            Self::Alpha { found } => {
                write!(f, "alpha is {found}, where a number from 0 to {MOST_ALPHA} is needed")
            }
            Self::Documents { found } => {
                write!(f, "there are {found} documents, where 1 to 10^15 are possible")
            }
            Self::Popular { popular, documents } => {
                write!(f, "{popular} documents are popular, where there are only {documents}")
            }
            Self::Median { median_days, mean_days } => write!(
                f,
                "the median interval between changes is {median_days} days, where more than 0 and at most the mean, {mean_days}, is needed"
            ),
            Self::Shape { found } => write!(f, "the Pareto shape is {found}, where 1.1 to 1000 is needed"),
            Self::Region { levels, fanout } => write!(
                f,
                "{levels} levels with {fanout} caches below each are no hierarchy of up to {} levels and 10^9 caches",
                scheme::MOST_LEVELS
            ),
        }
    }
}

impl std::error::Error for WanError {}

/// Largest exponent: steeper than any measured popularity.
const MOST_ALPHA: f64 = 4.0;
/// Largest number of documents: beyond it, ranks would no longer be whole numbers in floating
/// point.
const MOST_DOCUMENTS: u64 = 1_000_000_000_000_000;
/// Largest population: more clients than there will be.
const MOST_POPULATION: f64 = 1e15;
