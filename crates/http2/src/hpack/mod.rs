//! HPACK, the compression of HTTP/2's field sections (RFC 7541), as functions of bytes.
//!
//! ```text
//!   block ──► Decoder (dynamic table, at most 4 KiB) ──► FieldList: names and values in one text
//!   block ◄── encode::{status, field, …}, which keep no table
//! ```
//!
//! Decoding accepts all that the RFC allows. Encoding uses only the static table's names and
//! literal values. An idle connection therefore holds no encoding table, and a head costs little
//! more than a copy of its values. The length of one response never reveals the content of another
//! (section 7.1). The price is 200 to 300 more bytes a head than with a table, no more than HTTP/1
//! sends. nginx does the same.

mod decode;
pub mod encode;
mod fields;
pub mod huffman;
pub mod primitives;
mod tables;

pub use decode::{BadBlock, Decoder};
pub use fields::FieldList;
