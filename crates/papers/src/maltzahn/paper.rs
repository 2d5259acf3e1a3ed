//! The numbers that the paper states: Maltzahn, Richardson, Grunwald, *Reducing the Disk I/O of Web
//! Proxy Server Caches*, USENIX ATC 1999.
//!
//! Section numbers follow the HTML rendering. A number that the paper gives as a figure only,
//! without saying it, is not here.

pub use shoal_lab::machine_runs::paper::{PAGE_BYTES, REQUESTS};

/// "74% of all object referenced have a size of equal or less than 8K Bytes" (Figure 1).
pub const SMALL: f64 = 0.74;

/// "The α values range from 0.64 to 0.83" (2.2).
pub const ALPHA: (f64, f64) = (0.64, 0.83);

/// "Assuming an infinite cache, the trace leads to a hit rate of 59%" (4).
pub const HIT_RATIO: f64 = 0.59;

/// "Our traces referenced less than 8G Bytes of data" (5).
pub const UNIQUE_BYTES: u64 = 8 << 30;

/// "Only a third of all disk I/O are reads even though the cache hit rate is 59%" (5).
pub const READS: f64 = 1.0 / 3.0;

/// "SquidM and SquidML places 32% of the cached objects across page boundaries" (5).
pub const CROSSING_OBJECTS: f64 = 0.32;

/// "30% of the cache hits were to objects that are crossing page boundaries" (5).
pub const CROSSING_HITS: f64 = 0.30;

/// "70% of the hits occur in the first quarter of the memory-mapped cache file" (Figure 6).
pub const FIRST_QUARTER: f64 = 0.70;
