//! Reverse sites: selection of a request's site, and client data for its upstream.

mod forwarded;
mod speaking;
mod table;
mod told;

pub use forwarded::add_forwarded;
pub use speaking::FieldStatement;
pub use table::{Route, RouteError, Routes};
pub use told::{ClientReport, Heard, Way};
