//! Access decisions about clients, destinations, credentials and purging.
//!
//! Everything here is a pure function of settings and arguments. The rules judge a name before it
//! is resolved, and every resolved address again before the proxy connects. The proxy connects to
//! exactly the address that was judged, so a DNS answer that changes in between has no effect.

#![forbid(unsafe_code)]

mod address;
mod client_network;
mod clients;
mod door;
mod pattern;
mod peer_shares;
mod peers;
pub mod rate_limit;
mod rules;
pub mod settings_file;
mod users;

pub use address::{canonical, private_class};
pub use client_network::client_network;
pub use clients::{ListenerRules, contains};
pub use door::{DoorDecision, DoorPlace, DoorWay, PeerDoor, peer_address};
pub use pattern::{HostPattern, HostPatterns, PatternError};
pub use peer_shares::{PeerPlace, PeerShares, PeerTurn, ShareRefusal};
pub use peers::PeerAddresses;
pub use rules::{AccessError, AccessRefusal, ForwardRules, PurgeRules, challenge};
pub use users::{Users, UsersError};
