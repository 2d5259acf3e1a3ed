//! Parts of connections on both sides of the proxy.
//!
//! These are output that leaves in one call, buffers that idle connections release, and deadlines
//! that are cheap to move. Further parts put bytes back, and lend bodies to the kernel.

mod deadline;
mod lender;
#[cfg(test)]
pub(crate) mod narrow;
mod output;
mod rewind;
pub(crate) mod spare;

pub(crate) use deadline::Deadline;
pub(crate) use lender::{poll_lend, try_send_zero_copy};
pub(crate) use output::{MessageOutput, Rest};
pub(crate) use rewind::Rewind;
