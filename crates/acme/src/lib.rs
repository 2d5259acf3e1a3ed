//! Certificates from an authority (ACME, RFC 8555): the parts that decide, without sockets and
//! files.
//!
//! ```text
//!   schedule     time of the next order: renewal, back-off, the authority's wishes
//!   challenges   open proofs, which the server and the exchange answer
//!   facts        dates and numbers in a certificate
//! ```
//!
//! The driver in `shoal_proxy` speaks with the authority, and keeps the files.

#![forbid(unsafe_code)]

mod challenges;
mod facts;
mod schedule;

pub use challenges::{Challenges, TlsAnswer};
pub use facts::CertificateFacts;
pub use schedule::{Attempts, Failure, Window, renewal_at};
