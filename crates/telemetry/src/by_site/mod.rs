//! Counts by site, and the URLs that cost each site's origins most.
//!
//! ```text
//!  hit in RAM ──────────────► SiteMeter: responses, bytes, one time in 64
//!  finished record ─────────► SiteMeter: responses, bytes, times
//!  request to an origin ─► CostAccount ─► SiteMeter: requests by reason, bytes
//!                                     └─► OriginCosts: the URLs with most requests, bytes, time
//! ```
//!
//! Labels come from the settings alone: the first host of a site with its path prefix, for at most
//! [`SITES_MAX`] sites. Further labels are `other` for the rest, `forward`, and `none` for requests
//! without a site.
//! Counters are kept per core ([`crate::per_core`]), so that a hit in RAM adds two numbers without
//! a lock.

mod account;
mod costs;
mod heavy_hitters;
mod latency;
mod meter;
mod reason;
mod table;

pub use account::CostAccount;
pub use costs::{Cost, CostKind, ListedUrl};
pub use latency::{BOUNDS, BUCKETS, Source, quantile_us};
pub use meter::{MeterSums, SAMPLED, SiteMeter};
pub use reason::MissReason;
pub use table::{SITES_MAX, SiteMeters};
