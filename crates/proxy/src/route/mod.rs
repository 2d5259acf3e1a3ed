//! Reverse sites: which site a request is for, and what its upstream is told about the client.

mod forwarded;
mod table;

pub use forwarded::{add_forwarded, is_forwarded, tells_client};
pub use table::{Route, RouteError, Routes};
