//! Decisions about keeping: replacement and admission, without I/O.
//!
//! There are two families. A [`Replacement`] knows every object by a handle and names victims;
//! [`POLICIES`] lists them by name. [`Belady`] and [`BeladySize`] know the future and are for the
//! lab. A [`CyclicPolicy`], such as [`Clock`], decides for a hand that passes over an array. The
//! entries of the array hold the policy's state, so that the state survives a restart. A [`Ring`]
//! makes a `Replacement` of a cyclic policy.
//!
//! Memory-mapped stores of small objects have their own decisions. A [`SegmentLayout`] places
//! segments, and [`Fbc`] chooses the slot to evict when the file is full; [`PlacementTable`] knows
//! the future. A store that writes a log has others. [`Probation`] admits objects that are worth
//! writing, and [`reinsertion`] chooses objects to write again when the log reaches them.
//! [`PinLedger`] bounds those that an operator has pinned.
//! [`NeighbourhoodSizer`] decides how much to read around an object, with [`GroupBorders`] for the
//! records that belong together.
//!
//! [`curve`] tells the hit ratio of caches of other sizes.

#![forbid(unsafe_code)]

mod admission;
mod belady;
mod belady_size;
mod borders;
mod clock;
pub mod curve;
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
mod pin_newcomers;
mod pinning;
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
mod slot_table;
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
pub use pin_newcomers::PinNewcomers;
pub use pinning::PinLedger;
pub use policies::{POLICIES, ReplacementPolicy};
pub use replacement::{Fingerprint, Handle, Replacement, Victim, WEIGHT_MAX};
pub use resident::resident_first;
pub use ring::Ring;
pub use s3_fifo::S3Fifo;
pub use second_chance::SecondChance;
pub use sieve::Sieve;
pub use slot_table::SlotTable;
pub use slru::Slru;
pub use w_tiny_lfu::WTinyLfu;
