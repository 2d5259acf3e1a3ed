//! Shoal's vocabulary: the words that every other crate shares.
//!
//! Keys, times, quantities, the fields of messages and tables of words, with no behaviour beyond
//! arithmetic on them.
//! Nothing here touches a socket, a file, a clock or a source of randomness.

#![forbid(unsafe_code)]

mod byte_class;
mod fields;
mod key;
mod lazy_words;
mod quantity;
mod rendezvous;
mod time;

pub use byte_class::alphanumeric_and;
pub use fields::{FieldLine, FieldLines, Fields, value_text, written_fields};
pub use key::{Key, KeySecret, ObjectKey};
pub use lazy_words::LazyWords;
pub use quantity::{ByteCount, QuantityError, parse_duration};
pub use rendezvous::{mixed, rendezvous_score};
pub use time::Timestamp;
