//! Parts of connections on both sides of the proxy.
//!
//! These are output that leaves in one call, buffers that idle connections release, and deadlines
//! that are cheap to move. Further parts put bytes back, lend bodies to the kernel, and exchange
//! keys.

#![forbid(unsafe_code)]

mod deadline;
mod hybrid;
mod lender;
#[cfg(any(test, feature = "fuzzing"))]
pub mod narrow;
mod output;
mod rewind;
pub mod spare;

pub use deadline::Deadline;
pub use hybrid::{X25519MlKem768, hybrid_provider};
pub use lender::{poll_lend, try_send_zero_copy};
pub use output::{MessageOutput, Rest, SENT_AT_ONCE};
pub use rewind::Rewind;
