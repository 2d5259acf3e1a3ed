//! Reverse sites: selection of a request's site, and client data for its upstream.

#![forbid(unsafe_code)]

mod forwarded;
mod speaking;
mod table;
mod told;

pub use forwarded::add_forwarded;
pub use speaking::FieldStatement;
pub use table::{Route, RouteError, Routes};
pub use told::{ClientReport, Heard, Way};

use shoal_access as access;
use shoal_message as message;
use shoal_telemetry::{by_site, ip_text};
use shoal_upstream as upstream;
