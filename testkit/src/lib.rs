//! Tests that cross crates: a scripted origin, the binary under test, raw clients, guarantees.
//!
//! ```text
//!   client::Connection ──bytes──► shoal::Shoal (the built binary) ──bytes──► origin::Origin
//!          ▲                            │ access log, metrics, store            │ counters, heads received
//!          └────────────── a test expects answers and counters ────────────────┘
//! ```
//!
//! Everything is scripted: bodies follow from their names and seeds, the order of events is fixed
//! with [`origin::Gate`]s where it matters, and every wait has a limit. A failed expectation panics
//! with what was seen, and the binary's log is printed.

#![forbid(unsafe_code)]

pub mod acme;
pub mod address;
pub mod certificates;
pub mod checksums;
pub mod client;
pub mod cluster;
pub mod disk;
pub mod fields;
pub mod h2;
pub mod h3;
pub mod hanging_disk;
pub mod hosts;
pub mod interception;
pub mod load;
pub mod members;
pub mod missing;
pub mod names;
pub mod neighbours;
pub mod origin;
pub mod registry;
pub mod seeded;
pub mod shim;
pub mod shoal;
pub mod squid;
pub mod training;
pub mod versions;
pub mod wait;
pub mod wire;

pub use client::{Connection, Request, Response};
pub use fields::Fields;
pub use hosts::{Host, Hosts};
pub use origin::{Answer, Gate, Origin, Resource};
pub use shoal::{Setup, Shoal};
pub use versions::Versions;
