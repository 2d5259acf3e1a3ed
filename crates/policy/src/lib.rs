//! Decisions about keeping: replacement and admission, without I/O.
//!
//! Two families. A [`Replacement`] knows every object by a handle and names victims; [`POLICIES`]
//! lists them by name, and [`Belady`] and [`BeladySize`], who know the future, are for the lab. A
//! [`CyclicPolicy`] policy is what a hand asks while it passes over an array whose entries hold the
//! policy's state themselves, so that it survives a restart: [`Clock`]; a [`Ring`] makes a
//! `Replacement` of it.
//!
//! Beside them, what memory-mapped stores of small objects ask: a [`SegmentLayout`] says where a
//! segment goes, and [`Fbc`] which slot is given up when the file is full; [`PlacementTable`] knows
//! the future. And what a store asks that writes a log: [`Probation`] says which objects are worth
//! writing, [`reinsertion`] which are written again when the log comes round to them, and
//! [`NeighbourhoodSizer`] how much to read around one, with [`GroupBorders`] to say what belongs
//! together.

#![forbid(unsafe_code)]

mod admission;
mod belady;
mod belady_size;
mod borders;
mod clock;
mod cyclic;
mod fbc;
mod fifo;
mod fifo_hand;
mod future;
mod gdsf;
mod ghost;
mod lfu_da;
mod lru;
pub mod neighbourhood;
mod next_uses;
mod packer;
mod policies;
mod queue;
mod ranks;
pub mod reinsertion;
mod replacement;
mod resident;
mod ring;
mod s3_fifo;
mod second_chance;
mod sieve;
mod sketch;
mod slru;
mod w_tiny_lfu;

#[cfg(test)]
mod testing;

pub use admission::{Admission, Probation};
pub use belady::Belady;
pub use belady_size::BeladySize;
pub use borders::GroupBorders;
pub use clock::Clock;
pub use cyclic::{CyclicPolicy, HandDecision};
pub use fbc::Fbc;
pub use fifo::Fifo;
pub use fifo_hand::FifoHand;
pub use future::{FutureOutcome, FuturePlace, PlacementTable};
pub use gdsf::Gdsf;
pub use lfu_da::LfuDa;
pub use lru::Lru;
pub use neighbourhood::NeighbourhoodSizer;
pub use next_uses::NextUses;
pub use packer::{Appender, PAGE_BYTES, Packer, SegmentClass, SegmentLayout};
pub use policies::{POLICIES, ReplacementPolicy};
pub use replacement::{Fingerprint, Handle, Replacement, Victim, WEIGHT_MAX};
pub use resident::resident_first;
pub use ring::Ring;
pub use s3_fifo::S3Fifo;
pub use second_chance::SecondChance;
pub use sieve::Sieve;
pub use slru::Slru;
pub use w_tiny_lfu::WTinyLfu;
