//! Reverse sites: which site a request is for, and what its upstream is told about the client.

mod forwarded;
mod speaking;
mod table;
mod told;

pub use forwarded::add_forwarded;
pub use speaking::Speaking;
pub use table::{Route, RouteError, Routes};
pub use told::{Heard, Told, Way};
