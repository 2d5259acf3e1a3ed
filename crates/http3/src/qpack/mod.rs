//! QPACK (RFC 9204) with the static table alone.
//!
//! This side allows the client no dynamic table, and uses none itself. Field sections therefore
//! stand alone: they are decoded in any order, and nothing is kept between them.

mod decode;
pub mod encode;
mod table;

pub use decode::{BadSection, decode};
