//! HPACK, the compression of HTTP/2's field sections (RFC 7541), as functions of bytes.
//!
//! ```text
//!   block ──► Decoder (dynamic table, at most 4 KiB) ──► FieldList: names and values in one text
//!   block ◄── encode::{status, field, …}, which keep no table
//! ```
//!
//! Reading takes whatever the RFC allows. Writing uses the static table's names and literal values
//! alone: so a connection that waits holds no table for us to write by, a head costs a copy of its
//! values and little more, and what one response says is never seen through the length of another
//! (section 7.1). The price is some two or three hundred bytes more a head than with a table, no
//! more than HTTP/1 sends. nginx does the same.

mod decode;
pub mod encode;
mod fields;
mod huffman;
mod tables;

pub use decode::{BadBlock, Decoder};
pub use fields::FieldList;
