//! Who may do what: decisions about clients, destinations, credentials and purging.
//!
//! Everything here is a pure function of settings and arguments. Names are judged before they are
//! resolved, and every resolved address again before it is connected to; since the connection then
//! goes to the very address that was judged, a DNS answer that changes in between reaches nothing.

mod address;
mod clients;
mod pattern;
mod rules;
mod users;

pub use address::{canonical, private_class};
pub use clients::ListenerRules;
pub use pattern::{HostPattern, PatternError};
pub use rules::{AccessError, AccessRefusal, ForwardRules, PurgeRules};
pub use users::{Users, UsersError};
