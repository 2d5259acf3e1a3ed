//! Streams in the steady-state model: few titles, orders of magnitude larger, that play while they
//! arrive.
//!
//! The dissertation names the changes (5.4, 6.4): storage efficiency begins to count, the last
//! byte's latency does not, the use of the network does, and multicast competes with caching. The
//! measure here is the number of streams that cross the wide area at once:
//!
//! ```text
//!     unicast          λN·D                               every viewer has a stream for the
//!                                                         length D of a title
//!     caches           Σ r_i·(1 − hit_i)·D                misses of the caches together
//!     each for itself  the same for N/m viewers, times m  proxies that do not cooperate
//!     multicast        Σ √(2·r_i·D + 1) − 1               patching with the best window: a viewer
//!                                                         joins the running multicast and fetches
//!                                                         the missed beginning
//! ```
//!
//! The last line is for Poisson arrivals at rate r_i (Gao and Towsley, *Supplying instantaneous
//! video-on-demand services using controlled multicast*, IEEE Multimedia Systems 1999).

use super::{Model, WanError, quantity};

/// Streams that cross the wide area at once, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Streams {
    /// Streams when every viewer has his own.
    pub unicast: f64,
    /// Streams when all proxies cooperate, and keep each title once.
    pub cooperative: f64,
    /// Streams when each proxy keeps the titles of its own clients.
    pub separate: f64,
    /// Streams when viewers of one title share it, and nothing is kept.
    pub multicast: f64,
}

impl Model {
    /// Returns the streams that cross the wide area, for titles of `title_seconds` and clients
    /// behind `proxies` proxies. The model's documents are the titles, its requests the starts of
    /// streams. Uncacheable titles are not shared by multicast either, but streamed to each viewer.
    ///
    /// # Errors
    /// When a number is negative or none, or there are no proxies.
    pub fn streams(&self, population: f64, proxies: f64, title_seconds: f64) -> Result<Streams, WanError> {
        quantity("the length of a title", title_seconds)?;
        quantity("the number of proxies", proxies)?;
        if proxies < 1.0 {
            return Err(WanError::NotAQuantity { what: "the number of proxies", found: proxies });
        }
        let web = self.web();
        let days = title_seconds / SECONDS_A_DAY;
        let unicast = web.requests_per_day * population * days;
        let missed = |hit_rate: f64| unicast * (1.0 - hit_rate);
        let shared =
            self.over_documents(population, &|_, _, per_day| (2.0 * per_day * days + 1.0).sqrt() - 1.0);
        Ok(Streams {
            unicast,
            cooperative: missed(self.hit_rate(population)?),
            separate: missed(self.hit_rate(population / proxies)?),
            multicast: web.cacheable * shared.total() + (1.0 - web.cacheable) * unicast,
        })
    }
}

const SECONDS_A_DAY: f64 = 86_400.0;
