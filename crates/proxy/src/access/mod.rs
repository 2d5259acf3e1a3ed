//! Access decisions about clients, destinations, credentials and purging.
//!
//! Everything here is a pure function of settings and arguments. The rules judge a name before it
//! is resolved, and every resolved address again before the proxy connects. The proxy connects to
//! exactly the address that was judged, so a DNS answer that changes in between has no effect.

mod address;
mod clients;
mod pattern;
mod peers;
mod rules;
mod users;

pub use address::{canonical, private_class};
pub use clients::ListenerRules;
pub(crate) use clients::contains;
pub use pattern::{HostPattern, HostPatterns, PatternError};
pub use peers::PeerAddresses;
pub use rules::{AccessError, AccessRefusal, ForwardRules, PurgeRules, challenge};
pub use users::{Users, UsersError};
