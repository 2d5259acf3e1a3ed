//! What a connection is made of on either side of the proxy: output that leaves in one call,
//! buffers that idle connections do without, a deadline that is cheap to move, bytes put back, a
//! body lent to the kernel.

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
