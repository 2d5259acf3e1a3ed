//! The characteristic time of an LRU cache, for objects of any size.
//!
//! Che, Tung, Wang, *Hierarchical Web caching systems: modeling, design and experimental results*,
//! IEEE JSAC 20(7), 2002. Reasons for its accuracy: Fricker, Robert, Roberts, *A versatile and
//! accurate approximation for LRU cache performance*, ITC 2012. An object leaves when it was not
//! requested during the time t in which the cache is filled once. t is the same for all objects,
//! and counted in accesses:
//!
//! ```text
//!     Σ S_i · (1 − e^(−p_i·t)) = cache        P(hit i) = 1 − e^(−p_i·t)
//! ```
//!
//! The approximation fits independent accesses, any popularity and sizes, and a cache that is large
//! beside its objects. Nothing is fitted. O(n) a step of the search for t, some 60 steps.

use super::{FileCacheResult, Population, transfers};

/// Returns t, in accesses; infinite when everything fits.
pub fn characteristic_time(population: &Population, cache_bytes: f64) -> f64 {
    debug_assert!(cache_bytes >= 0.0, "a cache of {cache_bytes} bytes");
    if population.bytes() <= cache_bytes {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while room(population, high) < cache_bytes && high < TIME_MAX {
        (low, high) = (high, high * 4.0);
    }
    for _ in 0..SEARCH_STEPS {
        let middle = (low + high) / 2.0;
        if room(population, middle) < cache_bytes {
            low = middle
        } else {
            high = middle
        }
        debug_assert!(low <= high, "the search keeps its bounds");
    }
    (low + high) / 2.0
}

/// Returns the accesses that bring an LRU cache into its steady state: two characteristic times, or
/// ten for each object where everything fits.
pub fn warm_up(population: &Population, cache_bytes: f64) -> f64 {
    let time = characteristic_time(population, cache_bytes);
    if time.is_finite() { 2.0 * time } else { population.items().len() as f64 * 10.0 }
}

/// Returns the bytes of the objects requested within a time: the cache with this characteristic
/// time.
pub fn room(population: &Population, time: f64) -> f64 {
    population.items().iter().map(|item| item.bytes * -(-item.probability * time).exp_m1()).sum()
}

/// Returns the disk's work behind the cache.
pub fn outcome(population: &Population, cache_bytes: f64) -> FileCacheResult {
    after(population, characteristic_time(population, cache_bytes))
}

/// Returns the disk's work behind a cache with this characteristic time.
pub fn after(population: &Population, time: f64) -> FileCacheResult {
    debug_assert!(time >= 0.0, "a time of {time}");
    let absent = |probability: f64| (-probability * time).exp();
    let bytes_read = population.sum(|item| item.bytes * absent(item.probability));
    FileCacheResult {
        hit_ratio: 1.0 - population.sum(|item| absent(item.probability)),
        byte_hit_ratio: 1.0 - bytes_read / population.mean_access_bytes().max(f64::MIN_POSITIVE),
        bytes_read,
        transfers: population.sum(|item| transfers(item.bytes) * absent(item.probability)),
    }
}

/// Halvings after the search has found the power of four: relative 2^−40.
const SEARCH_STEPS: usize = 42;
/// Largest time: beyond it no run is expected to access the rarest file.
const TIME_MAX: f64 = 1e18;
