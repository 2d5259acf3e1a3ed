//! Disk: the time of a transfer, and the order in which waiting transfers are served.
//!
//! After Ruemmler and Wilkes, "An Introduction to Disk Drive Modeling" (IEEE Computer, March 1994):
//!
//! - A seek grows with the square root of a short distance, while the arm speeds up, and linearly
//!   with a long one. Then the platter turns until the first sector comes by.
//! - Heads switch, and the arm reaches the next cylinder, within a skew that the layout leaves for
//!   it.
//! - The drive reads on into a buffer after a read, so that a sequential reader waits for no turn.
//! - A write has no such help: drives of that time did not report a write before it was on the
//!   platter.

mod arm;
mod model;
mod queue;

use arm::Service;
pub use model::DiskModel;
pub(super) use queue::{Disk, Ticket};

use super::report::Traffic;

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) traffic: Traffic,
    /// First fragment.
    pub(super) fragment: u32,
    pub(super) bytes: u32,
}

/// Virtual time since the machine was made, in nanoseconds.
pub(super) type Nanos = u64;
