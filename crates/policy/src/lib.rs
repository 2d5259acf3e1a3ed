//! Decisions about keeping: replacement and admission, without I/O.
//!
//! Two families. A [`Replacement`] knows every object by a handle and names victims: [`Lru`], [`S3Fifo`]. A
//! [`Cyclic`] policy is what a hand asks while it passes over an array whose entries hold the policy's state
//! themselves, so that it survives a restart: [`Clock`].

#![forbid(unsafe_code)]

mod clock;
mod cyclic;
mod lru;
mod queue;
mod replacement;
mod s3_fifo;

#[cfg(test)]
mod testing;

pub use clock::Clock;
pub use cyclic::{Cyclic, Passing};
pub use lru::Lru;
pub use replacement::{Handle, Replacement, Victim};
pub use s3_fifo::S3Fifo;
