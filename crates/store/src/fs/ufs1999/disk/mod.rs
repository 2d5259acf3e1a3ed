//! A disk: what a transfer takes, and in which order waiting transfers are served.
//!
//! After Ruemmler and Wilkes, "An Introduction to Disk Drive Modeling" (IEEE Computer, March 1994):
//! a seek grows with the square root of a short distance, while the arm speeds up, and linearly
//! with a long one; then the platter turns until the first sector comes by; heads are switched, and
//! the next cylinder reached, within a skew that the layout leaves for it; the drive reads on into
//! a buffer after a read, so that a sequential reader waits for no turn. A write has no such help:
//! the drives of the time did not report a write before it was on the platter.

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
